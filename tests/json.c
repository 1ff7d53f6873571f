/* The JSON reader: what is right is read, what is wrong is refused at its byte, and nothing past
 * the end is touched. */
#include "import/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "comma.h"

/* An exact copy, so that a sanitizer sees the first byte too many. */
static char *exact(const char *text, size_t length) {
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    return copy;
}

static void whole_texts(void) {
    static const char *const good[] = {
        "{}",
        "[]",
        "0",
        "-0",
        "1e5",
        "1E+5",
        "0.5",
        "-12.25e-3",
        "\"\"",
        "\"\\u00e9\\n\\\\\\\"\\/\\b\\f\\r\\t\"",
        "true",
        "false",
        "null",
        "NaN",
        "Infinity",
        "-Infinity",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[[],{}]},\"c\":0}",
        "\t\r\n1\n",
        "[\"0123456789abcdef0123456789abcdef\", \"0123456789abcde\"]",
        "{\"a\":1,\"a\":2}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        pl_json json;
        char *copy = exact(good[i], strlen(good[i]));
        pl_json_open(&json, copy, strlen(good[i]), 512);
        if (!pl_json_skip(&json) || !pl_json_end(&json))
            printf("  %s: %s at %d\n", good[i], json.failure, (int)json.failure_at);
        CHECK(!json.failure);
        CHECK_INT(json.depth, 0);
        free(copy);
    }
}

