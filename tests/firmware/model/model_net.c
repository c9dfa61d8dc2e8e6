/*
 * Each answer is the question turned round: addresses swapped, the few fields that differ written over. A
 * lease for an hour; no UDP check sum, which is allowed. TCP is not answered.
 */
#include "tests/firmware/model/model_net.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ETHER = 14, IP = ETHER, UDP = IP + 20, DHCP = UDP + 8, OPTIONS = DHCP + 240, FRAME_MAX = 1514 };
static const uint8_t server_mac[6] = {2, 0, 0, 0, 0, 1}, server[4] = {192, 0, 2, 1},
                     lease[4] = {192, 0, 2, 7};

typedef void deliver_fn(const uint8_t *frame, uint32_t n);

static void turn_round(uint8_t *frame)
{
    memcpy(frame, frame + 6, 6);
    memcpy(frame + 6, server_mac, 6);
}

static void arp(const uint8_t *question, deliver_fn *deliver)
{
    uint8_t frame[42];
    const uint8_t *asked = question + 38;
    if (question[21] != 1 || memcmp(asked, lease, 4) == 0) /* not for its own address */
        return;
    printf("model: ARP, who has %u.%u.%u.%u\n", asked[0], asked[1], asked[2], asked[3]);
    memcpy(frame, question, sizeof frame);
    turn_round(frame);
    frame[21] = 2;
    memcpy(frame + 32, question + 22, 10);
    memcpy(frame + 22, server_mac, 6);
    memcpy(frame + 28, asked, 4);
    deliver(frame, sizeof frame);
}

static void ip_sum(uint8_t *header)
{
    uint32_t sum = 0;
    header[10] = header[11] = 0;
    for (int i = 0; i < 20; i += 2)
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = ~((sum & 0xFFFF) + (sum >> 16));
    header[10] = (uint8_t)(sum >> 8), header[11] = (uint8_t)sum;
}

static void dhcp(const uint8_t *question, uint32_t n, deliver_fn *deliver)
{
    static const uint8_t rest[] = {54, 4,   192, 0, 2, 1,  1, 4, 255, 255, 255, 0,  3,
                                   4,  192, 0,   2, 1, 51, 4, 0, 0,   14,  16,  255};
    uint8_t frame[OPTIONS + 3 + sizeof rest];
    bool discover = n > OPTIONS + 3 && question[OPTIONS] == 53 && question[OPTIONS + 2] == 1;
    if (n < OPTIONS + 3)
        return;
    printf("model: DHCP, %s, from %02x:%02x:%02x:%02x:%02x:%02x\n", discover ? "discover" : "request",
           question[6], question[7], question[8], question[9], question[10], question[11]);
    memcpy(frame, question, OPTIONS);
    turn_round(frame);
    frame[IP + 2] = (uint8_t)((sizeof frame - ETHER) >> 8), frame[IP + 3] = (uint8_t)(sizeof frame - ETHER);
    memcpy(frame + IP + 12, server, 4);
    memset(frame + IP + 16, 255, 4);
    ip_sum(frame + IP);
    frame[UDP + 1] = 67, frame[UDP + 3] = 68;
    frame[UDP + 4] = (uint8_t)((sizeof frame - UDP) >> 8), frame[UDP + 5] = (uint8_t)(sizeof frame - UDP);
    frame[UDP + 6] = frame[UDP + 7] = 0;
    frame[DHCP] = 2; /* an answer */
    memcpy(frame + DHCP + 16, lease, 4);
    frame[OPTIONS] = 53, frame[OPTIONS + 1] = 1, frame[OPTIONS + 2] = discover ? 2 : 5;
    memcpy(frame + OPTIONS + 3, rest, sizeof rest);
    deliver(frame, sizeof frame);
}

void model_net_frame(const uint8_t *frame, uint32_t n, void (*deliver)(const uint8_t *frame, uint32_t n))
{
    if (n > FRAME_MAX || n < 42)
        printf("model: a frame of %u bytes\n", n);
    else if (frame[12] == 8 && frame[13] == 6)
        arp(frame, deliver);
    else if (frame[12] == 8 && frame[13] == 0 && frame[IP + 9] == 17 && frame[UDP + 3] == 67)
        dhcp(frame, n, deliver);
    else if (frame[12] == 8 && frame[13] == 0 && frame[IP + 9] == 6)
        printf("model: TCP to %u.%u.%u.%u:%u, flags %02x\n", frame[IP + 16], frame[IP + 17], frame[IP + 18],
               frame[IP + 19], (unsigned)frame[UDP + 2] << 8 | frame[UDP + 3], frame[UDP + 13]);
    else
        printf("model: another frame, type %02x%02x\n", frame[12], frame[13]);
}
