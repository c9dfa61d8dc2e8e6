/*
 * What an evaluation counts and how it is told: figures, confusion, misses, thresholds; as text, JSON and
 * JUnit. Pure but for eval_report_print.
 */
#ifndef SHOAL_SERVER_CLI_EVAL_REPORT_H
#define SHOAL_SERVER_CLI_EVAL_REPORT_H

#include "server/cli/eval_set.h"

#include <jansson.h>
#include <stdbool.h>

/* What became of one image. */
struct eval_result {
    const struct eval_image *image; /* borrowed */
    char *said;                     /* the first answer: a label, or a number without labels; owned */
    int rank;                 /* of the right label in the answer, from 1; 0: not among those asked for */
    double score, latency_ms; /* score of the first answer */
};

struct eval_figures {
    size_t images, top1, top5; /* counts */
    double mean_ms, p50_ms, p95_ms, max_ms;
};

/* NAN: no threshold. */
struct eval_thresholds {
    double min_top1;   /* a part of 1 */
    double max_p95_ms; /* of the latency of an inference */
};

struct eval_report {
    const char *model, *version, *set, *executor; /* borrowed; version may be "" */
    const struct eval_result *results;            /* borrowed */
    size_t n;
    struct eval_figures figures;
    struct eval_thresholds thresholds;
};

/* The smallest value that at least `part` (0..1] of `sorted` do not exceed (nearest rank). n > 0. */
double eval_percentile(const double *sorted, size_t n, double part);
/* Counts; STATUS_NO_MEMORY. n > 0. */
int eval_count(const struct eval_result *results, size_t n, struct eval_figures *figures);

bool eval_met(const struct eval_report *report); /* every threshold */
/* {"model","version","set","executor","images","top1","top5","latency_ms":{"mean","p50","p95","max"},
 * "confusion":[{"label","said","count"}],"misses":[{"path","label","said","score","rank"}],
 * "thresholds":[{"name","limit","actual","met"}]}; top1 and top5 are parts of 1. NULL without memory. */
json_t *eval_report_json(const struct eval_report *report);
/* A JUnit document: a test case a threshold (one for the run without any), the misses as output. malloc'ed;
 * NULL without memory. */
char *eval_report_junit(const struct eval_report *report);
void eval_report_print(const struct eval_report *report); /* to standard output */

#endif
