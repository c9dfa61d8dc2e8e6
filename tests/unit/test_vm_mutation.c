/*
 * The mutation test: every field of every record of the programs of ENCODING A is changed, bit by bit and to
 * random values. Each mutant is refused when it is opened or checked, or it is harmless to memory and ends;
 * and one that the bounds check lets through never meets a bound in its run. Mutants also run unchecked, for
 * the machine must be safe on its own. The arena stands between guard zones; under sanitizers its every byte
 * is guarded.
 */
#include "server/model/reference.h"
#include "tests/support/net_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef SHOAL_SANITIZE
enum { BITS_ONE_IN = 12, RANDOM_VALUES = 1 };
#else
enum { BITS_ONE_IN = 3, RANDOM_VALUES = 3 };
#endif
enum { ALIGNED = 16 };

struct field {
    uint8_t at, bytes;
};

#define FIELD(type, name)                                                  \
    {                                                                      \
        (uint8_t) offsetof(type, name), (uint8_t)sizeof(((type *)0)->name) \
    }
#define RANGE(name) FIELD(struct fragment_range, name)
#define VIEW(name) FIELD(struct fragment_view, name)
#define CODE(name) FIELD(struct fragment_code, name)
#define TRANSFER(name) FIELD(struct fragment_transfer, name)
#define PARAMS(name) FIELD(struct nn_params, name)
#define SLICE(name) FIELD(struct fragment_slice, name)
#define HEADER(name) FIELD(struct fragment_header, name)

static const struct field range_fields[] = {RANGE(a),      RANGE(b0),   RANGE(b1),
                                            RANGE(div),    RANGE(lo),   RANGE(hi),
                                            RANGE(parent), RANGE(loop), RANGE(reserved[0])};
static const struct field view_fields[] = {
    VIEW(offset), VIEW(row_stride), VIEW(pixel_stride), VIEW(tensor), VIEW(region),    VIEW(elem),
    VIEW(rows),   VIEW(w_cap),      VIEW(c_cap),        VIEW(h),      VIEW(w),         VIEW(c),
    VIEW(h0),     VIEW(w0),         VIEW(c0),           VIEW(part_c), VIEW(part_c_of), VIEW(part_h)};
static const struct field code_fields[] = {
    CODE(op),      CODE(form), CODE(loop), CODE(reserved), CODE(params), CODE(in[0]), CODE(in[1]), CODE(out),
    CODE(scratch), CODE(h),    CODE(w),    CODE(c),        CODE(k),      CODE(slice), CODE(layer), CODE(arg)};
static const struct field transfer_fields[] = {
    TRANSFER(id), TRANSFER(exchange), TRANSFER(rank), TRANSFER(from), TRANSFER(to), TRANSFER(wire),
    TRANSFER(h0), TRANSFER(h1),       TRANSFER(w0),   TRANSFER(w1),   TRANSFER(c0), TRANSFER(c1)};
static const struct field params_fields[] = {PARAMS(kernel_h),
                                             PARAMS(kernel_w),
                                             PARAMS(stride_h),
                                             PARAMS(stride_w),
                                             PARAMS(dilation_h),
                                             PARAMS(dilation_w),
                                             PARAMS(pad_top),
                                             PARAMS(pad_left),
                                             PARAMS(in_zero_point[0]),
                                             PARAMS(in_zero_point[1]),
                                             PARAMS(out_zero_point),
                                             PARAMS(weight_zero_point),
                                             PARAMS(act_lo),
                                             PARAMS(act_hi),
                                             PARAMS(multiplier),
                                             PARAMS(flags),
                                             PARAMS(reduce),
                                             PARAMS(m[0].mantissa),
                                             PARAMS(m[0].shift),
                                             PARAMS(m[2].shift),
                                             PARAMS(count)};
static const struct field slice_fields[] = {
    SLICE(offset),  SLICE(bytes),  SLICE(c0),   SLICE(c1),     SLICE(k0),          SLICE(k1),
    SLICE(k_block), SLICE(layout), SLICE(kind), SLICE(kernel), SLICE(total_bytes), SLICE(resident_offset)};
