/*
 * The board: everything a worker does, on any hardware. Session over a transport, fragment store over a
 * flash, walker, life signs. No malloc, no OS, no I/O of its own: hardware stands behind structs of
 * functions.
 *
 * A port owns `struct board` (about 80 KB: not on a stack), gives it memory, establishes the authenticated
 * link, calls board_connected(), and then board_poll() in a loop. board_poll does a bounded piece of work (at
 * most one kernel call, or 64 KB of hashing) and says how long the port may sleep. One thread.
 *
 *     board_init(&board, &config);
 *     for (;;) {
 *         connect, handshake                         the port's; before there is a certificate: enrol.h
 *         board_connected(&board);
 *         while (board_poll(&board, &sleep_us) == 0)
 *             sleep at most sleep_us, less when the link is readable and board_wants_read(), or writable and
 *             board_wants_write()
 *         close the link; board_disconnected(&board); back off
 *     }
 */
#ifndef SHOAL_FIRMWARE_CORE_BOARD_H
#define SHOAL_FIRMWARE_CORE_BOARD_H

#include "shared/vm/vm.h"
#include "shared/wire/wire.h"

enum {
    BOARD_SLOTS_MAX =
        256, /* receives posted and sends queued at once, each; a fragment that wants more FAILs */
    BOARD_TIMES_MAX = 216, /* as DONE carries */
    BOARD_FRAGMENTS_MAX = 64,
    BOARD_FRAME_ROOM = WIRE_FRAME_MAX
};

/* An established, authenticated byte stream (TLS under it). recv and send return bytes moved, 0 for "not
 * now", or a negative status when the link is gone. `send` takes whole frames: all of it or 0 (then it is
 * called again with the same bytes); one call is one TLS record. */
struct board_transport {
    void *context;
    int32_t (*send)(void *context, const uint8_t *bytes, uint32_t n);
    int32_t (*recv)(void *context, uint8_t *bytes, uint32_t n);
};

struct board_clock {
    void *context;
    uint64_t (*now_us)(void *context); /* monotonic, since reset */
};

/* Where fragments last. An image that `commit` accepted is readable at the pointer `find` gives until it is
 * removed. All return 0 or a negative status. */
struct board_store {
    void *context;
    /* *bytes is aligned to 16. STATUS_NOT_FOUND. */
    int (*find)(void *context, const uint8_t hash[WIRE_HASH_BYTES], const uint8_t **bytes, uint32_t *size);
    /* Opens (or reopens after a broken push) an image of `size` bytes; *valid is how many leading bytes are
     * there. STATUS_FLASH_FULL. Another image that was being written is dropped. May take seconds on real
     * flash; a port then keeps the link alive from inside. */
    int (*begin)(void *context, const uint8_t hash[WIRE_HASH_BYTES], uint32_t size, uint32_t *valid);
    int (*write)(void *context, uint32_t offset, const uint8_t *bytes,
                 uint32_t n);                                                /* offsets rise, no gaps */
    int (*read)(void *context, uint32_t offset, uint8_t *bytes, uint32_t n); /* of the image being written */
    int (*commit)(void *context); /* checks the hash of the whole image: STATUS_HASH_MISMATCH drops it */
    int (*remove)(void *context, const uint8_t hash[WIRE_HASH_BYTES]); /* held or being written */
    /* The i-th image held, 0.. ; STATUS_NOT_FOUND past the last. */
    int (*list)(void *context, uint32_t i, uint8_t hash[WIRE_HASH_BYTES], uint32_t *size);
    uint32_t (*capacity)(void *context);
    uint32_t (*used)(void *context);
};

/* What the server may ask for beyond fragments, and what only the port knows. Every function may be NULL. */
struct board_hooks {
    void *context;
    void (*reboot)(void *context);                     /* called when the link is drained; may not return */
    void (*identify)(void *context, uint32_t seconds); /* blink */
    int (*configure)(void *context, const char *name); /* keep the new name */
    /* DO renew: make a certificate request; the board sends it as ENROL. 0 or a negative status. */
    int (*renew)(void *context, struct wire_enrol *enrol);
    void (*certificate)(void *context, const struct wire_cert *cert); /* the answer to it */
    void (*welcome)(void *context,
                    const struct wire_welcome *welcome); /* set the wall clock, keep the name */
    uint32_t (*free_bytes)(void *context);
    int16_t (*temperature)(void *context); /* tenths of a degree, WIRE_NO_TEMPERATURE */
    uint32_t (*stack_high_water)(void *context);
    void (*log)(void *context, uint8_t level, const char *text); /* everything that is logged, also locally */
};

