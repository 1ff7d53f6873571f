/* json_writer: see json_writer.h. */
#include "core/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/number.h"
#include "core/utf8.h"

static void put(pl_json_writer *w, const char *bytes, size_t length) {
    if (w->text)
        pl_text_put(w->text, bytes, length);
    else
        fwrite(bytes, 1, length, w->file);
}

static void put_text(pl_json_writer *w, const char *text) {
    put(w, text, strlen(text));
}

static bool is_plain(unsigned char c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_quoted(pl_json_writer *w, const char *string) {
    put(w, "\"", 1);
    const unsigned char *at = (const unsigned char *)string;
    while (*at) {
        size_t length = 0;
        while (is_plain(at[length])) length++;
        if (length == 0 && *at >= 0x80) length = pl_utf8_length(at, PL_UTF8_MOST);
        if (length > 0) {
            put(w, (const char *)at, length);
            at += length;
        } else if (*at >= 0x80) {
            put(w, "\\ufffd", 6);
            at++;
        } else if (*at == '"' || *at == '\\') {
            char escaped[2] = {'\\', (char)*at++};
            put(w, escaped, 2);
        } else {
            char escaped[8];
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*at++);
            put(w, escaped, 6);
        }
    }
    put(w, "\"", 1);
}

static void start(pl_json_writer *w, const char *key) {
    if (w->comma) put(w, ", ", w->spaced ? 2 : 1);
    w->comma = true;
    if (!key) return;
    put_quoted(w, key);
    put(w, ": ", w->spaced ? 2 : 1);
}

void pl_json_put_line(pl_json_writer *w) {
    put(w, w->comma ? ",\n" : "\n", w->comma ? 2 : 1);
    w->comma = false;
}

void pl_json_put_open(pl_json_writer *w, const char *key, char bracket) {
    start(w, key);
    put(w, &bracket, 1);
    w->comma = false;
}

void pl_json_put_close(pl_json_writer *w, char bracket) {
    put(w, &bracket, 1);
    w->comma = true;
}

void pl_json_put_raw(pl_json_writer *w, const char *key, const char *text) {
    start(w, key);
    put_text(w, text);
}

void pl_json_put_string(pl_json_writer *w, const char *key, const char *value) {
    start(w, key);
    if (value)
        put_quoted(w, value);
    else
        put_text(w, "null");
}

void pl_json_put_int(pl_json_writer *w, const char *key, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    pl_json_put_raw(w, key, text);
}

void pl_json_put_count(pl_json_writer *w, const char *key, int64_t value) {
    if (value < 0)
        pl_json_put_raw(w, key, "null");
    else
        pl_json_put_int(w, key, value);
}

void pl_json_put_real(pl_json_writer *w, const char *key, double value) {
    pl_json_put_raw(w, key, isfinite(value) ? PL_REAL(w->real ? w->real : ".9g", value) : "null");
}

void pl_json_put_bool(pl_json_writer *w, const char *key, bool value) {
    pl_json_put_raw(w, key, value ? "true" : "false");
}
