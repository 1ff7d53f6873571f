/* patience: how long a connection may take to say a request and to take its answer. A byte now and then keeps
 * a connection from being silent, so that no timeout of silence ends it: a moment set beforehand does. */
#ifndef PLIMSOLL_SERVE_PATIENCE_H
#define PLIMSOLL_SERVE_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A connection: the caller's from patience_enter to patience_leave. */
typedef struct visit {
    struct visit *before, *after;
    int fd;
    atomic_llong until_ns; /* of pl_now_ns; 0: as long as it takes */
} visit;

typedef struct patience patience;

patience *patience_open(void); /* NULL: no memory, no thread */
void patience_close(patience **p);
/* Past its moment the connection is shut down, which whoever reads or writes it sees. fd stays open until
 * it has left. */
void patience_enter(patience *p, visit *v, int fd, int64_t until_ns);
void patience_leave(patience *p, visit *v);

#endif
