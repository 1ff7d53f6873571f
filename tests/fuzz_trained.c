/* fuzz_trained: damaged model files. Whatever the bytes, reading gives a model that answers and can
 * be written and read again, or PL_INPUT with file, place and what was expected; no crash, no leak,
 * no hang. The checksum is put right before reading, so that the damage reaches the fields and the
 * learners behind it.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (see
 * tests/meson.build); its seeds are written by
 *     test_fuzz_trained seeds FOLDER
 * Without, a program that trains small models with the learners named (none: all that there are on
 * this machine) and damages their files itself, from a seed, the same each time:
 *     test_fuzz_trained COUNT [LEARNER...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/clock.h"
#include "lab/learn/trained_train.h"
#include "lab/learn/learners.h"

enum { HEADER = 16, SIZED = 24, SUM_AT = 12, ROWS = 3, STEPS = 6 };

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static void fix_sum(unsigned char *bytes, size_t size) {
    if (size < SIZED) return;
    for (int i = 0; i < 8; i++)
        bytes[HEADER + i] = (unsigned char)((uint64_t)(size - SIZED) >> 8 * i);
    uint32_t sum = (uint32_t)crc32_z(0, bytes + HEADER, size - HEADER);
    for (int i = 0; i < 4; i++) bytes[SUM_AT + i] = (unsigned char)(sum >> 8 * i);
}

/* Rows of 0, 1 and 1e30, and sequences of 2, 0 and 4 steps: finite answers, or an error. */
static void ask(const pl_trained *t) {
    static const size_t begin[ROWS + 1] = {0, 2, 2, STEPS};
    static const float contents[ROWS] = {0, 1, 1e30f};
    size_t columns = t->column_count, channels = t->channel_count;
    size_t outputs = t->class_count ? t->class_count : 1;
    float *values = malloc((ROWS * columns + STEPS * channels + ROWS * outputs) * sizeof *values);
    const char **names = malloc((columns + channels + 1) * sizeof *names);
    if (!values || !names) abort();
    float *steps = values + ROWS * columns, *out = steps + STEPS * channels;
    for (size_t i = 0; i < ROWS * columns; i++) values[i] = contents[i / columns];
    for (size_t i = 0; i < STEPS * channels; i++) steps[i] = contents[i / 2 % 2];
    for (size_t i = 0; i < columns; i++) names[i] = t->columns[i].name;
    for (size_t i = 0; i < channels; i++) names[columns + i] = t->channels[i].name;
    pl_samples samples = {
        .count = ROWS,
        .columns = columns,
        .values = values,
        .names = names,
        .channels = channels,
        .steps = channels ? steps : NULL,
        .begin = channels ? begin : NULL,
        .channel_names = names + columns,
    };
    pl_error err = {0};
    pl_status status = pl_trained_predict(t, &samples, out, &err);
    if (status != PL_OK && (err.code != status || !err.message[0])) stop("answer", &err);
    for (size_t i = 0; status == PL_OK && i < ROWS * outputs; i++)
        if (!(out[i] - out[i] == 0)) stop("answer that is not finite", &err);
    free(values);
    free(names);
}

static bool read_once(const unsigned char *bytes, size_t size) {
    pl_error err = {0};
    pl_trained *t = NULL, *again = NULL;
    pl_status status = pl_trained_read(&t, bytes, size, NULL, "fuzzed", &err);
    if (status != PL_OK) {
        if (t || status != PL_INPUT || err.code != status || err.position < 0 ||
            err.position > (int64_t)size || strcmp(err.where, "fuzzed") != 0 ||
            strncmp(err.message, "expected ", 9) != 0)
            stop("failure", &err);
        return false;
    }
    ask(t);
    pl_writer w = {0};
    if (pl_trained_write(t, &w, &err) != PL_OK) stop("writing", &err);
    if (pl_trained_read(&again, w.bytes, w.size, NULL, "again", &err) != PL_OK)
        stop("reading what was written", &err);
    free(w.bytes);
    pl_trained_close(&again);
    pl_trained_close(&t);
    return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    pl_lab_register();
    unsigned char *copy = malloc(size ? size : 1);
    if (!copy) return 0;
    memcpy(copy, bytes, size);
    fix_sum(copy, size);
    read_once(copy, size);
    free(copy);
    return 0;
}

