/* options: see options.h. The syntax is the one GNU programs share: --name VALUE, --name=VALUE, -n
 * VALUE, -nVALUE, options and operand in any order, -- ends the options. Left out: abbreviated
 * names, which break scripts when an option is added, and several letters behind one dash. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/clock.h"
#include "core/nearest.h"
#include "core/number.h"
#include "text.h"

#define IN(v)     (1u << VERB_##v)
#define MODEL     (IN(ESTIMATE) | IN(EXPLAIN) | IN(CHECK) | IN(FIT) | IN(COLLOCATE) | IN(PLACE))
#define READ      (MODEL | IN(CONVERT))
#define ALL_VERBS ((1u << VERBS) - 1)
#define PLACE(f)  offsetof(request, f)

const verb_row verb_table[VERBS] = {
    [VERB_ESTIMATE] =
        {"estimate", "FILE", 1, 1, "memory, time and use of a GPU that training a model takes",
         "Simulates three training steps of the model in FILE and prints the peak that "
         "nvidia-smi would show, its interval, what it is made of, and whether it fits; how long a "
         "step takes, and how busy the card is meanwhile. FILE is a "
         ".pt2 archive of torch.export.save or the model.json inside one, a Hugging Face "
         "config.json, an ONNX model, a layer spec in YAML or JSON, the text of torchsummary or "
         "torchinfo (for estimators that need only counts), or a trace or graph that plimsoll "
         "wrote; its content decides which of them; or a folder with one of them, or - for standard "
         "input. With several batches or sequence lengths a "
         "table is printed. Dynamic dimensions other than batch and sequence length are taken at "
         "the size they were exported with.",
         NULL},
    [VERB_EXPLAIN] =
        {"explain", "FILE", 1, 1,
         "what is alive at the peak, what would change it; where time goes",
         "Prints what is alive at the peak by module and by kind, the largest tensors, and "
         "what checkpointing, another optimizer, another precision or another batch would "
         "change, each of them simulated. Where the job does not fit: what makes it fit, one change "
         "or several together, the smallest first, with what a step then takes. With --time: where a step's time goes, by phase, module "
         "and operator.",
         NULL},
    [VERB_CHECK] =
        {"check", "FILE", 1, 1,
         "a gate: exit code 0 when the job fits, 11 when it may not, 10 when it does not",
         "Prints one line. The job fits when the upper end of its interval does not exceed what a "
         "process can have of the card; it does not fit when the lower end does; else it may not "
         "fit. --risk moves the upper end.",
         NULL},
    [VERB_FIT] =
        {"fit", "FILE", 1, 1,
         "the largest batch for a GPU, the longest sequence, the fewest GPUs, the smallest card",
         "Finds the largest batch that fits the card (the model has to be exported with a "
         "dynamic batch), verified at the answer and one above it; then simulates the job as "
         "given on every card of the catalogue, and names the smallest that it fits. A ? in place "
         "of a value asks for that instead: --seq '?' for the longest sequence, --parallel "
         "'fsdp2:?' for the fewest GPUs, --gpu '?' for the smallest card alone.",
         NULL},
    [VERB_COLLOCATE] =
        {"collocate", "A B", 2, 2, "two jobs on one GPU: do they fit, how much slower is each",
         "Tells whether two jobs fit one card together, how much slower each of them gets, and "
         "whether running them together does more work than one after the other. A and B are what "
         "estimate --json has printed, or models as estimate takes them; models are estimated "
         "first, both with the options given. Exit code 10 where they do not fit together, 11 where they "
         "may not.",
         NULL},
    [VERB_PLACE] =
        {"place", "JOB", 1, MOST_FILES, "jobs onto the cards of a cluster, and why not elsewhere",
         "Finds a card for each JOB in turn: those of --cluster where all that runs there and the job "
         "fit together with no more than the accepted chance of an out-of-memory, ranked by --policy, "
         "with how much slower each job gets; and the reason for every card that is refused. A JOB is "
         "what estimate --json has printed, or a model as estimate takes it, which is then estimated "
         "for each kind of card. Exit code 10 where one of them fits no card.",
         NULL},
    [VERB_SIMULATE] =
        {"simulate", NULL, 0, 0, "a cluster's day under several policies of sharing cards",
         "Lets the jobs of --trace come to the cards of --cluster, event by event, once for each policy: "
         "out-of-memory crashes, GPU-hours lost, waiting, makespan, memory and multiprocessors in use, "
         "slowdowns. A policy is exclusive (whole cards), requested (packed by what users ask for), oracle "
         "(packed by what jobs take), or an estimator that --sizes has estimates of. What each job takes is "
         "measured, or drawn from an estimate's interval; slowdowns are those that collocate predicts.",
         NULL},
    [VERB_CONVERT] =
        {"convert", "FILE", 1, 1, "any model file as plimsoll's own graph, in JSON",
         "Reads FILE as estimate does and writes the graph that was understood: modules, tensors "
         "and operators in the order they run. Every verb reads it again.",
         NULL},
#if PLIMSOLL_LAB
    [VERB_EVALUATE] =
        {"evaluate", "JOBS", 1, MOST_FILES, "estimators against measured jobs",
         "Runs every job of JOBS (JSON lines or GPUMemNet's CSV, plain or .xz) through one or "
         "several estimators and compares with what was measured. The graph of a job is ID.pt2 or "
         "ID.json in a folder of --graphs. With --split, an estimator that learns is trained "
         "anew for each fold, on the jobs that are not in it.",
         NULL},
    [VERB_TRAIN] =
        {"train", "NAME", 1, 1, "train a learned estimator on measured jobs",
         "Trains the estimator NAME on the jobs of --jobs and writes what it learnt to --out, for "
         "--model. The same command and data give the same file, byte for byte.",
         learner_name},
#endif
    [VERB_ESTIMATORS] =
        {"estimators", "NAME", 0, 1, "the estimators, or all about one of them",
         "Lists the estimators that --estimator knows: what they are, and whether they have to be "
         "trained first. With NAME: where it comes from and what it does not see.",
         pl_estimator_name},
    [VERB_GPUS] =
        {"gpus", NULL, 0, 0, "the catalogue of GPUs",
         "Lists the cards that --gpu knows: memory as nvidia-smi reports it, compute "
         "capability, multiprocessors, bandwidth, peak rates, and whether they were measured.",
         NULL},
    [VERB_WATCH] =
        {"watch", NULL, 0, 0,
         "the cards here and what runs on them; a command's peak as it really was",
         "Shows every card and every process on it at an interval: memory, activity, power. On a "
         "terminal a table, else lines; --json, --prometheus and --post are for programs. Behind -- "
         "a command: its processes are followed, its output is its own, its exit code is returned, "
         "and at its end the peak that it had is told on standard error, beside what was predicted. "
         "Needs the driver of an NVIDIA card, and nothing of it to build. docs/watch.md says more.",
         NULL},
    [VERB_SERVE] =
        {"serve", NULL, 0, 0, "the daemon: the same answers over HTTP, and a history of jobs",
         "Starts the daemon, which answers POST /v1/estimate and its like on 127.0.0.1:9477 and keeps a "
         "history of jobs where it is given a folder. Its settings are --config FILE, --listen, "
         "--socket, --data, --tokens and others that plimsoll serve --help lists; docs/serve.md says "
         "more.",
         NULL},
    [VERB_HISTORY] =
        {"history", NULL, 0, 0,
         "what a daemon has seen: predicted against real, and what it learnt",
         "Reads the folder that plimsoll serve --data keeps: how far real peaks lay from the predicted, "
         "by kind of card, before and after what was learnt of it; the drift; the worst. "
         "plimsoll history --help lists its options.",
         NULL},
};

const char *gpu_name(size_t index) {
    const pl_gpu *gpu = pl_gpu_at(index);
    return gpu ? gpu->name : NULL;
}

const char *learner_name(size_t index) {
    const pl_estimator_info *info;
    for (size_t i = 0; (info = pl_estimator_at(i)); i++)
        if (info->learns && index-- == 0) return info->name;
    return NULL;
}

const char *evaluated_name(size_t index) {
    size_t count = 0;
    while (pl_estimator_name(count)) count++;
    return index == count ? "all" : index < count ? pl_estimator_name(index) : NULL;
}

const char *split_name(size_t index) {
    static const char *const names[] = {"none", "row", "model", "family", "kin"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

const char *trained_split_name(size_t index) {
    return split_name(index + 1);
}

const char *target_name(size_t index) {
    static const char *const names[] = {"memory", "flops", "flop-rate", "step_ms",
                                        "smact",  "smocc", "drama",     "tensor"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

const char *load_name(size_t index) {
    return pl_load_name(index + 1);
}

const char *sharing_name(size_t index) {
    return pl_sharing_name((pl_sharing)index);
}

const char *policy_name(size_t index) {
    return pl_policy_name((pl_policy)index);
}

/* In the order they are shown. */
const option_row option_table[] = {
    {IN(ESTIMATE), "batch", 'b', "N[,N]", OPTION_NUMBERS, PLACE(batches), NULL,
     "as the file has it",
     "samples per step; of exported models, where the batch is dynamic. Several make a table: "
     "1,2,4 or 1..64 (doubling) or 8..32:8 (in steps)"},
    {READ & ~IN(ESTIMATE) & ~IN(FIT), "batch", 'b', "N", OPTION_COUNT, PLACE(job.batch), NULL,
     "as the file has it", "samples per step; of exported models, where the batch is dynamic"},
    {IN(FIT), "batch", 'b', "N|?", OPTION_COUNT, PLACE(job.batch), NULL, "as the file has it",
     "samples per step; of exported models, where the batch is dynamic. ?: the largest that fits"},
    {IN(ESTIMATE), "seq", 's', "N[,N]", OPTION_NUMBERS, PLACE(seqs), NULL, "as the file has it",
     "sequence length; of exported models, where it is dynamic. Several as with --batch"},
    {READ & ~IN(ESTIMATE) & ~IN(FIT), "seq", 's', "N", OPTION_COUNT, PLACE(job.seq), NULL,
     "as the file has it", "sequence length; of exported models, where it is dynamic"},
    {IN(FIT), "seq", 's', "N|?", OPTION_COUNT, PLACE(job.seq), NULL, "as the file has it",
     "sequence length; of exported models, where it is dynamic. ?: the longest that fits"},
    {READ, "task", 0, "T", OPTION_TASK, PLACE(settings.task), pl_task_name, "as the config says",
     "what a Hugging Face model is trained to do: its head and loss; image-text:WIDTHxHEIGHT: the "
     "size of its pictures, of models that take any"},
    {READ, "attention", 0, "A", OPTION_NAME, PLACE(settings.attention), pl_attention_name,
     "as the config says, else sdpa", "a Hugging Face model's attention implementation"},
    {MODEL, "precision", 'p', "P", OPTION_PRECISION, PLACE(job.precision), pl_precision_name,
     "as exported",
     "type of weights and arithmetic; amp- is autocast over fp32 weights. Names of PyTorch (bfloat16) "
     "and Lightning (16-mixed) are known too"},
    {MODEL, "optimizer", 'o', "O", OPTION_OPTIMIZER, PLACE(job.optimizer), pl_optimizer_name,
     "adamw",
     "one of torch.optim's optimizers, or lion, with its defaults; none: no training. Hugging Face's "
     "names (adamw_torch_fused) are known too"},
    {MODEL, "loss", 'l', "L", OPTION_LOSS, PLACE(job.loss), pl_loss_name, "auto",
     "loss put on the model's output; own: the model returns it; auto: own for a scalar, else ce"},
    {READ, "train", 0, "T", OPTION_TEXT, PLACE(job.train), NULL, "as exported",
     "what is trained: all, head, or adapters of rank N: lora-rN[:MODULES], with 4-bit weights "
     "qlora-rN[:MODULES]; MODULES are names with commas, or all-linear"},
    {MODEL, "checkpoint", 'c', NULL, OPTION_SWITCH, PLACE(job.checkpoint), NULL, NULL,
     "activation checkpointing of the repeated blocks"},
    {MODEL, "accumulate", 'a', "N", OPTION_PASSES, PLACE(job.accumulate), NULL, "1",
     "backward passes before each optimizer step, 1 to 4096"},
    {MODEL, "channels-last", 0, NULL, OPTION_SWITCH, PLACE(job.channels_last), NULL, NULL,
     "model and images in channels_last memory format"},
    {MODEL, "cudnn-benchmark", 0, NULL, OPTION_SWITCH, PLACE(job.cudnn_benchmark), NULL, NULL,
     "torch.backends.cudnn.benchmark is on"},
    {MODEL, "alloc-conf", 0, "S", OPTION_TEXT, PLACE(job.alloc_conf), NULL, NULL,
     "PYTORCH_CUDA_ALLOC_CONF of the job"},
    {IN(FIT), "parallel", 0, "KIND:N", OPTION_PARALLEL, 0, NULL, NULL,
     "one rank of N: ddp:N, or fsdp2:N[:STAGE[:mp]] with stage 2 or 3, mp for bf16 parameters; "
     "fsdp2:?: the fewest that fit"},
    {MODEL & ~IN(FIT), "parallel", 0, "KIND:N", OPTION_PARALLEL, 0, NULL, NULL,
     "one rank of N: ddp:N, or fsdp2:N[:STAGE[:mp]] with stage 2 or 3, mp for bf16 parameters"},
    {MODEL, "load", 0, "HOW", OPTION_LOAD, PLACE(job.load), load_name,
     "sharded with fsdp2, else full",
     "how the model comes to the card: full, whole; sharded, with fsdp2 alone: from the CPU or the "
     "meta device, a block at a time"},
    {(MODEL & ~IN(COLLOCATE) & ~IN(PLACE)) | IN(EVALUATE) | IN(TRAIN), "gpu", 'g', "G", OPTION_GPU,
     PLACE(job.gpu), gpu_name, "h200",
     "the card; plimsoll gpus lists them, and names as nvidia-smi prints them are known too. "
     "NAME,memory=40GiB: one with another size of memory"},
    {IN(COLLOCATE), "gpu", 'g', "G", OPTION_GPU, PLACE(job.gpu), gpu_name,
     "as the estimates have it, else h200", "the card, as in estimate"},
    {MODEL | IN(GPUS) | IN(SIMULATE), "gpus", 0, "FILE", OPTION_FILE, PLACE(gpus), NULL, NULL,
     "cards of one's own, for --gpu: rows as those of src/device/gpus.tsv"},
    {IN(COLLOCATE), "sharing", 0, "HOW", OPTION_SHARING, PLACE(sharing), sharing_name, "slices",
     "how the processes share the card: the driver's time slices, or NVIDIA's multi-process "
     "service"},
    {IN(PLACE) | IN(SIMULATE), "cluster", 0, "FILE", OPTION_FILE, PLACE(cluster), NULL, NULL,
     "the cards and what runs on them, JSON (needed)"},
    {IN(SIMULATE), "trace", 0, "FILE", OPTION_FILE, PLACE(trace), NULL, NULL,
     "when jobs came, how long they ran, on how many cards (needed): CSV of plimsoll's own, of Philly or "
     "of Muri, plain or .xz"},
    {IN(SIMULATE), "sizes", 0, "FILE", OPTION_FILE, PLACE(sizes), NULL, NULL,
     "kinds of jobs, with what they took and what estimators say of them (needed): JSON lines of evaluate "
     "--sizes or of estimate --json, plain or .xz"},
    {IN(SIMULATE), "policy", 0, "P[,P]", OPTION_TEXT, PLACE(policy), NULL,
     "exclusive, requested, all estimators of --sizes, oracle", "the policies, a column each"},
    {IN(PLACE), "policy", 0, "P", OPTION_NAME, PLACE(policy), policy_name, "pack",
     "exclusive: empty cards alone; pack: the fullest that it fits; spread: the emptiest; "
     "interference: where the most work is done a second"},
    {IN(PLACE) | IN(SIMULATE), "max-slowdown", 0, "X", OPTION_RATE, PLACE(most_slowdown), NULL,
     NULL, "how many times longer a step of any job on a card may take"},
    {IN(PLACE) | IN(SIMULATE), "max-jobs", 0, "N", OPTION_COUNT, PLACE(most), NULL, "any number",
     "jobs on one card"},
    {IN(PLACE) | IN(SIMULATE), "risk", 0, "P", OPTION_RISK, PLACE(place_risk), NULL, "1",
     "chance of an out-of-memory on a card that is accepted, in percent, 0.5 to 50"},
    {IN(SIMULATE), "guess", 0, "PAIRS", OPTION_TEXT, PLACE(guess), NULL,
     "whole=0.3,low=0.1,spare=1.2",
     "what users ask for: with these chances a whole card, or a power of two GiB that is too little; "
     "else what the job takes times spare, rounded up to a power of two GiB"},
    {IN(SIMULATE), "peak-after", 0, "TIME", OPTION_TIME, PLACE(peak_ms), NULL, "60s",
     "how long after its start a job has taken all its memory; half of its run at most"},
    {IN(SIMULATE), "crashes", 0, "N", OPTION_COUNT, PLACE(crashes), NULL, "2",
     "out-of-memory crashes after which a job gets cards of its own"},
    {IN(SIMULATE), "backfill", 0, "N", OPTION_COUNT, PLACE(backfill), NULL, "32",
     "jobs of the queue that are tried, in its order"},
    {IN(SIMULATE), "patience", 0, "TIME", OPTION_TIME, PLACE(patience_ms), NULL, "360min",
     "a job that has waited so long is overtaken by none"},
    {IN(SIMULATE), "chart", 0, "FILE", OPTION_FILE, PLACE(chart), NULL, NULL,
     "write a picture of the policies side by side, and over time, to FILE (.svg)"},
    {MODEL & ~IN(PLACE), "risk", 0, "P", OPTION_RISK, PLACE(job.risk), NULL, "2.5",
     "chance of an out-of-memory that is accepted, in percent, 0.5 to 50: a job fits when it takes "
     "more than the card has with no greater chance"},
    {MODEL & ~IN(CHECK) & ~IN(FIT), "host-speed", 0, "X", OPTION_RATE, PLACE(job.host_speed), NULL,
     NULL,
     "the host's speed, that of the ground truth's being 1; 0.1 to 10 (default: as hosts usually "
     "are, 0.86; the interval is of any)"},
    {MODEL & ~IN(CHECK) & ~IN(FIT), "copy-gbps", 0, "X", OPTION_RATE, PLACE(job.copy_gbps), NULL,
     NULL,
     "copies of the batch to the card, in GB/s, while the step waits: 0.1 to 1000 (default: as hosts "
     "usually have it, 6.4); inf: it is there when the step begins (pinned memory, fetched ahead)"},
    {MODEL, "estimator", 'e', "E", OPTION_NAME, PLACE(estimator), pl_estimator_name, NULL,
     "how the figures are found; plimsoll estimators lists them"},
    {IN(EVALUATE), "estimator", 'e', "E[,E]", OPTION_NAMES, PLACE(estimator), evaluated_name, NULL,
     "what is evaluated: a name, several with commas, or all (those slow to train left out "
     "where they would be trained)"},
    {MODEL | IN(EVALUATE), "model", 'M', "FILE", OPTION_FILE, PLACE(model), NULL, NULL,
     PLIMSOLL_LAB
         ? "what plimsoll train has written; its estimator is used where --estimator names "
           "none"
         : "weights of hybrid, from plimsoll train of a build with the laboratory; its "
           "estimator is used where --estimator names none"},
    {IN(ESTIMATE) | IN(EXPLAIN), "timeline", 't', "FILE", OPTION_FILE, PLACE(timeline), NULL, NULL,
     "write the memory of the three steps to FILE, a picture (.svg) or numbers (.csv)"},
    {IN(EXPLAIN), "snapshot", 0, "FILE", OPTION_FILE, PLACE(job.snapshot), NULL, NULL,
     "write the three steps to FILE as PyTorch's memory snapshot, which torch.cuda._memory_viz and "
     "the memory viewer open"},
    {IN(EXPLAIN), "time", 'T', NULL, OPTION_SWITCH, PLACE(time), NULL, NULL,
     "where a step's time goes, in place of what is alive at the peak"},
    {IN(EXPLAIN), "times", 0, "FILE", OPTION_FILE, PLACE(times), NULL, NULL,
     "write where a step's time goes to FILE, a picture (.svg) or numbers (.csv)"},
    {IN(ESTIMATE), "heatmap", 0, "FILE", OPTION_FILE, PLACE(heatmap), NULL, NULL,
     "write a picture of the table of several batches or sequence lengths to FILE (.svg)"},
    {IN(FIT), "most", 'm', "N", OPTION_COUNT, PLACE(most), NULL,
     "65536; of sequences 1048576, of GPUs 1024", "the most to try of what is looked for"},
    {IN(TRAIN), "jobs", 'J', "FILE", OPTION_FILES, PLACE(jobs), NULL, NULL,
     "measured jobs to learn from (needed); may be given several times"},
    {IN(EVALUATE) | IN(TRAIN), "graphs", 'G', "DIR", OPTION_FOLDERS, PLACE(graphs), NULL, NULL,
     "folder of the jobs' graphs; without it, only estimators that need none. May be given several "
     "times"},
    {IN(EVALUATE) | IN(TRAIN), "described", 0, NULL, OPTION_SWITCH, PLACE(described), NULL, NULL,
     "models as the jobs' own records describe them (a Hugging Face config, a layer spec), not as "
     "graphs; with --graphs too, those are for jobs without such"},
    {IN(TRAIN), "out", 'o', "FILE", OPTION_FILE, PLACE(out), NULL, NULL,
     "where to write what was learnt (needed)"},
    {IN(CONVERT), "out", 'o', "FILE", OPTION_FILE, PLACE(out), NULL, "standard output",
     "where to write the graph"},
    {IN(EVALUATE), "split", 'S', "BY", OPTION_SPLIT, PLACE(split), split_name, "none",
     "train anew and predict what was left out: rows, whole models, whole families, or kin: "
     "architectures that share their blocks"},
    {IN(TRAIN), "split", 'S', "BY", OPTION_SPLIT, PLACE(split), trained_split_name, "model",
     "how the jobs held out are chosen: by row, whole models, a whole family, or kin: "
     "architectures that share their blocks"},
    {IN(EVALUATE), "folds", 0, "N", OPTION_FOLDS, PLACE(folds), NULL, "5",
     "parts that --split makes; by family there are as many as families"},
    {IN(TRAIN), "hold-out", 0, "SHARE", OPTION_SHARE, PLACE(hold_out), NULL,
     "the estimator's publication's, else 0.15",
     "share of the jobs kept apart to tell when to stop; 0: none"},
    {IN(TRAIN), "target", 0, "T", OPTION_NAME, PLACE(target), target_name,
     "all that it can learn of the jobs", "what is learnt"},
    {IN(EVALUATE), "target", 0, "T[,T]", OPTION_NAMES, PLACE(target), target_name, "memory",
     "what is predicted, several with commas: flops are those of a step, flop-rate those of a "
     "second, smact to tensor the card's counters"},
    {IN(EVALUATE) | IN(TRAIN), "seed", 0, "N", OPTION_SEED, PLACE(seed), NULL, "1",
     "of folds and training"},
    {IN(SIMULATE), "seed", 0, "N", OPTION_SEED, PLACE(seed), NULL, "1",
     "of which kind each job is, what it takes where that was not measured, and what its user asks for"},
    {IN(EVALUATE) | IN(TRAIN), "bin", 0, "MIB", OPTION_BIN, PLACE(bin), NULL,
     "as the jobs' publication has them",
     "width of the bins that classifiers put memory into; evaluate shows the bins then"},
    {IN(EVALUATE) | IN(TRAIN), "set", 0, "PAIRS", OPTION_TEXT, PLACE(set), NULL, NULL,
     "settings of training, \"epochs=50 rate=0.01\""},
    {IN(EVALUATE), "threads", 0, "N", OPTION_THREADS, PLACE(threads), NULL, "one per core",
     "jobs estimated at a time, 1 to 256"},
    {IN(EVALUATE), "csv", 0, "FILE", OPTION_FILE, PLACE(csv), NULL, NULL,
     "write one line per job and estimator to FILE"},
    {IN(EVALUATE), "sizes", 0, "FILE", OPTION_FILE, PLACE(sizes), NULL, NULL,
     "write what was measured and estimated of each job to FILE, for simulate --sizes"},
    {IN(EVALUATE), "scatter", 0, "FILE", OPTION_FILE, PLACE(scatter), NULL, NULL,
     "write a picture of predicted against measured peaks to FILE (.svg)"},
    {IN(EVALUATE), "bars", 0, "FILE", OPTION_FILE, PLACE(bars), NULL, NULL,
     "write a bar chart of the errors by estimator to FILE (.svg)"},
    {IN(EVALUATE), "report", 0, "FILE", OPTION_FILE, PLACE(report), NULL, NULL,
     "write a report to FILE (.md), and its pictures beside it"},
    {IN(TRAIN), "curve", 0, "FILE", OPTION_FILE, PLACE(curve), NULL, NULL,
     "write a picture of the losses by epoch to FILE (.svg)"},
    {READ | IN(EVALUATE) | IN(TRAIN) | IN(SIMULATE), "max-memory", 0, "SIZE", OPTION_BYTES,
     PLACE(limits.memory_bytes), NULL, "4GiB",
     "memory that the command may take here, \"256MiB\", a quarter of it, at most 16 MiB, for the "
     "program itself; more is refused"},
    {READ | IN(EVALUATE) | IN(TRAIN) | IN(SIMULATE), "max-time", 0, "TIME", OPTION_TIME,
     PLACE(max_ms), NULL, "no limit",
     "time that the answer may take here, \"2s\" or \"500ms\"; more is refused"},
    {IN(WATCH), "interval", 'i', "TIME", OPTION_TIME, PLACE(interval_ms), NULL,
     "1s, of a command 200ms", "time from one reading to the next, from 10ms on"},
    {IN(WATCH), "duration", 'd', "TIME", OPTION_TIME, PLACE(duration_ms), NULL, "until Ctrl-C",
     "how long to watch"},
    {IN(WATCH), "out", 'o', "FILE", OPTION_FILE, PLACE(out), NULL, "standard output",
     "where the lines go; of a command, which has standard output, nowhere unless said"},
    {IN(WATCH), "prometheus", 0, "FILE", OPTION_FILE, PLACE(prometheus), NULL, NULL,
     "write what is read as Prometheus's text to FILE, replaced whole each time, for node_exporter's "
     "textfile collector; -: to standard output"},
    {IN(WATCH), "post", 0, "WHERE", OPTION_TEXT, PLACE(post), NULL, NULL,
     "tell a daemon of jobs' peaks: http://HOST:PORT (its token in PLIMSOLL_TOKEN) or unix:PATH"},
    {IN(WATCH), "job", 0, "NAME", OPTION_TEXT, PLACE(name), NULL, "Slurm's, slurm:CLUSTER:ID",
     "the job that the command, or all that runs on the cards, is"},
    {IN(WATCH), "predicted", 0, "SIZE", OPTION_SIZE, PLACE(predicted), NULL, NULL,
     "peak that was predicted of the command, \"12.5GiB\""},
    {IN(WATCH), "predict", 0, "ARGS", OPTION_TEXT, PLACE(predict), NULL, NULL,
     "predict it by estimate, \"model.pt2 --batch 32\", for the card here unless --gpu names another; "
     "or a file that estimate --json wrote"},
    {IN(WATCH), "predict-script", 0, NULL, OPTION_SWITCH, PLACE(predict_script), NULL, NULL,
     "predict it by running the command, python SCRIPT, under python -m plimsoll first"},
    {ALL_VERBS, "json", 'j', NULL, OPTION_SWITCH, PLACE(json), NULL, NULL,
     "print one JSON object instead of text"},
    {ALL_VERBS | 1u << VERB_NONE, "help", 'h', NULL, OPTION_SWITCH, PLACE(help), NULL, NULL,
     "print this help"},
    {ALL_VERBS | 1u << VERB_NONE, "version", 'V', NULL, OPTION_SWITCH, PLACE(version), NULL, NULL,
     "print the version"},
};
const size_t option_count = sizeof option_table / sizeof *option_table;

