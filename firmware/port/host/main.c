/*
 * shoal-board: a board that is a process of its own. Options, identity, memory and flash of the host, then
 * for ever: connect, let the board work, and on a lost link back off and connect again.
 *
 * Each change of state is one line on standard error. Ends by SIGTERM or SIGINT (exit 0), or when the server
 * refuses the code and there is no certificate (exit 1).
 */
#include "firmware/core/board.h"
#include "firmware/core/enrol.h"
#include "firmware/core/reconnect.h"
#include "firmware/port/host/host_arena.h"
#include "firmware/port/host/host_enrol.h"
#include "firmware/port/host/host_identity.h"
#include "firmware/port/host/host_link.h"
#include "firmware/port/host/host_options.h"
#include "firmware/port/host/host_store.h"
#include "server/base/clock.h"
#include "server/base/id.h"
#include "server/base/log.h"
#include "server/base/version.h"
#include "server/ca/enrol_code.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RESIDENT_BYTES = 262144, /* RAM for resident weights, as a Teensy has beside its arena */
    STACK_BYTES = 1 << 20,   /* of the thread that is the board */
    RENEW_IDLE_US = 100000   /* a board that may sleep for so long is idle enough to renew its certificate */
};

struct host {
    char **arguments;
    struct host_options options;
    struct host_identity identity;
    struct host_link_peer peers[HOST_OPTIONS_SERVERS_MAX];
    struct reconnect reconnect;
    struct host_link link;
    struct host_arena arena, resident, stack;
    pthread_t thread;
    int result; /* of run() */
    struct host_store store;
    bool code_tried;   /* refused for good */
    bool welcomed;     /* on this connection */
    uint64_t renew_us; /* not before */
    char last[800];    /* what was said last, so that nothing is said twice */
};

static volatile sig_atomic_t stop;
static struct host host; /* board and host are large */
static struct board board;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

/* The server that is tried or spoken to now. */
static struct host_link_peer *peer(void)
{
    return &host.peers[host.reconnect.server];
}

/* One line, unless it is what was said last. */
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    char text[sizeof host.last];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (strcmp(host.last, text) != 0) {
        memcpy(host.last, text, sizeof text);
        LOG_INFO("board", "%s", text);
    }
}

/* ---- what the board asks its port ---- */

/* Since the board's start, as on a microcontroller: the process is the board. */
static uint64_t hook_now_us(void *context)
{
    static uint64_t start;
    (void)context;
    uint64_t now = clock_monotonic_us();
    if (start == 0)
        start = now - 1;
    return now - start;
}

static void hook_welcome(void *context, const struct wire_welcome *welcome)
{
    (void)context;
    host.welcomed = true;
    reconnect_welcomed(&host.reconnect);
    if (welcome->name[0] != 0) {
        host_identity_set_name(&host.identity, welcome->name);
    }
    say("online as %s, %s", host.identity.name[0] != 0 ? host.identity.name : host.identity.board,
        welcome->state == WIRE_STATE_ACCEPTED  ? "accepted"
        : welcome->state == WIRE_STATE_PENDING ? "pending: accept it on the server"
                                               : "revoked");
}

static int hook_configure(void *context, const char *name)
{
    (void)context;
    return host_identity_set_name(&host.identity, name);
}

static int hook_renew(void *context, struct wire_enrol *enrol)
{
    (void)context;
    return host_enrol_request(&host.identity, "", host.identity.name, enrol);
}

static void hook_certificate(void *context, const struct wire_cert *cert)
{
    struct error error = {0};
    (void)context;
    if (cert->status != 0) {
        LOG_WARN("board", "the server did not renew the certificate: %s", cert->reason);
    } else if (host_identity_keep(&host.identity, cert->certificate, cert->n_certificate, cert->authority,
                                  cert->n_authority, &error) != 0) {
        LOG_WARN("board", "%s", error.message);
    } else {
        host_link_forget_session(peer());
        LOG_INFO("board", "the certificate was renewed");
    }
}

static void hook_identify(void *context, uint32_t seconds)
{
    (void)context;
    LOG_INFO("board", "identify: this is %s, board %s (for %u s)", host.identity.name, host.identity.board,
             seconds);
}

static void hook_reboot(void *context)
{
    static char program[] = "/proc/self/exe";
    (void)context;
    LOG_INFO("board", "reboots as the server asked");
    host_link_close(&host.link);
    host_store_close(&host.store);
    host_identity_close(&host.identity);
    execv(program, host.arguments);
    LOG_ERROR("board", "reboot: %s", strerror(errno));
    exit(1);
}

static void hook_log(void *context, uint8_t level, const char *text)
{
    (void)context;
    log_line(level >= WIRE_LEVEL_ERROR     ? LOG_LEVEL_ERROR
             : level == WIRE_LEVEL_WARNING ? LOG_LEVEL_WARN
             : level == WIRE_LEVEL_INFO    ? LOG_LEVEL_INFO
                                           : LOG_LEVEL_DEBUG,
             "board", "%s", text);
}

/* The stack was all zero at the start and grows down: the first byte that is not is as deep as it ever was.
 */
