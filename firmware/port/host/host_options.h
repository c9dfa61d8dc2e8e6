/* The command line of shoal-board. */
#ifndef SHOAL_FIRMWARE_PORT_HOST_OPTIONS_H
#define SHOAL_FIRMWARE_PORT_HOST_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { HOST_OPTIONS_SERVERS_MAX = 2 };

struct host_options_server {
    char host[256]; /* without brackets */
    char port[8];
    const char *given; /* as it was given, for messages */
};

struct host_options {
    struct host_options_server servers[HOST_OPTIONS_SERVERS_MAX]; /* --server, tried in turn */
    uint32_t n_servers;
    const char *state;  /* folder */
    const char *code;   /* NULL: none */
    const char *name;   /* wish, "" none */
    uint32_t ram_bytes; /* arena; a multiple of 16 */
    uint32_t flash_bytes;
    uint32_t clock_mhz;
    uint32_t delay_ms;
    uint32_t layouts; /* of weights that it asks for, bit n for layout n */
    bool help;
};

/* 0, or -1 after a message on standard error. */
int host_options_parse(int argc, char **argv, struct host_options *options);
void host_options_usage(void); /* on standard output */

#endif
