/* plimsoll: what a training job will ask of a GPU, before it runs.
 *
 * The one public header. A model file is opened once and may be asked many times:
 *
 *     pl_model *model = NULL;
 *     pl_report *report = NULL;
 *     pl_error err;
 *     pl_job job;
 *     pl_job_default(&job);
 *     job.gpu = "a100-40gb";
 *     if (pl_model_open(&model, "resnet50.pt2", NULL, &err) == PL_OK &&
 *         pl_estimate(&report, model, &job, &err) == PL_OK)
 *         printf("%lld\n", (long long)report->peak_bytes);
 *     pl_report_close(&report);
 *     pl_model_close(&model);
 *
 * Ownership: what an open function gives, its close function takes back; close sets the pointer to
 * NULL and accepts NULL. Everything inside a report belongs to it. Threads: one pl_model may be
 * shared by threads that only estimate; a report belongs to one thread. The library never prints,
 * exits or aborts. Bytes are integers; what is unknown is PL_UNKNOWN. */
#ifndef PLIMSOLL_PLIMSOLL_H
#define PLIMSOLL_PLIMSOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* What stands here is exported (and listed in plimsoll.map); all else in the library is hidden. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define PL_VERSION "0.1.0"
#define PL_UNKNOWN (-1)

/* Version of the library at run time, as PL_VERSION was when it was built. */
const char *pl_version(void);

/* The values are the command's exit codes. */
typedef enum pl_status {
    PL_OK = 0,
    PL_USAGE = 2,   /* a setting that makes no sense, or not for this model */
    PL_INPUT = 3,   /* a file that cannot be read or understood */
    PL_MISSING = 4, /* something the machine lacks, memory included */
} pl_status;

typedef struct pl_error {
    pl_status code;
    char message[512];
    char where[256];  /* file, archive member or setting; "" where there is none */
    int64_t position; /* byte in it, or -1 */
} pl_error;

/* ---- models ---- */

typedef struct pl_model pl_model;

typedef struct pl_model_settings {
    size_t memory_limit; /* bytes reading and simulating may take; default 4 GiB */
    int depth_limit;     /* nesting of JSON and of subgraphs; default 512 */
} pl_model_settings;

void pl_model_settings_default(pl_model_settings *settings);

/* Reads a .pt2 archive or a bare model.json; told apart by content. settings: NULL for defaults.
 * On failure *out is NULL. */
pl_status pl_model_open(pl_model **out, const char *path, const pl_model_settings *settings,
                        pl_error *err);
/* The same from memory; the bytes are not kept. name: for messages. */
pl_status pl_model_open_memory(pl_model **out, const void *bytes, size_t size, const char *name,
                               const pl_model_settings *settings, pl_error *err);
void pl_model_close(pl_model **model);

/* A dimension left open at export. */
typedef struct pl_symbol {
    const char *name;    /* as the file has it: "s0" */
    int64_t hint;        /* value at export, PL_UNKNOWN where the file has none */
    int64_t least, most; /* its range; INT64_MAX where open */
    const char *role;    /* "batch", "seq" or "" */
} pl_symbol;

typedef struct pl_model_info {
    const char *name;          /* from the file's name */
    const char *torch_version; /* "" where the file does not say */
    int64_t parameters, trainable, parameter_bytes, buffer_bytes;
    int64_t operators;
    int64_t batch, seq; /* as exported (symbols: their hints); PL_UNKNOWN where not found */
    const pl_symbol *symbols;
    size_t symbol_count;
} pl_model_info;

/* Valid until the model is closed. */
const pl_model_info *pl_model_describe(const pl_model *model);

/* ---- jobs ---- */

typedef enum pl_precision {
    PL_PRECISION_AS_EXPORTED, /* weights as the file has them, no autocast */
    PL_FP32,
    PL_TF32,
    PL_BF16,
    PL_FP16,
    PL_AMP_BF16,
    PL_AMP_FP16,
} pl_precision;

typedef enum pl_loss { PL_LOSS_AUTO, PL_LOSS_CE, PL_LOSS_MSE, PL_LOSS_OWN, PL_LOSS_NONE } pl_loss;

typedef enum pl_parallel_kind { PL_ALONE, PL_DDP, PL_FSDP2 } pl_parallel_kind;

