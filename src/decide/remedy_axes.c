/* remedy_axes: see remedy.h.
 *
 * Weights are an order of how much a change asks of people, not a measurement: 1 for what leaves the
 * training as it is, more for what changes its arithmetic, then what it learns from, then what it
 * trains, and last the hardware. Those of several changes are summed.
 *
 * Left out: optimizers of another kind than the job's, gradient checkpointing of less than a block,
 * offloading to the CPU, tensor and pipeline parallelism, which are not simulated. */
#include "decide/remedy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WEIGHT_FUSED = 1,
    WEIGHT_CHECKPOINT = 2,
    WEIGHT_BATCH = 2,
    WEIGHT_AUTOCAST = 3,
    WEIGHT_8BIT = 3,
    WEIGHT_HALF = 4,
    WEIGHT_SEQ = 5,   /* and 1 more for each halving */
    WEIGHT_WORLD = 6, /* likewise for each doubling */
    WEIGHT_LORA = 7,
    WEIGHT_QLORA = 8,
    WEIGHT_GPU = 8,
};
enum { MOST_ACCUMULATE = 4096, LEAST_SEQ = 128, MOST_WORLD = 64 };

static void add(pl_axis *axis, int weight, int64_t number, const char *name) {
    if (axis->count < PL_MOST_LEVELS)
        axis->levels[++axis->count] =
            (pl_axis_level){.weight = weight, .number = number, .name = name};
}

/* ---- what there is ---- */

static bool trains(const pl_job *job) {
    return strcmp(job->optimizer, "none") != 0 && job->loss != PL_LOSS_NONE;
}

/* The job's optimizer in another form: its name, less its own form, with the ending. */
static const char *form_of(const char *optimizer, const char *ending) {
    const char *name, *dash = strrchr(optimizer, '-');
    size_t length = dash && (strcmp(dash, "-fused") == 0 || strcmp(dash, "-single") == 0)
                        ? (size_t)(dash - optimizer)
                        : strlen(optimizer);
    for (size_t i = 0; (name = pl_optimizer_name(i)); i++)
        if (strncmp(name, optimizer, length) == 0 && strcmp(name + length, ending) == 0 &&
            strcmp(name, optimizer) != 0)
            return name;
    return NULL;
}

static void list_optimizers(pl_axis *axis, const char *optimizer) {
    const char *fused = form_of(optimizer, "-fused"), *small = form_of(optimizer, "-8bit");
    if (fused) add(axis, WEIGHT_FUSED, 0, fused);
    if (small) add(axis, WEIGHT_8BIT, 0, small);
}

/* Divisors of the batch, so that passes of them make the same step: the largest up to a half, a
 * quarter, ... of it. */
static void list_batches(pl_axis *axis, const pl_job *job, int64_t batch, int64_t least) {
    int64_t last = batch;
    for (int64_t most = batch / 2; most >= least && most >= 1; most /= 2) {
        int64_t divisor = most;
        while (divisor > 1 && batch % divisor) divisor--;
        if (divisor >= last || divisor < least) continue;
        if (trains(job) && batch / divisor > MOST_ACCUMULATE / job->accumulate) break;
        add(axis, WEIGHT_BATCH, divisor, NULL);
        last = divisor;
    }
}

/* Bytes of a parameter, as the file has them; 0: not known. */
static double parameter_size(const pl_model *model) {
    const pl_model_info *info = pl_model_describe(model);
    return info->parameters > 0 ? (double)info->parameter_bytes / (double)info->parameters : 0;
}

/* Autocast keeps the weights in float32; then all of them in half the bytes. Cards before Ampere
 * emulate bfloat16, and training in float16 alone loses small gradients. */
