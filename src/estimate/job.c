/* job: the settings of a job, their defaults and their names, as the public header gives them.
 * Names are those of the command's options. Left out: optimizers' and estimators' names, which
 * stand in their own tables. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

void pl_job_default(pl_job *job) {
    *job = (pl_job){.batch = PL_UNKNOWN,
                    .seq = PL_UNKNOWN,
                    .precision = PL_PRECISION_AS_EXPORTED,
                    .optimizer = "adamw",
                    .loss = PL_LOSS_AUTO,
                    .accumulate = 1,
                    .world = 1,
                    .stage = 3,
                    .gpu = "h200",
                    .estimator = "hybrid",
                    .host_speed = 1,
                    .copy_gbps = 20};
}

static const char *const precisions[] = {"as-exported", "fp32",     "tf32",    "bf16",
                                         "fp16",        "amp-bf16", "amp-fp16"};
static const char *const losses[] = {"auto", "ce", "mse", "own", "none"};

static const char *const tasks[] = {"causal", "masked", "seq2seq", "classify", "tokens", "base"};
static const char *const attentions[] = {"sdpa", "eager", "flash2"};

const char *pl_task_name(size_t index) {
    return index < sizeof tasks / sizeof *tasks ? tasks[index] : NULL;
}

const char *pl_attention_name(size_t index) {
    return index < sizeof attentions / sizeof *attentions ? attentions[index] : NULL;
}

/* The place of name in names, or -1. */
static int place_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return (int)i;
    return -1;
}

const char *pl_precision_name(size_t index) {
    return index < sizeof precisions / sizeof *precisions ? precisions[index] : NULL;
}

bool pl_precision_parse(const char *name, pl_precision *out) {
    int at = place_of(name, precisions, sizeof precisions / sizeof *precisions);
    if (at >= 0) *out = (pl_precision)at;
    return at >= 0;
}

bool pl_loss_parse(const char *name, pl_loss *out) {
    int at = place_of(name, losses, sizeof losses / sizeof *losses);
    if (at >= 0) *out = (pl_loss)at;
    return at >= 0;
}

bool pl_parallel_parse(const char *text, pl_job *job) {
    pl_parallel_kind kind = strncmp(text, "ddp:", 4) == 0     ? PL_DDP
                            : strncmp(text, "fsdp2:", 6) == 0 ? PL_FSDP2
                                                              : PL_ALONE;
    if (kind == PL_ALONE) return false;
    char *end;
    long world = strtol(strchr(text, ':') + 1, &end, 10);
    if (end == strchr(text, ':') + 1 || world < 1 || world > 1 << 14) return false;
    long stage = 3;
    bool mixed = false;
    if (kind == PL_FSDP2 && end[0] == ':' && (end[1] == '2' || end[1] == '3')) {
        stage = end[1] - '0';
        end += 2;
    }
    if (kind == PL_FSDP2 && strcmp(end, ":mp") == 0) {
        mixed = true;
        end += 3;
    }
    if (*end) return false;
    job->parallel = kind;
    job->world = (int)world;
    job->stage = (int)stage;
    job->parallel_mixed = mixed;
    return true;
}
