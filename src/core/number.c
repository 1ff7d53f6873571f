/* number: see number.h.
 *
 * What printf and strtod do is exact; they only need the "C" locale, which is set for the calling
 * thread while they run (POSIX.1-2008, uselocale). Short decimals need neither: where the digits
 * and the power of ten are both doubles without rounding, one multiplication or division gives the
 * nearest double (W. D. Clinger, "How to Read Floating Point Numbers Accurately", 1990). */
#include "core/number.h"

#include <locale.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A point halfway between two doubles has up to 767 digits (the least normal ones); of digits
 * behind those it only matters whether one is not 0. */
enum { DIGITS_MOST = 768 };

/* Made by whoever comes first; of two at once the second gives his back. No lock: a process may
 * fork meanwhile. Where it cannot be made (the C libraries known have it as a constant), 0, with
 * which uselocale leaves the locale as it is. */
static locale_t c_locale(void) {
    static _Atomic(locale_t) made;
    locale_t known = atomic_load_explicit(&made, memory_order_acquire);
    if (known) return known;
    locale_t mine = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!mine || atomic_compare_exchange_strong(&made, &known, mine)) return mine;
    freelocale(mine);
    return known;
}

pl_number_text pl_number_write(const char *style, double value) {
    pl_number_text out;
    char format[10] = "%";
    strncat(format, style, sizeof format - 2);
    locale_t before = uselocale(c_locale());
    int length = snprintf(out.text, sizeof out.text, format, value);
    if (length < 0 || (size_t)length >= sizeof out.text)
        snprintf(out.text, sizeof out.text, "%.17g", value);
    uselocale(before);
    return out;
}

/* A decimal: 0.d1 d2 d3 ... times 10^exponent, without the zeros before d1. */
typedef struct decimal {
    const char *first, *end; /* d1 up to behind the last digit; a point may stand between */
    int64_t exponent;
    uint64_t value; /* of the first 19 digits */
    int64_t count;  /* of digits, from d1 on */
    bool negative;
} decimal;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool scan(const char *at, const char *end, decimal *out) {
    decimal d = {.negative = at < end && *at == '-'};
    if (at < end && (*at == '-' || *at == '+')) at++;
    const char *point = NULL;
    bool any = false;
    for (; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = at;
            continue;
        }
        any = true;
        if (d.count > 0 || *at != '0') {
            if (d.count == 0) d.first = at;
            if (d.count < 19) d.value = d.value * 10 + (uint64_t)(*at - '0');
            d.count++;
        }
        if (point) d.exponent--;
    }
    if (!any) return false;
    d.end = at;
    d.exponent += d.count;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        bool minus = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        const char *start = at;
        int64_t power = 0;
        for (; at < end && is_digit(*at); at++)
            if (power < INT64_C(1) << 53) power = power * 10 + (*at - '0');
        if (at == start) return false;
        d.exponent += minus ? -power : power;
    }
    *out = d;
    return at == end;
}

/* strtod on the digits that matter, as "0.ddddde-12". */
static double slow(const decimal *d) {
    char text[DIGITS_MOST + 32] = "0.";
    size_t used = 2;
    for (const char *at = d->first; at < d->end; at++) {
        if (*at == '.') continue;
        if (used - 2 < DIGITS_MOST) {
            text[used++] = *at;
        } else if (*at != '0') {
            text[used++] = '1';
            break;
        }
    }
    /* beyond what any double reaches it is 0 or infinity, however far */
    int64_t exponent = d->exponent < -400 ? -400 : d->exponent > 400 ? 400 : d->exponent;
    snprintf(text + used, sizeof text - used, "e%d", (int)exponent);
    locale_t before = uselocale(c_locale());
    double value = strtod(text, NULL);
    uselocale(before);
    return value;
}

bool pl_number_read(const char *text, size_t length, double *out) {
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal d;
    if (!scan(text, text + length, &d)) return false;
    int64_t shift = d.exponent - d.count; /* value times 10^shift, while value has all digits */
    double value;
    if (d.count == 0)
        value = 0;
    else if (d.count <= 19 && d.value <= UINT64_C(1) << 53 && shift >= -22 && shift <= 22)
        value = shift < 0 ? (double)d.value / power[-shift] : (double)d.value * power[shift];
    else
        value = slow(&d);
    *out = d.negative ? -value : value;
    return true;
}
