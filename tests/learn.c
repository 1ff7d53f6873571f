/* What learning stands on: random numbers, options in text, bytes of a model file, metrics, folds.
 * Model files themselves: trained.c. */
#include "learn/file.h"
#include "lab/learn/folds.h"
#include "lab/learn/metrics.h"
#include "lab/learn/options.h"
#include "lab/learn/random.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "comma.h"

static bool near(double got, double want) {
    return fabs(got - want) <= 1e-12 * (1 + fabs(want));
}
#define NEAR(got, want) CHECK(near(got, want))

enum { DRAWS = 200000 };

/* ---- random ---- */

/* The first numbers that O'Neill's demonstration program prints for pcg32 with 42, 54. */
static void random_first_numbers(void) {
    static const uint32_t known[] = {0xa15c02b7, 0x7b47f409, 0xba1d3330,
                                     0x83d2f293, 0xbfa4784b, 0xcbed606e};
    pl_random r = pl_random_seed(42, 54);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_INT(pl_random_u32(&r), known[i]);
    pl_random other = pl_random_seed(42, 55), same = pl_random_seed(42, 54);
    CHECK(pl_random_u32(&other) != known[0]);
    CHECK_INT(pl_random_u32(&same), known[0]);
}

/* chi-squared of ten cells over 200,000 draws: above 33.7 once in 10,000 seeds. */
static void random_uniform(void) {
    pl_random r = pl_random_seed(7, 1);
    double cells[10] = {0}, units[10] = {0}, chi = 0, chi_units = 0, most = 0, least = 1;
    for (int i = 0; i < DRAWS; i++) {
        cells[pl_random_below(&r, 10)]++;
        double u = pl_random_unit(&r);
        units[(int)(u * 10)]++;
        if (u > most) most = u;
        if (u < least) least = u;
    }
    for (int i = 0; i < 10; i++) {
        chi += pow(cells[i] - DRAWS / 10, 2) / (DRAWS / 10);
        chi_units += pow(units[i] - DRAWS / 10, 2) / (DRAWS / 10);
    }
    CHECK(chi < 33.7);
    CHECK(chi_units < 33.7);
    CHECK(least >= 0 && most < 1);
    CHECK_INT(pl_random_below(&r, 1), 0);
    CHECK_INT(pl_random_below(&r, 0), 0);
    /* An odd count just above 2^31: half the draws have to be taken again; a plain remainder would
     * give the lower numbers twice as often. */
    int low = 0;
    for (int i = 0; i < DRAWS; i++) low += pl_random_below(&r, 0x80000001) < 0x40000000;
    CHECK(abs(low - DRAWS / 2) < 1500);
}

static void random_normal(void) {
    pl_random r = pl_random_seed(3, 9);
    double sum = 0, squares = 0, fourth = 0;
    int within = 0;
    for (int i = 0; i < DRAWS; i++) {
        double x = pl_random_normal(&r);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        within += fabs(x) < 1.959963984540054;
    }
    CHECK(fabs(sum / DRAWS) < 0.01);
    CHECK(fabs(squares / DRAWS - 1) < 0.02);
    CHECK(fabs(fourth / DRAWS - 3) < 0.15);
    CHECK(abs(within - DRAWS * 95 / 100) < 500);
    /* The logarithm written there against the C library's. */
    pl_random a = pl_random_seed(1, 1), b = a;
    for (int i = 0; i < 1000; i++) {
        double got = pl_random_normal(&a), u, s;
        do {
            u = 2 * pl_random_unit(&b) - 1;
            double v = 2 * pl_random_unit(&b) - 1;
            s = u * u + v * v;
        } while (s >= 1);
        NEAR(got, u * sqrt(-2 * log(s) / s));
    }
}

static void random_shuffle(void) {
    uint32_t items[100], seen[100] = {0}, first[5] = {0};
    pl_random r = pl_random_seed(5, 0);
    for (uint32_t i = 0; i < 100; i++) items[i] = i;
    pl_random_shuffle(&r, items, 100);
    size_t moved = 0;
    for (uint32_t i = 0; i < 100; i++) {
        seen[items[i]]++;
        moved += items[i] != i;
    }
    for (int i = 0; i < 100; i++) CHECK_INT(seen[i], 1);
    CHECK(moved > 80);
    for (int i = 0; i < 50000; i++) {
        uint32_t five[5] = {0, 1, 2, 3, 4};
        pl_random_shuffle(&r, five, 5);
        first[five[0]]++;
    }
    for (int i = 0; i < 5; i++) CHECK(abs((int)first[i] - 10000) < 400);
    pl_random_shuffle(&r, NULL, 0);
}

