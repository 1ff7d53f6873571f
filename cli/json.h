/* json: writes JSON to a file, a value at a time, commas where they belong. Bytes that are no UTF-8
 * become U+FFFD; numbers that are not finite, and integers told to be unknown, become null. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdio.h>

#include <plimsoll/plimsoll.h>

typedef struct json {
    FILE *out;
    bool comma; /* before the next value or key */
} json;

/* key: NULL in arrays and at the top. */
void json_open(json *j, const char *key, char bracket);        /* '{' or '[' */
void json_close(json *j, char bracket);                        /* '}' or ']' */
void json_string(json *j, const char *key, const char *value); /* NULL: null */
void json_int(json *j, const char *key, int64_t value);
void json_bytes(json *j, const char *key, int64_t value); /* below 0: null */
void json_float(json *j, const char *key, double value);
void json_bool(json *j, const char *key, bool value);
void json_raw(json *j, const char *key, const char *text); /* JSON already */

#endif