static void refused_at_its_byte(void) {
    static const struct {
        const char *text;
        int64_t at;
        const char *expected;
    } rows[] = {
        {"", 0, "a value"},
        {"   ", 3, "a value"},
        {"{", 1, "a key in quotes"},
        {"{1:2}", 1, "a key in quotes"},
        {"{\"a\"}", 4, "':'"},
        {"{\"a\":}", 5, "a value"},
        {"{\"a\":1,}", 7, "a key in quotes"},
        {"{\"a\":1 \"b\":2}", 7, "',' or '}'"},
        {"[1,]", 3, "a value"},
        {"[1 2]", 3, "',' or ']'"},
        {"[1}", 2, "',' or ']'"},
        {"[1", 2, "',' or ']'"},
        {"[,1]", 1, "a value"},
        {"1 2", 2, "the end of the text"},
        {"{}x", 2, "the end of the text"},
        {"tru", 0, "true or false"},
        {"nul", 0, "null"},
        {"Inf", 0, "a number"},
        {"-", 0, "a number"},
        {"-x", 0, "a number"},
        {"01", 0, "no number that starts with 0"},
        {"1.", 2, "a digit after '.'"},
        {"1e", 2, "a digit in the exponent"},
        {"1e+", 3, "a digit in the exponent"},
        {".5", 0, "a value"},
        {"+5", 0, "a value"},
        {"'a'", 0, "a value"},
        {"\"abc", 4, "the end of a string"},
        {"\"abc\\", 4, "the end of a string"},
        {"\"a\\x\"", 2, "a known escape after \\"},
        {"\"a\\u12g4\"", 2, "four hexadecimal digits after \\u"},
        {"\"a\\u12", 2, "four hexadecimal digits after \\u"},
        {"\"0123456789abcdefg\n\"", 18, "no control character in a string"},
        {"\xef\xbb\xbf{}", 0, "a value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_json json;
        char *copy = exact(rows[i].text, strlen(rows[i].text));
        pl_json_open(&json, copy, strlen(rows[i].text), 512);
        bool read = pl_json_skip(&json) && pl_json_end(&json);
        if (read || json.failure_at != rows[i].at) printf("  %s\n", rows[i].text);
        CHECK(!read);
        CHECK_STR(json.failure, rows[i].expected);
        CHECK_INT(json.failure_at, rows[i].at);
        /* the first failure stays */
        CHECK(!pl_json_object(&json) && !pl_json_skip(&json));
        CHECK_INT(json.failure_at, rows[i].at);
        free(copy);
    }
}

static void integers(void) {
    static const struct {
        const char *text;
        int64_t value;
        bool exact;
    } rows[] = {
        {"0", 0, 1},
        {"-0", 0, 1},
        {"9223372036854775807", INT64_MAX, 1},
        {"-9223372036854775808", INT64_MIN, 1},
        {"9223372036854775808", INT64_MAX, 0},
        {"-9223372036854775809", INT64_MIN, 0},
        {"18446744073709551616", INT64_MAX, 0},
        {"99999999999999999999999999", INT64_MAX, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_json json;
        int64_t value = 5;
        bool exactly = true;
        pl_json_open(&json, rows[i].text, strlen(rows[i].text), 512);
        CHECK(pl_json_int(&json, &value, &exactly));
        CHECK_INT(value, rows[i].value);
        CHECK_INT(exactly, rows[i].exact);
    }
    pl_json json;
    int64_t value;
    pl_json_open(&json, "1.5", 3, 512);
    CHECK(!pl_json_int(&json, &value, NULL));
    CHECK_STR(json.failure, "an integer");
}

static void check_numbers(void) {
    static const char *const texts[] = {"0",
                                        "-0.0",
                                        "0.1",
                                        "1e-05",
                                        "1e-12",
                                        "3.141592653589793",
                                        "1e22",
                                        "1e23",
                                        "123456789012345678",
                                        "0.30000000000000004",
                                        "1.7976931348623157e308",
                                        "5e-324",
                                        "1e999",
                                        "-2.5e-7",
                                        "9007199254740993",
                                        "0.000001",
                                        "1234567890.123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_json json;
        double value = 5;
        pl_json_open(&json, texts[i], strlen(texts[i]), 512);
        CHECK(pl_json_number(&json, &value));
        char *saved = setlocale(LC_NUMERIC, NULL), name[64];
        snprintf(name, sizeof name, "%s", saved);
        setlocale(LC_NUMERIC, "C");
        double want = strtod(texts[i], NULL);
        setlocale(LC_NUMERIC, name);
        if (memcmp(&value, &want, sizeof value))
            printf("  %s: %.17g, not %.17g\n", texts[i], value, want);
        CHECK(!memcmp(&value, &want, sizeof value));
    }
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (int i = 0; i < 6; i++) {
        char text[16];
        double value = 0;
        pl_json json;
        snprintf(text, sizeof text, i < 3 ? "%s" : "\"%s\"", words[i % 3]);
        pl_json_open(&json, text, strlen(text), 512);
        CHECK(pl_json_number(&json, &value));
        CHECK(i % 3 == 0 ? isnan(value) : isinf(value) && (value > 0) == (i % 3 == 1));
    }
}

static void numbers_in_any_locale(void) {
    check_numbers();
    CHECK(comma_make() && setlocale(LC_NUMERIC, "comma"));
    check_numbers();
    setlocale(LC_NUMERIC, "C");
}

static void depth_is_bounded(void) {
    enum { DEEP = 1 << 20 };
    char *text = malloc(DEEP);
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < DEEP; i++) text[i] = kind ? "{\"a\":"[i % 5] : '[';
        pl_json json;
        pl_json_open(&json, text, DEEP, 100);
        CHECK(!pl_json_skip(&json));
        CHECK_INT(json.failure_at, kind ? 500 : 100);
        pl_json_open(&json, text, DEEP, 1 << 30); /* clamped */
        CHECK(!pl_json_skip(&json));
        CHECK_INT(json.failure_at, PL_JSON_MAX_DEPTH * (kind ? 5 : 1));
    }
    free(text);
}

static void copies(void) {
    static const struct {
        const char *raw, *want;
        bool escaped;
    } rows[] = {
        {"plain", "plain", false},
        {"a\\nb\\t\\\"\\\\\\/", "a\nb\t\"\\/", true},
        {"\\u0041\\u00e9\\u20ac\\ud83d\\ude00", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", true},
        {"\\ud83d!", "\xef\xbf\xbd!", true},
        {"\\ude00", "\xef\xbf\xbd", true},
        {"\\ud83d\\u0041",
         "\xef\xbf\xbd"
         "A",
         true},
        {"\\u0000", "\xef\xbf\xbd", true},
        {"caf\xc3\xa9", "caf\xc3\xa9", false},
        {"\xc3\xa9\\u", "\xc3\xa9\\u", false},
        {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd", false},
        {"\xc3", "\xef\xbf\xbd", false},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd", false},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", false},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd", false},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", false},
    };
    pl_arena *arena = pl_arena_new(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *copy = exact(rows[i].raw, strlen(rows[i].raw));
        pl_json_text text = {copy, strlen(rows[i].raw), rows[i].escaped};
        size_t length;
        const char *got = pl_json_copy(arena, &text, &length);
        CHECK_STR(got, rows[i].want);
        CHECK_INT(length, strlen(rows[i].want));
        free(copy);
    }
    pl_arena_free(&arena);
}