typedef struct pl_job {
    int64_t batch, seq;     /* PL_UNKNOWN (default): as exported */
    pl_precision precision; /* default: as exported */
    const char *optimizer;  /* default "adamw"; pl_optimizer_name lists them; "none": no training */
    pl_loss loss;           /* default: auto (own where the model returns a scalar, else ce) */
    bool checkpoint;        /* default false: activation checkpointing of the repeated blocks */
    int accumulate;         /* default 1: backward passes a step */
    bool channels_last;     /* default false */
    bool cudnn_benchmark;   /* default false */
    const char *alloc_conf; /* default NULL: as PYTORCH_CUDA_ALLOC_CONF */
    pl_parallel_kind parallel; /* default: alone */
    int world;                 /* default 1: ranks */
    int stage;                 /* default 3: fsdp2 stage 3 reshards after forward, 2 does not */
    bool parallel_mixed;       /* default false: fsdp2's bf16 parameters with fp32 reduction */
    const char *gpu;           /* default "h200": a row of the catalogue */
    const char *estimator;     /* default "sim" */
    bool want_timeline;        /* default false: fill report->timeline */
    bool want_alive;           /* default false: fill report->alive */
} pl_job;

void pl_job_default(pl_job *job);

/* Names of the rows of a table, from 0; NULL past the end. */
const char *pl_optimizer_name(size_t index);
const char *pl_precision_name(size_t index); /* index: a pl_precision */
const char *pl_estimator_name(size_t index);
/* false: no such name. */
bool pl_precision_parse(const char *name, pl_precision *out);
bool pl_loss_parse(const char *name, pl_loss *out);
/* "ddp:8", "fsdp2:8", "fsdp2:8:2", "fsdp2:8:3:mp" */
bool pl_parallel_parse(const char *text, pl_job *job);

/* ---- the catalogue of GPUs ---- */

typedef struct pl_gpu {
    const char *name;       /* "a100-40gb" */
    const char *title;      /* "NVIDIA A100 40GB" */
    int64_t capacity_bytes; /* as nvidia-smi reports memory.total */
    int cc_major, cc_minor; /* compute capability */
    int sms;                /* streaming multiprocessors */
    int threads;            /* that one of them holds at the most */
    double bandwidth_gbps;  /* memory, GB/s */
    /* dense peak rates, TFLOP/s; NAN where the card has no such unit */
    double fp32_tflops, tf32_tflops, fp16_tflops, bf16_tflops;
    int64_t context_bytes; /* CUDA context alone */
    bool calibrated;       /* measured, not taken from data sheets */
    const char *source;    /* where the figures come from */
} pl_gpu;

const pl_gpu *pl_gpu_at(size_t index);       /* NULL past the end */
const pl_gpu *pl_gpu_find(const char *name); /* NULL: unknown */
/* What a process can have of it: the driver keeps a little of capacity_bytes. An assumption. */
int64_t pl_gpu_usable(const pl_gpu *gpu);

/* ---- reports ---- */

typedef enum pl_kind {
    PL_WEIGHTS,
    PL_GRADIENTS,
    PL_OPTIMIZER,
    PL_ACTIVATIONS,
    PL_INPUTS,
    PL_WORKSPACE,
    PL_TEMPORARY,
    PL_FRAGMENTATION, /* the most reserved, less what is allocated at the peak */
    PL_CONTEXT,       /* outside the allocator */
    PL_KINDS
} pl_kind;

const char *pl_kind_name(pl_kind kind); /* "weights", ... as in the JSON */

typedef enum pl_phase {
    PL_PHASE_LOAD,
    PL_PHASE_INPUT,
    PL_PHASE_FORWARD,
    PL_PHASE_BACKWARD,
    PL_PHASE_OPTIMIZER,
    PL_PHASES
} pl_phase;

const char *pl_phase_name(pl_phase phase);

/* One instant of the simulated steps; bytes. */
typedef struct pl_moment {
    int64_t allocated, reserved;
    int64_t kind[PL_FRAGMENTATION]; /* PL_WEIGHTS to PL_TEMPORARY; adds up to allocated */
    pl_phase phase;
    int step; /* from 0 */
    const char *operator_name, *module;
} pl_moment;

/* One tensor's storage alive at the peak. */
typedef struct pl_alive {
    int64_t bytes;
    pl_kind kind;
    pl_phase born;
    const char *operator_name, *module, *tensor;
} pl_alive;

