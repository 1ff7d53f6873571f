/* report: what an estimate gives, its ownership, and its form in JSON.
 *
 * The JSON is schema 1 of docs/formats.md: one object, bytes as integers, unknown as null. Strings
 * come from model files and are escaped; bytes that are no UTF-8 become U+FFFD, so that the text is
 * always valid JSON. Left out: the timeline and the tensors alive at the peak, which the command
 * writes. */
#include "estimate/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

enum { MOST_WARNINGS = 16 };

/* The public struct comes first, so that a pl_report * is a full_report * too. */
typedef struct full_report {
    pl_report report;
    pl_arena *arena;
    const char *warnings[MOST_WARNINGS];
} full_report;

pl_report *pl_report_new(size_t limit) {
    pl_arena *arena = pl_arena_new(limit);
    if (!arena) return NULL;
    full_report *full = pl_arena_alloc(arena, sizeof *full);
    if (!full) {
        pl_arena_free(&arena);
        return NULL;
    }
    full->arena = arena;
    full->report = (pl_report){.peak_bytes = PL_UNKNOWN,
                               .low_bytes = PL_UNKNOWN,
                               .high_bytes = PL_UNKNOWN,
                               .coverage = NAN,
                               .allocated_bytes = PL_UNKNOWN,
                               .reserved_bytes = PL_UNKNOWN,
                               .overhead_bytes = PL_UNKNOWN,
                               .flops_per_step = NAN,
                               .flop_rate = NAN,
                               .peak_phase = PL_PHASES,
                               .peak_step = PL_UNKNOWN,
                               .retries = PL_UNKNOWN,
                               .events = PL_UNKNOWN,
                               .batch = PL_UNKNOWN,
                               .seq = PL_UNKNOWN,
                               .warnings = full->warnings};
    for (int kind = 0; kind < PL_KINDS; kind++) full->report.breakdown[kind] = PL_UNKNOWN;
    return &full->report;
}

bool pl_report_warn(pl_report *report, const char *text) {
    full_report *full = (full_report *)report;
    if (report->warning_count == MOST_WARNINGS) return true;
    const char *copy = pl_arena_string(full->arena, text, strlen(text));
    if (copy) full->warnings[report->warning_count++] = copy;
    return copy != NULL;
}

pl_arena *pl_report_arena(pl_report *report) {
    return ((full_report *)report)->arena;
}

void pl_report_close(pl_report **report) {
    if (!report || !*report) return;
    pl_arena *arena = pl_report_arena(*report);
    *report = NULL;
    pl_arena_free(&arena); /* the report itself lies in it */
}

/* ---- JSON ---- */

/* Text that grows in an arena; text is NULL once memory is out, and stays so. */
typedef struct writer {
    pl_arena *arena;
    char *text;
    size_t length, capacity;
    bool failed;
} writer;

static void put(writer *w, const char *bytes, size_t length) {
    if (w->failed) return;
    char *text = pl_arena_grow(w->arena, w->text, &w->capacity, w->length + length + 1, 1);
    if (!text) {
        w->failed = true;
        return;
    }
    w->text = text;
    memcpy(text + w->length, bytes, length);
    w->length += length;
    text[w->length] = '\0';
}

static void put_text(writer *w, const char *text) {
    put(w, text, strlen(text));
}

static void put_format(writer *w, const char *format, ...) PL_PRINTF(2, 3);
static void put_format(writer *w, const char *format, ...) {
    char line[96];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof line) {
        w->failed = true;
        return;
    }
    put(w, line, (size_t)length);
}

static void put_string(writer *w, const char *string) {
    if (!string) {
        put_text(w, "null");
        return;
    }
    put_text(w, "\"");
    const unsigned char *at = (const unsigned char *)string;
    while (*at) {
        size_t length = pl_utf8_length(at, PL_UTF8_MOST);
        if (length == 0) {
            put_text(w, "\\ufffd");
            at++;
        } else if (*at == '"' || *at == '\\') {
            char escaped[2] = {'\\', (char)*at++};
            put(w, escaped, 2);
        } else if (*at < 0x20 || *at == 0x7f) {
            put_format(w, "\\u%04x", (unsigned)*at++);
        } else {
            put(w, (const char *)at, length);
            at += length;
        }
    }
    put_text(w, "\"");
}

