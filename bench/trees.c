/* trees: one learner on a table, for bench/trees.py.
 *
 *     trees FILE.csv LEARNER OPTIONS SEED CLASSES
 *
 * The file: a line of names, then a line per row: 0 (learn) or 1 (test), the target or class, the
 * columns. CLASSES: 0 for a regression. Prints times and size, a name and a number per line, then
 * "predictions" and a line per test row: the prediction, or the class. */
#include "lab/learn/learners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const pl_learner *const learners[] = {
    &pl_learner_tree,      &pl_learner_forest,  &pl_learner_adaboost, &pl_learner_leafwise,
    &pl_learner_symmetric, &pl_learner_xgboost, &pl_learner_lightgbm,
};

typedef struct table {
    float *values, *targets;
    int32_t *classes;
    size_t count;
} table;

static size_t columns;

static int read_table(const char *path, table tables[2], size_t classes) {
    static char line[1 << 16];
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) return -1;
    columns = 0;
    for (const char *at = line; *at; at++) columns += *at == ',';
    columns -= 1;
    size_t room = 0;
    while (fgets(line, sizeof line, file)) {
        char *at = line;
        table *t = &tables[strtol(at, &at, 10) != 0];
        room = t->count + 1;
        t->values = realloc(t->values, room * columns * sizeof *t->values);
        t->targets = realloc(t->targets, room * sizeof *t->targets);
        t->classes = realloc(t->classes, room * sizeof *t->classes);
        if (!t->values || !t->targets || !t->classes) return -1;
        t->targets[t->count] = strtof(at + 1, &at);
        t->classes[t->count] = classes ? (int32_t)t->targets[t->count] : 0;
        for (size_t c = 0; c < columns; c++)
            t->values[t->count * columns + c] = strtof(at + 1, &at);
        t->count++;
    }
    fclose(file);
    return 0;
}

static pl_samples samples_of(const table *t, size_t classes) {
    return (pl_samples){.count = t->count,
                        .columns = columns,
                        .values = t->values,
                        .targets = classes ? NULL : t->targets,
                        .classes = classes ? t->classes : NULL,
                        .class_count = classes};
}

/* Processor time, so that other programs do not count. */
static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: trees FILE.csv LEARNER OPTIONS SEED CLASSES\n");
        return 2;
    }
    const pl_learner *learner = NULL;
    for (size_t i = 0; i < sizeof learners / sizeof *learners; i++)
        if (strcmp(learners[i]->name, argv[2]) == 0) learner = learners[i];
    table tables[2] = {{0}, {0}};
    size_t classes = (size_t)strtoul(argv[5], NULL, 10);
    if (!learner || read_table(argv[1], tables, classes) != 0) {
        fprintf(stderr, "trees: no such learner or file\n");
        return 3;
    }
    pl_samples learn = samples_of(&tables[0], classes), test = samples_of(&tables[1], classes);
    pl_learn_settings settings = {.options = argv[3], .seed = strtoull(argv[4], NULL, 10)};
    pl_learned *learned = NULL;
    pl_error err = PL_SIZED(pl_error);
    if (strcmp(learner->name, "xgboost") == 0 || strcmp(learner->name, "lightgbm") == 0) {
        pl_learn_settings once = {.options = "trees=1"}; /* the library's loading is not learning */
        if (learner->train(&learned, &learn, &once, &err) == PL_OK) learner->close(&learned);
    }
    int64_t start = now_us();
    if (learner->train(&learned, &learn, &settings, &err) != PL_OK) {
        fprintf(stderr, "trees: %s\n", err.message);
        return 4;
    }
    int64_t trained = now_us();
    float *out = calloc(test.count * learned->outputs, sizeof *out);
    if (!out || learner->predict(learned, &test, out, &err) != PL_OK) return 4;
    int64_t predicted = now_us();
    pl_samples one = test;
    one.count = 1;
    float *single = calloc(learned->outputs, sizeof *single);
    if (!single) return 4;
    for (size_t i = 0; i < test.count; i++) {
        one.values = test.values + i * columns;
        learner->predict(learned, &one, single, &err);
    }
    int64_t singly = now_us();
    pl_writer writer = {0};
    learner->save(learned, &writer);
    printf("train_us %lld\nbatch_us %.3f\none_us %.3f\nbytes %zu\npredictions\n",
           (long long)(trained - start), (double)(predicted - trained) / (double)test.count,
           (double)(singly - predicted) / (double)test.count, writer.size);
    for (size_t i = 0; i < test.count; i++) {
        const float *scores = out + i * learned->outputs;
        size_t best = 0;
        for (size_t k = 1; k < learned->outputs; k++)
            if (scores[k] > scores[best]) best = k;
        if (classes)
            printf("%zu\n", best);
        else
            printf("%.9g\n", (double)scores[0]);
    }
    free(writer.bytes);
    free(single);
    free(out);
    learner->close(&learned);
    for (int t = 0; t < 2; t++) {
        free(tables[t].values);
        free(tables[t].targets);
        free(tables[t].classes);
    }
    return 0;
}
