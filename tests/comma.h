/* comma: a locale whose numbers have a comma, for the tests that read and write numbers in one. */
#ifndef PL_TESTS_COMMA_H
#define PL_TESTS_COMMA_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char comma_folder[64];

static inline void comma_remove(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", comma_folder);
    if (comma_folder[0] && system(command) != 0) perror(comma_folder);
}

/* Makes it in a folder of its own, which goes when the program ends, and shows that it is one; from
 * then on setlocale knows "comma". Runs in the root of the sources. */
static inline bool comma_make(void) {
    char command[128], text[16];
    if (comma_folder[0]) return true;
    snprintf(comma_folder, sizeof comma_folder, "/tmp/plimsoll-comma-XXXXXX");
    if (!mkdtemp(comma_folder)) return false;
    atexit(comma_remove);
    snprintf(command, sizeof command, "sh tests/comma_locale.sh %s", comma_folder);
    if (system(command) != 0 || setenv("LOCPATH", comma_folder, 1) != 0) return false;
    if (!setlocale(LC_ALL, "comma")) return false;
    snprintf(text, sizeof text, "%.1f", 0.5);
    setlocale(LC_ALL, "C");
    return strcmp(text, "0,5") == 0;
}

#endif