#if !defined(PL_LIBFUZZER)

/* ---- small models of each learner ---- */

enum { TRAINED_ROWS = 40, COLUMNS = 4, CHANNELS = 3, SHAPES = 4 };

/* Tried in this order until the learner knows all the keys: what keeps its model small. */
static const char *const small[] = {
    "trees=3 depth=3 min_leaf=2 threads=1",
    "trees=3 depth=3 min_leaf=2 min_bin=1",
    "trees=3 depth=3 min_leaf=2",
    "trees=3 depth=3",
    "depth=3",
    "net=steps,linear:4,batchnorm,positions:8,encoder:2:4,bigru:3:2,max,append,linear:4,gelu,"
    "linear "
    "epochs=2",
    "net=tokens:4,sinusoid,attention:2,layernorm,gru:3,mean,dropout:0.1,linear epochs=2",
    "epochs=2",
    "",
};

/* shape: bit 0 classes, bit 1 sequences. NULL: the learner cannot, *why says so. */
static pl_trained *train(const pl_learner *learner, int shape, pl_error *why) {
    static const char *const names[] = {"batch", "parameters", "depth", "same", "a", "b", "c"};
    float values[TRAINED_ROWS * COLUMNS], targets[TRAINED_ROWS];
    float steps[TRAINED_ROWS * 2 * CHANNELS];
    int32_t classes[TRAINED_ROWS];
    size_t begin[TRAINED_ROWS + 1] = {0};
    for (size_t i = 0; i < TRAINED_ROWS; i++) {
        float x = (float)i, y = (float)(i * 13 % 17), z = (float)(i % 5);
        const float row[COLUMNS] = {x, y, z, 1};
        memcpy(values + i * COLUMNS, row, sizeof row);
        targets[i] = x + 2 * y - z;
        classes[i] = (int32_t)(i * 7 % 3);
        begin[i + 1] = begin[i] + 1 + i % 2;
        for (size_t k = begin[i] * CHANNELS; k < begin[i + 1] * CHANNELS; k++)
            steps[k] = (float)(k * 5 % 7);
    }
    pl_samples samples = {.count = TRAINED_ROWS,
                          .columns = COLUMNS,
                          .values = values,
                          .names = names,
                          .targets = shape & 1 ? NULL : targets,
                          .classes = shape & 1 ? classes : NULL,
                          .class_count = shape & 1 ? 3 : 0};
    if (shape & 2) {
        samples.channels = CHANNELS;
        samples.steps = steps;
        samples.begin = begin;
        samples.channel_names = names + COLUMNS;
    }
    pl_trained_settings settings = {.estimator = "small",
                                    .target = "log2-bytes",
                                    .command = "plimsoll train",
                                    .data = "rows",
                                    .learn = {.seed = 1}};
    pl_trained *t = NULL;
    pl_status status = PL_USAGE;
    for (size_t i = 0; status == PL_USAGE && i < sizeof small / sizeof *small; i++) {
        settings.learn.options = small[i];
        status = pl_trained_train(&t, learner, &samples, &settings, why);
    }
    return t;
}

/* ---- damage ---- */

static uint64_t state = 88172645463325252u; /* xorshift64 (G. Marsaglia, 2003) */

static size_t below(size_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (size_t)(state % limit) : 0;
}

static void put(unsigned char *at, size_t left, uint32_t value) {
    for (size_t i = 0; i < 4 && i < left; i++) at[i] = (unsigned char)(value >> 8 * i);
}

/* Counts, indices and floats (NaN, infinity, the largest, the least, -0) that readers tend to
 * stumble over. */
static const uint32_t tokens[] = {0,          1,          2,          0xff,       0xffff,
                                  0x10000,    0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe,
                                  0x40000000, 0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff,
                                  0xff7fffff, 0x00000001, 0x3f800000};

