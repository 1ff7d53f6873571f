/* simulate: see simulate.h.
 *
 * The overhead outside the allocator was measured on an H200 (driver 580.159.04, CUDA 13.0, PyTorch
 * 2.11, cuDNN 9.19; 2026-11-15) in fresh processes that did one thing each: the context alone 610
 * MiB; the first cuBLAS product 66 MiB more, one on autograd's thread another 64, cublasLt 2 where
 * cuDNN is not loaded; cuDNN's kernels 10 for forward and 8 more for backward. Elementwise kernels,
 * attention's flash and memory-efficient kernels and optimizers add nothing. Other cards: the
 * catalogue's context and the same libraries, an assumption. */
#include "device/simulate.h"

#include <errno.h>
#include <string.h>

#include "device/snapshot.h"
#include "device/workspace.h"

enum {
    BLAS_FORWARD_MIB = 66,
    BLAS_BACKWARD_MIB = 64,
    BLAS_LT_MIB = 2,
    CUDNN_FORWARD_MIB = 10,
    CUDNN_BACKWARD_MIB = 8,
    COMMUNICATION_MIB =
        70, /* a process group's: hffsdp jobs hold 812 and 828 MiB where others hold 742 and 758 */
};

int64_t pl_overhead(const pl_gpu *gpu, const pl_tape *tape) {
    int64_t mib = 0;
    if (tape->used_blas) mib += BLAS_FORWARD_MIB;
    if (tape->used_blas_backward) mib += BLAS_BACKWARD_MIB;
    if (tape->used_blas_lt && !tape->used_cudnn) mib += BLAS_LT_MIB;
    if (tape->used_cudnn) mib += CUDNN_FORWARD_MIB + (tape->trains ? CUDNN_BACKWARD_MIB : 0);
    if (tape->used_communication) mib += COMMUNICATION_MIB;
    if (tape->used_nccl) mib += PL_NCCL_MIB;
    return gpu->context_bytes + (mib << 20);
}

static int64_t conv_used(void *context, const pl_conv *conv, pl_conv_pass pass, int major,
                         int minor, double *doubt) {
    (void)context;
    return pl_workspace_conv(conv, pass, major, minor, doubt);
}

static int64_t conv_tried(void *context, const pl_conv *conv, pl_conv_pass pass, int major,
                          int minor, double *doubt) {
    (void)context;
    return pl_workspace_conv_tried(conv, pass, major, minor, doubt);
}

pl_tape_device pl_tape_device_of(const pl_gpu *gpu) {
    return (pl_tape_device){.cc_major = gpu->cc_major,
                            .cc_minor = gpu->cc_minor,
                            .sms = gpu->sms,
                            .threads_per_sm = gpu->threads,
                            .cublas_bytes = pl_workspace_cublas(gpu->cc_major, gpu->cc_minor),
                            .cublaslt_bytes = pl_workspace_cublaslt(gpu->cc_major, gpu->cc_minor),
                            .memory = gpu->capacity_bytes,
                            .conv = conv_used,
                            .conv_tried = conv_tried,
                            .conv_native = pl_workspace_conv_native,
                            .rnn = pl_workspace_rnn,
                            .attention = pl_workspace_attention};
}

enum { POLLED = 4096 }; /* events from one look at the clock to the next */

typedef struct player {
    const pl_tape *tape;
    const pl_graph *graph;
    pl_allocator *allocator;
    pl_block **blocks; /* [block_count] */
    int64_t kinds[PL_FRAGMENTATION];
    size_t mark; /* next */
    uint8_t phase, step;
} player;

static void note_instant(const player *p, const pl_tape_block *block, pl_instant *instant) {
    const pl_allocator_stats *stats = pl_allocator_stats_of(p->allocator);
    instant->moment = (pl_moment){.allocated = stats->allocated,
                                  .reserved = stats->reserved,
                                  .phase = (pl_phase)p->phase,
                                  .step = p->step,
                                  .operator_name = block && block->what ? block->what : "",
                                  .module = block ? pl_node_module(p->graph, block->node) : ""};
    for (int k = 0; k < PL_FRAGMENTATION; k++) instant->kinds[k] = p->kinds[k];
}

