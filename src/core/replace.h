/* replace: a file written anew, whole or not at all.
 *
 * What is written goes into a file beside it, which is synced and renamed over the old one at the
 * end: whoever reads sees the old file or the new one, and a full disk or an early end costs
 * neither. Links stay links; the old file's permissions, its owner (where that may be set) and its
 * other names stay. What is no plain file (a pipe, a terminal, anything under /dev and /proc) is
 * written straight, and so is a file in a folder where none can be made. */
#ifndef PL_CORE_REPLACE_H
#define PL_CORE_REPLACE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct pl_replace {
    FILE *out;
    char *name;   /* of the file that is replaced, links followed; NULL: written straight */
    char *beside; /* of the file that is written meanwhile */
} pl_replace;

/* false: errno says why, and there is nothing to close. */
bool pl_replace_open(pl_replace *r, const char *path);
/* Puts the new file in place, or, where it is not to be kept or could not be written, takes it away.
 * false: it was to be kept and could not; errno says why. */
bool pl_replace_close(pl_replace *r, bool keep);

#endif
