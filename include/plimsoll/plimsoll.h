/* plimsoll: what a training job will ask of a GPU, before it runs.
 *
 * The one public header. A model file is opened once and may be asked many times:
 *
 *     pl_model *model = NULL;
 *     pl_report *report = NULL;
 *     pl_error err = PL_SIZED(pl_error);
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
 * exits or aborts. Bytes are integers; what is unknown is PL_UNKNOWN.
 *
 * Growth: later versions add functions, enum values, and members at the ends of structs. So a struct
 * that the caller makes begins with its size as the caller was compiled, set by its _default
 * function or by PL_SIZED. One that the library hands out by pointer is read where it lies, never
 * copied or taken for an element of an array: elements come by functions with an index. Enums size
 * no arrays: names end with NULL. docs/c-api.md says more, with a whole example. */
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

#define PL_VERSION_MAJOR 0
#define PL_VERSION_MINOR 2
#define PL_VERSION_PATCH 0
#define PL_VERSION       "0.2.0"
/* For #if: 0.2.0 is 2000. */
#define PL_VERSION_NUMBER (PL_VERSION_MAJOR * 1000000 + PL_VERSION_MINOR * 1000 + PL_VERSION_PATCH)
#define PL_UNKNOWN        (-1)

/* A struct that begins with its size, and is 0 otherwise: pl_error err = PL_SIZED(pl_error); */
#ifdef __cplusplus
#define PL_SIZED(type)                                                                             \
    { sizeof(type) }
#else
#define PL_SIZED(type)                                                                             \
    { .size = sizeof(type) }
#endif

/* Version of the library at run time, as the macros were when it was built. */
const char *pl_version(void);
int pl_version_number(void);

/* The values are the command's exit codes. */
typedef enum pl_status {
    PL_OK = 0,
    PL_USAGE = 2,   /* a setting that makes no sense, or not for this model */
    PL_INPUT = 3,   /* a file that cannot be read or understood */
    PL_MISSING = 4, /* something the machine lacks, memory included */
    PL_LIMIT = 5,   /* more than the request was given: pl_limits */
} pl_status;

const char *pl_status_name(pl_status status); /* "ok", "usage", ...; NULL: none such */

typedef struct pl_error {
    size_t size; /* of this struct: PL_SIZED(pl_error); 0: as in version 0.2 */
    pl_status code;
    char message[512];
    char where[256];  /* file, archive member or setting; "" where there is none */
    int64_t position; /* byte in it, or -1 */
} pl_error;

/* ---- limits ---- */

/* What a request (opening a model, an estimate, a search for the largest batch) may cost. Past one
 * of them it ends with PL_LIMIT, whatever the input. */
typedef struct pl_limits {
    size_t size;         /* of this struct, as the caller was compiled; pl_limits_default sets it */
    size_t memory_bytes; /* default 4 GiB: taken in all, the model included; 0: no limit */
    int64_t operators;   /* default 4,194,304: of a graph; 0: no limit */
    int64_t events;      /* default 2^28: allocations and frees of a simulation; 0: no limit */
    int64_t timeout_ms;  /* default 0: none. From the start of the call */
    int64_t deadline_ns; /* default 0: none. On CLOCK_MONOTONIC, for calls that share one */
    /* Default NULL. Asked now and then, from the thread that made the call; not 0: give up. */
    int (*cancelled)(void *context);
    void *cancel_context;
} pl_limits;

void pl_limits_default_sized(pl_limits *limits, size_t size);
static inline void pl_limits_default(pl_limits *limits) {
    pl_limits_default_sized(limits, sizeof *limits);
}

/* ---- models ---- */

typedef struct pl_model pl_model;

typedef struct pl_model_settings {
    size_t size;             /* of this struct; pl_model_settings_default sets it */
    const pl_limits *limits; /* default NULL: pl_limits_default's. Copied */
    int depth_limit;         /* nesting of JSON and of subgraphs; default 512 */
    /* Of a Hugging Face config.json: */
    const char *task; /* default NULL: as `architectures` says, else the family's usual; "causal",
                         "masked", "seq2seq", "classify", "tokens", "segment", "detect",
                         "ctc", "base"; pl_task_name */
    const char *attention; /* default NULL: as the config says, else "sdpa"; "eager", "flash2" */
    /* default NULL. Of descriptions: the job that will be asked first. The model is then built once
     * for its batch, sequence and precision, and not anew when it is asked. Not kept. */
    const struct pl_job *first;
    /* default false: a file is read, and what is read counts against the limits. true: it is
     * mapped, for callers who know that nobody cuts it short meanwhile: that is SIGBUS. */
    bool map;
} pl_model_settings;

void pl_model_settings_default_sized(pl_model_settings *settings, size_t size);
static inline void pl_model_settings_default(pl_model_settings *settings) {
    pl_model_settings_default_sized(settings, sizeof *settings);
}
/* Names of the rows of a table, from 0; NULL past the end. */
const char *pl_task_name(size_t index);
const char *pl_attention_name(size_t index);
/* A model_type of config.json whose family is known: built as transformers builds it. */
const char *pl_model_type_name(size_t index);

