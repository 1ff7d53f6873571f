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

#include "core/file.h"
#include "graph_sound.h"
#include "import/hf.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static bool build_once(const unsigned char *bytes, size_t size) {
    pl_budget budget = {.most_bytes = (size_t)64 << 20};
    pl_reading settings = {.budget = &budget, .depth_limit = 512};
    pl_error err = {0};
    pl_recipe *recipe = NULL;
    pl_status status =
        pl_import_hf(&recipe, (const char *)bytes, size, "config.json", &settings, &err);
    if (status != PL_OK) {
        if (recipe || (status != PL_INPUT && status != PL_LIMIT) || err.code != status ||
            (status == PL_INPUT && err.position < 0) || !err.message[0] ||
            strcmp(err.where, "config.json") != 0)
            stop("failure to read", &err);
        return false;
    }
    pl_graph *graph = NULL;
    status = recipe->build(recipe, 2, recipe->seq == PL_UNKNOWN ? PL_UNKNOWN : 24, &budget, &graph,
                           &err);
    if (status == PL_OK) {
        const char *wrong = graph ? graph_unsound(graph) : "no graph";
        if (wrong) stop(wrong, &err);
    } else if (graph || !err.message[0] ||
               (status != PL_INPUT && status != PL_LIMIT && strcmp(err.where, "seq") != 0)) {
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

#include "fuzz.h"

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
    if (below(3) == 0) {
        fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
        return;
    }
    for (size_t times = 1 + below(4); times > 0 && *size; times--) change_value(bytes, size, room);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "configs", build_once, damage);
}
#endif
