/*
 * Figures of an evaluation. Percentiles are by nearest rank, so that they are latencies that occurred;
 * confusion is counted over sorted pairs, so that its size follows the set and not the number of labels.
 */
#include "server/cli/eval_report.h"

#include "server/base/bytes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRINTED = 20 };

double eval_percentile(const double *sorted, size_t n, double part)
{
    size_t rank = (size_t)ceil(part * (double)n - 1e-9);
    return sorted[rank < 1 ? 0 : rank > n ? n - 1 : rank - 1];
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int eval_count(const struct eval_result *results, size_t n, struct eval_figures *figures)
{
    double *latencies = malloc(n * sizeof *latencies), sum = 0;
    if (!latencies)
        return STATUS_NO_MEMORY;
    *figures = (struct eval_figures){.images = n};
    for (size_t i = 0; i < n; i++) {
        figures->top1 += results[i].rank == 1;
        figures->top5 += results[i].rank >= 1 && results[i].rank <= 5;
        sum += latencies[i] = results[i].latency_ms;
    }
    qsort(latencies, n, sizeof *latencies, ascending);
    figures->mean_ms = sum / (double)n;
    figures->p50_ms = eval_percentile(latencies, n, 0.5);
    figures->p95_ms = eval_percentile(latencies, n, 0.95);
    figures->max_ms = latencies[n - 1];
    free(latencies);
    return 0;
}

static double part(size_t count, const struct eval_report *report)
{
    return report->figures.images ? (double)count / (double)report->figures.images : 0;
}

/* ---- thresholds ---- */

struct threshold {
    const char *name;
    double limit, actual;
    bool met;
};

/* Those that were asked for; how many. */
static int thresholds_of(const struct eval_report *report, struct threshold out[2])
{
    int n = 0;
    double top1 = part(report->figures.top1, report);
    if (!isnan(report->thresholds.min_top1))
        out[n++] = (struct threshold){"min_top1", report->thresholds.min_top1, top1,
                                      top1 >= report->thresholds.min_top1};
    if (!isnan(report->thresholds.max_p95_ms))
        out[n++] = (struct threshold){"max_p95_ms", report->thresholds.max_p95_ms, report->figures.p95_ms,
                                      report->figures.p95_ms <= report->thresholds.max_p95_ms};
    return n;
}

bool eval_met(const struct eval_report *report)
{
    struct threshold all[2];
    int n = thresholds_of(report, all);
    bool met = true;
    for (int i = 0; i < n; i++)
        met = met && all[i].met;
    return met;
}

/* ---- confusion ---- */

static int by_pair(const void *a, const void *b)
{
    const struct eval_result *const *p = a, *const *q = b;
    int order = strverscmp((*p)->image->label, (*q)->image->label);
    return order ? order : strverscmp((*p)->said, (*q)->said);
}

static json_t *confusion_json(const struct eval_report *report)
{
    const struct eval_result **sorted = malloc((report->n + 1) * sizeof *sorted);
    json_t *list = sorted ? json_array() : NULL;
    for (size_t i = 0; sorted && i < report->n; i++)
        sorted[i] = &report->results[i];
    if (sorted)
        qsort(sorted, report->n, sizeof *sorted, by_pair);
    for (size_t i = 0, count; sorted && i < report->n; i += count) {
        for (count = 1; i + count < report->n && by_pair(&sorted[i], &sorted[i + count]) == 0;)
            count++;
        json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "label", sorted[i]->image->label, "said",
                                              sorted[i]->said, "count", (json_int_t)count));
    }
    free(sorted);
    return list;
}

/* ---- JSON ---- */

static json_t *misses_json(const struct eval_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->n; i++) {
        const struct eval_result *r = &report->results[i];
        if (r->rank != 1)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s, s:f, s:o}", "path", r->image->path, "label",
                                            r->image->label, "said", r->said, "score", r->score, "rank",
                                            r->rank ? json_integer(r->rank) : json_null()));
    }
    return list;
}

static json_t *thresholds_json(const struct eval_report *report)
{
    struct threshold all[2];
    int n = thresholds_of(report, all);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:b}", "name", all[i].name, "limit",
                                              all[i].limit, "actual", all[i].actual, "met", all[i].met));
    return list;
}

json_t *eval_report_json(const struct eval_report *report)
{
    const struct eval_figures *f = &report->figures;
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:f, s:{s:f, s:f, s:f, s:f}, s:o, s:o, s:o}", "model",
                     report->model, "version", report->version, "set", report->set, "executor",
                     report->executor, "images", (json_int_t)f->images, "top1", part(f->top1, report), "top5",
                     part(f->top5, report), "latency_ms", "mean", f->mean_ms, "p50", f->p50_ms, "p95",
                     f->p95_ms, "max", f->max_ms, "confusion", confusion_json(report), "misses",
                     misses_json(report), "thresholds", thresholds_json(report));
}

