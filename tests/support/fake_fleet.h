/*
 * A fleet of one authority behind real links (server/link), for tests of boards: keeps what happened under a
 * lock, says WELCOME to a HELLO, echoes DATA, grants its one code as often as it comes.
 */
#ifndef SHOAL_TESTS_SUPPORT_FAKE_FLEET_H
#define SHOAL_TESTS_SUPPORT_FAKE_FLEET_H

#include "server/ca/enrol_code.h"
#include "server/fleet/probe.h"
#include "server/link/link.h"

#include <pthread.h>

enum { LOGGED_MAX = 64, WAIT_MS = 30000 };

/* A server and what its owner saw. */
struct server {
    struct ca *ca;
    struct links *links;
    struct enrol_code code;
    char text[ENROL_CODE_BYTES];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ups, downs, stales, fresh, resumed, frames, enrolments;
    int admit;         /* answer of admit */
    int frame_status;  /* answer of on_frame */
    int days;          /* of the certificates that are issued */
    uint32_t flood;    /* frames that next_frame still has */
    bool silent_enrol; /* ENROL gets no answer */
    int down_status;
    char down_reason[200], up_board[CA_ID_BYTES], enrol_board[CA_ID_BYTES];
    struct link_failure failures[LOGGED_MAX];
    uint32_t n_failures;
    pthread_t coordinator;
    uint8_t state; /* enum wire_state that WELCOME and CERT say */
    struct wire_hello hello;
    struct wire_beat beat;
    int hellos, beats, probed;
    struct probe probe; /* runs when probe.running */
    struct link_options options;
    struct link *up; /* the link that came up last; coordinator's */
};

/* All end the test when something fails. `options` may be NULL. */
void server_start(struct server *s, const struct link_options *options);
void server_stop(struct server *s);
/* Ends the links and begins anew at the same address with the same authority. */
void server_restart(struct server *s);
/* Waits until *counter is at least `least`. */
void server_await(struct server *s, const int *counter, int least);
/* Waits for a failure with this status, in whose reason `text` stands. */
struct link_failure server_await_failure(struct server *s, int status, const char *text);
/* Measures the board that is up with echo probes. */
struct probe_result server_probe(struct server *s);
void server_changed(struct server *s); /* with the lock held: unlocks */

#endif
