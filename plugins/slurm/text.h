/* text: a line that is put together in room that is given: nothing is allocated, and what has no room is
 * cut off and remembered. */
#ifndef PLIMSOLL_SLURM_TEXT_H
#define PLIMSOLL_SLURM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct text {
    char *at; /* [room], ends with a 0 */
    size_t room, length;
    bool cut; /* something had no room */
} text;

/* room >= 1 */
text text_in(char *at, size_t room);
void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A string of JSON, with its quotes. */
void text_quote(text *t, const char *string);
/* "91.2 GiB" */
void text_bytes(text *t, int64_t bytes);

/* A whole number from first to end, which may have a suffix: K, M, G, T, P (1,024 each step) where
 * suffixes is set. False where it is none, is below 0 or has no room in 2^53. */
bool text_whole(const char *first, const char *end, bool suffixes, int64_t *out);
/* "16GiB", "512 MiB", "1024": bytes. */
bool text_size(const char *first, const char *end, int64_t *out);

#endif
