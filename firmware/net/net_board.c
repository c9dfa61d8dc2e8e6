/*
 * One state: no certificate (enrol with the code of the provisioning page, once), or a session, or the pause
 * between two attempts. All memory is static; the board itself is the largest part of it.
 */
#include "firmware/net/net_board.h"

#include "firmware/core/enrol.h"
#include "firmware/core/flash_store.h"
#include "firmware/core/flashmap.h"
#include "firmware/core/reconnect.h"
#include "firmware/net/net.h"
#include "firmware/net/net_link.h"
#include "firmware/net/net_tls.h"
#include "firmware/net/say.h"
#include "firmware/port/port.h"
#include "shared/nn/layout.h"

#include <string.h>

enum { ENROL_ANSWER_MS = 15000, WAIT_US = 1000, ASK_AGAIN_MS = 60000 };

static const struct net_board_config *port;
static struct board board;
static struct flash_store store;
static struct net_identity identity;
static struct net_link link;
static struct reconnect reconnect;
static struct enrol enrolment;
static struct wire_enrol request;
static struct wire_cert answer;
static bool code_spent; /* used, or refused for good */
static uint64_t identify_until_us;

/* ---- small things ---- */

static bool stopped(void)
{
    return port->stop != NULL && port->stop();
}

static void show(enum led state)
{
    port_led(port_now_us() < identify_until_us ? LED_IDENTIFY : state);
}

static void sleep_ms(uint32_t ms, enum led state)
{
    uint64_t end = port_now_us() + (uint64_t)ms * 1000;
    while (port_now_us() < end && !stopped()) {
        show(state);
        net_wait(WAIT_US);
    }
}

void net_board_flash_poll(void *context)
{
    (void)context;
    net_poll();
}

/* ---- what the board asks ---- */

static uint64_t hook_now_us(void *context)
{
    (void)context;
    return port_now_us();
}

static void hook_reboot(void *context)
{
    (void)context;
    say("reboots as the server asked");
    net_link_close(&link);
    sleep_ms(50, LED_STARTING); /* the goodbye goes out */
    port_die("reboot: the server asked");
}

static void hook_identify(void *context, uint32_t seconds)
{
    (void)context;
    say("identify: this is %s, board %s (for %u s)", identity.name, identity.board, (unsigned)seconds);
    identify_until_us = port_now_us() + (uint64_t)seconds * 1000000;
}

static int hook_configure(void *context, const char *name)
{
    (void)context;
    return net_identity_set_name(&identity, name);
}

/* With the certificate at hand the code is empty. */
static int make_request(struct wire_enrol *enrol, const char *code, const char *name)
{
    uint32_t size = 0;
    memset(enrol, 0, sizeof *enrol);
    enrol->version_min = enrol->version_max = WIRE_VERSION;
    enrol->kind = port_kind;
    text_format(enrol->code, sizeof enrol->code, "%s", code);
    text_format(enrol->name, sizeof enrol->name, "%s", name);
    text_format(enrol->firmware, sizeof enrol->firmware, "%s", port_firmware);
    int status = net_identity_request(&identity, enrol->request, sizeof enrol->request, &size);
    enrol->n_request = (uint16_t)size;
    return status;
}

static int hook_renew(void *context, struct wire_enrol *enrol)
{
    (void)context;
    return make_request(enrol, "", identity.name);
}

static int take(const struct wire_cert *cert)
{
    int status = enrol_answer(cert);
    if (status != STATUS_OK)
        return status;
    status = net_identity_keep(&identity, cert->certificate, cert->n_certificate, cert->authority,
                               cert->n_authority);
    if (status == STATUS_OK && cert->name[0] != 0)
        net_identity_set_name(&identity, cert->name);
    return status;
}

static void hook_certificate(void *context, const struct wire_cert *cert)
{
    (void)context;
    if (link.refused)
        return; /* no answer to a request: the session ends with it */
    int status = take(cert);
    if (status == STATUS_OK) {
        net_link_forget_session(&link);
        say("the certificate was renewed");
    } else {
        say("the certificate was not renewed: %s", cert->reason[0] != 0 ? cert->reason : status_text(status));
    }
}

static void hook_welcome(void *context, const struct wire_welcome *welcome)
{
    (void)context;
    reconnect_welcomed(&reconnect);
    if (welcome->name[0] != 0)
        net_identity_set_name(&identity, welcome->name);
    say("online as %s, %s", identity.name[0] != 0 ? identity.name : identity.board,
        welcome->state == WIRE_STATE_ACCEPTED  ? "accepted"
        : welcome->state == WIRE_STATE_PENDING ? "pending: accept it on the server"
                                               : "revoked");
}