/* The short cuts take only what the ordinary way would read alike, and else nothing. */
static void short_cuts(void) {
    static const char key[] = "{\"n\": ", quote[] = "{\"n\": \"";
    static const struct {
        const char *text;
        int64_t value; /* -1: not taken */
    } ints[] = {{"{\"n\": 12}", 12},
                {"  {\"n\": 0},", 0},
                {"{\"n\": 999999999999999999}", 999999999999999999},
                {"{\"n\": 1234567890123456789}", -1},
                {"{\"n\": -1}", -1},
                {"{\"n\": 01}", -1},
                {"{\"n\": 1.5}", -1},
                {"{\"n\": 1 }", -1},
                {"{\"n\": }", -1},
                {"{\"n\": 1", -1},
                {"{\"n\":1}", -1},
                {"{\"n\": ", -1},
                {"", -1},
                {"{\"m\": 1}", -1}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        char *copy = exact(ints[i].text, strlen(ints[i].text));
        pl_json json;
        int64_t value = -1;
        pl_json_open(&json, copy, strlen(ints[i].text), 512);
        bool taken = pl_json_quick_int(&json, key, sizeof key - 1, &value);
        CHECK_INT(taken, ints[i].value >= 0);
        CHECK_INT(value, ints[i].value);
        CHECK(!json.failure);
        free(copy);
    }
    static const struct {
        const char *text, *value;
    } strings[] = {{"{\"n\": \"abc\"}", "abc"}, {"{\"n\": \"\"} ", ""},
                   {"{\"n\": \"a\\n\"}", NULL}, {"{\"n\": \"abc\" }", NULL},
                   {"{\"n\": \"abc\"", NULL},   {"{\"n\": \"abc", NULL},
                   {"{\"n\": \"", NULL},        {"{\"n\": \"abc\", \"m\": 1}", NULL}};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        char *copy = exact(strings[i].text, strlen(strings[i].text));
        pl_json json;
        pl_json_text text = {0};
        pl_json_open(&json, copy, strlen(strings[i].text), 512);
        bool taken = pl_json_quick_string(&json, quote, sizeof quote - 1, &text);
        CHECK_INT(taken, strings[i].value != NULL);
        if (taken) CHECK(pl_json_is(&text, strings[i].value, strlen(strings[i].value)));
        free(copy);
    }
    /* over the depth limit: left to the ordinary way, which refuses it */
    pl_json json;
    int64_t value;
    pl_json_open(&json, "[{\"n\": 1}]", 10, 1);
    CHECK(pl_json_list(&json) && pl_json_item(&json));
    CHECK(!pl_json_quick_int(&json, key, sizeof key - 1, &value) && !json.failure);
    CHECK(!pl_json_object(&json) && json.failure);
    static const char alike[] = "[{\"a\": [1]}, {\"a\": [1]}, {\"a\": [1]} , {\"a\": [2]}, \"x\", "
                                "\"x\", 1, 12, 1, {\"a\": [1}]";
    pl_json_text last = {0};
    int count = 0;
    pl_json_open(&json, alike, sizeof alike - 1, 512);
    CHECK(pl_json_list(&json));
    while (pl_json_item(&json))
        if (pl_json_skip_like(&json, &last)) count++;
    CHECK_INT(count, 9);
    CHECK_INT(json.failure_at, (int64_t)sizeof alike - 1 - 2);
}

static void every_cut(void) {
    static const char text[] = "{\"a\": [1, -2.5e3, \"x\\u0041y\", true, null], \"long key that "
                               "spans a block\": {\"b\": []}}";
    for (size_t size = 0; size + 1 < sizeof text; size++) {
        char *copy = exact(text, size);
        pl_json json;
        pl_json_open(&json, copy, size, 512);
        CHECK(!pl_json_skip(&json) || !pl_json_end(&json));
        CHECK(json.failure_at >= 0 && json.failure_at <= (int64_t)size);
        free(copy);
    }
}

int main(void) {
    RUN(whole_texts);
    RUN(refused_at_its_byte);
    RUN(integers);
    RUN(numbers_in_any_locale);
    RUN(depth_is_bounded);
    RUN(copies);
    RUN(short_cuts);
    RUN(every_cut);
    return check_done();
}