/* Reads any of the formats of docs/formats.md, recognised by content: a .pt2 archive or a bare
 * model.json of torch.export, a Hugging Face config.json, ONNX, a layer spec, a captured trace, a
 * graph that pl_model_convert wrote. settings: NULL for defaults. On failure *out is NULL. */
pl_status pl_model_open(pl_model **out, const char *path, const pl_model_settings *settings,
                        pl_error *err);
/* The same from memory; the bytes are not kept. name: for messages. */
pl_status pl_model_open_memory(pl_model **out, const void *bytes, size_t size, const char *name,
                               const pl_model_settings *settings, pl_error *err);
void pl_model_close(pl_model **model);

/* The model as plimsoll's own graph (docs/formats.md), for the job's batch and sequence (job NULL:
 * as the file has them, symbolic sizes kept): *out is malloc'ed and ends in a 0, *size counts
 * without it. On failure *out is NULL. */
struct pl_job;
pl_status pl_model_convert(char **out, size_t *size, const pl_model *model,
                           const struct pl_job *job, pl_error *err);

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
    int64_t operators;  /* PL_UNKNOWN: the file has only counts of layers */
    int64_t batch, seq; /* as exported (symbols: their hints); PL_UNKNOWN where not found */
    size_t symbol_count;
    const char *recorded; /* of a trace: how it was trained, "amp-bf16, adamw"; else NULL */
    /* What PL_PRECISION_AS_EXPORTED means: "bf16, as the config says", "fp32, as exported"; NULL: only
     * counts are known, or a trace. */
    const char *as_exported;
} pl_model_info;

/* Valid until the model is closed. */
const pl_model_info *pl_model_describe(const pl_model *model);
const pl_symbol *pl_model_symbol(const pl_model *model, size_t index); /* NULL past the end */

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

/* How a model comes to the card before the first step. */
typedef enum pl_load {
    PL_LOAD_AUTO,    /* sharded with fsdp2, else full */
    PL_LOAD_FULL,    /* whole on the card; fsdp2 shards it there */
    PL_LOAD_SHARDED, /* fsdp2: on the CPU or the meta device; a block at a time on the card */
} pl_load;

typedef struct pl_job {
    size_t size; /* of this struct, as the caller was compiled; pl_job_default sets it */
    const pl_limits *limits; /* default NULL: those that the model was opened with */
    int64_t batch, seq;      /* PL_UNKNOWN (default): as exported */
    pl_precision precision;  /* default: as exported */
    const char *optimizer;  /* default "adamw"; pl_optimizer_name lists them; "none": no training */
    const char *train;      /* default NULL: what the file trains; "all", "head", "lora-r16",
                               "lora-r16:q_proj,v_proj", "qlora-r16:all-linear": fine-tuning */
    pl_loss loss;           /* default: auto (own where the model returns a scalar, else ce) */
    bool checkpoint;        /* default false: activation checkpointing of the repeated blocks */
    int accumulate;         /* default 1: backward passes per step */
    bool channels_last;     /* default false */
    bool cudnn_benchmark;   /* default false */
    const char *alloc_conf; /* default NULL: as PYTORCH_CUDA_ALLOC_CONF */
    pl_parallel_kind parallel; /* default: alone */
    int world;                 /* default 1: ranks */
    int stage;                 /* default 3: fsdp2 stage 3 reshards after forward, 2 does not */
    bool parallel_mixed;       /* default false: fsdp2's bf16 parameters with fp32 reduction */
    const char *gpu;           /* default "h200": a row of the catalogue, with another size of
                                  memory "a100-80gb,memory=40GiB" */
    const char *estimator;     /* default "hybrid"; pl_estimator_at lists them */
    const struct pl_weights
        *weights;       /* default NULL: those in the library; else of this estimator */
    bool want_timeline; /* default false: fill report->timeline */
    bool want_alive;    /* default false: fill report->alive */
    bool want_times;    /* default false: fill report->times */
    /* Default PL_UNKNOWN, both: as hosts usually are, and the interval of the step's time has what
     * they differ by. The host's speed, that of the ground truth's being 1; */
    double host_speed;
    double copy_gbps; /* copies of the batch to the card, GB/s, while the step waits; INFINITY:
                         ready when it begins (pinned, fetched ahead) */
    pl_load load;     /* default: auto */
    double risk;      /* default 0.025: the chance of an out-of-memory that is accepted, 0.005 to
                           0.5; report->upper_bytes and the verdict follow it */
    const struct pl_catalogue *catalogue; /* default NULL: cards of one's own, which gpu may name */
    /* default NULL; of estimators that simulate: a file that the simulated steps are written to as
     * PyTorch's memory snapshot (torch.cuda.memory._dump_snapshot), by pl_estimate alone */
    const char *snapshot;
} pl_job;

void pl_job_default_sized(pl_job *job, size_t size);
static inline void pl_job_default(pl_job *job) {
    pl_job_default_sized(job, sizeof *job);
}
/* PL_USAGE with the member and the reason where a job makes no sense for any model. Every function
 * that takes a job calls it first. */
