/* arrivals: see arrivals.h. CSV with a head, which tells the format: Philly's as ElasticFlow has it (timestamp, duration,
 * num_gpus), Muri's (milliseconds; model_name and batch_size), and plimsoll's own (submit_s, duration_s, gpus; perhaps
 * model and batch): docs/formats.md. Columns may stand in any order, others are passed over.
 *
 * The file is somebody's: every figure must be one that a cluster can have seen, and what is wrong is reported with
 * its byte. Left out: quoted fields, which none of these have. */
#include "decide/arrivals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/number.h"

enum {
    MOST_BYTES = 1 << 30,
    MOST_JOBS = 5000000,
    MOST_NAMES = 4096,
    MOST_NAME = 120,
    MOST_GPUS = 1 << 20,
    MOST_COLUMNS = 64
};
/* A century of seconds: no cluster has run longer. */
static const double most_seconds = 3.2e9;

/* ---- formats ---- */

typedef enum column { SUBMIT, DURATION, GPUS, MODEL, BATCH, COLUMNS } column;

typedef struct format {
    const char *name;
    const char *columns[COLUMNS]; /* NULL: it has none */
    bool date;                    /* SUBMIT is one */
    double second;                /* units of time in a second */
} format;

static const format formats[] = {
    {"plimsoll", {"submit_s", "duration_s", "gpus", "model", "batch"}, false, 1},
    {"philly", {"timestamp", "duration", "num_gpus", NULL, NULL}, true, 1},
    {"muri", {"submit_time", "duration", "num_gpu", "model_name", "batch_size"}, false, 1000},
};
enum { FORMATS = sizeof formats / sizeof *formats };
/* What a format cannot do without. */
enum { NEEDED = GPUS + 1 };

/* ---- reading ---- */

typedef struct text {
    const char *at;
    size_t length;
} text;

typedef struct reading {
    pl_arrivals *trace;
    const format *format;
    int place[COLUMNS]; /* of the file's columns; -1: it has none */
    const char *begin, *at, *end, *name;
    pl_error *err;
} reading;

static pl_status wrong(const reading *r, const char *at, const char *expected) {
    return pl_fail(r->err, PL_INPUT, r->name, at - r->begin, "no trace: expected %s", expected);
}

static pl_status no_memory(const reading *r) {
    return pl_fail(r->err, PL_MISSING, NULL, -1, "out of memory");
}

/* Cuts the next line into its fields; count of them, no more than MOST_COLUMNS. */
static int next_line(reading *r, text fields[MOST_COLUMNS]) {
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!end) end = r->end;
    const char *at = r->at, *last = end > at && end[-1] == '\r' ? end - 1 : end;
    int count = 0;
    for (bool more = true; more && count < MOST_COLUMNS; count++) {
        const char *comma = memchr(at, ',', (size_t)(last - at));
        more = comma != NULL;
        fields[count] = (text){at, (size_t)((comma ? comma : last) - at)};
        if (comma) at = comma + 1;
    }
    r->at = end < r->end ? end + 1 : end;
    return count;
}

static bool is(const text *field, const char *name) {
    return strlen(name) == field->length && memcmp(field->at, name, field->length) == 0;
}

static pl_status read_head(reading *r) {
    text fields[MOST_COLUMNS];
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0) r->at += 3;
    const char *from = r->at;
    int count = next_line(r, fields);
    for (size_t f = 0; f < FORMATS; f++) {
        bool all = true;
        for (int c = 0; c < COLUMNS; c++) {
            r->place[c] = -1;
            for (int i = 0; i < count && formats[f].columns[c]; i++)
                if (r->place[c] < 0 && is(&fields[i], formats[f].columns[c])) r->place[c] = i;
            all &= c >= NEEDED || r->place[c] >= 0;
        }
        if (!all) continue;
        r->format = &formats[f];
        r->trace->format = formats[f].name;
        return PL_OK;
    }
    return wrong(r, from, "a head with submit_s,duration_s,gpus, or Philly's or Muri's");
}