/* ---- options ---- */

static const pl_option known[] = {
    {"trees", 100, 1, 10000, true},
    {"rate", 0.1, 0, 1, false},
    {"shift", 0, -1e6, 1e6, false},
    {"net", 0, 1, 0, false}, /* a text */
};
enum { KNOWN = sizeof known / sizeof *known };

static double number(const char *text, const char *key) {
    CHECK_INT(pl_options_check(text, known, KNOWN, NULL), PL_OK);
    return pl_options_number(text, known, KNOWN, key);
}

static void options_read(void) {
    CHECK(number("", "trees") == 100);
    CHECK(number("  \t ", "rate") == 0.1);
    CHECK(number("trees=300 rate=0.05", "trees") == 300);
    CHECK(number("trees=300\n rate=0.05", "rate") == 0.05);
    CHECK(number("trees=300 trees=5", "trees") == 5);
    CHECK(number("rate=1e-3", "rate") == 0.001);
    CHECK(number("rate=.25E+0", "rate") == 0.25);
    CHECK(number("rate=1.", "rate") == 1);
    CHECK(number("rate=0e999", "rate") == 0);
    CHECK(number("shift=-12345.678", "shift") == -12345.678);
    CHECK(number("shift=+0.000000123456789012345", "shift") == 0.000000123456789012345);
    CHECK(number("trees=1e3", "trees") == 1000);
    CHECK(isnan(pl_options_number("", known, KNOWN, "other")));
    char text[16];
    CHECK(!pl_options_text("trees=3", "net", text, sizeof text));
    CHECK(pl_options_text("net=linear:4 trees=3 net=bigru:2,mean", "net", text, sizeof text));
    CHECK_STR(text, "bigru:2,mean");
    CHECK(pl_options_text("net=a=b", "net", text, sizeof text));
    CHECK_STR(text, "a=b");
    CHECK(pl_options_text("net=123456789012345", "net", text, sizeof text));
    CHECK(!pl_options_text("net=1234567890123456", "net", text, sizeof text));
    CHECK(!pl_options_text("network=1", "net", text, sizeof text));
}

static void options_refused(void) {
    static const struct {
        const char *text;
        int position;
        const char *says;
    } cases[] = {
        {"trees", 0, "'trees' is not key=value"},
        {"  =5", 2, "'=5' is not key=value"},
        {"rate=0.1 depth=3", 9, "unknown option 'depth', known are: trees, rate, shift, net"},
        {"tree=3", 0, "unknown option 'tree'"},
        {"net=", 4, "net= has no value"},
        {"trees=", 6, "trees= has no value"},
        {"trees=many", 6, "trees=many: a number is expected"},
        {"trees=3x", 6, "a number is expected"},
        {"trees=0x10", 6, "a number is expected"},
        {"rate=nan", 5, "a number is expected"},
        {"rate=inf", 5, "a number is expected"},
        {"rate=.", 5, "a number is expected"},
        {"rate=1e", 5, "a number is expected"},
        {"rate=--1", 5, "a number is expected"},
        {"rate=0,5", 5, "a number is expected"},
        {"shift=1e23", 6, "from -1000000 to 1000000"},
        {"shift=1e99999999999999999999", 6, "from -1000000 to 1000000"},
        {"trees=2.5", 6, "trees=2.5: a whole number is expected"},
        {"trees=0", 6, "trees=0: a number from 1 to 10000 is expected"},
        {"trees=10001", 6, "from 1 to 10000"},
        {"rate=-0.1", 5, "from 0 to 1"},
        {"trees=0 trees=5", 6, "from 1 to 10000"}, /* overridden, and wrong all the same */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_error err = {0};
        CHECK_INT(pl_options_check(cases[i].text, known, KNOWN, &err), PL_USAGE);
        CHECK_STR(err.where, "options");
        CHECK_INT(err.position, cases[i].position);
        if (!strstr(err.message, cases[i].says)) CHECK_STR(err.message, cases[i].says);
    }
}

/* ---- file ---- */