pl_status pl_job_check(const pl_job *job, pl_error *err);

/* Names of the rows of a table, from 0; NULL past the end. */
const char *pl_optimizer_name(size_t index);
const char *pl_precision_name(size_t index); /* index: a pl_precision */
const char *pl_loss_name(size_t index);      /* index: a pl_loss */
const char *pl_load_name(size_t index);      /* index: a pl_load */
const char *pl_parallel_name(size_t index);  /* index: a pl_parallel_kind: "alone", "ddp", ... */
/* The row that a name is, as PyTorch, Lightning and Hugging Face write it too ("bfloat16", "16-mixed",
 * "torch.half"; "adamw_torch_fused"). PL_USAGE with the nearest where there is none of the same
 * memory. A job's optimizer may be any of them. */
pl_status pl_precision_read(pl_precision *out, const char *name, pl_error *err);
pl_status pl_optimizer_read(const char **out, const char *name, pl_error *err);
/* false: no such name. */
bool pl_precision_parse(const char *name, pl_precision *out);
bool pl_loss_parse(const char *name, pl_loss *out);
bool pl_load_parse(const char *name, pl_load *out);
/* "ddp:8", "fsdp2:8", "fsdp2:8:2", "fsdp2:8:3:mp" */
bool pl_parallel_parse(const char *text, pl_job *job);

/* ---- estimators ---- */

typedef enum pl_estimator_kind {
    PL_SIMULATION, /* what PyTorch would allocate, step by step */
    PL_ANALYTICAL, /* a formula over counts or over the graph */
    PL_LEARNED,    /* numbers in, a number out; trained on measured jobs */
} pl_estimator_kind;

typedef struct pl_estimator_info {
    const char *name; /* "random-forest" */
    pl_estimator_kind kind;
    const char *title;      /* one line: what it is */
    const char *source;     /* the publication or documentation it follows */
    const char *leaves_out; /* what it does not see */
    bool needs_graph;       /* false: counts of a job's layers are enough */
    bool learns;            /* pl_train takes it */
    bool has_weights;       /* false: learnt, and the library has no weights of it */
    bool slow;              /* training it takes long: not part of "all" where folds are trained */
} pl_estimator_info;

const char *pl_estimator_kind_name(pl_estimator_kind kind); /* "simulation", ...; NULL: none such */
const pl_estimator_info *pl_estimator_at(size_t index);     /* NULL past the end */
const pl_estimator_info *pl_estimator_find(const char *name);
const char *pl_estimator_name(size_t index);

/* What a learned estimator has learnt: a model file (docs/formats.md). One may be shared by
 * threads. */
typedef struct pl_weights pl_weights;

typedef struct pl_weights_info {
    const char *estimator, *target, *options, *command, *data;
    uint64_t seed;
    int64_t rows; /* jobs it learnt from */
} pl_weights_info;

pl_status pl_weights_open(pl_weights **out, const char *path, pl_error *err);
/* To a temporary name beside it first: nothing is lost where it fails. */
pl_status pl_weights_save(const pl_weights *weights, const char *path, pl_error *err);
const pl_weights_info *pl_weights_describe(const pl_weights *weights);
void pl_weights_close(pl_weights **weights);

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
    double l2_mib;         /* second-level cache, MiB; NAN: not known */
    const char *part_of;   /* of an instance of MIG: the name of its card; else NULL */
} pl_gpu;

const pl_gpu *pl_gpu_at(size_t index); /* NULL past the end */
/* By its name, or as nvidia-smi, PyTorch, Slurm and Kubernetes write it; NULL: unknown, or one of
 * several. */
const pl_gpu *pl_gpu_find(const char *name);

/* Cards of one's own: rows in the form of the library's table (docs/formats.md). Never calibrated,
 * whatever they say. One may be shared by threads. */
typedef struct pl_catalogue pl_catalogue;

/* PL_INPUT with the file and its line where a row is not as it should be. On failure *out is NULL. */
pl_status pl_catalogue_open(pl_catalogue **out, const char *path, pl_error *err);
/* The same from memory; the bytes are not kept. name: for messages. */
pl_status pl_catalogue_open_memory(pl_catalogue **out, const void *bytes, size_t size,
                                   const char *name, pl_error *err);
const pl_gpu *pl_catalogue_at(const pl_catalogue *catalogue, size_t index); /* NULL past the end */
void pl_catalogue_close(pl_catalogue **catalogue);

/* The card of a job's gpu, as a copy of one's own: a name, or one with another size of memory,
 * "a100-80gb,memory=40GiB". own: rows looked at before the library's, or NULL. PL_USAGE with the
 * nearest names where there is none. On failure *out is NULL. */
pl_status pl_gpu_open(pl_gpu **out, const char *text, const pl_catalogue *own, pl_error *err);
void pl_gpu_close(pl_gpu **gpu); /* of pl_gpu_open alone */
/* What a process can have of it: the driver keeps a little of capacity_bytes. An assumption. */
int64_t pl_gpu_usable(const pl_gpu *gpu);

/* ---- reports ---- */

