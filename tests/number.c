/* number: reals are read and written exactly and in one way (core/number.h), and so is whatever
 * goes through them: reports, models, settings. Everything is done once in the "C" locale and again
 * in one with a comma, in threads too, and compared byte for byte. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>

#include "check.h"
#include "comma.h"
#include "core/number.h"
#include "device/allocator.h"
#include "import/json.h"

/* ---- the two functions ---- */

static void same_double(const char *text, double want) {
    double got = 5;
    CHECK(pl_number_read(text, strlen(text), &got));
    if (memcmp(&got, &want, sizeof got) == 0) return;
    check_say(__FILE__, __LINE__, text);
    printf("    is %a, should be %a\n", got, want);
}

/* A number's text of so many digits, somewhere among them a point, and perhaps an exponent. */
static void random_text(char *text, uint64_t *state) {
    size_t used = 0;
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t r = *state >> 33;
    int digits = 1 + (int)(r % 24), point = (int)(r / 24 % 26);
    if (r / 1024 % 2) text[used++] = '-';
    for (int i = 0; i < digits; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (i == point) text[used++] = '.';
        text[used++] = (char)('0' + (*state >> 40) % 10);
    }
    text[used] = 0;
    if (r / 2048 % 2) sprintf(text + used, "e%d", (int)(r / 4096 % 660) - 330);
}

static void reads_what_strtod_reads(void) {
    static const char *const texts[] = {
        "0", "-0.0", "+1.5", ".5", "5.", "1e-05", "0.1", "3.141592653589793", "1e22", "1e23",
        "123456789012345678", "0.30000000000000004", "1.7976931348623157e308", "5e-324",
        "2.4703282292062327e-324", "2.4703282292062328e-324", "1e999", "-1e999", "1e-999",
        "9007199254740993", "0.000001", "1234567890.123456789012345678901234567890",
        "0e99999999999999999999", "1e-99999999999999999999", "0.1e1", "000.5",
        /* halfway between two doubles, and a little above */
        "9007199254740993.00000000000000000000000000000000000000000000000000000",
        "9007199254740993.00000000000000000000000000000000000000000000000000001"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_double(texts[i], strtod(texts[i], NULL));
    uint64_t state = 11;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        random_text(text, &state);
        same_double(text, strtod(text, NULL));
    }
}

/* Digits behind the 768th change the nearest double only by not being 0. */
static void reads_very_long_numbers(void) {
    enum { LONG = 5000 };
    static char text[LONG + 16];
    /* 1 + 2^-53, which lies halfway between 1 and the next double */
    snprintf(text, sizeof text, "1.00000000000000011102230246251565404236316680908203125");
    size_t used = strlen(text);
    memset(text + used, '0', LONG - used);
    same_double(text, 1.0);
    text[LONG - 1] = '1';
    same_double(text, 1.0 + 0x1p-52);
    memset(text, '0', LONG);
    memcpy(text + LONG, "7.25", 5);
    same_double(text, 7.25);
    text[0] = '.';
    memset(text + 1, '9', LONG);
    text[LONG] = 0;
    same_double(text, 1.0);
}

static void refuses_what_is_no_number(void) {
    static const char *const texts[] = {"",   "-",    "+",    ".",     "-.",  "e5",  ".e5",
                                        "1e", "1e+",  "0x10", "inf",   "nan", "1,5", "1 ",
                                        " 1", "1.5.", "--1",  "1e5.0", "1f",  "1_0", "Infinity"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double got = 5;
        if (pl_number_read(texts[i], strlen(texts[i]), &got))
            check_say(__FILE__, __LINE__, texts[i]);
        CHECK(got == 5);
    }
}

/* What stands behind the text is not looked at. */
static void the_text_need_not_end(void) {
    double got = 0;
    CHECK(pl_number_read("1.5e3", 3, &got));
    CHECK(got == 1.5);
    CHECK(pl_number_read("0.123456789012345678901234567899", 25, &got));
    CHECK(got == 0.12345678901234567890123);
}

static void writes_what_printf_writes(void) {
    CHECK_STR(PL_REAL(".1f", 2.25), "2.2");
    CHECK_STR(PL_REAL("+.1f", 2.5), "+2.5");
    CHECK_STR(PL_REAL("g", 1e-7), "1e-07");
    CHECK_STR(PL_REAL(".6g", 8125220000000.0), "8.12522e+12");
    CHECK_STR(PL_REAL(".17g", 0.1), "0.10000000000000001");
    CHECK_STR(PL_REAL(".17g", -0x1p-1074), "-4.9406564584124654e-324");
    CHECK_STR(PL_REAL(".0f", 1e300), "1.0000000000000001e+300"); /* too long by f */
    CHECK_STR(PL_REAL("f", INFINITY), "inf");
    uint64_t state = 5;
    for (int i = 0; i < 100000; i++) {
        char text[64];
        double value, back;
        random_text(text, &state);
        CHECK(pl_number_read(text, strlen(text), &value));
        pl_number_text written = pl_number_write(".17g", value);
        if (isinf(value)) continue;
        CHECK(pl_number_read(written.text, strlen(written.text), &back));
        CHECK(memcmp(&value, &back, sizeof value) == 0);
    }
}

/* ---- what goes through them ---- */

