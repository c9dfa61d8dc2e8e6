/*
 * What ends a start early leaves a record at a place that a reset does not clear: the fault with its place,
 * the watchdog, or a text. The next start says it in its log and in HELLO. Runs on the handlers' stack, which
 * a full stack does not touch.
 */
#include "firmware/net/say.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/m7/m7_parts.h"
#include "firmware/port/port.h"

#include <string.h>

enum { RECORD_MAGIC = 0x4B454550, LINE = 32 };

struct record {
    uint32_t magic, check; /* check: not the magic that was there by chance */
    char text[112];
};

static struct record record __attribute__((section(".keep")));
static char reason[112];

static _Noreturn void keep(void)
{
    record.magic = RECORD_MAGIC;
    record.check = ~(uint32_t)RECORD_MAGIC;
    for (uintptr_t at = (uintptr_t)&record / LINE * LINE; at < (uintptr_t)(&record + 1); at += LINE)
        M7_DCCMVAC = (uint32_t)at; /* out of the data cache */
    __asm volatile("dsb" ::: "memory");
    port_console(record.text, (uint32_t)strlen(record.text));
    port_console("\r\n", 2);
    port_reset();
}

static const char *fault_name(uint32_t exception, uint32_t cfsr)
{
    if (cfsr & 0x12u) /* while stacking, or a data access; the guard is told by its address */
        return "memory fault";
    if (cfsr & 0x1u)
        return "instruction fault";
    if (cfsr & 0xFF00u)
        return "bus fault";
    if (cfsr & 0x02000000u)
        return "division by zero";
    if (cfsr & 0xFFFF0000u)
        return "usage fault";
    return exception == 3 ? "hard fault" : "fault";
}

/* A frame on a stack that overflowed is not readable: then its place is not known. */
static bool readable(const uint32_t *frame)
{
    return (uintptr_t)frame >= (uintptr_t)__stack_bottom &&
           (uintptr_t)(frame + 8) <= (uintptr_t)__handler_stack_top;
}

_Noreturn void m7_fault(const uint32_t *frame, uint32_t exception);
_Noreturn void m7_fault(const uint32_t *frame, uint32_t exception)
{
    uint32_t cfsr = M7_CFSR, at = cfsr & 0x80u ? M7_MMFAR : cfsr & 0x8000u ? M7_BFAR : 0;
    bool guard =
        !readable(frame) || (cfsr & 0x80u && at >= (uint32_t)__guard && at < (uint32_t)__stack_bottom);
    if (guard)
        text_format(record.text, sizeof record.text, "stack overflow (status %08x)", (unsigned)cfsr);
    else
        text_format(record.text, sizeof record.text, "%s at %08x from %08x, address %08x, status %08x",
                    fault_name(exception, cfsr), (unsigned)frame[6], (unsigned)frame[5], (unsigned)at,
                    (unsigned)cfsr);
    keep();
}

_Noreturn void m7_watchdog_bites(const uint32_t *frame)
{
    text_format(record.text, sizeof record.text, "watchdog at %08x from %08x",
                readable(frame) ? (unsigned)frame[6] : 0u, readable(frame) ? (unsigned)frame[5] : 0u);
    keep();
}

_Noreturn void port_die(const char *text)
{
    text_format(record.text, sizeof record.text, "%s", text);
    keep();
}

const char *m7_reset_reason(void)
{
    if (reason[0] != 0)
        return reason;
    if (record.magic == RECORD_MAGIC && record.check == ~(uint32_t)RECORD_MAGIC) {
        record.text[sizeof record.text - 1] = 0;
        text_format(reason, sizeof reason, "%s", record.text);
    } else {
        static const char *const names[] = {"power on", "software", "watchdog", "unknown"};
        text_format(reason, sizeof reason, "%s", names[port_cause()]);
    }
    memset(&record, 0, sizeof record);
    return reason;
}
