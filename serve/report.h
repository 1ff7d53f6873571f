/* report: what is posted to /v1/jobs, read. */
#ifndef PLIMSOLL_SERVE_REPORT_H
#define PLIMSOLL_SERVE_REPORT_H

#include "history.h"

typedef struct report_read {
    history_event event;
    char job[256], user[128], gpu[64], family[32], model[80];
    char *settings; /* malloc'ed, or NULL */
} report_read_t;

/* Fills *out, whose strings its event points to; to be closed. cards: of one's own, or NULL. */
pl_status report_read(report_read_t *out, const char *body, size_t size, const pl_catalogue *cards,
                      pl_error *err);
void report_close(report_read_t *out);

#endif