/* A count or bytes; what is negative is unknown. */
static void put_number(writer *w, const char *key, int64_t value) {
    put_text(w, key);
    if (value < 0)
        put_text(w, "null");
    else
        put_format(w, "%" PRId64, value);
}

static void put_real(writer *w, const char *key, double value) {
    put_text(w, key);
    if (isfinite(value))
        put_format(w, "%.4g", value);
    else
        put_text(w, "null");
}

static void put_strings(writer *w, const char *const *strings, size_t count) {
    put_text(w, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) put_text(w, ",");
        put_string(w, strings[i]);
    }
    put_text(w, "]");
}

static const char *boolean(bool value) {
    return value ? "true" : "false";
}

static void put_model(writer *w, const pl_report *report, const pl_model_info *info) {
    put_text(w, "\"model\":{\"name\":");
    put_string(w, info->name);
    put_text(w, ",\"torch_version\":");
    put_string(w, info->torch_version && info->torch_version[0] ? info->torch_version : NULL);
    put_number(w, ",\"parameters\":", info->parameters);
    put_number(w, ",\"trainable\":", info->trainable);
    put_number(w, ",\"operators\":", info->operators);
    put_number(w, ",\"batch\":", report->batch);
    put_number(w, ",\"seq\":", report->seq);
    put_text(w, ",\"unknown_operators\":");
    put_strings(w, report->unknown_operators, report->unknown_count);
    put_text(w, "}");
}

static void put_memory(writer *w, const pl_report *report) {
    put_number(w, "\"memory\":{\"peak_bytes\":", report->peak_bytes);
    put_number(w, ",\"low_bytes\":", report->low_bytes);
    put_number(w, ",\"high_bytes\":", report->high_bytes);
    /* Two decimals are more than is known of it; 0.95 must not become 0.94999999999999996. */
    if (isfinite(report->coverage))
        put_format(w, ",\"coverage\":%.4g", report->coverage);
    else
        put_text(w, ",\"coverage\":null");
    put_number(w, ",\"allocated_bytes\":", report->allocated_bytes);
    put_number(w, ",\"reserved_bytes\":", report->reserved_bytes);
    put_number(w, ",\"overhead_bytes\":", report->overhead_bytes);
    put_text(w, ",\"peak_phase\":");
    put_string(w, pl_phase_name(report->peak_phase));
    put_number(w, ",\"peak_step\":", report->peak_step);
    put_text(w, ",\"peak_operator\":");
    put_string(w, report->peak_operator);
    put_text(w, ",\"peak_module\":");
    put_string(w, report->peak_module);
    put_text(w, ",\"breakdown\":{");
    for (int kind = 0; kind < PL_KINDS; kind++) {
        if (kind) put_text(w, ",");
        put_string(w, pl_kind_name((pl_kind)kind));
        put_number(w, ":", report->breakdown[kind]);
    }
    put_text(w, "}}");
}

const char *pl_report_json(pl_report *report, const pl_model *model) {
    writer w = {.arena = pl_report_arena(report)};
    put_text(&w, "{\"schema\":1,");
    put_model(&w, report, pl_model_describe(model));
    put_text(&w, ",\"gpu\":{\"name\":");
    put_string(&w, report->gpu->name);
    put_text(&w, ",\"title\":");
    put_string(&w, report->gpu->title);
    put_number(&w, ",\"capacity_bytes\":", report->gpu->capacity_bytes);
    put_format(&w, ",\"calibrated\":%s},\"estimator\":", boolean(report->gpu->calibrated));
    put_string(&w, report->estimator);
    put_text(&w, ",");
    put_memory(&w, report);
    put_format(&w, ",\"fits\":%s,\"out_of_memory\":%s", boolean(report->fits),
               boolean(report->out_of_memory));
    put_number(&w, ",\"retries\":", report->retries);
    put_number(&w, ",\"events\":", report->events);
    put_real(&w, ",\"compute\":{\"flops_per_step\":", report->flops_per_step);
    put_real(&w, ",\"flops_per_s\":", report->flop_rate);
    put_text(&w, ",\"step_ms\":null}");
    put_text(&w, ",\"utilization\":{\"smact\":null,\"smocc\":null,\"drama\":null}");
    put_number(&w, ",\"elapsed_us\":", report->elapsed_us);
    put_text(&w, ",\"warnings\":");
    put_strings(&w, report->warnings, report->warning_count);
    put_text(&w, "}");
    return w.failed ? NULL : w.text;
}
