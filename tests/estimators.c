/* estimators: the registry, training and evaluation: what estimators have in common. Their own
 * figures are rivals.c's, hybrid.c's and test_accuracy.sh's; learners are learn.c's, trees.c's and
 * layers.c's; what they learn from is jobs.c's. From the root of the sources: test_estimators
 * FOLDER with the fixture's jobs.jsonl.xz and graphs.tar.xz. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "fixture.h"

/* ---- the registry ---- */

/* An evaluation that was not run: the head of lab/train/evaluate.c's. */
typedef struct made {
    pl_evaluation open;
    pl_trial *trials;
} made;

/* Looks rows up while others add them. */
static void *looks_up(void *wrong) {
    for (int i = 0; i < 2000; i++) {
        pl_lab_register();
        const pl_estimator_info *info = pl_estimator_find("random-forest");
        const pl_learner *learner = pl_learner_find("network");
        if (!info || strcmp(info->name, "random-forest") != 0 || learner != &pl_learner_network)
            *(bool *)wrong = true;
    }
    return NULL;
}

static void rows_are_added_once(void) {
    enum { THREADS = 8 };
    size_t before = 0, after = 0;
    while (pl_estimator_at(before)) before++;
    pthread_t threads[THREADS];
    bool wrong[THREADS] = {false};
    size_t started = 0;
    while (started < THREADS &&
           pthread_create(&threads[started], NULL, looks_up, &wrong[started]) == 0)
        started++;
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!wrong[i]);
    }
    while (pl_estimator_at(after)) after++;
    CHECK(started > 0);
    CHECK_INT(after, before);
    CHECK_STR(pl_estimator_name(0), "hybrid");
    CHECK_STR(pl_estimator_name(1), "sim");
}

static void rows_are_whole_and_names_unique(void) {
    size_t count = 0, learning = 0;
    for (const pl_estimator *row; (row = pl_estimator_row(count)); count++) {
        const pl_estimator_info *info = pl_estimator_at(count);
        CHECK(info && info->name[0] && info->title && info->title[0]);
        CHECK(info->source && info->source[0] && info->leaves_out && info->leaves_out[0]);
        CHECK(row->estimate);
        CHECK_INT(info->learns, pl_method_of(row) != NULL);
        CHECK_INT(info->has_weights, row->built_in != NULL);
        CHECK(info->learns || !info->has_weights);
        CHECK(pl_estimator_find(info->name) == info); /* the first of that name: it is unique */
        CHECK(pl_estimator_named(info->name) == row);
        CHECK_STR(pl_estimator_name(count), info->name);
        learning += info->learns;
        const pl_method *method = pl_method_of(row);
        if (!method || method->learn) continue;
        CHECK(method->learner && method->options && (method->columns || method->steps));
        CHECK(method->hold_out >= 0 && method->hold_out < 0.9);
        CHECK(!method->refit || method->hold_out > 0); /* refit: after an interval was learnt */
    }
    CHECK(count >= 24 && learning >= 15);
    CHECK(!pl_estimator_at(count) && !pl_estimator_row(count) && !pl_estimator_name(count));
    CHECK(!pl_estimator_find("Sim") && !pl_estimator_find("") && !pl_estimator_find(NULL));
    pl_job job;
    pl_job_default(&job);
    CHECK(pl_estimator_find(job.estimator));
}