const char *option_standard(const option_row *row) {
    if (row->place != PLACE(estimator)) return row->standard;
    pl_job job;
    pl_job_default(&job);
    return job.estimator;
}

const char *verb_operand(verb v) {
    static char text[32];
    const verb_row *row = &verb_table[v];
    if (!row->operand) return "";
    if (row->least == row->most) return row->operand;
    snprintf(text, sizeof text, "%s%s%s%s", row->least == 0 ? "[" : "", row->operand,
             row->most > 1 ? "..." : "", row->least == 0 ? "]" : "");
    return text;
}

const char *verb_behind(verb v) {
    return v == VERB_WATCH ? " [-- COMMAND...]" : "";
}

/* ---- nearest spelling ---- */

const char *nearest_name(const char *word, const char *const *candidates, size_t count) {
    return pl_nearest(word, candidates, count);
}

/* ---- complaints of usage ---- */

static const char *see_help(verb v) {
    static char text[64];
    snprintf(text, sizeof text, "see plimsoll %s%s--help", v < VERBS ? verb_table[v].name : "",
             v < VERBS ? " " : "");
    return text;
}

static int unknown_option(verb v, const char *given) {
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < option_count && count < 64; i++)
        if (option_table[i].verbs >> v & 1) names[count++] = option_table[i].name;
    const char *near =
        given[0] == '-' && given[1] == '-' ? nearest_name(given + 2, names, count) : NULL;
    if (near)
        return complain(PL_USAGE, "unknown option %s; did you mean --%s? (%s)", given, near,
                        see_help(v));
    return complain(PL_USAGE, "unknown option %s; %s", given, see_help(v));
}

