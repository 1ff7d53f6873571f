/* options: a learner's settings in text, "trees=300 depth=8 net=tokens:64,bigru:32,mean,linear:1".
 *
 * Pairs are separated by blanks; a later pair of the same key wins, so that what a user adds behind
 * a recipe overrides it. */
#ifndef PL_LAB_OPTIONS_H
#define PL_LAB_OPTIONS_H

#include "lend.h"

/* A key that a learner knows, with its default and its range. */
typedef struct pl_option {
    const char *key;
    double standard, least, most; /* least > most: a text, not a number */
    bool whole;                   /* a whole number */
} pl_option;

/* Every pair of text is known, and a number within its range; else PL_USAGE that says which. */
pl_status pl_options_check(const char *text, const pl_option *known, size_t count, pl_error *err);
/* The key's last value, or its default. The text was checked and the key is in the table. */
double pl_options_number(const char *text, const pl_option *known, size_t count, const char *key);
/* Copies a text value into out (size bytes with the 0); false: not there, or too long. */
bool pl_options_text(const char *text, const char *key, char *out, size_t size);

#endif
