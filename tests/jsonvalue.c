/* jsonvalue PATH <TEXT: prints the value at a path (memory.breakdown.weights; list.0.name) of a
 * JSON text; strings without quotes, objects and lists as they stand. Exit code 1 when the text as
 * a whole is no valid JSON or nothing is there. For the test scripts; plimsoll's own reader does
 * the reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/json.h"

enum { MOST = 64 << 20 };

static bool find(pl_json *json, const char *path, pl_json_text *out) {
    while (*path) {
        size_t length = strcspn(path, ".");
        bool found = false;
        if (pl_json_peek(json) == '{') {
            pl_json_text key;
            if (!pl_json_object(json)) return false;
            while (!found && pl_json_key(json, &key)) {
                found = key.length == length && memcmp(key.bytes, path, length) == 0;
                if (!found) pl_json_skip(json);
            }
        } else if (pl_json_peek(json) == '[') {
            long index = strtol(path, NULL, 10);
            if (!pl_json_list(json)) return false;
            while (!found && pl_json_item(json)) {
                found = index-- == 0;
                if (!found) pl_json_skip(json);
            }
        }
        if (!found) return false;
        path += length;
        if (*path == '.') path++;
    }
    if (pl_json_peek(json) == '"') return pl_json_string(json, out);
    pl_json_peek(json); /* past white space */
    out->bytes = json->at;
    if (!pl_json_skip(json)) return false;
    out->length = (size_t)(json->at - out->bytes);
    return true;
}

int main(int argc, char **argv) {
    char *text = malloc(MOST);
    if (!text || argc != 2) return 2;
    size_t size = fread(text, 1, MOST, stdin);
    pl_json json;
    pl_json_open(&json, text, size, 64);
    int code = 1;
    pl_json_text value = {0};
    if (!pl_json_skip(&json) || !pl_json_end(&json)) {
        fprintf(stderr, "not JSON: at byte %lld: %s\n", (long long)json.failure_at, json.failure);
    } else {
        pl_json_open(&json, text, size, 64);
        if (find(&json, argv[1], &value)) {
            printf("%.*s\n", (int)value.length, value.bytes);
            code = 0;
        } else {
            fprintf(stderr, "nothing at %s\n", argv[1]);
        }
    }
    free(text);
    return code;
}
