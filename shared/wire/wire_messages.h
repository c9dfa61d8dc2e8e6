/*
 * Every message with fields, declared once. wire.h makes a struct of each, wire_codec.c its encoder and
 * decoder, the fuzzers their seeds.
 *
 * F(kind, name, max): u8 u16 u32 u64 i16 i32 (max 0), bytes (exactly max), string (at most max bytes of
 * UTF-8), blob (at most max bytes). L(element, name, max): at most max records of `element`. On the wire:
 * fields in this order, little-endian, packed; strings and blobs with a u16 length, lists with a u16 count. A
 * kind may be appended, never changed: the numbers and orders are the protocol's, version WIRE_VERSION.
 *
 * Frames without fields here: DATA, CHUNK, PROBE (raw bytes), NOP, ABORT, ABORTED, ECHO (header only; RUN,
 * ABORT, DONE, FAILED and ABORTED name their inference in the header; PROBE and ECHO carry the probe's number
 * in `transfer`, ECHO the bytes of the probe in `offset`).
 */
#ifndef SHOAL_SHARED_WIRE_WIRE_MESSAGES_H
#define SHOAL_SHARED_WIRE_WIRE_MESSAGES_H

/* One named stretch of a board's RAM. */
#define WIRE_FIELDS_REGION(F, L)                                     \
    F(string, name, 15) /* "arena", "weights", "network", "stack" */ \
    F(u32, bytes, 0)                                                 \
    F(u32, high_water, 0)

/* One fragment in the board's flash, committed and checked. */
#define WIRE_FIELDS_HELD(F, L) \
    F(bytes, hash, 32)         \
    F(u32, bytes, 0)

/* What one layer took on one board. start_us counts from the first step of the RUN. */
#define WIRE_FIELDS_TIME(F, L) \
    F(u16, layer, 0)           \
    F(u32, start_us, 0)        \
    F(u32, computing_us, 0)    \
    F(u32, waiting_us, 0)      \
    F(u32, moving_us, 0)

#define WIRE_FIELDS_HELLO(F, L)                                                           \
    F(u16, version_min, 0)                                                                \
    F(u16, version_max, 0)                                                                \
    F(u8, kind, 0)      /* enum wire_kind */                                              \
    F(string, name, 63) /* the board's wish, may be empty */                              \
    F(string, firmware, 63)                                                               \
    F(string, reset_reason, 31)                                                           \
    F(u64, clock_hz, 0)                                                                   \
    F(u64, uptime_ms, 0)                                                                  \
    F(u32, flash_bytes, 0) /* capacity for fragments */                                   \
    F(u32, flash_used_bytes, 0)                                                           \
    F(u32, flash_erase_bytes, 0) /* erase block */                                        \
    F(u32, layouts, 0)           /* bit n: the kernels take weight layout n */            \
    F(u32, calibration_bytes, 0) /* output of the calibration fragment, 0: not run yet */ \
    F(u32, calibration_us, 0)    /* how long it took */                                   \
    F(bytes, active, 32)         /* fragment loaded, zeros: none */                       \
    L(region, regions, 8)                                                                 \
    L(held, held, 64)

#define WIRE_FIELDS_WELCOME(F, L)                        \
    F(u16, version, 0)                                   \
    F(u8, state, 0)     /* enum wire_state */            \
    F(u64, time_ms, 0)  /* wall clock, since 1970 UTC */ \
    F(string, name, 63) /* the board's name in the fleet */

#define WIRE_FIELDS_RUN(F, L) \
    F(u64, deployment, 0)     \
    F(u32, generation, 0)     \
    F(bytes, fragment, 32)

#define WIRE_FIELDS_DONE(F, L)                  \
    F(u32, total_us, 0)                         \
    F(u32, computing_us, 0)                     \
    F(u32, waiting_us, 0)                       \
    F(u32, moving_us, 0)                        \
    F(u32, arena_high_water, 0)                 \
    F(u32, stack_high_water, 0)                 \
    F(u64, bytes_sent, 0) /* payload of DATA */ \
    F(u64, bytes_received, 0)                   \
    L(time, times, 216) /* by first start; more layers than that are added to the last */

#define WIRE_FIELDS_FAILED(F, L)                             \
    F(i32, status, 0)                                        \
    F(u8, section, 0) /* enum fragment_section; 255: none */ \
    F(u16, record, 0)                                        \
    F(u16, layer, 0) /* 65535: none */                       \
    F(string, reason, 200)

