/* fuzz_report: damaged reports of jobs. Whatever the bytes, a refusal that says where, or a report with a name and a
 * state whose texts are UTF-8, whose settings are JSON, and whose figures are within bounds.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_report COUNT FILE-OR-FOLDER... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../serve/report.h"
#include "core/utf8.h"
#include "import/json.h"

const char *history_state_name(history_state state) { /* history.c's, without SQLite */
    static const char *const names[] = {"submitted", "started", "seen", "ended"};
    return (unsigned)state < JOB_STATES ? names[state] : NULL;
}

static void stop(const char *what, const char *text) {
    fprintf(stderr, "not sound: %s: %s\n", what, text);
    abort();
}

static void check_text(const char *name, const char *text, size_t room) {
    if (!text) return;
    size_t size = strlen(text);
    if (size >= room) stop("too long", name);
    for (size_t at = 0; at < size;) {
        size_t step = pl_utf8_length((const unsigned char *)text + at, size - at);
        if (step == 0) stop("no UTF-8", name);
        at += step;
    }
}

static void check_report(const history_event *e) {
    if (!e->job || !*e->job || (unsigned)e->state >= JOB_STATES) stop("no job or state", "");
    check_text("job", e->job, 256);
    check_text("user", e->user, 128);
    check_text("gpu", e->gpu, 64);
    check_text("family", e->family, 32);
    check_text("model", e->model, 80);
    check_text("settings", e->settings, (64 << 10) + 1);
    const int64_t bytes[] = {e->predicted_bytes, e->upper_bytes, e->peak_bytes};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        if (bytes[i] != PL_UNKNOWN && (bytes[i] < 0 || bytes[i] > INT64_C(1) << 50))
            stop("bytes", "");
    const double reals[] = {e->predicted_step_ms, e->step_ms, e->smact, e->smocc, e->drama};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (!isnan(reals[i]) && !(reals[i] >= 0 && reals[i] <= 3.2e10)) stop("a real", "");
    pl_json json;
    if (!e->settings) return;
    pl_json_open(&json, e->settings, strlen(e->settings), 64);
    if (pl_json_peek(&json) != '{' || !pl_json_skip(&json) || !pl_json_end(&json))
        stop("settings", e->settings);
}

static bool read_once(const unsigned char *bytes, size_t size) {
    report_read_t report;
    pl_error err = PL_SIZED(pl_error);
    bool good = report_read(&report, (const char *)bytes, size, NULL, &err) == PL_OK;
    if (good) check_report(&report.event);
    if (!good && (!*err.message || !*err.where)) stop("a refusal that says nothing", err.message);
    report_close(&report);
    return good;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    read_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

static const char *const tokens[] = {"-1",
                                     "0",
                                     "1e999",
                                     "9223372036854775807",
                                     "NaN",
                                     "null",
                                     "\\u0000",
                                     "\\ud800",
                                     "\xff",
                                     "\"",
                                     "{",
                                     "}",
                                     "[",
                                     ":",
                                     "\"state\"",
                                     "\"settings\":{",
                                     "\"a100-40gb,memory=40GiB\""};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "reports", read_once, damage);
}
#endif