static void file_written_and_read(void) {
    static const unsigned char want[] = {
        0x7f,                                     /* u8 */
        4,    3,    2,    1,                      /* u32 */
        8,    7,    6,    5,    4, 3, 2,    1,    /* u64 */
        0,    0,    0x80, 0xbf,                   /* f32 */
        0,    0,    0,    0,    0, 0, 0xf8, 0x3f, /* f64 */
        3,    0,    0,    0,                      /* a text's length */
        'a',  0xc3, 0xa9,                         /* and the text */
        0xfe,
    };
    pl_writer w = {0};
    pl_write_u8(&w, 0x7f);
    pl_write_u32(&w, 0x01020304);
    pl_write_u64(&w, UINT64_C(0x0102030405060708));
    pl_write_f32(&w, -1);
    pl_write_f64(&w, 1.5);
    pl_write_text(&w, "a\xc3\xa9");
    pl_write_bytes(&w, "\xfe", 1);
    CHECK(!w.failed);
    CHECK_INT(w.size, sizeof want);
    CHECK(w.size == sizeof want && memcmp(w.bytes, want, sizeof want) == 0);
    float many[1000], back[1000];
    for (int i = 0; i < 1000; i++) many[i] = (float)i / 7;
    pl_write_floats(&w, many, 1000);
    pl_write_text(&w, "");

    pl_reader r = {.bytes = w.bytes, .size = w.size};
    CHECK_INT(pl_read_u8(&r), 0x7f);
    CHECK_INT(pl_read_u32(&r), 0x01020304);
    CHECK(pl_read_u64(&r) == UINT64_C(0x0102030405060708));
    CHECK(pl_read_f32(&r) == -1);
    CHECK(pl_read_f64(&r) == 1.5);
    char *text = pl_read_text(&r, 3);
    CHECK_STR(text, "a\xc3\xa9");
    free(text);
    const unsigned char *byte = pl_read_bytes(&r, 1);
    CHECK(byte && *byte == 0xfe);
    CHECK(pl_read_has(&r, 1000, 4));
    CHECK(pl_read_floats(&r, back, 1000));
    CHECK(memcmp(many, back, sizeof many) == 0);
    text = pl_read_text(&r, 0);
    CHECK_STR(text, "");
    free(text);
    CHECK(r.failure == NULL);
    CHECK_INT(r.at, w.size);
    free(w.bytes);
}