static pl_model *some_model(void) {
    pl_model *model = NULL;
    pl_error err = {0};
    if (pl_model_open(&model, in_scratch("graphs/tv-alexnet-0.json"), NULL, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return model;
}

static void unknown_names_are_refused(void) {
    pl_model *model = some_model();
    pl_report *report = NULL;
    pl_weights *weights = NULL;
    pl_evaluation *evaluation = NULL;
    pl_error err = {0};
    pl_job job;
    pl_train_settings train;
    pl_evaluate_settings evaluate;
    pl_job_default(&job);
    pl_train_settings_default(&train);
    pl_evaluate_settings_default(&evaluate);
    static const char *const names[] = {"none-such", "", "random_forest", "SIM"};
    for (size_t i = 0; model && i < sizeof names / sizeof *names; i++) {
        job.estimator = train.estimator = evaluate.estimator = names[i];
        CHECK_INT(pl_estimate(&report, model, &job, &err), PL_USAGE);
        CHECK(!report && contains(err.message, "no estimator"));
        CHECK_INT(pl_train(&weights, jobs, &train, &err), PL_USAGE);
        CHECK(!weights && contains(err.message, "no estimator"));
        CHECK_INT(pl_evaluate(&evaluation, jobs, &evaluate, &err), PL_USAGE);
        CHECK(!evaluation && contains(err.message, "no estimator"));
    }
    train.estimator = NULL; /* there is no default */
    CHECK_INT(pl_train(&weights, jobs, &train, &err), PL_USAGE);
    train.estimator = "sim";
    CHECK_INT(pl_train(&weights, jobs, &train, &err), PL_USAGE);
    CHECK(!weights && contains(err.message, "does not learn"));
    pl_model_close(&model);
}

/* ---- training ---- */

static pl_weights *train(const pl_jobs *from, const char *estimator, const char *options,
                         uint64_t seed) {
    pl_train_settings settings;
    pl_train_settings_default(&settings);
    settings.estimator = estimator;
    settings.options = options;
    settings.seed = seed;
    settings.bin_bytes = 1000 * mib;
    settings.command = "a command";
    pl_weights *weights = NULL;
    pl_error err = {0};
    if (pl_train(&weights, from, &settings, &err) != PL_OK)
        check_say(estimator, __LINE__, err.message);
    return weights;
}

/* The bytes of its file, malloc'ed. */
static char *saved(const pl_weights *weights, const char *name, size_t *size) {
    pl_error err = {0};
    const char *path = in_scratch(name);
    *size = 0;
    if (!weights) return NULL;
    if (pl_weights_save(weights, path, &err) != PL_OK) check_say(path, 0, err.message);
    return read_whole(path, size);
}

/* Those trained here, with options that take no time. */
static const struct {
    const char *estimator, *options;
    bool random; /* another seed gives other bytes behind the seed's own */
} quick[] = {
    {"decision-tree", "", false},
    {"random-forest", "trees=3", true},
    {"extra-trees", "trees=3", true},
    {"gpumemnet-mlp", "epochs=3", true},
    {"transformer-bigru", "epochs=1", true},
};
enum { QUICK = sizeof quick / sizeof *quick };

static double predicted(const pl_weights *weights, const pl_profile *profile) {
    pl_prediction p = {NAN, NAN, NAN};
    const pl_estimator *estimator = pl_estimator_named(pl_weights_describe(weights)->estimator);
    pl_error err = {0};
    if (pl_predict(&p, weights->parts[0], estimator->method, profile, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return p.value;
}

static void the_same_training_set_gives_the_same_file(void) {
    for (size_t i = 0; i < QUICK; i++) {
        size_t sizes[3];
        char *bytes[3], name[64];
        pl_weights *weights[3], *opened = NULL;
        pl_error err = {0};
        for (int k = 0; k < 3; k++) {
            weights[k] = train(made_up, quick[i].estimator, quick[i].options, k < 2 ? 5 : 6);
            snprintf(name, sizeof name, "%s-%d", quick[i].estimator, k);
            bytes[k] = saved(weights[k], name, &sizes[k]);
        }
        if (bytes[0] && bytes[1] && bytes[2]) {
            CHECK(sizes[0] == sizes[1] && memcmp(bytes[0], bytes[1], sizes[0]) == 0);
            /* More than the seed itself and the checksum. */
            size_t differ = 0, both = sizes[0] < sizes[2] ? sizes[0] : sizes[2];
            for (size_t k = 0; k < both; k++) differ += bytes[0][k] != bytes[2][k];
            if (quick[i].random) CHECK(sizes[0] != sizes[2] || differ > 20);
            const pl_weights_info *info = pl_weights_describe(weights[0]);
            CHECK_STR(info->estimator, quick[i].estimator);
            CHECK_STR(info->target, "memory");
            CHECK_STR(info->command, "a command");
            CHECK_STR(info->data, "records (60)");
            CHECK_INT(info->seed, 5);
            CHECK(contains(info->options, quick[i].options));
            CHECK(info->rows > 30 && info->rows <= 60);
            snprintf(name, sizeof name, "%s-0", quick[i].estimator);
            CHECK_INT(pl_weights_open(&opened, in_scratch(name), &err), PL_OK);
            CHECK(opened && opened->part_count == weights[0]->part_count);
            bool varies = false;
            for (size_t k = 0; opened && k < made_up->count; k++) {
                const pl_profile *p = &made_up->items[k].profile;
                double value = predicted(weights[0], p);
                CHECK(isfinite(value) && value > 0);
                CHECK(value == predicted(opened, p));
                varies |= value != predicted(opened, &made_up->items[0].profile);
            }
            if (strcmp(quick[i].estimator, "gpumemnet-mlp") != 0) CHECK(varies);
        }
        pl_weights_close(&opened);
        for (int k = 0; k < 3; k++) {
            free(bytes[k]);
            pl_weights_close(&weights[k]);
        }
    }
}

static void all_that_was_measured_is_learnt(void) {
    pl_weights *weights = train(made_up, "transformer-bigru", "epochs=1", 1);
    pl_model *model = some_model();
    if (weights && model) {
        CHECK_INT(weights->part_count, 3);
        CHECK(pl_weights_part(weights, "memory") && pl_weights_part(weights, "flops"));
        CHECK(pl_weights_part(weights, "flop-rate") && !pl_weights_part(weights, "time"));
        CHECK(pl_weights_part(weights, "flops")->rows < pl_weights_part(weights, "memory")->rows);
        pl_job job;
        pl_report *report = NULL;
        pl_error err = {0};
        pl_job_default(&job);
        job.estimator = "transformer-bigru";
        job.weights = weights;
        CHECK_INT(pl_estimate(&report, model, &job, &err), PL_OK);
        if (report) {
            CHECK_STR(report->estimator, "transformer-bigru");
            CHECK(report->peak_bytes > 0 && report->low_bytes <= report->peak_bytes);
            CHECK(report->peak_bytes <= report->high_bytes);
            CHECK_NEAR(report->coverage, 0.95);
            CHECK(isfinite(report->flops_per_step) && report->flops_per_step > 0);
            CHECK(isfinite(report->flop_rate) && report->flop_rate > 0);
            CHECK_INT(report->reserved_bytes, PL_UNKNOWN);
            CHECK(strstr(pl_report_json(report, model), "\"estimator\":\"transformer-bigru\""));
        }
        pl_report_close(&report);
    }
    pl_weights_close(&weights);
    char *text = records(24, false);
    pl_jobs *plain = open_text(text ? text : "");
    free(text);
    weights = plain ? train(plain, "transformer-bigru", "epochs=1", 1) : NULL;
    CHECK_INT(weights ? weights->part_count : 0, 1);
    pl_jobs_close(&plain);

    /* What was not learnt is not answered. */
    pl_evaluate_settings settings;
    pl_evaluation *evaluation = NULL;
    pl_error err = {0};
    pl_evaluate_settings_default(&settings);
    settings.estimator = "transformer-bigru";
    settings.weights = weights;
    settings.target = "flops";
    CHECK_INT(pl_evaluate(&evaluation, made_up, &settings, &err), PL_USAGE);
    CHECK(!evaluation && contains(err.message, "learnt memory, not flops"));
    pl_weights_close(&weights);
    pl_model_close(&model);
}

static void weights_serve_their_estimator_alone(void) {
    pl_weights *tree = train(jobs, "decision-tree", "", 1);
    pl_model *model = some_model();
    pl_report *report = NULL;
    pl_evaluation *evaluation = NULL;
    pl_error err = {0};
    pl_job job;
    pl_evaluate_settings settings;
    pl_job_default(&job);
    pl_evaluate_settings_default(&settings);
    job.weights = settings.weights = tree;
    job.estimator = settings.estimator = "random-forest";
    CHECK_INT(pl_estimate(&report, model, &job, &err), PL_USAGE);
    CHECK(!report && contains(err.message, "weights of decision-tree cannot serve random-forest"));
    CHECK_INT(pl_evaluate(&evaluation, jobs, &settings, &err), PL_USAGE);
    CHECK(!evaluation && contains(err.message, "cannot serve random-forest"));
    job.estimator = settings.estimator = "decision-tree";
    CHECK_INT(pl_estimate(&report, model, &job, &err), PL_OK);
    CHECK_INT(pl_evaluate(&evaluation, jobs, &settings, &err), PL_OK);
    /* The job as the fixture has it, asked both ways. */
    const pl_measured *item = find_job(jobs, "tv-alexnet-0");
    if (report && evaluation && item) {
        pl_report_close(&report);
        job = item->job;
        job.weights = tree;
        job.estimator = "decision-tree";
        CHECK_INT(pl_estimate(&report, model, &job, &err), PL_OK);
        const pl_trial *trial = pl_evaluation_trial(evaluation, (size_t)(item - jobs->items));
        CHECK_INT(report ? report->peak_bytes : 0, trial->peak_bytes);
        CHECK_INT(report ? report->high_bytes : 0, trial->high_bytes);
        CHECK(evaluation->seen && evaluation->folds == 0 && isnan(evaluation->train_s));
        CHECK_INT(trial->fold, -1);
    }
    pl_report_close(&report);
    pl_evaluation_close(&evaluation);

    /* The library's own, or none. */
    for (size_t i = 0; pl_estimator_at(i); i++) {
        const pl_estimator_info *info = pl_estimator_at(i);
        if (!info->learns) continue;
        job.weights = NULL;
        job.estimator = info->name;
        if (info->has_weights) { /* and they are of this version */
            CHECK_INT(pl_estimate(&report, model, &job, &err), PL_OK);
            CHECK(report && report->peak_bytes > 0);
            pl_report_close(&report);
            continue;
        }
        CHECK_INT(pl_estimate(&report, model, &job, &err), PL_USAGE);
        CHECK(!report && contains(err.message, info->name));
        CHECK(contains(err.message, "no weights of"));
    }
    pl_weights_close(&tree);
    pl_model_close(&model);
}

static void damaged_weights(void) {
    pl_weights *tree = train(made_up, "decision-tree", "", 1), *opened = NULL;
    size_t size;
    char *bytes = saved(tree, "whole", &size);
    pl_error err = {0};
    for (size_t at = 0; bytes && at < size; at += at < 300 ? 7 : 97) {
        bytes[at] = (char)(bytes[at] ^ 4);
        const char *path = write_file("damaged", bytes, size);
        CHECK_INT(pl_weights_open(&opened, path, &err), PL_INPUT);
        CHECK(!opened && err.message[0]);
        CHECK_STR(err.where, path);
        bytes[at] = (char)(bytes[at] ^ 4);
        path = write_file("damaged", bytes, at);
        CHECK_INT(pl_weights_open(&opened, path, &err), PL_INPUT);
        CHECK(!opened);
        pl_weights_close(&opened);
    }
    CHECK_INT(pl_weights_open(&opened, write_file("damaged", "text\n", 5), &err), PL_INPUT);
    CHECK_INT(pl_weights_open(&opened, in_scratch("none"), &err), PL_INPUT);
    CHECK_INT(pl_weights_open(&opened, scratch, &err), PL_INPUT);
    CHECK(!opened);
    CHECK_INT(pl_weights_save(tree, in_scratch("no-folder/file"), &err), PL_MISSING);
    CHECK(contains(err.where, "no-folder/file"));

    /* Parts of two estimators in one file. */
    pl_weights *forest = train(made_up, "random-forest", "trees=1", 1);
    size_t more;
    char *behind = saved(forest, "forest", &more), *both = malloc(size + more);
    if (bytes && behind && both) {
        memcpy(both, bytes, size);
        memcpy(both + size, behind, more);
        CHECK_INT(pl_weights_open(&opened, write_file("both", both, size + more), &err), PL_INPUT);
        CHECK(contains(err.message, "random-forest") && err.position == (int64_t)size);
        memcpy(both + size, bytes, size < more ? size : more); /* a second part, cut short */
        size_t cut = size + (size < more ? size : more) / 2;
        CHECK_INT(pl_weights_open(&opened, write_file("both", both, cut), &err), PL_INPUT);
        CHECK(err.position >= (int64_t)size && err.position <= (int64_t)cut);
        /* One and the same, again and again. */
        FILE *file = fopen(in_scratch("both"), "wb");
        for (int i = 0; file && i < 10; i++) fwrite(bytes, 1, size, file);
        if (file) fclose(file);
        CHECK_INT(pl_weights_open(&opened, in_scratch("both"), &err), PL_INPUT);
        CHECK(contains(err.message, "a second part of target"));
    }
    free(both);
    free(behind);
    free(bytes);
    pl_weights_close(&forest);
    pl_weights_close(&tree);
    pl_weights_close(&opened);
}

/* Saved, changed and saved again: files with a right checksum that this version cannot use. */
static void weights_of_other_versions_are_refused(void) {
    static const struct {
        const char *estimator, *target, *column; /* NULL: as it is; column: the second one's name */
        const char *words;
    } rows[] = {
        {NULL, NULL, NULL, NULL},
        {"decision-bree", NULL, NULL, "does not have"},
        {"horus", NULL, NULL, "does not have"},
        {"random-forest", NULL, NULL, "learnt by \"tree\""},
        {NULL, "memoir", NULL, "which decision-tree does not learn"},
        {NULL, "flops", NULL, "which decision-tree does not learn"},
        {NULL, NULL, "LOG2 sequence", "'LOG2 sequence', 'log2 sequence' is expected"},
    };
    pl_weights *tree = train(made_up, "decision-tree", "", 1), *opened = NULL;
    pl_error err = {0};
    for (size_t i = 0; tree && i < sizeof rows / sizeof *rows; i++) {
        pl_trained *part = tree->parts[0], was = *part;
        char name[64], target[64], column[64];
        const char *second = part->columns[1].name;
        snprintf(name, sizeof name, "%s", rows[i].estimator ? rows[i].estimator : was.estimator);
        snprintf(target, sizeof target, "%s", rows[i].target ? rows[i].target : was.target);
        snprintf(column, sizeof column, "%s", rows[i].column ? rows[i].column : second);
        part->estimator = name;
        part->target = target;
        part->columns[1].name = column;
        CHECK_INT(pl_weights_save(tree, in_scratch("other"), &err), PL_OK);
        part->estimator = was.estimator;
        part->target = was.target;
        part->columns[1].name = second;
        pl_status status = pl_weights_open(&opened, in_scratch("other"), &err);
        CHECK_INT(status, rows[i].words ? PL_INPUT : PL_OK);
        CHECK_INT(opened != NULL, !rows[i].words);
        if (rows[i].words) CHECK(contains(err.message, rows[i].words));
        if (rows[i].words) CHECK_STR(err.where, in_scratch("other"));
        pl_weights_close(&opened);
    }
    if (tree) { /* one column less */
        tree->parts[0]->column_count--;
        CHECK_INT(pl_weights_save(tree, in_scratch("other"), &err), PL_OK);
        tree->parts[0]->column_count++;
        CHECK_INT(pl_weights_open(&opened, in_scratch("other"), &err), PL_INPUT);
        CHECK(!opened && contains(err.message, "'', 'loss own' is expected"));
    }
    pl_weights_close(&tree);
}

static void lessons_that_cannot_be_learnt(void) {
    /* Five jobs that are all the same, of models of their own. */
    char same[4096];
    size_t used = 0;
    for (int i = 0; i < 5; i++)
        used += (size_t)snprintf(same + used, sizeof same - used,
                                 "{\"job\":{\"id\":\"i%d\",\"batch\":1}," RESULT
                                 ",\"layers\":[[\"Linear\",1,2]]}}\n",
                                 i);
    pl_jobs *alike = open_text(same);
    const struct {
        const pl_jobs *from;
        const char *estimator, *target, *options;
        double hold_out;
        int64_t bin;
        pl_status status;
        const char *words;
    } rows[] = {
        {made_up, "decision-tree", "time", "", -1, 0, PL_USAGE, "memory, flops and flop-rate"},
        {made_up, "decision-tree", "flops", "", -1, 0, PL_USAGE, "learns memory alone"},
        {made_up, "hybrid", "flops", "", -1, 0, PL_USAGE, "learns memory, and"},
        {made_up, "hybrid", NULL, "", -1, 0, PL_INPUT, "0 measured jobs with graphs"},
        {bare, "transformer-bigru", "flops", "epochs=1", -1, 0, PL_INPUT,
         "no job has a measured flops"},
        {made_up, "decision-tree", NULL, "", 0.95, 0, PL_USAGE, "leaves too few jobs"},
        {made_up, "decision-tree", NULL, "", 1, 0, PL_USAGE, "leaves too few jobs"},
        {made_up, "decision-tree", NULL, "depth", -1, 0, PL_USAGE, "depth"},
        {made_up, "decision-tree", NULL, "no-such=1", -1, 0, PL_USAGE, "no-such"},
        {made_up, "decision-tree", NULL, "min_leaf=x", -1, 0, PL_USAGE, "min_leaf"},
        {made_up, "random-forest", NULL, "trees=-1", -1, 0, PL_USAGE, "trees"},
        {made_up, "gpumemnet-mlp", NULL, "epochs=nan", -1, 0, PL_USAGE, "epochs"},
        {made_up, "gpumemnet-mlp", NULL, "net=nonsense", -1, 0, PL_USAGE, "nonsense"},
        {alike, "decision-tree", NULL, "", -1, 0, PL_INPUT, "the memory of all"},
        {alike, "decision-tree", NULL, "", 0, 0, PL_INPUT, "the memory of all 5 jobs is the same"},
        {alike, "gpumemnet-mlp", NULL, "", -1, 0, PL_INPUT, "one bin of 8000 MiB"},
        {made_up, "gpumemnet-mlp", NULL, "", -1, INT64_C(1) << 40, PL_INPUT, "smaller bins"},
    };
    for (size_t i = 0; alike && i < sizeof rows / sizeof *rows; i++) {
        pl_train_settings settings;
        pl_train_settings_default(&settings);
        settings.estimator = rows[i].estimator;
        settings.target = rows[i].target;
        settings.options = rows[i].options;
        settings.hold_out = rows[i].hold_out;
        settings.bin_bytes = rows[i].bin;
        pl_weights *weights = NULL;
        pl_error err = {0};
        pl_status status = pl_train(&weights, rows[i].from, &settings, &err);
        if (status != rows[i].status || weights || !contains(err.message, rows[i].words)) {
            check_say(rows[i].estimator, (int)i, rows[i].words);
            printf("    %d: %s\n", (int)status, err.message);
        }
        pl_weights_close(&weights);
    }
    /* One model alone: nothing can be held out by model, but by row it can. */
    pl_train_settings settings;
    pl_train_settings_default(&settings);
    pl_jobs *one = open_text("{\"job\":{\"id\":\"a\",\"model\":{\"kind\":\"m\"}}," RESULT "}}\n"
                             "{\"job\":{\"id\":\"b\",\"model\":{\"kind\":\"m\"}}," RESULT "0}}\n"
                             "{\"job\":{\"id\":\"c\",\"model\":{\"kind\":\"m\"}}," RESULT "9}}\n");
    pl_weights *weights = NULL;
    pl_error err = {0};
    settings.estimator = "decision-tree";
    settings.options = "depth=3 no-such=1"; /* the place in what was given, not in the method */
    CHECK_INT(pl_train(&weights, made_up, &settings, &err), PL_USAGE);
    CHECK_STR(err.where, "options");
    CHECK_INT(err.position, 8);
    settings.options = "";
    if (one) CHECK_INT(pl_train(&weights, one, &settings, &err), PL_USAGE);
    CHECK(contains(err.message, "one group"));
    settings.split = PL_SPLIT_ROW;
    if (one) CHECK_INT(pl_train(&weights, one, &settings, &err), PL_OK);
    pl_weights_close(&weights);
    pl_jobs_close(&one);
    pl_jobs_close(&alike);
}

/* ---- limits ---- */

/* Called by one thread, a number of times; then it says yes. */
typedef struct patience {
    int left;
    pthread_t caller;
    atomic_bool other; /* another thread has called */
} patience;

static int tired(void *context) {
    patience *p = context;
    if (!pthread_equal(pthread_self(), p->caller)) atomic_store(&p->other, true);
    return p->left-- <= 0;
}

static pl_limits limits_of(patience *p, int calls) {
    pl_limits limits;
    pl_limits_default(&limits);
    *p = (patience){.left = calls, .caller = pthread_self()};
    limits.cancelled = tired;
    limits.cancel_context = p;
    return limits;
}

static pl_jobs *open_limited(const char *path, const pl_limits *limits, bool described,
                             int threads) {
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.limits = limits;
    settings.described = described;
    settings.threads = threads;
    pl_jobs *opened = NULL;
    pl_error err = {0};
    if (pl_jobs_open(&opened, &path, 1, &settings, &err) != PL_OK) check_say(path, 0, err.message);
    return opened;
}

/* Every learner asks while it learns, not only before: hybrid apart, which has fewer than it wants. */
static void training_can_be_cancelled(void) {
    char *text = records(48, false);
    const char *path = write_file("cancelled", text, strlen(text));
    free(text);
    patience p;
    pl_limits limits = limits_of(&p, INT_MAX);
    pl_jobs *opened = open_limited(path, &limits, false, 0);
    const pl_estimator_info *info;
    for (size_t i = 0; opened && (info = pl_estimator_at(i)); i++) {
        /* one tree is asked for once, when it begins */
        bool once = strcmp(info->name, "decision-tree") == 0;
        if (!info->learns || strcmp(info->name, "hybrid") == 0) continue;
        pl_train_settings settings;
        pl_train_settings_default(&settings);
        settings.estimator = info->name;
        settings.bin_bytes = 1 << 20;
        pl_weights *weights = NULL;
        pl_error err = {0};
        p.left = once ? 0 : 2;
        pl_status status = pl_train(&weights, opened, &settings, &err);
        if (status == PL_MISSING && strstr(err.message, "is not on this machine")) continue;
        if (status != PL_LIMIT || weights || strcmp(err.message, "cancelled") != 0)
            check_say(info->name, (int)status, err.message);
        pl_weights_close(&weights);
        p.left = 3; /* folds are trained by evaluate */
        pl_evaluate_settings asked;
        pl_evaluate_settings_default(&asked);
        asked.estimator = info->name;
        asked.split = PL_SPLIT_ROW;
        asked.bin_bytes = 1 << 20;
        pl_evaluation *e = NULL;
        CHECK_INT(pl_evaluate(&e, opened, &asked, &err), PL_LIMIT);
        pl_evaluation_close(&e);
    }
    CHECK(!atomic_load(&p.other));
    pl_jobs_close(&opened);
}

#define DEEP(id, layers)                                                                           \
    "{\"job\":{\"id\":\"" id "\",\"batch\":2,\"config\":{\"model_type\":\"llama\","                \
    "\"hidden_size\":64,\"intermediate_size\":64,\"num_attention_heads\":4,"                       \
    "\"num_hidden_layers\":" layers ",\"vocab_size\":100}}," RESULT "}}\n"

/* A model that a limit cut off has no layers: it is neither learnt from nor asked about. */
static void jobs_cut_off_are_not_learnt_from(void) {
    static const char text[] = DEEP("a", "1") DEEP("b", "2") DEEP("c", "3") DEEP("d", "600");
    const char *path = write_file("deep", text, sizeof text - 1);
    pl_limits limits;
    pl_limits_default(&limits);
    limits.memory_bytes = (size_t)2 << 20;
    pl_jobs *opened = open_limited(path, &limits, true, 2);
    if (!opened) return;
    CHECK_INT(opened->items[0].graph_status, PL_OK);
    CHECK_INT(opened->items[3].graph_status, PL_LIMIT);
    pl_train_settings settings;
    pl_train_settings_default(&settings);
    settings.estimator = "random-forest";
    settings.hold_out = 0;
    pl_weights *weights = NULL;
    pl_error err = {0};
    CHECK_INT(pl_train(&weights, opened, &settings, &err), PL_LIMIT);
    CHECK(!weights && contains(err.message, "bytes of memory"));
    CHECK_STR(err.where, "d");
    pl_weights_close(&weights);
    pl_evaluate_settings asked;
    pl_evaluate_settings_default(&asked);
    asked.estimator = "random-forest";
    pl_evaluation *e = NULL;
    CHECK_INT(pl_evaluate(&e, opened, &asked, &err), PL_OK);
    if (e) {
        CHECK_INT(pl_evaluation_trial(e, 0)->status, PL_OK);
        CHECK_INT(pl_evaluation_trial(e, 3)->status, PL_LIMIT);
    }
    pl_evaluation_close(&e);
    pl_jobs_close(&opened);
}

/* Also where four threads read and estimate. */
static void the_callers_thread_alone_is_asked(void) {
    static const char text[] = DEEP("a", "30") DEEP("b", "31") DEEP("c", "32") DEEP("d", "33")
        DEEP("e", "34") DEEP("f", "35") DEEP("g", "36") DEEP("h", "37");
    const char *path = write_file("eight", text, sizeof text - 1);
    patience p;
    pl_limits limits = limits_of(&p, INT_MAX);
    pl_jobs *opened = open_limited(path, &limits, true, 4);
    pl_evaluate_settings asked;
    pl_evaluate_settings_default(&asked);
    asked.estimator = "sim";
    asked.threads = 4;
    pl_evaluation *e = NULL;
    pl_error err = {0};
    if (opened) CHECK_INT(pl_evaluate(&e, opened, &asked, &err), PL_OK);
    for (size_t i = 0; e && i < e->count; i++) CHECK_INT(pl_evaluation_trial(e, i)->status, PL_OK);
    CHECK(p.left < INT_MAX && !atomic_load(&p.other));
    pl_evaluation_close(&e);
    p.left = 0; /* from now on */
    size_t cut_off = 0;
    /* On a busy machine the other threads may be done before the caller's is asked. */
    for (int tries = 0; opened && tries < 50 && cut_off < opened->count; tries++) {
        CHECK_INT(pl_evaluate(&e, opened, &asked, &err), PL_OK);
        cut_off = 0;
        for (size_t i = 0; e && i < e->count; i++) {
            pl_status status = pl_evaluation_trial(e, i)->status;
            CHECK(status == PL_LIMIT || status == PL_OK);
            cut_off += status == PL_LIMIT;
        }
        pl_evaluation_close(&e);
    }
    CHECK_INT(cut_off, 8);
    CHECK(!atomic_load(&p.other));
    pl_jobs_close(&opened);
}

/* ---- evaluation ---- */

typedef struct watch {
    size_t calls, last, total, full; /* full: calls with all done */
    bool back, beyond;
} watch;

static void see(size_t done, size_t total, void *context) {
    watch *w = context;
    w->calls++;
    w->back |= done < w->last || (w->total && total != w->total);
    w->beyond |= done > total;
    w->full += done == total;
    w->last = done;
    w->total = total;
}

static pl_evaluation *evaluate(const pl_jobs *of, pl_evaluate_settings *settings) {
    pl_evaluation *evaluation = NULL;
    pl_error err = {0};
    watch w = {0};
    settings->progress = see;
    settings->progress_context = &w;
    if (pl_evaluate(&evaluation, of, settings, &err) != PL_OK) {
        check_say(settings->estimator, __LINE__, err.message);
        return NULL;
    }
    size_t asked = 0;
    for (size_t i = 0; i < evaluation->count; i++)
        asked += pl_evaluation_trial(evaluation, i)->elapsed_us > 0;
    CHECK(w.calls >= asked && !w.back && !w.beyond && w.last == w.total);
    CHECK_INT(w.full, asked > 0);
    return evaluation;
}

static pl_evaluate_settings asking(const char *estimator, pl_split split) {
    pl_evaluate_settings settings;
    pl_evaluate_settings_default(&settings);
    settings.estimator = estimator;
    settings.split = split;
    return settings;
}

/* Every job was asked once, and by weights that had not seen its group. */
static void check_folds(const pl_evaluation *e, const pl_jobs *of, pl_split split, int folds) {
    CHECK_INT(e->count, of->count);
    CHECK_INT(e->folds, folds);
    CHECK_INT(e->split, split);
    CHECK(!e->seen && e->train_s >= 0);
    int sizes[64] = {0};
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        CHECK_STR(t->id, of->items[i].facts.id);
        CHECK(t->status == PL_OK && t->peak_bytes > 0 && t->predicted == (double)t->peak_bytes);
        CHECK(t->measured == (double)t->measured_bytes && t->elapsed_us > 0);
        CHECK(t->fold >= 0 && t->fold < folds);
        if (t->fold >= 0 && t->fold < 64) sizes[t->fold]++;
        for (size_t k = 0; k < i; k++) {
            const pl_measured *a = &of->items[i], *b = &of->items[k];
            bool same = split == PL_SPLIT_MODEL ? a->model == b->model : a->family == b->family;
            if (split != PL_SPLIT_ROW && same) CHECK_INT(t->fold, pl_evaluation_trial(e, k)->fold);
        }
    }
    for (int k = 0; k < folds && k < 64; k++) CHECK(sizes[k] > 0);
}

static void folds_keep_groups_together(void) {
    static const struct {
        pl_split split;
        int folds;
    } rows[] = {{PL_SPLIT_MODEL, 4}, {PL_SPLIT_ROW, 3}, {PL_SPLIT_FAMILY, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_evaluate_settings settings = asking("decision-tree", rows[i].split);
        settings.folds = rows[i].folds;
        if (rows[i].split == PL_SPLIT_FAMILY) settings.folds = 3; /* not looked at */
        pl_evaluation *e = evaluate(jobs, &settings);
        if (e) check_folds(e, jobs, rows[i].split, rows[i].folds);
        if (e && rows[i].split == PL_SPLIT_FAMILY) CHECK_INT(jobs->family_count, 8);
        pl_evaluation_close(&e);
    }
    pl_split split;
    CHECK(pl_split_parse("family", &split) && split == PL_SPLIT_FAMILY);
    CHECK(pl_split_parse("none", &split) && split == PL_SPLIT_NONE);
    CHECK(!pl_split_parse("rows", &split));
    pl_evaluation *e = NULL;
    pl_error err = {0};
    pl_evaluate_settings settings = asking("decision-tree", PL_SPLIT_MODEL);
    settings.folds = 1;
    CHECK_INT(pl_evaluate(&e, jobs, &settings, &err), PL_USAGE);
    CHECK(contains(err.message, "at least 2"));
    settings.folds = 2;
    settings.options = "no-such=1"; /* training's */
    CHECK_INT(pl_evaluate(&e, jobs, &settings, &err), PL_USAGE);
    CHECK(!e && contains(err.message, "no-such"));
    settings.options = "";
    settings.folds = 13; /* of 12 models */
    CHECK_INT(pl_evaluate(&e, made_up, &settings, &err), PL_USAGE);
    CHECK(!e && contains(err.message, "12 groups"));
    pl_jobs *csv = open_text(CSV_HEAD "\n" CSV_ROW "900\n" CSV_ROW "901\n"); /* one family */
    settings = asking("decision-tree", PL_SPLIT_FAMILY);
    if (csv) CHECK_INT(pl_evaluate(&e, csv, &settings, &err), PL_USAGE);
    CHECK(!e && contains(err.message, "one family"));
    pl_jobs_close(&csv);
}

/* A tree with one leaf per job knows by heart what it has seen, and only that. */
static void what_is_asked_was_not_seen(void) {
    pl_weights *weights = train(made_up, "decision-tree", "min_leaf=1", 1);
    pl_evaluate_settings settings = asking("decision-tree", PL_SPLIT_NONE);
    settings.weights = weights;
    pl_evaluation *seen = weights ? evaluate(made_up, &settings) : NULL;
    settings = asking("decision-tree", PL_SPLIT_ROW);
    settings.options = "min_leaf=1";
    pl_evaluation *unseen = evaluate(made_up, &settings);
    size_t known = 0;
    for (size_t i = 0; seen && unseen && i < seen->count; i++) {
        const pl_trial *a = pl_evaluation_trial(seen, i), *b = pl_evaluation_trial(unseen, i);
        CHECK(fabs(a->predicted / a->measured - 1) < 1e-5);
        known += fabs(b->predicted / b->measured - 1) < 1e-5;
    }
    CHECK(known < made_up->count / 10);
    if (seen && unseen) CHECK(seen->seen && !unseen->seen);
    pl_evaluation_close(&seen);
    pl_evaluation_close(&unseen);
    pl_weights_close(&weights);
}

/* Floating-point operations: two of the three families have any, and only half of their models. */
static void jobs_without_the_target_are_left_out(void) {
    pl_evaluate_settings settings = asking("transformer-bigru", PL_SPLIT_FAMILY);
    settings.options = "epochs=1";
    settings.target = "flops";
    pl_evaluation *e = evaluate(made_up, &settings);
    size_t asked = 0;
    for (size_t i = 0; e && i < e->count; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        bool has = isfinite(made_up->items[i].flops_per_step);
        CHECK_INT(t->status, has ? PL_OK : PL_MISSING);
        CHECK_INT(isfinite(t->measured) && isfinite(t->predicted), has);
        CHECK_INT(t->fold >= 0, has);
        if (!has) CHECK_STR(t->message, "no measured flops");
        if (has) CHECK_NEAR(t->measured, made_up->items[i].flops_per_step / 1e9);
        asked += has;
    }
    CHECK_INT(asked, 20);
    if (e) CHECK_INT(e->folds, 2);
    pl_scores scores = PL_SIZED(pl_scores);
    if (e) {
        CHECK(pl_evaluation_score(&scores, e, mib, NULL, NULL));
        CHECK_INT(scores.jobs, 20);
        CHECK(isfinite(scores.mape) && isnan(scores.accuracy) && isnan(scores.width));
    }
    pl_evaluation_close(&e);
    pl_error err = {0};
    settings = asking("transformer-bigru", PL_SPLIT_MODEL);
    settings.target = "flops";
    CHECK_INT(pl_evaluate(&e, bare, &settings, &err), PL_INPUT); /* none has any */
    CHECK(!e && contains(err.message, "learn from"));
    settings.target = "time";
    CHECK_INT(pl_evaluate(&e, bare, &settings, &err), PL_USAGE);
    settings = asking("horus", PL_SPLIT_NONE);
    settings.target = "flops";
    CHECK_INT(pl_evaluate(&e, bare, &settings, &err), PL_USAGE);
    CHECK(!e && contains(err.message, "memory alone"));
}

static void what_does_not_learn_ignores_the_split(void) {
    pl_evaluate_settings settings = asking("horus", PL_SPLIT_NONE);
    pl_evaluation *plain = evaluate(jobs, &settings);
    settings = asking("horus", PL_SPLIT_MODEL);
    pl_evaluation *split = evaluate(jobs, &settings);
    if (plain && split) {
        CHECK_INT(split->split, PL_SPLIT_NONE);
        CHECK(split->folds == 0 && !split->seen && isnan(split->train_s));
        for (size_t i = 0; i < plain->count; i++) {
            CHECK_INT(pl_evaluation_trial(plain, i)->status, PL_OK); /* with and without a graph */
            CHECK_INT(pl_evaluation_trial(plain, i)->peak_bytes,
                      pl_evaluation_trial(split, i)->peak_bytes);
            CHECK_INT(pl_evaluation_trial(split, i)->fold, -1);
        }
    }
    pl_evaluation_close(&plain);
    pl_evaluation_close(&split);
}

static void jobs_without_a_graph(void) {
    size_t with = 0;
    pl_evaluate_settings settings = asking("sim", PL_SPLIT_NONE);
    pl_evaluation *e = evaluate(jobs, &settings);
    for (size_t i = 0; e && i < e->count; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        char name[256];
        snprintf(name, sizeof name, "graphs/%s.json", t->id);
        CHECK_INT(t->has_graph, access(in_scratch(name), F_OK) == 0);
        CHECK_INT(t->status, t->has_graph ? PL_OK : PL_MISSING);
        CHECK_STR(t->message, t->has_graph ? "" : "no graph");
        if (t->status != PL_OK) CHECK(isnan(t->predicted) && t->peak_bytes == PL_UNKNOWN);
        with += t->has_graph;
    }
    CHECK(with > 150 && with < jobs->count);
    pl_evaluation_close(&e);
    pl_error err = {0};
    settings.progress = NULL;
    CHECK_INT(pl_evaluate(&e, bare, &settings, &err), PL_OK);
    for (size_t i = 0; e && i < e->count; i++)
        CHECK_INT(pl_evaluation_trial(e, i)->status, PL_MISSING);
    pl_evaluation_close(&e);
    /* A graph that cannot be read is the job's own trouble. */
    const char *path = write_file("one", JOB RESULT "}}", strlen(JOB RESULT "}}"));
    write_file("a.json", "{\"graph_module\":", 16);
    pl_jobs *broken = open_files(&path, 1, scratch, "h200");
    if (broken) e = evaluate(broken, &settings);
    if (e) {
        CHECK(pl_evaluation_trial(e, 0)->has_graph &&
              pl_evaluation_trial(e, 0)->status == PL_INPUT);
        CHECK(pl_evaluation_trial(e, 0)->message[0]);
    }
    pl_evaluation_close(&e);
    pl_jobs_close(&broken);
}

static void classifiers_name_bins(void) {
    static const int64_t sizes[] = {1000, 20}; /* MiB; 20: more bins than a hundred */
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t bin = sizes[k] * mib;
        pl_evaluate_settings settings = asking("gpumemnet-mlp", PL_SPLIT_ROW);
        settings.options = "epochs=3";
        settings.folds = 2;
        settings.bin_bytes = bin;
        pl_evaluation *e = evaluate(jobs, &settings);
        if (!e) continue;
        check_folds(e, jobs, PL_SPLIT_ROW, 2);
        size_t right = 0, classes;
        for (size_t i = 0; i < e->count; i++) {
            const pl_trial *t = pl_evaluation_trial(e, i);
            CHECK_INT(t->peak_bytes % bin, bin / 2);
            CHECK(t->low_bytes % bin == 0 && t->high_bytes % bin == 0);
            CHECK(t->low_bytes < t->peak_bytes && t->peak_bytes < t->high_bytes);
            right += t->measured_bytes / bin == t->peak_bytes / bin;
        }
        int64_t first;
        uint64_t sum = 0, diagonal = 0, below = 0;
        uint64_t *table = pl_evaluation_confusion(e, bin, &classes, &first);
        for (size_t i = 0; table && i < classes * classes; i++) {
            sum += table[i];
            diagonal += i / classes == i % classes ? table[i] : 0;
            below += i / classes > i % classes ? table[i] : 0;
        }
        pl_scores scores = PL_SIZED(pl_scores);
        CHECK(pl_evaluation_score(&scores, e, bin, NULL, NULL));
        CHECK_INT(sum, e->count);
        CHECK_INT(diagonal, right);
        CHECK_INT(scores.jobs, e->count);
        CHECK_NEAR(scores.accuracy, (double)right / (double)e->count);
        CHECK_NEAR(scores.below_diagonal, (double)below / (double)e->count);
        CHECK(first >= 0 && first * bin < 800 * mib);
        free(table);
        pl_evaluation_close(&e);
    }
}

static bool is_early(const pl_trial *trial, const void *context) {
    return strcmp(trial->id, context) < 0;
}

/* Four trials that count; figures worked out by hand. */
static void scores_are_as_worked_out_by_hand(void) {
#define TRIAL(name, truth, said, low, high, us)                                                    \
    {.id = name,                                                                                   \
     .measured = truth,                                                                            \
     .predicted = said,                                                                            \
     .measured_bytes = (int64_t)(truth),                                                           \
     .peak_bytes = (int64_t)(said),                                                                \
     .low_bytes = (int64_t)(low),                                                                  \
     .high_bytes = (int64_t)(high),                                                                \
     .predicted_low = low,                                                                         \
     .predicted_high = high,                                                                       \
     .elapsed_us = us}
    pl_trial trials[] = {
        TRIAL("a", 100e6, 110e6, 90e6, 120e6, 1), TRIAL("b", 200e6, 180e6, 170e6, 190e6, 3),
        TRIAL("c", 400e6, 400e6, 0, 0, 2),        TRIAL("d", 300e6, 291e6, 280e6, 310e6, 10),
        TRIAL("e", 50e6, 5e9, 1e6, 9e9, 99),      TRIAL("f", 50e6, 5e9, 1e6, 9e9, 99)};
#undef TRIAL
    trials[2].low_bytes = trials[2].high_bytes = PL_UNKNOWN;
    trials[2].predicted_low = trials[2].predicted_high = NAN;
    trials[4].status = PL_MISSING;
    trials[5].predicted = NAN;
    made e_made = {{.estimator = "x", .target = "memory", .count = 6}, trials};
    const pl_evaluation *of = &e_made.open;
    pl_scores s = PL_SIZED(pl_scores);
    CHECK(pl_evaluation_score(&s, of, 100000000, NULL, NULL));
    CHECK_INT(s.jobs, 4);
    CHECK_NEAR(s.mse, 145.25); /* (10^2 + 20^2 + 0 + 9^2) / 4 */
    CHECK_NEAR(s.rmse, sqrt(145.25));
    CHECK_NEAR(s.mae, 9.75);
    CHECK_NEAR(s.mape, 5.75); /* 10 %, 10 %, 0 and 3 % */
    CHECK_NEAR(s.mean, 0.0575);
    CHECK_NEAR(s.median, 0.065);
    CHECK_NEAR(s.p90, 0.1);
    CHECK_NEAR(s.r2, 1 - 581.0 / 50000);
    CHECK_NEAR(s.too_low, 0.25);
    CHECK_NEAR(s.above_high, 1.0 / 3);
    CHECK_NEAR(s.inside, 2.0 / 3);
    CHECK_NEAR(s.within_1, 0.25);
    CHECK_NEAR(s.within_5, 0.5);
    CHECK_NEAR(s.within_15, 1);
    CHECK_NEAR(s.width, 20.0 / 180);
    CHECK_NEAR(s.exact, 0.25);
    CHECK_NEAR(s.elapsed_us, 2.5);
    CHECK_NEAR(s.accuracy, 0.5); /* bins 1, 2, 4, 3, named 1, 1, 4, 2 */
    CHECK_NEAR(s.recall, 0.5);
    CHECK_NEAR(s.precision, 0.375);
    CHECK_NEAR(s.f1, (2.0 / 3 + 1) / 4);
    CHECK_NEAR(s.macro_f1, (2.0 / 3 + 1) / 4);
    CHECK_NEAR(s.below_diagonal, 0.5);
    size_t classes;
    int64_t first;
    uint64_t *table = pl_evaluation_confusion(of, 100000000, &classes, &first);
    static const uint64_t want[16] = {1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1};
    CHECK(classes == 4 && first == 1 && table && memcmp(table, want, sizeof want) == 0);
    free(table);
    CHECK(pl_evaluation_score(&s, of, 100000000, is_early, "c"));
    CHECK_INT(s.jobs, 2);
    CHECK_NEAR(s.mae, 15);
    CHECK_NEAR(s.above_high, 0.5);
    CHECK_NEAR(s.accuracy, 0.5);
    CHECK(pl_evaluation_score(&s, of, 100000000, is_early, "a")); /* none */
    CHECK(s.jobs == 0 && isnan(s.mse) && isnan(s.accuracy) && isnan(s.elapsed_us));
    e_made.open.count = 0;
    CHECK(!pl_evaluation_confusion(of, 100000000, &classes, &first) && classes == 0);
    e_made.open.count = 6;
    e_made.open.target = "flops"; /* its own unit, no bins, no intervals */
    for (size_t i = 0; i < 6; i++) trials[i].predicted_low = trials[i].predicted_high = NAN;
    CHECK(pl_evaluation_score(&s, of, 100000000, NULL, NULL));
    CHECK_NEAR(s.mae, 9.75e6);
    CHECK(isnan(s.accuracy) && isnan(s.width) && isnan(s.above_high) && isnan(s.inside));
}

/* A prediction leans to high by a quarter of its interval's upper part; a measured value does not. */
static void levels_lean_to_high(void) {
    pl_family t = PL_FAMILY_TRANSFORMER;
    CHECK(pl_level_of(t, PL_SMACT, 79.9) == PL_LEVEL_MEDIUM);
    CHECK(pl_level_of(t, PL_SMACT, 80) == PL_LEVEL_HIGH);
    CHECK(pl_level_predicted(t, PL_SMACT, &(pl_figure){79, 70, 82}) == PL_LEVEL_MEDIUM);
    CHECK(pl_level_predicted(t, PL_SMACT, &(pl_figure){79, 70, 84}) == PL_LEVEL_HIGH);
    CHECK(pl_level_predicted(t, PL_SMACT, &(pl_figure){79, NAN, NAN}) == PL_LEVEL_MEDIUM);
    CHECK(pl_level_predicted(t, PL_SMACT, &(pl_figure){29, 10, 100}) == PL_LEVEL_LOW);
    CHECK(pl_level_predicted(t, PL_SMACT, &(pl_figure){NAN, NAN, NAN}) == PL_LEVEL_UNKNOWN);
    CHECK(pl_level_predicted(t, PL_TENSOR, &(pl_figure){50, 40, 60}) == PL_LEVEL_UNKNOWN);
    CHECK(pl_level_predicted(PL_FAMILY_UNKNOWN, PL_SMACT, &(pl_figure){50, 40, 60}) ==
          PL_LEVEL_UNKNOWN);
}

/* Counters: differences in points, and the classes of each job's own family. */
static void counters_have_points_and_classes(void) {
#define TRIAL(name, of, truth, said, low, high)                                                    \
    {.id = name,                                                                                   \
     .family = of,                                                                                 \
     .measured = truth,                                                                            \
     .predicted = said,                                                                            \
     .predicted_low = low,                                                                         \
     .predicted_high = high}
    pl_trial trials[] = {TRIAL("a", "mlp", 75, 71, 60, 80),         /* high, high */
                         TRIAL("b", "cnn", 75, 92, 80, 96),         /* medium, high */
                         TRIAL("c", "transformer", 80, 79, 70, 82), /* high, medium */
                         TRIAL("d", "rnn", 0, 2, 0, 5),             /* low, low */
                         TRIAL("e", "other", 50, 50, NAN, NAN)};    /* no classes */
#undef TRIAL
    made e_made = {{.estimator = "x", .target = "smact", .count = 5}, trials};
    const pl_evaluation *of = &e_made.open;
    pl_scores s = PL_SIZED(pl_scores);
    CHECK(pl_evaluation_score(&s, of, 0, NULL, NULL));
    CHECK_INT(s.jobs, 5);
    CHECK_NEAR(s.mae, 24.0 / 5);
    CHECK_NEAR(s.mean, 0.24 / 5);
    CHECK_NEAR(s.median, 0.02);
    CHECK_NEAR(s.within_5, 0.8);
    CHECK_NEAR(s.inside, 0.75);
    CHECK_NEAR(s.width, 0.14); /* of 20, 16, 12 and 5 points */
    CHECK_NEAR(s.too_low, 0);
    CHECK_NEAR(s.accuracy, 0.5);
    CHECK_NEAR(s.high_recall, 0.5);
    CHECK_NEAR(s.macro_f1, (1 + 0 + 0.5) / 3);
    CHECK(isnan(s.mape));
    size_t classes;
    int64_t first;
    uint64_t *table = pl_evaluation_confusion(of, 0, &classes, &first);
    static const uint64_t want[9] = {1, 0, 0, 0, 0, 1, 0, 1, 1};
    CHECK(classes == 3 && first == 0 && table && memcmp(table, want, sizeof want) == 0);
    free(table);
    e_made.open.target = "tensor"; /* no classes at all */
    CHECK(pl_evaluation_score(&s, of, 0, NULL, NULL));
    CHECK_NEAR(s.mae, 24.0 / 5);
    CHECK(isnan(s.accuracy) && isnan(s.high_recall));
    e_made.open.target = "step_ms"; /* relative, in its own unit */
    e_made.open.count = 3;
    CHECK(pl_evaluation_score(&s, of, 0, NULL, NULL));
    CHECK_NEAR(s.median, 4.0 / 75);
    CHECK_NEAR(s.within_15, 2.0 / 3);
    CHECK(isnan(s.accuracy));
}

static void threads_change_nothing(void) {
    static const struct {
        const char *estimator, *options;
        pl_split split;
    } rows[] = {{"decision-tree", "", PL_SPLIT_MODEL},
                {"random-forest", "trees=3", PL_SPLIT_ROW},
                {"faketensor", "", PL_SPLIT_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_evaluation *e[2];
        for (int k = 0; k < 2; k++) {
            pl_evaluate_settings settings = asking(rows[i].estimator, rows[i].split);
            settings.options = rows[i].options;
            settings.folds = 2;
            settings.threads = k ? 4 : 1;
            e[k] = evaluate(jobs, &settings);
        }
        for (size_t k = 0; e[0] && e[1] && k < e[0]->count; k++) {
            const pl_trial *a = pl_evaluation_trial(e[0], k), *b = pl_evaluation_trial(e[1], k);
            CHECK(a->status == b->status && a->fold == b->fold && a->peak_bytes == b->peak_bytes);
            CHECK(a->low_bytes == b->low_bytes && a->high_bytes == b->high_bytes);
            CHECK(strcmp(a->message, b->message) == 0);
        }
        pl_evaluation_close(&e[0]);
        pl_evaluation_close(&e[1]);
    }
}

/* Forests answer with their last leaf and classifiers with their last bin, whatever is asked: far
 * outside what was learnt the estimate says so, has no interval, and does not fit. */
static void far_outside_what_was_learnt(void) {
    static const char *const names[] = {"random-forest", "extra-trees", "gpumemnet-mlp",
                                        "gpumemnet-transformer"};
    pl_model *model = NULL;
    pl_error err = {0};
    CHECK_INT(pl_model_open(&model, "examples/mlp.yaml", NULL, &err), PL_OK);
    for (size_t i = 0; model && i < 2 * sizeof names / sizeof *names; i++) {
        bool far = i % 2;
        pl_report *report = NULL;
        pl_job job;
        pl_job_default(&job);
        job.estimator = names[i / 2];
        job.batch = far ? 1 << 30 : 64;
        CHECK_INT(pl_estimate(&report, model, &job, &err), PL_OK);
        if (!report) continue;
        bool warned = false;
        for (size_t k = 0; k < report->warning_count; k++)
            warned |=
                strstr(report->warnings[k], "outside what was learnt: batch 1073741824") != NULL;
        CHECK_INT(warned, far);
        CHECK_INT(report->fits, !far);
        CHECK_INT(report->high_bytes == PL_UNKNOWN, far);
        CHECK(report->peak_bytes > 0);
        pl_report_close(&report);
    }
    pl_model_close(&model);
}

int main(int count, char **arguments) {
    bool opened = count == 2 && fixture_open(arguments[1], "estimators");
    if (opened) {
        RUN(far_outside_what_was_learnt);
        RUN(training_can_be_cancelled);
        RUN(jobs_cut_off_are_not_learnt_from);
        RUN(the_callers_thread_alone_is_asked);
        RUN(rows_are_added_once);
        RUN(rows_are_whole_and_names_unique);
        RUN(unknown_names_are_refused);
        RUN(the_same_training_set_gives_the_same_file);
        RUN(all_that_was_measured_is_learnt);
        RUN(weights_serve_their_estimator_alone);
        RUN(damaged_weights);
        RUN(weights_of_other_versions_are_refused);
        RUN(lessons_that_cannot_be_learnt);
        RUN(folds_keep_groups_together);
        RUN(what_is_asked_was_not_seen);
        RUN(jobs_without_the_target_are_left_out);
        RUN(what_does_not_learn_ignores_the_split);
        RUN(jobs_without_a_graph);
        RUN(classifiers_name_bins);
        RUN(scores_are_as_worked_out_by_hand);
        RUN(levels_lean_to_high);
        RUN(counters_have_points_and_classes);
        RUN(threads_change_nothing);
    }
    return fixture_close(opened);
}
