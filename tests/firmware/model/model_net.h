/*
 * The network of model_board: answers DHCP with 192.0.2.7, ARP for anybody, and says what else it sees. Pure
 * but for standard output.
 */
#ifndef SHOAL_TESTS_FIRMWARE_MODEL_NET_H
#define SHOAL_TESTS_FIRMWARE_MODEL_NET_H

#include <stdint.h>

/* A frame that the board sent; answers go to `deliver` before it returns. */
void model_net_frame(const uint8_t *frame, uint32_t n, void (*deliver)(const uint8_t *frame, uint32_t n));

#endif