enum { ANSWERS = 64, MOST_FILES = 32 };

static const char *files[MOST_FILES];
static size_t file_count;

static char *report_of(const pl_model *model) {
    pl_job job;
    pl_report *report = NULL;
    pl_error err = {0};
    char *copy = NULL;
    pl_job_default(&job);
    job.gpu = "a100-40gb";
    job.alloc_conf = "garbage_collection_threshold:0.8";
    if (pl_estimate(&report, model, &job, &err) != PL_OK) return strdup(err.message);
    report->elapsed_us = 0;
    const char *text = pl_report_json(report, model);
    if (text) copy = strdup(text);
    pl_report_close(&report);
    return copy;
}

/* A report of each file, and each file's graph. */
static void all_answers(char *out[ANSWERS]) {
    for (size_t i = 0; i < file_count; i++) {
        pl_model *model = NULL;
        pl_error err = {0};
        char *graph = NULL;
        size_t size;
        if (pl_model_open(&model, files[i], NULL, &err) != PL_OK) {
            out[2 * i] = strdup(err.message);
            continue;
        }
        out[2 * i] = report_of(model);
        if (pl_model_convert(&graph, &size, model, NULL, NULL) == PL_OK) out[2 * i + 1] = graph;
        pl_model_close(&model);
    }
}

static char *in_c[ANSWERS]; /* all_answers in the "C" locale */

static bool same_answers(char *got[ANSWERS]) {
    bool same = true;
    for (size_t i = 0; i < ANSWERS; i++) {
        if (!in_c[i] != !got[i] || (in_c[i] && strcmp(in_c[i], got[i]) != 0)) {
            size_t at = 0;
            while (in_c[i] && got[i] && in_c[i][at] == got[i][at]) at++;
            printf("    %s: '%.60s', in C '%.60s'\n", files[i / 2],
                   got[i] ? got[i] + at : "nothing", in_c[i] ? in_c[i] + at : "nothing");
            same = false;
        }
        free(got[i]);
    }
    return same;
}

static void files_are_answered(void) {
    all_answers(in_c);
    CHECK(file_count > 0);
    for (size_t i = 0; i < file_count; i++) {
        CHECK(in_c[2 * i] && strstr(in_c[2 * i], "\"flops_per_step\":"));
        CHECK(in_c[2 * i + 1] != NULL);
    }
}

static void every_answer_in_a_locale_with_a_comma(void) {
    char *got[ANSWERS] = {0};
    CHECK(setlocale(LC_ALL, "comma") != NULL);
    all_answers(got);
    setlocale(LC_ALL, "C");
    CHECK(same_answers(got));
}

static void *thread_answers(void *right) {
    char *got[ANSWERS] = {0};
    all_answers(got);
    *(bool *)right = same_answers(got);
    return NULL;
}

static void every_answer_in_threads_with_a_comma(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    bool right[THREADS] = {0};
    CHECK(setlocale(LC_ALL, "comma") != NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_answers, &right[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(right[i]);
    }
    setlocale(LC_ALL, "C");
}

/* The thread's own locale is as it was. */
static void a_threads_own_locale_is_left_alone(void) {
    CHECK(setlocale(LC_ALL, "comma") != NULL);
    locale_t own = duplocale(LC_GLOBAL_LOCALE);
    setlocale(LC_ALL, "C");
    CHECK(own != (locale_t)0);
    if (!own) return;
    locale_t before = uselocale(own);
    double got;
    CHECK_STR(PL_REAL(".1f", 0.5), "0.5");
    CHECK(pl_number_read("0.1234567890123456789", 21, &got) && got == 0.1234567890123456789);
    CHECK(uselocale((locale_t)0) == own);
    uselocale(before);
    freelocale(own);
}

static void settings_with_a_comma(void) {
    pl_allocator_settings settings;
    pl_error err = {0};
    pl_json json;
    double value = 0;
    CHECK(setlocale(LC_ALL, "comma") != NULL);
    CHECK_INT(pl_allocator_settings_parse(&settings, "garbage_collection_threshold:0.8", &err),
              PL_OK);
    CHECK(settings.gc_threshold == 0.8);
    CHECK_INT(pl_allocator_settings_parse(&settings, "garbage_collection_threshold:0,8", &err),
              PL_USAGE);
    pl_json_open(&json, "0.12345678901234567890", 22, 1);
    CHECK(pl_json_number(&json, &value) && value == 0.12345678901234567890);
    setlocale(LC_ALL, "C");
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc && file_count < MOST_FILES; i++) files[file_count++] = argv[i];
    RUN(reads_what_strtod_reads);
    RUN(reads_very_long_numbers);
    RUN(refuses_what_is_no_number);
    RUN(the_text_need_not_end);
    RUN(writes_what_printf_writes);
    RUN(files_are_answered);
    if (!comma_make()) {
        printf("not ok a_locale_with_a_comma_can_be_made\n");
        return 1;
    }
    RUN(every_answer_in_a_locale_with_a_comma);
    RUN(every_answer_in_threads_with_a_comma);
    RUN(a_threads_own_locale_is_left_alone);
    RUN(settings_with_a_comma);
    for (size_t i = 0; i < ANSWERS; i++) free(in_c[i]);
    return check_done();
}