/* What a build without libplimsoll-lab says of the names that it lacks. */
static const char no_lab[] = "this build has no laboratory (-Dlab=enabled), which has";

static int unknown_verb(const char *given) {
    if (!PLIMSOLL_LAB && (strcmp(given, "train") == 0 || strcmp(given, "evaluate") == 0))
        return complain(PL_USAGE, "no verb %s: %s it", given, no_lab);
    const char *names[VERBS];
    for (size_t i = 0; i < VERBS; i++) names[i] = verb_table[i].name;
    const char *near = nearest_name(given, names, VERBS);
    if (near) return complain(PL_USAGE, "unknown verb %s; did you mean plimsoll %s?", given, near);
    return complain(PL_USAGE, "unknown verb %s; %s", given, see_help(VERB_NONE));
}

static char folded(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static const char *skip_marks(const char *text) {
    return text + strspn(text, " -_");
}

/* Whether name begins with given, whatever its case and its hyphens: a100-40gb with A100. */
static bool begins_with(const char *name, const char *given) {
    for (given = skip_marks(given); *given; given = skip_marks(given + 1), name++) {
        name = skip_marks(name);
        if (*name != folded(*given)) return false;
    }
    return true;
}

/* "did you mean a100-40gb or a100-80gb? ", of the names that begin so, else of the nearest; ""
 * where there is none, or so many that the list says it better. */
static void suggest(char *out, size_t size, const char *given, const char *const *names,
                    size_t count) {
    enum { MOST = 6, FEWEST_LETTERS = 2 };
    const char *found[MOST];
    size_t begin = 0, used = 0;
    for (size_t i = 0; i < count && strlen(given) >= FEWEST_LETTERS; i++)
        if (begins_with(names[i], given) && ++begin <= MOST) found[begin - 1] = names[i];
    const char *near = nearest_name(given, names, count);
    if (begin == 0 && near) found[begin++] = near;
    out[0] = '\0';
    if (begin == 0 || begin > MOST) return;
    for (size_t i = 0; i < begin && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s%s",
                                 i == 0           ? "did you mean "
                                 : i + 1 == begin ? " or "
                                                  : ", ",
                                 found[i], i + 1 == begin ? "? " : "");
}

void list_names(char *out, size_t size, const char *(*names)(size_t)) {
    size_t used = 0;
    const char *name;
    out[0] = '\0';
    for (size_t i = 0; used < size && (name = names(i)); i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", name);
}

int unknown_name(const char *what, const char *noun, const char *(*names)(size_t),
                 const char *given) {
    char list[1024], likely[256];
    const char *candidates[128];
    size_t count = 0;
    for (const char *name; count < 128 && (name = names(count)); count++) candidates[count] = name;
    suggest(likely, sizeof likely, given, candidates, count);
    list_names(list, sizeof list, names);
    if (!PLIMSOLL_LAB && names == pl_estimator_name)
        return complain(PL_USAGE, "%s: no %s called %s; %sthere are %s; %s more", what, noun, given,
                        likely, list, no_lab);
    return complain(PL_USAGE, "%s: no %s called %s; %sthere are %s", what, noun, given, likely,
                    list);
}

static int unknown_value(const option_row *row, const char *given) {
    char what[64];
    snprintf(what, sizeof what, "--%s", row->name);
    return unknown_name(what, row->name, row->names, given);
}

/* ---- values ---- */

/* The start of a request as type; place comes from offsetof of a member of that type. */
#define AT(type) (*(type *)(void *)((char *)out + row->place))

static int set_count(const option_row *row, const char *value, int64_t least, int64_t most,
                     int64_t *number) {
    char *end;
    errno = 0;
    long long got = strtoll(value, &end, 10);
    if (errno || end == value || *end || value[0] == ' ' || got < least || got > most) {
        char to[32] = "on"; /* what a job may have is pl_job_check's to say */
        if (most < INT_MAX) snprintf(to, sizeof to, "to %" PRId64, most);
        return complain(PL_USAGE, "--%s: %s is not a whole number from %" PRId64 " %s", row->name,
                        value, least, to);
    }
    *number = got;
    return 0;
}

/* One number or range of a list, from *at on; moves *at behind it. */
static int add_range(const option_row *row, const char **at, number_list *list, int64_t most) {
    int64_t bounds[3] = {0, 0, 0}; /* from, to, step */
    static const char *const marks[] = {"", "..", ":"};
    for (int i = 0; i < 3; i++) {
        size_t mark = strlen(marks[i]);
        if (strncmp(*at, marks[i], mark) != 0) break;
        char *end;
        errno = 0;
        long long got = strtoll(*at + mark, &end, 10);
        if (errno || (*at)[mark] < '0' || (*at)[mark] > '9' || got < 1 || got > most)
            return complain(PL_USAGE, "--%s: %s: expected a whole number from 1 on", row->name,
                            *at);
        bounds[i] = got;
        *at = end;
    }
    int64_t last = bounds[1] ? bounds[1] : bounds[0];
    if (last < bounds[0])
        return complain(PL_USAGE, "--%s: the range from %" PRId64 " to %" PRId64 " is empty",
                        row->name, bounds[0], last);
    for (int64_t n = bounds[0]; n <= last; n = bounds[2] ? n + bounds[2] : n * 2) {
        if (list->count == MOST_NUMBERS)
            return complain(PL_USAGE, "--%s: more than %d numbers", row->name, MOST_NUMBERS);
        list->numbers[list->count++] = n;
    }
    return 0;
}

static int set_numbers(const option_row *row, const char *value, int64_t most, number_list *list) {
    const char *at = value;
    list->count = 0;
    for (;;) {
        int failed = add_range(row, &at, list, most);
        if (failed || !*at) return failed;
        if (*at != ',')
            return complain(PL_USAGE, "--%s: %s: expected numbers with commas, or FROM..TO[:STEP]",
                            row->name, value);
        at++;
    }
}

static int set_seed(const option_row *row, const char *value, uint64_t *number) {
    char *end;
    errno = 0;
    unsigned long long got = strtoull(value, &end, 10);
    if (errno || *end || value[0] < '0' || value[0] > '9') /* no sign: it would wrap around */
        return complain(PL_USAGE, "--%s: %s is not a whole number from 0 to 2^64 - 1", row->name,
                        value);
    *number = got;
    return 0;
}

/* Without a sign. */
static bool plain_number(const char *value, double *number) {
    return value[0] != '-' && value[0] != '+' && pl_number_read(value, strlen(value), number);
}

static int set_share(const option_row *row, const char *value, double *number) {
    double got;
    if (!plain_number(value, &got) || got >= 1)
        return complain(PL_USAGE, "--%s: %s is not a share from 0 to below 1", row->name, value);
    *number = got;
    return 0;
}

static int set_rate(const option_row *row, const char *value, double *number) {
    if (strcasecmp(value, "inf") == 0) {
        *number = INFINITY;
        return 0;
    }
    if (!plain_number(value, number) || *number < 0) /* below 0 is the library's word for unknown */
        return complain(PL_USAGE, "--%s: %s is not a number from 0 on", row->name, value);
    return 0;
}

/* Percent, with or without the sign. */
static int set_risk(const option_row *row, const char *value, double *share) {
    char text[64];
    size_t length = strcspn(value, "%");
    while (length > 0 && value[length - 1] == ' ') length--;
    snprintf(text, sizeof text, "%.*s", length < sizeof text ? (int)length : 63, value);
    double percent;
    if (length >= sizeof text || strcspn(value, "%") + 1 < strlen(value) ||
        !plain_number(text, &percent))
        return complain(PL_USAGE, "--%s: %s is not a number of percent, such as 5", row->name,
                        value);
    *share = percent / 100;
    return 0;
}

/* The cards of one's own, and the card asked for by its name in the catalogue. Both live as long as
 * the command. */
static int read_card(request *out) {
    pl_error err = PL_SIZED(pl_error);
    if (out->gpus && pl_catalogue_open(&out->own_cards, out->gpus, &err) != PL_OK)
        return complain_of(&err, out->gpus);
    out->job.catalogue = out->own_cards;
    if (out->job.gpu && pl_gpu_open(&out->card, out->job.gpu, out->own_cards, &err) != PL_OK)
        return complain_of(&err, NULL);
    if (out->card) out->job.gpu = out->card->name;
    return 0;
}

void options_close(request *r) {
    pl_gpu_close(&r->card);
    pl_catalogue_close(&r->own_cards);
}

/* What pl_job_check refuses, with the option's name. */
static int check_job(const pl_job *given) {
    pl_job job = *given;
    if (!job.gpu) job.gpu = gpu_name(0); /* collocate: as the estimates have it */
    pl_error err = PL_SIZED(pl_error);
    return pl_job_check(&job, &err) == PL_OK ? 0 : complain_of(&err, NULL);
}

static int set_parallel(const char *value, pl_job *job) {
    if (pl_parallel_parse(value, job)) return 0;
    const char *colon = strchr(value, ':');
    pl_job asked;
    pl_job_default(&asked);
    long long world = colon ? strtoll(colon + 1, NULL, 10) : 1;
    asked.world = world > INT_MAX ? INT_MAX : world < 0 ? -1 : (int)world;
    int failed = world ? check_job(&asked) : 0;
    if (failed) return failed;
    return complain(PL_USAGE, "--parallel: %s is none of ddp:N, fsdp2:N, fsdp2:N:2, fsdp2:N:3:mp",
                    value);
}

/* A number and its unit, in the smallest of the units. */
typedef struct unit {
    const char *name;
    double size;
} unit;

static int set_units(const option_row *row, const char *value, const unit *units, size_t count,
                     double *number) {
    size_t digits = strspn(value, "0123456789.");
    for (size_t i = 0; i < count; i++) {
        double got;
        if (strcasecmp(value + digits, units[i].name) != 0) continue;
        if (!pl_number_read(value, digits, &got) || !(got * units[i].size >= 1) ||
            !(got * units[i].size < 9e15))
            break;
        *number = got * units[i].size;
        return 0;
    }
    return complain(PL_USAGE, "--%s: %s is not a number with a unit, such as %s", row->name, value,
                    row->type == OPTION_TIME ? "500ms or 2s" : "256MiB or 2GiB");
}

/* Of what the command may take, what is the program's own: code, built-in weights, the C library,
 * liblzma and stacks were 3 to 12 MiB in all commands measured. */
static size_t own_share(size_t asked) {
    const size_t usual = (size_t)16 << 20;
    return asked / 4 < usual ? asked / 4 : usual;
}

static int set_size(const option_row *row, const char *value, double *number) {
    static const unit units[] = {{"", 1},          {"B", 1},          {"KiB", 1024},
                                 {"MiB", 1048576}, {"GiB", 1 << 30},  {"K", 1024},
                                 {"M", 1048576},   {"G", 1073741824}, {"TiB", 1099511627776.0}};
    return set_units(row, value, units, sizeof units / sizeof *units, number);
}

static int set_bytes(const option_row *row, const char *value, size_t *bytes) {
    double number;
    int failed = set_size(row, value, &number);
    if (!failed) *bytes = (size_t)number - own_share((size_t)number);
    return failed;
}

static int set_whole_size(const option_row *row, const char *value, int64_t *bytes) {
    double number;
    int failed = set_size(row, value, &number);
    if (!failed) *bytes = (int64_t)number;
    return failed;
}

static int set_time(const option_row *row, const char *value, int64_t *ms) {
    static const unit units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"min", 60000}};
    double number;
    int failed = set_units(row, value, units, sizeof units / sizeof *units, &number);
    if (!failed) *ms = (int64_t)number;
    return failed;
}

