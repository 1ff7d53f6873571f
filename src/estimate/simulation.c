/* simulation: see simulation.h.
 *
 * The graph with the job's batch becomes a tape (src/tape), the tape a memory curve (src/device);
 * of the curve's peak the report has the size, the kinds, the blocks alive and, from interval.c,
 * how far off it may be. A job that does not fit is simulated again on a card without limit, so
 * that its figures are those it would need. */
#include "estimate/simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/data_sizes.h"
#include "tape/replay.h"
#include "tape/tape.h"

static void warn_unknown(pl_report *report, const pl_tape *tape) {
    if (!tape->unknown_count) return;
    char text[400];
    int used =
        snprintf(text, sizeof text,
                 "%zu operator%s without a rule, treated on the safe side:", tape->unknown_count,
                 tape->unknown_count == 1 ? "" : "s");
    for (size_t i = 0; i < tape->unknown_count && used > 0 && (size_t)used < sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %s", i ? "," : "",
                         tape->unknown[i]);
    pl_report_warn(report, text);
}

/* ---- the report ---- */

static int compare_alive(const void *x, const void *y) {
    const pl_alive *a = x, *b = y;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

/* A parameter's module: its path without the last part. Copied into the arena. */
static const char *owner_of(pl_arena *arena, const pl_tensor *tensor) {
    const char *dot = tensor->path ? strrchr(tensor->path, '.') : NULL;
    return dot ? pl_arena_string(arena, tensor->path, (size_t)(dot - tensor->path)) : "";
}

/* The blocks that live at the peak, largest first. Strings are copied, since tape and graph go. */
static bool fill_alive(pl_report *report, const pl_tape *tape, const pl_graph *g, size_t until) {
    pl_arena *arena = pl_report_arena(report);
    pl_arena *scratch = pl_arena_new(pl_arena_budget(arena));
    uint8_t *live = scratch ? pl_arena_alloc(scratch, tape->block_count + 1) : NULL;
    if (!live) {
        pl_arena_free(&scratch);
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i <= until && i < tape->event_count; i++) {
        int32_t event = tape->events[i];
        if (event > 0) live[event] = 1, count++;
        if (event < 0) live[-event] = 0, count--;
    }
    pl_alive *alive = pl_arena_array(arena, count + 1, sizeof *alive);
    size_t n = 0;
    bool ok = alive != NULL;
    for (size_t b = 1; b < tape->block_count && ok; b++) {
        if (!live[b]) continue;
        const pl_tape_block *block = &tape->blocks[b];
        const pl_tensor *tensor = block->tensor >= 0 ? &g->tensors[block->tensor] : NULL;
        const char *module = tensor ? owner_of(arena, tensor) : pl_node_module(g, block->node);
        const char *name = tensor && tensor->path ? tensor->path : "";
        alive[n] = (pl_alive){
            .bytes = block->bytes,
            .kind = (pl_kind)block->kind,
            .born = (pl_phase)block->phase,
            .operator_name =
                block->what ? pl_arena_string(arena, block->what, strlen(block->what)) : "",
            .module = module ? pl_arena_string(arena, module, strlen(module)) : NULL,
            .tensor = pl_arena_string(arena, name, strlen(name))};
        ok = alive[n].operator_name && alive[n].module && alive[n].tensor;
        n++;
    }
    pl_arena_free(&scratch);
    if (!ok) return false;
    qsort(alive, n, sizeof *alive, compare_alive);
    pl_report_full(report)->alive = alive;
    report->alive_count = n;
    return true;
}

static bool copy_names(pl_report *report, const pl_tape *tape) {
    pl_arena *arena = pl_report_arena(report);
    const char **unknown = pl_arena_array(arena, tape->unknown_count + 1, sizeof *unknown);
    for (size_t i = 0; unknown && i < tape->unknown_count; i++) {
        unknown[i] = pl_arena_string(arena, tape->unknown[i], strlen(tape->unknown[i]));
        if (!unknown[i]) return false;
    }
    report->unknown_operators = unknown;
    report->unknown_count = tape->unknown_count;
    return unknown != NULL;
}

/* Strings of a timeline point into tape and graph: the model's stay, the tape's must be copied;
 * operators repeat, so a moment whose string is the one before it shares its copy. */
static bool copy_timeline(pl_report *report, const pl_simulation *s) {
    pl_arena *arena = pl_report_arena(report);
    const char *last = NULL, *copy = "", *last_module = NULL, *module = "";
    for (size_t i = 0; i < s->timeline_count; i++) {
        pl_moment *m = &s->timeline[i].moment;
        if (m->operator_name != last) {
            last = m->operator_name;
            copy = pl_arena_string(arena, last, strlen(last));
        }
        if (m->module != last_module) {
            last_module = m->module;
            module = pl_arena_string(arena, last_module, strlen(last_module));
        }
        if (!copy || !module) return false;
        m->operator_name = copy;
        m->module = module;
    }
    pl_report_full(report)->timeline = s->timeline;
    report->moment_count = s->timeline_count;
    return true;
}

static int64_t share(int64_t bytes, double part) {
    return (int64_t)((double)bytes * part);
}

/* Whether sizes of this kind were assumed. */
static bool assumed(const pl_graph *g, pl_data_kind kind) {
    return g && (g->data >> kind & 1);
}

bool pl_subject_parallel(const pl_subject *subject) {
    const pl_trace *trace = subject->model ? subject->model->trace : NULL;
    return subject->job->parallel != PL_ALONE || (trace && trace->world > 1);
}

/* An optimizer of bitsandbytes', whose rules were read and not measured. */
static bool eight_bits(const pl_job *job) {
    size_t length = strlen(job->optimizer);
    return length > 5 && strcmp(job->optimizer + length - 5, "-8bit") == 0;
}

/* What a recipe may lack of its model's parameters, as a share of those it has. */
static double unseen_share(const pl_model *model) {
    double built = 0;
    for (int32_t i = 0; model->graph && i < model->graph->tensor_count; i++) {
        const pl_tensor *t = &model->graph->tensors[i];
        if (t->role == PL_ROLE_PARAMETER && t->tied < 0) built += (double)pl_tensor_elements(t);
    }
    double unseen = (double)(model->recipe  ? model->recipe->unseen
                             : model->graph ? model->graph->unseen
                                            : 0);
    return built > 0 ? unseen / built : 0;
}

pl_evidence pl_simulated_evidence(const pl_subject *subject, const pl_tape *tape) {
    const pl_trace *trace = subject->model->trace;
    return (pl_evidence){
        .convolutions = tape->used_convolutions,
        .recurrent = tape->used_rnn,
        .benchmark = trace ? trace->cudnn_benchmark : subject->job->cudnn_benchmark,
        .parallel = pl_subject_parallel(subject),
        .calibrated = subject->gpu->calibrated,
        .hidden = tape->hidden_branches || assumed(subject->graph, PL_DATA_OPEN) ||
                  (trace && trace->unfinished),
        .guessed = (subject->model->recipe && subject->model->recipe->guessed) ||
                   subject->model->graph->guessed,
        .resembles = (subject->model->recipe && subject->model->recipe->resembles) ||
                     subject->model->graph->resembles,
        .unseen = unseen_share(subject->model),
        .bounded = (trace && trace->bounded) || assumed(subject->graph, PL_DATA_LARGEST),
        .compiled = trace && trace->compiled,
        .quantized = tape->used_quantized || eight_bits(subject->job),
        .unknown = (int)tape->unknown_count};
}

bool pl_simulated_report(pl_report *report, pl_walk *walk, const pl_subject *subject,
                         const pl_simulated *simulated) {
    const pl_tape *tape = simulated->tape;
    const pl_simulation *s = &simulated->figures;
    int64_t overhead = simulated->overhead;
    const pl_job *job = subject->job;
    const pl_gpu *gpu = subject->gpu;
    const pl_graph *g = subject->graph;
    pl_arena *arena = pl_report_arena(report);
    report->allocated_bytes = s->peak_allocated;
    report->reserved_bytes = s->peak_reserved;
    report->overhead_bytes = overhead;
    report->peak_bytes = s->peak_reserved + overhead;
    report->load_peak_bytes = s->load_reserved + overhead;
    report->steps_peak_bytes = s->steps_reserved >= 0 ? s->steps_reserved + overhead : PL_UNKNOWN;
    report->retries = s->retries;
    report->out_of_memory = s->out_of_memory;
    report->events = (int64_t)tape->event_count;
    for (int k = 0; k < PL_FRAGMENTATION; k++) pl_report_full(report)->breakdown[k] = s->kinds[k];
    pl_report_full(report)->breakdown[PL_FRAGMENTATION] = s->fragmentation;
    pl_report_full(report)->breakdown[PL_CONTEXT] = overhead;
    pl_evidence evidence = pl_simulated_evidence(subject, tape);
    pl_interval interval = pl_interval_of(&evidence);
    report->coverage = interval.coverage;
    report->low_bytes = report->peak_bytes - share(report->peak_bytes, interval.below);
    report->high_bytes = report->peak_bytes + share(report->peak_bytes, interval.above);
    const pl_trace *trace = subject->model ? subject->model->trace : NULL;
    if (trace && trace->nccl && trace->world > 1)
        report->high_bytes += (int64_t)PL_NCCL_MIB << 20; /* the least that is not simulated */
    pl_report_full(report)->tail = PL_TAIL_ROWS;
    report->usable_bytes = simulated->usable;
    int32_t event = tape->event_count ? tape->events[s->peak_event] : 0;
    const pl_tape_block *block = event ? &tape->blocks[event > 0 ? event : -event] : NULL;
    report->peak_phase = block ? (pl_phase)block->phase : PL_PHASE_LOAD;
    report->peak_step = block ? block->step : 0;
    const char *what = block && block->what ? block->what : "",
               *module = block ? pl_node_module(g, block->node) : "";
    report->peak_operator = pl_arena_string(arena, what, strlen(what));
    report->peak_module = pl_arena_string(arena, module, strlen(module));
    warn_unknown(report, tape);
    for (size_t i = 0; i < tape->note_count; i++) pl_report_warn(report, tape->notes[i]);
    if (tape->hidden_branches)
        pl_report_warn(
            report,
            "what runs inside torch.cond, map or scan is not seen: the peak may be far higher");
    if (gpu->cc_major < 8 && (job->precision == PL_BF16 || job->precision == PL_AMP_BF16))
        pl_report_warn(report, "this card has no bfloat16 units: PyTorch emulates it");
    if (tape->incomplete)
        pl_report_warn(
            report,
            "a checkpointed block could not be run again as it was: part of backward is missing");
    if (job->train && strncmp(job->train, "qlora", 5) == 0 && !tape->used_quantized)
        pl_report_warn(report,
                       "no layer of this model is one that bitsandbytes keeps in 4 bits: the "
                       "weights are as in lora");
    if (tape->used_quantized)
        pl_report_warn(report,
                       "4-bit weights: nf4 with double quantisation, loaded and computed in bf16 "
                       "(fp16 in fp16 jobs), is assumed; measured with bitsandbytes 0.50 alone");
    if (eight_bits(job) && tape->trains)
        pl_report_warn(report, "8-bit optimizer: state as bitsandbytes' sources have it, not "
                               "measured; the interval is wider");
    if (!gpu->calibrated)
        pl_report_warn(
            report,
            "this card was not measured: context and library workspaces are assumed, and the "
            "interval is wider");
    if (s->out_of_memory)
        pl_report_warn(report,
                       "out of memory on this card; the figures are those of a card large enough");
    if (!report->peak_operator || !report->peak_module) return false;
    if (!pl_usage_fill(report, walk, subject, tape)) return false;
    if (!copy_names(report, tape)) return false;
    if (job->want_timeline && !copy_timeline(report, s)) return false;
    return !job->want_alive || fill_alive(report, tape, g, s->peak_event);
}

pl_status pl_simulated_open(pl_simulated *out, const pl_subject *subject,
                            const pl_tape_device *device, pl_arena *arena, pl_error *err) {
    *out = (pl_simulated){0};
    const pl_job *job = subject->job;
    const pl_gpu *gpu = subject->gpu;
    const pl_graph *g = subject->graph;
    const pl_trace *trace = subject->model->trace;
    pl_allocator_settings settings;
    pl_allocator_settings_default(&settings);
    pl_status status = pl_allocator_settings_parse(&settings, job->alloc_conf, err);
    if (status != PL_OK) return status;
    status = trace ? pl_tape_replay(&out->tape, trace, device, subject->budget, err)
                   : pl_tape_train(&out->tape, g, job, PL_TAPE_STEPS, device, subject->budget, err);
    if (status != PL_OK) return status;
    out->overhead = pl_overhead(gpu, out->tape);
    int64_t usable = pl_gpu_usable(gpu);
    /* per_process_memory_fraction is of what the allocator reserves. */
    int64_t allowed = out->overhead + share(gpu->capacity_bytes, settings.memory_fraction);
    out->usable = allowed < usable ? allowed : usable;
    settings.budget = subject->budget;
    settings.total_bytes = gpu->capacity_bytes;
    settings.device_bytes = usable > out->overhead ? usable - out->overhead : 1;
    bool timeline = job->want_timeline;
    status = pl_simulate(&out->figures, out->tape, g, &settings, timeline, arena, err);
    if (status == PL_OK && out->figures.out_of_memory) { /* what it would take: without end */
        settings.device_bytes = settings.total_bytes = 0;
        status = pl_simulate(&out->figures, out->tape, g, &settings, timeline, arena, err);
        out->figures.out_of_memory = true;
    }
    if (status == PL_OK && job->snapshot)
        status = pl_simulate_snapshot(job->snapshot, out->tape, g, &settings, job->alloc_conf, err);
    return status;
}

void pl_simulated_close(pl_simulated *simulated) {
    pl_tape_close(&simulated->tape);
}
