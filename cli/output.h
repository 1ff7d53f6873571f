/* output: the files that the command writes, each by an option: what their names may end in, and how
 * they are opened and closed. A new one is a row of the table in output.c and a writer.
 *
 * They are written whole or not at all (core/replace.h). */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdio.h>

#include "core/replace.h"
#include "options.h"

/* Every file that the request names ends as its writer wants it; else complains and returns an exit
 * code. Called before the verb, so that nothing is computed in vain. */
int outputs_check(const request *r);

typedef struct output {
    pl_replace file;
    const char *path;
} output;

/* Where to write, or NULL, with *code the exit code of the complaint. */
FILE *output_open(output *o, const char *path, int *code);
/* Puts it in place; 0, or complains and returns an exit code. */
int output_close(output *o);

#endif