static int add_file(const option_row *row, const char *value, file_list *files) {
    if (!value[0]) return complain(PL_USAGE, "--%s: a name of a file is needed", row->name);
    if (files->count == MOST_FILES)
        return complain(PL_USAGE, "--%s: more than %d files", row->name, MOST_FILES);
    files->names[files->count++] = value;
    return 0;
}

/* The row's name that value means, whatever its case; NULL: none, or one of several. */
static const char *listed_name(const option_row *row, const char *value) {
    const char *name, *found = NULL;
    for (size_t i = 0; (name = row->names(i)); i++) {
        if (strcmp(name, value) == 0) return name;
        if (strcasecmp(name, value) != 0) continue;
        if (found) return NULL;
        found = name;
    }
    return found;
}

/* Every name of a list with commas is one of the row's. */
static int check_names(const option_row *row, const char *value) {
    for (const char *at = value;; at++) {
        char name[128];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 127, at);
        if (!name[0]) return complain(PL_USAGE, "--%s: %s has an empty name", row->name, value);
        if (!listed_name(row, name)) return unknown_value(row, name);
        at += length;
        if (!*at) return 0;
    }
}

static int set_value(request *out, const option_row *row, const char *value) {
    const int64_t most_count = INT64_MAX / 2; /* numbers that can be added and doubled */
    int64_t number = 0;
    int failed = 0;
    pl_error err = PL_SIZED(pl_error);
    const char *name = row->names && row->type != OPTION_GPU ? listed_name(row, value) : NULL;
    switch (row->type) {
    case OPTION_SWITCH: AT(bool) = true; return 0;
    case OPTION_COUNT: return set_count(row, value, 1, most_count, &AT(int64_t));
    case OPTION_NUMBERS: return set_numbers(row, value, most_count, &AT(number_list));
    case OPTION_THREADS: return set_count(row, value, 1, MOST_THREADS, &AT(int64_t));
    case OPTION_FOLDS: return set_count(row, value, 2, MOST_FOLDS, &AT(int64_t));
    case OPTION_BIN: return set_count(row, value, 1, MOST_BIN, &AT(int64_t));
    case OPTION_SEED: return set_seed(row, value, &AT(uint64_t));
    case OPTION_BYTES: return set_bytes(row, value, &AT(size_t));
    case OPTION_SIZE: return set_whole_size(row, value, &AT(int64_t));
    case OPTION_TIME: return set_time(row, value, &AT(int64_t));
    case OPTION_SHARE: return set_share(row, value, &AT(double));
    case OPTION_RISK: return set_risk(row, value, &AT(double));
    case OPTION_RATE: return set_rate(row, value, &AT(double));
    case OPTION_FILES:
    case OPTION_FOLDERS: return add_file(row, value, &AT(file_list));
    case OPTION_PASSES:
        failed = set_count(row, value, 1, INT_MAX, &number);
        if (!failed) AT(int) = (int)number;
        return failed;
    case OPTION_TEXT:
    case OPTION_FILE: AT(const char *) = value; return 0;
    case OPTION_NAMES:
        failed = check_names(row, value);
        if (!failed) AT(const char *) = value;
        return failed;
    case OPTION_SPLIT:
#if PLIMSOLL_LAB
        return name && pl_split_parse(name, &AT(pl_split)) ? 0 : unknown_value(row, value);
#else
        return unknown_value(row, value);
#endif
    case OPTION_SHARING:
        return name && pl_sharing_parse(name, &AT(pl_sharing)) ? 0 : unknown_value(row, value);
    case OPTION_GPU: AT(const char *) = value; return 0; /* read_card resolves it */
    case OPTION_TASK: /* a size behind the name is the reader's to check */
        if (!name && strncmp(value, "image-text:", 11) != 0) return unknown_value(row, value);
        AT(const char *) = name ? name : value;
        return 0;
    case OPTION_NAME:
        if (!name) return unknown_value(row, value);
        AT(const char *) = name;
        return 0;
    case OPTION_PRECISION:
        return pl_precision_read(&AT(pl_precision), value, &err) == PL_OK ? 0
                                                                          : complain_of(&err, NULL);
    case OPTION_OPTIMIZER:
        return pl_optimizer_read(&AT(const char *), value, &err) == PL_OK ? 0
                                                                          : complain_of(&err, NULL);
    case OPTION_LOSS:
        return name && pl_loss_parse(name, &AT(pl_loss)) ? 0 : unknown_value(row, value);
    case OPTION_LOAD:
        return name && pl_load_parse(name, &AT(pl_load)) ? 0 : unknown_value(row, value);
    case OPTION_PARALLEL: return set_parallel(value, &out->job);
    }
    return complain(PL_USAGE, "--%s cannot be set", row->name);
}