static void list_precisions(pl_axis *axis, const pl_model *model, const pl_job *job,
                            const pl_gpu *gpu) {
    bool bf16 = gpu->cc_major >= 8,
         full = job->precision == PL_FP32 || job->precision == PL_TF32 ||
                (job->precision == PL_PRECISION_AS_EXPORTED && parameter_size(model) > 3);
    bool autocast = job->precision == PL_AMP_BF16 || job->precision == PL_AMP_FP16;
    if (full) add(axis, WEIGHT_AUTOCAST, bf16 ? PL_AMP_BF16 : PL_AMP_FP16, NULL);
    if (bf16 && (full || autocast)) add(axis, WEIGHT_HALF, PL_BF16, NULL);
}

static void list_sequences(pl_axis *axis, int64_t seq, int64_t least) {
    int weight = WEIGHT_SEQ;
    for (seq /= 2; seq >= least && seq >= LEAST_SEQ && axis->count < 3; seq /= 2)
        add(axis, weight++, seq, NULL);
}

static bool list_trained(pl_axis *axis, const pl_job *job, pl_arena *arena) {
    if (!job->train || strcmp(job->train, "all") == 0) {
        add(axis, WEIGHT_LORA, 0, "lora-r16");
        add(axis, WEIGHT_QLORA, 0, "qlora-r16");
    } else if (strncmp(job->train, "lora-", 5) == 0) {
        size_t length = strlen(job->train);
        char *name = pl_arena_alloc(arena, length + 2);
        if (!name) return false;
        snprintf(name, length + 2, "q%s", job->train);
        add(axis, WEIGHT_QLORA, 0, name);
    }
    return true;
}

/* fsdp2 over as many ranks as a ddp job has, then over twice as many each. */
static void list_worlds(pl_axis *axis, const pl_job *job) {
    int64_t world =
        job->parallel == PL_DDP && job->world > 1 ? job->world : 2 * (int64_t)job->world;
    int weight = WEIGHT_WORLD;
    for (; world <= MOST_WORLD; world *= 2) add(axis, weight++, world, NULL);
}

static int by_capacity(const void *x, const void *y) {
    const pl_gpu *const *a = x, *const *b = y;
    if ((*a)->capacity_bytes != (*b)->capacity_bytes)
        return (*a)->capacity_bytes < (*b)->capacity_bytes ? -1 : 1;
    return strcmp((*a)->name, (*b)->name);
}

/* A card that one would choose: no instance of another, and none soldered into a laptop. */
static bool is_whole(const pl_gpu *gpu) {
    return !gpu->part_of && !strstr(gpu->name, "laptop");
}

static bool is_better(const pl_gpu *a, const pl_gpu *b) {
    if (a->calibrated != b->calibrated) return a->calibrated;
    return a->fp16_tflops > b->fp16_tflops || (a->fp16_tflops >= 0 && isnan(b->fp16_tflops));
}

/* One for each size, which is less than a twentieth more than the least of it: the one measured, else
 * the fastest. */
static bool list_cards(pl_axis *axis, const pl_job *job, const pl_gpu *own, pl_arena *arena) {
    size_t count = 0, larger = 0;
    while (pl_card_at(job, count)) count++;
    const pl_gpu **cards = pl_arena_array(arena, count + 1, sizeof *cards);
    if (!cards) return false;
    for (size_t i = 0; i < count; i++)
        if (pl_card_at(job, i)->capacity_bytes > own->capacity_bytes &&
            is_whole(pl_card_at(job, i)))
            cards[larger++] = pl_card_at(job, i);
    qsort(cards, larger, sizeof *cards, by_capacity);
    for (size_t i = 0; i < larger;) {
        const pl_gpu *best = cards[i];
        int64_t end = best->capacity_bytes + best->capacity_bytes / 20;
        for (; i < larger && cards[i]->capacity_bytes < end; i++)
            if (is_better(cards[i], best)) best = cards[i];
        add(axis, WEIGHT_GPU, 0, best->name);
    }
    return true;
}

