/* sizes: see sizes.h. The file is JSON lines (docs/formats.md), a kind of job each, as `evaluate --sizes` writes them,
 * or what `estimate --json` printed: lines of one model and batch by several estimators are one kind.
 *
 * Slowdowns are pl_collocate's, of representatives: kinds whose times are near each other share one, so that a
 * thousand kinds need some thousand pairs to be followed, not a million. */
#include "decide/sizes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/sized.h"
#include "decide/demand.h"
#include "import/json.h"

enum {
    MOST_BYTES = 512 << 20,
    MOST_NESTING = 64,
    MOST_KINDS = 20000,
    MOST_TIMES = 96, /* representatives */
    SCRATCH = 1 << 20,
};
#define MOST_PEAK (INT64_C(1) << 50)

typedef struct reading {
    pl_sizes *sizes;
    pl_arena *arena;
    pl_json json;
    const char *begin, *name; /* of the file */
    pl_status status;         /* of what is not JSON's fault */
    pl_error *err;
} reading;

/* A line's kind before it is one of the sizes', and whose estimate its memory is. */
typedef struct line {
    pl_job_kind kind;
    char estimator[64];
    bool schema;
} line;

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

/* ---- estimators ---- */

int pl_sizes_find(const pl_sizes *s, const char *estimator) {
    for (size_t i = 0; i < s->estimator_count; i++)
        if (strcmp(s->estimators[i], estimator) == 0) return (int)i;
    return -1;
}

static int estimator_of(reading *r, const char *name, const char *at) {
    pl_sizes *s = r->sizes;
    int found = pl_sizes_find(s, name);
    if (found >= 0) return found;
    if (s->estimator_count == PL_SIZES_ESTIMATORS) {
        pl_json_fail_at(&r->json, at, "no more than 32 estimators");
        return -1;
    }
    char *copy = strdup(name);
    if (!copy) {
        r->status = no_memory(r->err);
        return -1;
    }
    s->estimators[s->estimator_count] = copy;
    return (int)s->estimator_count++;
}

/* An interval that has one end alone, or none, ends at the peak. */
static pl_span span_of(int64_t low, int64_t peak, int64_t high) {
    if (peak < 0) return (pl_span){-1, -1, -1};
    return (pl_span){(double)(low >= 0 && low <= peak ? low : peak), (double)peak,
                     (double)(high >= peak ? high : peak)};
}

static void note_interval(pl_sizes *s, int estimator, const pl_span *span) {
    if (span->peak >= 0 && span->low < span->high) s->intervals[estimator] = true;
}

/* ---- a line ---- */

/* null: as it was. */
static bool read_bytes(reading *r, int64_t *out, int64_t most) {
    if (pl_json_peek(&r->json) == 'n') return pl_json_null(&r->json);
    return pl_json_whole(&r->json, out, most);
}

static bool read_number(reading *r, double *out, double most) {
    if (pl_json_peek(&r->json) == 'n') return pl_json_null(&r->json);
    const char *at = r->json.at;
    if (!pl_json_number(&r->json, out)) return false;
    return (*out >= 0 && *out <= most) ||
           pl_json_fail_at(&r->json, at, "a number from 0 on that a job can have, or null");
}

/* {"peak_bytes":N,"low_bytes":N,"high_bytes":N} */
static bool read_span(reading *r, pl_span *out) {
    int64_t low = PL_UNKNOWN, peak = PL_UNKNOWN, high = PL_UNKNOWN;
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "peak_bytes")   ? !read_bytes(r, &peak, MOST_PEAK)
            : PL_JSON_IS(&key, "low_bytes")  ? !read_bytes(r, &low, MOST_PEAK)
            : PL_JSON_IS(&key, "high_bytes") ? !read_bytes(r, &high, MOST_PEAK)
                                             : !pl_json_skip(&r->json))
            return false;
    }
    *out = span_of(low, peak, high);
    return !r->json.failure;
}

static bool read_estimates(reading *r, pl_job_kind *kind) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        size_t length;
        char *name = pl_json_copy(r->arena, &key, &length);
        if (!name || length == 0 || length > 60)
            return pl_json_fail_at(&r->json, key.bytes, "an estimator's name");
        int at = estimator_of(r, name, key.bytes);
        if (at < 0 || !read_span(r, &kind->said[at])) return false;
        note_interval(r->sizes, at, &kind->said[at]);
    }
    return !r->json.failure;
}