static uint32_t hook_stack_high_water(void *context)
{
    size_t at = 0;
    (void)context;
    while (at < host.stack.size && *(volatile uint8_t *)(host.stack.bytes + at) == 0) {
        at++;
    }
    return (uint32_t)(host.stack.size - at);
}

/* The link changes with every connection; the board keeps one transport. */
static int32_t transport_send(void *context, const uint8_t *bytes, uint32_t n)
{
    struct board_transport t = host_link_transport(context);
    return t.send(context, bytes, n);
}

static int32_t transport_recv(void *context, uint8_t *bytes, uint32_t n)
{
    struct board_transport t = host_link_transport(context);
    return t.recv(context, bytes, n);
}

/* ---- start ---- */

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "shoal-board: %s: %s\n", what, why);
    return -1;
}

static int open_hardware(void)
{
    char path[640];
    snprintf(path, sizeof path, "%s/fragments", host.options.state);
    if (host_arena_open(&host.arena, host.options.ram_bytes) != 0 ||
        host_arena_open(&host.resident, RESIDENT_BYTES) != 0 ||
        host_arena_open(&host.stack, STACK_BYTES) != 0) {
        return fail("--ram", strerror(errno));
    }
    if (host_store_open(&host.store, path, host.options.flash_bytes) != 0) {
        return fail(path, strerror(errno));
    }
    return 0;
}

static int open_board(void)
{
    struct board_config config = {
        .transport = {&host.link, transport_send, transport_recv},
        .clock = {NULL, hook_now_us},
        .store = host_store_functions(&host.store),
        .hooks = {.reboot = hook_reboot,
                  .identify = hook_identify,
                  .configure = hook_configure,
                  .renew = hook_renew,
                  .certificate = hook_certificate,
                  .welcome = hook_welcome,
                  .stack_high_water = hook_stack_high_water,
                  .log = hook_log},
        .kind = WIRE_KIND_HOST,
        .name = host.options.name[0] != 0 ? host.options.name : host.identity.name,
        .firmware = HOST_FIRMWARE " " SHOAL_VERSION,
        .reset_reason = "start of the process",
        .clock_hz = (uint64_t)host.options.clock_mhz * 1000000,
        .layouts = host.options.layouts,
        .flash_erase_bytes = HOST_STORE_BLOCK,
        .arena = host.arena.bytes,
        .arena_bytes = (uint32_t)host.arena.size,
        .resident = host.resident.bytes,
        .resident_bytes = RESIDENT_BYTES,
        .regions = {{"arena", (uint32_t)host.arena.size, 0},
                    {"weights", RESIDENT_BYTES, 0},
                    {"stack", STACK_BYTES, 0}},
        .n_regions = 3,
    };
    int status = board_init(&board, &config);
    return status == 0 ? 0 : fail("board", status_text(status));
}

/* ---- connections ---- */

static void sleep_ms(uint32_t ms)
{
    for (uint64_t end = clock_monotonic_us() + (uint64_t)ms * 1000; stop == 0;) {
        uint64_t now = clock_monotonic_us();
        if (now >= end) {
            return;
        }
        uint64_t left = (end - now) / 1000 + 1;
        poll(NULL, 0, left < 50 ? (int)left : 50);
    }
}

/* Until the next attempt, which may be at the other server. */
static void back_off(void)
{
    sleep_ms(reconnect_failed(&host.reconnect));
}

/* Whether the code on the command line may be used: not for the authority that we are already enrolled with,
 * unless the server has refused our certificate. */
static bool code_is_new(bool refused)
{
    struct enrol_code code;
    if (host.options.code == NULL || host.code_tried || enrol_code_parse(host.options.code, &code) != 0) {
        return host.options.code != NULL && !host.code_tried && !host.identity.enrolled;
    }
    return refused || !host.identity.enrolled || !enrol_code_trusts(&code, host.identity.authority_hash);
}

/* True when there is a new certificate. */
static bool enrol(void)
{
    struct error error = {0};
    uint8_t state = WIRE_STATE_PENDING;
    int status = host_enrol(&host.identity, peer(), host.options.code, host.options.name, &state, &error);
    if (status == 0) {
        host.code_tried = true; /* used: not again by itself */
        say("enrolled as board %s, %s", host.identity.board,
            state == WIRE_STATE_ACCEPTED ? "accepted" : "pending");
        return true;
    }
    host.code_tried = enrol_code_is_spent(status) && reconnect_code_refused(&host.reconnect);
    say("not enrolled: %s (%s)", error.message, status_name(status));
    return false;
}

static void renew(void)
{
    struct error error = {0};
    uint8_t state;
    uint64_t now = clock_monotonic_us();
    if (now < host.renew_us || !host_identity_half_life(&host.identity, clock_wall_ms() / 1000)) {
        return;
    }
    host.renew_us = now + 60 * 1000000ull;
    if (host_enrol(&host.identity, peer(), NULL, host.identity.name, &state, &error) == 0) {
        LOG_INFO("board", "the certificate was renewed");
    } else {
        LOG_WARN("board", "the certificate was not renewed: %s", error.message);
    }
}