/* ---- parsing ---- */

static const option_row *find_option(verb v, const char *name, size_t length, char letter) {
    for (size_t i = 0; i < option_count; i++) {
        const option_row *row = &option_table[i];
        if (!(row->verbs >> v & 1)) continue;
        if (name ? strlen(row->name) == length && strncmp(row->name, name, length) == 0
                 : row->letter && row->letter == letter)
            return row;
    }
    return NULL;
}

/* fit: a ? in place of a value asks for it. -1: the option takes none. */
static int set_sought(request *out, const option_row *row, const char *value) {
    static const char *const names[] = {[SOUGHT_BATCH] = "batch",
                                        [SOUGHT_SEQ] = "seq",
                                        [SOUGHT_WORLD] = "parallel",
                                        [SOUGHT_GPU] = "gpu"};
    sought asked = SOUGHT_NOTHING;
    for (int i = SOUGHT_BATCH; i <= SOUGHT_GPU; i++)
        if (strcmp(row->name, names[i]) == 0) asked = (sought)i;
    if (asked == SOUGHT_WORLD) {
        char text[64];
        const char *mark = strchr(value, '?');
        if (strncmp(value, "fsdp2:?", 7) != 0 || strlen(value) >= sizeof text) return -1;
        snprintf(text, sizeof text, "%.*s2%s", (int)(mark - value), value, mark + 1);
        if (!pl_parallel_parse(text, &out->job)) return -1;
    } else if (asked == SOUGHT_NOTHING || strcmp(value, "?") != 0) {
        return -1;
    }
    if (out->sought != SOUGHT_NOTHING && out->sought != asked)
        return complain(PL_USAGE, "--%s and --%s: one ? at a time", names[out->sought],
                        names[asked]);
    out->sought = asked;
    return 0;
}

