/* fuzz_jobs: damaged files of measured jobs: records, GPUMemNet's CSV, convolutions, plain or xz.
 * Whatever the bytes, jobs whose numbers are such as can be measured, or PL_INPUT with file and
 * place (PL_LIMIT where the memory they may take is spent); nothing crashes, leaks or hangs.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_jobs COUNT FILE-OR-FOLDER... */
#include "fuzz_path.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/jobs/jobs.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static const char *unsound(const pl_measured *item) {
    const pl_job *job = &item->job;
    if (job->accumulate < 1 || job->accumulate > 4096) return "accumulate";
    if (job->world < 1 || job->world > 1 << 14 || job->stage < 2 || job->stage > 3) return "world";
    if (item->facts.measured_bytes < PL_UNKNOWN || item->step_ms < 0) return "what was measured";
    if (!isnan(item->flops_per_step) && !isfinite(item->flops_per_step)) return "operations";
    for (size_t i = 0; i < item->profile.layer_count; i++)
        if (item->profile.layers[i].activations < 0 || item->profile.layers[i].parameters < 0)
            return "a layer";
    return NULL;
}

static bool open_once(const unsigned char *bytes, size_t size) {
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    pl_limits limits;
    pl_limits_default(&limits);
    limits.memory_bytes = (size_t)64 << 20;
    settings.limits = &limits;
    settings.described = true;
    settings.threads = 1;
    pl_error err = {0};
    pl_jobs *jobs = NULL;
    const char *path = fuzz_path_of(bytes, size);
    pl_status status = pl_jobs_open(&jobs, &path, 1, &settings, &err);
    if (status != PL_OK) {
        if (jobs || (status != PL_INPUT && status != PL_LIMIT) || err.code != status ||
            !err.message[0])
            stop("failure", &err);
        return false;
    }
    for (size_t i = 0; i < jobs->count; i++) {
        const char *wrong = unsound(&jobs->items[i]);
        if (wrong) stop(wrong, &err);
    }
    pl_jobs_close(&jobs);
    return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    open_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

static const char *const tokens[] = {"-1",
                                     "0",
                                     "4097",
                                     "2147483647",
                                     "9223372036854775807",
                                     "1e999",
                                     "NaN",
                                     "null",
                                     "true",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     "\"\"",
                                     ",",
                                     "\n",
                                     "\r\n",
                                     "('linear', 64, 4160)",
                                     "nan",
                                     "\"world\":0",
                                     "\"accumulate\":0",
                                     "\"parallel\":{\"kind\":\"fsdp2\",\"world\":",
                                     "\"config\":{\"model_type\":\"gpt2\"}",
                                     "\"id\":\"..\"",
                                     "\"cin\":",
                                     "\xff"};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "files of jobs", open_once, damage);
}
#endif