static const struct field header_fields[] = {HEADER(magic[0]),
                                             HEADER(version),
                                             HEADER(party),
                                             HEADER(image_bytes),
                                             HEADER(arena_bytes),
                                             HEADER(peak_bytes),
                                             HEADER(executions),
                                             HEADER(ranks),
                                             HEADER(resident_bytes),
                                             HEADER(section[0].offset),
                                             HEADER(section[0].count),
                                             HEADER(section[2].count),
                                             HEADER(section[6].offset),
                                             HEADER(section[6].count)};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
static const struct kind {
    const struct field *fields;
    size_t count, bytes;
} kinds[] = {{range_fields, COUNT(range_fields), sizeof(struct fragment_range)},
             {view_fields, COUNT(view_fields), sizeof(struct fragment_view)},
             {code_fields, COUNT(code_fields), sizeof(struct fragment_code)},
             {transfer_fields, COUNT(transfer_fields), sizeof(struct fragment_transfer)},
             {params_fields, COUNT(params_fields), sizeof(struct nn_params)},
             {slice_fields, COUNT(slice_fields), sizeof(struct fragment_slice)}};

struct subject {
    struct net_image image;
    size_t size;
    const void *input;
    uint32_t input_bytes;
    uint32_t arena_bytes; /* of the board */
    struct prng prng;
    int32_t not_opened, refused, ran, mutants;
};

/* Runs a mutant whose arena is at most the board's; answers the status. */
static int run(struct subject *s, const struct fragment *fragment)
{
    struct local_hub hub;
    struct local_party *party = malloc(sizeof *party);
    local_hub_start(&hub, 1);
    local_hub_put(&hub, 0, fragment->header->party, 0, s->input, s->input_bytes);
    local_party_start(party, &hub, fragment);
    int status = local_run(&party, 1);
    assert_true(party->vm.high_water <= fragment->header->arena_bytes);
    assert_true(local_party_end(party));
    free(party);
    local_hub_end(&hub);
    return status;
}

/* The check in pieces of any size says the same as the check in one go. */
static void check_in_pieces(const struct fragment *fragment, uint32_t arena_bytes, int32_t budget, int whole,
                            const struct fragment_place *at)
{
    struct vm_check check;
    struct fragment_place place = {0};
    int status = vm_check_start(&check, fragment, arena_bytes, &place);
    if (status == STATUS_OK)
        while ((status = vm_check_step(&check, budget, &place)) == VM_RAN)
            ;
    assert_int_equal(status, whole);
    if (whole == STATUS_OK)
        return;
    assert_int_equal(place.section, at->section);
    assert_int_equal(place.record, at->record);
    assert_ptr_equal(place.reason, at->reason);
}

static void try_mutant(struct subject *s, const char *what, size_t record, size_t field)
{
    struct fragment fragment;
    struct fragment_place place;
    s->mutants++;
    if (fragment_open(&fragment, s->image.bytes, s->size, &place) != STATUS_OK) {
        assert_non_null(place.reason);
        s->not_opened++;
        return;
    }
    int checked = vm_check_bounds(&fragment, s->arena_bytes, &place);
    if (s->mutants % 8 == 0)
        check_in_pieces(&fragment, s->arena_bytes, 1 + (int32_t)(s->mutants / 8 % 37), checked, &place);
    if (fragment.header->arena_bytes > s->arena_bytes)
        return;
    int status = run(s, &fragment);
    if (checked != STATUS_OK) {
        s->refused++;
        return;
    }
    s->ran++;
    if (status == STATUS_FRAGMENT_BOUNDS || status == STATUS_FRAGMENT_ENDLESS)
        fail_msg("%s %zu field %zu: passed the check, then %s", what, record, field, status_name(status));
}

static void mutate_field(struct subject *s, uint8_t *at, size_t bytes, const char *what, size_t record,
                         size_t field)
{
    uint8_t before[4];
    memcpy(before, at, bytes);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        if (!prng_one_in(&s->prng, BITS_ONE_IN))
            continue;
        at[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_mutant(s, what, record, field);
        memcpy(at, before, bytes);
    }
    for (int i = 0; i < RANDOM_VALUES; i++) {
        prng_fill(&s->prng, at, bytes);
        if (i % 2 == 1) /* small ones, which are likelier to pass for good */
            for (size_t b = 0; b < bytes; b++)
                at[b] = (uint8_t)(b == 0 ? at[b] % 24 : 0);
        try_mutant(s, what, record, field);
        memcpy(at, before, bytes);
    }
}

