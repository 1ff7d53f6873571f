/* xgboost: the real XGBoost (Chen and Guestrin 2016) by its C API, version 1.6 or later; Debian's
 * libxgboost0 is 1.7.
 *
 * The header is libxgboost-dev's, the library is loaded at first use: linking it would cost every
 * start of the command its loading. The model is kept as the library's own bytes (UBJSON). What
 * protects from damaged ones, and what does not, stands in foreign.c. Its messages are switched
 * off; with one thread (the default) the same samples give the same bytes. Left out: ranking,
 * missing values (samples have none), categories, GPUs. */
#include "lab/learn/boost.h"
#include "lab/learn/foreign.h"
#include "lab/learn/learners.h"
#include "lab/learn/options.h"
#include "lab/learn/tree_train.h"
#include "lend.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h>

typedef struct xgboost {
    pl_learned learned;
    size_t columns, classes;
    size_t scores; /* numbers the library gives: 1 for two classes */
    BoosterHandle booster;
    void *bytes; /* what it was saved as */
    size_t size;
} xgboost;

static const pl_option options[] = {
    {"trees", 100, 1, 100000, true}, /* rounds */
    {"depth", 6, 0, 1000, true},
    {"leaves", 0, 0, 1e6, true}, /* 0: by depth; else leaf by leaf up to so many */
    {"rate", 0.3, 1e-6, 1, false},
    {"lambda", 1, 0, 1e30, false},
    {"l1", 0, 0, 1e30, false},
    {"min_gain", 0, 0, 1e30, false},
    {"min_hessian", 1, 0, 1e30, false},
    {"features", 1, 0.001, 1, false},
    {"bagging", 1, 0.001, 1, false},
    {"bins", 256, 2, 65536, true},
    {"method", 0, 1, 0, false},     /* hist (default), exact, approx */
    {"loss", 0, 1, 0, false},       /* l2 (default), l1, huber, quantile (from XGBoost 2.0 on) */
    {"alpha", 0.9, 0, 1e30, false}, /* the quantile; huber: its slope */
    {"stop", 0, 0, 1e6, true},      /* rounds without a better validation loss; 0: off */
    {"threads", 1, 0, 256, true},   /* 0: one per processor */
};
enum { OPTIONS = sizeof options / sizeof *options };

static double option(const char *text, const char *key) {
    return pl_options_number(text, options, OPTIONS, key);
}

/* ---- the library ---- */

/* name in the struct, function of the header */
#define FUNCTIONS(F)                                                                               \
    F(last_error, XGBGetLastError)                                                                 \
    F(set_global, XGBSetGlobalConfig)                                                              \
    F(matrix_create, XGDMatrixCreateFromMat)                                                       \
    F(matrix_set_floats, XGDMatrixSetFloatInfo)                                                    \
    F(matrix_free, XGDMatrixFree)                                                                  \
    F(create, XGBoosterCreate)                                                                     \
    F(destroy, XGBoosterFree)                                                                      \
    F(set, XGBoosterSetParam)                                                                      \
    F(update, XGBoosterUpdateOneIter)                                                              \
    F(slice, XGBoosterSlice)                                                                       \
    F(columns, XGBoosterGetNumFeature)                                                             \
    F(predict_matrix, XGBoosterPredictFromDMatrix)                                                 \
    F(predict_dense, XGBoosterPredictFromDense)                                                    \
    F(save, XGBoosterSaveModelToBuffer)                                                            \
    F(load, XGBoosterLoadModelFromBuffer)

#define FIELD(name, function)  __typeof__(function) *name;
#define SYMBOL(name, function) {#function, offsetof(struct library, name)},

static struct library { FUNCTIONS(FIELD) } library;
static bool library_there;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void load_library(void) {
    static const pl_foreign_symbol symbols[] = {FUNCTIONS(SYMBOL)};
    static const char *const places[] = {
        "$PLIMSOLL_XGBOOST",
        "libxgboost.so.0",
        "libxgboost.so",
        "libxgboost.dylib",
        "$VIRTUAL_ENV/lib/python3*/site-packages/xgboost/lib/libxgboost.so",
        "$CONDA_PREFIX/lib/libxgboost.so",
        "~/.local/lib/python3*/site-packages/xgboost/lib/libxgboost.so",
        "/usr/local/lib/python3*/dist-packages/xgboost/lib/libxgboost.so",
    };
    library_there = pl_foreign_open(&library, symbols, sizeof symbols / sizeof *symbols, places,
                                    sizeof places / sizeof *places);
    if (library_there) library.set_global("{\"verbosity\": 0}");
}

static bool have_library(void) {
    pthread_once(&library_once, load_library);
    return library_there;
}