/* Of an estimate: {"name":"gpt2","batch":8,...}. */
static bool read_model(reading *r, pl_job_kind *kind) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key))
        if (PL_JSON_IS(&key, "batch") ? !read_bytes(r, &kind->batch, INT64_MAX / 2)
                                      : !pl_json_skip(&r->json))
            return false;
    return !r->json.failure;
}

typedef struct figure {
    const char *key;
    size_t place; /* in a pl_demand */
    double most;
} figure;
#define AT(member) offsetof(pl_demand, member)
static const figure figures[] = {
    {"step_ms", AT(step_ms), 3.2e10}, {"device_ms", AT(device_ms), 3.2e10},
    {"host_ms", AT(host_ms), 3.2e10}, {"launches", AT(launches), 1e12},
    {"smact", AT(smact), 101},        {"smocc", AT(smocc), 101},
    {"drama", AT(drama), 101},        {"tensor", AT(tensor), 101},
};

static bool read_figure(reading *r, const pl_json_text *key, pl_demand *demand, bool *read) {
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (pl_json_is(key, figures[i].key, strlen(figures[i].key))) {
            *read = true;
            return read_number(r, (double *)(void *)((char *)demand + figures[i].place),
                               figures[i].most);
        }
    *read = false;
    return true;
}

static bool read_member(reading *r, const pl_json_text *key, line *l) {
    pl_job_kind *k = &l->kind;
    if (PL_JSON_IS(key, "name"))
        return pl_json_name(&r->json, r->arena, k->demand.name, sizeof k->demand.name);
    if (PL_JSON_IS(key, "batch")) return read_bytes(r, &k->batch, INT64_MAX / 2);
    if (PL_JSON_IS(key, "weight")) return read_number(r, &k->weight, 1e9);
    if (PL_JSON_IS(key, "measured_bytes")) return read_bytes(r, &k->measured_bytes, MOST_PEAK);
    if (PL_JSON_IS(key, "estimates")) return read_estimates(r, k);
    if (PL_JSON_IS(key, "calibrated")) return pl_json_bool(&r->json, &k->demand.calibrated);
    if (PL_JSON_IS(key, "estimator"))
        return pl_json_name(&r->json, r->arena, l->estimator, sizeof l->estimator);
    if (PL_JSON_IS(key, "schema")) l->schema = true;
    if (PL_JSON_IS(key, "model") && pl_json_peek(&r->json) == '{') return read_model(r, k);
    if (PL_JSON_IS(key, "gpu") && pl_json_peek(&r->json) == '"')
        return pl_json_name(&r->json, r->arena, k->demand.gpu, sizeof k->demand.gpu);
    bool read;
    if (!read_figure(r, key, &k->demand, &read)) return false;
    return read || pl_json_skip(&r->json);
}

/* The line is an estimate: its name, card, memory and times. */
static bool take_estimate(reading *r, line *l, const char *from, const char *to) {
    pl_demand said = PL_SIZED(pl_demand);
    char name[sizeof said.name];
    memcpy(name, l->kind.demand.name, sizeof name);
    r->status = pl_demand_read(&said, from, (size_t)(to - from), r->name, r->err);
    if (r->status != PL_OK) {
        if (r->err && r->err->position >= 0) r->err->position += from - r->begin;
        return false;
    }
    l->kind.demand = said;
    if (*name) memcpy(l->kind.demand.name, name, sizeof name);
    int at = estimator_of(r, *l->estimator ? l->estimator : "hybrid", from);
    if (at < 0) return false;
    l->kind.said[at] = span_of(said.low_bytes, said.peak_bytes, said.high_bytes);
    note_interval(r->sizes, at, &l->kind.said[at]);
    return true;
}

static bool has_times(const pl_demand *d) {
    return d->step_ms > 0 && d->device_ms >= 0 && d->host_ms >= 0 && isfinite(d->step_ms);
}

