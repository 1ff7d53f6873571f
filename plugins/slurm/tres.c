/* tres: see tres.h. */
#include "tres.h"

#include <string.h>

/* The parts of one item: its name, then what stands behind it. */
typedef struct item {
    const char *name, *name_end, *rest, *end;
} item;

static bool next_item(const char **at, item *out) {
    while (**at == ',' || **at == ' ') ++*at;
    if (!**at) return false;
    const char *begin = *at, *end = begin + strcspn(begin, ", ");
    *at = end;
    if (strncmp(begin, "gres:", 5) == 0 || strncmp(begin, "gres/", 5) == 0) begin += 5;
    const char *name_end = begin + strcspn(begin, ":=,");
    if (name_end > end) name_end = end;
    *out = (item){begin, name_end, name_end < end ? name_end + 1 : end, end};
    return true;
}

static bool is_named(const item *i, const char *name) {
    return (size_t)(i->name_end - i->name) == strlen(name) &&
           memcmp(i->name, name, strlen(name)) == 0;
}

/* "", "2", "h200", "h200:2", "h200=2" */
static bool read_rest(const item *i, char type[64], int64_t *count) {
    type[0] = 0;
    *count = 1;
    if (i->rest >= i->end) return i->rest == i->end && i->name_end == i->end;
    if (text_whole(i->rest, i->end, true, count)) return true;
    const char *type_end = i->rest;
    while (type_end < i->end && *type_end != ':' && *type_end != '=') type_end++;
    size_t length = (size_t)(type_end - i->rest);
    if (!length || length >= 64) return false;
    /* "1g.10gb" is a type, "-1" and a number too large are not. */
    if (i->rest[0] == '-' || strspn(i->rest, "0123456789") >= length) return false;
    memcpy(type, i->rest, length);
    type[length] = 0;
    return type_end == i->end || text_whole(type_end + 1, i->end, true, count);
}

bool tres_read(tres *out, const char *list) {
    memset(out, 0, sizeof *out);
    item one;
    for (const char *at = list ? list : ""; next_item(&at, &one);) {
        bool gpu = is_named(&one, "gpu"), shard = is_named(&one, "shard");
        if (is_named(&one, "mps")) out->others = true;
        if (is_named(&one, "none")) continue;
        if (!gpu && !shard) continue;
        char type[64];
        int64_t count;
        if (!read_rest(&one, type, &count)) return false;
        if (gpu) out->gpu_items++;
        int64_t *sum = gpu ? &out->gpus : &out->shards;
        if (*sum > INT64_MAX - count) return false;
        *sum += count;
        if (type[0]) memcpy(out->type, type, sizeof type);
    }
    return true;
}

void tres_write(const char *list, const char *form, int64_t shards, text *out) {
    item one;
    bool written = false;
    const char *at = list ? list : "";
    for (;;) {
        at += strspn(at, ", ");
        const char *begin = at;
        if (!next_item(&at, &one)) break;
        if (out->length) text_add(out, ",");
        if (is_named(&one, "gpu")) {
            text_add(out, "%sshard:%lld", form, (long long)shards);
            written = true;
        } else {
            text_add(out, "%.*s", (int)(at - begin), begin);
        }
    }
    if (!written) text_add(out, "%s%sshard:%lld", out->length ? "," : "", form, (long long)shards);
}

const char *tres_form(const char *list) {
    return strstr(list, "gres:") ? "gres:" : strstr(list, "gres/") ? "gres/" : "";
}