static void mutate_all(struct subject *s)
{
    static const char *const names[] = {"range", "view", "code", "transfer", "params", "slice"};
    struct fragment_header *header = (void *)s->image.bytes;
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (size_t r = 0; r < header->section[k].count; r++)
            for (size_t f = 0; f < kinds[k].count; f++) {
                uint8_t *record = s->image.bytes + header->section[k].offset + r * kinds[k].bytes;
                mutate_field(s, record + kinds[k].fields[f].at, kinds[k].fields[f].bytes, names[k], r, f);
            }
    for (size_t f = 0; f < COUNT(header_fields); f++)
        mutate_field(s, s->image.bytes + header_fields[f].at, header_fields[f].bytes, "header", 0, f);
}

static void require_harmless(struct net *net, void *const *tensors, struct program *program, uint64_t seed)
{
    struct subject s = {.image = net_image(program),
                        .input = tensors[net->in],
                        .input_bytes = (uint32_t)net_bytes(net, net->in),
                        .prng = prng_seed(seed)};
    s.size = s.image.fragment.header->image_bytes;
    s.arena_bytes = s.image.fragment.header->arena_bytes + 4096;
    struct fragment_place place;
    assert_int_equal(net_check(&s.image.fragment, &place), STATUS_OK);
    mutate_all(&s);
    print_message("%d mutants: %d not opened, %d refused, %d ran\n", s.mutants, s.not_opened, s.refused,
                  s.ran);
    assert_true(s.not_opened > 0 && s.refused > 0 && s.ran > 0);
    free(s.image.bytes);
}

/* ---- programs ---- */

typedef void (*writer)(struct program *p, const struct net *net);

static void write_rows(struct program *p, const struct net *net)
{
    net_rows(p, net, (struct net_rows){.overlap = true});
}

static void write_streamed_rows(struct program *p, const struct net *net)
{
    net_rows(p, net, (struct net_rows){.stream_in = true, .stream_out = true});
}

static void write_rows_in_patches(struct program *p, const struct net *net)
{
    net_patches(p, net, (struct net_patches){.h = 4, .w = 5, .rows = true});
}

static void write_channels_in_patches(struct program *p, const struct net *net)
{
    net_patches(p, net, (struct net_patches){.h = 3, .w = 4, .k = 3});
}

static void write_partial_sums(struct program *p, const struct net *net)
{
    net_partial(p, net, net_triple(net, 0), 1, 0, 3);
}

static void write_strip(struct program *p, const struct net *net)
{
    net_strip(p, net, 1, 0, true);
}

static void mutants_of(writer write, uint64_t seed)
{
    struct net net = net_block(seed);
    void *tensors[NET_TENSORS_MAX];
    net_reference(&net, seed, tensors);
    struct program *p = program_new(1);
    write(p, &net);
    require_harmless(&net, tensors, p, seed);
    reference_free_tensors(net.graph, tensors);
    net_free(&net);
}

static void every_mutant_of_whole_layers_is_refused_or_harmless(void **state)
{
    (void)state;
    mutants_of(net_full, 1);
}

static void every_mutant_of_streamed_rows_is_refused_or_harmless(void **state)
{
    (void)state;
    mutants_of(write_rows, 2);
    mutants_of(write_streamed_rows, 3);
}

static void every_mutant_of_a_strip_is_refused_or_harmless(void **state)
{
    (void)state;
    mutants_of(write_strip, 4);
}

static void every_mutant_of_patches_is_refused_or_harmless(void **state)
{
    (void)state;
    mutants_of(write_rows_in_patches, 5);
    mutants_of(write_channels_in_patches, 6);
}

static void every_mutant_of_partial_sums_is_refused_or_harmless(void **state)
{
    (void)state;
    mutants_of(write_partial_sums, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutant_of_whole_layers_is_refused_or_harmless),
        cmocka_unit_test(every_mutant_of_streamed_rows_is_refused_or_harmless),
        cmocka_unit_test(every_mutant_of_a_strip_is_refused_or_harmless),
        cmocka_unit_test(every_mutant_of_patches_is_refused_or_harmless),
        cmocka_unit_test(every_mutant_of_partial_sums_is_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