/* A line of a model and batch that was there brings what that lacks. */
static pl_status keep(reading *r, const line *l) {
    pl_sizes *s = r->sizes;
    for (size_t i = 0; l->schema && i < s->count; i++) {
        pl_job_kind *k = &s->kinds[i];
        if (strcmp(k->demand.name, l->kind.demand.name) != 0 || k->batch != l->kind.batch ||
            strcmp(k->demand.gpu, l->kind.demand.gpu) != 0)
            continue;
        for (int e = 0; e < PL_SIZES_ESTIMATORS; e++)
            if (l->kind.said[e].peak >= 0) k->said[e] = l->kind.said[e];
        if (k->measured_bytes < 0) k->measured_bytes = l->kind.measured_bytes;
        if (!has_times(&k->demand)) k->demand = l->kind.demand;
        return PL_OK;
    }
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        void *more = realloc(s->kinds, room * sizeof *s->kinds);
        if (!more) return no_memory(r->err);
        s->kinds = more;
        s->room = room;
    }
    s->kinds[s->count++] = l->kind;
    return PL_OK;
}

static bool read_line(reading *r) {
    line l = {.kind = {.measured_bytes = PL_UNKNOWN, .weight = 1}};
    pl_demand *d = &l.kind.demand;
    pl_json_text key;
    *d = (pl_demand){.size = sizeof *d, .peak_bytes = PL_UNKNOWN, .high_bytes = PL_UNKNOWN};
    d->low_bytes = d->upper_bytes = PL_UNKNOWN;
    d->step_ms = d->device_ms = d->host_ms = d->launches = NAN;
    d->smact = d->smocc = d->drama = d->tensor = NAN;
    for (int i = 0; i < PL_SIZES_ESTIMATORS; i++) l.kind.said[i] = span_of(-1, -1, -1);
    pl_json_peek(&r->json);
    const char *from = r->json.at;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key))
        if (!read_member(r, &key, &l)) return false;
    if (r->json.failure || !pl_json_end(&r->json)) return false;
    if (l.schema && !take_estimate(r, &l, from, r->json.at)) return false;
    bool any = l.kind.measured_bytes > 0;
    for (size_t i = 0; i < r->sizes->estimator_count; i++) any |= l.kind.said[i].peak > 0;
    if (!any)
        return pl_json_fail_at(&r->json, from,
                               "a kind of job: measured_bytes or estimates, more than 0");
    if (r->sizes->count == MOST_KINDS)
        return pl_json_fail_at(&r->json, from, "no more than 20,000 kinds");
    return (r->status = keep(r, &l)) == PL_OK;
}

static pl_status read_sizes(reading *r, const char *bytes, size_t size) {
    const char *at = bytes, *end = bytes + size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        bool blank = true;
        for (const char *c = at; blank && c < stop; c++)
            blank = *c == ' ' || *c == '\t' || *c == '\r';
        pl_json_open(&r->json, at, (size_t)(stop - at), MOST_NESTING);
        pl_arena_reset(r->arena);
        if (!blank && !read_line(r))
            return r->status != PL_OK
                       ? r->status
                       : pl_fail(r->err, PL_INPUT, r->name, at - bytes + r->json.failure_at,
                                 "no sizes of jobs: expected %s", r->json.failure);
        at = stop + 1;
    }
    if (r->sizes->count) return PL_OK;
    return pl_fail(r->err, PL_INPUT, r->name, 0, "no sizes of jobs: it is empty");
}

/* ---- representatives ---- */

/* How far apart two kinds' times are; 1: as far as one representative may stand for. */
static double apart(const pl_demand *a, const pl_demand *b) {
    double far = fabs(log(a->step_ms / b->step_ms)) / 0.2;
    far = fmax(far, fabs(a->device_ms / a->step_ms - b->device_ms / b->step_ms) / 0.06);
    far = fmax(far, fabs(a->host_ms / a->step_ms - b->host_ms / b->step_ms) / 0.12);
    if (isfinite(a->smact) && isfinite(b->smact)) far = fmax(far, fabs(a->smact - b->smact) / 8);
    if (isfinite(a->drama) && isfinite(b->drama)) far = fmax(far, fabs(a->drama - b->drama) / 8);
    if (a->launches > 0 && b->launches > 0)
        far = fmax(far, fabs(log(a->launches / b->launches)) / 0.7);
    return strcmp(a->gpu, b->gpu) == 0 ? far : INFINITY;
}

/* Each kind goes with the nearest representative within reach, else becomes one; a reach that takes more than
 * MOST_TIMES of them is widened by a quarter. */
