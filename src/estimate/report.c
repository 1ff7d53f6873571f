/* report: what an estimate gives, its ownership, and its form in JSON.
 *
 * The JSON is schema 1 of docs/formats.md: one object, bytes as integers, unknown as null. Strings
 * come from model files and are escaped; bytes that are no UTF-8 become U+FFFD, so that the text is
 * always valid JSON. Left out: the timeline and the tensors alive at the peak, which the command
 * writes. */
#include "estimate/report.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"

pl_report *pl_report_new(const pl_limits *limits, size_t held) {
    pl_full_report *full = calloc(1, sizeof *full);
    if (!full) return NULL;
    pl_budget_start(&full->budget, limits);
    full->budget.bytes = held;
    full->arena = pl_arena_new(&full->budget);
    if (!full->arena) {
        free(full);
        return NULL;
    }
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
                               .host_speed = NAN,
                               .copy_gbps = NAN,
                               .time_coverage = NAN,
                               .family = PL_FAMILY_UNKNOWN,
                               .peak_phase = PL_PHASE_UNKNOWN,
                               .peak_step = PL_UNKNOWN,
                               .retries = PL_UNKNOWN,
                               .events = PL_UNKNOWN,
                               .batch = PL_UNKNOWN,
                               .seq = PL_UNKNOWN,
                               .load_peak_bytes = PL_UNKNOWN,
                               .steps_peak_bytes = PL_UNKNOWN,
                               .risk = NAN,
                               .upper_bytes = PL_UNKNOWN,
                               .usable_bytes = PL_UNKNOWN,
                               .trainable = PL_UNKNOWN};
    for (int kind = 0; kind < PL_KINDS; kind++) full->breakdown[kind] = PL_UNKNOWN;
    for (int phase = 0; phase < PL_PHASES; phase++) full->flops[phase] = NAN;
    for (int c = 0; c < PL_COUNTERS; c++) full->counters[c] = unknown;
    return &full->report;
}

void pl_report_warn(pl_report *report, const char *text) {
    pl_full_report *full = (pl_full_report *)report;
    const char **grown = pl_arena_grow(full->arena, full->warnings, &full->warning_room,
                                       report->warning_count + 1, sizeof *grown);
    const char *copy = grown ? pl_arena_string(full->arena, text, strlen(text)) : NULL;
    full->incomplete |= !copy;
    if (!copy) return;
    report->warnings = full->warnings = grown;
    grown[report->warning_count++] = copy;
}

bool pl_report_incomplete(const pl_report *report) {
    return ((const pl_full_report *)report)->incomplete;
}

pl_budget *pl_report_budget(pl_report *report) {
    return &((pl_full_report *)report)->budget;
}

pl_arena *pl_report_arena(pl_report *report) {
    return ((pl_full_report *)report)->arena;
}

void pl_report_close(pl_report **report) {
    if (!report || !*report) return;
    pl_full_report *full = (pl_full_report *)*report;
    pl_arena_free(&full->arena);
    free(full);
    *report = NULL;
}

double pl_report_flop_rate(const pl_report *report) {
    if (isfinite(report->flop_rate) || !(report->step_ms.value > 0)) return report->flop_rate;
    return report->flops_per_step / (report->step_ms.value / 1e3);
}

/* ---- by kind, phase, counter and index ---- */

static const pl_full_report *full_of(const pl_report *report) {
    return (const pl_full_report *)report;
}

int64_t pl_report_bytes(const pl_report *report, pl_kind kind) {
    return (unsigned)kind < PL_KINDS ? full_of(report)->breakdown[kind] : PL_UNKNOWN;
}

double pl_report_flops(const pl_report *report, pl_phase phase) {
    return (unsigned)phase < PL_PHASES ? full_of(report)->flops[phase] : NAN;
}

pl_figure pl_report_counter(const pl_report *report, pl_counter counter) {
    const pl_figure unknown = {NAN, NAN, NAN};
    return (unsigned)counter < PL_COUNTERS ? full_of(report)->counters[counter] : unknown;
}

const pl_time *pl_report_time(const pl_report *report, size_t index) {
    return index < report->time_count ? &full_of(report)->times[index] : NULL;
}

const pl_moment *pl_report_moment(const pl_report *report, size_t index) {
    return index < report->moment_count ? &full_of(report)->timeline[index].moment : NULL;
}

int64_t pl_moment_bytes(const pl_moment *moment, pl_kind kind) {
    const pl_instant *instant = (const pl_instant *)moment; /* its first member */
    return (unsigned)kind < PL_FRAGMENTATION ? instant->kinds[kind] : PL_UNKNOWN;
}

