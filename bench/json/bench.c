/* bench/json: how long each JSON library takes on a model.json.
 *
 * Built once per library (-DWITH_OWN, _JANSSON, _YAJL, _JSONC, _SIMDJSON, or _NOTHING for the price
 * of a process alone), so that the whole-process figures hold what each one costs to load. The work
 * is the same for all: read the text, count its objects, free. `bench FILE` does it once and prints
 * nothing, to be timed from outside; `bench FILE N` does it N times and prints the least and the
 * median time in microseconds. run.py builds and runs them all. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(WITH_OWN)
#include "import/json.h"
static long objects(const char *bytes, size_t size) {
    pl_json json;
    pl_json_open(&json, bytes, size, 512);
    long count = 0;
    bool is_object[512];
    int depth = 0;
    for (;;) {
        char c = pl_json_peek(&json);
        if (c == '{' && pl_json_object(&json))
            is_object[depth++] = true, count++;
        else if (c == '[' && pl_json_list(&json))
            is_object[depth++] = false;
        else if (!pl_json_skip(&json))
            return -1;
        pl_json_text key;
        while (depth && !(is_object[depth - 1] ? pl_json_key(&json, &key) : pl_json_item(&json))) {
            if (json.failure) return -1;
            depth--;
        }
        if (!depth) return count;
    }
}
#elif defined(WITH_JANSSON)
#include <jansson.h>
static long walk(json_t *v) {
    long n = json_is_object(v);
    const char *key;
    json_t *item;
    size_t i;
    json_object_foreach(v, key, item) n += walk(item);
    json_array_foreach(v, i, item) n += walk(item);
    return n;
}
static long objects(const char *bytes, size_t size) {
    json_error_t error;
    json_t *root = json_loadb(bytes, size, 0, &error);
    if (!root) return -1;
    long n = walk(root);
    json_decref(root);
    return n;
}
#elif defined(WITH_YAJL)
#include <yajl/yajl_parse.h>
static int on_map(void *n) {
    ++*(long *)n;
    return 1;
}
static int on_string(void *n, const unsigned char *s, size_t length) {
    (void)n, (void)s, (void)length;
    return 1;
}
static int on_number(void *n, const char *s, size_t length) {
    (void)n, (void)s, (void)length;
    return 1;
}
static long objects(const char *bytes, size_t size) {
    long n = 0;
    yajl_callbacks calls = {.yajl_start_map = on_map,
                            .yajl_map_key = on_string,
                            .yajl_string = on_string,
                            .yajl_number = on_number};
    yajl_handle h = yajl_alloc(&calls, NULL, &n);
    if (yajl_parse(h, (const unsigned char *)bytes, size) != yajl_status_ok ||
        yajl_complete_parse(h) != yajl_status_ok)
        n = -1;
    yajl_free(h);
    return n;
}
#elif defined(WITH_JSONC)
#include <json-c/json.h>
static long walk(json_object *v) {
    long n = 0;
    if (json_object_is_type(v, json_type_object)) {
        n = 1;
        json_object_object_foreach(v, key, item) {
            (void)key;
            n += walk(item);
        }
    } else if (json_object_is_type(v, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(v); i++)
            n += walk(json_object_array_get_idx(v, i));
    }
    return n;
}
static long objects(const char *bytes, size_t size) {
    json_tokener *t = json_tokener_new_ex(512);
    json_object *root = json_tokener_parse_ex(t, bytes, (int)size);
    long n = root ? walk(root) : -1;
    json_object_put(root);
    json_tokener_free(t);
    return n;
}
#elif defined(WITH_SIMDJSON)
long shim_objects(const char *bytes, size_t size); /* simdjson.cpp */
static long objects(const char *bytes, size_t size) {
    return shim_objects(bytes, size);
}
#else
static long objects(const char *bytes, size_t size) {
    return size ? bytes[0] : 0;
}
#endif

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!f) return 2;
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(size + 64); /* simdjson wants room to read past the end */
    if (!bytes || fread(bytes, 1, size, f) != size) return 2;
    fclose(f);
    int rounds = argc > 2 ? atoi(argv[2]) : 1;
    double *times = calloc((size_t)rounds, sizeof *times);
    long count = 0;
    for (int i = 0; i < rounds; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        count = objects(bytes, size);
        clock_gettime(CLOCK_MONOTONIC, &b);
        times[i] = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
        if (count < 0) return 3;
    }
    qsort(times, (size_t)rounds, sizeof *times, by_value);
    if (argc > 2) printf("%ld %.0f %.0f\n", count, times[0], times[rounds / 2]);
    free(times);
    free(bytes);
    return 0;
}