static int16_t hook_temperature(void *context)
{
    (void)context;
    return port_temperature();
}

/* Of the only heap, that of TLS. */
static uint32_t hook_free_bytes(void *context)
{
    uint32_t bytes, used, high_water;
    (void)context;
    net_tls_memory(&bytes, &used, &high_water);
    return bytes - used;
}

static uint32_t hook_stack_high_water(void *context)
{
    (void)context;
    return port->stack_high_water();
}

static void hook_log(void *context, uint8_t level, const char *text)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    (void)context;
    say("%s: %s", names[level <= WIRE_LEVEL_ERROR ? level : WIRE_LEVEL_ERROR], text);
}

/* ---- start ---- */

enum { REGION_NETWORK = 2, REGION_STACK = 3 };

static int open_board(void)
{
    const struct flash_store_place place = {FLASHMAP_LOG, FLASHMAP_LOG_BYTES, FLASHMAP_FRAGMENTS,
                                            FLASHMAP_FRAGMENTS_BYTES};
    static struct board_config config;
    int status = flash_store_open(&store, port->flash, &place);
    if (status != STATUS_OK)
        return status;
    config = (struct board_config){
        .transport = net_link_transport(&link),
        .clock = {NULL, hook_now_us},
        .store = flash_store_functions(&store),
        .hooks = {.reboot = hook_reboot,
                  .identify = hook_identify,
                  .configure = hook_configure,
                  .renew = hook_renew,
                  .certificate = hook_certificate,
                  .welcome = hook_welcome,
                  .free_bytes = hook_free_bytes,
                  .temperature = hook_temperature,
                  .stack_high_water = hook_stack_high_water,
                  .log = hook_log},
        .kind = port_kind,
        .name = port->provision->name[0] != 0 ? port->provision->name : identity.name,
        .firmware = port_firmware,
        .reset_reason = port->reset_reason,
        .clock_hz = port_clock_hz(),
        .layouts = NN_LAYOUT_MASK_ALL,
        .flash_erase_bytes = port->flash->erase_bytes,
        .arena = port->arena,
        .arena_bytes = port->arena_bytes,
        .resident = port->resident,
        .resident_bytes = port->resident_bytes,
        .regions = {{"arena", port->arena_bytes, 0},
                    {"weights", port->resident_bytes, 0},
                    [REGION_NETWORK] = {"network", port->network_bytes, 0},
                    [REGION_STACK] = {"stack", port->stack_bytes, 0}},
        .n_regions = 4,
    };
    return board_init(&board, &config);
}

/* Before HELLO: what was used at most. What lies static in the network's region counts as used. */
static void measure_memory(void)
{
    uint32_t lwip, lwip_high, heap, heap_used, heap_high;
    net_memory(&lwip, &lwip_high);
    net_tls_memory(&heap, &heap_used, &heap_high);
    board.config.regions[REGION_NETWORK].high_water =
        port->network_bytes - (lwip - lwip_high) - (heap - heap_high);
    board.config.regions[REGION_STACK].high_water = port->stack_high_water();
}

static void tell_memory(const char *when)
{
    uint32_t lwip, lwip_high, heap, heap_used, heap_high;
    net_memory(&lwip, &lwip_high);
    net_tls_memory(&heap, &heap_used, &heap_high);
    say("memory after %s: TLS heap %u, at most %u of %u; lwIP %u of %u; stack %u of %u", when,
        (unsigned)heap_used, (unsigned)heap_high, (unsigned)heap, (unsigned)lwip_high, (unsigned)lwip,
        (unsigned)port->stack_high_water(), (unsigned)port->stack_bytes);
}

/* ---- enrolment ---- */

/* Until the answer is there. */
static int exchange(void)
{
    uint64_t deadline = port_now_us() + (uint64_t)ENROL_ANSWER_MS * 1000;
    int status;
    while ((status = enrol_poll(&enrolment, &answer)) == 0) {
        if (port_now_us() > deadline)
            return STATUS_OFFLINE;
        net_wait(WAIT_US);
    }
    return status < 0 ? status : STATUS_OK;
}