static pl_status missing(pl_error *err) {
    return pl_fail(err, PL_MISSING, "xgboost", -1,
                   "libxgboost.so.0 is not on this machine: install Debian's libxgboost0, or name "
                   "the library in PLIMSOLL_XGBOOST");
}

static pl_status failed(pl_error *err) {
    const char *why = library.last_error();
    size_t line = why ? strcspn(why, "\n") : 0; /* a stack of calls follows */
    return pl_fail(err, PL_USAGE, "xgboost", -1, "XGBoost: %.*s", line > 300 ? 300 : (int)line,
                   why ? why : "");
}

/* The same of a file: it is damaged, unless the library had too little memory. */
static void fail_by_library(pl_reader *reader, const char *expected) {
    const char *why = library.last_error();
    if (why && strstr(why, "bad_alloc"))
        pl_read_no_memory(reader);
    else
        pl_read_fail(reader, expected);
}

/* ---- learning ---- */

static void close_xgboost(pl_learned **learned) {
    if (!learned || !*learned) return;
    xgboost *model = (xgboost *)*learned;
    if (model->booster) library.destroy(model->booster);
    free(model->bytes);
    free(model);
    *learned = NULL;
}

static xgboost *new_xgboost(size_t columns, size_t classes) {
    xgboost *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_xgboost, classes ? classes : 1};
    model->columns = columns;
    model->classes = classes;
    model->scores = classes <= 2 ? 1 : classes;
    return model;
}

static bool make_matrix(DMatrixHandle *out, const pl_samples *s) {
    if (library.matrix_create(s->values, s->count, s->columns, NAN, out) != 0) return false;
    float *labels = calloc(s->count, sizeof *labels);
    bool done = labels != NULL;
    for (size_t i = 0; done && i < s->count; i++)
        labels[i] = s->class_count ? (float)s->classes[i] : s->targets[i];
    done = done && library.matrix_set_floats(*out, "label", labels, s->count) == 0;
    if (done && s->weights)
        done = library.matrix_set_floats(*out, "weight", s->weights, s->count) == 0;
    free(labels);
    return done;
}

static bool set_number(BoosterHandle booster, const char *name, double value) {
    char text[32];
    pl_foreign_number(text, value);
    return library.set(booster, name, text) == 0;
}

static bool set_whole(BoosterHandle booster, const char *name, double value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return library.set(booster, name, text) == 0;
}

static const struct {
    pl_boost_kind loss;
    const char *objective;
} objectives[] = {
    {PL_BOOST_L2, "reg:squarederror"},        {PL_BOOST_L1, "reg:absoluteerror"},
    {PL_BOOST_HUBER, "reg:pseudohubererror"}, {PL_BOOST_QUANTILE, "reg:quantileerror"},
    {PL_BOOST_LOGISTIC, "binary:logistic"},   {PL_BOOST_SOFTMAX, "multi:softprob"},
};

/* Every option, by XGBoost's name for it. */
static bool set_options(xgboost *model, const char *text, const pl_boost *boost, uint64_t seed,
                        const char *method) {
    static const struct {
        const char *key, *name;
        bool whole;
    } rows[] = {
        {"depth", "max_depth", true},
        {"leaves", "max_leaves", true},
        {"rate", "eta", false},
        {"lambda", "lambda", false},
        {"l1", "alpha", false},
        {"min_gain", "gamma", false},
        {"min_hessian", "min_child_weight", false},
        {"features", "colsample_bytree", false},
        {"bagging", "subsample", false},
        {"threads", "nthread", true},
    };
    BoosterHandle b = model->booster;
    bool done = library.set(b, "verbosity", "0") == 0 && library.set(b, "booster", "gbtree") == 0 &&
                library.set(b, "tree_method", method) == 0 &&
                set_whole(b, "seed", (double)(seed & 0x7fffffff));
    for (size_t i = 0; done && i < sizeof rows / sizeof *rows; i++)
        done = rows[i].whole ? set_whole(b, rows[i].name, option(text, rows[i].key))
                             : set_number(b, rows[i].name, option(text, rows[i].key));
    for (size_t i = 0; done && i < sizeof objectives / sizeof *objectives; i++)
        if (objectives[i].loss == boost->loss)
            done = library.set(b, "objective", objectives[i].objective) == 0;
    if (done && strcmp(method, "exact") != 0) done = set_whole(b, "max_bin", option(text, "bins"));
    if (done && option(text, "leaves") > 0) done = library.set(b, "grow_policy", "lossguide") == 0;
    if (done && model->scores > 1) done = set_whole(b, "num_class", (double)model->classes);
    if (done && boost->loss == PL_BOOST_QUANTILE)
        done = set_number(b, "quantile_alpha", boost->alpha);
    if (done && boost->loss == PL_BOOST_HUBER) done = set_number(b, "huber_slope", boost->alpha);
    if (done && boost->loss <= PL_BOOST_QUANTILE) { /* newer versions start there by themselves */
        double base;
        done = pl_boost_start(boost, &base) && set_number(b, "base_score", base);
    }
    return done;
}

