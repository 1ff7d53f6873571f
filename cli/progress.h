/* progress: a bar on stderr for what takes longer than a second, on a terminal only. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stddef.h>

/* label must live until progress_stop. total 0: how much there is to do is not known. */
void progress_start(const char *label, size_t total);
void progress_at(size_t done); /* from any thread */
void progress_total(size_t total);
void progress_note(const char *text); /* behind the bar, from any thread; copied */
void progress_stop(void);             /* wipes the bar */

#endif
