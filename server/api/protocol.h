/*
 * The Open Inference Protocol, version 2: requests as JSON or with the binary tensor extension, into the raw
 * input of a graph, and the raw output back into either form. Pure but for the exchange's own body.
 */
#ifndef SHOAL_SERVER_API_PROTOCOL_H
#define SHOAL_SERVER_API_PROTOCOL_H

#include "server/api/api.h"

struct v2_request {
    json_t *header;       /* owned; NULL for a raw body */
    unsigned char *input; /* malloc'ed, graph_input_bytes() long */
    bool raw;             /* the body is the raw tensors: so is the answer */
    uint32_t wanted;      /* bit o: output o is asked for */
    uint32_t binary;      /* bit o: its data goes behind the header */
};

/* 0, or STATUS_INVALID_ARGUMENT, _BAD_JSON, _INPUT_SIZE with what is wrong where. */
int v2_parse(const struct http_exchange *x, const struct graph *graph, struct v2_request *request,
             struct error *error);
void v2_request_free(struct v2_request *request);

/* What an answer names beside its data. */
struct v2_named {
    const char *model, *version, *deployment, *inference;
    uint32_t generation;
    double latency_ms;
};
/* Sets the exchange's answer. `output` has graph_output_bytes(). */
void v2_answer(struct http_exchange *x, const struct graph *graph, const struct v2_request *request,
               const void *output, const struct v2_named *named);

/* The name of an input or output: the tensor's, or "input_0". */
const char *v2_end_name(const struct tensor *tensor, const char *kind, int32_t index, char buffer[32]);

/* The route for a request to {name} and perhaps a version (NULL: none); the answer is set when it is NULL. */
struct infer_route *v2_route(struct http_exchange *x, const char *name, const char *version);

#endif
