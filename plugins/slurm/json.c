/* json: see json.h. */
#include "json.h"

#include <string.h>

#include "text.h"

enum { MOST_LEVELS = 64 };

static const char *blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* Behind a string that begins at `at`, or NULL. */
static const char *past_string(const char *at, const char *end) {
    if (at >= end || *at != '"') return NULL;
    for (at++; at < end; at++) {
        if (*at == '"') return at + 1;
        if ((unsigned char)*at < ' ') return NULL;
        if (*at != '\\') continue;
        if (++at >= end) return NULL;
        if (*at == 'u') {
            if (end - at < 5) return NULL;
            for (int i = 0; i < 4; i++) {
                at++;
                char c = (char)(*at | 0x20);
                if (!((*at >= '0' && *at <= '9') || (c >= 'a' && c <= 'f'))) return NULL;
            }
        } else if (!memchr("\"\\/bfnrt", *at, 8)) {
            return NULL;
        }
    }
    return NULL;
}

static const char *digits(const char *at, const char *end) {
    const char *first = at;
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at > first ? at : NULL;
}

static const char *past_number(const char *at, const char *end) {
    if (at < end && *at == '-') at++;
    const char *first = at;
    at = digits(at, end);
    if (!at || (*first == '0' && at > first + 1)) return NULL;
    if (at < end && *at == '.' && !(at = digits(at + 1, end))) return NULL;
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        at = digits(at, end);
    }
    return at;
}

static const char *past_word(const char *at, const char *end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0 ? at + length : NULL;
}

/* Behind the value that begins at `at`, or NULL where none does. */
static const char *past_value(const char *at, const char *end) {
    char closing[MOST_LEVELS]; /* what ends each level that is open */
    int level = 0;
    for (;;) {
        at = blank(at, end);
        if (at >= end) return NULL;
        bool opened = false;
        switch (*at) {
        case '{':
        case '[':
            if (level == MOST_LEVELS) return NULL;
            closing[level++] = *at == '{' ? '}' : ']';
            at = blank(at + 1, end);
            opened = true;
            break;
        case '"': at = past_string(at, end); break;
        case 't': at = past_word(at, end, "true"); break;
        case 'f': at = past_word(at, end, "false"); break;
        case 'n': at = past_word(at, end, "null"); break;
        default: at = past_number(at, end);
        }
        if (!at) return NULL;
        /* What may stand behind it: levels that end, then a comma. */
        for (;;) {
            if (level == 0) return at;
            at = blank(at, end);
            if (at >= end) return NULL;
            if (*at == closing[level - 1]) {
                at++;
                level--;
                opened = false;
                continue;
            }
            if (!opened) {
                if (*at != ',') return NULL;
                at = blank(at + 1, end);
            }
            break;
        }
        if (closing[level - 1] == '}') {
            at = past_string(at, end);
            if (!at) return NULL;
            at = blank(at, end);
            if (at >= end || *at != ':') return NULL;
            at++;
        }
    }
}

bool json_check(json text) {
    const char *end = text.at ? past_value(text.at, text.end) : NULL;
    return end && blank(end, text.end) == text.end;
}

static json value_at(const char *at, const char *end) {
    at = blank(at, end);
    const char *past = past_value(at, end);
    return past ? (json){at, past} : (json){0};
}

bool json_element(json array, json *inside, json *element) {
    const char *at;
    if (inside->at) {
        at = blank(inside->at, array.end);
        if (at >= array.end || *at != ',') return false;
        at++;
    } else {
        if (!array.at || *array.at != '[') return false;
        at = blank(array.at + 1, array.end);
        if (at >= array.end || *at == ']') return false;
    }
    *element = value_at(at, array.end);
    inside->at = element->end;
    return element->at != NULL;
}

bool json_next(json object, json *inside, char *name, size_t room, json *value) {
    const char *at;
    if (inside->at) {
        at = blank(inside->at, object.end);
        if (at >= object.end || *at != ',') return false;
        at++;
    } else {
        if (!object.at || *object.at != '{') return false;
        at = object.at + 1;
    }
    json key = value_at(at, object.end);
    if (!json_text(key, name, room)) return false;
    at = blank(key.end, object.end);
    if (at >= object.end || *at != ':') return false;
    *value = value_at(at + 1, object.end);
    inside->at = value->end;
    return value->at != NULL;
}

json json_member(json value, const char *path) {
    while (value.at) {
        size_t length = strcspn(path, ".");
        json inside = {0}, found = {0}, one;
        char name[64];
        while (json_next(value, &inside, name, sizeof name, &one))
            if (strlen(name) == length && memcmp(name, path, length) == 0) {
                found = one;
                break;
            }
        value = found;
        if (!path[length]) break;
        path += length + 1;
    }
    return value;
}

bool json_whole(json value, int64_t *out) {
    if (!value.at) return false;
    bool below = *value.at == '-';
    int64_t number;
    if (!text_whole(value.at + below, value.end, false, &number)) return false;
    *out = below ? -number : number;
    return true;
}

bool json_text(json value, char *out, size_t room) {
    if (!value.at || *value.at != '"') return false;
    size_t length = 0;
    for (const char *at = value.at + 1; at < value.end - 1; at++) {
        char c = *at;
        if (c == '\\') {
            c = *++at;
            if (c == 'u') {
                c = '?';
                at += 4;
            } else if (c != '"' && c != '\\' && c != '/') {
                c = ' ';
            }
        }
        if (length + 1 < room) out[length++] = c;
    }
    out[length] = 0;
    return true;
}

bool json_is(json value, const char *word) {
    return value.at && strlen(word) == (size_t)(value.end - value.at) &&
           memcmp(value.at, word, strlen(word)) == 0;
}
