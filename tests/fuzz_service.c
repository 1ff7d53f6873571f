/* fuzz_service: damaged requests. Whatever the bytes, a response with a status that the page describes and a
 * body that is JSON; nothing crashes, leaks or hangs.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_service COUNT FILE-OR-FOLDER...
 * A file is a path, a line's end and a body. */
#include <plimsoll/service.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"
#include "import/json.h"

static void stop(const char *what, const pl_response *r) {
    fprintf(stderr, "not sound: %s (%d, %s)\n", what, r->status, r->body);
    abort();
}

/* A fleet of odd reports: of a100s, those of some run of the bytes that are being read. */
static const unsigned char *odd;
static size_t odd_size;

static size_t seen(void *context, const char *gpu, const char *family, const char *digest,
                   pl_seen *jobs, size_t room) {
    (void)context, (void)family, (void)digest;
    size_t count = strncmp(gpu, "a100", 4) == 0 ? 50 : 0;
    for (size_t i = 0; i < count && i < room; i++) {
        unsigned char b = odd_size ? odd[i % odd_size] : 0;
        jobs[i] = (pl_seen){.predicted_bytes = (int64_t)1 << b % 62,
                            .peak_bytes = b % 5 ? ((int64_t)1 << b % 62) + b : INT64_MAX,
                            .same_family = b % 2,
                            .same_model = b % 3,
                            .predicted_step_ms = b,
                            .step_ms = b % 7 ? b * 1.1 : -1e308};
    }
    return count < room ? count : room;
}

static bool answer_once(const unsigned char *bytes, size_t size) {
    static pl_service *service;
    char path[64] = "/v1/estimate";
    const unsigned char *line = memchr(bytes, '\n', size);
    if (!service) {
        pl_service_settings settings;
        pl_service_settings_default(&settings);
        settings.limits.memory_bytes = (size_t)64 << 20;
        settings.limits.timeout_ms = 500;
        settings.model_bytes = 1 << 20;
        settings.answer_bytes = 1 << 16;
        settings.seen = seen;
        if (pl_service_open(&service, &settings, NULL) != PL_OK) abort();
    }
    odd = bytes;
    odd_size = size;
    size_t length = line ? (size_t)(line - bytes) : 0;
    if (line && length < sizeof path) {
        memcpy(path, bytes, length);
        path[length] = '\0';
        bytes += length + 1;
        size -= length + 1;
    }
    pl_request request = {.size = sizeof request,
                          .method = strcmp(path, "/v1/cards") ? "POST" : "GET",
                          .path = path,
                          .body = bytes,
                          .body_size = size};
    pl_response response = PL_SIZED(pl_response);
    pl_service_answer(service, &request, &response);
    int status = response.status;
    if (!(status == 200 || status == 201 || status == 400 || status == 404 || status == 405 ||
          status == 422))
        stop("a status that nobody expects", &response);
    if (strlen(response.body) != response.length) stop("a zero within", &response);
    for (size_t at = 0; at < response.length;) {
        const unsigned char *from = (const unsigned char *)response.body + at;
        size_t step = pl_utf8_length(from, response.length - at);
        if (step == 0) stop("no UTF-8", &response);
        at += step;
    }
    pl_json json;
    pl_json_open(&json, response.body, response.length, 512);
    if (!pl_json_skip(&json) || !pl_json_end(&json)) stop("no JSON", &response);
    pl_response again = PL_SIZED(pl_response); /* what is kept is what was answered */
    if (pl_service_known(service, &request, &again)) {
        if (again.status != 200 || again.length != response.length ||
            memcmp(again.body, response.body, response.length) != 0)
            stop("another answer the second time", &again);
        pl_response_close(&again);
    }
    pl_response_close(&response);
    return status < 300;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    answer_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

static const char *const tokens[] = {"-1",
                                     "0",
                                     "1e300",
                                     "9223372036854775807",
                                     "NaN",
                                     "null",
                                     "true",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     ",",
                                     ":",
                                     "\\u0000",
                                     "\"gpu\"",
                                     "\"jobs\"",
                                     "\xff",
                                     "\"model\"",
                                     "1e999",
                                     "-1e-999",
                                     "\\ud800",
                                     "\xf0\x9f",
                                     "\"batch\":",
                                     "\"schema\":",
                                     "18446744073709551616",
                                     "\"a100-40gb\"",
                                     "\"count\":",
                                     "999999999",
                                     "\\"};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "requests", answer_once, damage);
}
#endif
