/* snapshot: a simulation as PyTorch's memory snapshot, torch.cuda.memory._dump_snapshot's file, which
 * torch.cuda._memory_viz and the memory viewer open. */
#ifndef PL_DEVICE_SNAPSHOT_H
#define PL_DEVICE_SNAPSHOT_H

#include "device/allocator.h"
#include "tape/tape.h"

typedef struct pl_snapshot pl_snapshot;

/* Writes beside path; pl_snapshot_close puts it in place. graph: for names of modules. NULL: no memory,
 * or errno's reason (*failed). */
pl_snapshot *pl_snapshot_open(const char *path, const pl_graph *graph, pl_arena *arena,
                              int *failed);
/* The allocator's hook: a segment, or pages of one, taken from the driver or given back. */
void pl_snapshot_segment(void *snapshot, int64_t address, int64_t bytes, int stream, bool pages,
                         bool made);
/* A phase begins. */
void pl_snapshot_phase(pl_snapshot *s, int phase, int step);
/* A block was allocated, or is freed: its bytes as they count, and its address. */
void pl_snapshot_block(pl_snapshot *s, int32_t id, const pl_tape_block *block, int64_t address,
                       int64_t bytes, bool made);
/* What is alive then is the state that the snapshot shows. 0, or errno's reason. keep: false where
 * the simulation failed. Takes NULL. */
int pl_snapshot_close(pl_snapshot **snapshot, const pl_tape *tape, const char *alloc_conf,
                      const pl_allocator_settings *settings, bool keep);

#endif
