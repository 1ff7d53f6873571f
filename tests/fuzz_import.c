/* fuzz_import: damaged model files. Whatever the bytes, the importer returns a sound graph, or
 * PL_INPUT with file, place and what was expected; it does not crash, leak or hang.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target:
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DPL_LIBFUZZER -Isrc -Iinclude \
 *         tests/fuzz_import.c src/core/{arena,error,file}.c src/graph/{graph,expr}.c \
 *         src/import/{import,json,names,pt2,zip}.c src/import/pt2_{args,graph,module}.c \
 *         -lz -lm -o fuzz_import
 *
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_import COUNT FILE.pt2...
 * A third of the variants are damaged archives, the rest damaged JSON: the archive's check sum
 * would keep most of the damage from the JSON reader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/file.h"
#include "graph_sound.h"
#include "import_graph.h"
#include "import/zip.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

/* Binds each symbol to its hint, its least value and to something large. */
static void bind(const pl_graph *graph) {
    int64_t *values = calloc((size_t)graph->symbol_count + 1, sizeof *values);
    for (int round = 0; values && round < 3; round++) {
        pl_error err = {0};
        pl_graph *bound = NULL;
        for (int32_t i = 0; i < graph->symbol_count; i++)
            values[i] = round == 0   ? graph->symbols[i].hint
                        : round == 1 ? graph->symbols[i].least
                                     : INT64_MAX;
        pl_status status = pl_graph_bind(&bound, graph, values, &err);
        const char *wrong = status == PL_OK ? graph_unsound(bound) : NULL;
        if (wrong) stop(wrong, &err);
        if (status != PL_OK && (status != PL_USAGE || bound || !err.message[0]))
            stop("binding", &err);
        pl_graph_close(&bound);
    }
    free(values);
}

static bool import_once(const unsigned char *bytes, size_t size) {
    pl_model_settings settings = {.memory_limit = (size_t)256 << 20, .depth_limit = 64};
    pl_error err = {0};
    pl_graph *graph = NULL;
    pl_status status = import_graph_memory(&graph, bytes, size, "fuzzed.pt2", &settings, &err);
    if (status == PL_OK) {
        const char *wrong = graph ? graph_unsound(graph) : "no graph";
        if (wrong) stop(wrong, &err);
        bind(graph);
    } else if (graph || status != PL_INPUT || err.code != status || err.position < 0 ||
               !err.message[0] || strncmp(err.where, "fuzzed.pt2", 10) != 0) {
        stop("failure", &err);
    }
    pl_graph_close(&graph);
    return status == PL_OK;
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

/* Text that readers tend to stumble over. */
static const char *const tokens[] = {"-1",
                                     "0",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "18446744073709551616",
                                     "4611686018427387904",
                                     "1e999",
                                     "NaN",
                                     "Infinity",
                                     "null",
                                     "true",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     "\\",
                                     "\\u0000",
                                     "\\ud800",
                                     ",",
                                     ":",
                                     "[]",
                                     "{}",
                                     "\"\"",
                                     "as_int",
                                     "as_tensor",
                                     "as_graph",
                                     "as_expr",
                                     "{\"as_int\": -5}",
                                     "\xff",
                                     "Mul(",
                                     "FloorDiv(s77, 0)",
                                     "s77**9999",
                                     "[[[[[[[[",
                                     "{\"a\":{\"a\":{\"a\":",
                                     "higher_order.wrap_with_set_grad_enabled"};

/* Damages bytes[0 .. *size) in place; room: what fits. */
static void damage(unsigned char *bytes, size_t *size, size_t room) {
    size_t times = 1 + below(4);
    while (times-- && *size) {
        size_t at = below(*size), length = 1 + below(below(8) ? 16 : 256);
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
        case 6: { /* a token, over what is there or in between */
            const char *token = tokens[below(sizeof tokens / sizeof *tokens)];
            size_t n = strlen(token);
            bool between = below(2);
            if (between && *size + n <= room) {
                memmove(bytes + at + n, bytes + at, *size - at);
                *size += n;
            }
            memcpy(bytes + at, token, n < *size - at ? n : *size - at);
            break;
        }
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
        pl_arena *arena = pl_arena_new(0);
        const void *json = file.bytes;
        size_t json_size = file.size;
        pl_zip zip;
        pl_zip_member member;
        bool found = true;
        if (pl_zip_is(file.bytes, file.size) &&
            pl_zip_open(&zip, file.bytes, file.size, argv[f + 2], &err) == PL_OK) {
            while (pl_zip_next(&zip, &member, &found, &err) == PL_OK && found)
                if (member.name_length > 5 &&
                    !memcmp(member.name + member.name_length - 5, ".json", 5) &&
                    pl_zip_read(&zip, &member, arena, SIZE_MAX, argv[f + 2], &json, &json_size,
                                &err) != PL_OK)
                    return 3;
        }
        size_t room = (json_size > file.size ? json_size : file.size) + 4096;
        unsigned char *bytes = malloc(room);
        if (!bytes || !import_once(file.bytes, file.size) || !import_once(json, json_size))
            return 3;
        for (long i = 0; i < count / files; i++) {
            bool archive = i % 3 == 0;
            size_t size = archive ? file.size : json_size;
            memcpy(bytes, archive ? file.bytes : json, size);
            damage(bytes, &size, room);
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
        pl_arena_free(&arena);
        pl_file_close(&file);
    }
    printf("# %ld damaged files, %ld of them still readable, %.1f s, the slowest %.1f ms\n", count,
           read, seconds() - start, slowest * 1e3);
    if (slowest > 5) return 1;
    return 0;
}
#endif
