/*
 * A small mutating driver: takes the target's seeds, changes them at random and runs the target, `--seconds
 * N` long or
 * `--runs N` times from `--seed S`; with file names it runs those files once each. Deterministic for one
 * seed. The input in hand lies in a shared mapping of <program>.last, so that it survives the crash that it
 * causes; one that takes longer than 10 s ends the run as a failure.
 */
#include "server/base/clock.h"
#include "server/base/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/prng.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEEDS_MAX = 256, INPUT_SECONDS = 10 };

struct input {
    uint8_t *bytes;
    size_t size;
};

static struct input seeds[SEEDS_MAX];
static unsigned n_seeds;
static uint8_t *scratch; /* FUZZ_INPUT_MAX bytes */
static uint8_t *kept;    /* the mapping: u64 size, then the bytes */
static char kept_path[512];

static void too_slow(int signal_number)
{
    (void)signal_number;
    static const char text[] = "fuzz: one input took too long\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    abort();
}

static void open_kept(const char *program)
{
    (void)snprintf(kept_path, sizeof kept_path, "%s.last", program);
    size_t size = sizeof(uint64_t) + FUZZ_INPUT_MAX;
    int fd = open(kept_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size)) {
        perror(kept_path);
        exit(2);
    }
    kept = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (kept == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
}

static void run(const uint8_t *bytes, size_t size)
{
    uint64_t n = size;
    memcpy(kept, &n, sizeof n);
    if (size)
        memcpy(kept + sizeof n, bytes, size);
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        exit(2);
    if (size)
        memcpy(exact, bytes, size);
    (void)alarm(INPUT_SECONDS);
    fuzz_one(exact, size);
    (void)alarm(0);
    free(exact);
}

static void load_seeds(void)
{
    for (size_t n; n_seeds < SEEDS_MAX && (n = fuzz_seed(n_seeds, scratch, FUZZ_INPUT_MAX)); n_seeds++) {
        uint8_t *copy = malloc(n);
        if (!copy)
            exit(2);
        memcpy(copy, scratch, n);
        seeds[n_seeds] = (struct input){copy, n};
    }
    if (n_seeds == 0) {
        (void)fputs("fuzz: the target has no seeds\n", stderr);
        exit(2);
    }
}

/* A number that programs tend to get wrong. */
static uint32_t odd_number(struct prng *prng)
{
    static const uint32_t odd[] = {
        0,          1,          2,          3,          4,          7,          8,         15,    16,
        127,        128,        255,        256,        32767,      32768,      65534,     65535, 65536,
        0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0, 0xfffffffe, 0xffffffff};
    uint32_t n = odd[prng_range(prng, 0, (int32_t)(sizeof odd / sizeof odd[0]) - 1)];
    return prng_one_in(prng, 4) ? n + (uint32_t)prng_range(prng, -4, 4) : n;
}

static size_t any_place(struct prng *prng, size_t size)
{
    /* Half of the time near the start, where headers are. */
    size_t span = prng_one_in(prng, 2) && size > 256 ? 256 : size;
    return (size_t)(prng_next(prng) % span);
}

/* Removes or doubles a stretch; returns the new size. */
static size_t change_length(struct prng *prng, size_t size)
{
    size_t at = any_place(prng, size), n = (size_t)prng_range(prng, 1, 32);
    n = n < size - at ? n : size - at;
    if (prng_one_in(prng, 2)) {
        memmove(scratch + at, scratch + at + n, size - at - n);
        return size - n;
    }
    if (size + n > FUZZ_INPUT_MAX)
        return size;
    memmove(scratch + at + n, scratch + at, size - at);
    return size + n;
}

/* One change of scratch[0..size); returns the new size. */
static size_t mutate(struct prng *prng, size_t size)
{
    if (size == 0)
        return 0;
    size_t at = any_place(prng, size);
    uint32_t number = odd_number(prng);
    switch (prng_range(prng, 0, 7)) {
    case 0:
        scratch[at] ^= (uint8_t)(1 << prng_range(prng, 0, 7));
        return size;
    case 1:
        scratch[at] = (uint8_t)prng_next(prng);
        return size;
    case 2:
        scratch[at] = (uint8_t)(scratch[at] + prng_range(prng, -3, 3));
        return size;
    case 3:
    case 4: {
        size_t n = prng_one_in(prng, 2) ? 4 : 2;
        at -= at % n;
        if (at + n <= size)
            memcpy(scratch + at, &number, n);
        return size;
    }
    case 5: {
        size_t from = any_place(prng, size), n = (size_t)prng_range(prng, 1, 16);
        size_t end = from > at ? from : at;
        n = n < size - end ? n : size - end;
        memmove(scratch + at, scratch + from, n);
        return size;
    }
    case 6:
        return change_length(prng, size);
    default:
        return prng_one_in(prng, 4) ? at : size;
    }
}

static void run_mutated(struct prng *prng)
{
    const struct input *seed = &seeds[prng_range(prng, 0, (int32_t)n_seeds - 1)];
    memcpy(scratch, seed->bytes, seed->size);
    size_t size = seed->size;
    for (int32_t changes = prng_range(prng, 1, prng_one_in(prng, 4) ? 24 : 3); changes > 0; changes--)
        size = mutate(prng, size);
    run(scratch, size);
}

static int run_files(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        uint8_t *bytes;
        size_t size;
        struct error error;
        error_clear(&error);
        if (file_read(argv[i], sizeof(uint64_t) + FUZZ_INPUT_MAX, &bytes, &size, &error) < 0) {
            (void)fprintf(stderr, "%s\n", error.message);
            return 2;
        }
        /* What a crash left: its size stands before it. */
        uint64_t n = size;
        size_t skip = 0, length = strlen(argv[i]);
        if (length > 5 && strcmp(argv[i] + length - 5, ".last") == 0 && size >= sizeof n) {
            memcpy(&n, bytes, sizeof n);
            skip = sizeof n;
        }
        if (n <= size - skip)
            run(bytes + skip, (size_t)n);
        free(bytes);
    }
    return 0;
}

int main(int argc, char **argv)
{
    scratch = malloc(FUZZ_INPUT_MAX);
    if (!scratch)
        return 2;
    (void)signal(SIGALRM, too_slow);
    if (argc > 1 && argv[1][0] != '-') {
        kept = calloc(1, sizeof(uint64_t) + FUZZ_INPUT_MAX + sizeof(uint64_t));
        return kept ? run_files(argc, argv) : 2;
    }
    uint64_t seconds = 0, runs = 0, seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = value;
        else if (strcmp(argv[i], "--runs") == 0)
            runs = value;
        else if (strcmp(argv[i], "--seed") == 0)
            seed = value;
    }
    open_kept(argv[0]);
    load_seeds();
    for (unsigned i = 0; i < n_seeds; i++)
        run(seeds[i].bytes, seeds[i].size);
    struct prng prng = prng_seed(seed);
    uint64_t end = clock_monotonic_us() + seconds * 1000000u, done = 0;
    for (; done < runs || clock_monotonic_us() < end; done++)
        run_mutated(&prng);
    (void)printf("%llu inputs from %u seeds\n", (unsigned long long)done, n_seeds);
    (void)unlink(kept_path);
    for (unsigned i = 0; i < n_seeds; i++)
        free(seeds[i].bytes);
    free(scratch);
    return 0;
}
