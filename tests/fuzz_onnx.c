/* fuzz_onnx: damaged ONNX files. Whatever the bytes, the reader gives a recipe that builds a sound
 * graph or says why it cannot, or PL_INPUT with file, place and what was expected; it does not
 * crash, leak or hang.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target; without, a program
 * that damages files itself, from a seed, the same each time: test_fuzz_onnx COUNT FILE.onnx...
 * Lengths in a protocol buffer stand before what they measure, so that most blind damage ends a
 * file early: half of the variants only change bytes, of numbers and names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "graph_sound.h"
#include "import/onnx.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static bool import_once(const unsigned char *bytes, size_t size) {
    pl_budget budget = {.most_bytes = (size_t)256 << 20};
    pl_reading settings = {.budget = &budget, .depth_limit = 64};
    pl_error err = {0};
    pl_recipe *recipe = NULL;
    (void)pl_onnx_is(bytes, size);
    pl_status status = pl_import_onnx(&recipe, bytes, size, "fuzzed.onnx", &settings, &err);
    if (status != PL_OK) {
        if (recipe || status != PL_INPUT || err.code != status || err.position < 0 ||
            !err.message[0] || strcmp(err.where, "fuzzed.onnx") != 0)
            stop("failure", &err);
        return false;
    }
    static const int64_t sizes[][2] = {{2, 5}, {1, 1}, {1 << 20, 1 << 16}};
    bool built = false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pl_graph *graph = NULL;
        err = (pl_error){0};
        int64_t batch = recipe->batch_assumed ? sizes[i][0] : recipe->batch;
        int64_t seq = recipe->seq_assumed ? sizes[i][1] : recipe->seq;
        status = recipe->build(recipe, batch, seq, &budget, &graph, &err);
        const char *wrong = status == PL_OK ? graph_unsound(graph) : NULL;
        if (wrong) stop(wrong, &err);
        if (status != PL_OK &&
            (graph || !err.message[0] || (status != PL_INPUT && status != PL_LIMIT)))
            stop("building", &err);
        built |= status == PL_OK;
        pl_graph_close(&graph);
    }
    pl_recipe_close(&recipe);
    return built;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    import_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

/* Names of operators and numbers, written over others of the same length where there are such. */
static const char *const tokens[] = {"Conv",
                                     "Add",
                                     "Gemm",
                                     "Split",
                                     "Gather",
                                     "Slice",
                                     "Range",
                                     "Expand",
                                     "Reshape",
                                     "Concat",
                                     "MatMul",
                                     "Softmax",
                                     "Where",
                                     "Shape",
                                     "LSTM",
                                     "axis",
                                     "perm",
                                     "pads",
                                     "\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                                     "\x80\x80\x80\x80\x01",
                                     "[9223372036854775807]",
                                     "%p_",
                                     "aten.",
                                     "[[[[",
                                     "(((((",
                                     "torch.ops."};

/* Every second time gently: numbers and names change, nothing moves, so that more is still read. */
static void damage(unsigned char *bytes, size_t *size, size_t room) {
    static unsigned long turn;
    if (turn++ % 2) {
        fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
        return;
    }
    for (size_t times = 1 + below(8); times > 0 && *size; times--) {
        size_t at = below(*size);
        const char *token = tokens[below(sizeof tokens / sizeof *tokens)];
        size_t n = strlen(token) < *size - at ? strlen(token) : *size - at;
        switch (below(4)) {
        case 0: bytes[at] ^= (unsigned char)(1u << below(8)); break;
        case 1: bytes[at] = (unsigned char)below(256); break;
        case 2: bytes[at] = (unsigned char)below(16); break;
        default: memcpy(bytes + at, token, n);
        }
    }
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "files", import_once, damage);
}
#endif
