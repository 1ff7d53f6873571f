/* lightgbm: the real LightGBM (Ke et al. 2017) by its C API, where its library is on the machine;
 * leafwise.c is ours.
 *
 * Distributions have no package of the library, Python's has it inside, so there is no header to
 * build with: the few functions are declared here as LightGBM 3.3 to 4 documents them. The model is
 * kept as the library's own text. What protects from damaged ones, and what does not, stands in
 * foreign.c. Its messages are switched off; deterministic, row-wise, and with one thread by
 * default, so the same samples give the same bytes. Left out: ranking, categories, GPUs. */
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

/* The library's handles are void pointers; these only name what they hold. */
typedef struct lgbm_dataset *lgbm_dataset;
typedef struct lgbm_booster *lgbm_booster;
typedef struct lgbm_fast *lgbm_fast; /* a prediction of one row, prepared */

enum { FLOAT32 = 0, RAW_SCORE = 1, ROW_MAJOR = 1, MOST_STACK = 64 };

typedef struct lightgbm {
    pl_learned learned;
    size_t columns, classes;
    size_t scores; /* numbers the library gives: 1 for two classes */
    lgbm_booster booster;
    lgbm_fast fast;
    char *text; /* what it was saved as, with the 0 */
    size_t size;
} lightgbm;

static const pl_option options[] = {
    {"trees", 100, 1, 100000, true},                              /* rounds */
    {"leaves", 31, 2, 131072, true},  {"depth", 0, 0, 1e6, true}, /* 0: no limit */
    {"min_leaf", 20, 0, 1e9, true},   {"min_hessian", 1e-3, 0, 1e30, false},
    {"min_gain", 0, 0, 1e30, false},  {"lambda", 0, 0, 1e30, false},
    {"l1", 0, 0, 1e30, false},        {"rate", 0.1, 1e-6, 1, false},
    {"features", 1, 0.001, 1, false}, {"bagging", 1, 0.001, 1, false},
    {"bins", 255, 2, 65535, true},    {"min_bin", 3, 1, 1e6, true},
    {"loss", 0, 1, 0, false},       /* l2 (default), l1, huber, quantile */
    {"alpha", 0.9, 0, 1e30, false}, /* the quantile; huber: from where on it is linear */
    {"stop", 0, 0, 1e6, true},      /* rounds without a better validation loss; 0: off */
    {"threads", 1, 0, 256, true},   /* 0: one per processor */
};
enum { OPTIONS = sizeof options / sizeof *options };

static double option(const char *text, const char *key) {
    return pl_options_number(text, options, OPTIONS, key);
}

/* ---- the library ---- */

static struct library {
    const char *(*last_error)(void);
    int (*log)(void (*callback)(const char *message));
    int (*dataset_create)(const void *values, int type, int32_t rows, int32_t columns,
                          int row_major, const char *parameters, lgbm_dataset reference,
                          lgbm_dataset *out);
    int (*dataset_set)(lgbm_dataset dataset, const char *field, const void *values, int count,
                       int type);
    int (*dataset_free)(lgbm_dataset dataset);
    int (*create)(lgbm_dataset dataset, const char *parameters, lgbm_booster *out);
    int (*destroy)(lgbm_booster booster);
    int (*update)(lgbm_booster booster, int *finished);
    int (*columns)(lgbm_booster booster, int *out);
    int (*classes)(lgbm_booster booster, int *out);
    int (*predict)(lgbm_booster booster, const void *values, int type, int32_t rows,
                   int32_t columns, int row_major, int what, int first_round, int rounds,
                   const char *parameters, int64_t *out_count, double *out);
    int (*fast_open)(lgbm_booster booster, int what, int first_round, int rounds, int type,
                     int32_t columns, const char *parameters, lgbm_fast *out);
    int (*fast_predict)(lgbm_fast fast, const void *values, int64_t *out_count, double *out);
    int (*fast_free)(lgbm_fast fast);
    int (*save)(lgbm_booster booster, int first_round, int rounds, int importance, int64_t room,
                int64_t *size, char *out);
    int (*load)(const char *text, int *rounds, lgbm_booster *out);
} library;
static bool library_there;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void say_nothing(const char *message) {
    (void)message;
}