bool pl_report_column(const pl_report *report, int column, int64_t *out, size_t room) {
    const pl_instant *timeline = full_of(report)->timeline;
    int kind = column - PL_COLUMN_KIND;
    if (column < 0 || (column > PL_COLUMN_STEP && (unsigned)kind >= PL_FRAGMENTATION)) return false;
    for (size_t i = 0; i < room && i < report->moment_count; i++) {
        const pl_moment *m = &timeline[i].moment;
        out[i] = column == PL_COLUMN_ALLOCATED  ? m->allocated
                 : column == PL_COLUMN_RESERVED ? m->reserved
                 : column == PL_COLUMN_PHASE    ? (int64_t)m->phase
                 : column == PL_COLUMN_STEP     ? m->step
                                                : timeline[i].kinds[kind];
    }
    return true;
}

const pl_alive *pl_report_alive(const pl_report *report, size_t index) {
    return index < report->alive_count ? &full_of(report)->alive[index] : NULL;
}

/* ---- JSON ---- */

/* Whole numbers as such up to where a double is exact; else six digits, which are more than is
 * known: 0.95 must not become 0.94999999999999996. */
static void put_real(pl_json_writer *w, const char *key, double value) {
    w->real = fabs(value) < 9007199254740992.0 && value == floor(value) ? ".0f" : ".6g";
    pl_json_put_real(w, key, value == 0 ? 0 : value);
}

static void put_strings(pl_json_writer *w, const char *key, const char *const *strings,
                        size_t count) {
    pl_json_put_open(w, key, '[');
    for (size_t i = 0; i < count; i++) pl_json_put_string(w, NULL, strings[i]);
    pl_json_put_close(w, ']');
}

static void put_model(pl_json_writer *w, const pl_report *report, const pl_model_info *info) {
    const char *version = info->torch_version;
    pl_json_put_open(w, "model", '{');
    pl_json_put_string(w, "name", info->name);
    pl_json_put_string(w, "torch_version", version && version[0] ? version : NULL);
    pl_json_put_count(w, "parameters", info->parameters);
    pl_json_put_count(w, "trainable", report->trainable);
    pl_json_put_count(w, "operators", info->operators);
    pl_json_put_count(w, "batch", report->batch);
    pl_json_put_count(w, "seq", report->seq);
    put_strings(w, "unknown_operators", report->unknown_operators, report->unknown_count);
    pl_json_put_close(w, '}');
}

static void put_gpu(pl_json_writer *w, const pl_gpu *gpu) {
    pl_json_put_open(w, "gpu", '{');
    pl_json_put_string(w, "name", gpu->name);
    pl_json_put_string(w, "title", gpu->title);
    pl_json_put_count(w, "capacity_bytes", gpu->capacity_bytes);
    pl_json_put_bool(w, "calibrated", gpu->calibrated);
    pl_json_put_close(w, '}');
}

static void put_memory(pl_json_writer *w, const pl_report *report) {
    pl_json_put_open(w, "memory", '{');
    pl_json_put_count(w, "peak_bytes", report->peak_bytes);
    pl_json_put_count(w, "low_bytes", report->low_bytes);
    pl_json_put_count(w, "high_bytes", report->high_bytes);
    pl_json_put_count(w, "upper_bytes", report->upper_bytes);
    put_real(w, "coverage", report->coverage);
    pl_json_put_count(w, "allocated_bytes", report->allocated_bytes);
    pl_json_put_count(w, "reserved_bytes", report->reserved_bytes);
    pl_json_put_count(w, "overhead_bytes", report->overhead_bytes);
    pl_json_put_count(w, "load_peak_bytes", report->load_peak_bytes);
    pl_json_put_count(w, "steps_peak_bytes", report->steps_peak_bytes);
    pl_json_put_string(w, "peak_phase", pl_phase_name(report->peak_phase));
    pl_json_put_count(w, "peak_step", report->peak_step);
    pl_json_put_string(w, "peak_operator", report->peak_operator);
    pl_json_put_string(w, "peak_module", report->peak_module);
    pl_json_put_open(w, "breakdown", '{');
    for (int kind = 0; kind < PL_KINDS; kind++)
        pl_json_put_count(w, pl_kind_name((pl_kind)kind), pl_report_bytes(report, (pl_kind)kind));
    pl_json_put_close(w, '}');
    pl_json_put_close(w, '}');
}

