/* hybrid: learns from the measured jobs of the fixture and from a few measured convolutions; what
 * it learnt is repeatable, its intervals hold their peak, and sim stays as it is. argv: the folder
 * of jobs.jsonl.xz and graphs.tar.xz, a file of measured convolutions. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "device/workspace.h"
#include "lab/train/hybrid_learn.h"
#include "lab/train/missed.h"

static const char *fixture, *measured;
static char folder[] = "/tmp/plimsoll-hybrid-XXXXXX";

static void run(const char *format, const char *a, const char *b) {
    char command[2048];
    snprintf(command, sizeof command, format, a, b);
    if (system(command) != 0) check_say(__FILE__, __LINE__, command);
}

static const char *in_folder(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static pl_jobs *open_jobs(bool convs) {
    char jobs_path[512];
    snprintf(jobs_path, sizeof jobs_path, "%s/jobs.jsonl.xz", fixture);
    const char *paths[] = {jobs_path, in_folder("convs.jsonl")};
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.graphs = in_folder("graphs");
    pl_jobs *jobs = NULL;
    pl_error err = {0};
    if (pl_jobs_open(&jobs, paths, convs ? 2 : 1, &settings, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return jobs;
}

static pl_weights *learn(const pl_jobs *jobs) {
    pl_train_settings settings;
    pl_train_settings_default(&settings);
    settings.estimator = "hybrid";
    settings.options = "trees=40";
    pl_weights *weights = NULL;
    pl_error err = {0};
    if (pl_train(&weights, jobs, &settings, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return weights;
}

static pl_report *estimate(const char *estimator, const pl_weights *weights, const pl_jobs *jobs,
                           size_t row) {
    pl_job job = jobs->items[row].job;
    job.estimator = estimator;
    job.weights = weights;
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_error err = {0};
    if (pl_jobs_graph(&model, jobs, &jobs->items[row], &jobs->limits, &err) != PL_OK ||
        pl_estimate(&report, model, &job, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    pl_model_close(&model);
    return report;
}

enum { EVERY = 7 }; /* jobs between those looked at */

static void its_intervals_hold_the_peak(void) {
    pl_jobs *jobs = open_jobs(false);
    pl_weights *weights = jobs ? learn(jobs) : NULL;
    bool has_weights = pl_estimator_find("hybrid")->has_weights;
    size_t narrower = 0, looked = 0, inside = 0;
    for (size_t i = 0; weights && i < jobs->count; i += EVERY) {
        if (jobs->items[i].graph_status != PL_OK) continue;
        pl_report *sim = estimate("sim", NULL, jobs, i);
        pl_report *hybrid = estimate("hybrid", weights, jobs, i);
        if (sim && hybrid) {
            int64_t truth = jobs->items[i].facts.measured_bytes;
            /* Without convolutions to learn from, the simulation is sim's. */
            CHECK_INT(hybrid->peak_bytes, sim->peak_bytes);
            CHECK(hybrid->low_bytes <= hybrid->peak_bytes);
            CHECK(hybrid->peak_bytes <= hybrid->high_bytes);
            CHECK(hybrid->coverage > 0.9);
            pl_report *own = has_weights ? estimate("hybrid", NULL, jobs, i) : NULL;
            narrower += own && own->high_bytes - own->low_bytes < sim->high_bytes - sim->low_bytes;
            pl_report_close(&own);
            inside += hybrid->low_bytes <= truth && truth <= hybrid->high_bytes;
            looked++;
        }
        pl_report_close(&sim);
        pl_report_close(&hybrid);
    }
    CHECK(looked >= 10 && inside * 10 >= looked * 9);
    /* By the library's weights: those of so few jobs know too few kinds of architectures. */
    CHECK(!has_weights || narrower * 2 > looked);
    pl_weights_close(&weights);
    pl_jobs_close(&jobs);
}