static const char margin[] = "{\"type\": 1, \"training\": false, \"iteration_begin\": 0, "
                             "\"iteration_end\": 0, \"strict_shape\": true}";

/* Mean loss of a matrix. scores: [scores, count] working memory. */
static double loss_of(const xgboost *model, const pl_boost *boost, DMatrixHandle matrix,
                      const pl_samples *samples, double *scores) {
    const bst_ulong *shape;
    bst_ulong dimensions;
    const float *out;
    if (!samples ||
        library.predict_matrix(model->booster, matrix, margin, &shape, &dimensions, &out) != 0)
        return NAN;
    for (size_t i = 0; i < samples->count; i++)
        for (size_t k = 0; k < model->scores; k++)
            scores[k * samples->count + i] = (double)out[i * model->scores + k];
    return pl_boost_loss(boost, samples, scores);
}

/* Rounds until the end, or until validation gets no better; then only the best ones are kept. */
static bool boost_rounds(xgboost *model, const pl_boost *boost, DMatrixHandle matrices[2],
                         const pl_learn_settings *settings, const char *text) {
    const pl_samples *samples = boost->samples, *valid = settings->valid;
    const int rounds = (int)option(text, "trees"), stop = (int)option(text, "stop");
    size_t most = valid && valid->count > samples->count ? valid->count : samples->count;
    double *scores = calloc(most * model->scores, sizeof *scores);
    double best = INFINITY;
    int best_round = 0, round = 1;
    bool done = scores != NULL;
    for (; done && round <= rounds; round++) {
        done = pl_budget_poll(settings->budget) &&
               library.update(model->booster, round - 1, matrices[0]) == 0;
        if (!done || (!settings->progress && !(stop && valid))) continue;
        double valid_loss = loss_of(model, boost, matrices[1], valid, scores);
        if (valid_loss < best) {
            best = valid_loss;
            best_round = round;
        }
        if (settings->progress) {
            pl_epoch epoch = {round, rounds, loss_of(model, boost, matrices[0], samples, scores),
                              valid_loss};
            settings->progress(&epoch, settings->progress_context);
        }
        if (stop && valid && best_round && round - best_round >= stop) break;
    }
    free(scores);
    if (done && stop && valid && best_round && best_round < round) {
        BoosterHandle sliced = NULL;
        done = library.slice(model->booster, 0, best_round, 1, &sliced) == 0;
        if (done) {
            library.destroy(model->booster);
            model->booster = sliced;
        }
    }
    return done;
}

/* Keeps the model as bytes. false: the library's error, or no memory. */
static bool keep_bytes(xgboost *model) {
    bst_ulong size = 0;
    const char *bytes = NULL;
    if (library.save(model->booster, "{\"format\": \"ubj\"}", &size, &bytes) != 0) return false;
    if (size == 0 || size > PL_FOREIGN_MOST || !(model->bytes = malloc((size_t)size))) return false;
    memcpy(model->bytes, bytes, (size_t)size);
    model->size = (size_t)size;
    return true;
}

/* Scores of rows, [count, scores]; the memory is the library's, this thread's until its next call.
 * NULL: its error, or not as many scores. */
static const float *score_rows(const xgboost *model, const float *values, size_t count) {
    static const char config[] =
        "{\"type\": 1, \"training\": false, \"iteration_begin\": 0, \"iteration_end\": 0, "
        "\"strict_shape\": true, \"cache_id\": 0, \"missing\": NaN}";
    char array[200]; /* numpy's __array_interface__ */
    snprintf(array, sizeof array,
             "{\"data\": [%llu, true], \"shape\": [%zu, %zu], \"typestr\": \"<f4\", "
             "\"version\": 3}",
             (unsigned long long)(uintptr_t)values, count, model->columns);
    const bst_ulong *shape;
    bst_ulong dimensions;
    const float *result;
    if (library.predict_dense(model->booster, array, config, NULL, &shape, &dimensions, &result) !=
        0)
        return NULL;
    return dimensions >= 2 && shape[0] == count && shape[1] == model->scores ? result : NULL;
}

/* One thread, and a first prediction: the library completes a model's set-up then, which threads
 * that share it must not do at once. */
static bool get_ready(const xgboost *model) {
    float row[PL_TREE_COLUMNS] = {0};
    return library.set(model->booster, "nthread", "1") == 0 &&
           library.set(model->booster, "verbosity", "0") == 0 && score_rows(model, row, 1);
}