/* One event; false: the card is full, or this machine's memory is out (*failed). */
static bool play(player *p, size_t i, bool *failed) {
    const pl_tape *tape = p->tape;
    int32_t event = tape->events[i];
    while (p->mark < tape->mark_count && tape->marks[p->mark].event <= i) {
        p->phase = tape->marks[p->mark].phase;
        p->step = tape->marks[p->mark++].step;
    }
    if (event == 0) {
        pl_allocator_empty_cache(p->allocator);
        return true;
    }
    int32_t id = event > 0 ? event : -event;
    const pl_tape_block *block = &tape->blocks[id];
    if (event < 0) {
        p->kinds[block->kind] -= pl_block_bytes(p->blocks[id]);
        pl_allocator_free(p->allocator, p->blocks[id]);
        return true;
    }
    bool full = false;
    p->blocks[id] = pl_allocator_alloc(p->allocator, block->bytes, block->stream, &full);
    if (!p->blocks[id]) {
        *failed = !full;
        return false;
    }
    p->kinds[block->kind] += pl_block_bytes(p->blocks[id]);
    return true;
}

/* The first event of the steps. */
static size_t load_end(const pl_tape *tape) {
    for (size_t i = 0; i < tape->mark_count; i++)
        if (tape->marks[i].phase != PL_PHASE_LOAD) return tape->marks[i].event;
    return tape->event_count;
}

/* The most that the steps reserve where the cache is emptied before them: what loading left there
 * is not theirs. PL_UNKNOWN: the budget is out, or the card. */
static int64_t steps_alone(const pl_tape *tape, const pl_graph *graph,
                           const pl_allocator_settings *settings) {
    player p = {.tape = tape, .graph = graph, .allocator = pl_allocator_new(settings)};
    pl_arena *scratch = pl_arena_new(settings->budget);
    p.blocks = scratch ? pl_arena_array(scratch, tape->block_count + 1, sizeof *p.blocks) : NULL;
    bool failed = !p.allocator || !p.blocks;
    size_t begin = load_end(tape);
    int64_t most = 0;
    for (size_t i = 0; i < tape->event_count && !failed; i++) {
        bool ignored;
        failed = i % POLLED == 0 && !pl_budget_poll(settings->budget);
        if (i == begin) pl_allocator_empty_cache(p.allocator);
        failed = failed || !play(&p, i, &ignored);
        int64_t reserved = pl_allocator_stats_of(p.allocator)->reserved;
        if (i >= begin && reserved > most) most = reserved;
    }
    pl_arena_free(&scratch);
    pl_allocator_close(&p.allocator);
    return failed ? PL_UNKNOWN : most;
}