static void convolutions_are_learnt_and_sim_is_not_touched(void) {
    pl_jobs *jobs = open_jobs(true);
    if (!jobs) return;
    CHECK(jobs->convs.count > 500);
    int64_t before[512] = {0};
    for (size_t i = 0; i < jobs->count && i < 512; i += EVERY) {
        pl_report *sim =
            jobs->items[i].graph_status == PL_OK ? estimate("sim", NULL, jobs, i) : NULL;
        before[i] = sim ? sim->peak_bytes : -1;
        pl_report_close(&sim);
    }
    pl_weights *weights = learn(jobs);
    size_t other = 0;
    for (size_t i = 0; weights && i < jobs->count && i < 512; i += EVERY) {
        if (before[i] < 0) continue;
        pl_report *hybrid = estimate("hybrid", weights, jobs, i);
        pl_report *sim = estimate("sim", NULL, jobs, i);
        if (hybrid && sim) {
            CHECK_INT(sim->peak_bytes, before[i]);
            CHECK(hybrid->low_bytes <= hybrid->peak_bytes);
            CHECK(hybrid->peak_bytes <= hybrid->high_bytes);
            /* Three times is too far for any workspace of these jobs. */
            CHECK(hybrid->peak_bytes < 3 * sim->peak_bytes &&
                  sim->peak_bytes < 3 * hybrid->peak_bytes);
            other += hybrid->peak_bytes != sim->peak_bytes;
        }
        pl_report_close(&hybrid);
        pl_report_close(&sim);
    }
    CHECK(weights && pl_weights_part(weights, "workspace weight"));
    CHECK(other > 0); /* some workspace is chosen otherwise by so small a forest */
    pl_weights_close(&weights);
    pl_jobs_close(&jobs);
}

static void the_same_seed_gives_the_same_bytes(void) {
    pl_jobs *jobs = open_jobs(true);
    for (int i = 0; jobs && i < 2; i++) {
        pl_weights *weights = learn(jobs);
        pl_error err = {0};
        if (!weights || pl_weights_save(weights, in_folder(i ? "b.plm" : "a.plm"), &err) != PL_OK)
            check_say(__FILE__, __LINE__, err.message);
        pl_weights_close(&weights);
    }
    run("cmp -s %s %s", in_folder("a.plm"), in_folder("b.plm"));
    pl_weights *again = NULL;
    pl_error err = {0};
    CHECK_INT(pl_weights_open(&again, in_folder("a.plm"), &err), PL_OK);
    pl_weights_close(&again);
    pl_jobs_close(&jobs);
}

/* Bytes that a job's operators make in forms that the part does not have; NAN: no graph. */
static double strange_of(const pl_jobs *jobs, size_t row, const pl_trained *part) {
    pl_model *model = NULL;
    pl_graph *graph = NULL;
    pl_error err = {0};
    bool owned = false;
    int64_t batch, seq;
    pl_budget budget;
    pl_budget_start(&budget, &jobs->limits);
    double bytes = NAN;
    if (pl_jobs_graph(&model, jobs, &jobs->items[row], &jobs->limits, &err) == PL_OK &&
        pl_model_graph(model, &jobs->items[row].job, &budget, &graph, &owned, &batch, &seq, &err) ==
            PL_OK)
        bytes = pl_forms_strange(part, graph);
    if (owned) pl_graph_close(&graph);
    pl_model_close(&model);
    return bytes;
}

/* What a job's operators make in forms that no measured job had makes its interval wider: with all
 * forms but one forgotten, most of what is made is strange. */
