/* networks: how long the networks of lab/learn take. bench/networks.py runs it beside PyTorch.
 *
 *     networks predict NET COLUMNS CHANNELS STEPS OUTPUTS      microseconds per sample
 *     networks train NET COLUMNS CHANNELS STEPS SAMPLES BATCH THREADS EPOCHS    seconds per epoch
 *     networks outputs MODEL INPUT COLUMNS CHANNELS STEPS SAMPLES   a network's bytes, f32 inputs
 *     networks products THREADS          GFLOP/s of matrix products: kernels, OpenBLAS
 *
 * OUTPUTS 0: a regression. MODEL holds a network's own bytes (network_file.c), INPUT the samples'
 * columns and behind them their steps. The last lines are numbers for the script.
 *
 *     gcc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -I. -Isrc -Iinclude \
 *         bench/networks.c build/libplimsoll-lab.a build/libplimsoll.a \
 *         -lz -llzma -lm -ldl -lpthread -o networks */
#include "core/clock.h"
#include "lab/learn/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples ---- */

typedef struct made {
    pl_samples samples;
    float *values, *steps, *targets;
    size_t *begin;
} made;

static float *random_floats(pl_random *random, size_t count) {
    float *values = malloc((count + 1) * sizeof *values);
    for (size_t i = 0; values && i < count; i++) values[i] = (float)pl_random_normal(random);
    return values;
}

static bool make(made *m, size_t count, size_t columns, size_t channels, size_t steps) {
    pl_random random = pl_random_seed(1, 1);
    m->values = random_floats(&random, count * columns);
    m->steps = random_floats(&random, count * channels * steps);
    m->targets = random_floats(&random, count);
    m->begin = malloc((count + 1) * sizeof *m->begin);
    if (!m->values || !m->steps || !m->targets || !m->begin) return false;
    for (size_t i = 0; i <= count; i++) m->begin[i] = i * steps;
    m->samples = (pl_samples){.count = count,
                              .columns = columns,
                              .values = m->values,
                              .channels = channels,
                              .steps = m->steps,
                              .begin = m->begin,
                              .targets = m->targets};
    return true;
}

/* Processor time of this process; of one thread it is what a clock shows on an idle machine. */
static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int say(const pl_error *err) {
    fprintf(stderr, "networks: %s\n", err->message);
    return 1;
}

/* ---- predict ---- */

static int predict(char **arguments) {
    size_t columns = (size_t)atol(arguments[1]), channels = (size_t)atol(arguments[2]);
    size_t steps = (size_t)atol(arguments[3]), outputs = (size_t)atol(arguments[4]);
    made m;
    pl_network *n;
    pl_error err = PL_SIZED(pl_error);
    if (!make(&m, 1, columns, channels, steps)) return 1;
    if (outputs == 0) outputs = 1;
    if (pl_network_open(&n, arguments[0], columns, channels, outputs, &err) != PL_OK)
        return say(&err);
    size_t weights = 0;
    for (size_t i = 0; i < n->member_count; i++) {
        const pl_chain *chain = &n->members[i];
        float *plain = malloc((chain->weights + 1) * sizeof *plain);
        if (!plain) return 1;
        pl_random random = pl_random_seed(1, i);
        pl_chain_start(chain, plain, pl_network_states(n, i), &random);
        pl_chain_pack(chain, plain, n->weights[i]);
        weights += chain->weights;
        free(plain);
    }
    float *out = malloc(outputs * sizeof *out);
    /* The best of many short rounds: the machine may be shared. */
    double best = 1e30, spent = 0;
    for (int round = 0; (round < 5 || spent < 5e5) && out; round++) {
        double from = cpu_us(), took = 0;
        int runs = 0;
        for (; took < 1000; runs++, took = cpu_us() - from)
            if (pl_learner_network.predict(&n->learned, &m.samples, out, &err) != PL_OK)
                return say(&err);
        spent += took;
        if (took / runs < best) best = took / runs;
    }
    printf("%.2f %zu\n", best, weights);
    pl_learned *learned = &n->learned;
    pl_learner_network.close(&learned);
    return 0;
}

/* ---- train ---- */

typedef struct times {
    bool alone;        /* one thread: processor time */
    double last, best; /* seconds */
} times;

static double seconds(const times *t) {
    return (t->alone ? cpu_us() : (double)pl_now_us()) * 1e-6;
}

static void tick(const pl_epoch *epoch, void *context) {
    times *t = context;
    double now = seconds(t), took = now - t->last;
    t->last = now;
    if (epoch->epochs == 1 || (epoch->epoch > 1 && took < t->best)) t->best = took;
}

static int train(char **arguments) {
    size_t columns = (size_t)atol(arguments[1]), channels = (size_t)atol(arguments[2]);
    size_t steps = (size_t)atol(arguments[3]), count = (size_t)atol(arguments[4]);
    char options[PL_NETWORK_TEXT + 200];
    made m;
    if (!make(&m, count, columns, channels, steps)) return 1;
    snprintf(options, sizeof options, "net=%s batch=%s threads=%s epochs=%s", arguments[0],
             arguments[5], arguments[6], arguments[7]);
    times t = {.alone = strcmp(arguments[6], "1") == 0, .best = 1e30};
    t.last = seconds(&t);
    pl_learn_settings settings = {
        .options = options, .seed = 1, .progress = tick, .progress_context = &t};
    pl_learned *learned;
    pl_error err = PL_SIZED(pl_error);
    if (pl_learner_network.train(&learned, &m.samples, &settings, &err) != PL_OK) return say(&err);
    pl_learner_network.close(&learned);
    printf("%.4f\n", t.best);
    return 0;
}

