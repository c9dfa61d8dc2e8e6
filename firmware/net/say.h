/* Lines of text for the console, without the C library's printf (and its memory). */
#ifndef SHOAL_FIRMWARE_NET_SAY_H
#define SHOAL_FIRMWARE_NET_SAY_H

#include <stdarg.h>
#include <stdint.h>

/* %s %c %d %u %x %%, with width and 0 (%08x); int-sized numbers only. Cut to the room, always terminated;
 * returns the length. */
uint32_t text_vformat(char *to, uint32_t room, const char *format, va_list arguments);
uint32_t text_format(char *to, uint32_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One line on the console with the time since reset: "[   12.345] text". */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
