/* metrics: see metrics.h. A row per route, numbers that threads add to without a lock. */
#include "metrics.h"

#include <math.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"

enum { ROUTES = 24, CLASSES = 6, BUCKETS = 12 };

/* Upper ends, seconds. */
static const double ends[BUCKETS] = {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
                                     1e-2, 5e-2,   0.1,  0.5,  1,      5};

typedef struct row {
    _Atomic(const char *) route;
    atomic_ullong status[CLASSES]; /* 1xx .. 5xx by the hundreds */
    atomic_ullong bucket[BUCKETS + 1], known, took_ns;
} row;

struct metrics {
    row rows[ROUTES];
};

metrics *metrics_open(void) {
    return calloc(1, sizeof(metrics));
}

void metrics_close(metrics **m) {
    if (!m) return;
    free(*m);
    *m = NULL;
}

static row *row_of(metrics *m, const char *route) {
    for (int i = 0; i < ROUTES; i++) {
        const char *there = atomic_load(&m->rows[i].route);
        if (!there && atomic_compare_exchange_strong(&m->rows[i].route, &there, route))
            return &m->rows[i];
        if (strcmp(there, route) == 0) return &m->rows[i];
    }
    return NULL;
}

void metrics_count(metrics *m, const char *route, int status, bool known, int64_t took_ns) {
    row *r = row_of(m, route && *route ? route : "other");
    int class = status / 100, bucket = 0;
    if (!r) return;
    while (bucket < BUCKETS && (double)took_ns / 1e9 > ends[bucket]) bucket++;
    atomic_fetch_add(&r->status[class > 0 && class < CLASSES ? class : 5], 1);
    atomic_fetch_add(&r->bucket[bucket], 1);
    atomic_fetch_add(&r->took_ns, (unsigned long long)(took_ns > 0 ? took_ns : 0));
    if (known) atomic_fetch_add(&r->known, 1);
}

/* ---- the text ---- */

typedef struct page {
    char *text;
    size_t length, room;
    bool failed;
} page;

__attribute__((format(printf, 2, 3))) static void put(page *p, const char *format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (p->failed || length < 0) return;
    size_t size = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    if (p->length + size + 1 > p->room) {
        size_t room = 2 * p->room + 4096;
        char *grown = realloc(p->text, room);
        p->failed = !grown;
        if (!grown) return;
        p->text = grown;
        p->room = room;
    }
    memcpy(p->text + p->length, line, size + 1);
    p->length += size;
}

static void head(page *p, const char *name, const char *type, const char *help) {
    put(p, "# HELP plimsoll_%s %s\n# TYPE plimsoll_%s %s\n", name, help, name, type);
}

static void put_latency(page *p, const row *r, const char *route) {
    unsigned long long sum = 0;
    for (int b = 0; b <= BUCKETS; b++) {
        sum += atomic_load(&r->bucket[b]);
        if (b < BUCKETS)
            put(p, "plimsoll_request_seconds_bucket{route=\"%s\",le=\"%s\"} %llu\n", route,
                PL_REAL(".6g", ends[b]), sum);
        else
            put(p, "plimsoll_request_seconds_bucket{route=\"%s\",le=\"+Inf\"} %llu\n", route, sum);
    }
    put(p, "plimsoll_request_seconds_sum{route=\"%s\"} %s\n", route,
        PL_REAL(".9g", (double)atomic_load(&r->took_ns) / 1e9));
    put(p, "plimsoll_request_seconds_count{route=\"%s\"} %llu\n", route, sum);
}

static void gauge(page *p, const char *name, const char *help, double value) {
    if (!isfinite(value)) return;
    head(p, name, "gauge", help);
    put(p, "plimsoll_%s %s\n", name, PL_REAL(".9g", value));
}

static void counter(page *p, const char *name, const char *help, uint64_t value) {
    head(p, name, "counter", help);
    put(p, "plimsoll_%s %llu\n", name, (unsigned long long)value);
}

char *metrics_text(metrics *m, const metrics_now *now) {
    page p = {0};
    const char *route;
    head(&p, "requests_total", "counter", "requests answered, by route and class of status");
    for (int i = 0; i < ROUTES && (route = atomic_load(&m->rows[i].route)); i++)
        for (int c = 1; c < CLASSES; c++) {
            unsigned long long n = atomic_load(&m->rows[i].status[c]);
            if (n)
                put(&p, "plimsoll_requests_total{route=\"%s\",status=\"%dxx\"} %llu\n", route, c,
                    n);
        }
    head(&p, "known_total", "counter", "requests whose answer was there already");
    for (int i = 0; i < ROUTES && (route = atomic_load(&m->rows[i].route)); i++)
        put(&p, "plimsoll_known_total{route=\"%s\"} %llu\n", route, atomic_load(&m->rows[i].known));
    head(&p, "request_seconds", "histogram", "from a request's first byte to its answer");
    for (int i = 0; i < ROUTES && (route = atomic_load(&m->rows[i].route)); i++)
        put_latency(&p, &m->rows[i], route);
    gauge(&p, "waiting", "requests that wait for a thread", (double)now->waiting);
    gauge(&p, "connections", "connections that are open", (double)now->connections);
    gauge(&p, "bodies_bytes", "bodies of requests under way", (double)now->bodies_bytes);
    gauge(&p, "answers_bytes", "answers that are being sent, apart from kept ones",
          (double)now->answers_bytes);
    const pl_service_counts *k = &now->kept;
    gauge(&p, "kept_models", "models in memory", (double)k->models);
    gauge(&p, "kept_models_bytes", "likewise", (double)k->model_bytes);
    gauge(&p, "kept_answers", "answers in memory", (double)k->answers);
    gauge(&p, "kept_answers_bytes", "likewise", (double)k->answer_bytes);
    counter(&p, "kept_answers_found_total", "answers that were there when asked for",
            k->answers_found);
    counter(&p, "kept_answers_missed_total", "those that were not", k->answers_missed);
    counter(&p, "kept_answers_dropped_total", "those that made room for others",
            k->answers_dropped);
    const history_figures *h = now->history;
    counter(&p, "writes_failed_total", "reports and models that could not be stored",
            (uint64_t)h->failed_writes);
    gauge(&p, "models", "models stored", (double)h->models);
    gauge(&p, "jobs", "jobs that were reported", (double)h->jobs);
    gauge(&p, "jobs_compared",
          "of the last thousand that ended, those with a prediction and a real peak",
          (double)h->ended);
    gauge(&p, "jobs_above_upper", "of these, those whose real peak was above the upper end",
          (double)h->above_upper);
    gauge(&p, "peak_error_median",
          "of these, the real peak's distance from the predicted, as a share", h->error_median);
    gauge(&p, "peak_error_mean", "of these, likewise", h->error_mean);
    gauge(&p, "step_error_median", "likewise of step times", h->step_error_median);
    if (p.failed) free(p.text);
    return p.failed ? NULL : p.text;
}
