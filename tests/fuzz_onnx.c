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
#include <time.h>

#include "core/file.h"
#include "graph_sound.h"
#include "import/onnx.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static bool import_once(const unsigned char *bytes, size_t size) {
    pl_model_settings settings = {.memory_limit = (size_t)256 << 20, .depth_limit = 64};
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
        status = recipe->build(recipe, batch, seq, settings.memory_limit, &graph, &err);
        const char *wrong = status == PL_OK ? graph_unsound(graph) : NULL;
        if (wrong) stop(wrong, &err);
        if (status != PL_OK &&
            (graph || !err.message[0] || (status != PL_INPUT && status != PL_MISSING)))
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

static uint64_t state = 88172645463325252u; /* xorshift64 (G. Marsaglia, 2003) */

static size_t below(size_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (size_t)(state % limit) : 0;
}

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

static void damage(unsigned char *bytes, size_t *size, size_t room, bool gentle) {
    size_t times = 1 + below(gentle ? 8 : 4);
    while (times-- && *size) {
        size_t at = below(*size), length = 1 + below(below(8) ? 16 : 256);
        if (length > *size - at) length = *size - at;
        switch (below(gentle ? 4 : 8)) {
        case 0: bytes[at] ^= (unsigned char)(1u << below(8)); break;
        case 1: bytes[at] = (unsigned char)below(256); break;
        case 2: bytes[at] = (unsigned char)below(16); break;
        case 3: {
            const char *token = tokens[below(sizeof tokens / sizeof *tokens)];
            size_t n = strlen(token);
            memcpy(bytes + at, token, n < *size - at ? n : *size - at);
            break;
        }
        case 4: /* leave a piece out */
            memmove(bytes + at, bytes + at + length, *size - at - length);
            *size -= length;
            break;
        case 5: /* double a piece */
            if (*size + length > room) break;
            memmove(bytes + at + length, bytes + at, *size - at);
            *size += length;
            break;
        case 6: /* a piece from elsewhere over this one */
            memmove(bytes + at, bytes + below(*size - length + 1), length);
            break;
        default:
            if (below(4) == 0) *size = at;
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
    long count = atol(argv[1]);
    int files = argc - 2;
    double start = seconds(), slowest = 0;
    long read = 0;
    for (int f = 0; f < files; f++) {
        pl_file file;
        pl_error err;
        if (pl_file_open(&file, argv[f + 2], SIZE_MAX, &err) != PL_OK) return 3;
        size_t room = file.size + 4096;
        unsigned char *bytes = malloc(room);
        if (!bytes || !import_once(file.bytes, file.size)) return 3;
        for (long i = 0; i < count / files; i++) {
            size_t size = file.size;
            memcpy(bytes, file.bytes, size);
            damage(bytes, &size, room, i % 2 == 0);
            /* an exact block, so that a sanitizer sees the first byte read past the end */
            unsigned char *exact = malloc(size ? size : 1);
            if (!exact) return 4;
            memcpy(exact, bytes, size);
            double before = seconds();
            read += import_once(exact, size);
            double took = seconds() - before;
            if (took > slowest) slowest = took;
            free(exact);
        }
        free(bytes);
        pl_file_close(&file);
    }
    printf("# %ld damaged files, %ld of them still readable, %.1f s, the slowest %.1f ms\n", count,
           read, seconds() - start, slowest * 1e3);
    if (slowest > 5) return 1;
    return 0;
}
#endif
