/* exchange: see exchange.h. What is known is answered there and then, by the thread that reads; what has to be
 * computed or written for the disk waits, suspended, for a thread of its lane. */
#include "exchange.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "core/error.h"
#include "log.h"
#include "report.h"

extern const char pl_openapi[], pl_openapi_end[];

enum {
    MOST_LISTED = 10000,
    LISTED = 100,
    MOST_SHORT = 64 << 10, /* bytes of a request for an estimate that counts as short */
};
static const int64_t second = 1000000000; /* ns */

typedef struct exchange {
    pool_task task;      /* its first member */
    history_write write; /* of a report */
    report_read_t report;
    server *server;
    in_force *force; /* what its answer is of */
    visit *visit;
    struct MHD_Connection *connection;
    int fd;
    const char *method; /* of the table */
    bool head, http_1_0;
    char path[256], name[128], query[2][300]; /* query: state, job */
    char *body;
    size_t size, room;
    int64_t began_ns, whole_ns, limit; /* whole: when all of it had come */
    bool over_unix, refused, waits, gave_up;
    atomic_bool ready;
    pl_response response;
    struct MHD_Response *own; /* a daemon's own answer, in place of response */
    int own_status;
    char allow[48]; /* the methods of a path that has others */
    const char *route;
} exchange;

static const char *const methods[] = {"GET",    "HEAD",  "POST",    "PUT",
                                      "DELETE", "PATCH", "OPTIONS", "other"};

/* ---- the daemon's own paths ---- */

