/* One flag that says the server is ending. */
#include "server/base/stop.h"

#include <stdatomic.h>

static atomic_bool asked;

void stop_ask(bool stop)
{
    atomic_store(&asked, stop);
}

bool stop_asked(void)
{
    return atomic_load(&asked);
}

int stop_check(struct error *error)
{
    return stop_asked() ? error_set(error, STATUS_BUSY, "the server is stopping") : 0;
}
