/* utf8: well-formed UTF-8 (Unicode 15, table 3-7; RFC 3629): no surrogates, no overlong forms,
 * nothing above U+10FFFF. */
#ifndef PL_CORE_UTF8_H
#define PL_CORE_UTF8_H

#include <stddef.h>

enum { PL_UTF8_MOST = 4 }; /* bytes of a sequence */

/* Bytes of the sequence at `at`, of which `left` bytes (at least 1) may be read; 0 where it is
 * malformed or cut short. Text that ends in a 0 may be given PL_UTF8_MOST: the 0 is no continuation
 * byte, nothing behind it is read. */
static inline size_t pl_utf8_length(const unsigned char *at, size_t left) {
    unsigned char c = at[0];
    size_t n = c < 0x80                 ? 1
               : c >= 0xc2 && c <= 0xdf ? 2
               : c >= 0xe0 && c <= 0xef ? 3
               : c >= 0xf0 && c <= 0xf4 ? 4
                                        : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 && at[1] < 0xa0) || (c == 0xed && at[1] > 0x9f) || (c == 0xf0 && at[1] < 0x90) ||
        (c == 0xf4 && at[1] > 0x8f))
        return 0;
    return n;
}

#endif