/* Whether a job fits its card. Without an interval the peak alone decides, and the middle one is not
 * said. */
typedef enum pl_verdict {
    PL_FITS,         /* upper_bytes <= usable_bytes, and the simulated allocator does not run out */
    PL_MAY_NOT_FIT,  /* neither: what the card has lies within the interval */
    PL_DOES_NOT_FIT, /* low_bytes > usable_bytes */
} pl_verdict;

/* "fits", "may not fit", "does not fit"; NULL past the end. */
const char *pl_verdict_name(pl_verdict verdict);

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
} pl_kind;

const char *pl_kind_name(pl_kind kind); /* "weights", ... as in the JSON; NULL past the end */

typedef enum pl_phase {
    PL_PHASE_UNKNOWN = -1,
    PL_PHASE_LOAD,
    PL_PHASE_INPUT,
    PL_PHASE_FORWARD,
    PL_PHASE_BACKWARD,
    PL_PHASE_OPTIMIZER,
} pl_phase;

const char *pl_phase_name(pl_phase phase); /* NULL: not known, or past the end */

/* One instant of the simulated steps; bytes. */
typedef struct pl_moment {
    int64_t allocated, reserved;
    pl_phase phase;
    int step; /* from 0 */
    const char *operator_name, *module;
} pl_moment;

/* Of what is allocated at a moment, PL_WEIGHTS to PL_TEMPORARY; they add up to it. PL_UNKNOWN: a
 * kind that does not lie in the allocator. */
int64_t pl_moment_bytes(const pl_moment *moment, pl_kind kind);

/* One tensor's storage alive at the peak. */
typedef struct pl_alive {
    int64_t bytes;
    pl_kind kind;
    pl_phase born;
    const char *operator_name, *module, *tensor;
} pl_alive;

/* A prediction and where the truth lies in report->time_coverage of cases; NAN: not known. Three
 * numbers, now and later: it may be copied. */
typedef struct pl_figure {
    double value, low, high;
} pl_figure;

/* Shares of a step, in percent, as NVML and DCGM have them. */
typedef enum pl_counter {
    PL_SMACT,  /* multiprocessors with a warp on them */
    PL_SMOCC,  /* warps on them, of those they could hold */
    PL_DRAMA,  /* memory interface in use */
    PL_TENSOR, /* tensor cores in use */
} pl_counter;

/* "smact", ... as in the JSON; NULL past the end. */
const char *pl_counter_name(pl_counter counter);

/* Which of paper 3's bins are meant: they differ by family. */
typedef enum pl_family {
    PL_FAMILY_UNKNOWN = -1,
    PL_FAMILY_MLP,
    PL_FAMILY_CNN,
    PL_FAMILY_TRANSFORMER,
    PL_FAMILY_RNN,
} pl_family;

const char *pl_family_name(pl_family family); /* "mlp", "cnn", ...; NULL: not known */

typedef enum pl_level {
    PL_LEVEL_UNKNOWN = -1,
    PL_LEVEL_LOW,
    PL_LEVEL_MEDIUM,
    PL_LEVEL_HIGH
} pl_level;

const char *pl_level_name(pl_level level); /* "low", ...; NULL: not known */
/* The bin of a value in percent; unknown for NAN and for counters without bins (tensor). */
pl_level pl_level_of(pl_family family, pl_counter counter, double value);
/* The bin of a prediction: high already where a quarter of the way from its value to its high
 * reaches the edge, since a busy job taken for a quiet one costs more than the other way round. */
pl_level pl_level_predicted(pl_family family, pl_counter counter, const pl_figure *figure);

/* Part of a step: one operator of one module in one phase. */
typedef struct pl_time {
    const char *module, *operator_name; /* "" for what belongs to none */
    pl_phase phase;
    int64_t calls, launches; /* operators run; kernels */
    double device_ms;        /* kernels' time */
    double host_ms;          /* the host's, for issuing them */
    double flops, bytes;     /* computed; read and written */
} pl_time;

