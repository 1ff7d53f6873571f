/* http: one question to the daemon and its answer, before a point in time: never later, whatever the other side does.
 *
 * It is made for slurmctld, which holds its locks meanwhile: a socket of its own per question, non-blocking from the
 * start, poll with what is left of the time, no allocation, no signal, no thread, no name to look up for a Unix
 * socket. Of HTTP it knows what the daemon (docs/serve.md) answers with: a status, Content-Length, a body. */
#ifndef PLIMSOLL_SLURM_HTTP_H
#define PLIMSOLL_SLURM_HTTP_H

#include <stddef.h>
#include <stdint.h>

/* Where the daemon is. */
typedef struct http_place {
    char socket[108]; /* the path of its Unix socket; "": none, then */
    char host[256];   /* its host: an address, or a name (which is looked up, and waits for that) */
    char port[8];
    char token[256]; /* "": none */
} http_place;

typedef enum http_outcome {
    HTTP_ANSWERED,
    HTTP_AWAY,  /* nobody is there */
    HTTP_LATE,  /* nothing whole by then */
    HTTP_WRONG, /* what came is not an answer, or is too large */
} http_outcome;

typedef struct http_answer {
    int status;       /* 200 */
    const char *body; /* [length], and a 0 behind it; in the room that was given */
    size_t length;
    const char *why; /* of another outcome than HTTP_ANSWERED, in words; static */
} http_answer;

/* Nanoseconds of a clock that nobody sets. */
int64_t http_now(void);

/* body: NULL for none. type: of the body, "application/json". until: as http_now has it. */
http_outcome http_ask(const http_place *place, const char *method, const char *path,
                      const char *type, const void *body, size_t size, int64_t until, char *room,
                      size_t room_size, http_answer *out);

/* What comes out of a socket by then, as an answer. */
http_outcome http_take(int fd, char *room, size_t room_size, int64_t until, http_answer *out);

#endif