static bool number_of(const text *field, double most, double *out) {
    return pl_number_read(field->at, field->length, out) && *out >= 0 && *out <= most;
}

static bool digits(const char *at, int count, int *out) {
    *out = 0;
    for (int i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9') return false;
        *out = *out * 10 + (at[i] - '0');
    }
    return true;
}

/* "2017-10-09 07:01:55" as seconds since 1970, every day having 86,400 (days of the civil calendar). */
static bool date_of(const text *field, double *out) {
    int year, month, day, hour, minute, second;
    const char *t = field->at;
    if (field->length < 19 || !digits(t, 4, &year) || t[4] != '-' || !digits(t + 5, 2, &month) ||
        t[7] != '-' || !digits(t + 8, 2, &day) || (t[10] != ' ' && t[10] != 'T') ||
        !digits(t + 11, 2, &hour) || t[13] != ':' || !digits(t + 14, 2, &minute) || t[16] != ':' ||
        !digits(t + 17, 2, &second) || month < 1 || month > 12 || day < 1 || day > 31 ||
        hour > 23 || minute > 59 || second > 60 || year < 1970)
        return false;
    /* The year begins in March, so that its last day is the leap day. */
    int y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    int64_t days = 365 * (int64_t)y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 719469;
    *out = (double)(days * 86400 + hour * 3600 + minute * 60 + second);
    return true;
}

static void *grown(void *array, size_t *room, size_t need, size_t size) {
    if (need <= *room) return array;
    size_t more = *room ? 2 * *room : 64;
    void *moved = realloc(array, more * size);
    if (moved) *room = more;
    return moved;
}

/* The name's number among the trace's; a new one is added. */
static pl_status model_of(reading *r, const text *field, int32_t *out) {
    pl_arrivals *t = r->trace;
    for (size_t i = 0; i < t->model_count; i++)
        if (is(field, t->models[i])) {
            *out = (int32_t)i;
            return PL_OK;
        }
    if (field->length > MOST_NAME) return wrong(r, field->at, "a shorter name of a model");
    if (t->model_count == MOST_NAMES) return wrong(r, field->at, "no more than 4096 models");
    void *more = grown(t->models, &t->model_room, t->model_count + 1, sizeof *t->models);
    if (!more) return no_memory(r);
    t->models = more;
    char *name = strndup(field->at, field->length);
    if (!name) return no_memory(r);
    *out = (int32_t)t->model_count;
    t->models[t->model_count++] = name;
    return PL_OK;
}

static pl_status read_row(reading *r, const text *fields, int count) {
    pl_arrival job = {.model = -1};
    double gpus, batch = 0;
    for (int c = 0; c < NEEDED; c++)
        if (r->place[c] >= count) return wrong(r, fields[0].at, "as many fields as the head has");
    const text *submit = &fields[r->place[SUBMIT]], *duration = &fields[r->place[DURATION]],
               *cards = &fields[r->place[GPUS]];
    double second = r->format->second;
    if (r->format->date ? !date_of(submit, &job.submit_s)
                        : !number_of(submit, most_seconds * second, &job.submit_s))
        return wrong(r, submit->at,
                     r->format->date ? "a time such as 2017-10-09 07:01:55"
                                     : "a time from 0 on, within a century");
    if (!number_of(duration, most_seconds * second, &job.duration_s))
        return wrong(r, duration->at, "a duration from 0 on, within a century");
    if (!number_of(cards, MOST_GPUS, &gpus) || gpus < 1 || floor(gpus) != gpus)
        return wrong(r, cards->at, "a number of cards from 1 on");
    if (!r->format->date) job.submit_s /= second;
    job.duration_s /= second;
    job.gpus = (int32_t)gpus;
    int model = r->place[MODEL], at = r->place[BATCH];
    if (at >= 0 && at < count && fields[at].length) {
        if (!number_of(&fields[at], 1e12, &batch)) return wrong(r, fields[at].at, "a batch");
        job.batch = (int64_t)batch;
    }
    if (model >= 0 && model < count && fields[model].length) {
        pl_status status = model_of(r, &fields[model], &job.model);
        if (status != PL_OK) return status;
    }
    pl_arrivals *t = r->trace;
    if (t->count == MOST_JOBS) return wrong(r, fields[0].at, "no more than 5 million jobs");
    void *more = grown(t->jobs, &t->room, t->count + 1, sizeof *t->jobs);
    if (!more) return no_memory(r);
    t->jobs = more;
    t->jobs[t->count++] = job;
    return PL_OK;
}