typedef struct pl_report {
    const pl_gpu *gpu;
    const char *estimator;
    /* Of what follows only peak_bytes is always known: the rest is PL_UNKNOWN, NAN or NULL where an
     * estimator does not say. */
    int64_t peak_bytes, low_bytes, high_bytes; /* what nvidia-smi shows for the process */
    double coverage;                           /* of [low, high] */
    int64_t allocated_bytes, reserved_bytes;   /* peaks of the allocator's two figures */
    int64_t overhead_bytes;                    /* context, kernels, handles */
    pl_phase peak_phase;
    /* Floating-point operations per step as PyTorch's FlopCounterMode counts them (products,
     * convolutions, attention), and per second. */
    double flops_per_step, flop_rate;
    double moved_bytes; /* read and written by kernels, per step */
    double launches;    /* kernels per step */
    pl_figure step_ms;
    double device_ms, host_ms; /* sum of the kernels' times; the host's for issuing them */
    double copy_ms;            /* of the batch to the card, which the step waits for */
    bool host_bound;           /* the step waits for the host more than for the card */
    double time_coverage;      /* of step_ms's and the counters' intervals */
    pl_family family;
    size_t time_count; /* pl_report_time; 0 unless asked for */
    int peak_step;
    const char *peak_operator, *peak_module;
    bool fits;          /* verdict is PL_FITS */
    bool out_of_memory; /* the simulated allocator runs out; figures as if the card were larger */
    int64_t retries;    /* times its cache was given back to the driver */
    int64_t batch, seq; /* as simulated; PL_UNKNOWN where not known */
    int64_t events;     /* allocations and frees simulated */
    int64_t elapsed_us; /* simulation alone, graph already read */
    const char *const *unknown_operators;
    size_t unknown_count;
    const char *const *warnings;
    size_t warning_count;
    size_t moment_count; /* pl_report_moment; 0 unless asked for */
    size_t alive_count;  /* pl_report_alive; 0 unless asked for */
    /* What the process holds at the most until the first step begins, and what the steps would take
     * without what loading left in the cache: below peak_bytes where loading is the peak. */
    int64_t load_peak_bytes, steps_peak_bytes;
    pl_verdict verdict;
    double risk;          /* as the job has it */
    int64_t upper_bytes;  /* more than this is taken with a chance of risk; at 0.025 high_bytes */
    int64_t usable_bytes; /* pl_gpu_usable, or what the job's alloc_conf lets it have of that */
    int64_t trainable;    /* parameters that train, adapters included */
    double host_speed, copy_gbps; /* the host's that the step is of */
    bool host_assumed;            /* one of them was not told of: the interval is of any host */
} pl_report;

/* What a job takes more than with a chance of risk (0.005 to 0.5): never less than peak_bytes, and no
 * less for a smaller risk. PL_UNKNOWN: no interval, or no such risk. */
int64_t pl_report_upper(const pl_report *report, double risk);
/* The chance that a job takes more than that many bytes, 0.005 (or less) to 0.995 (or more): of
 * usable_bytes, that of an out-of-memory. NAN: no interval. */
double pl_report_chance(const pl_report *report, int64_t bytes);

/* Bytes of a kind at the peak instant; they add up to peak_bytes. PL_UNKNOWN: not known. */
int64_t pl_report_bytes(const pl_report *report, pl_kind kind);
/* Floating-point operations per phase of a step, all of them: recurrent layers and elementwise work
 * too. NAN: not known. */
double pl_report_flops(const pl_report *report, pl_phase phase);
/* Percent. */
pl_figure pl_report_counter(const pl_report *report, pl_counter counter);
/* By index; NULL past the end. Parts of the step, longest first; instants of the simulation, in
 * order; storages alive at the peak, largest first. */
const pl_time *pl_report_time(const pl_report *report, size_t index);
const pl_moment *pl_report_moment(const pl_report *report, size_t index);
const pl_alive *pl_report_alive(const pl_report *report, size_t index);

/* One figure of all moments, for pictures and other languages. */
typedef enum pl_column {
    PL_COLUMN_ALLOCATED,
    PL_COLUMN_RESERVED,
    PL_COLUMN_PHASE,
    PL_COLUMN_STEP,
    PL_COLUMN_KIND = 16, /* PL_COLUMN_KIND + a pl_kind: as pl_moment_bytes */
} pl_column;

/* Writes the column of the first `room` moments. false: no such column, and nothing is written. */
bool pl_report_column(const pl_report *report, int column, int64_t *out, size_t room);

/* On failure *out is NULL. A job that does not fit is no failure: report->verdict says so. */
pl_status pl_estimate(pl_report **out, const pl_model *model, const pl_job *job, pl_error *err);
void pl_report_close(pl_report **report);

/* The report as one JSON object, schema 1 (README, docs/formats). Owned by the report. NULL: no
 * memory. */
const char *pl_report_json(pl_report *report, const pl_model *model);

/* ---- decisions ---- */

typedef struct pl_fit {
    size_t size;                 /* of this struct: PL_SIZED(pl_fit) */
    int64_t batch;               /* the largest that fits; 0: not even the smallest it may have */
    int64_t high_at, high_above; /* upper_bytes at batch and at batch + 1 */
    int64_t tried;               /* simulations made */
    int64_t found;               /* what was looked for, whatever it is; 0: nothing fits */
} pl_fit;

/* The largest batch up to `most` that fits job->gpu (PL_FITS, at job->risk); needs a model with a
 * symbolic batch. */
pl_status pl_fit_batch(pl_fit *out, const pl_model *model, const pl_job *job, int64_t most,
                       pl_error *err);

typedef enum pl_fit_what {
    PL_FIT_BATCH, /* the largest batch */
    PL_FIT_SEQ,   /* the longest sequence, at the job's batch */
    PL_FIT_WORLD, /* the fewest ranks of a sharded job (PL_FSDP2), at the job's batch per rank */
} pl_fit_what;

/* The same of another quantity, from 1 to `most`; needs a model in which it is open. Both the answer
 * and its neighbour that does not fit are simulated: high_at and high_above (of ranks: of one fewer).
 */
pl_status pl_fit_find(pl_fit *out, const pl_model *model, const pl_job *job, pl_fit_what what,
                      int64_t most, pl_error *err);
