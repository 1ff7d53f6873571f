/* fuzz_demand: damaged estimates, as collocate reads them. Whatever the bytes, a demand with
 * numbers that an estimate can say, of which two can be collocated, or PL_INPUT with file and
 * place; nothing crashes, leaks or hangs.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_demand COUNT FILE-OR-FOLDER... */
#include "fuzz_path.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static bool open_once(const unsigned char *bytes, size_t size) {
    pl_error err = {0};
    pl_demand demand = PL_SIZED(pl_demand);
    pl_status status = pl_demand_open(&demand, fuzz_path_of(bytes, size), &err);
    if (status != PL_OK) {
        if (err.code != status || (status != PL_INPUT && status != PL_MISSING) || !err.message[0])
            stop("failure", &err);
        return false;
    }
    if (demand.peak_bytes < PL_UNKNOWN || demand.high_bytes < PL_UNKNOWN || demand.step_ms < 0)
        stop("a figure below 0", &err);
    pl_pair pair = PL_SIZED(pl_pair);
    status = pl_collocate(&pair, &demand, &demand, pl_gpu_find("h200"), (pl_sharing)0, &err);
    if (status != PL_OK && !err.message[0]) stop("collocate", &err);
    if (status == PL_OK && pair.needed_bytes < 0) stop("bytes below 0", &err);
    return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    open_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

static const char *const tokens[] = {"-1",  "0",    "1e-300",  "1e300", "9223372036854775807",
                                     "NaN", "null", "true",    "[",     "]",
                                     "{",   "}",    "[]",      "\"",    "100.5",
                                     ",",   ":",    "\\u0000", "\xff"};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "estimates", open_once, damage);
}
#endif