/* Reads the option at argv[*at]; moves *at to its last word. */
static int parse_option(request *out, int argc, char **argv, int *at) {
    const char *word = argv[*at], *value = NULL;
    const option_row *row;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        row = find_option(out->verb, word + 2,
                          equals ? (size_t)(equals - word - 2) : strlen(word + 2), 0);
        if (equals) value = equals + 1;
    } else {
        row = find_option(out->verb, NULL, 0, word[1]);
        if (word[2]) value = word + 2;
    }
    if (!row) return unknown_option(out->verb, word);
    if (!row->argument && value)
        return complain(PL_USAGE, "--%s takes no value, but was given %s", row->name, value);
    if (row->argument && !value) {
        if (*at + 1 >= argc)
            return complain(PL_USAGE, "--%s needs a value %s; %s", row->name, row->argument,
                            see_help(out->verb));
        value = argv[++*at];
    }
    if (out->verb == VERB_FIT && value && strchr(value, '?')) {
        int asked = set_sought(out, row, value);
        if (asked >= 0) return asked;
    }
    return set_value(out, row, value);
}

/* "-" is standard input, which can be read once. */
static int read_input(request *out) {
    for (size_t i = 0; i < out->files.count; i++) {
        if (strcmp(out->files.names[i], "-") != 0) continue;
        if (out->verb == VERB_COLLOCATE)
            return complain(PL_USAGE, "-: collocate reads files, not standard input");
        out->files.names[i] = "/dev/stdin";
    }
    return 0;
}

