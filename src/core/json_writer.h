/* json_writer: writes JSON a value at a time, into text or a file; commas, quotes and escapes are its
 * work. The one way that the project writes JSON.
 *
 *     pl_json_writer w = {.file = stdout};
 *     pl_json_put_open(&w, NULL, '{');
 *     pl_json_put_int(&w, "batch", 8);
 *     pl_json_put_close(&w, '}');
 *
 * Bytes that are no UTF-8 become U+FFFD, so that it is always valid JSON. Where memory or the disk
 * is out, the text or the file says so. */
#ifndef PL_CORE_JSON_WRITER_H
#define PL_CORE_JSON_WRITER_H

#include <stdio.h>

#include "core/text.h"

/* Filled with text or file alone, and with what differs from the usual. */
typedef struct pl_json_writer {
    pl_text *text;
    FILE *file;
    const char *real; /* style of reals (core/number.h); NULL: ".9g" */
    bool spaced;      /* a blank behind commas and colons */
    bool comma;       /* the writer's own: a comma is due before the next value */
} pl_json_writer;

/* key: NULL in lists and at the top. */
void pl_json_put_open(pl_json_writer *w, const char *key, char bracket);        /* '{' or '[' */
void pl_json_put_close(pl_json_writer *w, char bracket);                        /* '}' or ']' */
void pl_json_put_string(pl_json_writer *w, const char *key, const char *value); /* NULL: null */
void pl_json_put_int(pl_json_writer *w, const char *key, int64_t value);
void pl_json_put_count(pl_json_writer *w, const char *key, int64_t value); /* below 0: null */
void pl_json_put_real(pl_json_writer *w, const char *key, double value);   /* not finite: null */
void pl_json_put_bool(pl_json_writer *w, const char *key, bool value);
void pl_json_put_raw(pl_json_writer *w, const char *key, const char *text); /* JSON already */
/* The next value starts a line of its own. */
void pl_json_put_line(pl_json_writer *w);

#endif