pl_status pl_simulate(pl_simulation *out, const pl_tape *tape, const pl_graph *graph,
                      const pl_allocator_settings *settings, bool want_timeline, pl_arena *arena,
                      pl_error *err) {
    *out = (pl_simulation){0};
    player p = {.tape = tape, .graph = graph, .allocator = pl_allocator_new(settings)};
    pl_arena *scratch = pl_arena_new(settings->budget);
    p.blocks = scratch ? pl_arena_array(scratch, tape->block_count + 1, sizeof *p.blocks) : NULL;
    bool failed = !p.allocator || !p.blocks;
    if (want_timeline && !failed) {
        out->timeline = pl_arena_array(arena, tape->event_count + 1, sizeof *out->timeline);
        failed = !out->timeline;
    }
    const pl_allocator_stats *stats = failed ? NULL : pl_allocator_stats_of(p.allocator);
    int64_t peak = -1;
    size_t begin = load_end(tape);
    for (size_t i = 0; i < tape->event_count && !failed; i++) {
        if (i % POLLED == 0 && !pl_budget_poll(settings->budget)) failed = true;
        if (i == begin && !failed) out->load_reserved = stats->peak_reserved;
        bool went = !failed && play(&p, i, &failed);
        if (stats->allocated > peak) {
            peak = stats->allocated;
            out->peak_event = i;
            for (int k = 0; k < PL_FRAGMENTATION; k++) out->kinds[k] = p.kinds[k];
        }
        if (!went) {
            out->out_of_memory = !failed;
            break;
        }
        if (out->timeline) {
            int32_t event = tape->events[i];
            note_instant(&p, event ? &tape->blocks[event > 0 ? event : -event] : NULL,
                         &out->timeline[out->timeline_count++]);
        }
    }
    if (stats) {
        out->peak_allocated = stats->peak_allocated;
        out->peak_reserved = stats->peak_reserved;
        out->retries = stats->retries;
        if (begin >= tape->event_count) out->load_reserved = stats->peak_reserved;
        out->fragmentation = stats->peak_reserved - (peak > 0 ? peak : 0);
    }
    pl_arena_free(&scratch);
    pl_allocator_close(&p.allocator);
    if (failed) return pl_budget_fail(err, settings->budget, graph->name);
    bool loading = !out->out_of_memory &&
                   (out->peak_event < begin || out->load_reserved == out->peak_reserved);
    out->steps_reserved = loading ? steps_alone(tape, graph, settings) : out->peak_reserved;
    return PL_OK;
}

pl_status pl_simulate_snapshot(const char *path, const pl_tape *tape, const pl_graph *graph,
                               const pl_allocator_settings *given, const char *alloc_conf,
                               pl_error *err) {
    pl_allocator_settings settings = *given;
    pl_arena *scratch = pl_arena_new(settings.budget);
    int reason = 0;
    pl_snapshot *s = scratch ? pl_snapshot_open(path, graph, scratch, &reason) : NULL;
    if (reason) {
        pl_arena_free(&scratch);
        return pl_fail(err, PL_INPUT, path, -1, "cannot write: %s", strerror(reason));
    }
    settings.segment = pl_snapshot_segment;
    settings.segment_context = s;
    player p = {.tape = tape, .graph = graph};
    if (s) p.allocator = pl_allocator_new(&settings);
    if (s) p.blocks = pl_arena_array(scratch, tape->block_count + 1, sizeof *p.blocks);
    bool failed = !p.allocator || !p.blocks;
    for (size_t i = 0; i < tape->event_count && !failed; i++) {
        int32_t event = tape->events[i], id = event < 0 ? -event : event;
        const pl_tape_block *block = &tape->blocks[id];
        bool ignored;
        for (size_t m = p.mark; m < tape->mark_count && tape->marks[m].event <= i; m++)
            pl_snapshot_phase(s, tape->marks[m].phase, tape->marks[m].step);
        if (event < 0)
            pl_snapshot_block(s, id, block, pl_block_address(p.blocks[id]),
                              pl_block_bytes(p.blocks[id]), false);
        failed = (i % POLLED == 0 && !pl_budget_poll(settings.budget)) || !play(&p, i, &ignored);
        if (event > 0 && !failed)
            pl_snapshot_block(s, id, block, pl_block_address(p.blocks[id]),
                              pl_block_bytes(p.blocks[id]), true);
    }
    reason = pl_snapshot_close(&s, tape, alloc_conf, &settings, !failed);
    pl_allocator_close(&p.allocator); /* tells nobody: segments go with it */
    pl_arena_free(&scratch);
    if (failed || reason == ENOMEM) return pl_budget_fail(err, settings.budget, graph->name);
    if (reason) return pl_fail(err, PL_INPUT, path, -1, "cannot write: %s", strerror(reason));
    return PL_OK;
}
