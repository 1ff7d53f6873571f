/* simulate: a tape played on a card: the memory curve, its peak and what lies there. */
#ifndef PL_DEVICE_SIMULATE_H
#define PL_DEVICE_SIMULATE_H

#include "device/allocator.h"
#include "tape/tape.h"

/* One instant of a simulation, and what is allocated then by kind. */
typedef struct pl_instant {
    pl_moment moment;
    int64_t kinds[PL_FRAGMENTATION];
} pl_instant;

typedef struct pl_simulation {
    int64_t peak_allocated, peak_reserved, retries; /* bytes, bytes, times */
    bool out_of_memory;                             /* stopped where the card was full */
    /* The first instant at which `allocated` had its peak. The cache is not given back, so the most
     * that was reserved is what nvidia-smi shows then or soon after: */
    size_t peak_event;
    int64_t kinds[PL_FRAGMENTATION]; /* allocated bytes by pl_kind */
    int64_t fragmentation;           /* peak_reserved less those */
    int64_t load_reserved;           /* peak_reserved before the first step */
    int64_t steps_reserved; /* peak_reserved of the steps, had the cache been emptied before them;
                               looked for where loading allocated or reserved the most */
    pl_instant *timeline;   /* [timeline_count], one per event; NULL unless wanted */
    size_t timeline_count;
} pl_simulation;

/* What the tape must know of a card (its workspaces, its size). */
pl_tape_device pl_tape_device_of(const pl_gpu *gpu);

/* What NCCL 2.28 takes for a group of one rank: DDP over "nccl" held 1,308 and 1,324 MiB outside the
 * allocator where the same without a group held 750 and 766 (H200, 2026-11-16). With more ranks it
 * takes as much or more, by their number and the links between them. */
enum { PL_NCCL_MIB = 558 };

/* Outside the allocator: context, kernels and library handles of what the tape used; bytes. */
int64_t pl_overhead(const pl_gpu *gpu, const pl_tape *tape);

/* Plays tape. arena: for the timeline; graph: for its names. PL_MISSING: out of memory here. */
pl_status pl_simulate(pl_simulation *out, const pl_tape *tape, const pl_graph *graph,
                      const pl_allocator_settings *settings, bool want_timeline, pl_arena *arena,
                      pl_error *err);

/* Plays tape once more, into a file in the form of PyTorch's memory snapshot (snapshot.h). PL_INPUT:
 * the file cannot be written. */
pl_status pl_simulate_snapshot(const char *path, const pl_tape *tape, const pl_graph *graph,
                               const pl_allocator_settings *settings, const char *alloc_conf,
                               pl_error *err);

#endif
