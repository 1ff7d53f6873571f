/* forest_train: random forests (Breiman 2001) and, with extra=1, extremely randomised trees
 * (Geurts, Ernst, Wehenkel 2006), with scikit-learn's defaults.
 *
 * Every tree has its own stream of random numbers, and trees are put together by their number: the
 * threads that grow them change the time, not the result. Left out: estimates from the rows a tree
 * did not see, and importances of columns. */
#include "lab/learn/grow.h"
#include "lab/learn/learners.h"
#include "lab/learn/options.h"
#include "lab/learn/random.h"
#include "lab/learn/tree_train.h"
#include "lend.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const pl_option options[] = {
    {"trees", 100, 1, 10000, true},
    {"extra", 0, 0, 1, true},
    {"depth", 0, 0, 1e6, true}, /* 0: no limit */
    {"min_split", 2, 2, 1e9, true},
    {"min_leaf", 1, 1, 1e9, true},
    /* Share of the columns tried at a split; 0: all of a regression's, the square root of their
     * number for classes. */
    {"features", 0, 0, 1, false},
    {"bootstrap", -1, -1, 1, true}, /* rows drawn with replacement; -1: unless extra */
    {"min_gain", 0, 0, 1e30, false},
    {"threads", 0, 0, 256, true}, /* 0: one per processor */
};
enum { OPTIONS = sizeof options / sizeof *options };

/* What the threads share; only `next` and `failed` change, under the lock. */
typedef struct plan {
    const pl_samples *samples;
    const pl_sorted *sorted;
    pl_grow_settings grow;
    bool bootstrap;
    uint64_t seed;
    pl_trees *grown; /* [trees], one tree each */
    size_t trees;
    size_t next;
    bool failed;
    pthread_mutex_t lock;
    pthread_t caller; /* the one thread that asks the budget */
    pl_budget *budget;
} plan;

static size_t take(plan *p, bool failed) {
    if (pthread_equal(pthread_self(), p->caller) && !pl_budget_poll(p->budget)) failed = true;
    pthread_mutex_lock(&p->lock);
    p->failed = p->failed || failed;
    size_t tree = p->failed ? p->trees : p->next++;
    pthread_mutex_unlock(&p->lock);
    return tree;
}

static void *work(void *argument) {
    plan *p = argument;
    const size_t n = p->samples->count;
    pl_grower *grower = pl_grower_new(p->sorted, &p->grow);
    double *weights = calloc(n, sizeof *weights);
    bool failed = !grower || !weights;
    for (size_t tree; (tree = take(p, failed)) < p->trees;) {
        pl_random random = pl_random_seed(p->seed, tree + 1);
        double sum = 0;
        for (size_t i = 0; i < n; i++) weights[i] = p->bootstrap ? 0 : 1;
        for (size_t i = 0; p->bootstrap && i < n; i++)
            weights[pl_random_below(&random, (uint32_t)n)] += 1;
        for (size_t i = 0; i < n; i++) {
            if (p->samples->weights) weights[i] *= (double)p->samples->weights[i];
            sum += weights[i];
        }
        if (!(sum > 0)) /* only rows of weight 0 were drawn */
            for (size_t i = 0; i < n; i++) weights[i] = (double)p->samples->weights[i];
        p->grown[tree] =
            (pl_trees){.columns = p->samples->columns, .classes = p->samples->class_count};
        failed = !pl_grower_grow(grower, &p->grown[tree], weights, &random);
    }
    pl_grower_free(&grower);
    free(weights);
    return NULL;
}

enum { MOST_THREADS = 64 };

/* Threads that cannot be started are done without. */
static void work_together(plan *p, size_t threads) {
    pthread_t others[MOST_THREADS];
    size_t started = 0;
    p->caller = pthread_self();
    if (threads > p->trees) threads = p->trees;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    pthread_mutex_init(&p->lock, NULL);
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, p) == 0) started++;
    work(p);
    for (size_t i = 0; i < started; i++) pthread_join(others[i], NULL);
    pthread_mutex_destroy(&p->lock);
}

static size_t processors(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 1 ? (size_t)count : 1;
}

pl_status pl_forest_train(pl_learned **out, const pl_samples *samples,
                          const pl_learn_settings *settings, pl_error *err) {
    const char *text = settings->options ? settings->options : "";
    *out = NULL;
    pl_status status = pl_options_check(text, options, OPTIONS, err);
    if (status == PL_OK) status = pl_tree_check_samples(samples, "forest", err);
    if (status != PL_OK) return status;

    bool extra = pl_options_number(text, options, OPTIONS, "extra") > 0;
    double columns = (double)samples->columns;
    double share = pl_options_number(text, options, OPTIONS, "features");
    double tried = share > 0 ? share * columns : samples->class_count ? sqrt(columns) : columns;
    double bootstrap = pl_options_number(text, options, OPTIONS, "bootstrap");
    size_t threads = (size_t)pl_options_number(text, options, OPTIONS, "threads");
    pl_sorted sorted;
    plan p = {
        .samples = samples,
        .sorted = &sorted,
        .grow = {.depth = (uint32_t)pl_options_number(text, options, OPTIONS, "depth"),
                 .min_split = (uint32_t)pl_options_number(text, options, OPTIONS, "min_split"),
                 .min_leaf = (uint32_t)pl_options_number(text, options, OPTIONS, "min_leaf"),
                 .columns = (uint32_t)fmax(1, tried),
                 .extra = extra,
                 .min_gain = pl_options_number(text, options, OPTIONS, "min_gain")},
        .bootstrap = bootstrap < 0 ? !extra : bootstrap > 0,
        .seed = settings->seed,
        .budget = settings->budget,
        .trees = (size_t)pl_options_number(text, options, OPTIONS, "trees"),
    };
    pl_forest *model = pl_forest_new(samples->columns, samples->class_count);
    p.grown = calloc(p.trees, sizeof *p.grown);
    bool done = pl_sorted_open(&sorted, samples) && model && p.grown;
    if (done) {
        work_together(&p, threads ? threads : processors());
        done = !p.failed;
    }
    for (size_t t = 0; p.grown && t < p.trees; t++) {
        done = done && pl_trees_append(&model->trees, &p.grown[t]);
        pl_trees_free(&p.grown[t]);
    }
    free(p.grown);
    pl_sorted_close(&sorted);
    *out = model ? &model->learned : NULL;
    if (done) return PL_OK;
    pl_forest_close(out);
    return pl_fail(err, PL_MISSING, "forest", -1, "out of memory");
}