/* The card, of the job's own and the library's, with the least memory that the job fits, all smaller
 * ones simulated too; instances of MIG are left out. *out is NULL where it fits none. */
pl_status pl_fit_gpu(const pl_gpu **out, const pl_model *model, const pl_job *job, pl_error *err);

/* A change of a job, or several together, with which it fits. */
typedef struct pl_remedy {
    const struct pl_job *job;                                             /* as given, changed */
    int64_t peak_bytes, low_bytes, high_bytes, upper_bytes, usable_bytes; /* as of a report */
    pl_verdict verdict;
    pl_figure step_ms;
    /* Time per sample and token, over that of the job as given; NAN: not known. Of several ranks it
     * leaves out what they send each other: communicates. */
    double time_ratio;
    bool communicates;
    int weight; /* how much it changes: docs/c-api.md has the scale; the smallest come first */
} pl_remedy;

/* What changes, by index: the member of pl_job and its value as text ("checkpoint" "true", "batch"
 * "4", "parallel" "fsdp2:8", "train" "lora-r16"). NULL past the end. */
const char *pl_remedy_member(const pl_remedy *remedy, size_t index);
const char *pl_remedy_value(const pl_remedy *remedy, size_t index);

typedef struct pl_remedies {
    bool fits;    /* the job as given fits: nothing was looked for */
    size_t count; /* pl_remedies_at */
    /* Where none makes it fit: of all that was tried, the change that misses by the least bytes;
     * else NULL. */
    const pl_remedy *nearest;
    int64_t tried; /* simulations made */
    bool complete; /* false: `most` of them were not enough to try all */
} pl_remedies;

typedef struct pl_remedy_settings {
    size_t size;  /* of this struct; pl_remedy_settings_default sets it */
    int64_t most; /* default 256: simulations */
    /* Default NULL. Told after each simulation, from the thread that made the call. */
    void (*progress)(void *context, int64_t done, int64_t most);
    void *progress_context;
} pl_remedy_settings;

void pl_remedy_settings_default_sized(pl_remedy_settings *settings, size_t size);
static inline void pl_remedy_settings_default(pl_remedy_settings *settings) {
    pl_remedy_settings_default_sized(settings, sizeof *settings);
}

/* What makes a job fit: checkpointing, another form of its optimizer, another precision, a smaller
 * batch with as many more backward passes, adapters, a shorter sequence, sharding, another card; one
 * of them, or several where fewer do not suffice. Each of the answer was simulated and fits; those
 * that do more than another of them are left out. settings: NULL for defaults. The job's limits hold
 * for all of it. On failure *out is NULL. */
pl_status pl_remedies_find(pl_remedies **out, const pl_model *model, const pl_job *job,
                           const pl_remedy_settings *settings, pl_error *err);
const pl_remedy *pl_remedies_at(const pl_remedies *remedies, size_t index); /* NULL past the end */
void pl_remedies_close(pl_remedies **remedies);

/* How two processes share a card. */
typedef enum pl_sharing {
    PL_SLICES, /* the driver's default: one process after the other, in time slices */
    PL_MPS,    /* NVIDIA's multi-process service: kernels of both at once */
} pl_sharing;

const char *pl_sharing_name(pl_sharing sharing); /* "slices", "mps"; NULL past the end */
bool pl_sharing_parse(const char *name, pl_sharing *out);

/* What collocation must know of a job: of a report, or of one written with `estimate --json`. NAN
 * and PL_UNKNOWN: not known. */
typedef struct pl_demand {
    size_t size; /* of this struct: PL_SIZED(pl_demand) */
    char name[128], gpu[64];
    int64_t peak_bytes, high_bytes;
    double step_ms, device_ms, host_ms, launches;
    double smact, smocc, drama, tensor; /* percent */
    bool calibrated;                    /* false: of a card that was not measured */
    int64_t low_bytes, upper_bytes;     /* PL_UNKNOWN: taken for high_bytes, else peak_bytes */
} pl_demand;

/* false: out->size is not set. */
bool pl_demand_of(pl_demand *out, const pl_report *report, const pl_model *model);
/* The JSON of an estimate. PL_INPUT: no such thing, or a key is missing (err: file, place). */
pl_status pl_demand_open(pl_demand *out, const char *path, pl_error *err);

typedef struct pl_pair {
    size_t size; /* of this struct: PL_SIZED(pl_pair) */
    pl_sharing sharing;
    int64_t needed_bytes, usable_bytes; /* both upper_bytes, contexts counted twice */
    bool fits;                          /* verdict is PL_FITS */
    pl_figure slowdown[2];              /* step time together over step time alone */
    double coverage;                    /* of the slowdowns' intervals */
    /* Work done per second together, over one after the other: the sum of both 1 / slowdown. 1: as
     * good, 2: as if each had the card to itself. */
    pl_figure gain;
    bool worth_it;      /* fits, gain.value is above 1.05 and gain.low above 1 */
    const char *advice; /* one plain sentence; static */
    bool calibrated;
    pl_verdict verdict; /* as of a job, of the sums of both ends */
} pl_pair;