static pl_status read_trace(reading *r) {
    pl_status status = read_head(r);
    while (status == PL_OK && r->at < r->end) {
        text fields[MOST_COLUMNS];
        int count = next_line(r, fields);
        if (count == 1 && fields[0].length == 0) continue; /* an empty line */
        status = read_row(r, fields, count);
    }
    if (status == PL_OK && r->trace->count == 0) status = wrong(r, r->end, "a job");
    return status;
}

/* ---- order ---- */

/* Those of the same time stay in the file's order: a merge sort, from below. */
static bool sort(pl_arrivals *t) {
    bool sorted = true;
    for (size_t i = 1; i < t->count; i++) sorted &= t->jobs[i - 1].submit_s <= t->jobs[i].submit_s;
    pl_arrival *from = t->jobs, *to = sorted ? NULL : malloc(t->count * sizeof *to);
    if (!sorted && !to) return false;
    for (size_t width = 1; !sorted && width < t->count; width *= 2) {
        for (size_t low = 0; low < t->count; low += 2 * width) {
            size_t middle = low + width < t->count ? low + width : t->count;
            size_t high = middle + width < t->count ? middle + width : t->count;
            size_t a = low, b = middle;
            for (size_t k = low; k < high; k++)
                to[k] = b >= high || (a < middle && from[a].submit_s <= from[b].submit_s)
                            ? from[a++]
                            : from[b++];
        }
        pl_arrival *other = from;
        from = to;
        to = other;
    }
    if (from != t->jobs) t->room = t->count;
    t->jobs = from;
    if (!sorted) free(to);
    double first = t->jobs[0].submit_s;
    for (size_t i = 0; i < t->count; i++) t->jobs[i].submit_s -= first;
    return true;
}

/* ---- public ---- */

pl_status pl_arrivals_open_memory(pl_arrivals **out, const void *bytes, size_t size,
                                  const char *name, pl_error *err) {
    *out = NULL;
    pl_arrivals *t = calloc(1, sizeof *t);
    reading r = {.trace = t,
                 .begin = bytes,
                 .at = bytes,
                 .end = (const char *)bytes + size,
                 .name = name,
                 .err = err};
    pl_status status = t ? read_trace(&r) : no_memory(&r);
    if (status == PL_OK && !sort(t)) status = no_memory(&r);
    if (status == PL_OK)
        *out = t;
    else
        pl_arrivals_close(&t);
    return status;
}

pl_status pl_arrivals_open(pl_arrivals **out, const char *path, pl_error *err) {
    pl_file file;
    *out = NULL;
    pl_status status = pl_file_open(&file, path, MOST_BYTES, err);
    if (status != PL_OK) return status;
    status = pl_arrivals_open_memory(out, file.bytes, file.size, path, err);
    pl_file_close(&file);
    return status;
}

void pl_arrivals_close(pl_arrivals **given) {
    if (!given || !*given) return;
    pl_arrivals *t = *given;
    for (size_t i = 0; i < t->model_count; i++) free(t->models[i]);
    free(t->models);
    free(t->jobs);
    free(t);
    *given = NULL;
}

size_t pl_arrivals_count(const pl_arrivals *t) {
    return t->count;
}

const char *pl_arrivals_format(const pl_arrivals *t) {
    return t->format;
}