int options_parse(request *out, int argc, char **argv) {
    *out = (request){.verb = VERB_NONE, .seed = 1, .hold_out = -1};
    out->argc = argc;
    out->argv = argv;
    pl_job_default(&out->job);
    pl_model_settings_default(&out->settings);
    pl_limits_default(&out->limits);
    out->settings.limits = &out->limits;
    int at = 1;
    if (at < argc && strcmp(argv[at], "help") == 0) { /* help VERB is VERB --help */
        out->help = true;
        at++;
    }
    if (at < argc && argv[at][0] != '-') {
        verb v = 0;
        while (v < VERBS && strcmp(argv[at], verb_table[v].name) != 0) v++;
        if (v == VERBS) return unknown_verb(argv[at]);
        out->verb = v;
        out->split = v == VERB_TRAIN ? PL_SPLIT_MODEL : PL_SPLIT_NONE;
        if (v == VERB_COLLOCATE) out->job.gpu = NULL; /* the estimates say it */
        at++;
    }
    bool options_over = false;
    for (; at < argc; at++) {
        const char *word = argv[at];
        if (!options_over && strcmp(word, "--") == 0 && out->verb == VERB_WATCH) {
            if (at + 1 == argc) return complain(PL_USAGE, "--: a command is needed behind it");
            out->command = argv + at + 1;
            break;
        }
        if (!options_over && strcmp(word, "--") == 0) {
            options_over = true;
        } else if (!options_over && word[0] == '-' && word[1]) {
            int failed = parse_option(out, argc, argv, &at);
            if (failed) return failed;
        } else if (out->verb == VERB_NONE) {
            return complain(PL_USAGE, "%s: the verb comes first; %s", word, see_help(VERB_NONE));
        } else if (out->verb == VERB_WATCH) {
            return complain(PL_USAGE, "%s: a command stands behind --: plimsoll watch -- %s", word,
                            word);
        } else if (out->files.count >= verb_table[out->verb].most) {
            return complain(PL_USAGE, "%s: one %s too many; %s", word,
                            !verb_table[out->verb].operand     ? "word"
                            : verb_table[out->verb].least <= 1 ? verb_table[out->verb].operand
                                                               : "file",
                            see_help(out->verb));
        } else {
            out->files.names[out->files.count++] = word;
        }
    }
    if (out->verb < VERBS && (READ >> out->verb & 1) && !options_over) {
        int refused = read_input(out);
        if (refused) return refused;
    }
    out->file = out->files.names[0];
    if (out->help || out->version) return 0;
    if (out->verb == VERB_NONE)
        return complain(PL_USAGE, "a verb is needed; %s", see_help(VERB_NONE));
    if (out->files.count < verb_table[out->verb].least)
        return complain(PL_USAGE, "%s needs %s%s; %s", verb_table[out->verb].name,
                        verb_table[out->verb].least == 1 ? "a " : "", verb_table[out->verb].operand,
                        see_help(out->verb));
    int unread = read_card(out);
    if (unread) return unread;
    if (out->batches.count) out->job.batch = out->batches.numbers[0];
    if (out->seqs.count) out->job.seq = out->seqs.numbers[0];
    if (out->verb != VERB_EVALUATE && out->estimator) out->job.estimator = out->estimator;
    pl_job job = out->job;
    for (size_t i = 0; i == 0 || i < out->batches.count || i < out->seqs.count; i++) {
        if (i < out->batches.count) job.batch = out->batches.numbers[i];
        if (i < out->seqs.count) job.seq = out->seqs.numbers[i];
        int refused = check_job(&job);
        if (refused) return refused;
    }
    if (out->max_ms) out->limits.deadline_ns = pl_now_ns() + out->max_ms * 1000000;
    return 0;
}