/* Demands on the same card; PL_USAGE where they are not, PL_INPUT where one lacks its times. */
pl_status pl_collocate(pl_pair *out, const pl_demand *a, const pl_demand *b, const pl_gpu *gpu,
                       pl_sharing sharing, pl_error *err);

/* ---- many cards ---- */

/* Cards and what runs on them: a file of docs/formats.md. Used by one thread at a time. */
typedef struct pl_cluster pl_cluster;

/* own: cards of one's own that it may name, or NULL; kept by pointer. On failure *out is NULL. */
pl_status pl_cluster_open(pl_cluster **out, const char *path, const pl_catalogue *own,
                          pl_error *err);
pl_status pl_cluster_open_memory(pl_cluster **out, const void *bytes, size_t size, const char *name,
                                 const pl_catalogue *own, pl_error *err);
void pl_cluster_close(pl_cluster **cluster);
size_t pl_cluster_count(const pl_cluster *cluster);                   /* of cards */
const char *pl_cluster_name(const pl_cluster *cluster, size_t card);  /* NULL past the end */
const pl_gpu *pl_cluster_gpu(const pl_cluster *cluster, size_t card); /* likewise */
size_t pl_cluster_jobs(const pl_cluster *cluster, size_t card);       /* that run on it */
/* The job runs on that card from now on. */
pl_status pl_cluster_add(pl_cluster *cluster, size_t card, const pl_demand *job, pl_error *err);
/* The card's job of that name, the first of several, has ended. PL_USAGE: there is none. */
pl_status pl_cluster_remove(pl_cluster *cluster, size_t card, const char *name, pl_error *err);

typedef enum pl_policy {
    PL_EXCLUSIVE,    /* empty cards alone, the one with the least memory that the job fits first */
    PL_PACK,         /* the card that has the least left with it */
    PL_SPREAD,       /* the card with the fewest jobs, of these the one that has the most left */
    PL_INTERFERENCE, /* the card where the most work is done a second with it */
} pl_policy;

const char *pl_policy_name(pl_policy policy); /* "exclusive", ...; NULL past the end */
bool pl_policy_parse(const char *name, pl_policy *out);

typedef struct pl_place_settings {
    size_t size;          /* of this struct; pl_place_settings_default sets it */
    pl_policy policy;     /* default PL_PACK */
    double risk;          /* default 0.01: the chance of an out-of-memory on a card, 1e-6 to 0.5 */
    double most_slowdown; /* default INFINITY: of any job on a card, step time over alone */
    int64_t most_jobs;    /* default 0: any number of jobs on a card */
    const pl_limits *limits; /* default NULL: pl_limits_default's. Of one placement */
} pl_place_settings;

void pl_place_settings_default_sized(pl_place_settings *settings, size_t size);
static inline void pl_place_settings_default(pl_place_settings *settings) {
    pl_place_settings_default_sized(settings, sizeof *settings);
}

/* A card, with the job on it. NAN: not known. */
typedef struct pl_place_option {
    size_t card;
    bool possible;          /* the settings allow it */
    int64_t expected_bytes; /* the peaks of all jobs, the new one included, contexts too */
    int64_t usable_bytes;   /* the card's, less what it is to keep free */
    /* That the sum of what they take is more than that: their intervals convolved, errors of jobs of
     * the same name taken to be the same and those of others to have nothing to do with each other. */
    double risk;
    pl_figure slowdown;    /* of the new job */
    double worst_slowdown; /* of any job on the card */
    double gain;           /* work done a second more than without it, its own alone being 1 */
    int64_t jobs;          /* on it already */
    bool calibrated;    /* false: the card, or sharing it among more than two, was not measured */
    const char *reason; /* why not, or what speaks for it: one plain sentence */
} pl_place_option;

typedef struct pl_placement pl_placement;

/* Where a job may go: an option per card, those that are possible first, the best first. jobs: the same
 * job as estimated for each kind of card that it might go to (pl_demand.gpu); a card of another kind is
 * not possible. settings: NULL for defaults. On failure *out is NULL. */
pl_status pl_place(pl_placement **out, const pl_cluster *cluster, const pl_demand *jobs,
                   size_t count, const pl_place_settings *settings, pl_error *err);
const pl_place_option *pl_placement_at(const pl_placement *placement,
                                       size_t index); /* NULL past the end */
void pl_placement_close(pl_placement **placement);

/* ---- a cluster's day ---- */

/* When jobs came, how long they ran alone and on how many cards: CSV of Philly, of Muri or plimsoll's own, told by
 * its head (docs/formats.md). */
typedef struct pl_arrivals pl_arrivals;
pl_status pl_arrivals_open(pl_arrivals **out, const char *path, pl_error *err);
pl_status pl_arrivals_open_memory(pl_arrivals **out, const void *bytes, size_t size,
                                  const char *name, pl_error *err);
void pl_arrivals_close(pl_arrivals **arrivals);
size_t pl_arrivals_count(const pl_arrivals *arrivals);       /* of jobs */
const char *pl_arrivals_format(const pl_arrivals *arrivals); /* "philly", "muri", "plimsoll" */

