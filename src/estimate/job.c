/* job: the settings of a job, their defaults, their names and their one check, as the public header
 * gives them. Left out: optimizers' and estimators' names, which stand in their own tables, other spellings
 * (spellings.c), and what
 * a job asks of one model (model.c). */
#include "estimate/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "core/sized.h"
#include "device/allocator.h"
#include "device/catalogue.h"
#include "estimate/estimator.h"
#include "graph/finetune.h"

void pl_job_default_sized(pl_job *job, size_t size) {
    const pl_job usual = {.batch = PL_UNKNOWN,
                          .seq = PL_UNKNOWN,
                          .precision = PL_PRECISION_AS_EXPORTED,
                          .optimizer = "adamw",
                          .loss = PL_LOSS_AUTO,
                          .accumulate = 1,
                          .world = 1,
                          .stage = 3,
                          .gpu = "h200",
                          .estimator = "hybrid",
                          .host_speed = PL_UNKNOWN,
                          .copy_gbps = PL_UNKNOWN,
                          .risk = PL_RISK_USUAL};
    pl_sized_fill(job, size, &usual, sizeof usual);
}

static const char *const precisions[] = {"as-exported", "fp32",     "tf32",    "bf16",
                                         "fp16",        "amp-bf16", "amp-fp16"};
static const char *const losses[] = {"auto", "ce", "mse", "own", "none"};
static const char *const loads[] = {"auto", "full", "sharded"};

static const char *const tasks[] = {"causal",  "masked", "seq2seq", "classify", "tokens",
                                    "segment", "detect", "ctc",     "base",     "image-text"};
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

const char *pl_loss_name(size_t index) {
    return index < sizeof losses / sizeof *losses ? losses[index] : NULL;
}

