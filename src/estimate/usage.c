/* usage: see usage.h.
 *
 * The walk of device/schedule.c gives a step's time and the time-weighted shares of the card. What
 * is learnt on top of it (usage_learn.c) is what the walk says of jobs like it: which kinds of
 * kernels take the time, whether the host or the card is waited for. */
#include "estimate/usage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- families ---- */

/* By what does the work: a recurrent layer, attention (a kernel, or softmax between batched
 * products), convolutions, else plain layers. Vision models count as CNNs where convolutions make
 * up a tenth of the work, as the measured jobs have them. */
static pl_family family_of(const pl_tape *tape) {
    double all = 0, convolutions = 0;
    bool attention = false, softmax = false, batched = false, recurrent = false;
    for (size_t i = 0; i < tape->call_count; i++) {
        const pl_work *c = &tape->calls[i];
        all += c->flops;
        if (c->kind == PL_WORK_CONVOLUTION) convolutions += c->flops;
        attention |= c->kind == PL_WORK_ATTENTION;
        recurrent |= c->kind == PL_WORK_RECURRENT;
        softmax |= c->kind == PL_WORK_SOFTMAX && c->phase == PL_PHASE_FORWARD;
        batched |= c->kind == PL_WORK_PRODUCT && c->count > 1;
    }
    if (convolutions > 0.1 * all) return PL_FAMILY_CNN;
    if (recurrent) return PL_FAMILY_RNN;
    if (attention || (softmax && batched)) return PL_FAMILY_TRANSFORMER;
    return PL_FAMILY_MLP;
}

/* ---- signals ---- */

const char *const pl_usage_target_names[PL_USAGE_TARGETS] = {"step_ms", "smact", "smocc", "drama",
                                                             "tensor"};

/* clang-format off */
const char *const pl_usage_signal_names[PL_USAGE_SIGNALS] = {
    "log2_step", "log2_device", "log2_host", "log2_host_to_device", "transfer", "waits",
    "log2_launches", "log2_moved", "log2_flops", "log2_kernel", /* microseconds of one, the mean */
    "pointwise", "product", "convolution", "attention", "recurrent", "copy", "fill", "reduce",
    "softmax", "norm", "pool", "gather", "sort", "foreach", /* shares of the kernels' time */
    "active", "occupied", "dram", "tensor", /* of the kernels' time */
    "input", "forward", "backward", "optimizer", /* shares of the operations */
    "fp32", "tf32", "half", "amp", "amp_fp16", "channels_last", "checkpoint", "accumulate",
    "benchmark", "log2_parameters", "family",
};
/* clang-format on */

static float log2_of(double value) {
    return (float)log2(value > 1e-3 ? value : 1e-3);
}

static void fill_signals(float *out, const pl_schedule *s, const pl_job *job, const pl_graph *g,
                         pl_family family) {
    double device = s->device_us > 0 ? s->device_us : 1, busy = s->step_us / device, flops = 1;
    for (int i = 0; i < PL_PHASES; i++) flops += s->flops[i];
    bool amp = job->precision == PL_AMP_BF16 || job->precision == PL_AMP_FP16;
    double parameters = 0;
    for (int32_t i = 0; i < g->tensor_count; i++)
        parameters += g->tensors[i].role == PL_ROLE_PARAMETER;
    const float head[] = {log2_of(s->step_us),
                          log2_of(device),
                          log2_of(s->host_us),
                          log2_of(s->host_us / device),
                          (float)(s->transfer_us / (s->step_us + 1)),
                          (float)s->waits,
                          log2_of(s->launches),
                          log2_of(s->moved),
                          log2_of(flops),
                          log2_of(device / (s->launches + 1))};
    const float tail[] = {(float)(s->active * busy),
                          (float)(s->occupied * busy),
                          (float)(s->dram * busy),
                          (float)(s->tensor * busy),
                          (float)(s->flops[PL_PHASE_INPUT] / flops),
                          (float)(s->flops[PL_PHASE_FORWARD] / flops),
                          (float)(s->flops[PL_PHASE_BACKWARD] / flops),
                          (float)(s->flops[PL_PHASE_OPTIMIZER] / flops),
                          job->precision == PL_FP32 || job->precision == PL_PRECISION_AS_EXPORTED,
                          job->precision == PL_TF32,
                          job->precision == PL_BF16 || job->precision == PL_FP16,
                          amp,
                          job->precision == PL_AMP_FP16,
                          job->channels_last,
                          job->checkpoint,
                          (float)job->accumulate,
                          job->cudnn_benchmark,
                          log2_of(parameters),
                          (float)family};
    enum { HEAD = sizeof head / sizeof *head, KINDS = PL_WORK_FOREACH + 1 };
    _Static_assert(HEAD + KINDS + sizeof tail / sizeof *tail == PL_USAGE_SIGNALS, "signals");
    memcpy(out, head, sizeof head);
    for (int i = 0; i < KINDS; i++) out[HEAD + i] = (float)(s->kinds_us[i] / device);
    memcpy(out + HEAD + KINDS, tail, sizeof tail);
}