static void load_library(void) {
    static const pl_foreign_symbol symbols[] = {
        {"LGBM_GetLastError", offsetof(struct library, last_error)},
        {"LGBM_RegisterLogCallback", offsetof(struct library, log)},
        {"LGBM_DatasetCreateFromMat", offsetof(struct library, dataset_create)},
        {"LGBM_DatasetSetField", offsetof(struct library, dataset_set)},
        {"LGBM_DatasetFree", offsetof(struct library, dataset_free)},
        {"LGBM_BoosterCreate", offsetof(struct library, create)},
        {"LGBM_BoosterFree", offsetof(struct library, destroy)},
        {"LGBM_BoosterUpdateOneIter", offsetof(struct library, update)},
        {"LGBM_BoosterGetNumFeature", offsetof(struct library, columns)},
        {"LGBM_BoosterGetNumClasses", offsetof(struct library, classes)},
        {"LGBM_BoosterPredictForMat", offsetof(struct library, predict)},
        {"LGBM_BoosterPredictForMatSingleRowFastInit", offsetof(struct library, fast_open)},
        {"LGBM_BoosterPredictForMatSingleRowFast", offsetof(struct library, fast_predict)},
        {"LGBM_FastConfigFree", offsetof(struct library, fast_free)},
        {"LGBM_BoosterSaveModelToString", offsetof(struct library, save)},
        {"LGBM_BoosterLoadModelFromString", offsetof(struct library, load)},
    };
    static const char *const places[] = {
        "$PLIMSOLL_LIGHTGBM",
        "lib_lightgbm.so",
        "lib_lightgbm.dylib",
        "$VIRTUAL_ENV/lib/python3*/site-packages/lightgbm/lib/lib_lightgbm.so",
        "$CONDA_PREFIX/lib/lib_lightgbm.so",
        "~/.local/lib/python3*/site-packages/lightgbm/lib/lib_lightgbm.so",
        "/usr/local/lib/python3*/dist-packages/lightgbm/lib/lib_lightgbm.so",
        "/usr/local/lib/python3*/site-packages/lightgbm/lib/lib_lightgbm.so",
        "/usr/local/lib/lib_lightgbm.so",
    };
    library_there = pl_foreign_open(&library, symbols, sizeof symbols / sizeof *symbols, places,
                                    sizeof places / sizeof *places);
    if (library_there) library.log(say_nothing);
}

static bool have_library(void) {
    pthread_once(&library_once, load_library);
    return library_there;
}

static pl_status missing(pl_error *err) {
    return pl_fail(err, PL_MISSING, "lightgbm", -1,
                   "lib_lightgbm.so is not on this machine: `pip install lightgbm` has it, in "
                   "site-packages/lightgbm/lib; name it in PLIMSOLL_LIGHTGBM");
}

static pl_status failed(pl_error *err) {
    return pl_fail(err, PL_USAGE, "lightgbm", -1, "LightGBM: %.300s", library.last_error());
}

/* ---- learning ---- */

static void close_lightgbm(pl_learned **learned) {
    if (!learned || !*learned) return;
    lightgbm *model = (lightgbm *)*learned;
    if (model->fast) library.fast_free(model->fast);
    if (model->booster) library.destroy(model->booster);
    free(model->text);
    free(model);
    *learned = NULL;
}

static lightgbm *new_lightgbm(size_t columns, size_t classes) {
    lightgbm *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_lightgbm, classes ? classes : 1};
    model->columns = columns;
    model->classes = classes;
    model->scores = classes <= 2 ? 1 : classes;
    return model;
}