struct board_region {
    const char *name; /* "arena", "weights", "network", "stack" */
    uint32_t bytes;
    uint32_t high_water;
};

/* Given at the start; pointers must stay valid. The arena lies whole in one region, aligned to 16. */
struct board_config {
    struct board_transport transport;
    struct board_clock clock;
    struct board_store store;
    struct board_hooks hooks;
    uint8_t kind;     /* enum wire_kind */
    const char *name; /* wish, "" none */
    const char *firmware;
    const char *reset_reason;
    uint64_t clock_hz;
    uint32_t layouts; /* of weights that it asks for (shared/nn/layout.h), bit n for layout n; 0: plain */
    uint32_t flash_erase_bytes;
    uint8_t *arena;
    uint32_t arena_bytes;
    uint8_t *resident; /* RAM for resident weights, aligned to 16; NULL: none */
    uint32_t resident_bytes;
    struct board_region regions[8]; /* "arena" and "weights" high water are filled in by the board */
    uint32_t n_regions;
};

/* ---- everything from here to the functions is private to firmware/core; a port only gives the memory ----
 */

struct board_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

/* One posted receive or queued send and how far it is. */
struct board_slot {
    struct vm_slot slot;
    uint32_t at; /* bytes of slot.bytes that are done */
    uint32_t rank;
    uint32_t total; /* bytes of the whole transfer */
    uint16_t id;    /* of the transfer, on the link */
    uint8_t carry[4];
};

/* A ring in the order of the link. */
struct board_queue {
    struct board_slot slots[BOARD_SLOTS_MAX];
    uint32_t first, n;
};

struct board_run {
    uint32_t inference; /* 0: none */
    uint8_t fragment[WIRE_HASH_BYTES];
};

enum board_run_state { BOARD_RUN_NONE, BOARD_RUN_LOADING, BOARD_RUN_WALKING };
enum board_booking { BOARD_COMPUTING, BOARD_WAITING, BOARD_MOVING };

/* What the server asked of the fragment store; done one after another. */
enum board_request_kind {
    BOARD_REQUEST_NONE,
    BOARD_REQUEST_OFFER,
    BOARD_REQUEST_ACTIVATE,
    BOARD_REQUEST_DROP
};
struct board_request {
    enum board_request_kind kind;
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t bytes;
};
enum { BOARD_REQUESTS_MAX = 16 };

/* Hashing an image in the flash, piece by piece. */
struct board_verify {
    bool active, done;
    int status;
    uint8_t hash[WIRE_HASH_BYTES];
    const uint8_t *bytes;
    uint32_t size, at;
    struct board_sha256 sha;
};

/* Checking what an image would do, piece by piece. */
struct board_check {
    bool active;
    uint8_t hash[WIRE_HASH_BYTES];
    struct fragment fragment;
    struct vm_check state;
};

/* A fragment on its way in. */
struct board_pull {
    bool active, committed;
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t size, valid, copied;
    uint32_t wanted_end;       /* end of the WANT that is on its way; 0: none */
    uint32_t front;            /* bytes before the weights; 0: not known yet */
    uint32_t slices, n_slices; /* offset and count of the slice table; 0: nothing is to be copied */
    uint32_t restarts;         /* because a block of the flash failed */
    uint32_t mismatches;       /* slices in the flash that were not what their table says */
    const uint8_t *copy;       /* slice in another fragment that is being copied; NULL: none */
    uint32_t copy_left;
};