/* HAVE will follow: first WANTs, or at once when the board holds it. */
#define WIRE_FIELDS_OFFER(F, L) \
    F(bytes, hash, 32)          \
    F(u32, bytes, 0)

/* Answered by CHUNK frames that cover exactly [offset, offset + length), the last one flagged; an empty
 * flagged CHUNK says that the server no longer has the fragment. */
#define WIRE_FIELDS_WANT(F, L) \
    F(bytes, hash, 32)         \
    F(u32, offset, 0)          \
    F(u32, length, 0)

/* The echo: sent when an OFFER or ACTIVATE is done or refused. */
#define WIRE_FIELDS_HAVE(F, L)                                                               \
    F(bytes, hash, 32)                                                                       \
    F(u8, what, 0)          /* enum wire_have_what */                                        \
    F(u32, valid_bytes, 0)  /* of the image in the flash */                                  \
    F(u32, copied_bytes, 0) /* of those, how many the board copied from fragments it held */ \
    F(i32, status, 0)       /* 0: all is well; else why not */                               \
    F(u8, section, 0)       /* where a malformed fragment is wrong; 255: nowhere */          \
    F(u16, record, 0)                                                                        \
    F(string, reason, 200)

/* Load a fragment (verify it, copy resident weights) or drop it from the flash. Answered by HAVE. */
#define WIRE_FIELDS_ACTIVATE(F, L)                              \
    F(u8, what, 0) /* enum wire_have_what: ACTIVE or DROPPED */ \
    F(u64, deployment, 0)                                       \
    F(u32, generation, 0)                                       \
    F(bytes, hash, 32)

#define WIRE_FIELDS_DO(F, L)                    \
    F(u8, what, 0)      /* enum wire_do_what */ \
    F(u32, number, 0)   /* identify: seconds */ \
    F(string, name, 63) /* configure: the new name */

#define WIRE_FIELDS_BEAT(F, L)                                                           \
    F(u64, uptime_ms, 0)                                                                 \
    F(u8, state, 0)        /* enum wire_activity */                                      \
    F(u32, inference, 0)   /* running, 0: none */                                        \
    F(u32, free_bytes, 0)  /* heap or the like */                                        \
    F(i16, temperature, 0) /* tenths of a degree Celsius; 32767: not known */            \
    F(u32, arena_high_water, 0)                                                          \
    F(u32, stack_high_water, 0)                                                          \
    F(u32, flash_used_bytes, 0)                                                          \
    F(u32, calibrations, 0) /* how often the calibration fragment has run since reset */ \
    F(u32, calibration_bytes, 0)                                                         \
    F(u32, calibration_us, 0)

#define WIRE_FIELDS_LOG(F, L)             \
    F(u8, level, 0) /* enum wire_level */ \
    F(i32, status, 0)                     \
    F(string, text, 500)

/* The one frame of a peer without certificate; in a session (DO renew) with an empty code. */
#define WIRE_FIELDS_ENROL(F, L) \
    F(u16, version_min, 0)      \
    F(u16, version_max, 0)      \
    F(u8, kind, 0)              \
    F(string, code, 63)         \
    F(string, name, 63)         \
    F(string, firmware, 63)     \
    F(blob, request, 1024) /* PKCS#10, DER */

#define WIRE_FIELDS_CERT(F, L)                                   \
    F(i32, status, 0) /* 0, or why there is no certificate */    \
    F(u8, state, 0)   /* enum wire_state */                      \
    F(u64, time_ms, 0)                                           \
    F(string, name, 63)                                          \
    F(blob, certificate, 1400) /* DER */                         \
    F(blob, authority, 1400)   /* DER of the CA's certificate */ \
    F(string, reason, 200)     /* for people: what to do */

/* X(UPPER, lower): records inside lists, then messages. */
#define WIRE_ELEMENTS(X) X(REGION, region) X(HELD, held) X(TIME, time)
#define WIRE_MESSAGES(X)  \
    X(HELLO, hello)       \
    X(WELCOME, welcome)   \
    X(RUN, run)           \
    X(DONE, done)         \
    X(FAILED, failed)     \
    X(OFFER, offer)       \
    X(WANT, want)         \
    X(HAVE, have)         \
    X(ACTIVATE, activate) \
    X(DO, do)             \
    X(BEAT, beat)         \
    X(LOG, log)           \
    X(ENROL, enrol)       \
    X(CERT, cert)

#endif
