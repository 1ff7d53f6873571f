/* fuzz_day: damaged traces and sizes of jobs. Whatever the bytes: a trace whose day passes, with hours that add up, sizes
 * with which one does, or PL_INPUT with file and place; nothing crashes, leaks or hangs.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_day COUNT FILE-OR-FOLDER... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static const char cards[] = "{\"cards\":[{\"gpu\":\"h200\",\"count\":2},{\"gpu\":\"t4\"}]}";
static const char some_jobs[] = "submit_s,duration_s,gpus\n0,10,1\n1,100,2\n2,50,1\n3,5,1\n";
static const char some_sizes[] =
    "{\"name\":\"A\",\"measured_bytes\":60000000000,\"estimates\":{\"e\":{\"peak_bytes\":50000000000,"
    "\"low_bytes\":40000000000,\"high_bytes\":70000000000}}}\n";

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s, %lld: %s)\n", what, err->code, err->where,
            (long long)err->position, err->message);
    abort();
}

static void pass(const pl_cluster *cluster, const pl_arrivals *trace, pl_sizes *sizes,
                 const char *policy) {
    pl_error err = PL_SIZED(pl_error);
    pl_day *day = NULL;
    pl_status status = pl_day_open(&day, cluster, trace, sizes, policy, NULL, &err);
    if (status != PL_OK) {
        if (status != PL_USAGE || day || !err.message[0]) stop(policy, &err);
        return;
    }
    const pl_day_outcome *o = pl_day_describe(day);
    double sum = o->work_hours + o->lost_hours + o->slowed_hours;
    if (o->finished + o->impossible != o->jobs || o->placements != o->finished + o->crashes ||
        !(fabs(sum - o->held_hours) <= 1e-6 * fmax(1, sum)) || o->most_over_bytes > 0)
        stop("sums", &err);
    pl_day_close(&day);
}

static bool open_once(const unsigned char *bytes, size_t size) {
    static pl_cluster *cluster;
    pl_error err = PL_SIZED(pl_error);
    pl_arrivals *trace = NULL;
    pl_sizes *sizes = NULL;
    if (!cluster) pl_cluster_open_memory(&cluster, cards, sizeof cards - 1, "cards", NULL, &err);
    bool jobs = pl_arrivals_open_memory(&trace, bytes, size, "f", &err) == PL_OK;
    if (!jobs && (err.code != PL_INPUT || !err.message[0] || trace)) stop("a trace", &err);
    bool kinds = pl_sizes_open_memory(&sizes, bytes, size, "f", &err) == PL_OK;
    if (!kinds && ((err.code != PL_INPUT && err.code != PL_USAGE && err.code != PL_MISSING) ||
                   !err.message[0] || sizes))
        stop("sizes", &err);
    if (!trace) pl_arrivals_open_memory(&trace, some_jobs, sizeof some_jobs - 1, "jobs", &err);
    if (!sizes) pl_sizes_open_memory(&sizes, some_sizes, sizeof some_sizes - 1, "sizes", &err);
    if ((jobs || kinds) && pl_arrivals_count(trace) < 1000) {
        const char *estimator = pl_sizes_estimator(sizes, 0);
        if (estimator) pass(cluster, trace, sizes, estimator);
        pass(cluster, trace, sizes, "requested");
    }
    pl_arrivals_close(&trace);
    pl_sizes_close(&sizes);
    return jobs || kinds;
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
                                     "1e-300",
                                     "1e300",
                                     "9223372036854775807",
                                     "nan",
                                     "inf",
                                     "null",
                                     "3200000000",
                                     "\n",
                                     ",",
                                     "\r\n",
                                     "[",
                                     "{",
                                     "}",
                                     "\"",
                                     ":",
                                     "1048576",
                                     "\"schema\":1",
                                     "\xff"};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "traces and sizes", open_once, damage);
}
#endif
