/* log: see log.h. A line is one write. */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/json_writer.h"

static bool as_json, no_requests; /* set before threads */

static const char *const levels[] = {"info", "warning", "error"};

void log_as(const char *how) {
    as_json = strcmp(how, "json") == 0;
    no_requests = strcmp(how, "off") == 0;
}

static void stamp(char out[32]) {
    struct timespec t;
    struct tm when;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &when);
    size_t length = strftime(out, 24, "%Y-%m-%dT%H:%M:%S", &when);
    snprintf(out + length, 32 - length, ".%03ldZ", t.tv_nsec / 1000000);
}

static void say(log_level level, const char *format, va_list list) {
    char message[1024], time[32];
    vsnprintf(message, sizeof message, format, list);
    if (!as_json) {
        fprintf(stderr, "plimsoll serve: %s\n", message);
        return;
    }
    stamp(time);
    pl_arena *arena = pl_arena_new(NULL);
    pl_text text = {.arena = arena};
    pl_json_writer w = {.text = &text};
    if (!arena) return;
    pl_json_put_open(&w, NULL, '{');
    pl_json_put_string(&w, "time", time);
    pl_json_put_string(&w, "level", levels[level]);
    pl_json_put_string(&w, "message", message);
    pl_json_put_close(&w, '}');
    if (!text.failed) fprintf(stderr, "%s\n", text.text);
    pl_arena_free(&arena);
}

void log_say(log_level level, const char *format, ...) {
    va_list list;
    va_start(list, format);
    say(level, format, list);
    va_end(list);
}

void log_say_now_and_then(log_level level, const char *format, ...) {
    static atomic_llong last;
    long long before = atomic_load(&last), now = pl_now_ns();
    if (before && now - before < 1000000000) return;
    if (!atomic_compare_exchange_strong(&last, &before, now)) return;
    va_list list;
    va_start(list, format);
    say(level, format, list);
    va_end(list);
}

void log_request(const char *method, const char *route, int status, int64_t took_ns, size_t bytes,
                 bool known) {
    if (no_requests) return;
    char time[32];
    stamp(time);
    if (as_json)
        fprintf(stderr,
                "{\"time\":\"%s\",\"level\":\"%s\",\"method\":\"%s\",\"route\":\"%s\","
                "\"status\":%d,\"us\":%lld,\"bytes\":%zu,\"known\":%s}\n",
                time, levels[status >= 500 ? LOG_WARNING : LOG_INFO], method, route, status,
                (long long)(took_ns / 1000), bytes, known ? "true" : "false");
    else
        fprintf(stderr, "%s %s %s %d %lld us, %zu bytes%s\n", time, method, route, status,
                (long long)(took_ns / 1000), bytes, known ? ", known" : "");
}
