/* completions: shell completions from the option table, to stdout. */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

void completions_bash(void);
void completions_zsh(void);
void completions_fish(void);

#endif