static pl_status train_xgboost(pl_learned **out, const pl_samples *samples,
                               const pl_learn_settings *settings, pl_error *err) {
    const char *text = settings->options ? settings->options : "";
    char loss[16] = "", method[16] = "hist";
    pl_boost boost;
    *out = NULL;
    pl_status status = pl_options_check(text, options, OPTIONS, err);
    if (status == PL_OK) status = pl_tree_check_samples(samples, "xgboost", err);
    if (status == PL_OK) status = pl_tree_check_valid(settings->valid, samples, err);
    if (status != PL_OK) return status;
    pl_options_text(text, "loss", loss, sizeof loss);
    pl_options_text(text, "method", method, sizeof method);
    status = pl_boost_open(&boost, samples, loss, option(text, "alpha"), err);
    if (status != PL_OK) return status;
    if (!pl_foreign_room(samples->count * samples->columns * sizeof *samples->values))
        return pl_fail(err, PL_MISSING, "xgboost", -1, "out of memory");
    if (!have_library()) return missing(err);

    xgboost *model = new_xgboost(samples->columns, samples->class_count);
    if (!model) return pl_fail(err, PL_MISSING, "xgboost", -1, "out of memory");
    DMatrixHandle matrices[2] = {NULL, NULL};
    bool done = make_matrix(&matrices[0], samples) &&
                (!settings->valid || make_matrix(&matrices[1], settings->valid)) &&
                library.create(matrices, settings->valid ? 2 : 1, &model->booster) == 0 &&
                set_options(model, text, &boost, settings->seed, method) &&
                boost_rounds(model, &boost, matrices, settings, text) && keep_bytes(model) &&
                get_ready(model);
    if (!done) status = failed(err);
    for (size_t i = 0; i < 2; i++)
        if (matrices[i]) library.matrix_free(matrices[i]);
    *out = &model->learned;
    if (!done) close_xgboost(out);
    return status;
}

/* ---- predicting ---- */

static pl_status predict_xgboost(const pl_learned *learned, const pl_samples *samples, float *out,
                                 pl_error *err) {
    const xgboost *model = (const xgboost *)learned;
    pl_status status = pl_tree_check_columns(samples, model->columns, "xgboost", err);
    if (status != PL_OK || samples->count == 0) return status;
    if (!pl_foreign_room(samples->count * samples->columns * sizeof *samples->values))
        return pl_fail(err, PL_MISSING, "xgboost", -1, "out of memory");
    const float *result = score_rows(model, samples->values, samples->count);
    if (!result) return failed(err);
    if (learned->outputs == model->scores) {
        memcpy(out, result, samples->count * model->scores * sizeof *out);
        return PL_OK;
    }
    for (size_t i = 0; i < samples->count; i++) { /* two classes: the second one's logit over 0 */
        out[2 * i] = 0;
        out[2 * i + 1] = result[i];
    }
    return PL_OK;
}

/* u32 classes (0: a regression), then the library's bytes (foreign.h). */
static void save_xgboost(const pl_learned *learned, pl_writer *writer) {
    const xgboost *model = (const xgboost *)learned;
    pl_write_u32(writer, (uint32_t)model->classes);
    pl_foreign_write(writer, model->bytes, model->size);
}

static pl_learned *load_xgboost(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* trees see columns only */
    size_t classes = pl_read_u32_in(reader, 0, PL_TREE_CLASSES, "a number of classes"), size;
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 1,022 columns");
    void *bytes = pl_foreign_read(reader, &size);
    if (!bytes) return NULL;
    if (!pl_foreign_room(size))
        pl_read_no_memory(reader);
    else if (!have_library())
        pl_read_fail(reader, "libxgboost.so.0 on this machine (libxgboost0)");
    xgboost *model = reader->failure ? NULL : new_xgboost(columns, classes);
    bst_ulong found = 0;
    if (!model) {
        if (!reader->failure) pl_read_no_memory(reader);
        free(bytes);
        return NULL;
    }
    model->bytes = bytes;
    model->size = size;
    if (library.create(NULL, 0, &model->booster) != 0 ||
        library.load(model->booster, bytes, size) != 0)
        fail_by_library(reader, "a model that XGBoost reads");
    else if (library.columns(model->booster, &found) != 0 || found != columns || !get_ready(model))
        fail_by_library(reader, "a model of as many columns and classes");
    pl_learned *learned = &model->learned;
    if (reader->failure) close_xgboost(&learned);
    return learned;
}

const pl_learner pl_learner_xgboost = {
    .name = "xgboost",
    .scaled = "as-is",
    .train = train_xgboost,
    .predict = predict_xgboost,
    .save = save_xgboost,
    .load = load_xgboost,
    .close = close_xgboost,
};
