/* json: see json.h. The forms it writes are in docs/formats.md. */
#include "json.h"

#include <inttypes.h>
#include <math.h>

#include "core/number.h"
#include "text.h"

static void put_string(FILE *out, const char *string) {
    putc('"', out);
    for (const char *at = string; *at;) {
        uint32_t code;
        int length = text_sequence(at, &code);
        if (length == 0) {
            fputs("\\ufffd", out);
            at++;
            continue;
        }
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else if (code < 0x20 || code == 0x7f)
            fprintf(out, "\\u%04x", (unsigned)code);
        else
            fwrite(at, 1, (size_t)length, out);
        at += length;
    }
    putc('"', out);
}

static void start(json *j, const char *key) {
    if (j->comma) putc(',', j->out);
    j->comma = true;
    if (!key) return;
    put_string(j->out, key);
    putc(':', j->out);
}

void json_open(json *j, const char *key, char bracket) {
    start(j, key);
    putc(bracket, j->out);
    j->comma = false;
}

void json_close(json *j, char bracket) {
    putc(bracket, j->out);
    j->comma = true;
}

void json_string(json *j, const char *key, const char *value) {
    start(j, key);
    if (value)
        put_string(j->out, value);
    else
        fputs("null", j->out);
}

void json_int(json *j, const char *key, int64_t value) {
    start(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void json_bytes(json *j, const char *key, int64_t value) {
    if (value < 0)
        json_string(j, key, NULL);
    else
        json_int(j, key, value);
}

void json_float(json *j, const char *key, double value) {
    start(j, key);
    if (isfinite(value))
        fputs(PL_REAL(".9g", value), j->out);
    else
        fputs("null", j->out);
}

void json_bool(json *j, const char *key, bool value) {
    start(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_raw(json *j, const char *key, const char *text) {
    start(j, key);
    fputs(text, j->out);
}
