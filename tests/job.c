/* job: every entrance checks a job, and each member of it; limits of a request hold in sum. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "core/arena.h"
#include "estimate/model.h"
#include "estimate/report.h"

static const char *folder;

static pl_model *open_model(const char *name, const pl_limits *limits, pl_status expected) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    settings.limits = limits;
    pl_model *model = NULL;
    pl_error err = {0};
    CHECK_INT(pl_model_open(&model, path, &settings, &err), expected);
    CHECK((model != NULL) == (expected == PL_OK));
    return model;
}

/* ---- members ---- */

static void refused(const pl_model *model, const pl_job *job, const char *member) {
    pl_report *report = NULL;
    pl_fit fit = PL_SIZED(pl_fit);
    char *text = NULL;
    size_t size;
    pl_error err = {0};
    CHECK_INT(pl_job_check(job, &err), PL_USAGE);
    CHECK_STR(err.where, member);
    CHECK_INT(pl_estimate(&report, model, job, &err), PL_USAGE);
    CHECK_STR(err.where, member);
    CHECK(!report);
    CHECK_INT(pl_fit_batch(&fit, model, job, 8, &err), PL_USAGE);
    CHECK_STR(err.where, member);
    CHECK_INT(pl_model_convert(&text, &size, model, job, &err), PL_USAGE);
    CHECK_STR(err.where, member);
    CHECK(!text);
}