/* Damages bytes[HEADER .. *size) in place; room: what fits. */
static void damage(unsigned char *bytes, size_t *size, size_t room) {
    for (size_t times = 1 + below(3); times > 0 && *size > HEADER; times--) {
        size_t at = HEADER + below(*size - HEADER), length = 1 + below(below(8) ? 16 : 256);
        if (length > *size - at) length = *size - at;
        switch (below(8)) {
        case 0: bytes[at] ^= (unsigned char)(1u << below(8)); break;
        case 1: bytes[at] = (unsigned char)below(256); break;
        case 2: /* leave a piece out */
            memmove(bytes + at, bytes + at + length, *size - at - length);
            *size -= length;
            break;
        case 3: /* double a piece */
            if (*size + length > room) break;
            memmove(bytes + at + length, bytes + at, *size - at);
            *size += length;
            break;
        case 4: /* a piece from elsewhere over this one */
            memmove(bytes + at, bytes + below(*size - length + 1), length);
            break;
        case 5:
        case 6: put(bytes + at, *size - at, tokens[below(sizeof tokens / sizeof *tokens)]); break;
        default: /* a number a little off, or the end */
            if (below(4) == 0)
                *size = at;
            else
                bytes[at] = (unsigned char)(bytes[at] + below(5) - 2);
        }
    }
}

static int fuzz(const pl_learner *learner, int shape, const pl_writer *seed, long count) {
    size_t room = seed->size + 1024;
    unsigned char *bytes = malloc(room);
    int64_t slowest = 0;
    long loaded = 0;
    if (!bytes || !read_once(seed->bytes, seed->size)) return 1;
    for (long i = 0; i < count; i++) {
        size_t size = seed->size;
        memcpy(bytes, seed->bytes, size);
        damage(bytes, &size, room);
        if (below(16)) fix_sum(bytes, size);
        unsigned char *exact = malloc(size); /* a read past its end is seen by a sanitizer */
        if (!exact) return 1;
        memcpy(exact, bytes, size);
        int64_t before = pl_now_us();
        loaded += read_once(exact, size);
        int64_t took = pl_now_us() - before;
        if (took > slowest) slowest = took;
        free(exact);
    }
    free(bytes);
    bool good = slowest < 5000000;
    printf("# %s%s%s, %zu bytes: %ld damaged files, %ld still readable, the slowest %.1f ms\n",
           learner->name, shape & 1 ? ", classes" : "", shape & 2 ? ", sequences" : "", seed->size,
           count, loaded, (double)slowest / 1e3);
    return good ? 0 : 1;
}

static int write_seed(const char *folder, const pl_learner *learner, int shape, pl_trained *t) {
    char path[512];
    pl_error err = PL_SIZED(pl_error);
    snprintf(path, sizeof path, "%s/%s-%d", folder, learner->name, shape);
    if (pl_trained_save(&t, 1, path, &err) == PL_OK) return 0;
    fprintf(stderr, "%s: %s\n", path, err.message);
    return 1;
}

static bool wanted(const char *name, int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return argc <= 2;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    pl_lab_register();
    bool seeds = strcmp(argv[1], "seeds") == 0;
    if (seeds && argc != 3) return 2;
    long count = seeds ? 0 : atol(argv[1]);
    int failures = 0;
    const pl_learner *learner;
    for (size_t i = 0; (learner = pl_learner_at(i)) != NULL; i++) {
        if (!seeds && !wanted(learner->name, argc, argv)) continue;
        int shapes = 0, before = failures;
        pl_error why = {0};
        for (int shape = 0; shape < SHAPES; shape++) {
            pl_trained *t = train(learner, shape, &why);
            if (!t) continue;
            shapes++;
            pl_writer w = {0};
            if (seeds)
                failures += write_seed(argv[2], learner, shape, t);
            else if (pl_trained_write(t, &w, &why) != PL_OK)
                failures++;
            else
                failures += fuzz(learner, shape, &w, count);
            free(w.bytes);
            pl_trained_close(&t);
        }
        if (shapes)
            printf("%s damaged_%s\n", failures > before ? "not ok" : "ok", learner->name);
        else
            printf("SKIP damaged_%s: %s\n", learner->name, why.message);
        fflush(stdout);
    }
    return failures ? 1 : 0;
}
#endif