const char *pl_parallel_name(size_t index) {
    static const char *const names[] = {"alone", "ddp", "fsdp2"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

const char *pl_load_name(size_t index) {
    return index < sizeof loads / sizeof *loads ? loads[index] : NULL;
}

bool pl_load_parse(const char *name, pl_load *out) {
    int at = place_of(name, loads, sizeof loads / sizeof *loads);
    if (at >= 0) *out = (pl_load)at;
    return at >= 0;
}

bool pl_loss_parse(const char *name, pl_loss *out) {
    int at = place_of(name, losses, sizeof losses / sizeof *losses);
    if (at >= 0) *out = (pl_loss)at;
    return at >= 0;
}

/* The least and the most that a job may ask for. Batch and seq: PL_MOST_SIZE. No other file has
 * these numbers: what reads a job lets pl_job_check refuse it. */
enum { MOST_ACCUMULATE = 4096, MOST_WORLD = 1 << 14 };
static const double least_rate = 0.1;                       /* of both that follow */
static const double most_speed = 10, most_copy_gbps = 1000; /* of a host, times; GB/s */

bool pl_parallel_parse(const char *text, pl_job *job) {
    pl_parallel_kind kind = strncmp(text, "ddp:", 4) == 0     ? PL_DDP
                            : strncmp(text, "fsdp2:", 6) == 0 ? PL_FSDP2
                                                              : PL_ALONE;
    if (kind == PL_ALONE) return false;
    char *end;
    long world = strtol(strchr(text, ':') + 1, &end, 10);
    if (end == strchr(text, ':') + 1 || world < 1 || world > MOST_WORLD) return false;
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

/* ---- the check ---- */

static pl_status check_size(const char *member, int64_t value, pl_error *err) {
    if (value == PL_UNKNOWN || (value >= 1 && value <= PL_MOST_SIZE)) return PL_OK;
    return pl_fail(err, PL_USAGE, member, -1, "%lld is not between 1 and %lld", (long long)value,
                   (long long)PL_MOST_SIZE);
}

static pl_status check_range(const char *member, int64_t value, int64_t least, int64_t most,
                             pl_error *err) {
    if (value >= least && value <= most) return PL_OK;
    return pl_fail(err, PL_USAGE, member, -1, "%lld is not between %lld and %lld", (long long)value,
                   (long long)least, (long long)most);
}

/* PL_UNKNOWN: nobody told. Copies may be as fast as one likes: INFINITY. */
static pl_status check_rate(const char *member, double value, double most, bool endless,
                            pl_error *err) {
    if ((value >= least_rate && value <= most) || (endless && value > 0 && isinf(value)) ||
        value == PL_UNKNOWN)
        return PL_OK;
    return pl_fail(err, PL_USAGE, member, -1, "%s is not a number from %s to %s",
                   PL_REAL("g", value), PL_REAL("g", least_rate), PL_REAL("g", most));
}

static pl_status check_name(const char *member, const char *value, bool known, const char *what,
                            const char *more, pl_error *err) {
    if (value && known) return PL_OK;
    return value ? pl_fail(err, PL_USAGE, member, -1, "no %s \"%.200s\"%s", what, value, more)
                 : pl_fail(err, PL_USAGE, member, -1, "expected the name of %s %s",
                           strchr("aeiou", what[0]) ? "an" : "a", what);
}

pl_status pl_job_check(const pl_job *job, pl_error *err) {
    pl_job own;
    return pl_job_read(&own, job, err);
}

pl_status pl_job_read(pl_job *out, const pl_job *job, pl_error *err) {
    if (!job) return pl_fail(err, PL_USAGE, "job", -1, "expected a job");
    if (!PL_SIZED_OK(job, copy_gbps))
        return pl_fail(err, PL_USAGE, "job", -1, "a job of %zu bytes; pl_job_default sets its size",
                       job->size);
    pl_job_default(out);
    pl_sized_read(out, sizeof *out, job, job->size);
    job = out;
    pl_finetune how;
    pl_card card;
    pl_allocator_settings settings;
    pl_allocator_settings_default(&settings);
    const char *estimator = job->estimator;
    pl_status status = pl_limits_check(job->limits, err);
    if (status == PL_OK) status = check_size("batch", job->batch, err);
    if (status == PL_OK) status = check_size("seq", job->seq, err);
    if (status == PL_OK)
        status = check_range("precision", (int64_t)job->precision, PL_PRECISION_AS_EXPORTED,
                             PL_AMP_FP16, err);
    if (status == PL_OK) status = pl_optimizer_read(&out->optimizer, job->optimizer, err);
    if (status == PL_OK && job->train) status = pl_finetune_parse(&how, job->train, err);
    if (status == PL_OK)
        status = check_range("loss", (int64_t)job->loss, PL_LOSS_AUTO, PL_LOSS_NONE, err);
    if (status == PL_OK)
        status = check_range("accumulate", job->accumulate, 1, MOST_ACCUMULATE, err);
    if (status == PL_OK && job->alloc_conf)
        status = pl_allocator_settings_parse(&settings, job->alloc_conf, err);
    if (status == PL_OK)
        status = check_range("parallel", (int64_t)job->parallel, PL_ALONE, PL_FSDP2, err);
    if (status == PL_OK) status = check_range("world", job->world, 1, MOST_WORLD, err);
    if (status == PL_OK) status = check_range("stage", job->stage, 2, 3, err);
    if (status == PL_OK)
        status = check_range("load", (int64_t)job->load, PL_LOAD_AUTO, PL_LOAD_SHARDED, err);
    if (status == PL_OK && job->load == PL_LOAD_SHARDED && job->parallel != PL_FSDP2)
        status = pl_fail(err, PL_USAGE, "load", -1,
                         "only fsdp2 loads a model in shards; other jobs have it whole");
    if (status == PL_OK) status = pl_card_read(&card, job->gpu, job->catalogue, err);
    if (status == PL_OK)
        status = check_name("estimator", estimator, estimator && pl_estimator_named(estimator),
                            "estimator", "", err);
    if (status == PL_OK) status = check_rate("host_speed", job->host_speed, most_speed, false, err);
    if (status == PL_OK)
        status = check_rate("copy_gbps", job->copy_gbps, most_copy_gbps, true, err);
    if (status == PL_OK && !(job->risk >= PL_RISK_LEAST && job->risk <= PL_RISK_MOST))
        status = pl_fail(err, PL_USAGE, "risk", -1,
                         "a chance of %s %% is not between %s and %s %%, which were measured",
                         PL_REAL("g", 100 * job->risk), PL_REAL("g", 100 * PL_RISK_LEAST),
                         PL_REAL("g", 100 * PL_RISK_MOST));
    return status;
}