static void strange_operators_widen_intervals(void) {
    pl_jobs *jobs = open_jobs(false);
    pl_weights *weights = jobs ? learn(jobs) : NULL;
    pl_trained *forms = weights ? (pl_trained *)pl_weights_part(weights, PL_HYBRID_FORMS) : NULL;
    CHECK(forms && forms->column_count > 100);
    size_t all = forms ? forms->column_count : 0, wider = 0, looked = 0;
    for (size_t i = 0; forms && i < jobs->count; i += EVERY) {
        if (jobs->items[i].graph_status != PL_OK) continue;
        forms->column_count = all;
        CHECK(strange_of(jobs, i, forms) == 0);
        pl_report *known = estimate("hybrid", weights, jobs, i);
        forms->column_count = 1;
        CHECK(strange_of(jobs, i, forms) > 0);
        pl_report *strange = estimate("hybrid", weights, jobs, i);
        if (known && strange) {
            CHECK_INT(strange->peak_bytes, known->peak_bytes);
            CHECK(strange->low_bytes <= known->low_bytes);
            CHECK(strange->high_bytes >= known->high_bytes);
            CHECK((double)strange->high_bytes <= 2.5 * (double)strange->peak_bytes);
            wider += strange->high_bytes > known->high_bytes;
            looked++;
        }
        pl_report_close(&known);
        pl_report_close(&strange);
    }
    if (forms) forms->column_count = all;
    CHECK(looked >= 10 && wider * 3 > looked);
    pl_weights_close(&weights);
    pl_jobs_close(&jobs);
}

static void quantiles_leave_room_for_one_more(void) {
    enum { COUNT = 99 };
    pl_missed jobs[COUNT];
    for (int round = 0; round < 2; round++) { /* the same, whatever the unit of the weights */
        for (int i = 0; i < COUNT; i++)
            jobs[i] = (pl_missed){(i * 37) % COUNT + 1, round ? 0.3 : 1};
        CHECK(pl_missed_quantile(jobs, COUNT, 0.02) == 98);  /* of 100: two beyond it */
        CHECK(pl_missed_quantile(jobs, COUNT, 0.001) == 99); /* the most that was seen */
    }
    /* Nine in ten of kin that count as one: the tenth decides. */
    for (int i = 0; i < COUNT; i++) jobs[i] = (pl_missed){i < 90 ? 0 : 1, i < 90 ? 1.0 / 90 : 1};
    CHECK(pl_missed_quantile(jobs, COUNT, 0.5) == 1);
    CHECK(pl_missed_quantile(jobs, 0, 0.5) == 0);
}

static void failures_say_what_to_do(void) {
    pl_jobs *jobs = open_jobs(false);
    if (!jobs) return;
    pl_error err = {0};
    const pl_weights *found;
    if (!pl_estimator_find("hybrid")->has_weights) {
        CHECK_INT(pl_weights_for(&found, pl_estimator_named("hybrid"), NULL, &err), PL_USAGE);
        CHECK(strstr(err.message, "plimsoll train hybrid") != NULL);
    }
    size_t few[] = {0, 1, 2};
    pl_train_settings settings;
    pl_train_settings_default(&settings);
    pl_training_set set = {.estimator = pl_estimator_named("hybrid"),
                           .jobs = jobs,
                           .rows = few,
                           .count = 3,
                           .settings = &settings};
    pl_weights *weights = NULL;
    CHECK_INT(pl_hybrid_learn(&weights, &set, &err), PL_INPUT);
    CHECK(!weights && strstr(err.message, "or more") != NULL);
    set.target = "flops";
    CHECK_INT(pl_hybrid_learn(&weights, &set, &err), PL_USAGE);
    pl_jobs_close(&jobs);
}