static const struct {
    pl_boost_kind loss;
    const char *objective;
} objectives[] = {
    {PL_BOOST_L2, "regression"},   {PL_BOOST_L1, "regression_l1"},
    {PL_BOOST_HUBER, "huber"},     {PL_BOOST_QUANTILE, "quantile"},
    {PL_BOOST_LOGISTIC, "binary"}, {PL_BOOST_SOFTMAX, "multiclass"},
};

/* Every option by LightGBM's name for it, "name=value name=value". */
static void write_parameters(char *out, size_t size, const char *text, const pl_boost *boost,
                             uint64_t seed) {
    static const struct {
        const char *key, *name;
        bool whole;
    } rows[] = {
        {"leaves", "num_leaves", true},
        {"min_leaf", "min_data_in_leaf", true},
        {"min_hessian", "min_sum_hessian_in_leaf", false},
        {"min_gain", "min_gain_to_split", false},
        {"lambda", "lambda_l2", false},
        {"l1", "lambda_l1", false},
        {"rate", "learning_rate", false},
        {"features", "feature_fraction", false},
        {"bagging", "bagging_fraction", false},
        {"bins", "max_bin", true},
        {"min_bin", "min_data_in_bin", true},
        {"threads", "num_threads", true},
    };
    double depth = option(text, "depth");
    size_t used = (size_t)snprintf(
        out, size,
        "verbosity=-1 deterministic=true force_row_wise=true seed=%u bagging_freq=%d max_depth=%d",
        (unsigned)(seed & 0x7fffffff), option(text, "bagging") < 1, depth > 0 ? (int)depth : -1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && used < size; i++) {
        char number[32];
        double value = option(text, rows[i].key);
        if (rows[i].whole)
            snprintf(number, sizeof number, "%lld", (long long)value);
        else
            pl_foreign_number(number, value);
        used += (size_t)snprintf(out + used, size - used, " %s=%s", rows[i].name, number);
    }
    for (size_t i = 0; i < sizeof objectives / sizeof *objectives && used < size; i++)
        if (objectives[i].loss == boost->loss)
            used +=
                (size_t)snprintf(out + used, size - used, " objective=%s", objectives[i].objective);
    char alpha[32];
    pl_foreign_number(alpha, boost->alpha);
    if ((boost->loss == PL_BOOST_QUANTILE || boost->loss == PL_BOOST_HUBER) && used < size)
        used += (size_t)snprintf(out + used, size - used, " alpha=%s", alpha);
    if (boost->loss == PL_BOOST_SOFTMAX && used < size)
        snprintf(out + used, size - used, " num_class=%zu", boost->scores);
}

static bool make_dataset(lgbm_dataset *out, const pl_samples *s, const char *parameters) {
    if (library.dataset_create(s->values, FLOAT32, (int32_t)s->count, (int32_t)s->columns,
                               ROW_MAJOR, parameters, NULL, out) != 0)
        return false;
    float *labels = calloc(s->count, sizeof *labels);
    bool done = labels != NULL;
    for (size_t i = 0; done && i < s->count; i++)
        labels[i] = s->class_count ? (float)s->classes[i] : s->targets[i];
    done = done && library.dataset_set(*out, "label", labels, (int)s->count, FLOAT32) == 0;
    if (done && s->weights)
        done = library.dataset_set(*out, "weight", s->weights, (int)s->count, FLOAT32) == 0;
    free(labels);
    return done;
}

/* Adds the last round's trees to the samples' scores, [scores, count]. fresh: [count, scores]. */
static bool add_round(const lightgbm *model, const pl_samples *s, int round, double *scores,
                      double *fresh) {
    int64_t count = 0;
    if (library.predict(model->booster, s->values, FLOAT32, (int32_t)s->count, (int32_t)s->columns,
                        ROW_MAJOR, RAW_SCORE, round - 1, 1, "num_threads=1", &count, fresh) != 0)
        return false;
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < model->scores; k++)
            scores[k * s->count + i] += fresh[i * model->scores + k];
    return true;
}

