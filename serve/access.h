/* access: who may ask what: tokens with scopes, users of a socket, and how often an address asks. */
#ifndef PLIMSOLL_SERVE_ACCESS_H
#define PLIMSOLL_SERVE_ACCESS_H

#include <sys/socket.h>

#include "config.h"

typedef enum scope {
    SCOPE_NONE = 0,     /* /healthz, /openapi.json */
    SCOPE_READ = 1,     /* cards, models, jobs */
    SCOPE_ESTIMATE = 2, /* what computes, and posting models */
    SCOPE_RECORD = 4,   /* what became of jobs */
    SCOPE_METRICS = 8,
    SCOPE_ALL = 15,
} scope;

typedef struct access_list access_list;

/* The file of tokens and the users of the socket; both may be "". */
pl_status access_open(access_list **out, const config *c, pl_error *err);
void access_close(access_list **list);

/* Whether tokens are asked for at all. */
bool access_has_tokens(const access_list *list);
/* The scopes of an Authorization header's value; -1: no such token. All tokens are compared, each in the
 * same time whatever it is. */
int access_of_token(const access_list *list, const char *header);
/* Whether the user at the other end of a Unix socket may use it. */
bool access_of_peer(const access_list *list, int fd);

/* A bucket of requests for each address: so many a second, and as many at once. */
typedef struct rates rates;
rates *rates_open(int64_t per_second); /* NULL: no memory */
void rates_close(rates **r);
bool rates_take(rates *r, const struct sockaddr *address, int64_t now_ns);

#endif