/* Sleeps until the link or the board wants something. */
static void rest(uint32_t sleep_us)
{
    bool read = board_wants_read(&board);
    uint64_t held = host_link_next_us(&host.link);
    if (read && held < sleep_us) {
        sleep_us = (uint32_t)held;
    }
    if (sleep_us == 0) {
        return;
    }
    struct pollfd fd = {.fd = host.link.fd};
    if ((read || host.link.delay_ms != 0) && !host_link_full(&host.link)) {
        fd.events |= POLLIN;
    }
    if (board_wants_write(&board)) {
        fd.events |= POLLOUT;
    }
    struct timespec time = {.tv_sec = sleep_us / 1000000, .tv_nsec = (long)(sleep_us % 1000000) * 1000};
    ppoll(&fd, 1, &time, NULL);
    if ((fd.revents & (POLLHUP | POLLERR)) != 0 && host.link.status == 0 && (fd.events & POLLIN) == 0) {
        host.link.status = STATUS_OFFLINE;
    }
}

/* One connection from HELLO to its end. */
static void session(void)
{
    int status = 0;
    uint32_t sleep_us;
    host.welcomed = false;
    board_connected(&board);
    while (stop == 0 && !host.link.refused) {
        host_link_pump(&host.link);
        status = board_poll(&board, &sleep_us);
        if (status != 0) {
            break;
        }
        if (sleep_us > RENEW_IDLE_US) {
            renew();
        }
        rest(sleep_us);
    }
    board_disconnected(&board);
    if (host.link.refused) {
        say("refused: %s (%s)", host.link.refusal.reason, status_name(host.link.refusal.status));
        host_link_forget_session(peer());
    } else if (stop == 0) {
        say("the link is gone: %s", status_text(status));
    }
}

static void connect_once(void)
{
    struct error error = {0};
    int status = host_link_open(&host.link, peer(), &host.identity, NULL, &error);
    if (status == 0) {
        session();
        status = host.link.refused ? host.link.refusal.status : 0;
    } else if (stop == 0) {
        say("no link to %s: %s", host.options.servers[host.reconnect.server].given, error.message);
    }
    host_link_close(&host.link);
    if (stop == 0 && enrol_certificate_is_spent(status) && code_is_new(true) && enrol()) {
        return; /* connect again at once */
    }
    if (stop == 0) {
        back_off();
    }
}

static int run(void)
{
    if (host.options.code != NULL && code_is_new(false) && host.identity.enrolled) {
        say("the code is of another server than the certificate: enrolling there");
        while (stop == 0 && !host.code_tried && !enrol()) {
            back_off();
        }
    }
    while (stop == 0) {
        if (host.identity.enrolled) {
            renew();
            connect_once();
        } else if (host.options.code == NULL) {
            return fail("no certificate", "make a code with `shoal enrol` and give it with --code");
        } else if (host.code_tried) {
            return -1;
        } else if (!enrol()) {
            if (!host.code_tried) {
                back_off();
            }
        }
    }
    say("ends");
    return 0;
}

static void *thread_main(void *context)
{
    (void)context;
    host.result = run();
    return NULL;
}

/* Runs the board on a stack of its own between guard pages, which is how its depth can be told. Signals go
 * there. */
static int run_on_its_stack(void)
{
    pthread_attr_t attributes;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_attr_init(&attributes);
    int rc = pthread_attr_setstack(&attributes, host.stack.bytes, host.stack.size);
    if (rc == 0) {
        rc = pthread_create(&host.thread, &attributes, thread_main, NULL);
    }
    pthread_attr_destroy(&attributes);
    if (rc != 0) {
        return fail("the board's thread", strerror(rc));
    }
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_join(host.thread, NULL);
    return host.result;
}

static void open_peers(void)
{
    uint32_t seed;
    id_random_bytes(&seed, sizeof seed);
    reconnect_init(&host.reconnect, host.options.n_servers, seed);
    for (uint32_t i = 0; i < host.options.n_servers; i++) {
        const struct host_options_server *server = &host.options.servers[i];
        host_link_peer_init(&host.peers[i], server->host, server->port, host.options.delay_ms, &stop);
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct error error = {0};
    host.arguments = argv;
    if (host_options_parse(argc, argv, &host.options) != 0) {
        return 2;
    }
    if (host.options.help) {
        host_options_usage();
        return 0;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    open_peers();
    int rc = host_identity_open(&host.identity, host.options.state, &error);
    if (rc != 0) {
        fail(host.options.state, error.message);
    }
    if (rc == 0) {
        rc = open_hardware();
    }
    if (rc == 0) {
        rc = open_board();
    }
    if (rc == 0) {
        rc = run_on_its_stack();
        host_store_close(&host.store);
    }
    for (uint32_t i = 0; i < host.options.n_servers; i++) {
        host_link_peer_free(&host.peers[i]);
    }
    host_identity_close(&host.identity);
    host_arena_close(&host.arena);
    host_arena_close(&host.resident);
    host_arena_close(&host.stack);
    return rc == 0 ? 0 : 1;
}
