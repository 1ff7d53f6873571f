/* report: what an estimate gives, its ownership, and its form in JSON.
 *
 * The JSON is schema 1 of docs/formats.md: one object, bytes as integers, unknown as null. Strings
 * come from model files and are escaped; bytes that are no UTF-8 become U+FFFD, so that the text is
 * always valid JSON. Left out: the timeline and the tensors alive at the peak, which the command
 * writes. */
#include "estimate/report.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "core/text.h"

/* The public struct comes first, so that a pl_report * is a full_report * too. */
typedef struct full_report {
    pl_report report;
    pl_budget budget; /* of the request */
    pl_arena *arena;
    const char **warnings;
    size_t warning_room;
    bool incomplete; /* a warning was lost for want of memory */
    int64_t trainable; /* PL_UNKNOWN: as the model says */
} full_report;

pl_report *pl_report_new(const pl_limits *limits, size_t held) {
    full_report *full = calloc(1, sizeof *full);
    if (!full) return NULL;
    pl_budget_start(&full->budget, limits);
    full->budget.bytes = held;
    full->arena = pl_arena_new(&full->budget);
    if (!full->arena) {
        free(full);
        return NULL;
    }
    full->trainable = PL_UNKNOWN;
    const pl_figure unknown = {NAN, NAN, NAN};
    full->report = (pl_report){.peak_bytes = PL_UNKNOWN,
                               .low_bytes = PL_UNKNOWN,
                               .high_bytes = PL_UNKNOWN,
                               .coverage = NAN,
                               .allocated_bytes = PL_UNKNOWN,
                               .reserved_bytes = PL_UNKNOWN,
                               .overhead_bytes = PL_UNKNOWN,
                               .flops_per_step = NAN,
                               .flop_rate = NAN,
                               .moved_bytes = NAN,
                               .launches = NAN,
                               .step_ms = unknown,
                               .device_ms = NAN,
                               .host_ms = NAN,
                               .copy_ms = NAN,
                               .time_coverage = NAN,
                               .family = PL_FAMILIES,
                               .peak_phase = PL_PHASES,
                               .peak_step = PL_UNKNOWN,
                               .retries = PL_UNKNOWN,
                               .events = PL_UNKNOWN,
                               .batch = PL_UNKNOWN,
                               .seq = PL_UNKNOWN};
    for (int kind = 0; kind < PL_KINDS; kind++) full->report.breakdown[kind] = PL_UNKNOWN;
    for (int phase = 0; phase < PL_PHASES; phase++) full->report.flops[phase] = NAN;
    for (int c = 0; c < PL_COUNTERS; c++) full->report.counters[c] = unknown;
    return &full->report;
}

void pl_report_trains(pl_report *report, int64_t trainable) {
    ((full_report *)report)->trainable = trainable;
}

void pl_report_warn(pl_report *report, const char *text) {
    full_report *full = (full_report *)report;
    const char **grown = pl_arena_grow(full->arena, full->warnings, &full->warning_room,
                                       report->warning_count + 1, sizeof *grown);
    const char *copy = grown ? pl_arena_string(full->arena, text, strlen(text)) : NULL;
    full->incomplete |= !copy;
    if (!copy) return;
    report->warnings = full->warnings = grown;
    grown[report->warning_count++] = copy;
}

bool pl_report_incomplete(const pl_report *report) {
    return ((const full_report *)report)->incomplete;
}

pl_budget *pl_report_budget(pl_report *report) {
    return &((full_report *)report)->budget;
}

pl_arena *pl_report_arena(pl_report *report) {
    return ((full_report *)report)->arena;
}

