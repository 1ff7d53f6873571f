/* remedies: what makes a job fit, found, printed and written. */
#ifndef CLI_REMEDIES_H
#define CLI_REMEDIES_H

#include <plimsoll/plimsoll.h>

#include "core/json_writer.h"

/* 0, or an exit code after complaining. */
int remedies_find(pl_remedies **out, const pl_model *model, const pl_job *job, const char *file);
/* The options that make the change: "--checkpoint --batch 4 --accumulate 2". */
void remedy_options(char *out, size_t size, const pl_remedy *remedy);
/* report: of the job as given. */
void remedies_print(const pl_remedies *all, const pl_report *report);
/* "remedies" and "nearest" of an object; all NULL: the job fits. */
void remedies_json(pl_json_writer *j, const pl_remedies *all);

#endif
