/* whatis: what a file is that holds no model, in words, so that the error says what to give instead. */
#ifndef PL_IMPORT_WHATIS_H
#define PL_IMPORT_WHATIS_H

#include <stdbool.h>
#include <stddef.h>

enum { PL_WHATIS_HEAD = 512 }; /* bytes from the beginning that are enough */

/* By its first bytes, which no model file that is read begins with; NULL: not known. */
const char *pl_whatis_head(const void *bytes, size_t size);
/* By its text and the ending of its name, where no reader knew it; NULL: not known. */
const char *pl_whatis_text(const void *bytes, size_t size, const char *name);
/* A JSON object by its keys, into out; false: not known. */
bool pl_whatis_json(char *out, size_t room, const char *text, size_t size);
/* Of an archive: called with each member's name, and with its last answer (NULL at first). */
const char *pl_whatis_member(const char *name, size_t length, const char *last);
extern const char pl_whatis_archive[]; /* an archive of which that is all one can say */

#endif
