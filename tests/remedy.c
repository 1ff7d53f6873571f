/* remedy: what makes a job fit, and the most or the least that fits: every answer is simulated again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/arena.h"

static pl_model *llama(void) {
    static const char config[] =
        "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":2048,"
        "\"intermediate_size\":5632,\"num_hidden_layers\":22,\"num_attention_heads\":32,"
        "\"num_key_value_heads\":4,\"vocab_size\":32000,\"tie_word_embeddings\":false,"
        "\"max_position_embeddings\":8192}";
    pl_model *model = NULL;
    pl_error err = {0};
    if (pl_model_open_memory(&model, config, sizeof config - 1, "llama", NULL, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return model;
}

static pl_job job_of(const char *gpu, int64_t batch, int64_t seq) {
    pl_job job;
    pl_job_default(&job);
    job.gpu = gpu;
    job.batch = batch;
    job.seq = seq;
    job.precision = PL_FP32;
    return job;
}

static pl_verdict verdict_of(const pl_model *model, const pl_job *job, int64_t *upper) {
    pl_report *report = NULL;
    pl_error err = {0};
    pl_verdict verdict = PL_DOES_NOT_FIT;
    if (pl_estimate(&report, model, job, &err) != PL_OK) {
        check_say(__FILE__, __LINE__, err.message);
        return verdict;
    }
    verdict = report->verdict;
    if (upper) *upper = report->upper_bytes;
    pl_report_close(&report);
    return verdict;
}

static const char *value_of(const pl_remedy *r, const char *member) {
    for (size_t i = 0; pl_remedy_member(r, i); i++)
        if (strcmp(pl_remedy_member(r, i), member) == 0) return pl_remedy_value(r, i);
    return NULL;
}

/* The settings as text are those of the job. */
static void check_settings(const pl_remedy *r, const pl_job *given) {
    const char *text;
    const pl_job *job = r->job;
    size_t count = 0;
    while (pl_remedy_member(r, count)) count++;
    CHECK(count > 0 && pl_remedy_value(r, count) == NULL);
    CHECK((value_of(r, "checkpoint") != NULL) == (job->checkpoint != given->checkpoint));
    if ((text = value_of(r, "batch"))) {
        CHECK_INT(atoll(text), job->batch);
        CHECK(value_of(r, "accumulate") && atoi(value_of(r, "accumulate")) == job->accumulate);
    }
    CHECK_INT((text ? job->batch : given->batch) * job->accumulate,
              given->batch * given->accumulate); /* the step is the same */
    text = value_of(r, "optimizer");
    CHECK_STR(job->optimizer, text ? text : given->optimizer);
    text = value_of(r, "gpu");
    CHECK_STR(job->gpu, text ? text : given->gpu);
    text = value_of(r, "precision");
    if (text) CHECK_STR(pl_precision_name((size_t)job->precision), text);
    text = value_of(r, "parallel");
    pl_job parsed = *given;
    if (text)
        CHECK(pl_parallel_parse(text, &parsed) && parsed.world == job->world &&
              parsed.stage == job->stage && parsed.parallel == job->parallel);
}

/* Every change of b is one of a, and a makes more of them. */
static bool contains(const pl_remedy *a, const pl_remedy *b) {
    size_t count = 0, more = 0;
    for (; pl_remedy_member(b, count); count++) {
        const char *value = value_of(a, pl_remedy_member(b, count));
        if (!value || strcmp(value, pl_remedy_value(b, count)) != 0) return false;
    }
    while (pl_remedy_member(a, more)) more++;
    return more > count;
}

static void every_remedy_fits_when_it_is_simulated(void) {
    static const struct {
        const char *gpu, *parallel, *train;
        int64_t batch, seq;
        bool several; /* none by itself is enough on this card */
    } rows[] = {{"l4", NULL, NULL, 4, 1024, true},
                {"a100-40gb", NULL, NULL, 16, 1024, false},
                {"t4", "ddp:4", NULL, 3, 2048, false},
                {"a100-40gb", "fsdp2:2:2:mp", NULL, 12, 2048, false},
                {"rtx3060", NULL, "lora-r8", 8, 1024, false}};
    pl_model *model = llama();
    for (size_t k = 0; model && k < sizeof rows / sizeof *rows; k++) {
        pl_job job = job_of(rows[k].gpu, rows[k].batch, rows[k].seq);
        if (rows[k].parallel) CHECK(pl_parallel_parse(rows[k].parallel, &job));
        job.train = rows[k].train;
        CHECK(verdict_of(model, &job, NULL) != PL_FITS);
        pl_remedies *all = NULL;
        pl_error err = {0};
        CHECK_INT(pl_remedies_find(&all, model, &job, NULL, &err), PL_OK);
        if (!all) continue;
        CHECK(!all->fits && all->count > 1 && !all->nearest && all->complete);
        CHECK(all->tried > 8 && all->tried <= 256);
        const pl_remedy *r, *last = NULL;
        for (size_t i = 0; (r = pl_remedies_at(all, i)); last = r, i++) {
            int64_t upper = 0;
            CHECK(r->verdict == PL_FITS && verdict_of(model, r->job, &upper) == PL_FITS);
            CHECK_INT(upper, r->upper_bytes);
            CHECK(r->upper_bytes <= r->usable_bytes && r->peak_bytes <= r->upper_bytes);
            CHECK(r->step_ms.value > 0 && r->time_ratio > 0 && isfinite(r->time_ratio));
            CHECK(r->communicates == (r->job->parallel != PL_ALONE));
            CHECK(!last || last->weight <= r->weight);
            check_settings(r, &job);
            for (size_t m = 0; m < all->count; m++) CHECK(!contains(r, pl_remedies_at(all, m)));
            if (rows[k].several && i == 0) CHECK(pl_remedy_member(r, 1) != NULL);
        }
        CHECK(pl_remedies_at(all, all->count) == NULL);
        pl_remedies_close(&all);
        CHECK(!all);
    }
    pl_model_close(&model);
}

