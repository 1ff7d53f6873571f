/* json: see json.h. Strings are scanned 16 bytes at a time where SSE2 is there, else 8. */
#include "import/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"

#if defined(__SSE2__)
#include <emmintrin.h>

#include "core/number.h"
#endif

void pl_json_open(pl_json *json, const char *bytes, size_t size, int depth_limit) {
    if (depth_limit < 1) depth_limit = 1;
    if (depth_limit > PL_JSON_MAX_DEPTH) depth_limit = PL_JSON_MAX_DEPTH;
    *json = (pl_json){.begin = bytes, .at = bytes, .end = bytes + size, .depth_limit = depth_limit};
}

bool pl_json_fail_at(pl_json *json, const char *at, const char *expected) {
    if (!json->failure) {
        json->failure = expected;
        json->failure_at = at - json->begin;
    }
    return false;
}

bool pl_json_fail(pl_json *json, const char *expected) {
    return pl_json_fail_at(json, json->at, expected);
}

/* 0 at the end: no JSON token starts with NUL, so callers need no second check. */
static inline char next_char(pl_json *json) {
    const char *at = json->at, *end = json->end;
    if (at < end && ' ' < *at) return *at;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    json->at = at;
    return at < end ? *at : '\0';
}

char pl_json_peek(pl_json *json) {
    /* what a value may start with */
    static const char starts[128] = {
        ['{'] = '{', ['['] = '[', ['"'] = '"', ['t'] = 't', ['f'] = 'f', ['n'] = 'n', ['N'] = 'N',
        ['I'] = 'I', ['-'] = '-', ['0'] = '0', ['1'] = '0', ['2'] = '0', ['3'] = '0', ['4'] = '0',
        ['5'] = '0', ['6'] = '0', ['7'] = '0', ['8'] = '0', ['9'] = '0'};
    unsigned char c = (unsigned char)next_char(json);
    return c < sizeof starts ? starts[c] : '\0';
}

static bool enter(pl_json *json, char bracket, const char *expected) {
    if (json->failure) return false;
    if (next_char(json) != bracket) return pl_json_fail(json, expected);
    if (json->depth >= json->depth_limit)
        return pl_json_fail(json, "less nesting: over the depth limit");
    json->depth++;
    json->at++;
    json->first = true;
    return true;
}

bool pl_json_object(pl_json *json) {
    return enter(json, '{', "an object");
}

bool pl_json_list(pl_json *json) {
    return enter(json, '[', "a list");
}

/* False at the closing bracket, which it takes, and on failure. */
static inline bool more(pl_json *json, char bracket, const char *expected) {
    if (json->failure) return false;
    char c = next_char(json);
    if (c == bracket) {
        json->at++;
        json->depth--;
        json->first = false;
        return false;
    }
    if (json->first) {
        json->first = false;
        return true;
    }
    if (c != ',') return pl_json_fail(json, expected);
    json->at++;
    return true;
}

bool pl_json_item(pl_json *json) {
    return more(json, ']', "',' or ']'");
}

/* The first quote, backslash or control character at or after `at`; end where there is none. */
static inline const char *string_stop(const char *at, const char *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'),
                  low = _mm_set1_epi8(0x1f);
    for (; end - at >= 16; at += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)),
                                   _mm_cmpeq_epi8(_mm_min_epu8(v, low), v));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask) return at + __builtin_ctz(mask);
    }
#endif
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) at++;
    return at;
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* After the opening quote. */
static inline bool string_body(pl_json *json, pl_json_text *out) {
    const char *start = json->at + 1, *end = json->end, *at = string_stop(start, end);
    bool escaped = false;
    while (at == end || *at != '"') {
        if (at == end) return pl_json_fail_at(json, at, "the end of a string");
        if (*at != '\\') return pl_json_fail_at(json, at, "no control character in a string");
        escaped = true;
        if (end - at < 2) return pl_json_fail_at(json, at, "the end of a string");
        char c = at[1];
        if (c == 'u') {
            if (end - at < 6 || !is_hex(at[2]) || !is_hex(at[3]) || !is_hex(at[4]) ||
                !is_hex(at[5]))
                return pl_json_fail_at(json, at, "four hexadecimal digits after \\u");
            at += 6;
        } else {
            if (c != 'n' && c != '"' && c != '\\' && c != '/' && c != 't' && c != 'r' && c != 'b' &&
                c != 'f')
                return pl_json_fail_at(json, at, "a known escape after \\");
            at += 2;
        }
        at = string_stop(at, end);
    }
    *out = (pl_json_text){start, (size_t)(at - start), escaped};
    json->at = at + 1;
    return true;
}

bool pl_json_string(pl_json *json, pl_json_text *out) {
    if (json->failure) return false;
    if (next_char(json) != '"') return pl_json_fail(json, "a string");
    return string_body(json, out);
}

bool pl_json_key(pl_json *json, pl_json_text *key) {
    if (!more(json, '}', "',' or '}'")) return false;
    if (next_char(json) != '"') return pl_json_fail(json, "a key in quotes");
    if (!string_body(json, key)) return false;
    if (next_char(json) != ':') return pl_json_fail(json, "':'");
    json->at++;
    return true;
}