static void put_compute(pl_json_writer *w, const pl_report *report) {
    static const pl_phase phases[] = {PL_PHASE_FORWARD, PL_PHASE_BACKWARD, PL_PHASE_OPTIMIZER};
    bool known = isfinite(report->device_ms) && isfinite(report->host_ms);
    bool copies = report->copy_ms > report->host_ms && report->copy_ms > report->device_ms;
    pl_json_put_open(w, "compute", '{');
    put_real(w, "flops_per_step", report->flops_per_step);
    put_real(w, "flops_per_s", pl_report_flop_rate(report));
    put_real(w, "step_ms", report->step_ms.value);
    put_real(w, "step_ms_low", report->step_ms.low);
    put_real(w, "step_ms_high", report->step_ms.high);
    put_real(w, "device_ms", report->device_ms);
    put_real(w, "host_ms", report->host_ms);
    put_real(w, "copy_ms", report->copy_ms);
    put_real(w, "host_speed", report->host_speed);
    put_real(w, "copy_gbps", report->copy_gbps);
    pl_json_put_bool(w, "host_assumed", report->host_assumed);
    pl_json_put_string(w, "bound",
                       !known               ? NULL
                       : copies             ? "copy"
                       : report->host_bound ? "host"
                                            : "device");
    put_real(w, "launches", report->launches);
    put_real(w, "moved_bytes", report->moved_bytes);
    pl_json_put_open(w, "flops", '{');
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        put_real(w, pl_phase_name(phases[i]), pl_report_flops(report, phases[i]));
    pl_json_put_close(w, '}');
    pl_json_put_close(w, '}');
}

/* A counter's value, low or high, by the place of that in pl_figure. */
static void put_counters(pl_json_writer *w, const pl_report *report, size_t offset) {
    for (int c = 0; c < PL_COUNTERS; c++) {
        double value;
        pl_figure figure = pl_report_counter(report, (pl_counter)c);
        memcpy(&value, (const char *)&figure + offset, sizeof value);
        put_real(w, pl_counter_name((pl_counter)c), value);
    }
}

static void put_utilization(pl_json_writer *w, const pl_report *report) {
    pl_json_put_open(w, "utilization", '{');
    put_counters(w, report, offsetof(pl_figure, value));
    pl_json_put_open(w, "low", '{');
    put_counters(w, report, offsetof(pl_figure, low));
    pl_json_put_close(w, '}');
    pl_json_put_open(w, "high", '{');
    put_counters(w, report, offsetof(pl_figure, high));
    pl_json_put_close(w, '}');
    pl_json_put_open(w, "levels", '{');
    for (int c = 0; c < PL_COUNTERS; c++) {
        pl_figure figure = pl_report_counter(report, (pl_counter)c);
        pl_level level = pl_level_predicted(report->family, (pl_counter)c, &figure);
        pl_json_put_string(w, pl_counter_name((pl_counter)c), pl_level_name(level));
    }
    pl_json_put_close(w, '}');
    pl_json_put_string(w, "family", pl_family_name(report->family));
    put_real(w, "coverage", report->time_coverage);
    pl_json_put_close(w, '}');
}

const char *pl_report_json(pl_report *report, const pl_model *model) {
    pl_full_report *full = pl_report_full(report);
    if (full->json) return full->json;
    pl_text text = {.arena = full->arena};
    pl_json_writer w = {.text = &text};
    pl_json_put_open(&w, NULL, '{');
    pl_json_put_int(&w, "schema", 1);
    put_model(&w, report, pl_model_describe(model));
    put_gpu(&w, report->gpu);
    pl_json_put_string(&w, "estimator", report->estimator);
    put_memory(&w, report);
    pl_json_put_bool(&w, "fits", report->fits);
    pl_json_put_string(&w, "verdict", pl_verdict_name(report->verdict));
    put_real(&w, "risk", report->risk);
    put_real(&w, "oom_probability", pl_report_chance(report, report->usable_bytes));
    pl_json_put_count(&w, "usable_bytes", report->usable_bytes);
    pl_json_put_bool(&w, "out_of_memory", report->out_of_memory);
    pl_json_put_count(&w, "retries", report->retries);
    pl_json_put_count(&w, "events", report->events);
    put_compute(&w, report);
    put_utilization(&w, report);
    pl_json_put_count(&w, "elapsed_us", report->elapsed_us);
    put_strings(&w, "warnings", report->warnings, report->warning_count);
    pl_json_put_close(&w, '}');
    full->json = text.failed ? NULL : text.text;
    return full->json;
}
