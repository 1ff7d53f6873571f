/* request: what a user wrote of a job, "model.pt2,batch=32,precision=bf16", read, checked, and written as the
 * daemon wants it. The same text comes as --plimsoll's argument, in the environment as PLIMSOLL_JOB, in a job's comment
 * behind "plimsoll:" and in a script's line "# plimsoll:". */
#ifndef PLIMSOLL_SLURM_REQUEST_H
#define PLIMSOLL_SLURM_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

enum { REQUEST_SETTINGS = 19, REQUEST_VALUE = 96, REQUEST_MODEL = 1024, REQUEST_BODY = 4096 };

typedef struct request {
    char model[REQUEST_MODEL];                    /* a file, or its digest */
    char values[REQUEST_SETTINGS][REQUEST_VALUE]; /* by the table's rows; "": not said */
} request;

/* Items between commas or blanks: the model, or model=..., then name=value; a value with commas or blanks
 * stands in double quotes. False: *wrong says what is wrong. */
bool request_read(request *out, const char *at, const char *end, text *wrong);
/* The same again, to be read by request_read. */
void request_write(const request *r, text *out);
/* The body of a question about a card: "gpu" is left out where it is "". extra: further members, ",\"what\":..", or "". */
void request_body(const request *r, const char *gpu, const char *extra, text *out);
/* "sha256:" and 64 hexadecimal digits. */
bool request_is_digest(const char *model);

/* Where a request may stand. False: there is none. */
bool request_of_comment(const char *comment, const char **at, const char **end);
bool request_of_script(const char *script, const char **at, const char **end);

/* Settings by index; NULL past the last. */
const char *request_setting(size_t index);

#endif
