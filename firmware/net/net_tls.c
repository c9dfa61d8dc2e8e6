/* The heap and HMAC_DRBG (SHA-256), seeded from the port's entropy. */
#include "firmware/net/net_tls.h"

#include "firmware/net/say.h"
#include "firmware/port/port.h"
#include "shared/base/status.h"

#include "mbedtls/entropy.h"
#include "mbedtls/entropy_poll.h"
#include "mbedtls/hmac_drbg.h"
#include "mbedtls/memory_buffer_alloc.h"

enum { HEAP_BYTES = 48 * 1024 * (int)(sizeof(void *) / 4), HEADER_BYTES = 8 * (int)sizeof(void *) };

static _Alignas(16) uint8_t heap[HEAP_BYTES];
static mbedtls_entropy_context entropy;
static mbedtls_hmac_drbg_context drbg;

int mbedtls_hardware_poll(void *context, unsigned char *out, size_t n, size_t *got)
{
    (void)context;
    *got = 0;
    if (port_entropy(out, (uint32_t)n) != STATUS_OK)
        return MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
    *got = n;
    return 0;
}

_Noreturn void net_tls_die(void)
{
    port_die("the heap of TLS was written over");
}

/* For texts that mbedTLS makes of names and numbers; we use none of them. */
int net_tls_snprintf(char *to, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    uint32_t n = text_vformat(to, (uint32_t)room, format, arguments);
    va_end(arguments);
    return (int)n;
}

int net_tls_start(void)
{
    mbedtls_memory_buffer_alloc_init(heap, sizeof heap);
    mbedtls_entropy_init(&entropy);
    mbedtls_hmac_drbg_init(&drbg);
    return mbedtls_hmac_drbg_seed(&drbg, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), mbedtls_entropy_func,
                                  &entropy, (const unsigned char *)"shoal board", 11) == 0
               ? STATUS_OK
               : STATUS_IO_FAILED;
}

int net_tls_random(void *context, unsigned char *out, size_t n)
{
    (void)context;
    return mbedtls_hmac_drbg_random(&drbg, out, n);
}

void net_tls_memory(uint32_t *bytes, uint32_t *used, uint32_t *high_water)
{
    size_t n = 0, blocks = 0;
    *bytes = sizeof heap;
    mbedtls_memory_buffer_alloc_cur_get(&n, &blocks);
    *used = (uint32_t)(n + blocks * HEADER_BYTES);
    mbedtls_memory_buffer_alloc_max_get(&n, &blocks);
    *high_water = (uint32_t)(n + blocks * HEADER_BYTES);
}