/* ---- the command line again ---- */

/* A word as a shell takes it: within '...', a quote as '\'' ; or as it is. Returns its length; out
 * NULL: measures alone. */
static size_t put_word(char *out, const char *word) {
    size_t length = 0;
    bool plain = word[0] != '\0';
    for (const char *at = word; *at; at++)
        plain = plain && (strchr("-_./:,=+@%", *at) || (*at >= '0' && *at <= '9') ||
                          (folded(*at) >= 'a' && folded(*at) <= 'z'));
    if (!plain && out) out[length] = '\'';
    length += !plain;
    for (; *word; word++) {
        const char *form = *word == '\'' ? "'\\''" : NULL;
        size_t size = form ? strlen(form) : 1;
        if (out) memcpy(out + length, form ? form : word, size);
        length += size;
    }
    if (!plain && out) out[length] = '\'';
    return length + !plain;
}

char *options_command(const request *r) {
    size_t size = sizeof "plimsoll";
    for (int i = 1; i < r->argc; i++) size += 1 + put_word(NULL, r->argv[i]);
    char *text = need(size, 1), *at = text;
    at += sprintf(at, "plimsoll");
    for (int i = 1; i < r->argc; i++) {
        *at++ = ' ';
        at += put_word(at, r->argv[i]);
    }
    return text;
}
