/* fuzz_spec: damaged sketches and summaries. Whatever the bytes, a spec becomes a recipe that
 * builds sound graphs, or PL_INPUT with file, place and line; a summary becomes counts, or the
 * same; nothing crashes, leaks or hangs.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target:
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DPL_LIBFUZZER -D_POSIX_C_SOURCE=200809L \
 *         -Isrc -Iinclude -Itests tests/fuzz_spec.c src/core/{arena,error,file}.c \
 *         src/graph/{aten,aten_view,build,expr,graph,recipe}.c src/import/{json,summary,yaml}.c \
 *         src/import/spec{,_family,_item,_list,_nn}.c -lm -o fuzz_spec
 *
 * Without, a program that damages texts itself, from a seed, the same each time:
 *     test_fuzz_spec COUNT FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "graph_sound.h"
#include "import/spec.h"
#include "import/summary.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

/* A failure must say where; running into the limit set for memory is allowed. */
static void check_failure(pl_status status, const pl_error *err, const void *out) {
    bool placed = err->position >= 0 && strncmp(err->where, "fuzzed", 6) == 0;
    if (out || err->code != status || !err->message[0] ||
        !(status == PL_MISSING || (status == PL_INPUT && placed)))
        stop("failure", err);
}

static void build(const pl_recipe *recipe, int64_t batch, int64_t seq) {
    pl_error err = {0};
    pl_graph *graph = NULL;
    pl_status status = recipe->build(recipe, batch, seq,
                                     &(pl_budget){.most_bytes = (size_t)64 << 20}, &graph, &err);
    const char *wrong = status == PL_OK ? graph_unsound(graph) : NULL;
    if (wrong) stop(wrong, &err);
    if (status != PL_OK && (graph || !err.message[0])) stop("building", &err);
    pl_graph_close(&graph);
}

static bool read_spec(const unsigned char *bytes, size_t size) {
    pl_budget budget = {.most_bytes = (size_t)64 << 20};
    pl_reading settings = {.budget = &budget, .depth_limit = 64};
    pl_error err = {0};
    pl_recipe *recipe = NULL;
    pl_status status =
        pl_import_spec(&recipe, (const char *)bytes, size, "fuzzed", &settings, &err);
    if (status != PL_OK) {
        check_failure(status, &err, recipe);
        return false;
    }
    build(recipe, 3, recipe->seq == PL_UNKNOWN ? PL_UNKNOWN : 5);
    build(recipe, INT64_MAX, recipe->seq == PL_UNKNOWN ? PL_UNKNOWN : INT64_MAX);
    pl_recipe_close(&recipe);
    return true;
}

static bool read_summary(const unsigned char *bytes, size_t size) {
    pl_budget budget = {.most_bytes = (size_t)64 << 20};
    pl_reading settings = {.budget = &budget, .depth_limit = 64};
    pl_error err = {0};
    pl_summary *summary = NULL;
    pl_status status =
        pl_import_summary(&summary, (const char *)bytes, size, "fuzzed", &settings, &err);
    if (status != PL_OK) {
        check_failure(status, &err, summary);
        return false;
    }
    for (size_t i = 0; i < summary->layer_count; i++)
        if (!summary->layers[i].type[0] || summary->layers[i].activations < 0 ||
            summary->layers[i].parameters < 0)
            stop("a layer", &err);
    if (summary->layer_count == 0 || summary->parameters < 0 || summary->trainable < 0)
        stop("a summary", &err);
    pl_summary_close(&summary);
    return true;
}

static bool read_once(const unsigned char *bytes, size_t size) {
    pl_spec_is((const char *)bytes, size);
    bool summary = pl_summary_is((const char *)bytes, size);
    bool read = read_summary(bytes, size);
    if (read && !summary && size < 1 << 16) stop("read what is none", &(pl_error){0});
    return read_spec(bytes, size) || read;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    read_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

/* Text that readers tend to stumble over. */
static const char *const tokens[] = {"-1",
                                     "0",
                                     "1073741824",
                                     "9223372036854775807",
                                     "1e999",
                                     "-0.0",
                                     "null",
                                     "true",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     "'",
                                     "\\",
                                     "\\u0000",
                                     ",",
                                     ": ",
                                     "- ",
                                     "\n",
                                     "\n  ",
                                     "\n\t",
                                     "#",
                                     "&a",
                                     "*a",
                                     "|",
                                     "\xff",
                                     "\xe2\x94",
                                     "[[[[",
                                     "{a: {b: ",
                                     "linear 5",
                                     "conv 3 3 9",
                                     "residual: [",
                                     "repeat: {times: 2000, layers: [",
                                     "flatten",
                                     "transformer 3",
                                     "embedding {vocab: 9, width: 8}",
                                     "lstm 7",
                                     "kernel: ",
                                     "=",
                                     "same",
                                     "--",
                                     "(recursive)",
                                     "Conv2d-1"};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "texts", read_once, damage);
}
#endif