static void answer_text(exchange *x, int status, char *text, const char *type, bool ours) {
    x->own = text ? MHD_create_response_from_buffer(
                        strlen(text), text, ours ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT)
                  : NULL;
    x->own_status = status;
    if (x->own) MHD_add_response_header(x->own, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (!x->own && ours) free(text);
    if (!x->own) pl_response_problem(&x->response, 503, "missing", "out of memory");
}

static void give_health(exchange *x) {
    static char fine[] = "{\"status\":\"ok\"}\n", ending[] = "{\"status\":\"draining\"}\n";
    bool draining = atomic_load(&x->server->draining);
    answer_text(x, draining ? 503 : 200, draining ? ending : fine, "application/json", false);
}

static void give_openapi(exchange *x) {
    size_t size = (size_t)(pl_openapi_end - pl_openapi);
    x->own = MHD_create_response_from_buffer(size, (void *)(uintptr_t)pl_openapi,
                                             MHD_RESPMEM_PERSISTENT);
    x->own_status = 200;
    if (x->own) MHD_add_response_header(x->own, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
}

static void give_metrics(exchange *x) {
    server *s = x->server;
    history_figures figures;
    history_count(s->history, &figures);
    in_force *force = server_take(s);
    metrics_now now = {.connections = atomic_load(&s->connections),
                       .bodies_bytes = atomic_load(&s->bodies),
                       .answers_bytes = atomic_load(&s->answers),
                       .history = &figures,
                       .kept = PL_SIZED(pl_service_counts)};
    for (int i = 0; i < LANES; i++) now.waiting += pool_waiting(s->lanes[i]);
    pl_service_count(force->service, &now.kept);
    server_give(s, force);
    answer_text(x, 200, metrics_text(s->metrics, &now), "text/plain; version=0.0.4; charset=utf-8",
                true);
}

static void give_jobs(exchange *x) {
    history_state state = JOB_STATES;
    for (int i = 0; *x->query[0] && i < JOB_STATES; i++)
        if (strcmp(x->query[0], history_state_name((history_state)i)) == 0)
            state = (history_state)i;
    if (*x->query[0] && state == JOB_STATES)
        pl_response_problem(&x->response, 400, "usage",
                            "state: expected submitted, started, seen or ended");
    else if (x->limit < 1 || x->limit > MOST_LISTED)
        pl_response_problem(&x->response, 400, "usage",
                            "limit: expected a whole number from 1 to 10000");
    else
        answer_text(
            x, 200,
            history_jobs(x->server->history, state, *x->query[1] ? x->query[1] : NULL, x->limit),
            "application/json", true);
}

static void take_report(exchange *x);

static const struct own_path {
    const char *method, *path;
    void (*give)(exchange *x);
    int scope;
    bool waits; /* for the disk or for the history's lock */
} own_paths[] = {
    {"GET", "/healthz", give_health, SCOPE_NONE, false},
    {"GET", "/openapi.json", give_openapi, SCOPE_NONE, false},
    {"GET", "/metrics", give_metrics, SCOPE_METRICS, true},
    {"GET", "/v1/jobs", give_jobs, SCOPE_READ, true},
    {"POST", "/v1/jobs", take_report, SCOPE_RECORD, true},
};
enum { OWN_PATHS = sizeof own_paths / sizeof *own_paths };

static const struct own_path *own_path_of(const exchange *x) {
    for (size_t i = 0; i < OWN_PATHS; i++)
        if (strcmp(own_paths[i].path, x->path) == 0 && strcmp(own_paths[i].method, x->method) == 0)
            return &own_paths[i];
    return NULL;
}

static int scope_of(const exchange *x, const struct own_path *own) {
    if (own) return own->scope;
    return strcmp(x->method, "GET") == 0 ? SCOPE_READ : SCOPE_ESTIMATE;
}

/* The methods that the path has, as Allow lists them. False: there is no such path. */
static bool find_methods(exchange *x) {
    bool gets = pl_service_takes("GET", x->path), posts = pl_service_takes("POST", x->path);
    for (size_t i = 0; i < OWN_PATHS; i++) {
        if (strcmp(own_paths[i].path, x->path) != 0) continue;
        gets |= strcmp(own_paths[i].method, "GET") == 0;
        posts |= strcmp(own_paths[i].method, "POST") == 0;
    }
    snprintf(x->allow, sizeof x->allow, "%s%sOPTIONS", gets ? "GET, HEAD, " : "",
             posts ? "POST, " : "");
    return gets || posts;
}

/* ---- computing ---- */

static void resume(exchange *x) {
    struct MHD_Connection *connection = x->connection;
    atomic_store(&x->ready, true);
    MHD_resume_connection(connection); /* x may be gone from here on */
}

static void reported(history_write *w, bool kept) {
    exchange *x = (exchange *)((char *)w - offsetof(exchange, write));
    static char stored[] = "{\"stored\":true}\n";
    const history_event *e = w->event;
    if (kept && e->state == JOB_ENDED && e->gpu) {
        in_force *force = server_take(x->server);
        pl_service_learned(force->service, e->gpu);
        server_give(x->server, force);
    }
    if (kept)
        answer_text(x, 201, stored, "application/json", false);
    else
        pl_response_problem(&x->response, 507, "missing", "the report could not be stored");
    resume(x);
}

/* Resumed by the writer, once it is on the disk. */
static void take_report(exchange *x) {
    pl_error err = PL_SIZED(pl_error);
    in_force *force = server_take(x->server);
    pl_status status = report_read(&x->report, x->body ? x->body : "", x->size, force->cards, &err);
    server_give(x->server, force);
    if (status == PL_OK) {
        x->write.event = &x->report.event;
        x->write.done = reported;
        history_add(x->server->history, &x->write);
        return;
    }
    pl_response_failed(&x->response, status == PL_MISSING ? 503 : 400, &err);
    resume(x);
}

/* Whether nobody waits for the answer any more. One who has only said all there is to say, and closed that half, is
 * given a second. */
static bool is_gone(const exchange *x) {
    struct pollfd p = {.fd = x->fd, .events = POLLRDHUP};
    if (x->fd < 0 || poll(&p, 1, 0) <= 0) return false;
    return p.revents & (POLLHUP | POLLERR) || pl_now_ns() - x->whole_ns > second;
}

static int given_up(void *given) {
    exchange *x = given;
    x->gave_up = x->gave_up || atomic_load(&x->server->ending) || is_gone(x);
    return x->gave_up;
}

static pl_request request_of(exchange *x) {
    return (pl_request){.size = sizeof(pl_request),
                        .method = x->method,
                        .path = x->path,
                        .name = x->name,
                        .body = x->body ? x->body : "",
                        .body_size = x->size,
                        .cancelled = given_up,
                        .cancel_context = x};
}

static void compute(pool_task *task) {
    exchange *x = (exchange *)task;
    server *s = x->server;
    const struct own_path *own = own_path_of(x);
    if (given_up(x)) {
        pl_response_problem(&x->response, 503, "limit", "given up before it was begun");
    } else if (pl_now_ns() - x->whole_ns > s->config->timeout_ms * 1000000) {
        pl_response_problem(&x->response, 503, "limit", "it waited too long for a thread");
    } else if (own) {
        own->give(x);
        if (own->give == take_report) return;
    } else {
        pl_request request = request_of(x);
        pl_service_answer(x->force->service, &request, &x->response);
        if (x->gave_up) {
            pl_response_close(&x->response);
            pl_response_problem(&x->response, 503, "limit", "given up: the daemon ends");
        }
    }
    resume(x);
}

/* ---- answering ---- */

/* An answer that is being sent: its bytes stay the service's. */
typedef struct held {
    pl_response response;
    server *server;
    in_force *force;
    size_t counted; /* in server.answers */
} held;

static void give_back(void *given) {
    held *h = given;
    pl_response_close(&h->response);
    atomic_fetch_sub(&h->server->answers, (long long)h->counted);
    if (h->force) server_give(h->server, h->force);
    free(h);
}

static struct MHD_Response *of_service(exchange *x) {
    held *h = malloc(sizeof *h);
    if (!h) return NULL;
    *h = (held){.response = x->response,
                .server = x->server,
                .force = x->force,
                .counted = x->response.known ? 0 : x->response.length};
    x->response.owner = NULL;
    x->force = NULL;
    atomic_fetch_add(&x->server->answers, (long long)h->counted);
    struct MHD_Response *r = MHD_create_response_from_buffer_with_free_callback_cls(
        h->response.length, (void *)(uintptr_t)h->response.body, give_back, h);
    if (!r) give_back(h);
    if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, x->response.type);
    return r;
}

static enum MHD_Result send_answer(exchange *x) {
    server *s = x->server;
    int status = x->own ? x->own_status : x->response.status;
    struct MHD_Response *r = x->own ? x->own : of_service(x);
    if (!r) return MHD_NO;
    x->own = NULL;
    if (status == 401) MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == 503 || status == 429)
        MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (status == 405 || status == 204) MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, x->allow);
    if (x->refused || atomic_load(&s->draining))
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    int64_t now = pl_now_ns();
    if (!x->route) x->route = x->response.route;
    if (!x->route || !*x->route) x->route = "other";
    metrics_count(s->metrics, x->route, status, x->response.known, now - x->began_ns);
    log_request(x->head ? "HEAD" : x->method, x->route, status, now - x->began_ns, x->size,
                x->response.known);
    if (x->visit)
        atomic_store(&x->visit->until_ns,
                     now + (s->config->idle_s + s->config->request_s) * second);
    enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result refuse(exchange *x, int status, const char *code, const char *why) {
    x->refused = true;
    pl_response_problem(&x->response, status, code, why);
    return send_answer(x);
}

