/* Threads: eight inputs of all formats, read once and shared, are estimated with seven estimators by
 * eight threads at once, and each answer is the one that a single thread gets afterwards. The threads
 * start together and come first, so that they race for the first use of the built-in weights. Built
 * with ThreadSanitizer (./test does), a data race is reported and fails the program; plain, it still
 * compares the answers. Arguments: the inputs; the last one is made of the first, as plimsoll's own
 * graph. */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "plimsoll/lab.h"

enum { THREADS = 8, MOST_INPUTS = 16 };
static const char *const estimators[] = {
    "hybrid",  "sim",           "random-forest", "bigru-transformer-light",
    "xgboost", "gpumemnet-mlp", "horus"};
enum { ESTIMATORS = sizeof estimators / sizeof *estimators };

static pl_model *models[MOST_INPUTS];
static size_t model_count;
static pthread_barrier_t start;

/* Of each input and estimator: the report's JSON without its time, or the reason of a refusal. */
typedef struct answers {
    size_t first; /* where this thread begins */
    char *said[MOST_INPUTS * ESTIMATORS];
} answers;

static char *ask(const pl_model *model, const char *estimator) {
    pl_job job;
    pl_report *report = NULL;
    pl_error err = {0};
    pl_job_default(&job);
    job.estimator = estimator;
    job.want_alive = job.want_times = true;
    if (pl_estimate(&report, model, &job, &err) != PL_OK) return strdup(err.message);
    report->elapsed_us = 0;
    const char *json = pl_report_json(report, model);
    char *said = json ? strdup(json) : NULL;
    pl_report_close(&report);
    return said;
}

static void ask_all(answers *a) {
    size_t count = model_count * ESTIMATORS;
    for (size_t i = 0; i < count; i++) {
        size_t k = (a->first + i) % count;
        a->said[k] = ask(models[k / ESTIMATORS], estimators[k % ESTIMATORS]);
    }
}

static void *work(void *argument) {
    pthread_barrier_wait(&start);
    ask_all(argument);
    return NULL;
}

static void as_one_thread_would(void) {
    static answers of[THREADS], alone;
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (size_t t = 0; t < THREADS; t++) {
        of[t].first = t; /* seven estimators: each is first used by two threads or one, at once */
        if (pthread_create(&threads[t], NULL, work, &of[t]) != 0) abort();
    }
    for (size_t t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    ask_all(&alone);
    size_t answered = 0;
    for (size_t k = 0; k < model_count * ESTIMATORS; k++) {
        answered += alone.said[k] && alone.said[k][0] == '{';
        for (size_t t = 0; t < THREADS; t++) {
            CHECK_STR(of[t].said[k], alone.said[k] ? alone.said[k] : "an answer");
            free(of[t].said[k]);
        }
        free(alone.said[k]);
    }
    printf("# %zu of %zu answered, the rest refused, the same by all threads\n", answered,
           model_count * ESTIMATORS);
    CHECK(answered >= model_count * 5);
    pthread_barrier_destroy(&start);
}

int main(int argc, char **argv) {
    pl_lab_register();
    for (int i = 1; i < argc && model_count < MOST_INPUTS - 1; i++) {
        pl_error err = {0};
        if (pl_model_open(&models[model_count++], argv[i], NULL, &err) == PL_OK) continue;
        printf("  %s: %s\n", argv[i], err.message);
        return 3;
    }
    char *text = NULL;
    size_t size = 0;
    if (!model_count || pl_model_convert(&text, &size, models[0], NULL, NULL) != PL_OK ||
        pl_model_open_memory(&models[model_count++], text, size, "own", NULL, NULL) != PL_OK)
        return 3;
    free(text);
    RUN(as_one_thread_would);
    for (size_t i = 0; i < model_count; i++) pl_model_close(&models[i]);
    return check_done();
}