typedef struct pl_report {
    const pl_gpu *gpu;
    const char *estimator;
    int64_t peak_bytes, low_bytes, high_bytes; /* what nvidia-smi shows for the process */
    double coverage;                           /* of [low, high] */
    int64_t allocated_bytes, reserved_bytes;   /* peaks of the allocator's two figures */
    int64_t overhead_bytes;                    /* context, kernels, handles */
    int64_t breakdown[PL_KINDS];               /* of the peak instant; adds up to peak_bytes */
    pl_phase peak_phase;
    int peak_step;
    const char *peak_operator, *peak_module;
    bool fits;          /* high_bytes <= pl_gpu_usable, and not out_of_memory */
    bool out_of_memory; /* the card is too small; figures as if it were not */
    int64_t retries;    /* times its cache was given back to the driver */
    int64_t batch, seq; /* as simulated; PL_UNKNOWN where not known */
    int64_t events;     /* allocations and frees simulated */
    int64_t elapsed_us; /* simulation alone, graph already read */
    const char *const *unknown_operators;
    size_t unknown_count;
    const char *const *warnings;
    size_t warning_count;
    const pl_moment *timeline; /* NULL unless asked for */
    size_t timeline_count;
    const pl_alive *alive; /* largest first; NULL unless asked for */
    size_t alive_count;
} pl_report;

/* On failure *out is NULL. A job that does not fit is no failure: report->fits is false. */
pl_status pl_estimate(pl_report **out, const pl_model *model, const pl_job *job, pl_error *err);
void pl_report_close(pl_report **report);

/* The report as one JSON object, schema 1 (README, docs/formats). Owned by the report. NULL: no
 * memory. */
const char *pl_report_json(pl_report *report, const pl_model *model);

/* ---- decisions ---- */

typedef struct pl_fit {
    int64_t batch;               /* the largest that fits; 0: not even the smallest it may have */
    int64_t high_at, high_above; /* high_bytes at batch and at batch + 1 */
    int64_t tried;               /* simulations made */
} pl_fit;

/* The largest batch up to `most` whose high_bytes fit job->gpu; needs a model with a symbolic
 * batch. */
pl_status pl_fit_batch(pl_fit *out, const pl_model *model, const pl_job *job, int64_t most,
                       pl_error *err);

/* ---- evaluation ---- */

/* One measured job and what an estimator said of it; bytes. */
typedef struct pl_trial {
    const char *id, *family, *source, *precision, *optimizer; /* "" where the file has none */
    int64_t measured_bytes;                                   /* peak_reserved + overhead */
    int64_t measured_allocated, measured_reserved, measured_overhead;
    bool has_graph;   /* the folder holds the job's graph */
    pl_status status; /* of reading the graph and estimating; PL_MISSING where there is no graph */
    const char *message; /* why there is no estimate; "" with PL_OK */
    /* With PL_OK only: */
    int64_t peak_bytes, low_bytes, high_bytes, allocated_bytes, reserved_bytes, overhead_bytes;
    double coverage;
    int64_t elapsed_us; /* simulation alone */
} pl_trial;

typedef struct pl_evaluation {
    const char *estimator;
    const pl_trial *trials; /* in the file's order */
    size_t count;
    int64_t elapsed_us; /* all of it, reading included */
} pl_evaluation;

typedef struct pl_evaluate_settings {
    const char *estimator; /* default: pl_job_default's */
    const char *gpu;       /* default "h200": the card the jobs ran on */
    int threads;           /* default 0: one a core */
    /* Called after each job, by one thread at a time; default NULL. */
    void (*progress)(size_t done, size_t total, void *context);
    void *progress_context;
} pl_evaluate_settings;

void pl_evaluate_settings_default(pl_evaluate_settings *settings);

/* Every job of a ground-truth file (JSON lines, plain or xz; docs/formats.md) through an estimator.
 * The graph of job ID is GRAPHS/ID.pt2 or GRAPHS/ID.json, either also with .xz behind it. settings:
 * NULL for defaults. A job that cannot be estimated is no failure: its trial says why. On failure
 * *out is NULL. */
pl_status pl_evaluate(pl_evaluation **out, const char *jobs, const char *graphs,
                      const pl_evaluate_settings *settings, pl_error *err);
void pl_evaluation_close(pl_evaluation **evaluation);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
