/* Random jobs: every member of a pl_job within its range and beyond it (numbers of no enum, NULL,
 * garbage, NaN, huge, negative), through pl_estimate and pl_fit_batch. A job with a member that makes
 * no sense is refused with PL_USAGE, the member's name and a reason; any other is answered or refused
 * with a reason; none crashes, which the sanitizers watch. And as many random measured jobs, as JSON
 * lines through pl_jobs_open and pl_evaluate. Arguments: how many, model files. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "fuzz.h"
#include "plimsoll/lab.h"

/* One of a row of values. */
#define ONE_OF(row) ((row)[below(sizeof(row) / sizeof *(row))])

static bool rarely(void) {
    return below(12) == 0;
}

static bool often(void) {
    return below(4) != 0;
}

/* ---- text ---- */

static char garbage_room[1 << 16];

/* Bytes that are the name of nothing; sometimes very many. */
static const char *garbage(void) {
    static const char *const some[] = {
        "",      " ",     "%s%n%s%n", "adamw ",     "adamv", "lora-r", "lora-r99999999999999999999",
        "\xff",  "../..", "a:b:c:d",  "lora-r-1:x", ",,,,",  ":",      "max_split_size_mb:-1",
        "h200x", "-1",    "\n",       "hybrid,sim"};
    if (below(3)) return ONE_OF(some);
    size_t length = below(4) ? below(64) : below(sizeof garbage_room - 1);
    for (size_t i = 0; i < length; i++) garbage_room[i] = (char)(1 + below(255));
    garbage_room[length] = 0;
    return garbage_room;
}

/* ---- jobs ---- */

/* The member that was made senseless, or NULL. */
static const char *make_job(pl_job *job) {
    static const int64_t sizes[] = {1, 2, 7, 64};
    static const int64_t huge[] = {100003, INT64_C(1) << 30, INT64_C(1) << 40};
    static const int64_t wrong_sizes[] = {0, -2, INT64_MIN, -1000, INT64_MAX, INT64_C(1) << 43};
    static const int wrong_rows[] = {-1, 99, INT_MAX, INT_MIN, 7};
    static const int wrong_counts[] = {0, -1, INT_MIN, INT_MAX};
    static const double wrong_reals[] = {0, -2, (double)NAN, -(double)INFINITY, -1e300};
    static const char *const trains[] = {"all", "head", "lora-r16", "qlora-r4:all-linear"};
    static const char *const confs[] = {NULL, "expandable_segments:True", "max_split_size_mb:64"};
    static const char *const estimators[] = {"hybrid", "sim", "sim", "random-forest", "horus"};
    pl_job_default(job);
    job->batch = often() ? PL_UNKNOWN : rarely() ? ONE_OF(huge) : ONE_OF(sizes);
    job->seq = often() ? PL_UNKNOWN : rarely() ? ONE_OF(huge) : ONE_OF(sizes);
    job->precision = often() ? PL_PRECISION_AS_EXPORTED : (pl_precision)below(7);
    for (size_t k = below(30); k-- > 0;) /* the names end somewhere */
        if (pl_optimizer_name(k)) {
            job->optimizer = pl_optimizer_name(k);
            break;
        }
    job->train = often() ? NULL : ONE_OF(trains);
    job->loss = (pl_loss)below(5);
    job->checkpoint = !often();
    job->accumulate = rarely() ? 64 : 1 + (int)below(4);
    job->channels_last = !often();
    job->cudnn_benchmark = below(2);
    job->alloc_conf = ONE_OF(confs);
    job->parallel = often() ? PL_ALONE : (pl_parallel_kind)below(3);
    job->world = 1 + (int)below(16);
    job->stage = 2 + (int)below(2);
    job->parallel_mixed = below(2);
    const pl_gpu *gpu = pl_gpu_at(below(12));
    if (gpu) job->gpu = gpu->name;
    job->estimator = ONE_OF(estimators);
    job->want_timeline = rarely();
    job->want_alive = rarely();
    job->want_times = rarely();
    job->host_speed = rarely() ? PL_UNKNOWN : 0.1 + (double)below(100) / 11;
    job->copy_gbps = rarely() ? (double)INFINITY : 0.1 + (double)below(100);
    switch (below(24)) {
    case 0: job->batch = ONE_OF(wrong_sizes); return "batch";
    case 1: job->seq = ONE_OF(wrong_sizes); return "seq";
    case 2: job->precision = (pl_precision)ONE_OF(wrong_rows); return "precision";
    case 3: job->optimizer = below(2) ? NULL : garbage(); return "optimizer";
    case 4: job->loss = (pl_loss)ONE_OF(wrong_rows); return "loss";
    case 5: job->accumulate = ONE_OF(wrong_counts); return "accumulate";
    case 6: job->parallel = (pl_parallel_kind)ONE_OF(wrong_rows); return "parallel";
    case 7:
        job->parallel = below(2) ? PL_DDP : PL_FSDP2;
        job->world = ONE_OF(wrong_counts);
        return "world";
    case 8:
        job->parallel = PL_FSDP2;
        job->stage = ONE_OF(wrong_rows);
        return "stage";
    case 9: job->gpu = below(2) ? NULL : garbage(); return "gpu";
    case 10: job->estimator = below(2) ? NULL : garbage(); return "estimator";
    case 11: job->host_speed = ONE_OF(wrong_reals); return "host_speed";
    case 12: job->copy_gbps = ONE_OF(wrong_reals); return "copy_gbps";
    case 13: job->train = garbage(); return *job->train ? "train" : NULL;
    case 14:
        job->alloc_conf = garbage();
        return NULL; /* some of it is empty, and as good as none */
    default: return NULL;
    }
}

