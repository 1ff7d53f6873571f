/* json: a reader that walks a JSON text once, in place, and keeps nothing.
 *
 * The caller asks for what it expects; nothing is built. Measured against jansson, yajl, json-c and
 * simdjson in bench/json (docs/json-choice.md). The first failure sticks: every later call returns
 * false, so that a caller may look once at the end. The syntax is RFC 8259 and, as Python's json
 * module writes them, the bare words NaN, Infinity and -Infinity.
 *
 * Left out: UTF-8 is not checked while walking; pl_json_copy checks what is kept. */
#ifndef PL_IMPORT_JSON_H
#define PL_IMPORT_JSON_H

#include "core/arena.h"

enum { PL_JSON_MAX_DEPTH = 4096 };

typedef struct pl_json {
    const char *begin, *at, *end;
    const char *failure; /* what was expected; NULL while all is well */
    int64_t failure_at;  /* byte offset from begin */
    int depth, depth_limit;
    bool first; /* no member or element of the innermost container was read yet */
} pl_json;

/* A string as it stands between its quotes: escapes are not yet undone. */
typedef struct pl_json_text {
    const char *bytes;
    size_t length;
    bool escaped;
} pl_json_text;

/* depth_limit: containers within containers; clamped to 1 .. PL_JSON_MAX_DEPTH. */
void pl_json_open(pl_json *json, const char *bytes, size_t size, int depth_limit);

/* Keeps the first failure, at the present place or at a given one; returns false. expected: kept by
 * pointer, a constant. */
bool pl_json_fail(pl_json *json, const char *expected);
bool pl_json_fail_at(pl_json *json, const char *at, const char *expected);

/* The first character of the next value: one of { [ " t f n N I - or a digit, given as '0'; 0 at
 * the end of the text or where no value can start. */
char pl_json_peek(pl_json *json);

/*     if (pl_json_object(json))
 *         while (pl_json_key(json, &key)) read one value;
 * The loop ends at the closing bracket or at a failure. Lists likewise with pl_json_item. */
bool pl_json_object(pl_json *json);
bool pl_json_key(pl_json *json, pl_json_text *key);
bool pl_json_list(pl_json *json);
bool pl_json_item(pl_json *json);

bool pl_json_string(pl_json *json, pl_json_text *out);
bool pl_json_bool(pl_json *json, bool *out);
bool pl_json_null(pl_json *json);
/* An integer; outside int64 it becomes the nearest one and *exact (may be NULL) false. */
bool pl_json_int(pl_json *json, int64_t *out, bool *exact);
/* A number, or one of the three words, bare or as a string. */
bool pl_json_number(pl_json *json, double *out);
/* Any value, checked for syntax. */
bool pl_json_skip(pl_json *json);
/* The same, where the value is likely the one passed over before at *last (none yet: empty): equal
 * bytes need no second check. *last becomes this one. */
bool pl_json_skip_like(pl_json *json, pl_json_text *last);
/* Short cuts for the two objects that make up most of a model: {"KEY": 12} and {"KEY": "text"},
 * spaced as Python's json module does it. start: what comes before the number or the text, with
 * braces and quotes. True: read. False: nothing was taken; read it the ordinary way, which also
 * finds what is wrong. */
bool pl_json_quick_int(pl_json *json, const char *start, size_t length, int64_t *out);
bool pl_json_quick_string(pl_json *json, const char *start, size_t length, pl_json_text *out);
/* Only white space is left. */
bool pl_json_end(pl_json *json);

static inline bool pl_json_is(const pl_json_text *text, const char *word, size_t length) {
    return text->length == length && !__builtin_memcmp(text->bytes, word, length);
}
#define PL_JSON_IS(text, word) pl_json_is((text), (word), sizeof(word) - 1)

/* The string with its escapes undone, NUL-terminated, in arena; *length (may be NULL) without the
 * NUL. Malformed UTF-8, lone surrogates and NUL become U+FFFD. NULL: out of memory. */
char *pl_json_copy(pl_arena *arena, const pl_json_text *text, size_t *length);
/* A string that has room in out, NUL-terminated; arena is scratch. */
bool pl_json_name(pl_json *json, pl_arena *arena, char *out, size_t room);
/* A whole number from 0 to most. */
bool pl_json_whole(pl_json *json, int64_t *out, int64_t most);

#endif