/* One failing read of each kind: what it says, and at which byte. */
static void file_refused(void) {
    static const unsigned char bytes[] = {
        1, 0, 0, 0xc0, 0x7f,                   /* 1: f32 NaN */
        0, 0, 0, 0,    0,    0,    0xf0, 0x7f, /* 5: f64 infinity */
        3, 0, 0, 0,    'a',  0,    'b',        /* 13: a text with a 0 in it */
        2, 0, 0, 0,    'a',  0xff,             /* 20: a text that is not UTF-8 */
        9, 0, 0, 0,    'a',                    /* 26: a text that does not end */
    };
    enum { U8, U32, U64, F32, F64, IN, TEXT, FLOATS, BYTES, HAS };
    static const struct {
        int kind;
        size_t from, at;
        const char *says;
    } cases[] = {
        {U8, 31, 31, "a byte"},   {U32, 28, 28, "4 bytes"},     {U64, 24, 24, "8 bytes"},
        {F32, 1, 1, "finite"},    {F32, 28, 28, "announced"},   {F64, 5, 5, "finite"},
        {F64, 27, 27, "8 bytes"}, {IN, 26, 26, "one to eight"}, {IN, 29, 29, "4 bytes"},
        {TEXT, 13, 18, "UTF-8"},  {TEXT, 20, 25, "UTF-8"},      {TEXT, 26, 30, "ends in it"},
        {TEXT, 1, 1, "as long"},  {TEXT, 28, 28, "4 bytes"},    {FLOATS, 24, 24, "announced"},
        {FLOATS, 1, 1, "finite"}, {BYTES, 0, 0, "more bytes"},  {HAS, 0, 0, "announced"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_reader r = {.bytes = bytes, .size = sizeof bytes, .at = cases[i].from};
        float floats[2] = {0};
        switch (cases[i].kind) {
        case U8: CHECK_INT(pl_read_u8(&r), 0); break;
        case U32: CHECK_INT(pl_read_u32(&r), 0); break;
        case U64: CHECK_INT(pl_read_u64(&r), 0); break;
        case F32: CHECK(pl_read_f32(&r) == 0); break;
        case F64: CHECK(pl_read_f64(&r) == 0); break;
        case IN: CHECK_INT(pl_read_u32_in(&r, 1, 8, "one to eight"), 0); break;
        case TEXT: CHECK(pl_read_text(&r, 100) == NULL); break;
        case FLOATS: CHECK(!pl_read_floats(&r, floats, 2)); break;
        case BYTES: CHECK(pl_read_bytes(&r, sizeof bytes + 1) == NULL); break;
        default: CHECK(!pl_read_has(&r, SIZE_MAX / 2, 16));
        }
        CHECK_INT(r.failure_at, cases[i].at);
        if (!r.failure || !strstr(r.failure, cases[i].says)) CHECK_STR(r.failure, cases[i].says);
        /* From here on nothing is read, and the first failure stays. */
        const char *first = r.failure;
        r.at = 0;
        CHECK_INT(pl_read_u8(&r), 0);
        CHECK_INT(pl_read_u32_in(&r, 0, UINT32_MAX, "any"), 0);
        CHECK(pl_read_text(&r, 9) == NULL && pl_read_bytes(&r, 0) == NULL);
        CHECK(!pl_read_floats(&r, floats, 0) && !pl_read_has(&r, 0, 0));
        CHECK(r.failure == first && r.at == 0);
    }
}

/* A writer that ran out of memory stays so. */
static void file_writer_fails(void) {
    pl_writer w = {0};
    float one = 1;
    pl_write_u32(&w, 1);
    pl_write_floats(&w, &one, SIZE_MAX / 4);
    CHECK(w.failed);
    size_t size = w.size;
    pl_write_u8(&w, 1);
    pl_write_u64(&w, 1);
    pl_write_text(&w, "x");
    CHECK_INT(w.size, size);
    free(w.bytes);
}

/* ---- metrics ---- */

/* Constants: scikit-learn 1.x and numpy on the same numbers. */
static void metrics_regression(void) {
    const double truth[] = {100, 200, 400, 800, 50}, predicted[] = {110, 180, 420, 700, 50};
    pl_regression_metrics m;
    CHECK(pl_regression_measure(&m, truth, predicted, 5));
    NEAR(m.mse, 2180.0);
    NEAR(m.rmse, 46.69047011971501);
    NEAR(m.mae, 30.0);
    NEAR(m.mape, 7.5);
    NEAR(m.r2, 0.9706989247311828);
    NEAR(m.median, 0.1);
    NEAR(m.p90, 0.115);
    NEAR(m.mean, 0.075);
    NEAR(m.too_low, 0.4);

    CHECK(pl_regression_measure(&m, truth, predicted, 0));
    CHECK(isnan(m.mse) && isnan(m.rmse) && isnan(m.mae) && isnan(m.mape) && isnan(m.r2));
    CHECK(isnan(m.median) && isnan(m.p90) && isnan(m.mean) && isnan(m.too_low));

    const double constant[] = {4, 4}, zeros[] = {0, 10}, guess[] = {2, 9};
    CHECK(pl_regression_measure(&m, constant, guess, 2));
    CHECK(isnan(m.r2)); /* nothing varies */
    NEAR(m.mse, 14.5);
    CHECK(pl_regression_measure(&m, zeros, guess, 2));
    NEAR(m.mape, 10.0); /* the truth of 0 is left out */
    NEAR(m.too_low, 1.0);
    NEAR(m.mae, 1.5);
    const double edge[] = {100}, five[] = {95};
    CHECK(pl_regression_measure(&m, edge, five, 1));
    NEAR(m.too_low, 0.0); /* 5 % is not more than 5 % */
}

static void metrics_quantiles(void) {
    const double sorted[] = {1, 2, 4, 8};
    CHECK(isnan(pl_quantile(sorted, 0, 0.5)));
    NEAR(pl_quantile(sorted, 1, 0.9), 1);
    NEAR(pl_quantile(sorted, 4, 0), 1);
    NEAR(pl_quantile(sorted, 4, 1), 8);
    NEAR(pl_quantile(sorted, 4, 0.5), 3);
    NEAR(pl_quantile(sorted, 4, 0.9), 6.8);
    NEAR(pl_quantile(sorted, 4, 2), 8);
    NEAR(pl_quantile(sorted, 4, -1), 1);
}

/* Class 3 has predictions only, 4 truths only, 5 neither. Constants: scikit-learn's
 * precision_recall_fscore_support(zero_division=0). */
static void metrics_classes(void) {
    const int32_t truth[] = {0, 0, 0, 1, 1, 2, 2, 2, 2, 4},
                  predicted[] = {0, 0, 1, 1, 0, 2, 2, 1, 3, 2};
    static const uint64_t want[36] = {2, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 2, 1, 0, 0,
                                      0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    uint64_t confusion[36];
    memset(confusion, 0xff, sizeof confusion);
    pl_class_confusion(confusion, 6, truth, predicted, 10);
    CHECK(memcmp(confusion, want, sizeof want) == 0);
    pl_class_metrics m;
    pl_class_measure(&m, confusion, 6);
    NEAR(m.accuracy, 0.5);
    NEAR(m.precision, 0.5333333333333333);
    NEAR(m.recall, 0.5);
    NEAR(m.f1, 0.5085714285714286);
    NEAR(m.macro_precision, 0.3333333333333333);
    NEAR(m.macro_recall, 0.3333333333333333);
    NEAR(m.macro_f1, 0.3276190476190476);
    NEAR(m.below, 0.3);

    const int32_t outside[] = {-1, 0, 6, 2};
    pl_class_confusion(confusion, 6, outside, truth, 4);
    uint64_t counted = 0;
    for (int i = 0; i < 36; i++) counted += confusion[i];
    CHECK_INT(counted, 2);
    pl_class_confusion(confusion, 6, truth, predicted, 0);
    pl_class_measure(&m, confusion, 6);
    CHECK(isnan(m.accuracy) && isnan(m.f1) && isnan(m.macro_f1) && isnan(m.below));
}

/* ---- folds ---- */

enum { SAMPLES = 1000 };

static void folds_even(void) {
    uint32_t fold[SAMPLES], again[SAMPLES], other[SAMPLES], sizes[7] = {0};
    CHECK_INT(pl_folds_deal(fold, SAMPLES, 7, NULL, NULL, 11, NULL), PL_OK);
    for (int i = 0; i < SAMPLES; i++) sizes[fold[i] % 7]++;
    for (int f = 0; f < 7; f++) CHECK(sizes[f] == 142 || sizes[f] == 143);
    CHECK_INT(pl_folds_deal(again, SAMPLES, 7, NULL, NULL, 11, NULL), PL_OK);
    CHECK(memcmp(fold, again, sizeof fold) == 0);
    CHECK_INT(pl_folds_deal(other, SAMPLES, 7, NULL, NULL, 12, NULL), PL_OK);
    CHECK(memcmp(fold, other, sizeof fold) != 0);
}

static void folds_groups(void) {
    uint32_t fold[SAMPLES], group[SAMPLES], of[64], sizes[5] = {0};
    pl_random r = pl_random_seed(2, 0);
    for (int i = 0; i < SAMPLES; i++) { /* ids with gaps, of different sizes */
        uint32_t a = pl_random_below(&r, 60), b = pl_random_below(&r, 60);
        group[i] = (a < b ? a : b) * 70000001;
    }
    CHECK_INT(pl_folds_deal(fold, SAMPLES, 5, group, NULL, 3, NULL), PL_OK);
    memset(of, 0xff, sizeof of);
    int split = 0;
    for (int i = 0; i < SAMPLES; i++) {
        uint32_t g = group[i] / 70000001;
        if (of[g] == UINT32_MAX) of[g] = fold[i];
        split += of[g] != fold[i];
        sizes[fold[i] % 5]++;
    }
    CHECK_INT(split, 0);
    for (int f = 0; f < 5; f++) CHECK(sizes[f] >= 190 && sizes[f] <= 210);
}

static void folds_strata(void) {
    uint32_t fold[SAMPLES], classes[SAMPLES], cells[3][4] = {0}, totals[4] = {0}, sizes[3] = {0};
    for (uint32_t i = 0; i < SAMPLES; i++) classes[i] = i < 500 ? 0 : i < 800 ? 1 : i < 995 ? 2 : 3;
    CHECK_INT(pl_folds_deal(fold, SAMPLES, 3, NULL, classes, 3, NULL), PL_OK);
    for (int i = 0; i < SAMPLES; i++) {
        cells[fold[i] % 3][classes[i]]++;
        totals[classes[i]]++;
        sizes[fold[i] % 3]++;
    }
    for (int f = 0; f < 3; f++) {
        CHECK(sizes[f] == 333 || sizes[f] == 334);
        for (int c = 0; c < 4; c++) CHECK(fabs(cells[f][c] - totals[c] / 3.0) < 1);
    }
    CHECK(fold[0] != fold[1] || fold[1] != fold[2] || fold[2] != fold[3]);
}

static void folds_hold_out(void) {
    uint8_t apart[SAMPLES], again[SAMPLES];
    uint32_t group[SAMPLES];
    int held = 0;
    CHECK_INT(pl_folds_hold_out(apart, SAMPLES, 0.3, NULL, 1, NULL), PL_OK);
    for (int i = 0; i < SAMPLES; i++) held += apart[i];
    CHECK_INT(held, 300);
    CHECK_INT(pl_folds_hold_out(again, SAMPLES, 0.3, NULL, 1, NULL), PL_OK);
    CHECK(memcmp(apart, again, SAMPLES) == 0);

    for (uint32_t i = 0; i < SAMPLES; i++) group[i] = i % 40;
    CHECK_INT(pl_folds_hold_out(apart, SAMPLES, 0.3, group, 1, NULL), PL_OK);
    held = 0;
    int split = 0;
    for (int i = 0; i < SAMPLES; i++) {
        held += apart[i];
        split += apart[i] != apart[i % 40];
    }
    CHECK_INT(split, 0);
    CHECK_INT(held, 300);

    /* One large group and a few small ones: neither side is ever empty. */
    for (uint64_t seed = 0; seed < 50; seed++)
        for (int share = 1; share < 10; share += 4) {
            for (uint32_t i = 0; i < SAMPLES; i++) group[i] = i < 900 ? 0 : i < 990 ? 1 : 2;
            CHECK_INT(pl_folds_hold_out(apart, SAMPLES, share / 10.0, group, seed, NULL), PL_OK);
            held = 0;
            for (int i = 0; i < SAMPLES; i++) held += apart[i];
            CHECK(held > 0 && held < SAMPLES);
        }
    CHECK_INT(pl_folds_hold_out(apart, 2, 0.001, NULL, 1, NULL), PL_OK);
    CHECK_INT(apart[0] + apart[1], 1);
    CHECK_INT(pl_folds_hold_out(apart, 2, 0.999, NULL, 1, NULL), PL_OK);
    CHECK_INT(apart[0] + apart[1], 1);
}

static void folds_refused(void) {
    uint32_t fold[4], group[4] = {9, 9, 9, 9}, two[4] = {1, 1, 8, 8};
    uint8_t apart[4];
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_folds_deal(fold, 4, 1, NULL, NULL, 1, &err), PL_USAGE);
    CHECK_STR(err.message, "1 folds: at least 2 are expected");
    CHECK_INT(pl_folds_deal(fold, 4, 5, NULL, NULL, 1, &err), PL_USAGE);
    CHECK_STR(err.message, "5 folds of 4 samples: there must be at least one per fold");
    CHECK_INT(pl_folds_deal(fold, 4, 3, two, NULL, 1, &err), PL_USAGE);
    CHECK_STR(err.message, "3 folds of 2 groups: there must be at least one per fold");
    CHECK_INT(pl_folds_deal(fold, 0, 2, NULL, NULL, 1, &err), PL_USAGE);
    CHECK_INT(pl_folds_hold_out(apart, 4, 0.5, group, 1, &err), PL_USAGE);
    CHECK_INT(pl_folds_hold_out(apart, 1, 0.5, NULL, 1, &err), PL_USAGE);
    const double shares[] = {0, 1, -1, NAN};
    for (int i = 0; i < 4; i++)
        CHECK_INT(pl_folds_hold_out(apart, 4, shares[i], NULL, 1, &err), PL_USAGE);
}

static void options_in_a_locale_with_a_comma(void) {
    CHECK(comma_make() && setlocale(LC_ALL, "comma"));
    CHECK(number("rate=0.12345678901234567890", "rate") == 0.12345678901234567890);
    options_read();
    options_refused();
    setlocale(LC_ALL, "C");
}

int main(void) {
    RUN(random_first_numbers);
    RUN(random_uniform);
    RUN(random_normal);
    RUN(random_shuffle);
    RUN(options_read);
    RUN(options_refused);
    RUN(options_in_a_locale_with_a_comma);
    RUN(file_written_and_read);
    RUN(file_refused);
    RUN(file_writer_fails);
    RUN(metrics_regression);
    RUN(metrics_quantiles);
    RUN(metrics_classes);
    RUN(folds_even);
    RUN(folds_groups);
    RUN(folds_strata);
    RUN(folds_hold_out);
    RUN(folds_refused);
    return check_done();
}
