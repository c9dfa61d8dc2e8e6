/* Formatting into a buffer of the caller's, in one pass; what does not fit is cut. */
#include "firmware/net/say.h"

#include "firmware/port/port.h"

#include <stdbool.h>
#include <string.h>

enum { LINE = 200 };

struct out {
    char *to;
    uint32_t room, n;
};

static void put(struct out *out, char c)
{
    if (out->n + 1 < out->room)
        out->to[out->n++] = c;
}

/* Blanks stand before the sign, zeroes behind it. */
static void put_number(struct out *out, bool minus, uint32_t value, uint32_t base, uint32_t width, char pad)
{
    char digits[12];
    uint32_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    if (minus && pad == '0')
        put(out, '-');
    for (uint32_t used = n + minus; used < width; used++)
        put(out, pad);
    if (minus && pad != '0')
        put(out, '-');
    while (n > 0)
        put(out, digits[--n]);
}

static void put_signed(struct out *out, int32_t value, uint32_t width, char pad)
{
    put_number(out, value < 0, value < 0 ? 0u - (uint32_t)value : (uint32_t)value, 10, width, pad);
}

static void put_text(struct out *out, const char *text)
{
    for (text = text != NULL ? text : "(null)"; *text != 0; text++)
        put(out, *text);
}

uint32_t text_vformat(char *to, uint32_t room, const char *format, va_list arguments)
{
    struct out out = {to, room, 0};
    for (; *format != 0; format++) {
        if (*format != '%') {
            put(&out, *format);
            continue;
        }
        char pad = *++format == '0' ? '0' : ' ';
        uint32_t width = 0;
        for (; *format >= '0' && *format <= '9'; format++)
            width = width * 10 + (uint32_t)(*format - '0');
        if (*format == 's')
            put_text(&out, va_arg(arguments, const char *));
        else if (*format == 'c')
            put(&out, (char)va_arg(arguments, int));
        else if (*format == 'd')
            put_signed(&out, va_arg(arguments, int), width, pad);
        else if (*format == 'u' || *format == 'x')
            put_number(&out, false, va_arg(arguments, unsigned), *format == 'x' ? 16 : 10, width, pad);
        else if (*format != 0)
            put(&out, *format);
        else
            break;
    }
    if (room > 0)
        to[out.n] = 0;
    return out.n;
}

uint32_t text_format(char *to, uint32_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    uint32_t n = text_vformat(to, room, format, arguments);
    va_end(arguments);
    return n;
}

void say(const char *format, ...)
{
    char line[LINE];
    va_list arguments;
    uint32_t ms = (uint32_t)(port_now_us() / 1000);
    uint32_t n =
        text_format(line, sizeof line - 2, "[%5u.%03u] ", (unsigned)(ms / 1000), (unsigned)(ms % 1000));
    va_start(arguments, format);
    n += text_vformat(line + n, (uint32_t)sizeof line - 2 - n, format, arguments);
    va_end(arguments);
    memcpy(line + n, "\r\n", 2);
    port_console(line, n + 2);
}
