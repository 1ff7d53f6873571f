/* text: see text.h. */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

void pl_text_put(pl_text *w, const char *bytes, size_t length) {
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

void pl_text_add(pl_text *w, const char *text) {
    pl_text_put(w, text, strlen(text));
}

void pl_text_format(pl_text *w, const char *format, ...) {
    char line[96];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof line) {
        w->failed = true;
        return;
    }
    pl_text_put(w, line, (size_t)length);
}

void pl_text_string(pl_text *w, const char *string) {
    if (!string) {
        pl_text_add(w, "null");
        return;
    }
    pl_text_add(w, "\"");
    const unsigned char *at = (const unsigned char *)string;
    while (*at) {
        size_t length = pl_utf8_length(at, PL_UTF8_MOST);
        if (length == 0) {
            pl_text_add(w, "\\ufffd");
            at++;
        } else if (*at == '"' || *at == '\\') {
            char escaped[2] = {'\\', (char)*at++};
            pl_text_put(w, escaped, 2);
        } else if (*at < 0x20 || *at == 0x7f) {
            pl_text_format(w, "\\u%04x", (unsigned)*at++);
        } else {
            pl_text_put(w, (const char *)at, length);
            at += length;
        }
    }
    pl_text_add(w, "\"");
}
