/* json: answers of the daemon, read where they lie. Nothing is allocated; a text is checked as a whole once,
 * and only then asked. It is written for a reader that must not believe what it reads: the daemon may be
 * another program, or broken. Left out: \u escapes of values that are asked for become '?'. */
#ifndef PLIMSOLL_SLURM_JSON_H
#define PLIMSOLL_SLURM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value within a text that json_check found to be right; at NULL: there is none. */
typedef struct json {
    const char *at, *end;
} json;

/* One value of at most 64 levels and nothing behind it; false: it is none. */
bool json_check(json text);
/* The member of an object; of several of one name the first. Behind dots those of its members:
 * "memory.peak_bytes". */
json json_member(json value, const char *path);
/* The elements of an array one after the other: *inside starts as {0}. False past the last one. */
bool json_element(json array, json *inside, json *element);
/* The members of an object likewise. name: its text is cut to room. */
bool json_next(json object, json *inside, char *name, size_t room, json *value);

bool json_whole(json value, int64_t *out);          /* a whole number of at most 2^53 either way */
bool json_text(json value, char *out, size_t room); /* false where it is none; cut to room */
bool json_is(json value, const char *word);         /* "true", "null" */

#endif
