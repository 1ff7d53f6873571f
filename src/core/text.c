/* text: see text.h. */
#include "core/text.h"

#include <string.h>

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

const char *pl_short_name(pl_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *start = slash ? slash + 1 : path;
    const char *dot = strrchr(start, '.');
    return pl_arena_string(arena, start,
                           dot && dot > start ? (size_t)(dot - start) : strlen(start));
}
