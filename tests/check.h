/* check: what the test programs share. A case prints one line on stdout,
 *     ok NAME          it holds
 *     not ok NAME      it does not; lines before it say why
 *     SKIP NAME: why   it could not be tried
 * and tests/run_tests.sh counts these lines. A program that prints none of them is one case, judged
 * by its exit code; one that ends badly (a signal, a sanitizer's report) is one failure more.
 *
 *     static void sums(void) { CHECK_INT(1 + 1, 2); }
 *     int main(void) { RUN(sums); return check_done(); }
 */
#ifndef PL_TESTS_CHECK_H
#define PL_TESTS_CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int check_failures_in_case, check_failed_cases;

static inline void check_say(const char *file, int line, const char *text) {
    printf("  %s:%d: %s\n", file, line, text);
    check_failures_in_case++;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) check_say(__FILE__, __LINE__, #condition);                               \
    } while (0)

#define CHECK_INT(got, want)                                                                       \
    do {                                                                                           \
        int64_t check_got = (int64_t)(got), check_want = (int64_t)(want);                          \
        if (check_got != check_want) {                                                             \
            check_say(__FILE__, __LINE__, #got);                                                   \
            printf("    is %" PRId64 ", should be %" PRId64 "\n", check_got, check_want);          \
        }                                                                                          \
    } while (0)

#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        const char *check_got = (got), *check_want = (want);                                       \
        if (!check_got || strcmp(check_got, check_want) != 0) {                                    \
            check_say(__FILE__, __LINE__, #got);                                                   \
            printf("    is '%s', should be '%s'\n", check_got ? check_got : "NULL", check_want);   \
        }                                                                                          \
    } while (0)

#define RUN(function)                                                                              \
    do {                                                                                           \
        check_failures_in_case = 0;                                                                \
        function();                                                                                \
        printf("%s %s\n", check_failures_in_case ? "not ok" : "ok", #function);                    \
        fflush(stdout);                                                                            \
        if (check_failures_in_case) check_failed_cases++;                                          \
    } while (0)

#define SKIP(name, why) printf("SKIP %s: %s\n", name, why)

static inline int check_done(void) {
    return check_failed_cases ? 1 : 0;
}

#endif
