/* report: what an estimate gives, its ownership, and its form in JSON.
 *
 * The JSON is schema 1 of docs/formats.md: one object, bytes as integers, unknown as null. Strings
 * come from model files and are escaped; bytes that are no UTF-8 become U+FFFD, so that the text is
 * always valid JSON. Left out: the timeline and the tensors alive at the peak, which the command
 * writes. */
#include "estimate/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

enum { MOST_WARNINGS = 16 };

/* The public struct comes first, so that a pl_report * is a full_report * too. */
typedef struct full_report {
    pl_report report;
    pl_arena *arena;
    const char *warnings[MOST_WARNINGS];
    int64_t trainable; /* PL_UNKNOWN: as the model says */
} full_report;

pl_report *pl_report_new(size_t limit) {
    pl_arena *arena = pl_arena_new(limit);
    if (!arena) return NULL;
    full_report *full = pl_arena_alloc(arena, sizeof *full);
    if (!full) {
        pl_arena_free(&arena);
        return NULL;
    }
    full->arena = arena;
    full->trainable = PL_UNKNOWN;
    full->report = (pl_report){.peak_bytes = PL_UNKNOWN,
                               .low_bytes = PL_UNKNOWN,
                               .high_bytes = PL_UNKNOWN,
                               .coverage = NAN,
                               .allocated_bytes = PL_UNKNOWN,
                               .reserved_bytes = PL_UNKNOWN,
                               .overhead_bytes = PL_UNKNOWN,
                               .flops_per_step = NAN,
                               .flop_rate = NAN,
                               .peak_phase = PL_PHASES,
                               .peak_step = PL_UNKNOWN,
                               .retries = PL_UNKNOWN,
                               .events = PL_UNKNOWN,
                               .batch = PL_UNKNOWN,
                               .seq = PL_UNKNOWN,
                               .warnings = full->warnings};
    for (int kind = 0; kind < PL_KINDS; kind++) full->report.breakdown[kind] = PL_UNKNOWN;
    return &full->report;
}

void pl_report_trains(pl_report *report, int64_t trainable) {
    ((full_report *)report)->trainable = trainable;
}

bool pl_report_warn(pl_report *report, const char *text) {
    full_report *full = (full_report *)report;
    if (report->warning_count == MOST_WARNINGS) return true;
    const char *copy = pl_arena_string(full->arena, text, strlen(text));
    if (copy) full->warnings[report->warning_count++] = copy;
    return copy != NULL;
}

pl_arena *pl_report_arena(pl_report *report) {
    return ((full_report *)report)->arena;
}

void pl_report_close(pl_report **report) {
    if (!report || !*report) return;
    pl_arena *arena = pl_report_arena(*report);
    *report = NULL;
    pl_arena_free(&arena); /* the report itself lies in it */
}

/* ---- JSON ---- */

/* A count or bytes; what is negative is unknown. */
static void put_number(pl_text *w, const char *key, int64_t value) {
    pl_text_add(w, key);
    if (value < 0)
        pl_text_add(w, "null");
    else
        pl_text_format(w, "%" PRId64, value);
}

static void put_real(pl_text *w, const char *key, double value) {
    pl_text_add(w, key);
    if (isfinite(value))
        pl_text_format(w, "%.4g", value);
    else
        pl_text_add(w, "null");
}

static void put_strings(pl_text *w, const char *const *strings, size_t count) {
    pl_text_add(w, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) pl_text_add(w, ",");
        pl_text_string(w, strings[i]);
    }
    pl_text_add(w, "]");
}

static const char *boolean(bool value) {
    return value ? "true" : "false";
}