static bool word(pl_json *json, const char *text, size_t length) {
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, text, length) != 0)
        return false;
    json->at += length;
    return true;
}

bool pl_json_bool(pl_json *json, bool *out) {
    if (json->failure) return false;
    char c = next_char(json);
    *out = c == 't';
    if ((c == 't' && word(json, "true", 4)) || (c == 'f' && word(json, "false", 5))) return true;
    return pl_json_fail(json, "true or false");
}

bool pl_json_null(pl_json *json) {
    if (json->failure) return false;
    return (next_char(json) == 'n' && word(json, "null", 4)) || pl_json_fail(json, "null");
}

/* What a number's characters say. */
typedef struct number {
    uint64_t digits; /* before the point, while they are 19 at most */
    bool negative, overflow, integral;
} number;

static bool scan_number(pl_json *json, number *out) {
    const char *at = json->at, *end = json->end;
    number n = {.integral = true};
    if (at < end && *at == '-') {
        n.negative = true;
        at++;
    }
    const char *digits = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (at - digits < 19) n.digits = n.digits * 10 + (uint64_t)(*at - '0');
    }
    int64_t count = at - digits;
    if (count == 0) return pl_json_fail(json, "a number");
    if (count > 1 && *digits == '0') return pl_json_fail(json, "no number that starts with 0");
    if (count > 19) n.overflow = true;
    if (at < end && *at == '.') {
        n.integral = false;
        const char *fraction = ++at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        if (at == fraction) return pl_json_fail_at(json, at, "a digit after '.'");
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        n.integral = false;
        at++;
        if (at < end && (*at == '-' || *at == '+')) at++;
        const char *start = at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        if (at == start) return pl_json_fail_at(json, at, "a digit in the exponent");
    }
    json->at = at;
    *out = n;
    return true;
}

bool pl_json_int(pl_json *json, int64_t *out, bool *exact) {
    if (json->failure) return false;
    next_char(json);
    const char *start = json->at;
    number n;
    if (!scan_number(json, &n)) return false;
    if (!n.integral) return pl_json_fail_at(json, start, "an integer");
    bool fits = !n.overflow && n.digits <= (uint64_t)INT64_MAX + (n.negative ? 1 : 0);
    if (exact) *exact = fits;
    if (!fits)
        *out = n.negative ? INT64_MIN : INT64_MAX;
    else
        *out = n.negative ? (int64_t)(0 - n.digits) : (int64_t)n.digits;
    return true;
}

bool pl_json_number(pl_json *json, double *out) {
    if (json->failure) return false;
    char c = next_char(json);
    const char *start = json->at;
    if (c == '"') {
        pl_json_text text;
        if (!pl_json_string(json, &text)) return false;
        if (PL_JSON_IS(&text, "NaN"))
            *out = NAN;
        else if (PL_JSON_IS(&text, "Infinity"))
            *out = INFINITY;
        else if (PL_JSON_IS(&text, "-Infinity"))
            *out = -INFINITY;
        else
            return pl_json_fail_at(json, start, "a number, \"Infinity\", \"-Infinity\" or \"NaN\"");
        return true;
    }
    if (c == 'N' && word(json, "NaN", 3)) return *out = NAN, true;
    if (c == 'I' && word(json, "Infinity", 8)) return *out = INFINITY, true;
    if (c == '-' && word(json, "-Infinity", 9)) return *out = -INFINITY, true;
    number n;
    if (!scan_number(json, &n)) return false;
    return pl_number_read(start, (size_t)(json->at - start), out);
}

/* One value that is no container. */
static bool skip_scalar(pl_json *json) {
    pl_json_text text;
    double value;
    number n;
    bool truth;
    switch (pl_json_peek(json)) {
    case '"': return pl_json_string(json, &text);
    case 't':
    case 'f': return pl_json_bool(json, &truth);
    case 'n': return pl_json_null(json);
    case 'N':
    case 'I':
    case '-': return pl_json_number(json, &value);
    case '0': return scan_number(json, &n);
    default: return pl_json_fail(json, "a value");
    }
}

bool pl_json_skip(pl_json *json) {
    if (json->failure) return false;
    uint64_t is_object[PL_JSON_MAX_DEPTH / 64]; /* one bit per container entered here */
    int base = json->depth;
    for (;;) {
        /* a value is due */
        char c = pl_json_peek(json);
        if (c == '{' || c == '[') {
            int level = json->depth - base;
            if (c == '{' ? !pl_json_object(json) : !pl_json_list(json)) return false;
            uint64_t bit = UINT64_C(1) << (level % 64);
            if (c == '{')
                is_object[level / 64] |= bit;
            else
                is_object[level / 64] &= ~bit;
        } else if (!skip_scalar(json)) {
            return false;
        }
        /* close what ends here */
        for (;;) {
            int level = json->depth - base - 1;
            if (level < 0) return true;
            pl_json_text key;
            bool another = (is_object[level / 64] >> (level % 64)) & 1 ? pl_json_key(json, &key)
                                                                       : pl_json_item(json);
            if (json->failure) return false;
            if (another) break;
        }
    }
}

