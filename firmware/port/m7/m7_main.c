#include "firmware/port/m7/m7.h"
#include "firmware/port/port.h"
#include "firmware/net/say.h"
_Noreturn void m7_main(void)
{
    say("%s, reset: %s", port_firmware, m7_reset_reason());
    for (;;)
        port_wait(1000);
}
