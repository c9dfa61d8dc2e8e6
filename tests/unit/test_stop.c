/* Long computations end early when the server stops, and what they hold is freed. */
#include "server/base/stop.h"
#include "server/model/reference.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

static int run(struct error *error)
{
    struct graph *graph = random_graph(7, NULL);
    size_t in, out = graph_output_bytes(graph);
    void *input = random_input(graph, 1, &in), *output = malloc(out);
    error_clear(error);
    int status = reference_run(graph, input, in, output, out, error);
    free(input);
    free(output);
    graph_free(graph);
    return status;
}

static void the_reference_executor_ends_when_the_server_stops(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(run(&error), 0);
    stop_ask(true);
    assert_int_equal(run(&error), STATUS_BUSY);
    assert_int_equal(error.status, STATUS_BUSY);
    stop_ask(false);
    assert_int_equal(run(&error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_executor_ends_when_the_server_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
