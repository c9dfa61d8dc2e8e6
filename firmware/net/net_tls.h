/* mbedTLS's memory and randomness, one of each: its heap is an array of ours, and nothing else allocates. */
#ifndef SHOAL_FIRMWARE_NET_TLS_H
#define SHOAL_FIRMWARE_NET_TLS_H

#include <stddef.h>
#include <stdint.h>

/* Once, before anything else of mbedTLS. 0 or STATUS_IO_FAILED: there is no randomness. */
int net_tls_start(void);
/* Random bytes for mbedTLS (context: NULL). */
int net_tls_random(void *context, unsigned char *out, size_t n);
/* The heap's size, what is used of it and what was at most (with its headers), bytes. */
void net_tls_memory(uint32_t *bytes, uint32_t *used, uint32_t *high_water);

#endif