#define REFUSED(member, value)                                                                     \
    do {                                                                                           \
        pl_job job;                                                                                \
        pl_job_default(&job);                                                                      \
        job.member = value;                                                                        \
        refused(model, &job, #member);                                                             \
    } while (0)

static void every_member_is_checked(void) {
    pl_model *model = open_model("mlp.pt2", NULL, PL_OK);
    REFUSED(batch, 0);
    REFUSED(batch, -7);
    REFUSED(batch, INT64_MAX);
    REFUSED(seq, INT64_MIN);
    REFUSED(precision, (pl_precision)99);
    REFUSED(precision, (pl_precision)-1);
    REFUSED(optimizer, NULL);
    REFUSED(optimizer, "hope");
    REFUSED(train, "lora-r0");
    REFUSED(loss, (pl_loss)99);
    REFUSED(accumulate, 0);
    REFUSED(accumulate, 200000);
    REFUSED(alloc_conf, "nonsense");
    REFUSED(parallel, (pl_parallel_kind)3);
    REFUSED(world, 0);
    REFUSED(world, 1 << 20);
    REFUSED(stage, 0);
    REFUSED(gpu, NULL);
    REFUSED(gpu, "abacus");
    REFUSED(estimator, NULL);
    REFUSED(estimator, "tea-leaves");
    REFUSED(host_speed, 0.0);
    REFUSED(host_speed, -2.0);
    REFUSED(host_speed, NAN);
    REFUSED(host_speed, INFINITY);
    REFUSED(copy_gbps, -2.0);
    REFUSED(copy_gbps, NAN);
    pl_job job;
    pl_job_default(&job);
    job.copy_gbps = INFINITY; /* fetched ahead: that is meant */
    CHECK_INT(pl_job_check(&job, NULL), PL_OK);
    pl_model_close(&model);
}

static void no_job_and_no_size_are_refused(void) {
    pl_model *model = open_model("mlp.pt2", NULL, PL_OK);
    pl_report *report = NULL;
    pl_error err = {0};
    CHECK_INT(pl_job_check(NULL, &err), PL_USAGE);
    pl_model *none = NULL;
    CHECK_INT(pl_model_open(&none, NULL, NULL, &err), PL_USAGE);
    pl_job usual;
    pl_job_default(&usual);
    CHECK_INT(pl_estimate(&report, NULL, &usual, &err), PL_USAGE);
    CHECK_INT(pl_estimate(&report, model, NULL, &err), PL_USAGE);
    pl_job job = {.batch = 4}; /* not by pl_job_default */
    CHECK_INT(pl_estimate(&report, model, &job, &err), PL_USAGE);
    CHECK(strstr(err.message, "pl_job_default"));
    pl_model_close(&model);
}

/* A caller that was compiled with a later header has a longer struct: what the library does not know
 * is not looked at, and its defaults are zeros there. */
static void longer_structs_of_later_callers(void) {
    struct {
        pl_job job;
        char more[64];
    } later;
    memset(&later, 0x55, sizeof later);
    pl_job_default_sized(&later.job, sizeof later);
    CHECK_INT(later.job.size, sizeof later);
    for (size_t i = 0; i < sizeof later.more; i++) CHECK_INT(later.more[i], 0);
    CHECK_INT(pl_job_check(&later.job, NULL), PL_OK);
}

/* ---- limits ---- */

static int never_again(void *context) {
    int *left = context;
    return (*left)-- <= 0;
}

static pl_status within(const pl_model *model, const pl_limits *limits, pl_error *err) {
    pl_report *report = NULL;
    pl_job job;
    pl_job_default(&job);
    job.limits = limits;
    pl_status status = pl_estimate(&report, model, &job, err);
    CHECK((report != NULL) == (status == PL_OK));
    pl_report_close(&report);
    return status;
}

static void a_request_ends_at_its_limits(void) {
    pl_model *model = open_model("resnet18.pt2", NULL, PL_OK);
    pl_error err = {0};
    pl_limits limits;
    pl_limits_default(&limits);
    CHECK_INT(within(model, &limits, &err), PL_OK);
    limits.memory_bytes = 300000;
    CHECK_INT(within(model, &limits, &err), PL_LIMIT);
    CHECK(strstr(err.message, "300000 bytes of memory"));
    pl_limits_default(&limits);
    limits.events = 100;
    CHECK_INT(within(model, &limits, &err), PL_LIMIT);
    CHECK(strstr(err.message, "100 simulated events"));
    pl_limits_default(&limits);
    limits.deadline_ns = 1; /* long ago */
    CHECK_INT(within(model, &limits, &err), PL_LIMIT);
    CHECK(strstr(err.message, "time"));
    pl_limits_default(&limits);
    int asked = 3;
    limits.cancelled = never_again;
    limits.cancel_context = &asked;
    CHECK_INT(within(model, &limits, &err), PL_LIMIT);
    CHECK_STR(err.message, "cancelled");
    pl_limits_default(&limits);
    CHECK_INT(within(model, &limits, &err), PL_OK); /* the model is as it was */
    limits.timeout_ms = -1; /* a deadline that has passed must not become none */
    CHECK_INT(within(model, &limits, &err), PL_USAGE);
    CHECK_STR(err.where, "limits");
    open_model("resnet18.pt2", &limits, PL_USAGE);
    pl_limits_default(&limits);
    limits.size = 0;
    CHECK_INT(within(model, &limits, &err), PL_USAGE);
    open_model("resnet18.pt2", &limits, PL_USAGE);
    pl_model_close(&model);
    pl_limits_default(&limits);
    limits.operators = 10;
    open_model("resnet18.pt2", &limits, PL_LIMIT);
}

/* The time of a request ends with it: what its report writes later asks nobody. */
static void limits_end_with_the_request(void) {
    pl_model *model = open_model("mlp.pt2", NULL, PL_OK);
    int asked = 1 << 20, before;
    pl_limits limits;
    pl_limits_default(&limits);
    limits.cancelled = never_again;
    limits.cancel_context = &asked;
    pl_job job;
    pl_job_default(&job);
    job.limits = &limits;
    pl_report *report = NULL;
    CHECK_INT(pl_estimate(&report, model, &job, NULL), PL_OK);
    CHECK(asked < 1 << 20);
    before = asked;
    const char *text = report ? pl_report_json(report, model) : NULL;
    CHECK(text && pl_report_json(report, model) == text);
    CHECK_INT(asked, before);
    pl_report_close(&report);
    pl_model_close(&model);
}

/* What the model holds counts against its estimates, and whatever an estimate takes, in all its
 * arenas together, stays within what was asked for. */
static void memory_is_limited_in_sum(void) {
    pl_limits limits;
    pl_limits_default(&limits);
    pl_model *model = open_model("resnet18.pt2", &limits, PL_OK);
    pl_job job;
    pl_job_default(&job);
    pl_report *report = NULL;
    CHECK_INT(pl_estimate(&report, model, &job, NULL), PL_OK);
    CHECK(model->budget.bytes > 10000);
    CHECK(report && pl_report_budget(report)->bytes > model->budget.bytes);
    pl_report_close(&report);
    limits.memory_bytes = model->budget.bytes + 1000;
    CHECK_INT(within(model, &limits, NULL), PL_LIMIT);
    pl_model_close(&model);
}

static void arenas_share_a_budget(void) {
    pl_budget budget = {.most_bytes = 1 << 20};
    pl_arena *a = pl_arena_new(&budget), *b = pl_arena_new(&budget);
    CHECK(pl_arena_alloc(a, 600 << 10) && budget.bytes >= 600 << 10);
    CHECK(!pl_arena_alloc(b, 600 << 10));
    CHECK_INT(budget.spent, PL_SPENT_BYTES);
    CHECK(!pl_arena_alloc(b, 16)); /* spent is spent */
    pl_arena_free(&a);
    pl_arena_free(&b);
    CHECK_INT(budget.bytes, 0);
}

static void no_warning_is_lost(void) {
    static const char head[] = "{\"plimsoll_graph\":1,\"name\":\"m\",\"notes\":[";
    char text[4096];
    int at = snprintf(text, sizeof text, "%s", head);
    for (int i = 0; i < 40; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s\"remark %d\"", i ? "," : "", i);
    at += snprintf(text + at, sizeof text - (size_t)at, "],\"tensors\":[],\"nodes\":[]}");
    pl_model *model = NULL;
    pl_error err = {0};
    CHECK_INT(pl_model_open_memory(&model, text, (size_t)at, "m", NULL, &err), PL_OK);
    pl_report *report = NULL;
    pl_job job;
    pl_job_default(&job);
    job.optimizer = "none";
    if (model) CHECK_INT(pl_estimate(&report, model, &job, &err), PL_OK);
    int found = 0;
    for (size_t i = 0; report && i < report->warning_count; i++)
        found += strncmp(report->warnings[i], "remark ", 7) == 0;
    CHECK_INT(found, 40);
    pl_report_close(&report);
    pl_model_close(&model);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : "tests/data/graphs";
    RUN(every_member_is_checked);
    RUN(no_job_and_no_size_are_refused);
    RUN(longer_structs_of_later_callers);
    RUN(a_request_ends_at_its_limits);
    RUN(limits_end_with_the_request);
    RUN(memory_is_limited_in_sum);
    RUN(arenas_share_a_budget);
    RUN(no_warning_is_lost);
    return check_done();
}
