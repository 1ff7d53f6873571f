/* fuzz_config: damaged config.json files. Whatever the bytes, the reader gives a recipe that builds
 * a sound graph, or PL_INPUT (PL_MISSING where the memory it may take is spent) with file, place
 * and what was expected; it does not crash, leak or hang.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_config COUNT FILE.json... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/file.h"
#include "graph_sound.h"
#include "import/hf.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static bool build_once(const unsigned char *bytes, size_t size) {
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    settings.memory_limit = (size_t)64 << 20;
    pl_error err = {0};
    pl_recipe *recipe = NULL;
    pl_status status =
        pl_import_hf(&recipe, (const char *)bytes, size, "config.json", &settings, &err);
    (void)pl_hf_is((const char *)bytes, size);
    if (status != PL_OK) {
        if (recipe || status != PL_INPUT || err.code != status || err.position < 0 ||
            !err.message[0] || strcmp(err.where, "config.json") != 0)
            stop("failure to read", &err);
        return false;
    }
    pl_graph *graph = NULL;
    status = recipe->build(recipe, 2, recipe->seq == PL_UNKNOWN ? PL_UNKNOWN : 24,
                           settings.memory_limit, &graph, &err);
    if (status == PL_OK) {
        const char *wrong = graph ? graph_unsound(graph) : "no graph";
        if (wrong) stop(wrong, &err);
    } else if (graph || !err.message[0] ||
               (status != PL_INPUT && status != PL_MISSING && strcmp(err.where, "--seq") != 0)) {
        stop("failure to build", &err);
    }
    pl_graph_close(&graph);
    pl_recipe_close(&recipe);
    return status == PL_OK;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    build_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

static uint64_t state = 88172645463325252u; /* xorshift64 (G. Marsaglia, 2003) */

static size_t below(size_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (size_t)(state % limit) : 0;
}

/* Values and text that readers tend to stumble over. */
static const char *const tokens[] = {"-1",
                                     "0",
                                     "1",
                                     "3",
                                     "4096",
                                     "4097",
                                     "1099511627776",
                                     "1099511627777",
                                     "9223372036854775807",
                                     "18446744073709551616",
                                     "1e999",
                                     "0.5",
                                     "-0.5",
                                     "NaN",
                                     "null",
                                     "true",
                                     "false",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "[]",
                                     "{}",
                                     "\"\"",
                                     "\"gelu\"",
                                     "\"\\ud800\"",
                                     "\\",
                                     ",",
                                     ":",
                                     "[1,2,3]",
                                     "[\"sliding_attention\"]",
                                     "\xff"};

/* Another value in the place of the one behind a colon: keys stay, sizes become strange. */
static void change_value(unsigned char *bytes, size_t *size, size_t room) {
    size_t start = below(*size), at = start;
    while (at < *size && bytes[at] != ':') at++;
    if (at == *size) return;
    size_t end = ++at;
    while (end < *size && bytes[end] != ',' && bytes[end] != '\n' && bytes[end] != '}') end++;
    const char *token = tokens[below(sizeof tokens / sizeof *tokens)];
    size_t n = strlen(token);
    if (*size - (end - at) + n > room) return;
    memmove(bytes + at + n, bytes + end, *size - end);
    memcpy(bytes + at, token, n);
    *size = *size - (end - at) + n;
}

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    size_t times = 1 + below(4);
    while (times-- && *size) {
        size_t at = below(*size), length = 1 + below(16);
        if (length > *size - at) length = *size - at;
        switch (below(8)) {
        case 0: bytes[at] ^= (unsigned char)(1u << below(8)); break;
        case 1: /* leave a piece out */
            memmove(bytes + at, bytes + at + length, *size - at - length);
            *size -= length;
            break;
        case 2: /* a piece from elsewhere over this one */
            memmove(bytes + at, bytes + below(*size - length + 1), length);
            break;
        case 3:
            if (below(4) == 0) *size = at;
            break;
        default: change_value(bytes, size, room);
        }
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long count = atol(argv[1]), built = 0;
    int files = argc - 2;
    double start = seconds(), slowest = 0;
    for (int f = 0; f < files; f++) {
        pl_file file;
        pl_error err;
        if (pl_file_open(&file, argv[f + 2], SIZE_MAX, &err) != PL_OK) return 3;
        size_t room = file.size + 4096;
        unsigned char *bytes = malloc(room);
        if (!bytes || !build_once(file.bytes, file.size)) return 3;
        for (long i = 0; i < count / files; i++) {
            size_t size = file.size;
            memcpy(bytes, file.bytes, size);
            damage(bytes, &size, room);
            /* an exact block, so that a sanitizer sees the first byte read past the end */
            unsigned char *exact = malloc(size ? size : 1);
            if (!exact) return 4;
            memcpy(exact, bytes, size);
            double before = seconds();
            built += build_once(exact, size);
            double took = seconds() - before;
            if (took > slowest) slowest = took;
            free(exact);
        }
        free(bytes);
        pl_file_close(&file);
    }
    printf("# %ld damaged configs, %ld of them still built, %.1f s, the slowest %.1f ms\n", count,
           built, seconds() - start, slowest * 1e3);
    if (slowest > 5) return 1;
    return 0;
}
#endif