bool pl_json_skip_like(pl_json *json, pl_json_text *last) {
    if (json->failure) return false;
    next_char(json);
    const char *start = json->at;
    size_t length = last->length;
    /* the bracket that ends it, or quotes, makes it whole; a number could go on */
    if (length && (size_t)(json->end - start) > length &&
        (*start == '{' || *start == '[' || *start == '"') && !memcmp(start, last->bytes, length)) {
        json->at += length;
        json->first = false;
        return true;
    }
    if (!pl_json_skip(json)) return false;
    *last = (pl_json_text){start, (size_t)(json->at - start), false};
    return true;
}

/* Whether start stands here and the object it opens is within the depth allowed. */
static bool starts_with(pl_json *json, const char *start, size_t length) {
    next_char(json);
    return !json->failure && json->depth < json->depth_limit &&
           (size_t)(json->end - json->at) > length && !memcmp(json->at, start, length);
}

bool pl_json_quick_int(pl_json *json, const char *start, size_t length, int64_t *out) {
    if (!starts_with(json, start, length)) return false;
    const char *digits = json->at + length, *at = digits;
    int64_t value = 0;
    while (at < json->end && *at >= '0' && *at <= '9' && at - digits < 18)
        value = value * 10 + (*at++ - '0');
    if (at == digits || at == json->end || *at != '}' || (*digits == '0' && at - digits > 1))
        return false;
    *out = value;
    json->at = at + 1;
    json->first = false;
    return true;
}

bool pl_json_quick_string(pl_json *json, const char *start, size_t length, pl_json_text *out) {
    if (!starts_with(json, start, length)) return false;
    const char *text = json->at + length, *at = string_stop(text, json->end);
    if (json->end - at < 2 || at[0] != '"' || at[1] != '}') return false;
    *out = (pl_json_text){text, (size_t)(at - text), false};
    json->at = at + 2;
    json->first = false;
    return true;
}

bool pl_json_end(pl_json *json) {
    if (json->failure) return false;
    next_char(json);
    return json->at == json->end || pl_json_fail(json, "the end of the text");
}

static unsigned hex4(const char *at) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        value = value * 16 + (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

static char *put_utf8(char *to, unsigned code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

enum { REPLACEMENT = 0xfffd };

char *pl_json_copy(pl_arena *arena, const pl_json_text *text, size_t *length) {
    const char *from = text->bytes, *end = from + text->length;
    /* a malformed byte grows to three; an escape never grows */
    size_t high = 0;
    for (const char *at = from; at < end; at++) high += (unsigned char)*at >> 7;
    if (!text->escaped && high == 0) {
        if (length) *length = text->length;
        return pl_arena_string(arena, from, text->length);
    }
    char *copy = pl_arena_array(arena, text->length + 2 * high + 1, 1), *to = copy;
    if (!copy) return NULL;
    while (from < end) {
        if (*from != '\\' || !text->escaped) {
            size_t n = pl_utf8_length((const unsigned char *)from, (size_t)(end - from));
            if (n == 0) {
                to = put_utf8(to, REPLACEMENT);
                from++;
            } else {
                memcpy(to, from, n);
                to += n;
                from += n;
            }
            continue;
        }
        char c = from[1];
        if (c != 'u') {
            static const char plain[] = "nrtbf", meant[] = "\n\r\t\b\f";
            const char *which = strchr(plain, c);
            *to++ = which ? meant[which - plain] : c;
            from += 2;
            continue;
        }
        unsigned code = hex4(from + 2);
        from += 6;
        if (code >= 0xd800 && code <= 0xdbff && end - from >= 6 && from[0] == '\\' &&
            from[1] == 'u') {
            unsigned second = hex4(from + 2);
            if (second >= 0xdc00 && second <= 0xdfff) {
                code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
                from += 6;
            }
        }
        if (code == 0 || (code >= 0xd800 && code <= 0xdfff)) code = REPLACEMENT;
        to = put_utf8(to, code);
    }
    *to = '\0';
    if (length) *length = (size_t)(to - copy);
    return copy;
}

bool pl_json_name(pl_json *json, pl_arena *arena, char *out, size_t room) {
    pl_json_text text;
    const char *at = json->at;
    size_t length;
    if (!pl_json_string(json, &text)) return false;
    char *copy = pl_json_copy(arena, &text, &length);
    if (!copy || length >= room) return pl_json_fail_at(json, at, "a shorter name");
    memcpy(out, copy, length + 1);
    return true;
}

bool pl_json_whole(pl_json *json, int64_t *out, int64_t most) {
    bool exact = true;
    const char *at = json->at;
    int64_t number = 0;
    if (!pl_json_int(json, &number, &exact)) return false;
    if (!exact || number < 0) return pl_json_fail_at(json, at, "a whole number from 0 on");
    if (number > most) return pl_json_fail_at(json, at, "a smaller number");
    *out = number;
    return true;
}