/* ---- rows of explain --time ---- */

typedef struct rows {
    pl_time *rows;
    int32_t *slots; /* [room * 2], -1: free */
    size_t count, room;
    const pl_graph *graph;
    pl_arena *arena;
    bool failed;
} rows;

static size_t slot_of(const rows *r, const char *module, const char *what, pl_phase phase) {
    size_t mask = r->room * 2 - 1;
    size_t at = ((uintptr_t)module * 31 + (uintptr_t)what * 7 + (size_t)phase) * 0x9E3779B1u >> 8;
    for (at &= mask; r->slots[at] >= 0; at = (at + 1) & mask) {
        const pl_time *row = &r->rows[r->slots[at]];
        if (row->module == module && row->operator_name == what && row->phase == phase) break;
    }
    return at;
}

static bool rows_grow(rows *r) {
    size_t room = r->room ? r->room * 2 : 256;
    pl_time *grown = realloc(r->rows, room * sizeof *grown);
    if (grown) r->rows = grown;
    int32_t *slots = realloc(r->slots, room * 2 * sizeof *slots);
    if (slots) r->slots = slots;
    if (!grown || !slots) return false;
    r->room = room;
    for (size_t i = 0; i < room * 2; i++) slots[i] = -1;
    for (size_t i = 0; i < r->count; i++)
        slots[slot_of(r, grown[i].module, grown[i].operator_name, grown[i].phase)] = (int32_t)i;
    return true;
}

static void see_row(void *context, const pl_work *call, double device_us, double host_us) {
    rows *r = context;
    if (r->count == r->room && !rows_grow(r)) r->failed = true;
    if (r->failed) return;
    const char *module = pl_node_module(r->graph, call->node), *what = call->what ? call->what : "";
    size_t at = slot_of(r, module, what, (pl_phase)call->phase);
    if (r->slots[at] < 0) {
        r->slots[at] = (int32_t)r->count;
        r->rows[r->count++] =
            (pl_time){.module = module, .operator_name = what, .phase = (pl_phase)call->phase};
    }
    pl_time *row = &r->rows[r->slots[at]];
    row->calls += call->first;
    if (call->kind != PL_WORK_TRANSFER) row->launches += call->launches;
    row->device_ms += device_us / 1e3;
    row->host_ms += host_us / 1e3;
    row->flops += call->flops;
    row->bytes += call->read + call->written;
}

static int by_time(const void *x, const void *y) {
    const pl_time *a = x, *b = y;
    double ta = a->device_ms + a->host_ms * 1e-3, tb = b->device_ms + b->host_ms * 1e-3;
    if (ta != tb) return ta < tb ? 1 : -1;
    int order = strcmp(a->module, b->module);
    if (order == 0) order = strcmp(a->operator_name, b->operator_name);
    return order ? order : (int)a->phase - (int)b->phase;
}

