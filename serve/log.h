/* log: what the daemon says on standard error, a line each: text, or JSON for those who collect lines. */
#ifndef PLIMSOLL_SERVE_LOG_H
#define PLIMSOLL_SERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR } log_level;

/* "text" (until it is called), "json", or "off": requests are not logged, the rest is as text. */
void log_as(const char *how);

__attribute__((format(printf, 2, 3))) void log_say(log_level level, const char *format, ...);
/* As log_say, once a second at the most: for what goes wrong on every request. */
__attribute__((format(printf, 2, 3))) void log_say_now_and_then(log_level level, const char *format,
                                                                ...);

/* A request that was answered. method and route are static texts of the daemon's: nothing of the client's
 * is written into a log. */
void log_request(const char *method, const char *route, int status, int64_t took_ns, size_t bytes,
                 bool known);

#endif
