/* text: see text.h. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

text text_in(char *at, size_t room) {
    at[0] = 0;
    return (text){.at = at, .room = room};
}

void text_add(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(t->at + t->length, t->room - t->length, format, arguments);
    va_end(arguments);
    if (wrote < 0) {
        t->at[t->length] = 0;
        t->cut = true;
    } else if ((size_t)wrote >= t->room - t->length) {
        t->length = t->room - 1;
        t->cut = true;
    } else {
        t->length += (size_t)wrote;
    }
}

void text_quote(text *t, const char *string) {
    text_add(t, "\"");
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\')
            text_add(t, "\\%c", c);
        else if (c < ' ')
            text_add(t, "\\u%04x", c);
        else
            text_add(t, "%c", c);
    }
    text_add(t, "\"");
}

void text_bytes(text *t, int64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1024 && unit < 3) {
        value /= 1024;
        unit++;
    }
    int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
    text_add(t, "%.*f %s", decimals, value, units[unit]);
}

#define MOST (INT64_C(1) << 53)

bool text_whole(const char *first, const char *end, bool suffixes, int64_t *out) {
    int64_t value = 0;
    const char *at = first;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (*at - '0');
        if (value > MOST) return false;
    }
    if (at == first) return false;
    if (suffixes && at < end) {
        static const char letters[] = "KMGTP";
        const char *letter = memchr(letters, *at & ~0x20, sizeof letters - 1);
        if (!letter) return false;
        for (const char *step = letters; step <= letter; step++) {
            if (value > MOST / 1024) return false;
            value *= 1024;
        }
        at++;
    }
    if (at != end) return false;
    *out = value;
    return true;
}

bool text_size(const char *first, const char *end, int64_t *out) {
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    const char *at = first;
    while (at < end && *at >= '0' && *at <= '9') at++;
    if (!text_whole(first, at, false, out)) return false;
    while (at < end && *at == ' ') at++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) != (size_t)(end - at) ||
            memcmp(units[i].name, at, (size_t)(end - at)) != 0)
            continue;
        if (*out > MOST >> units[i].shift) return false;
        *out = *out * (INT64_C(1) << units[i].shift);
        return true;
    }
    return false;
}
