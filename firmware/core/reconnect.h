/*
 * Which server to try next, and when: one or two servers, tried in turn, with a back-off that doubles with
 * each round in which none answered. Pure; used by every port.
 *
 *     reconnect_init(&r, n_servers, seed);
 *     for (;;) {
 *         connect to servers[r.server] and, when the server has welcomed us, reconnect_welcomed(&r);
 *         when the attempt failed or the link is lost: sleep reconnect_failed(&r) ms
 *     }
 */
#ifndef SHOAL_FIRMWARE_CORE_RECONNECT_H
#define SHOAL_FIRMWARE_CORE_RECONNECT_H

#include <stdbool.h>
#include <stdint.h>

enum { RECONNECT_MIN_MS = 200, RECONNECT_MAX_MS = 10000 };

struct reconnect {
    uint32_t server;    /* index of the one to try now */
    uint32_t n_servers; /* 1.. */
    uint32_t tried;     /* in this round */
    uint32_t backoff_ms;
    uint32_t random;  /* never 0 */
    bool welcomed;    /* since the last attempt began */
    uint32_t refused; /* bit n: server n has refused the enrolment code */
};

/* `seed`: any number that differs from board to board, so that a fleet does not knock all at once. */
void reconnect_init(struct reconnect *reconnect, uint32_t n_servers, uint32_t seed);
void reconnect_welcomed(struct reconnect *reconnect);
/* The attempt failed, or the link was lost. Milliseconds to wait before the next attempt, which is to
 * reconnect->server. After a session that was welcomed the same server comes first again; else the next one,
 * at once while the round lasts, and after the round with the back-off: half to one and a half times
 * RECONNECT_MIN_MS, doubling to RECONNECT_MAX_MS. */
uint32_t reconnect_failed(struct reconnect *reconnect);
/* The server refused the enrolment code, or is not the one that made it. True: so have all the others, and
 * the code is not worth another try. */
bool reconnect_code_refused(struct reconnect *reconnect);

#endif
