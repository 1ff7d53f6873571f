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

#include "import/json.h"

static void stop(const char *what, const pl_response *r) {
    fprintf(stderr, "not sound: %s (%d, %s)\n", what, r->status, r->body);
    abort();
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
        if (pl_service_open(&service, &settings, NULL) != PL_OK) abort();
    }
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
    pl_json json;
    pl_json_open(&json, response.body, response.length, 512);
    if (!pl_json_skip(&json) || !pl_json_end(&json)) stop("no JSON", &response);
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

static const char *const tokens[] = {"-1",       "0",    "1e300",    "9223372036854775807",
                                     "NaN",      "null", "true",     "[",
                                     "]",        "{",    "}",        "\"",
                                     ",",        ":",    "\\u0000",  "\"gpu\"",
                                     "\"jobs\"", "\xff", "\"model\""};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "requests", answer_once, damage);
}
#endif
