/* exchange: one request and its answer, between libmicrohttpd and the service. What the server's parts share
 * stands here too. */
#ifndef PLIMSOLL_SERVE_EXCHANGE_H
#define PLIMSOLL_SERVE_EXCHANGE_H

#include <microhttpd.h>
#include <plimsoll/service.h>
#include <pthread.h>
#include <stdatomic.h>

#include "access.h"
#include "history.h"
#include "metrics.h"
#include "patience.h"
#include "pool.h"
#include "server.h"

/* Who does what has to be waited for. What is short never stands behind what is long. */
typedef enum lane {
    LANE_DISK,     /* reports, listings and /metrics: they wait for the disk and for locks */
    LANE_ESTIMATE, /* an estimate: milliseconds where the model is known */
    LANE_LONG,     /* searches, explanations, placement, models that have to be read */
    LANES
} lane;

/* The service with the cards it was opened with, for as long as an answer of it is being sent. */
typedef struct in_force {
    int users; /* under server.lock */
    pl_service *service;
    pl_catalogue *cards;
} in_force;

enum { WAYS = 2 }; /* TCP, Unix socket */

struct server {
    const config *config;
    struct MHD_Daemon *daemons[WAYS];
    int quiesced[WAYS]; /* what they listened on, once draining; -1: nothing */
    int port;
    int64_t most_connections; /* as many as descriptors allow */
    char *cert, *key;         /* as long as the daemon */
    pthread_mutex_t lock;     /* of which service is in force and who has it */
    in_force *force;
    pthread_rwlock_t reloading; /* of access; held for a comparison */
    access_list *access;
    rates *rates;
    pool *lanes[LANES];
    history *history;
    metrics *metrics;
    patience *patience;
    atomic_llong bodies;  /* bytes of requests under way */
    atomic_llong answers; /* bytes of answers under way that are nobody else's */
    atomic_llong connections, under_way;
    atomic_bool draining;
    atomic_bool ending; /* what is not answered yet is given up */
};

in_force *server_take(server *s); /* to be given back */
void server_give(server *s, in_force *force);

/* libmicrohttpd's callbacks; given: the server. */
enum MHD_Result exchange_tcp(void *given, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *bytes,
                             size_t *size, void **state);
enum MHD_Result exchange_unix(void *given, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *bytes,
                              size_t *size, void **state);
void exchange_completed(void *given, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode how);
void exchange_connected(void *given, struct MHD_Connection *connection, void **socket_state,
                        enum MHD_ConnectionNotificationCode how);
/* %XX in paths and queries; a zero byte stays written out, so that no text ends before its end. */
size_t exchange_unescape(void *given, struct MHD_Connection *connection, char *text);

#endif