static pl_model *models[16];
static size_t model_count;
static long wanted = 10000;

static void jobs_are_refused_or_answered(void) {
    long answered = 0, refused = 0, limited = 0;
    pl_limits limits;
    pl_limits_default(&limits);
    limits.memory_bytes = (size_t)256 << 20;
    limits.events = 2000000;
    for (long i = 0; i < wanted && !check_failures_in_case; i++) {
        const pl_model *model = models[below(model_count)];
        pl_job job;
        pl_error err = {0};
        const char *bad = make_job(&job);
        job.limits = &limits;
        pl_status status;
        if (below(10) == 0) {
            pl_fit fit = PL_SIZED(pl_fit);
            static const int64_t mosts[] = {1, 64, 4096, 0, -1, INT64_MAX, INT64_MIN};
            status = pl_fit_batch(&fit, model, &job, ONE_OF(mosts), &err);
        } else {
            pl_report *report = NULL;
            status = pl_estimate(&report, model, &job, &err);
            CHECK((status == PL_OK) == (report != NULL));
            if (report) {
                CHECK(report->peak_bytes >= 0);
                if (rarely()) CHECK(pl_report_json(report, model) != NULL);
            }
            pl_report_close(&report);
        }
        answered += status == PL_OK;
        refused += status == PL_USAGE;
        limited += status == PL_LIMIT;
        if (status != PL_OK) CHECK(err.code == status && err.message[0]);
        if (bad) {
            CHECK_INT(status, PL_USAGE);
            CHECK_STR(err.where, bad);
        }
        if (check_failures_in_case)
            printf("  job %ld (%s): status %d, %s: %s\n", i, bad ? bad : "sensible", (int)status,
                   err.where, err.message);
    }
    printf("# %ld random jobs: %ld answered, %ld refused, %ld over a limit\n", wanted, answered,
           refused, limited);
    CHECK(answered > wanted / 10 && refused > wanted / 10); /* it tries both */
}

/* ---- records ---- */

static FILE *out;

static void print_value(void) {
    static const char *const values[] = {
        "0",      "-1",     "1",    "2147483647", "9223372036854775807",
        "1e308",  "-0.5",   "null", "true",       "\"\"",
        "\"ce\"", "[]",     "{}",   "\"fsdp2\"",  "\"\\u0000\"",
        "100000", "200000", "64",   "[[[]]]",     "18446744073709551616"};
    fputs(ONE_OF(values), out);
}

/* A member, sensible or, now and then, with any value. */
static void print_member(const char *name, const char *sensible) {
    if (below(40) == 0) return;
    fprintf(out, ",\"%s\":", name);
    if (below(40) == 0)
        print_value();
    else
        fputs(sensible, out);
}