void pl_report_close(pl_report **report) {
    if (!report || !*report) return;
    full_report *full = (full_report *)*report;
    pl_arena_free(&full->arena);
    free(full);
    *report = NULL;
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

/* Whole numbers as such up to where a double is exact; else six digits, which are more than is
 * known: 0.95 must not become 0.94999999999999996. */
static void put_real(pl_text *w, const char *key, double value) {
    pl_text_add(w, key);
    if (!isfinite(value))
        pl_text_add(w, "null");
    else if (fabs(value) < 9007199254740992.0 && value == floor(value))
        pl_text_add(w, PL_REAL(".0f", value == 0 ? 0 : value));
    else
        pl_text_add(w, PL_REAL(".6g", value));
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
    put_real(w, ",\"coverage\":", report->coverage);
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

double pl_report_flop_rate(const pl_report *report) {
    if (isfinite(report->flop_rate) || !(report->step_ms.value > 0)) return report->flop_rate;
    return report->flops_per_step / (report->step_ms.value / 1e3);
}

static void put_compute(pl_text *w, const pl_report *report) {
    static const pl_phase phases[] = {PL_PHASE_FORWARD, PL_PHASE_BACKWARD, PL_PHASE_OPTIMIZER};
    put_real(w, "\"compute\":{\"flops_per_step\":", report->flops_per_step);
    put_real(w, ",\"flops_per_s\":", pl_report_flop_rate(report));
    put_real(w, ",\"step_ms\":", report->step_ms.value);
    put_real(w, ",\"step_ms_low\":", report->step_ms.low);
    put_real(w, ",\"step_ms_high\":", report->step_ms.high);
    put_real(w, ",\"device_ms\":", report->device_ms);
    put_real(w, ",\"host_ms\":", report->host_ms);
    put_real(w, ",\"copy_ms\":", report->copy_ms);
    bool known = isfinite(report->device_ms) && isfinite(report->host_ms);
    pl_text_add(w, ",\"bound\":");
    bool copies = report->copy_ms > report->host_ms && report->copy_ms > report->device_ms;
    pl_text_string(w, !known ? NULL : copies ? "copy" : report->host_bound ? "host" : "device");
    put_real(w, ",\"launches\":", report->launches);
    put_real(w, ",\"moved_bytes\":", report->moved_bytes);
    pl_text_add(w, ",\"flops\":{");
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        if (i) pl_text_add(w, ",");
        pl_text_string(w, pl_phase_name(phases[i]));
        put_real(w, ":", report->flops[phases[i]]);
    }
    pl_text_add(w, "}}");
}

/* A counter's value, low or high, by the place of that in pl_figure. */
static void put_counters(pl_text *w, const pl_report *report, size_t offset) {
    for (int c = 0; c < PL_COUNTERS; c++) {
        double value;
        memcpy(&value, (const char *)&report->counters[c] + offset, sizeof value);
        if (c) pl_text_add(w, ",");
        pl_text_string(w, pl_counter_name((pl_counter)c));
        put_real(w, ":", value);
    }
}

static void put_utilization(pl_text *w, const pl_report *report) {
    pl_text_add(w, "\"utilization\":{");
    put_counters(w, report, offsetof(pl_figure, value));
    pl_text_add(w, ",\"low\":{");
    put_counters(w, report, offsetof(pl_figure, low));
    pl_text_add(w, "},\"high\":{");
    put_counters(w, report, offsetof(pl_figure, high));
    pl_text_add(w, "},\"levels\":{");
    for (int c = 0; c < PL_COUNTERS; c++) {
        pl_level level = pl_level_predicted(report->family, (pl_counter)c, &report->counters[c]);
        if (c) pl_text_add(w, ",");
        pl_text_string(w, pl_counter_name((pl_counter)c));
        pl_text_add(w, ":");
        pl_text_string(w, pl_level_name(level));
    }
    pl_text_add(w, "},\"family\":");
    pl_text_string(w, pl_family_name(report->family));
    put_real(w, ",\"coverage\":", report->time_coverage);
    pl_text_add(w, "}");
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
    pl_text_add(&w, ",");
    put_compute(&w, report);
    pl_text_add(&w, ",");
    put_utilization(&w, report);
    put_number(&w, ",\"elapsed_us\":", report->elapsed_us);
    pl_text_add(&w, ",\"warnings\":");
    put_strings(&w, report->warnings, report->warning_count);
    pl_text_add(&w, "}");
    return w.failed ? NULL : w.text;
}
