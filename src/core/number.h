/* number: real numbers as text, in one way whatever locale the process or the thread has set.
 *
 * Every real that the project reads or writes goes through the two functions here: printf and
 * strtod follow the locale, where 0.2 may be written "0,2" and read as 0. Both are exact: reading
 * gives the nearest double, and style ".17g" brings the same double back. Any thread may call them
 * at any time. tests/test_numbers.sh sees to it that nothing else reads or writes reals. */
#ifndef PL_CORE_NUMBER_H
#define PL_CORE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Room for a double that ".17g" writes, a 0 at the end included. */
typedef struct pl_number_text {
    char text[28];
} pl_number_text;

/* style: printf's conversion without its '%', such as ".1f", "+.2f" or ".17g"; up to 7 bytes. What
 * "f" makes too long (beyond 1e24 or so) is written by ".17g". */
pl_number_text pl_number_write(const char *style, double value);

/* The same within an argument list: printf("%s MiB", PL_REAL(".1f", mib)). The text lives until
 * the end of that statement. */
#define PL_REAL(style, value) (pl_number_write((style), (value)).text)

/* [sign] digits [. digits] [e [sign] digits], the whole of the text, with a digit before or behind
 * the point: else false, and *out is as it was. No blanks, hexadecimals, inf or nan; beyond the
 * doubles' range it is an infinity or 0, as IEEE 754 has it. The text need not end in a 0. */
bool pl_number_read(const char *text, size_t length, double *out);

#endif