/* ---- JUnit ---- */

/* Text as XML may hold it: markup escaped, control characters replaced. */
static void put_xml(struct bytes *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        const char *entity = c == '&'                             ? "&amp;"
                             : c == '<'                           ? "&lt;"
                             : c == '>'                           ? "&gt;"
                             : c == '"'                           ? "&quot;"
                             : c < 0x20 && c != '\n' && c != '\t' ? "?"
                                                                  : NULL;
        bytes_append(out, entity ? entity : text, entity ? strlen(entity) : 1);
    }
}

static void put_attribute(struct bytes *out, const char *name, const char *value)
{
    bytes_printf(out, " %s=\"", name);
    put_xml(out, value);
    bytes_printf(out, "\"");
}

static void put_case(struct bytes *out, const struct eval_report *report, const struct threshold *threshold)
{
    bytes_printf(out, "  <testcase");
    put_attribute(out, "classname", report->model);
    put_attribute(out, "name", threshold ? threshold->name : "evaluated");
    bytes_printf(out, " time=\"%.3f\"", report->figures.mean_ms * (double)report->n / 1e3);
    if (threshold && !threshold->met)
        bytes_printf(out, ">\n    <failure message=\"%s is %.6g, the limit %.6g\"/>\n  </testcase>\n",
                     threshold->name, threshold->actual, threshold->limit);
    else
        bytes_printf(out, "/>\n");
}

char *eval_report_junit(const struct eval_report *report)
{
    struct bytes out;
    struct threshold all[2];
    int n = thresholds_of(report, all), failed = 0;
    bytes_init(&out, (size_t)256 << 20);
    for (int i = 0; i < n; i++)
        failed += !all[i].met;
    bytes_printf(&out,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"shoal eval\" tests=\"%d\" "
                 "failures=\"%d\">\n  <properties>\n",
                 n ? n : 1, failed);
    bytes_printf(&out, "    <property name=\"images\" value=\"%zu\"/>\n", report->n);
    bytes_printf(&out, "    <property name=\"top1\" value=\"%.6g\"/>\n", part(report->figures.top1, report));
    bytes_printf(&out, "    <property name=\"top5\" value=\"%.6g\"/>\n", part(report->figures.top5, report));
    bytes_printf(&out, "    <property name=\"p95_ms\" value=\"%.6g\"/>\n  </properties>\n",
                 report->figures.p95_ms);
    for (int i = 0; i < n; i++)
        put_case(&out, report, &all[i]);
    if (!n)
        put_case(&out, report, NULL);
    bytes_printf(&out, "  <system-out>");
    for (size_t i = 0; i < report->n; i++) {
        const struct eval_result *r = &report->results[i];
        if (r->rank == 1)
            continue;
        put_xml(&out, r->image->path);
        bytes_printf(&out, ": ");
        put_xml(&out, r->image->label);
        bytes_printf(&out, " read as ");
        put_xml(&out, r->said);
        bytes_printf(&out, "\n");
    }
    bytes_printf(&out, "</system-out>\n</testsuite>\n");
    bytes_put8(&out, 0);
    size_t size;
    return (char *)bytes_take(&out, &size);
}

/* ---- text ---- */

void eval_report_print(const struct eval_report *report)
{
    const struct eval_figures *f = &report->figures;
    struct threshold all[2];
    int n = thresholds_of(report, all);
    size_t printed = 0, misses = f->images - f->top1;
    (void)printf("%s over %zu images: top-1 %.2f %%, top-5 %.2f %%; latency median %.3f ms, 95 of 100 within "
                 "%.3f ms\n",
                 report->model, f->images, 100 * part(f->top1, report), 100 * part(f->top5, report),
                 f->p50_ms, f->p95_ms);
    for (size_t i = 0; i < report->n && printed < PRINTED; i++) {
        const struct eval_result *r = &report->results[i];
        if (r->rank == 1)
            continue;
        (void)printf("  miss: %s is %s, read as %s (%.3g)\n", r->image->path, r->image->label, r->said,
                     r->score);
        printed++;
    }
    if (misses > printed)
        (void)printf("  and %zu more misses; --json lists all\n", misses - printed);
    for (int i = 0; i < n; i++)
        (void)printf("%s: %s %.6g, limit %.6g\n", all[i].met ? "met" : "MISSED", all[i].name, all[i].actual,
                     all[i].limit);
}
