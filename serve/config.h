/* config: what the daemon is told: a file of `name = value` lines, and options of the same names over it. */
#ifndef PLIMSOLL_SERVE_CONFIG_H
#define PLIMSOLL_SERVE_CONFIG_H

#include <plimsoll/plimsoll.h>

typedef struct config {
    char *listen; /* "127.0.0.1:9477"; "": no TCP */
    char *socket; /* path of a Unix socket; "": none */
    char *
        socket_users; /* names or numbers, by commas, of those who may use it; "": whoever can open it */
    char *data;       /* folder of the history and of models; "": nothing outlasts the process */
    char *tokens; /* file of lines `TOKEN SCOPE,SCOPE`; "": none, which only loopback may do */
    char *tls_cert, *tls_key;          /* PEM files; "": no TLS */
    char *gpus;                        /* file of cards of one's own; "": none */
    char *log;                         /* "text" or "json", to standard error */
    int64_t workers;                   /* of each lane that computes; 0: as many as processors */
    int64_t queue;                     /* requests that wait for them */
    int64_t connections;               /* open at once */
    int64_t idle_s;                    /* a connection without a request */
    int64_t request_s;                 /* for a request to be sent whole */
    int64_t body_bytes;                /* of one request */
    int64_t bodies_bytes;              /* of all at once */
    int64_t model_bytes, answer_bytes; /* kept in memory */
    int64_t memory_bytes;              /* one request's computing */
    int64_t events;                    /* likewise */
    int64_t timeout_ms;                /* likewise, and waiting for it */
    int64_t stored_bytes, stored_jobs; /* in data: of models; jobs */
    int64_t rate;                      /* requests a second of one client address; 0: any */
    int64_t drain_s;                   /* at the end, for what is under way */
    bool check;                        /* read it, say so, and end */
} config;

/* Options over the file that --config names over the defaults. False: *err says what is wrong, with the
 * file and the line. help: --help was asked for, and printed. */
bool config_read(config *out, int argc, char **argv, bool *help, pl_error *err);
void config_close(config *c);

#endif
