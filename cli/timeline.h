/* timeline: the simulated steps as a picture or as numbers, in a file. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include <plimsoll/plimsoll.h>

/* The file's ending says which. 0, or an exit code after complaining. */
int timeline_write(const char *path, const pl_report *report, const pl_model_info *model,
                   const pl_job *job);

#endif