struct board {
    struct board_config config;
    /* link */
    bool connected, welcomed;
    int dead;                      /* negative: the link must be closed */
    uint64_t received_us, beat_us; /* when the last byte came, when the next BEAT is due */
    uint64_t tx_us;                /* since when the frame in tx waits */
    const char *end;               /* static text: why the link ends, where the status does not tell all */
    bool bad_frame;                /* it ends because of the frame in rx_header */
    bool end_said;
    uint8_t tx[WIRE_FRAME_MAX], rx[WIRE_FRAME_MAX];
    uint32_t tx_n;     /* frame that waits for the transport; 0: none */
    uint32_t rx_n;     /* bytes of the frame that is coming in */
    uint32_t rx_taken; /* payload bytes of a DATA frame already put away */
    struct wire_header rx_header;
    bool parked;  /* DATA whose receive is not posted: not read */
    bool swallow; /* CHUNKs of a pull that failed, up to the last */
    uint32_t probe_bytes;
    union {
        struct wire_welcome welcome;
        struct wire_run run;
        struct wire_offer offer;
        struct wire_activate activate;
        struct wire_do order;
        struct wire_cert cert;
        struct wire_hello hello;
        struct wire_beat beat;
        struct wire_enrol enrol;
    } message;
    /* answers that are due; each is encoded when the link can take it */
    bool due_hello, due_done, due_failed, due_want, due_have, due_echo, due_log, due_enrol, due_reboot;
    uint32_t due_aborted[4], n_due_aborted;
    uint16_t echo_probe;
    uint32_t echo_bytes;
    uint32_t answered; /* inference of `done` or `failed` */
    struct wire_done done;
    struct wire_failed failed;
    struct wire_have have;
    struct wire_want want;
    struct wire_log log;
    /* runs */
    enum board_run_state run_state;
    struct board_run current, waiting;
    uint32_t last_run, ended; /* highest inference asked for; highest that ended */
    struct vm vm;
    struct vm_tables tables;
    bool blocked; /* the walker waits */
    struct board_queue posts, sends;
    uint64_t run_us, mark_us;  /* when the run began; up to when time is booked */
    uint64_t unbooked_us[3];   /* before the layer is known, by enum board_booking */
    uint32_t last_time;        /* entry of done.times used last */
    uint32_t arena_high_water; /* since reset */
    const char *fault;         /* static text: why a transfer was refused */
    /* fragments */
    struct fragment loaded;
    uint8_t loaded_hash[WIRE_HASH_BYTES];
    bool is_loaded;
    uint8_t verified[BOARD_FRAGMENTS_MAX][WIRE_HASH_BYTES]; /* hash and bounds checked since reset */
    uint32_t n_verified;
    struct fragment_place place;
    struct board_request requests[BOARD_REQUESTS_MAX]; /* [0] is being done */
    uint32_t n_requests;
    uint64_t store_turn_us; /* until then they go before a run that waits */
    struct board_verify verify;
    struct board_check check;
    struct board_pull pull;
    /* calibration */
    bool calibrate;
    uint32_t calibrations, calibration_bytes, calibration_us;
};

/* Runs nothing yet. 0, or STATUS_INVALID_ARGUMENT for a missing function, an unaligned arena or resident RAM,
 * or an arena that is not one of the regions. */
int board_init(struct board *board, const struct board_config *config);
/* A new link is up: HELLO goes out first. What was running before is forgotten; a broken push goes on where
 * it was. */
void board_connected(struct board *board);
/* The link is gone. */
void board_disconnected(struct board *board);
/* A bounded piece of work. 0, and *sleep_us says how long the port may sleep when nothing happens on the link
 * (0: call again at once); or a negative status: close the link. Reasons: the transport's own, STATUS_OFFLINE
 * (the server was silent, or took nothing, for 20 s), STATUS_WIRE_*, STATUS_CERTIFICATE_REVOKED. All but the
 * transport's own are logged with what exactly was wrong. */
int board_poll(struct board *board, uint32_t *sleep_us);
bool board_wants_read(const struct board *board);  /* false while a frame waits for its receive */
bool board_wants_write(const struct board *board); /* a frame waits for the transport */
/* Measures K_1 now: runs the calibration fragment in the (idle) arena. 0 or a negative status. */
int board_calibrate(struct board *board);

#endif
