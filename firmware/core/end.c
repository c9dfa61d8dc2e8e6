/*
 * Why a link ended, in words that let someone find the cause from the log alone: the status, what the board
 * waited for, and the frame that was wrong.
 */
#include "firmware/core/parts.h"

struct text {
    char bytes[200];
    uint32_t n;
};

static void put(struct text *text, const char *from)
{
    for (; *from != 0 && text->n + 1 < sizeof text->bytes; from++)
        text->bytes[text->n++] = *from;
    text->bytes[text->n] = 0;
}

static void put_number(struct text *text, const char *before, uint32_t number)
{
    char digits[11];
    uint32_t at = sizeof digits;
    digits[--at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    put(text, before);
    put(text, digits + at);
}

static void put_frame(struct text *text, const struct wire_header *frame)
{
    put(text, ": ");
    put(text, wire_type_name(frame->type));
    put_number(text, " (type ", frame->type);
    put_number(text, "), inference ", frame->inference);
    put_number(text, ", transfer ", frame->transfer);
    put_number(text, ", offset ", frame->offset);
    put_number(text, ", ", frame->length);
    put(text, " bytes");
}

void board_say_end(struct board *board)
{
    const struct board_hooks *hooks = &board->config.hooks;
    struct text text = {.n = 0};
    bool ours = board->end != NULL || board->bad_frame;
    if (board->end_said || !ours || hooks->log == NULL)
        return;
    board->end_said = true;
    put(&text, "the link is closed: ");
    put(&text, status_text(board->dead));
    if (board->end != NULL) {
        put(&text, ": ");
        put(&text, board->end);
    }
    if (board->bad_frame)
        put_frame(&text, &board->rx_header);
    hooks->log(hooks->context, WIRE_LEVEL_WARNING, text.bytes);
}