/* Rounds until the end, or until validation gets no better. *keep: how many are kept. */
static bool boost_rounds(lightgbm *model, const pl_boost *boost, const pl_learn_settings *settings,
                         const char *text, int *keep) {
    const pl_samples *samples = boost->samples, *valid = settings->valid;
    const int rounds = (int)option(text, "trees"), stop = (int)option(text, "stop");
    const bool watched = settings->progress || (stop && valid);
    const size_t n = samples->count, v = valid ? valid->count : 0;
    double *scores = calloc((n + v + (n > v ? n : v)) * model->scores, sizeof *scores);
    if (!scores) return false;
    double *valid_scores = scores + n * model->scores, *fresh = valid_scores + v * model->scores;
    bool done = true;
    double best = INFINITY;
    int best_round = 0, round = 1, finished = 0;
    for (; done && round <= rounds && !finished; round++) {
        done = pl_budget_poll(settings->budget) && library.update(model->booster, &finished) == 0;
        *keep = round;
        if (!done || !watched || finished) continue;
        if (valid) done = add_round(model, valid, round, valid_scores, fresh);
        if (done && settings->progress) done = add_round(model, samples, round, scores, fresh);
        double valid_loss = valid && done ? pl_boost_loss(boost, valid, valid_scores) : NAN;
        if (valid_loss < best) {
            best = valid_loss;
            best_round = round;
        }
        if (done && settings->progress) {
            pl_epoch epoch = {round, rounds, pl_boost_loss(boost, samples, scores), valid_loss};
            settings->progress(&epoch, settings->progress_context);
        }
        if (stop && best_round && round - best_round >= stop) break;
    }
    if (stop && best_round) *keep = best_round;
    free(scores);
    return done;
}

/* Keeps the first rounds as text. */
static bool keep_text(lightgbm *model, int rounds) {
    int64_t size = 0; /* with the 0 */
    if (library.save(model->booster, 0, rounds, 0, 0, &size, NULL) != 0) return false;
    if (size < 2 || size > PL_FOREIGN_MOST || !(model->text = malloc((size_t)size))) return false;
    if (library.save(model->booster, 0, rounds, 0, size, &size, model->text) != 0) return false;
    model->size = (size_t)size - 1;
    return true;
}

/* The model from its text; one that was just learnt comes the same way, so that it predicts as it
 * will when it is read from a file. */
static bool from_text(lightgbm *model) {
    int rounds = 0, columns = 0, classes = 0;
    if (model->booster) library.destroy(model->booster);
    model->booster = NULL;
    return library.load(model->text, &rounds, &model->booster) == 0 &&
           library.columns(model->booster, &columns) == 0 && columns > 0 &&
           (size_t)columns == model->columns && library.classes(model->booster, &classes) == 0 &&
           classes > 0 && (size_t)classes == model->scores &&
           library.fast_open(model->booster, RAW_SCORE, 0, 0, FLOAT32, (int32_t)columns,
                             "num_threads=1 verbosity=-1", &model->fast) == 0;
}

static pl_status train_lightgbm(pl_learned **out, const pl_samples *samples,
                                const pl_learn_settings *settings, pl_error *err) {
    const char *text = settings->options ? settings->options : "";
    char loss[16] = "", parameters[2048];
    pl_boost boost;
    *out = NULL;
    pl_status status = pl_options_check(text, options, OPTIONS, err);
    if (status == PL_OK) status = pl_tree_check_samples(samples, "lightgbm", err);
    if (status == PL_OK) status = pl_tree_check_valid(settings->valid, samples, err);
    if (status != PL_OK) return status;
    pl_options_text(text, "loss", loss, sizeof loss);
    status = pl_boost_open(&boost, samples, loss, option(text, "alpha"), err);
    if (status != PL_OK) return status;
    if (!pl_foreign_room(samples->count * samples->columns * sizeof *samples->values))
        return pl_fail(err, PL_MISSING, "lightgbm", -1, "out of memory");
    if (!have_library()) return missing(err);

    lightgbm *model = new_lightgbm(samples->columns, samples->class_count);
    if (!model) return pl_fail(err, PL_MISSING, "lightgbm", -1, "out of memory");
    lgbm_dataset dataset = NULL;
    int keep = 0;
    write_parameters(parameters, sizeof parameters, text, &boost, settings->seed);
    bool done = make_dataset(&dataset, samples, parameters) &&
                library.create(dataset, parameters, &model->booster) == 0 &&
                boost_rounds(model, &boost, settings, text, &keep) && keep_text(model, keep) &&
                from_text(model);
    if (!done) status = failed(err);
    if (dataset) library.dataset_free(dataset);
    *out = &model->learned;
    if (!done) close_lightgbm(out);
    return status;
}

