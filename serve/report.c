/* report: see report.h. One JSON object: the job's name and state, and what is known of it by then. */
#include "report.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/utf8.h"
#include "import/json.h"

enum { MOST_NESTING = 32, MOST_SETTINGS = 64 << 10 };
#define MOST_BYTES (INT64_C(1) << 50)

typedef enum kind { TEXT, STATE, BYTES, WHOLE, TIME, REAL, SHARE, OBJECT } kind;

#define EVENT(m) offsetof(report_read_t, event) + offsetof(history_event, m)
#define OWN(m)   offsetof(report_read_t, m), sizeof(((report_read_t *)0)->m)
static const struct row {
    const char *name;
    kind kind;
    size_t at, room;
} rows[] = {
    {"job", TEXT, OWN(job)},
    {"state", STATE, EVENT(state), 0},
    {"at_ms", TIME, EVENT(at_ms), 0},
    {"user", TEXT, OWN(user)},
    {"gpu", TEXT, OWN(gpu)},
    {"family", TEXT, OWN(family)},
    {"model", TEXT, OWN(model)},
    {"settings", OBJECT, 0, 0},
    {"predicted_bytes", BYTES, EVENT(predicted_bytes), 0},
    {"upper_bytes", BYTES, EVENT(upper_bytes), 0},
    {"predicted_step_ms", REAL, EVENT(predicted_step_ms), 0},
    {"peak_bytes", BYTES, EVENT(peak_bytes), 0},
    {"step_ms", REAL, EVENT(step_ms), 0},
    {"smact", SHARE, EVENT(smact), 0},
    {"smocc", SHARE, EVENT(smocc), 0},
    {"drama", SHARE, EVENT(drama), 0},
    {"exit_code", WHOLE, EVENT(exit_code), 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool read_text(pl_json *json, const struct row *r, char *to, pl_arena *arena) {
    pl_json_text text;
    size_t length;
    const char *at = json->at;
    if (!pl_json_string(json, &text)) return false;
    char *copy = pl_json_copy(arena, &text, &length);
    if (!copy) return pl_json_fail_at(json, at, "less text");
    if (length >= r->room) return pl_json_fail_at(json, at, "a shorter text");
    memcpy(to, copy, length + 1);
    return true;
}

static bool read_state(pl_json *json, char *to) {
    pl_json_text text;
    const char *at = json->at;
    if (!pl_json_string(json, &text)) return false;
    for (int i = 0; i < JOB_STATES; i++) {
        const char *name = history_state_name((history_state)i);
        if (!pl_json_is(&text, name, strlen(name))) continue;
        history_state state = (history_state)i;
        memcpy(to, &state, sizeof state);
        return true;
    }
    return pl_json_fail_at(json, at, "submitted, started, seen or ended");
}

static bool read_whole(pl_json *json, const struct row *r, char *to) {
    int64_t value;
    bool exact = true;
    const char *at = json->at;
    if (!pl_json_int(json, &value, &exact)) return false;
    int64_t least = r->kind == WHOLE ? -(1 << 30) : 0;
    if (!exact || value < least || value > MOST_BYTES)
        return pl_json_fail_at(json, at, "a whole number, of bytes from 0 to 2^50");
    memcpy(to, &value, sizeof value);
    return true;
}

static bool read_real(pl_json *json, const struct row *r, char *to) {
    double value;
    const char *at = json->at;
    if (!pl_json_number(json, &value)) return false;
    if (!(value >= 0 && value <= (r->kind == SHARE ? 101 : 3.2e10)))
        return pl_json_fail_at(json, at, r->kind == SHARE ? "percent" : "milliseconds of a step");
    memcpy(to, &value, sizeof value);
    return true;
}

static bool read_settings(pl_json *json, report_read_t *out) {
    if (pl_json_peek(json) != '{') return pl_json_fail(json, "an object");
    const char *from = json->at;
    if (!pl_json_skip(json)) return false;
    size_t size = (size_t)(json->at - from);
    if (size > MOST_SETTINGS) return pl_json_fail_at(json, from, "settings of at most 64 KiB");
    for (const char *at = from; at < json->at;) { /* they are given out as they came */
        size_t length = pl_utf8_length((const unsigned char *)at, (size_t)(json->at - at));
        if (length == 0) return pl_json_fail_at(json, at, "UTF-8");
        at += length;
    }
    free(out->settings);
    out->settings = strndup(from, size);
    return out->settings || pl_json_fail_at(json, from, "less text: out of memory");
}

static bool read_member(pl_json *json, const struct row *r, report_read_t *out, pl_arena *arena) {
    char *to = (char *)out + r->at;
    if (pl_json_peek(json) == 'n') return pl_json_null(json);
    switch (r->kind) {
    case TEXT: return read_text(json, r, to, arena);
    case STATE: return read_state(json, to);
    case REAL:
    case SHARE: return read_real(json, r, to);
    case OBJECT: return read_settings(json, out);
    default: return read_whole(json, r, to);
    }
}

static bool read_members(pl_json *json, report_read_t *out, pl_arena *arena, bool *state) {
    pl_json_text key;
    if (!pl_json_object(json)) return false;
    while (pl_json_key(json, &key)) {
        int i = 0;
        while (i < ROWS && !pl_json_is(&key, rows[i].name, strlen(rows[i].name))) i++;
        if (i == ROWS)
            return pl_json_fail_at(json, key.bytes, "a member that a report of a job has");
        *state |= rows[i].kind == STATE;
        if (!read_member(json, &rows[i], out, arena)) return false;
    }
    return !json->failure && pl_json_end(json);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Cards are known by the names that estimates have, whatever they are called where the job ran. */
static void settle_gpu(report_read_t *out, const pl_catalogue *cards) {
    pl_gpu *gpu = NULL;
    if (*out->gpu && pl_gpu_open(&gpu, out->gpu, cards, NULL) == PL_OK)
        snprintf(out->gpu, sizeof out->gpu, "%s", gpu->name);
    pl_gpu_close(&gpu);
}

pl_status report_read(report_read_t *out, const char *body, size_t size, const pl_catalogue *cards,
                      pl_error *err) {
    *out = (report_read_t){.event = {.at_ms = now_ms(),
                                     .predicted_bytes = PL_UNKNOWN,
                                     .upper_bytes = PL_UNKNOWN,
                                     .predicted_step_ms = NAN,
                                     .peak_bytes = PL_UNKNOWN,
                                     .step_ms = NAN,
                                     .smact = NAN,
                                     .smocc = NAN,
                                     .drama = NAN,
                                     .exit_code = PL_UNKNOWN}};
    pl_budget budget = {.most_bytes = 1 << 20};
    pl_arena *arena = pl_arena_new(&budget);
    pl_json json;
    bool state = false;
    pl_status status = PL_OK;
    pl_json_open(&json, body, size, MOST_NESTING);
    if (!arena)
        status = pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    else if (!read_members(&json, out, arena, &state))
        status = pl_fail(err, PL_INPUT, "body", json.failure_at, "expected %s", json.failure);
    else if (!*out->job || !state)
        status = pl_fail(err, PL_USAGE, *out->job ? "state" : "job", -1,
                         "a report has the job's name and its state");
    pl_arena_free(&arena);
    if (status == PL_OK) settle_gpu(out, cards);
    history_event *e = &out->event;
    e->job = out->job;
    e->user = *out->user ? out->user : NULL;
    e->gpu = *out->gpu ? out->gpu : NULL;
    e->family = *out->family ? out->family : NULL;
    e->model = *out->model ? out->model : NULL;
    e->settings = out->settings;
    return status;
}

void report_close(report_read_t *out) {
    free(out->settings);
    out->settings = NULL;
}
