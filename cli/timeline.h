/* timeline: the simulated steps as a picture or as numbers, in a file. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include <plimsoll/plimsoll.h>

/* The file's ending says which. Both return 0, or an exit code after complaining; check takes NULL.
 */
int timeline_check(const char *path);
int timeline_write(const char *path, const pl_report *report, const pl_model_info *model);

#endif