bool pl_axes_list(pl_axis axes[PL_AXES], const pl_model *model, const pl_job *job,
                  const pl_report *report, pl_arena *arena) {
    const pl_symbol *batch = pl_open_symbol(model, "batch"), *seq = pl_open_symbol(model, "seq");
    memset(axes, 0, PL_AXES * sizeof *axes);
    if (!list_cards(&axes[PL_AXIS_GPU], job, report->gpu, arena)) return false;
    if (pl_model_describe(model)->recorded) return true; /* a trace is of one job */
    if (batch && report->batch > 1)
        list_batches(&axes[PL_AXIS_BATCH], job, report->batch, batch->least > 1 ? batch->least : 1);
    if (seq && report->seq > 1)
        list_sequences(&axes[PL_AXIS_SEQ], report->seq, seq->least > 1 ? seq->least : 1);
    list_precisions(&axes[PL_AXIS_PRECISION], model, job, report->gpu);
    list_worlds(&axes[PL_AXIS_WORLD], job);
    if (!trains(job)) return true;
    list_optimizers(&axes[PL_AXIS_OPTIMIZER], job->optimizer);
    if (!job->checkpoint) add(&axes[PL_AXIS_CHECKPOINT], WEIGHT_CHECKPOINT, 0, NULL);
    return list_trained(&axes[PL_AXIS_TRAIN], job, arena);
}

/* ---- what they do ---- */

void pl_axis_apply(pl_job *job, int axis, const pl_axis_level *level, int64_t batch) {
    switch (axis) {
    case PL_AXIS_OPTIMIZER: job->optimizer = level->name; break;
    case PL_AXIS_CHECKPOINT: job->checkpoint = true; break;
    case PL_AXIS_BATCH:
        job->batch = level->number;
        if (trains(job)) job->accumulate *= (int)(batch / level->number);
        break;
    case PL_AXIS_PRECISION: job->precision = (pl_precision)level->number; break;
    case PL_AXIS_SEQ: job->seq = level->number; break;
    case PL_AXIS_TRAIN: job->train = level->name; break;
    case PL_AXIS_WORLD:
        if (job->parallel != PL_FSDP2) job->stage = 3, job->parallel_mixed = false;
        job->parallel = PL_FSDP2;
        job->world = (int)level->number;
        break;
    case PL_AXIS_GPU: job->gpu = level->name; break;
    default: break;
    }
}

static const char *number_text(int64_t number, pl_arena *arena) {
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, number);
    return pl_arena_string(arena, text, (size_t)length);
}

static const char *parallel_text(const pl_job *job, pl_arena *arena) {
    char text[48];
    int length = snprintf(text, sizeof text, "fsdp2:%d%s%s", job->world,
                          job->stage == 3 && !job->parallel_mixed ? ""
                          : job->stage == 3                       ? ":3"
                                                                  : ":2",
                          job->parallel_mixed ? ":mp" : "");
    return pl_arena_string(arena, text, (size_t)length);
}

bool pl_axis_setting(const pl_job *job, int axis, size_t index, const char **member,
                     const char **value, pl_arena *arena) {
    static const char *const members[PL_AXES] = {"optimizer", "checkpoint", "batch",    "precision",
                                                 "seq",       "train",      "parallel", "gpu"};
    bool passes = axis == PL_AXIS_BATCH && trains(job);
    if (index > (passes ? 1 : 0)) return false;
    *member = index ? "accumulate" : members[axis];
    switch (axis) {
    case PL_AXIS_OPTIMIZER: *value = job->optimizer; break;
    case PL_AXIS_CHECKPOINT: *value = "true"; break;
    case PL_AXIS_BATCH: *value = number_text(index ? job->accumulate : job->batch, arena); break;
    case PL_AXIS_PRECISION: *value = pl_precision_name((size_t)job->precision); break;
    case PL_AXIS_SEQ: *value = number_text(job->seq, arena); break;
    case PL_AXIS_TRAIN: *value = job->train; break;
    case PL_AXIS_WORLD: *value = parallel_text(job, arena); break;
    default: *value = job->gpu; break;
    }
    return *value != NULL;
}
