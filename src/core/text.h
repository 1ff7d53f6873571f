/* text: text that grows in an arena, for what is written whole: JSON (core/json_writer.h). */
#ifndef PL_CORE_TEXT_H
#define PL_CORE_TEXT_H

#include "core/arena.h"
#include "core/error.h"

/* Filled with the arena alone. text is NULL while nothing was put, and ends in a 0 that length does
 * not count; once memory is out, failed is set and stays so. */
typedef struct pl_text {
    pl_arena *arena;
    char *text;
    size_t length, capacity;
    bool failed;
} pl_text;

void pl_text_put(pl_text *w, const char *bytes, size_t length);
void pl_text_add(pl_text *w, const char *text);

/* "models/net.yaml" is net: a file's name without folders and ending. NULL: out of memory. */
const char *pl_short_name(pl_arena *arena, const char *path);

#endif