static pl_status represent(pl_sizes *s, pl_error *err) {
    s->times = calloc(MOST_TIMES, sizeof *s->times);
    if (!s->times) return no_memory(err);
    for (double reach = 1;; reach *= 1.25) {
        bool all = true;
        s->time_count = 0;
        for (size_t i = 0; all && i < s->count; i++) {
            pl_job_kind *k = &s->kinds[i];
            double best = INFINITY;
            k->timed = has_times(&k->demand);
            k->like = -1;
            if (!k->timed) continue;
            for (size_t t = 0; t < s->time_count; t++) {
                double far = apart(&k->demand, &s->times[t]);
                if (far > reach || far >= best) continue;
                best = far;
                k->like = (int32_t)t;
            }
            if (k->like >= 0) continue;
            if (s->time_count == MOST_TIMES) {
                if (reach > 1e6) k->timed = false; /* more cards than that */
                all = reach > 1e6;
                continue;
            }
            k->like = (int32_t)s->time_count;
            s->times[s->time_count++] = k->demand;
        }
        if (all) return PL_OK;
    }
}

double pl_sizes_slowdown(pl_sizes *s, const pl_job_kind *kind, const pl_job_kind *beside,
                         pl_sharing sharing, bool *known) {
    const double full = 2; /* two that fill the card take turns */
    if (!kind->timed || !beside->timed) {
        *known = false;
        return full;
    }
    size_t n = s->time_count, a = (size_t)kind->like, b = (size_t)beside->like;
    float **table = &s->slowdowns[sharing];
    if (!*table) *table = calloc(n * n, sizeof **table);
    if (!*table) {
        *known = false;
        return full;
    }
    float *at = &(*table)[a * n + b];
    if (!(*at > 0)) { /* both ways at once; infinite: not known */
        pl_pair pair = PL_SIZED(pl_pair);
        pl_demand one = s->times[a], other = s->times[b];
        one.peak_bytes = one.high_bytes = other.peak_bytes = other.high_bytes = 1;
        const pl_gpu *gpu = pl_gpu_find(one.gpu);
        bool told = gpu && pl_collocate(&pair, &one, &other, gpu, sharing, NULL) == PL_OK;
        (*table)[b * n + a] = told ? (float)pair.slowdown[1].value : INFINITY;
        *at = told ? (float)pair.slowdown[0].value : INFINITY;
    }
    if (isfinite((double)*at)) return (double)*at;
    *known = false;
    return full;
}

/* ---- public ---- */

pl_status pl_sizes_open_memory(pl_sizes **out, const void *bytes, size_t size, const char *name,
                               pl_error *err) {
    *out = NULL;
    pl_sizes *s = calloc(1, sizeof *s);
    pl_budget budget = {.most_bytes = SCRATCH};
    pl_error dropped = PL_SIZED(pl_error);
    reading r = {.sizes = s,
                 .arena = pl_arena_new(&budget),
                 .begin = bytes,
                 .name = name,
                 .err = err ? err : &dropped};
    pl_status status = s && r.arena ? read_sizes(&r, bytes, size) : no_memory(err);
    if (status == PL_OK) status = represent(s, err);
    pl_arena_free(&r.arena);
    if (status == PL_OK)
        *out = s;
    else
        pl_sizes_close(&s);
    return status;
}

pl_status pl_sizes_open(pl_sizes **out, const char *path, pl_error *err) {
    pl_file file;
    *out = NULL;
    pl_status status = pl_file_open(&file, path, MOST_BYTES, err);
    if (status != PL_OK) return status;
    status = pl_sizes_open_memory(out, file.bytes, file.size, path, err);
    pl_file_close(&file);
    return status;
}

void pl_sizes_close(pl_sizes **given) {
    if (!given || !*given) return;
    pl_sizes *s = *given;
    for (size_t i = 0; i < s->estimator_count; i++) free(s->estimators[i]);
    for (size_t i = 0; i < 2; i++) free(s->slowdowns[i]);
    free(s->times);
    free(s->kinds);
    free(s);
    *given = NULL;
}

size_t pl_sizes_count(const pl_sizes *s) {
    return s->count;
}

const char *pl_sizes_estimator(const pl_sizes *s, size_t index) {
    return index < s->estimator_count ? s->estimators[index] : NULL;
}