static void print_record(long number) {
    static const char *const precisions[] = {"\"fp32\"", "\"amp-bf16\"", "\"bf16\""};
    static const char *const optimizers[] = {"\"adamw\"", "\"sgd\"", "\"none\""};
    static const char *const parallels[] = {"null",
                                            "{\"kind\":\"fsdp2\",\"world\":0}",
                                            "{\"kind\":\"ddp\",\"world\":4}",
                                            "{\"kind\":\"fsdp2\",\"world\":2,\"stage\":9}",
                                            "{\"kind\":7,\"world\":-1}",
                                            "{\"world\":8}"};
    static const char *const specs[] = {"{\"name\":\"m\"}", "{}"};
    fprintf(out, "{\"job\":{\"id\":\"j%ld\"", number);
    print_member("family", "\"mlp\"");
    print_member("precision", ONE_OF(precisions));
    print_member("optimizer", ONE_OF(optimizers));
    print_member("loss", "\"ce\"");
    print_member("checkpoint", "false");
    print_member("channels_last", "false");
    print_member("accumulate", "1");
    print_member("alloc_conf", "null");
    print_member("parallel", often() ? "null" : ONE_OF(parallels));
    print_member("model", ONE_OF(specs));
    print_member("batch", "4");
    print_member("seq", "16");
    print_member("host_speed", "1");
    print_member("copy_gbps", "20");
    if (often())
        print_member("config", "{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_embd\":32,\"n_head\":2,"
                               "\"vocab_size\":64,\"n_positions\":32}");
    if (below(4) == 0) print_member("train", "\"all\"");
    fprintf(out, "},\"result\":{\"peak_allocated\":1000,\"peak_reserved\":2000");
    print_member("overhead", "500");
    print_member("step_ms", "1.5");
    print_member("smact", "50");
    print_member("params", "100");
    print_member("layers", "[[\"Linear\",16,128],[\"ReLU\",16,0]]");
    fprintf(out, "}}\n");
}

/* One record in a file of its own, since a file is refused as a whole. */
static void records_are_refused_or_answered(void) {
    long answered = 0, refused = 0;
    char path[] = "/tmp/plimsoll-record-XXXXXX";
    int handle = mkstemp(path);
    CHECK(handle >= 0);
    if (handle < 0) return;
    close(handle);
    for (long i = 0; i < wanted && !check_failures_in_case; i++) {
        out = fopen(path, "w");
        if (!out) break;
        print_record(i);
        fclose(out);
        pl_jobs *jobs = NULL;
        pl_evaluation *evaluation = NULL;
        pl_error err = {0};
        pl_jobs_settings settings;
        pl_jobs_settings_default(&settings);
        settings.described = true;
        settings.threads = 1;
        pl_evaluate_settings how;
        pl_evaluate_settings_default(&how);
        how.estimator = below(4) ? "sim" : "horus";
        how.threads = 1;
        const char *const paths[] = {path};
        pl_status status = pl_jobs_open(&jobs, paths, 1, &settings, &err);
        if (status == PL_OK) status = pl_evaluate(&evaluation, jobs, &how, &err);
        bool good = evaluation && evaluation->count == 1 &&
                    pl_evaluation_trial(evaluation, 0)->status == PL_OK;
        answered += good;
        refused += !good;
        if (status != PL_OK) CHECK(err.code == status && err.message[0]);
        if (evaluation && !good) CHECK(pl_evaluation_trial(evaluation, 0)->message[0]);
        pl_evaluation_close(&evaluation);
        pl_jobs_close(&jobs);
    }
    unlink(path);
    printf("# %ld random records: %ld answered, %ld refused\n", wanted, answered, refused);
    CHECK(answered > wanted / 10 && refused > wanted / 10); /* it tries both */
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    pl_lab_register();
    wanted = atol(argv[1]);
    for (int i = 2; i < argc && model_count < sizeof models / sizeof *models; i++) {
        pl_error err = {0};
        if (pl_model_open(&models[model_count++], argv[i], NULL, &err) == PL_OK) continue;
        printf("  %s: %s\n", argv[i], err.message);
        return 3;
    }
    RUN(jobs_are_refused_or_answered);
    RUN(records_are_refused_or_answered);
    for (size_t i = 0; i < model_count; i++) pl_model_close(&models[i]);
    return check_done();
}