/* ---- reading ---- */

static const char *value_of(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *key) {
    return MHD_lookup_connection_value(c, kind, key);
}

/* -1: no number of rows. */
static int64_t read_limit(const char *text) {
    char *end;
    if (!text) return LISTED;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && !errno ? value : -1;
}

/* "http://host/path", as a proxy is asked, means the same. */
static const char *path_of(const char *path) {
    if (strncmp(path, "http://", 7) != 0) return path;
    const char *slash = strchr(path + 7, '/');
    return slash ? slash : "/";
}

static exchange *new_exchange(server *s, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, bool over_unix) {
    exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    const union MHD_ConnectionInfo *info;
    const char *texts[] = {value_of(connection, MHD_GET_ARGUMENT_KIND, "state"),
                           value_of(connection, MHD_GET_ARGUMENT_KIND, "job")};
    const char *name = value_of(connection, MHD_GET_ARGUMENT_KIND, "name");
    size_t m = 0, last = sizeof methods / sizeof *methods - 1;
    while (m < last && strcmp(methods[m], method) != 0) m++;
    x->server = s;
    x->connection = connection;
    x->over_unix = over_unix;
    x->began_ns = pl_now_ns();
    x->response.size = sizeof x->response;
    x->head = strcmp(methods[m], "HEAD") == 0; /* as GET; its body is not sent */
    x->http_1_0 = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    x->method = x->head ? "GET" : methods[m];
    snprintf(x->path, sizeof x->path, "%s", path_of(path));
    snprintf(x->name, sizeof x->name, "%s", name ? name : "");
    for (int i = 0; i < 2; i++)
        snprintf(x->query[i], sizeof x->query[i], "%s", texts[i] ? texts[i] : "");
    x->limit = read_limit(value_of(connection, MHD_GET_ARGUMENT_KIND, "limit"));
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    x->visit = info ? info->socket_context : NULL;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->fd = info ? info->connect_fd : -1;
    if (x->visit) atomic_store(&x->visit->until_ns, x->began_ns + s->config->request_s * second);
    atomic_fetch_add(&s->under_way, 1);
    return x;
}

/* ---- framing: a proxy and we must not see different requests ---- */

typedef struct framing {
    int hosts, lengths, codings,
        blanks; /* blanks: names with one in them, which others pass over */
    bool chunked;
} framing;

static enum MHD_Result count_header(void *given, enum MHD_ValueKind kind, const char *key,
                                    const char *value) {
    framing *f = given;
    (void)kind;
    f->blanks += strpbrk(key, " \t") != NULL;
    f->hosts += strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0;
    f->lengths += strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) != 0) return MHD_YES;
    f->codings++;
    f->chunked = value && strcasecmp(value, "chunked") == 0;
    return MHD_YES;
}