/* ---- outputs ---- */

static unsigned char *whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    if (bytes && fread(bytes, 1, *size, file) != *size) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

static int outputs(char **arguments) {
    size_t columns = (size_t)atol(arguments[2]), channels = (size_t)atol(arguments[3]);
    size_t steps = (size_t)atol(arguments[4]), count = (size_t)atol(arguments[5]), size, input_size;
    unsigned char *bytes = whole(arguments[0], &size), *input = whole(arguments[1], &input_size);
    if (!bytes || !input || input_size != count * (columns + steps * channels) * 4) return 1;
    pl_reader reader = {.bytes = bytes, .size = size};
    pl_learned *learned = pl_learner_network.load(&reader, columns, channels);
    if (!learned) {
        fprintf(stderr, "networks: %s expected at byte %zu\n", reader.failure, reader.failure_at);
        return 1;
    }
    made m;
    pl_error err = PL_SIZED(pl_error);
    if (!make(&m, count, columns, channels, steps)) return 1;
    memcpy(m.values, input, count * columns * 4);
    memcpy(m.steps, input + count * columns * 4, count * steps * channels * 4);
    float *out = malloc(count * learned->outputs * sizeof *out);
    if (!out || pl_learner_network.predict(learned, &m.samples, out, &err) != PL_OK) return 1;
    for (size_t i = 0; i < count * learned->outputs; i++) printf("%.9g\n", (double)out[i]);
    return 0;
}

/* ---- products ---- */

typedef struct product {
    const char *what;
    size_t m, n, k;
    bool turn_a, turn_b;
} product;

static const product table[] = {
    {"tokens to inner, 45 steps", 45, 2048, 512, false, false},
    {"the same, width 64", 45, 256, 64, false, false},
    {"one sample of an MLP", 1, 64, 20, false, false},
    {"a GRU's step, one sample", 1, 768, 256, false, false},
    {"a GRU's step, 32 samples", 32, 768, 256, false, false},
    {"a head's scores", 45, 45, 64, false, true},
    {"batch of 32 x 45, width 512", 1440, 512, 512, false, false},
    {"its gradient of the input", 1440, 512, 512, false, true},
    {"its gradient of the weights", 512, 512, 1440, true, false},
    {"batch of 64 x 45, width 64", 2880, 64, 64, false, false},
    {"its gradient of the weights", 64, 64, 2880, true, false},
};

static int products(char **arguments) {
    const pl_openblas *blas;
    pl_error err = PL_SIZED(pl_error);
    int64_t before = pl_now_us();
    if (pl_blas_open(&blas, &err) != PL_OK) return say(&err);
    fprintf(stderr, "%s, loaded in %.1f ms\n", blas->config, (double)(pl_now_us() - before) * 1e-3);
    if (blas->set_threads) blas->set_threads(atoi(arguments[0]));
    pl_random random = pl_random_seed(1, 1);
    float *room = malloc(PL_PANEL_ROOM * sizeof *room);
    for (size_t i = 0; i < sizeof table / sizeof *table && room; i++) {
        const product *p = &table[i];
        float *a = random_floats(&random, p->m * p->k), *b = random_floats(&random, p->k * p->n);
        float *c = random_floats(&random, p->m * p->n);
        float *panels = random_floats(&random, pl_panels_size(p->k, p->n));
        if (!a || !b || !c || !panels) return 1;
        pl_products own = {.kernels = pl_kernels_here(), .room = room};
        pl_operand left = {a, p->turn_a ? p->m : p->k, p->turn_a};
        pl_operand right = {b, p->turn_b ? p->k : p->n, p->turn_b};
        pl_panels_pack(b, right.row, p->turn_b, p->k, p->n, panels);
        double work = 2e-3 * (double)p->m * (double)p->n * (double)p->k; /* GFLOP per microsecond */
        int runs = (int)(2e4 / work) + 1;
        double best[3] = {1e30, 1e30, 1e30};
        for (int round = 0; round < 7; round++)
            for (int way = 0; way < 3; way++) {
                int64_t from = pl_now_us();
                for (int r = 0; r < runs; r++) {
                    if (way == 0)
                        own.kernels->multiply(p->m, p->n, p->k, a, p->turn_a ? 1 : p->k,
                                              p->turn_a ? p->m : 1, panels, NULL, false, c, p->n);
                    else if (way == 1)
                        pl_multiply(&own, p->m, p->n, p->k, left, right, NULL, false, c, p->n);
                    else
                        blas->sgemm(PL_BLAS_ROWS, p->turn_a ? PL_BLAS_TURNED : PL_BLAS_AS_IS,
                                    p->turn_b ? PL_BLAS_TURNED : PL_BLAS_AS_IS, (int)p->m,
                                    (int)p->n, (int)p->k, 1, a, (int)left.row, b, (int)right.row, 0,
                                    c, (int)p->n);
                }
                double took = (double)(pl_now_us() - from) / runs;
                if (took < best[way]) best[way] = took;
            }
        printf("%s|%zu x %zu x %zu|%.1f|%.1f|%.1f\n", p->what, p->m, p->n, p->k, work / best[0],
               work / best[1], work / best[2]);
        free(a);
        free(b);
        free(c);
        free(panels);
    }
    free(room);
    return 0;
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        int arguments;
        int (*run)(char **);
    } modes[] = {{"predict", 5, predict},
                 {"train", 8, train},
                 {"outputs", 6, outputs},
                 {"products", 1, products}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (count == modes[i].arguments + 2 && strcmp(arguments[1], modes[i].name) == 0)
            return modes[i].run(arguments + 2);
    fprintf(stderr, "networks: see the top of bench/networks.c\n");
    return 2;
}