/* A line as tools/measure/convs.py writes it, and such that are wrong. */
static void lines_of_convolutions_are_read(void) {
    static const char good[] =
        "{\"d\":2,\"cin\":32,\"in\":[56,56],\"cout\":64,\"k\":[3,3],\"s\":[2,2],\"p\":[1,1],"
        "\"dil\":[1,1],\"g\":1,\"t\":0,\"op\":[0,0],\"src\":\"torchvision\",\"n\":8,\"mode\":"
        "\"bf16\","
        "\"cl\":1,\"bench\":1,\"backend\":\"Cudnn\",\"f1\":900,\"f\":[[16,131],[25690112]],"
        "\"bd\":[[],[4]],\"bw\":[[3933291],[18432]]}";
    static const char *const bad[] = {"{\"cin\":3", "{\"cin\":3,\"d\":4}", "{\"cin\":3,\"d\":2}",
                                      "{\"cin\":3,\"d\":2,\"mode\":\"fp16\",\"s\":[1,0]}",
                                      "{\"cin\":3,\"in\":[1,2,3,4]}"};
    pl_arena *arena = pl_arena_new(0);
    pl_convs convs = {0};
    pl_error err = {0};
    CHECK(pl_convs_line(good, strlen(good)));
    CHECK(!pl_convs_line("{\"job\":{\"cin\":1}}", 17));
    CHECK_INT(pl_convs_read(&convs, arena, "file", good, strlen(good), 0, &err), PL_OK);
    CHECK_INT(convs.count, 1);
    if (convs.count == 1) {
        const pl_measured_conv *c = &convs.items[0];
        CHECK_INT(c->conv.out[0], 28);
        CHECK_INT(c->bytes[PL_CONV_FORWARD], 131);
        CHECK_INT(c->bytes[PL_CONV_BACKWARD_DATA], 0);
        CHECK_INT(c->bytes[PL_CONV_BACKWARD_WEIGHT], 3933291);
        CHECK_INT(c->tried[PL_CONV_FORWARD], 900);
        CHECK_INT(c->tried[PL_CONV_BACKWARD_DATA], PL_UNKNOWN);
        CHECK(c->conv.channels_last && c->conv.benchmark && c->conv.tf32);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(pl_convs_read(&convs, arena, "file", bad[i], strlen(bad[i]), 100, &err),
                  PL_INPUT);
        CHECK(err.position >= 100 && strstr(err.message, "expected") != NULL);
    }
    CHECK_INT(convs.count, 1);
    pl_arena_free(&arena);
}

static void near_layers_are_found(void) {
    pl_conv conv = {.dims = 2,
                    .batch = 4,
                    .in_channels = 64,
                    .out_channels = 128,
                    .groups = 1,
                    .in = {28, 28},
                    .kernel = {3, 3},
                    .stride = {1, 1},
                    .dilation = {1, 1},
                    .padding = {1, 1},
                    .out = {28, 28}};
    pl_conv_layer layers[3];
    pl_conv other = conv;
    layers[0] = layers[1] = pl_conv_layer_of(&conv);
    other.in[0] = other.in[1] = 14;
    other.in_channels = 3;
    layers[2] = pl_conv_layer_of(&other);
    size_t count = pl_conv_layers_sort(layers, 3);
    CHECK_INT(count, 2);
    conv.batch = 32;
    CHECK(pl_conv_layers_near(layers, count, &conv)); /* any batch */
    conv.in_channels = 73;
    CHECK(pl_conv_layers_near(layers, count, &conv)); /* 9 channels away */
    conv.in_channels = 74;
    CHECK(!pl_conv_layers_near(layers, count, &conv));
    conv.in_channels = 64;
    conv.groups = 2;
    CHECK(!pl_conv_layers_near(layers, count, &conv));
    CHECK(pl_conv_layers_near(layers, count, &other));
    other.in_channels = 4; /* an image's channels are 3 or they are not */
    CHECK(!pl_conv_layers_near(layers, count, &other));
    CHECK(!pl_conv_layers_near(layers, 0, &other));
}

int main(int count, char **arguments) {
    fixture = count > 1 ? arguments[1] : "tests/data/accuracy";
    measured = count > 2 ? arguments[2] : "data/h200/convs.jsonl.xz";
    RUN(lines_of_convolutions_are_read);
    RUN(near_layers_are_found);
    RUN(quantiles_leave_room_for_one_more);
    if (!mkdtemp(folder)) {
        SKIP("hybrid", "no temporary folder");
        return check_done();
    }
    run("mkdir %s%s", in_folder("graphs"), "");
    run("tar -C %s -xf %s/graphs.tar.xz", in_folder("graphs"), fixture);
    run("xz -dc %s | head -n 1500 > %s", measured, in_folder("convs.jsonl"));
    RUN(its_intervals_hold_the_peak);
    RUN(strange_operators_widen_intervals);
    RUN(convolutions_are_learnt_and_sim_is_not_touched);
    RUN(the_same_seed_gives_the_same_bytes);
    RUN(failures_say_what_to_do);
    run("rm -r %s%s", folder, "");
    return check_done();
}
