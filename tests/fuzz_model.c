/* fuzz_model: damaged graphs of plimsoll's own and traces, as a caller opens and estimates them.
 * Whatever the bytes, a model or PL_INPUT with the file and what was expected (PL_LIMIT where the
 * memory it may take is spent); of a model a report or a reason; nothing crashes, leaks or hangs.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_model COUNT FILE-OR-FOLDER... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static bool estimate_once(const unsigned char *bytes, size_t size) {
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    pl_limits limits;
    pl_limits_default(&limits);
    limits.memory_bytes = (size_t)64 << 20;
    settings.limits = &limits;
    pl_error err = {0};
    pl_model *model = NULL;
    pl_status status = pl_model_open_memory(&model, bytes, size, "fuzzed", &settings, &err);
    if (status != PL_OK) {
        if (model || (status != PL_INPUT && status != PL_LIMIT) || err.code != status ||
            !err.message[0])
            stop("failure to read", &err);
        return false;
    }
    pl_job job;
    pl_job_default(&job);
    job.estimator = "sim";
    pl_report *report = NULL;
    status = pl_estimate(&report, model, &job, &err);
    if ((status == PL_OK) != (report != NULL) || (status != PL_OK && !err.message[0]))
        stop("estimate", &err);
    if (report && report->peak_bytes < 0) stop("a peak below 0", &err);
    pl_report_close(&report);
    pl_model_close(&model);
    return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    estimate_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

static const char *const tokens[] = {"-1",
                                     "0",
                                     "2",
                                     "2147483647",
                                     "4611686018427387904",
                                     "9223372036854775807",
                                     "18446744073709551616",
                                     "1e999",
                                     "NaN",
                                     "null",
                                     "true",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "[]",
                                     "{}",
                                     "\"\"",
                                     "\\ud800",
                                     ",",
                                     "[4, \"s0\"]",
                                     "[0, \"s0//0\"]",
                                     "\"tied\": 0",
                                     "\"parameter\"",
                                     "\"float16\"",
                                     "\"aten.linear.default\"",
                                     "\"aten.convolution.default\"",
                                     "\xff"};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "graphs and traces", estimate_once, damage);
}
#endif