/* True when there is a new certificate. */
static bool enrol(void)
{
    const struct provision *page = port->provision;
    memset(&answer, 0, sizeof answer);
    int status =
        net_link_open(&link, &page->servers[reconnect.server], reconnect.server, &identity, page->trust);
    if (status == STATUS_OK)
        status = make_request(&request, page->code, page->name);
    if (status == STATUS_OK)
        status = enrol_begin(&enrolment, net_link_transport(&link), &request);
    if (status == STATUS_OK)
        status = exchange();
    if (status == STATUS_OK)
        status = take(&answer);
    const char *why = answer.reason[0] != 0 ? answer.reason
                      : link.why[0] != 0    ? link.why
                                            : status_text(status);
    if (status == STATUS_OK) {
        say("enrolled as board %s, %s", identity.board,
            answer.state == WIRE_STATE_ACCEPTED ? "accepted" : "pending");
        tell_memory("enrolment");
        reconnect_welcomed(&reconnect);
    } else {
        say("not enrolled: %s (%s)", why, status_name(status));
    }
    code_spent = status == STATUS_OK || (enrol_code_is_spent(status) && reconnect_code_refused(&reconnect));
    net_link_close(&link);
    net_link_forget_session(&link);
    return status == STATUS_OK;
}

/* Whether the page's code may be used: not for the authority that we are already enrolled with, unless the
 * server has refused our certificate. */
static bool code_is_new(bool refused)
{
    if (port->provision->code[0] == 0 || code_spent)
        return false;
    return refused || !identity.enrolled ||
           memcmp(port->provision->trust, identity.authority_hash, PROVISION_TRUST_BYTES) != 0;
}

/* ---- sessions ---- */

static enum led session_led(void)
{
    return !board.welcomed ? LED_NO_SERVER : board.run_state == BOARD_RUN_WALKING ? LED_RUNNING : LED_ONLINE;
}

/* A board that does not read would not notice that its server has gone. */
static bool gone_unread(void)
{
    return link.pcb == NULL || (link.closed && !board_wants_read(&board));
}

static const char *why_gone(void)
{
    return link.why[0] != 0               ? link.why
           : link.pcb == NULL             ? "the connection was reset"
           : link.closed                  ? "the server closed while nothing could be read"
           : board.dead == STATUS_OFFLINE ? "not a byte from the server for 20 s"
                                          : "what the server sent is not the protocol";
}

/* One connection from HELLO to its end. */
static int session(void)
{
    int status = STATUS_OK;
    uint32_t sleep_us = 0;
    measure_memory();
    board_connected(&board);
    while (!stopped() && !link.refused) {
        net_poll();
        status = gone_unread() ? STATUS_OFFLINE : board_poll(&board, &sleep_us);
        if (status != STATUS_OK)
            break;
        show(session_led());
        if (sleep_us > 0)
            net_wait(sleep_us);
    }
    const char *why = why_gone();
    board_disconnected(&board);
    if (link.refused) {
        say("refused: %s (%s)", link.refusal.reason, status_name(link.refusal.status));
        net_link_forget_session(&link);
        return link.refusal.status;
    }
    if (!stopped())
        say("the link is gone: %s: %s", status_text(status), why);
    return STATUS_OK;
}

/* True: connect again at once. */
static bool connect_once(void)
{
    const struct provision_server *server = &port->provision->servers[reconnect.server];
    int status = net_link_open(&link, server, reconnect.server, &identity, NULL);
    if (status == STATUS_OK) {
        say("connected to %s:%u, the handshake took %u ms", server->host, server->port,
            (unsigned)(link.handshake_us / 1000));
        tell_memory("handshake");
        status = session();
    } else {
        say("no link to %s:%u: %s (%s)", server->host, server->port, link.why, status_name(status));
    }
    net_link_close(&link);
    return !stopped() && enrol_certificate_is_spent(status) && code_is_new(true) && enrol();
}

static void step(void)
{
    bool again;
    if (!net_ready()) {
        show(LED_NO_NETWORK);
        net_wait(WAIT_US);
        return;
    }
    show(LED_NO_SERVER);
    if (code_is_new(false)) {
        again = enrol();
    } else if (identity.enrolled) {
        again = connect_once();
    } else {
        say("no certificate and no code that may be used: provision this board anew");
        sleep_ms(ASK_AGAIN_MS, LED_NOT_ENROLLED);
        return;
    }
    if (!again)
        sleep_ms(reconnect_failed(&reconnect), LED_NO_SERVER);
}

int net_board_run(const struct net_board_config *config)
{
    uint32_t seed = 0;
    port = config;
    net_link_init(&link);
    int status = port_entropy((uint8_t *)&seed, sizeof seed);
    if (status == STATUS_OK)
        status = net_identity_open(&identity, config->flash);
    if (status == STATUS_OK)
        status = open_board();
    if (status != STATUS_OK) {
        say("the board cannot start: %s", status_text(status));
        return status;
    }
    say("board %s, %s", identity.board, identity.enrolled ? "enrolled" : "not enrolled");
    reconnect_init(&reconnect, config->provision->n_servers, seed);
    while (!stopped())
        step();
    return STATUS_OK;
}
