/* server: HTTP in, the service's answers out. */
#ifndef PLIMSOLL_SERVE_SERVER_H
#define PLIMSOLL_SERVE_SERVER_H

#include "config.h"

typedef struct server server;

/* Listens when it returns. On failure *out is NULL. */
pl_status server_open(server **out, const config *c, pl_error *err);
/* Whether it would open, apart from what listens there now. */
pl_status server_check(const config *c, pl_error *err);
/* Tokens and cards are read anew; what is wrong leaves those of before. */
pl_status server_reload(server *s, pl_error *err);
/* The port that is listened on; 0: none. */
int server_port(const server *s);
/* Takes no more connections, waits for what is under way, as long as the configuration says. */
void server_drain(server *s);
void server_close(server **s);

#endif
