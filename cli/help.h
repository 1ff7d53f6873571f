/* help: what the option table says, for people and for shells. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "options.h"

void help_print(FILE *out, verb v); /* VERB_NONE: of the whole command */

/* "man", "bash", "zsh" or "fish" to stdout: the files in docs/man and completions. An exit code. */
int help_generate(const char *form);

#endif
