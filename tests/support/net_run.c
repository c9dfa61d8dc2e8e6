/* Checks and references for programs of networks: see the header. */
#include "tests/support/net_run.h"

#include "server/model/reference.h"

#include <stdio.h>
#include <stdlib.h>

size_t net_bytes(const struct net *net, int32_t tensor)
{
    return (size_t)shape_elements(net_shape(net, tensor));
}

void net_reference(const struct net *net, uint64_t seed, void **tensors)
{
    struct prng prng = prng_seed(seed);
    struct error error;
    size_t n = net_bytes(net, net->in);
    uint8_t *input = malloc(n);
    prng_fill(&prng, input, n);
    error_clear(&error);
    if (reference_run_keep(net->graph, input, n, tensors, &error) < 0) {
        (void)fprintf(stderr, "reference: %s\n", error.message);
        abort();
    }
    free(input);
}

int net_check(const struct fragment *fragment, struct fragment_place *place)
{
    int status = vm_check_bounds(fragment, fragment->header->arena_bytes, place);
    if (status != STATUS_OK)
        return status;
    size_t bytes = vm_check_data_bytes(fragment);
    void *shadow = malloc(bytes);
    status = vm_check_data(fragment, shadow, bytes, place);
    free(shadow);
    return status;
}

struct net_image net_image(struct program *program)
{
    struct net_image image;
    image.bytes = program_image(program, &image.fragment);
    program_free(program);
    return image;
}