/* The milder of two levels is taken: half the batch where that is enough, not a quarter. */
static void the_mildest_level_is_the_answer(void) {
    pl_model *model = llama();
    pl_job job = job_of("h200", 64, 1024);
    pl_remedies *all = NULL;
    pl_error err = {0};
    CHECK_INT(pl_remedies_find(&all, model, &job, NULL, &err), PL_OK);
    bool seen = false;
    for (size_t i = 0; all && i < all->count; i++) {
        const pl_remedy *r = pl_remedies_at(all, i);
        if (!value_of(r, "batch") || pl_remedy_member(r, 2)) continue;
        seen = true;
        pl_job more = *r->job;
        more.batch *= 2;
        more.accumulate /= 2;
        CHECK(verdict_of(model, &more, NULL) != PL_FITS);
    }
    CHECK(seen);
    pl_remedies_close(&all);
    pl_model_close(&model);
}

static void what_fits_already_needs_none(void) {
    pl_model *model = llama();
    pl_job job = job_of("h200", 1, 128);
    pl_remedies *all = NULL;
    pl_error err = {0};
    CHECK_INT(pl_remedies_find(&all, model, &job, NULL, &err), PL_OK);
    if (all) CHECK(all->fits && all->count == 0 && !all->nearest && all->tried == 1);
    pl_remedies_close(&all);
    pl_remedies_close(&all);
    pl_remedies_close(NULL);
    pl_model_close(&model);
}

static int64_t told_done, told_most;
static void told(void *context, int64_t done, int64_t most) {
    (void)context;
    told_done = done;
    told_most = most;
}

static int given_up(void *context) {
    return --*(int *)context < 0;
}

/* Bounded in simulations, in time, and by the caller. */
static void the_search_ends_where_it_is_told_to(void) {
    pl_model *model = llama();
    pl_job job = job_of("t4", 64, 2048);
    pl_remedies *all = NULL;
    pl_error err = {0};
    pl_remedy_settings settings;
    pl_remedy_settings_default(&settings);
    settings.most = 5;
    settings.progress = told;
    CHECK_INT(pl_remedies_find(&all, model, &job, &settings, &err), PL_OK);
    if (all) CHECK(!all->complete && all->tried == 5 && all->count == 0 && all->nearest);
    CHECK(told_done == 5 && told_most == 5);
    if (all && all->nearest) CHECK(all->nearest->verdict != PL_FITS);
    pl_remedies_close(&all);
    settings.most = 0;
    CHECK_INT(pl_remedies_find(&all, model, &job, &settings, &err), PL_USAGE);
    settings.size = 0;
    CHECK_INT(pl_remedies_find(&all, model, &job, &settings, &err), PL_USAGE);
    pl_limits limits;
    pl_limits_default(&limits);
    int left = 2000;
    limits.cancelled = given_up;
    limits.cancel_context = &left;
    job.limits = &limits;
    CHECK_INT(pl_remedies_find(&all, model, &job, NULL, &err), PL_LIMIT);
    CHECK(!all && err.message[0]);
    limits.cancelled = NULL;
    limits.deadline_ns = 1; /* long ago */
    CHECK_INT(pl_remedies_find(&all, model, &job, NULL, &err), PL_LIMIT);
    job.limits = NULL;
    job.batch = -3;
    CHECK_INT(pl_remedies_find(&all, model, &job, NULL, &err), PL_USAGE);
    CHECK_STR(err.where, "batch");
    CHECK_INT(pl_remedies_find(&all, NULL, &job, NULL, &err), PL_USAGE);
    pl_model_close(&model);
}