/* Kinds of jobs: what they took where that was measured, what estimators say of them, how busy they keep a card: JSON
 * lines (docs/formats.md). Used by one thread at a time. */
typedef struct pl_sizes pl_sizes;
pl_status pl_sizes_open(pl_sizes **out, const char *path, pl_error *err);
pl_status pl_sizes_open_memory(pl_sizes **out, const void *bytes, size_t size, const char *name,
                               pl_error *err);
void pl_sizes_close(pl_sizes **sizes);
size_t pl_sizes_count(const pl_sizes *sizes);                        /* of kinds */
const char *pl_sizes_estimator(const pl_sizes *sizes, size_t index); /* NULL past the end */

typedef struct pl_day_settings {
    size_t size;          /* of this struct; pl_day_settings_default sets it */
    uint64_t seed;        /* default 1 */
    double risk;          /* default 0.01: as in pl_place_settings, of estimates with an interval */
    double most_slowdown; /* default INFINITY: likewise, whatever the policy */
    int64_t most_jobs;    /* default 0: any number of jobs on a card */
    int64_t backfill;  /* default 32: jobs that wait and are tried, the first ones of the queue */
    double patience_s; /* default 21600: who has waited so long is overtaken by none */
    double
        peak_s; /* default 60: from a job's start until it has taken all its memory, half its run at most */
    int64_t crashes; /* default 2: after so many a job gets cards of its own */
    /* What users ask for: with these chances a whole card, or the power of two GiB below what the job takes; else
     * what it takes times guess_spare, rounded up to a power of two GiB. Defaults 0.3, 0.1, 1.2. */
    double guess_whole, guess_low, guess_spare;
    const pl_limits *
        limits; /* default NULL: pl_limits_default's; deadline_ns, timeout_ms and cancelled count */
} pl_day_settings;

void pl_day_settings_default_sized(pl_day_settings *settings, size_t size);
static inline void pl_day_settings_default(pl_day_settings *settings) {
    pl_day_settings_default_sized(settings, sizeof *settings);
}

/* What became of the jobs under one policy. Seconds, GPU-hours, shares; NAN: not known. */
typedef struct pl_day_outcome {
    const char *policy;
    bool intervals;     /* it goes by the risk of intervals; else by single figures */
    int64_t jobs;       /* of the trace */
    int64_t impossible; /* not run: larger than any card, or more cards than there are */
    int64_t finished;
    int64_t drawn; /* whose memory was not measured, and was drawn from an estimate's interval */
    int64_t placements;   /* times that a job was put on its cards */
    int64_t shared;       /* of these, beside another job on one of them */
    int64_t crashes;      /* of these, ended by an out-of-memory */
    int64_t crashed_jobs; /* with at least one */
    int64_t
        alone; /* jobs run on cards of their own, since the estimate has them fit none or after crashes */
    int64_t
        unknown_pairs; /* slowdowns of jobs without times, taken to be those of two that fill the card */
    double work_hours;   /* GPU-hours of finished jobs, as long as they take alone */
    double lost_hours;   /* from the start of each that crashed to its end */
    double slowed_hours; /* what sharing added */
    double held_hours;   /* all three */
    double card_hours;   /* cards with at least one job on them */
    double makespan_s;   /* from the first job's coming to the last one's end */
    double wait_mean_s, wait_p50_s, wait_p95_s; /* in the queue, all times of a job */
    double turnaround_mean_s, turnaround_p50_s, turnaround_p95_s; /* from coming to end */
    double slowdown_mean, slowdown_p95; /* of jobs' last runs, over alone */
    double cards_used, memory_used,
        sm_used; /* shares of all cards', over the makespan; SM: of jobs with SMACT known */
    int64_t most_held_bytes; /* on a card at once, by jobs that go on */
    int64_t most_over_bytes; /* of these more than the card has for them: never above 0 */
    int64_t elapsed_us;
} pl_day_outcome;

/* A stretch of time: shares of all cards, jobs that waited, in the mean. */
typedef struct pl_day_point {
    double from_s, to_s;
    double cards_used, memory_used, sm_used, waiting;
} pl_day_point;

typedef struct pl_day pl_day;

/* The trace's jobs on the cluster's cards, one policy: "exclusive" (whole cards), "requested" (what users ask for),
 * "oracle" (what jobs take), or an estimator that the sizes have; all but the first put a job on the card that has
 * the least left with it (PL_PACK). A job is the kind that the trace names, else one drawn, by the seed alone. The
 * cluster's cards must be empty. settings: NULL for defaults. On failure *out is NULL. */
pl_status pl_day_open(pl_day **out, const pl_cluster *cluster, const pl_arrivals *arrivals,
                      pl_sizes *sizes, const char *policy, const pl_day_settings *settings,
                      pl_error *err);
void pl_day_close(pl_day **day);
const pl_day_outcome *pl_day_describe(const pl_day *day);
const pl_day_point *pl_day_at(const pl_day *day,
                              size_t index); /* in time's order; NULL past the end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