static void put_model(pl_text *w, const pl_report *report, const pl_model_info *info) {
    pl_text_add(w, "\"model\":{\"name\":");
    pl_text_string(w, info->name);
    pl_text_add(w, ",\"torch_version\":");
    pl_text_string(w, info->torch_version && info->torch_version[0] ? info->torch_version : NULL);
    put_number(w, ",\"parameters\":", info->parameters);
    int64_t trainable = ((const full_report *)report)->trainable;
    put_number(w, ",\"trainable\":", trainable != PL_UNKNOWN ? trainable : info->trainable);
    put_number(w, ",\"operators\":", info->operators);
    put_number(w, ",\"batch\":", report->batch);
    put_number(w, ",\"seq\":", report->seq);
    pl_text_add(w, ",\"unknown_operators\":");
    put_strings(w, report->unknown_operators, report->unknown_count);
    pl_text_add(w, "}");
}

static void put_memory(pl_text *w, const pl_report *report) {
    put_number(w, "\"memory\":{\"peak_bytes\":", report->peak_bytes);
    put_number(w, ",\"low_bytes\":", report->low_bytes);
    put_number(w, ",\"high_bytes\":", report->high_bytes);
    /* Two decimals are more than is known of it; 0.95 must not become 0.94999999999999996. */
    if (isfinite(report->coverage))
        pl_text_format(w, ",\"coverage\":%.4g", report->coverage);
    else
        pl_text_add(w, ",\"coverage\":null");
    put_number(w, ",\"allocated_bytes\":", report->allocated_bytes);
    put_number(w, ",\"reserved_bytes\":", report->reserved_bytes);
    put_number(w, ",\"overhead_bytes\":", report->overhead_bytes);
    pl_text_add(w, ",\"peak_phase\":");
    pl_text_string(w, pl_phase_name(report->peak_phase));
    put_number(w, ",\"peak_step\":", report->peak_step);
    pl_text_add(w, ",\"peak_operator\":");
    pl_text_string(w, report->peak_operator);
    pl_text_add(w, ",\"peak_module\":");
    pl_text_string(w, report->peak_module);
    pl_text_add(w, ",\"breakdown\":{");
    for (int kind = 0; kind < PL_KINDS; kind++) {
        if (kind) pl_text_add(w, ",");
        pl_text_string(w, pl_kind_name((pl_kind)kind));
        put_number(w, ":", report->breakdown[kind]);
    }
    pl_text_add(w, "}}");
}

const char *pl_report_json(pl_report *report, const pl_model *model) {
    pl_text w = {.arena = pl_report_arena(report)};
    pl_text_add(&w, "{\"schema\":1,");
    put_model(&w, report, pl_model_describe(model));
    pl_text_add(&w, ",\"gpu\":{\"name\":");
    pl_text_string(&w, report->gpu->name);
    pl_text_add(&w, ",\"title\":");
    pl_text_string(&w, report->gpu->title);
    put_number(&w, ",\"capacity_bytes\":", report->gpu->capacity_bytes);
    pl_text_format(&w, ",\"calibrated\":%s},\"estimator\":", boolean(report->gpu->calibrated));
    pl_text_string(&w, report->estimator);
    pl_text_add(&w, ",");
    put_memory(&w, report);
    pl_text_format(&w, ",\"fits\":%s,\"out_of_memory\":%s", boolean(report->fits),
                   boolean(report->out_of_memory));
    put_number(&w, ",\"retries\":", report->retries);
    put_number(&w, ",\"events\":", report->events);
    put_real(&w, ",\"compute\":{\"flops_per_step\":", report->flops_per_step);
    put_real(&w, ",\"flops_per_s\":", report->flop_rate);
    pl_text_add(&w, ",\"step_ms\":null}");
    pl_text_add(&w, ",\"utilization\":{\"smact\":null,\"smocc\":null,\"drama\":null}");
    put_number(&w, ",\"elapsed_us\":", report->elapsed_us);
    pl_text_add(&w, ",\"warnings\":");
    put_strings(&w, report->warnings, report->warning_count);
    pl_text_add(&w, "}");
    return w.failed ? NULL : w.text;
}
