/* What lwIP asks of compiler and platform. */
#ifndef SHOAL_FIRMWARE_NET_ARCH_CC_H
#define SHOAL_FIRMWARE_NET_ARCH_CC_H

#include <stdint.h>

/* A broken invariant of lwIP: says where and resets. */
_Noreturn void net_lwip_assert(const char *text, int line);
uint32_t net_random(void);

#define LWIP_PLATFORM_DIAG(x)
#define LWIP_PLATFORM_ASSERT(x) net_lwip_assert(x, __LINE__)
#define LWIP_RAND() net_random()

#endif
