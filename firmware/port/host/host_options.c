/*
 * Command line: long options only, each with a value. Sizes take the suffixes K and M (1024, 1024 * 1024).
 * The defaults are those of a Teensy 4.1: 448 KiB of arena, 7 MiB of flash for fragments, 600 MHz.
 */
#include "firmware/port/host/host_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RAM_MIN = 1024, RAM_MAX = 1 << 30, FLASH_MAX = 1 << 30 };

void host_options_usage(void)
{
    puts("usage: shoal-board --server HOST:PORT --state DIR [options]\n"
         "  --server HOST:PORT  the server's board address; given twice, they are tried in turn\n"
         "  --state DIR         where key, certificate and fragments are kept; one process at a time\n"
         "  --code CODE         enrolment code, needed once\n"
         "  --name NAME         the name that the board asks for\n"
         "  --ram BYTES         arena (448K)\n"
         "  --flash BYTES       room for fragments (7M)\n"
         "  --clock MHZ         clock that the board reports (600)\n"
         "  --delay-ms MS       delay of each message when it arrives (0)\n"
         "  --layouts MASK      layouts of weights that it asks for: 1 plain (fastest here), 7 as a "
         "Cortex-M7 (1)\n"
         "Exit status: 0 ended by a signal, 1 refused or failed, 2 wrong usage.");
}

static int wrong(const char *option, const char *what)
{
    fprintf(stderr, "shoal-board: %s %s (see --help)\n", option, what);
    return -1;
}

static int number(const char *option, const char *text, bool suffix, uint64_t least, uint64_t most,
                  uint32_t *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return wrong(option, "takes a number");
    }
    unsigned long long value = strtoull(text, &end, 10);
    if (suffix && (*end == 'K' || *end == 'k' || *end == 'M' || *end == 'm')) {
        unsigned shift = *end == 'K' || *end == 'k' ? 10 : 20;
        value = value > most >> shift ? most + 1 : value << shift;
        end++;
    }
    if (*end != 0) {
        return wrong(option, "takes a number");
    }
    if (value < least || value > most) {
        fprintf(stderr, "shoal-board: %s takes %llu to %llu\n", option, (unsigned long long)least,
                (unsigned long long)most);
        return -1;
    }
    *out = (uint32_t)value;
    return 0;
}

static int server(const char *text, struct host_options *o)
{
    const char *colon = strrchr(text, ':'), *from = text;
    if (o->n_servers == HOST_OPTIONS_SERVERS_MAX) {
        return wrong("--server", "stands at most twice");
    }
    struct host_options_server *s = &o->servers[o->n_servers];
    if (colon == NULL || colon == text || strlen(colon + 1) == 0 || strlen(colon + 1) >= sizeof s->port ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return wrong("--server", "takes HOST:PORT");
    }
    size_t n = (size_t)(colon - text);
    if (text[0] == '[' && text[n - 1] == ']') {
        from++;
        n -= 2;
    }
    if (n == 0 || n >= sizeof s->host) {
        return wrong("--server", "takes HOST:PORT");
    }
    memcpy(s->host, from, n);
    s->host[n] = 0;
    strcpy(s->port, colon + 1);
    s->given = text;
    o->n_servers++;
    return 0;
}

static int option(const char *name, const char *value, struct host_options *o)
{
    if (strcmp(name, "--server") == 0) {
        return server(value, o);
    }
    if (strcmp(name, "--state") == 0) {
        o->state = value;
        return 0;
    }
    if (strcmp(name, "--code") == 0) {
        o->code = value;
        return 0;
    }
    if (strcmp(name, "--name") == 0) {
        o->name = value;
        return strlen(value) <= 63 ? 0 : wrong(name, "takes at most 63 bytes");
    }
    if (strcmp(name, "--ram") == 0) {
        int rc = number(name, value, true, RAM_MIN, RAM_MAX, &o->ram_bytes);
        o->ram_bytes &= ~15u;
        return rc;
    }
    if (strcmp(name, "--flash") == 0) {
        return number(name, value, true, 0, FLASH_MAX, &o->flash_bytes);
    }
    if (strcmp(name, "--clock") == 0) {
        return number(name, value, false, 1, 100000, &o->clock_mhz);
    }
    if (strcmp(name, "--delay-ms") == 0) {
        return number(name, value, false, 0, 60000, &o->delay_ms);
    }
    if (strcmp(name, "--layouts") == 0) {
        return number(name, value, false, 1, 7, &o->layouts);
    }
    return wrong(name, "is not an option");
}

int host_options_parse(int argc, char **argv, struct host_options *o)
{
    memset(o, 0, sizeof *o);
    o->name = "";
    o->ram_bytes = 448 << 10;
    o->flash_bytes = 7340032;
    o->clock_mhz = 600;
    o->layouts = 1;
    for (int i = 1; i < argc; i++) {
        char name[32];
        const char *equals = strchr(argv[i], '='), *value;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            o->help = true;
            return 0;
        }
        if (equals != NULL && (size_t)(equals - argv[i]) < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)(equals - argv[i]), argv[i]);
            value = equals + 1;
        } else {
            snprintf(name, sizeof name, "%s", argv[i]);
            if (++i == argc) {
                return wrong(name, strncmp(name, "--", 2) == 0 ? "needs a value" : "is not an option");
            }
            value = argv[i];
        }
        if (option(name, value, o) != 0) {
            return -1;
        }
    }
    if (o->n_servers == 0) {
        return wrong("--server", "is missing");
    }
    return o->state != NULL ? 0 : wrong("--state", "is missing");
}
