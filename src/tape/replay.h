/* replay: a recorded trace as a tape.
 *
 * The trace says when storages are born and die; what operators take beside that on a card
 * (libraries' workspaces, copies of operands, partial sums) is added from the rules of this folder
 * (replay_rules.c). Fewer than three recorded steps are followed by copies of the last one. */
#ifndef PL_TAPE_REPLAY_H
#define PL_TAPE_REPLAY_H

#include "graph/trace.h"
#include "tape/operator.h"

/* The tape of three steps or, where more were recorded, of all. device: as for pl_tape_train. The
 * trace must outlive the tape. On failure *out is NULL. */
pl_status pl_tape_replay(pl_tape **out, const pl_trace *trace, const pl_tape_device *device,
                         pl_budget *budget, pl_error *err);

/* ---- between replay.c and replay_rules.c ---- */

typedef struct pl_replay {
    pl_eager e;
    pl_job job; /* what the trace says of it */
    const pl_trace *trace;
    const pl_trace_event *event; /* being played */
    int32_t *blocks;             /* [storage_count]; 0: none */
    bool *born;                  /* [storage_count]: lives, with or without bytes */
} pl_replay;

/* A rule plays one operator: outputs' births and what goes on around them. What it leaves unborn is
 * born after it. */
typedef void pl_replay_rule(pl_replay *r);
/* The rule of an operator ("aten.mm.default"), NULL: births alone. */
pl_replay_rule *pl_replay_rule_of(const char *target);

/* Output i is born, if it is a new storage; -1 as bytes: as many as the trace says. */
void pl_replay_birth(pl_replay *r, uint32_t output, int64_t bytes);
/* Output i is born in a block that is on the tape already. */
void pl_replay_adopt(pl_replay *r, uint32_t output, int32_t block);

#endif
