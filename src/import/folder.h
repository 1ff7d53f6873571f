/* folder: the one model file in a folder. */
#ifndef PL_IMPORT_FOLDER_H
#define PL_IMPORT_FOLDER_H

#include "core/error.h"

/* Whether path is a folder. */
bool pl_folder_is(const char *path);
/* The path of its config.json; else of its model.pt2, model.onnx or the one file of such a kind.
 * PL_INPUT with what is in it where there is none, or several. */
pl_status pl_folder_model(char *out, size_t room, const char *path, pl_error *err);

#endif
