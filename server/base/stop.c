/* One flag that says the server is ending, and for each thread whether its answer is still waited for. */
#include "server/base/stop.h"

#include <stdatomic.h>
#include <stddef.h>

enum { CALLS = 8 }; /* between two questions to a watch, which may be a system call */

static atomic_bool asked;

static _Thread_local struct {
    stop_gone *gone;
    const void *context;
    unsigned calls;
    bool left;
} watch;

void stop_ask(bool stop)
{
    atomic_store(&asked, stop);
}

void stop_watch(stop_gone *gone, const void *context)
{
    watch.gone = gone;
    watch.context = context;
    watch.calls = 0;
    watch.left = false;
}

bool stop_asked(void)
{
    if (watch.gone && !watch.left && watch.calls++ % CALLS == 0)
        watch.left = watch.gone(watch.context);
    return watch.left || atomic_load(&asked);
}

int stop_check(struct error *error)
{
    if (!stop_asked())
        return 0;
    return watch.left ? error_set(error, STATUS_CANCELLED, "who asked has gone")
                      : error_set(error, STATUS_BUSY, "the server is stopping");
}
