/* listen: the sockets that the daemon listens on. */
#ifndef PLIMSOLL_SERVE_LISTEN_H
#define PLIMSOLL_SERVE_LISTEN_H

#include "config.h"

/* All give a socket that listens, or -1 with *err. */

/* "address:port", "[::1]:9477", ":9477"; *port: the one it got. Beyond loopback tokens are needed. */
int listen_tcp(const config *c, int *port, pl_error *err);
/* One that nobody listens on any more is taken over. Where socket-users says who may come anybody can open it,
 * else its user and group. */
int listen_unix(const config *c, pl_error *err);

/* Whether both could be listened on, apart from what listens there now. */
bool listen_check(const config *c, pl_error *err);

#endif
