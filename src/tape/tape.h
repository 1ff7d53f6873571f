/* tape: what a framework does with a model over a few training steps, as allocations and frees in
 * order.
 *
 * An event is one number: n > 0 allocates block n, n < 0 frees block -n, 0 empties the allocator's
 * cache. What a block is (bytes, kind, who asked) stands in a table beside the events. Marks say
 * where a phase begins. A tape comes from a graph (pl_tape_train) or from a recorded trace; the
 * device replays it without knowing. */
#ifndef PL_TAPE_TAPE_H
#define PL_TAPE_TAPE_H

#include "graph/graph.h"
#include "tape/work.h"
#include "tape/workspace_request.h"

typedef struct pl_tape_block {
    int64_t bytes;  /* as asked for, before rounding */
    int32_t node;   /* of the graph, -1: none */
    int32_t tensor; /* of the graph where it holds a parameter or buffer, else -1 */
    uint8_t kind;   /* pl_kind */
    uint8_t phase;  /* pl_phase it was allocated in */
    uint8_t step;
    uint8_t stream;
    const char *what; /* operator or purpose: "aten.linear.default", "AddmmBackward0", "exp_avg" */
} pl_tape_block;

typedef struct pl_tape_mark {
    size_t event; /* index of the first event of the phase */
    uint8_t phase, step;
} pl_tape_mark;

typedef struct pl_tape {
    pl_arena *arena;
    int32_t *events;
    size_t event_count;
    pl_tape_block *blocks; /* [block_count]; 0 is not used */
    size_t block_count;
    pl_tape_mark *marks;
    size_t mark_count;
    pl_work *calls; /* [call_count]: the last step's, in the order of issue */
    size_t call_count;
    const char **unknown; /* operators without a rule, each once */
    size_t unknown_count;
    const char **notes; /* warnings for people */
    size_t note_count;
    /* What the job used, for the device's overhead. */
    bool used_blas, used_blas_backward, used_blas_lt, used_cudnn, used_convolutions, used_rnn,
        used_communication, used_nccl, used_quantized, trains;
    bool hidden_branches; /* torch.cond and its like: what runs inside them is not seen */
    bool incomplete; /* a checkpointed block could not be run again as it was: its gradients are
                        missing */
} pl_tape;

void pl_tape_close(pl_tape **tape);

/* What the tape must know of the device: numbers, and the answers of src/device/workspace.h (see
 * there). doubt may be NULL. */
typedef struct pl_tape_device {
    int cc_major, cc_minor, sms, threads_per_sm;
    int64_t cublas_bytes, cublaslt_bytes;
    int64_t memory; /* bytes of the card; 0: not known */
    void *context;  /* for conv and conv_tried */
    int64_t (*conv)(void *context, const pl_conv *conv, pl_conv_pass pass, int cc_major,
                    int cc_minor, double *doubt);
    int64_t (*conv_tried)(void *context, const pl_conv *conv, pl_conv_pass pass, int cc_major,
                          int cc_minor, double *doubt);
    bool (*conv_native)(const pl_conv *conv);
    bool (*rnn)(const pl_rnn *rnn, int cc_major, int cc_minor, pl_rnn_memory *out);
    int64_t (*attention)(const pl_attention *attention, bool backward, int cc_major, int cc_minor,
                         double *doubt);
} pl_tape_device;

/* Steps enough for a job's figures: the first makes the optimizer's state, the third settles
 * fragmentation. */
enum { PL_TAPE_STEPS = 3 };

/* The tape of `steps` training steps of PyTorch's eager mode, of a job that has been checked; what
 * it says of batch, fine-tuning and card is in graph and device already. On failure *out is NULL.
 */
pl_status pl_tape_train(pl_tape **out, const pl_graph *graph, const pl_job *job, int steps,
                        const pl_tape_device *device, pl_budget *budget, pl_error *err);

#endif