/* Into the report, strings copied: tape and graph go. */
static bool keep_rows(pl_report *report, rows *r) {
    pl_time *kept = pl_arena_array(r->arena, r->count + 1, sizeof *kept);
    if (!kept) return false;
    qsort(r->rows, r->count, sizeof *r->rows, by_time);
    for (size_t i = 0; i < r->count; i++) {
        kept[i] = r->rows[i];
        kept[i].module = pl_arena_string(r->arena, kept[i].module, strlen(kept[i].module));
        kept[i].operator_name =
            pl_arena_string(r->arena, kept[i].operator_name, strlen(kept[i].operator_name));
        if (!kept[i].module || !kept[i].operator_name) return false;
    }
    pl_report_full(report)->times = kept;
    report->time_count = r->count;
    return true;
}

/* ---- the report ---- */

/* A trace was recorded with settings of its own. */
static pl_job job_of(const pl_subject *subject) {
    pl_job job = *subject->job;
    const pl_trace *trace = subject->model ? subject->model->trace : NULL;
    if (!trace) return job;
    pl_precision_parse(trace->precision, &job.precision);
    job.checkpoint = trace->checkpoint;
    return job;
}

bool pl_usage_fill(pl_report *report, pl_walk *walk, const pl_subject *subject,
                   const pl_tape *tape) {
    walk->known = false;
    if (tape->call_count == 0) return true; /* nothing is known of a step */
    const pl_job own = job_of(subject), *job = &own;
    rows r = {.graph = subject->graph, .arena = pl_report_arena(report)};
    pl_schedule_settings settings = {.tf32 = job->precision == PL_TF32,
                                     .host_speed = job->host_speed,
                                     .copy_gbps = job->copy_gbps,
                                     .see = job->want_times ? see_row : NULL,
                                     .context = &r};
    pl_schedule s;
    bool ok = pl_schedule_of(&s, tape, subject->gpu, &settings) && !r.failed;
    if (ok && job->want_times) ok = keep_rows(report, &r);
    free(r.rows);
    free(r.slots);
    if (!ok) return false;
    walk->known = true;
    report->family = family_of(tape);
    fill_signals(walk->signals, &s, job, subject->graph, report->family);
    walk->slow = s.step_us > 0 ? log2(s.slow_us / s.step_us) : 0;
    walk->fast = s.step_us > 0 ? log2(s.fast_us / s.step_us) : 0;
    report->host_speed = s.host.speed;
    report->copy_gbps = s.host.copy_gbps;
    report->host_assumed = !(job->host_speed > 0 && job->copy_gbps > 0);
    report->flops_per_step = s.counted;
    for (int i = 0; i < PL_PHASES; i++) pl_report_full(report)->flops[i] = s.flops[i];
    report->moved_bytes = s.moved;
    report->launches = s.launches;
    report->device_ms = s.device_us / 1e3;
    report->host_ms = s.host_us / 1e3;
    report->copy_ms = s.transfer_us / 1e3;
    report->host_bound = s.host_us > s.device_us;
    report->step_ms.value = s.step_us / 1e3;
    double shares[PL_COUNTERS] = {s.active, s.occupied, s.dram, s.tensor};
    for (int i = 0; i < PL_COUNTERS; i++)
        pl_report_full(report)->counters[i].value = fmin(100, 100 * shares[i]);
    report->flop_rate = s.step_us > 0 ? s.counted / (s.step_us / 1e6) : NAN;
    return true;
}

pl_usage_bound pl_usage_bound_of(const pl_report *report) {
    if (report->family == PL_FAMILY_RNN) return PL_BOUND_RECURRENT;
    double ratio = report->host_ms / (report->device_ms > 0 ? report->device_ms : 1e-9);
    return ratio > 1.4 ? PL_BOUND_HOST : ratio < 0.7 ? PL_BOUND_DEVICE : PL_BOUND_BOTH;
}

double pl_usage_share(double percent) {
    return percent < 0.1 ? 0.1 : percent; /* NAN stays: not measured */
}

static double within(double value, double low, double high) {
    return fmin(fmax(value, low), high);
}

/* What a part says of the report's job: log2 of truth over walk. */
static pl_status learnt(double *out, const pl_trained *part, const float *signals, pl_error *err) {
    pl_samples sample = {
        .count = 1, .columns = PL_USAGE_SIGNALS, .values = signals, .names = pl_usage_signal_names};
    float log;
    if (part->class_count)
        return pl_fail(err, PL_INPUT, NULL, -1, "weights whose part \"%s\" is a classifier",
                       part->target);
    pl_status status = pl_trained_predict(part, &sample, &log, err);
    *out = status == PL_OK ? within((double)log, -3, 3) : 0;
    return status;
}

