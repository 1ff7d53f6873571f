/* metrics: what the daemon counts, as Prometheus reads it. */
#ifndef PLIMSOLL_SERVE_METRICS_H
#define PLIMSOLL_SERVE_METRICS_H

#include <plimsoll/service.h>

#include "history.h"

typedef struct metrics metrics;

metrics *metrics_open(void); /* NULL: no memory */
void metrics_close(metrics **m);

/* route: a static string of the service's or the daemon's. */
void metrics_count(metrics *m, const char *route, int status, bool known, int64_t took_ns);

typedef struct metrics_now {
    size_t waiting; /* for a thread that computes */
    int64_t connections, bodies_bytes, answers_bytes;
    pl_service_counts kept;
    const history_figures *history;
} metrics_now;

/* The text of /metrics, malloc'ed. NULL: no memory. */
char *metrics_text(metrics *m, const metrics_now *now);

#endif