/* A file whose batch is fixed and whose optimizer is the last: other cards, if any. */
static void nothing_may_be_found(void) {
    pl_model *model = llama();
    pl_job job = job_of("t4", 4096, 8192);
    job.optimizer = "none";
    job.precision = PL_BF16;
    pl_remedies *all = NULL;
    pl_error err = {0};
    job.batch = 65537; /* a prime: no divisor but 1 */
    job.seq = 200;     /* halves are below what is tried */
    CHECK_INT(pl_remedies_find(&all, model, &job, NULL, &err), PL_OK);
    for (size_t i = 0; all && i < all->count; i++) {
        const pl_remedy *r = pl_remedies_at(all, i);
        CHECK(!value_of(r, "accumulate") && !value_of(r, "checkpoint") && !value_of(r, "seq"));
    }
    pl_remedies_close(&all);
    pl_model_close(&model);
}

static void without_memory_it_is_a_status(void) {
    pl_model *model = llama();
    pl_job job = job_of("t4", 2, 512);
    long refused = 0;
    pl_remedy_settings settings;
    pl_remedy_settings_default(&settings);
    settings.most = 4;
    for (long after = 0; after < 3000; after += 1 + after / 4) {
        pl_remedies *all = NULL;
        pl_error err = {0};
        pl_arena_fail_after(after);
        pl_status status = pl_remedies_find(&all, model, &job, &settings, &err);
        pl_arena_fail_after(-1);
        CHECK(status == PL_OK || (status == PL_MISSING && !all && err.message[0]));
        refused += status != PL_OK;
        pl_remedies_close(&all);
    }
    CHECK(refused > 5);
    pl_model_close(&model);
}

/* ---- the most and the least that fit ---- */

static void the_answer_and_its_neighbour_were_seen(void) {
    pl_model *model = llama();
    pl_error err = {0};
    pl_fit fit = PL_SIZED(pl_fit);
    pl_job job = job_of("a100-40gb", 1, PL_UNKNOWN);
    CHECK_INT(pl_fit_find(&fit, model, &job, PL_FIT_SEQ, 1 << 20, &err), PL_OK);
    CHECK(fit.found > 128 && fit.batch == 0);
    int64_t upper;
    job.seq = fit.found;
    CHECK(verdict_of(model, &job, &upper) == PL_FITS && upper == fit.high_at);
    job.seq++;
    CHECK(verdict_of(model, &job, &upper) != PL_FITS && upper == fit.high_above);
    job.seq = 64;
    CHECK_INT(pl_fit_find(&fit, model, &job, PL_FIT_BATCH, 1 << 12, &err), PL_OK);
    CHECK(fit.batch == fit.found && fit.found > 1);
    job.gpu = "t4";
    job.seq = 512;
    CHECK_INT(pl_fit_find(&fit, model, &job, PL_FIT_WORLD, 64, &err), PL_USAGE);
    CHECK(pl_parallel_parse("fsdp2:2", &job));
    CHECK_INT(pl_fit_find(&fit, model, &job, PL_FIT_WORLD, 64, &err), PL_OK);
    CHECK(fit.found > 1 && fit.found < 64);
    job.world = (int)fit.found;
    CHECK(verdict_of(model, &job, &upper) == PL_FITS && upper == fit.high_at);
    job.world--;
    CHECK(verdict_of(model, &job, &upper) != PL_FITS && upper == fit.high_above);
    job.batch = 512; /* activations alone do not fit, whatever is sharded */
    CHECK_INT(pl_fit_find(&fit, model, &job, PL_FIT_WORLD, 64, &err), PL_OK);
    CHECK(fit.found == 0 && fit.high_above > 0);
    CHECK_INT(pl_fit_find(&fit, model, &job, PL_FIT_WORLD, 0, &err), PL_USAGE);
    CHECK_INT(pl_fit_find(&fit, model, &job, (pl_fit_what)7, 1, &err), PL_USAGE);
    pl_model_close(&model);
}

static void no_smaller_card_fits(void) {
    pl_model *model = llama();
    pl_error err = {0};
    pl_job job = job_of("h200", 2, 512);
    const pl_gpu *smallest = NULL, *gpu;
    CHECK_INT(pl_fit_gpu(&smallest, model, &job, &err), PL_OK);
    CHECK(smallest != NULL);
    for (size_t i = 0; smallest && (gpu = pl_gpu_at(i)); i++) {
        if (gpu->part_of) continue;
        job.gpu = gpu->name;
        bool fits = verdict_of(model, &job, NULL) == PL_FITS;
        if (gpu->capacity_bytes < smallest->capacity_bytes) CHECK(!fits);
        if (gpu == smallest) CHECK(fits);
    }
    job.batch = 1 << 14;
    CHECK_INT(pl_fit_gpu(&smallest, model, &job, &err), PL_OK);
    CHECK(!smallest);
    pl_model_close(&model);
}

int main(void) {
    RUN(every_remedy_fits_when_it_is_simulated);
    RUN(the_mildest_level_is_the_answer);
    RUN(what_fits_already_needs_none);
    RUN(the_search_ends_where_it_is_told_to);
    RUN(nothing_may_be_found);
    RUN(without_memory_it_is_a_status);
    RUN(the_answer_and_its_neighbour_were_seen);
    RUN(no_smaller_card_fits);
    return check_done();
}
