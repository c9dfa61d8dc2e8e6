/*
 * The 16 bytes before every payload, and the names of frame types. Byte by byte, so that neither alignment
 * nor the order of bytes in memory matters.
 */
#include "shared/wire/wire.h"

static void put32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get32(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

void wire_header_put(const struct wire_header *header, uint8_t out[WIRE_HEADER_BYTES])
{
    out[0] = header->type;
    out[1] = header->flags;
    out[2] = (uint8_t)header->transfer;
    out[3] = (uint8_t)(header->transfer >> 8);
    put32(out + 4, header->inference);
    put32(out + 8, header->offset);
    put32(out + 12, header->length);
}

int wire_header_get(const uint8_t in[WIRE_HEADER_BYTES], struct wire_header *header)
{
    header->type = in[0];
    header->flags = in[1];
    header->transfer = (uint16_t)(in[2] | in[3] << 8);
    header->inference = get32(in + 4);
    header->offset = get32(in + 8);
    header->length = get32(in + 12);
    return header->length > WIRE_PAYLOAD_MAX ? STATUS_WIRE_MALFORMED : STATUS_OK;
}

const char *wire_type_name(uint8_t type)
{
    static const char *const down[] = {"?",     "WELCOME",  "RUN",   "DATA", "ABORT", "OFFER",
                                       "CHUNK", "ACTIVATE", "PROBE", "NOP",  "DO",    "CERT"};
    static const char *const up[] = {"HELLO", "DONE", "FAILED", "ABORTED", "BEAT",
                                     "WANT",  "HAVE", "ECHO",   "LOG",     "ENROL"};
    if (type < sizeof down / sizeof down[0])
        return down[type];
    if (type >= WIRE_HELLO && type - WIRE_HELLO < (int)(sizeof up / sizeof up[0]))
        return up[type - WIRE_HELLO];
    return "?";
}