/* ---- predicting ---- */

static pl_status predict_lightgbm(const pl_learned *learned, const pl_samples *samples, float *out,
                                  pl_error *err) {
    const lightgbm *model = (const lightgbm *)learned;
    const size_t scores = model->scores;
    pl_status status = pl_tree_check_columns(samples, model->columns, "lightgbm", err);
    if (status != PL_OK || samples->count == 0) return status;
    if (samples->count > INT32_MAX)
        return pl_fail(err, PL_USAGE, "lightgbm", -1, "too many samples at once");
    double few[MOST_STACK], *numbers = few;
    int64_t count = 0;
    if (samples->count * scores > MOST_STACK)
        numbers = calloc(samples->count, scores * sizeof *numbers);
    if (!numbers) return pl_fail(err, PL_MISSING, "lightgbm", -1, "out of memory");
    int failure =
        samples->count == 1
            ? library.fast_predict(model->fast, samples->values, &count, numbers)
            : library.predict(model->booster, samples->values, FLOAT32, (int32_t)samples->count,
                              (int32_t)samples->columns, ROW_MAJOR, RAW_SCORE, 0, 0,
                              "num_threads=1", &count, numbers);
    if (failure || count != (int64_t)(samples->count * scores)) {
        status = failed(err);
    } else if (learned->outputs == scores) {
        for (size_t i = 0; i < samples->count * scores; i++) out[i] = (float)numbers[i];
    } else {
        for (size_t i = 0; i < samples->count;
             i++) { /* two classes: the second one's logit over 0 */
            out[2 * i] = 0;
            out[2 * i + 1] = (float)numbers[i];
        }
    }
    if (numbers != few) free(numbers);
    return status;
}

/* u32 classes (0: a regression), then the library's text (foreign.h). */
static void save_lightgbm(const pl_learned *learned, pl_writer *writer) {
    const lightgbm *model = (const lightgbm *)learned;
    pl_write_u32(writer, (uint32_t)model->classes);
    pl_foreign_write(writer, model->text, model->size);
}

static pl_learned *load_lightgbm(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* trees see columns only */
    size_t classes = pl_read_u32_in(reader, 0, PL_TREE_CLASSES, "a number of classes"), size;
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 1,022 columns");
    char *text = pl_foreign_read(reader, &size);
    if (!text) return NULL;
    if (!pl_foreign_room(size))
        pl_read_no_memory(reader);
    else if (!have_library())
        pl_read_fail(reader, "lib_lightgbm.so on this machine (PLIMSOLL_LIGHTGBM names it)");
    lightgbm *model = reader->failure ? NULL : new_lightgbm(columns, classes);
    if (!model) {
        if (!reader->failure) pl_read_no_memory(reader);
        free(text);
        return NULL;
    }
    model->text = text;
    model->size = size;
    if (!from_text(model)) pl_read_fail(reader, "a model of as many columns that LightGBM reads");
    pl_learned *learned = &model->learned;
    if (reader->failure) close_lightgbm(&learned);
    return learned;
}

const pl_learner pl_learner_lightgbm = {
    .name = "lightgbm",
    .scaled = "as-is",
    .train = train_lightgbm,
    .predict = predict_lightgbm,
    .save = save_lightgbm,
    .load = load_lightgbm,
    .close = close_lightgbm,
};
