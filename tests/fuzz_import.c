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
        pl_status status = pl_graph_bind(&bound, graph, values, NULL, &err);
        const char *wrong = status == PL_OK ? graph_unsound(bound) : NULL;
        if (wrong) stop(wrong, &err);
        if (status != PL_OK && (status != PL_USAGE || bound || !err.message[0]))
            stop("binding", &err);
        pl_graph_close(&bound);
    }
    free(values);
}

static bool import_once(const unsigned char *bytes, size_t size) {
    pl_budget budget = {.most_bytes = (size_t)256 << 20};
    pl_reading settings = {.budget = &budget, .depth_limit = 64};
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

#include "fuzz.h"

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

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

/* The JSON in an archive, or the file itself. false: it cannot be read. */
static bool find_json(const pl_file *file, const char *path, pl_arena *arena, const void **json,
                      size_t *size) {
    pl_zip zip;
    pl_zip_member member;
    pl_error err = PL_SIZED(pl_error);
    bool found = true;
    *json = file->bytes;
    *size = file->size;
    if (!pl_zip_is(file->bytes, file->size)) return true;
    if (pl_zip_open(&zip, file->bytes, file->size, path, &err) != PL_OK) return false;
    while (pl_zip_next(&zip, &member, &found, &err) == PL_OK && found)
        if (member.name_length > 5 && !memcmp(member.name + member.name_length - 5, ".json", 5) &&
            pl_zip_read(&zip, &member, arena, path, json, size, &err) != PL_OK)
            return false;
    return true;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long count = atol(argv[1]) / (argc - 2);
    fuzz_tally tally = {0};
    int code = 0;
    for (int f = 2; f < argc && code == 0; f++) {
        pl_file file;
        pl_error err = PL_SIZED(pl_error);
        pl_arena *arena = pl_arena_new(0);
        const void *json;
        size_t json_size;
        if (pl_file_open(&file, argv[f], SIZE_MAX, &err) != PL_OK) return 3;
        code = find_json(&file, argv[f], arena, &json, &json_size) ? 0 : 3;
        if (code == 0)
            code =
                fuzz_variants(&tally, file.bytes, file.size, false, count / 3, import_once, damage);
        if (code == 0)
            code = fuzz_variants(&tally, json, json_size, false, count - count / 3, import_once,
                                 damage);
        pl_arena_free(&arena);
        pl_file_close(&file);
    }
    fuzz_report(&tally, "files");
    return code;
}
#endif