/* Of cards that were not measured: half to twice the time, counters by as much (a choice). */
static void widen(pl_report *report) {
    report->step_ms.low = report->step_ms.value / 2;
    report->step_ms.high = report->step_ms.value * 2;
    for (int i = 0; i < PL_COUNTERS; i++) {
        pl_figure *c = &pl_report_full(report)->counters[i];
        c->low = c->value / 2;
        c->high = fmin(100, c->value * 2);
    }
    report->time_coverage = NAN;
}

/* Kernels take no longer than the step that holds them. */
static void fit_into_step(pl_report *report) {
    double less = report->step_ms.value / report->device_ms;
    if (!(less < 1)) return;
    report->device_ms *= less;
    pl_time *times = pl_report_full(report)->times;
    for (size_t i = 0; i < report->time_count; i++) times[i].device_ms *= less;
}

/* Several cards: their communication is not in the walk, so that the step is the least it can be.
 */
static void leave_open(pl_report *report, const pl_subject *subject) {
    if (!pl_subject_parallel(subject) || !isfinite(report->step_ms.value)) return;
    report->step_ms.high *= 2;
    for (int i = 0; i < PL_COUNTERS; i++) pl_report_full(report)->counters[i].low /= 2;
    report->time_coverage = NAN;
    pl_report_warn(report, "step time and counters are those of one rank that never waits for the "
                           "others: communication is not counted");
}

pl_status pl_usage_correct(pl_report *report, const pl_walk *walk, const pl_subject *subject,
                           const pl_weights *weights, pl_error *err) {
    const pl_trained *parts[PL_USAGE_TARGETS];
    bool all = walk->known && subject->gpu->calibrated;
    for (int i = 0; i < PL_USAGE_TARGETS; i++) {
        parts[i] = pl_weights_part(weights, pl_usage_target_names[i]);
        all &= parts[i] != NULL;
    }
    if (!all) {
        if (walk->known) widen(report);
        leave_open(report, subject);
        return PL_OK;
    }
    pl_usage_bound bound = pl_usage_bound_of(report);
    double log[PL_USAGE_TARGETS];
    for (int i = 0; i < PL_USAGE_TARGETS; i++) {
        pl_status status = learnt(&log[i], parts[i], walk->signals, err);
        if (status != PL_OK) return status;
    }
    report->step_ms.value *= exp2(log[PL_USAGE_STEP]);
    fit_into_step(report);
    /* What the estimate is off by and what hosts differ by have nothing to do with each other: their
     * squares add up. */
    const double *of = parts[PL_USAGE_STEP]->extra;
    double below = hypot(of[PL_USAGE_BELOW + bound], walk->fast),
           above = hypot(of[PL_USAGE_ABOVE + bound], walk->slow);
    report->step_ms.low = report->step_ms.value * exp2(-below);
    report->step_ms.high = report->step_ms.value * exp2(above);
    for (int i = 0; i < PL_COUNTERS; i++) {
        pl_figure *c = &pl_report_full(report)->counters[i];
        double change = log[PL_USAGE_COUNTERS + i] - log[PL_USAGE_STEP];
        of = parts[PL_USAGE_COUNTERS + i]->extra;
        c->value = within(pl_usage_share(c->value) * exp2(change), 0, 100);
        double less = c->value * (1 - exp2(-walk->slow)), more = c->value * (exp2(-walk->fast) - 1);
        c->low = within(c->value - hypot(of[PL_USAGE_BELOW + bound], less), 0, c->value);
        c->high = within(c->value + hypot(of[PL_USAGE_ABOVE + bound], more), c->value, 100);
    }
    report->flop_rate = report->flops_per_step / (report->step_ms.value / 1e3);
    report->time_coverage = PL_USAGE_COVERAGE;
    leave_open(report, subject);
    return PL_OK;
}