/* NULL: as it should be (RFC 9112, 3.2 and 6). */
static const char *wrong_framing(const exchange *x, int *status) {
    framing f = {0};
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_header, &f);
    *status = 400;
    if (f.hosts > 1 || (f.hosts == 0 && !x->http_1_0)) return "one Host header is needed";
    if (f.blanks) return "a blank in a header's name";
    if (f.lengths > 1) return "more than one Content-Length";
    if (f.codings && f.lengths) return "both Content-Length and Transfer-Encoding";
    if (f.codings && x->http_1_0) return "Transfer-Encoding in HTTP/1.0";
    *status = 501;
    if (f.codings > 1 || (f.codings && !f.chunked)) return "a transfer coding other than chunked";
    return NULL;
}

/* ---- who may ask ---- */

/* A page of somebody's makes a browser on this machine ask: it says from where. */
static bool of_foreign_page(const exchange *x) {
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *origin = value_of(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
    if (!origin) return false;
    const char *host = strstr(origin, "://");
    for (size_t i = 0; host && i < sizeof own / sizeof *own; i++) {
        size_t length = strlen(own[i]);
        if (strncmp(host + 3, own[i], length) == 0 && strchr(":", host[3 + length])) return false;
    }
    return true;
}

/* Whether the request may be asked; else the refusal was sent. */
static bool admit(exchange *x, enum MHD_Result *result) {
    server *s = x->server;
    const union MHD_ConnectionInfo *info;
    int wanted = scope_of(x, own_path_of(x)), scopes = SCOPE_ALL;
    if (!x->over_unix) {
        info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        if (!rates_take(s->rates, info ? info->client_addr : NULL, x->began_ns)) {
            *result = refuse(x, 429, "limit", "more requests a second than one address may send");
            return false;
        }
    }
    pthread_rwlock_rdlock(&s->reloading);
    bool asks = access_has_tokens(s->access) && !x->over_unix;
    if (asks)
        scopes = access_of_token(
            s->access, value_of(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION));
    else if (x->over_unix && (x->fd < 0 || !access_of_peer(s->access, x->fd)))
        scopes = SCOPE_NONE;
    pthread_rwlock_unlock(&s->reloading);
    if (!asks && of_foreign_page(x)) scopes = SCOPE_NONE;
    if (wanted == SCOPE_NONE || (scopes > 0 && (scopes & wanted) == wanted)) return true;
    *result = scopes < 0 ? refuse(x, 401, "denied", "a bearer token is needed")
                         : refuse(x, 403, "denied", "the token, user or page may not ask this");
    return false;
}

static bool announced_too_large(const exchange *x) {
    const char *length = value_of(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > (unsigned long long)x->server->config->body_bytes;
}

/* The refusal is sent once all of the body has come: libmicrohttpd cannot answer before. */
static void refuse_later(exchange *x, int status, const char *why) {
    x->refused = true;
    pl_response_problem(&x->response, status, "limit", why);
}

static bool more_room(exchange *x, size_t wanted) {
    server *s = x->server;
    size_t room = x->room ? 2 * x->room : 4096;
    while (room < wanted) room *= 2;
    long long more = (long long)(room - x->room);
    bool fits = atomic_fetch_add(&s->bodies, more) + more <= s->config->bodies_bytes;
    char *grown = fits ? realloc(x->body, room) : NULL;
    if (grown) {
        x->body = grown;
        x->room = room;
        return true;
    }
    atomic_fetch_sub(&s->bodies, more);
    refuse_later(x, 503, fits ? "out of memory" : "too much is being sent at once");
    return false;
}

static void take_body(exchange *x, const char *bytes, size_t size) {
    if (x->refused) return;
    if (size > (size_t)x->server->config->body_bytes - x->size) {
        refuse_later(x, 413, "the body is larger than a request may have");
        return;
    }
    if (x->size + size > x->room && !more_room(x, x->size + size)) return;
    memcpy(x->body + x->size, bytes, size);
    x->size += size;
}

/* ---- the request is whole ---- */

static lane lane_of(const exchange *x, const struct own_path *own) {
    if (own) return LANE_DISK;
    bool estimate = strcmp(x->path, "/v1/estimate") == 0 && x->size <= MOST_SHORT;
    return estimate || strcmp(x->method, "GET") == 0 ? LANE_ESTIMATE : LANE_LONG;
}

static enum MHD_Result wait_for(exchange *x, lane way) {
    server *s = x->server;
    const char *why = "too many requests are waiting";
    bool room = atomic_load(&s->answers) <= s->config->bodies_bytes;
    if (!room) why = "too many answers are being sent";
    if (x->visit) atomic_store(&x->visit->until_ns, 0);
    x->task.run = compute;
    x->waits = true;
    MHD_suspend_connection(x->connection);
    if (room && pool_add(s->lanes[way], &x->task)) return MHD_YES;
    pl_response_problem(&x->response, 503, "limit", why);
    resume(x);
    return MHD_YES;
}

static enum MHD_Result answer(exchange *x) {
    const struct own_path *own = own_path_of(x);
    if (x->refused) return send_answer(x);
    x->whole_ns = pl_now_ns();
    if (own) x->route = own->path;
    if (own && !own->waits) {
        own->give(x);
        return send_answer(x);
    }
    if (!own && !pl_service_takes(x->method, x->path)) {
        static char nothing[] = "";
        if (!find_methods(x))
            pl_response_problem(&x->response, 404, "usage", "no such path");
        else if (strcmp(x->method, "OPTIONS") != 0)
            pl_response_problem(&x->response, 405, "usage", "this path has other methods");
        else
            answer_text(x, 204, nothing, "text/plain", false);
        return send_answer(x);
    }
    if (!own) {
        pl_request request = request_of(x);
        x->force = server_take(x->server);
        if (pl_service_known(x->force->service, &request, &x->response)) return send_answer(x);
    }
    return wait_for(x, lane_of(x, own));
}

static enum MHD_Result handle(server *s, bool over_unix, struct MHD_Connection *connection,
                              const char *path, const char *method, const char *version,
                              const char *bytes, size_t *size, void **state) {
    exchange *x = *state;
    enum MHD_Result result = MHD_YES;
    if (!x) {
        int status;
        x = new_exchange(s, connection, path, method, version, over_unix);
        if (!x) return MHD_NO;
        *state = x;
        const char *wrong = wrong_framing(x, &status);
        if (wrong) return refuse(x, status, "usage", wrong);
        if (strlen(path) >= sizeof x->path) return refuse(x, 404, "usage", "no such path");
        if (!admit(x, &result)) return result;
        if (announced_too_large(x))
            return refuse(x, 413, "limit", "the body is larger than a request may have");
        return MHD_YES;
    }
    if (*size) {
        take_body(x, bytes, *size);
        *size = 0;
        return MHD_YES;
    }
    if (x->waits) return atomic_load(&x->ready) ? send_answer(x) : MHD_YES;
    return answer(x);
}

/* ---- libmicrohttpd's callbacks ---- */

enum MHD_Result exchange_tcp(void *s, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *bytes,
                             size_t *size, void **state) {
    return handle(s, false, connection, path, method, version, bytes, size, state);
}

enum MHD_Result exchange_unix(void *s, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *bytes,
                              size_t *size, void **state) {
    return handle(s, true, connection, path, method, version, bytes, size, state);
}

void exchange_completed(void *given, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode how) {
    server *s = given;
    exchange *x = *state;
    (void)connection;
    (void)how;
    if (!x) return;
    pl_response_close(&x->response);
    if (x->own) MHD_destroy_response(x->own);
    if (x->force) server_give(s, x->force);
    report_close(&x->report);
    atomic_fetch_sub(&s->bodies, (long long)x->room);
    free(x->body);
    free(x);
    *state = NULL;
    atomic_fetch_sub(&s->under_way, 1);
}

void exchange_connected(void *given, struct MHD_Connection *connection, void **socket_state,
                        enum MHD_ConnectionNotificationCode how) {
    server *s = given;
    const union MHD_ConnectionInfo *info;
    if (how != MHD_CONNECTION_NOTIFY_STARTED) {
        atomic_fetch_sub(&s->connections, 1);
        if (*socket_state) patience_leave(s->patience, *socket_state);
        free(*socket_state);
        *socket_state = NULL;
        return;
    }
    atomic_fetch_add(&s->connections, 1);
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    visit *v = info ? calloc(1, sizeof *v) : NULL;
    *socket_state = v;
    if (v)
        patience_enter(s->patience, v, info->connect_fd,
                       pl_now_ns() + (s->config->idle_s + s->config->request_s) * second);
    else if (info)
        shutdown(info->connect_fd, SHUT_RDWR); /* none that nobody watches */
}

size_t exchange_unescape(void *given, struct MHD_Connection *connection, char *text) {
    (void)given;
    (void)connection;
    for (char *at = text; (at = strstr(at, "%00")); at += 3) at[0] = '?';
    return MHD_http_unescape(text);
}
