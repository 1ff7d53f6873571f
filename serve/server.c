/* server: see server.h. libmicrohttpd, one thread with epoll for each way in. What is known is answered
 * there and then; what has to be computed waits, suspended, for a thread of the pool; what is to be
 * written for the disk. */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <plimsoll/service.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "access.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"
#include "metrics.h"
#include "pool.h"
#include "report.h"

extern const char pl_openapi[], pl_openapi_end[];

enum { WAYS = 2, MOST_LISTED = 10000, LISTED = 100 };

struct server {
    const config *config;
    struct MHD_Daemon *daemons[WAYS]; /* TCP, Unix socket */
    int port;
    char *cert, *key; /* as long as the daemon */
    pl_service *service;
    pl_catalogue *catalogue;
    access_list *access;
    pthread_rwlock_t reloading; /* of service, catalogue and access */
    rates *rates;
    pool *pool;
    history *history;
    metrics *metrics;
    atomic_llong bodies, connections, under_way;
    atomic_bool draining;
    atomic_bool learned;       /* something was, since answers were last forgotten */
    atomic_llong forgotten_ns; /* when that was: once a second at the most */
};

/* One request and its answer. */
typedef struct exchange {
    pool_task task;      /* its first member */
    history_write write; /* of a report */
    report_read_t report;
    server *server;
    struct MHD_Connection *connection;
    char method[8], path[256], name[128], query[2][300]; /* query: state, job */
    char *body;
    size_t size, room;
    int64_t began_ns, limit;
    bool over_unix, refused, waits;
    atomic_bool ready;
    pl_response response;
    struct MHD_Response *own; /* a daemon's own answer, in place of response */
    int own_status;
    const char *route;
} exchange;

/* ---- the daemon's own paths ---- */

static struct MHD_Response *text_response(char *text, const char *type, bool ours) {
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(text), text, ours ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (!r && ours) free(text);
    return r;
}

static void answer_text(exchange *x, int status, char *text, const char *type, bool ours) {
    x->own = text ? text_response(text, type, ours) : NULL;
    x->own_status = status;
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
    metrics_now now = {.waiting = pool_waiting(s->pool),
                       .connections = atomic_load(&s->connections),
                       .bodies_bytes = atomic_load(&s->bodies),
                       .history = &figures};
    answer_text(x, 200, metrics_text(s->metrics, &now), "text/plain; version=0.0.4; charset=utf-8",
                true);
}

static void give_jobs(exchange *x) {
    history_state state = JOB_STATES;
    for (int i = 0; *x->query[0] && i < JOB_STATES; i++)
        if (strcmp(x->query[0], history_state_name((history_state)i)) == 0)
            state = (history_state)i;
    if (*x->query[0] && state == JOB_STATES) {
        pl_response_problem(&x->response, 400, "usage",
                            "state: expected submitted, started, seen or ended");
        return;
    }
    int64_t most = x->limit > 0 && x->limit < MOST_LISTED ? x->limit
                   : x->limit                             ? MOST_LISTED
                                                          : LISTED;
    answer_text(x, 200,
                history_jobs(x->server->history, state, *x->query[1] ? x->query[1] : NULL, most),
                "application/json", true);
}

static void take_report(exchange *x);

static const struct own_path {
    const char *method, *path;
    void (*give)(exchange *x);
    int scope;
    bool waits; /* for the disk or for the history's lock: by a thread of the pool */
} own_paths[] = {
    {"GET", "/healthz", give_health, SCOPE_NONE, false},
    {"GET", "/openapi.json", give_openapi, SCOPE_NONE, false},
    {"GET", "/metrics", give_metrics, SCOPE_METRICS, true},
    {"GET", "/v1/jobs", give_jobs, SCOPE_READ, true},
    {"POST", "/v1/jobs", take_report, SCOPE_RECORD, true},
};

static const struct own_path *own_path_of(const exchange *x) {
    for (size_t i = 0; i < sizeof own_paths / sizeof *own_paths; i++)
        if (strcmp(own_paths[i].path, x->path) == 0 && strcmp(own_paths[i].method, x->method) == 0)
            return &own_paths[i];
    return NULL;
}

static int scope_of(const exchange *x, const struct own_path *own) {
    if (own) return own->scope;
    return strcmp(x->method, "GET") == 0 ? SCOPE_READ : SCOPE_ESTIMATE;
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
    if (kept && e->state == JOB_ENDED) atomic_store(&x->server->learned, true);
    if (kept)
        answer_text(x, 201, stored, "application/json", false);
    else
        pl_response_problem(&x->response, 507, "missing", "the report could not be stored");
    resume(x);
}

/* Resumed by the writer, once it is on the disk. */
static void take_report(exchange *x) {
    pl_error err = PL_SIZED(pl_error);
    if (report_read(&x->report, x->body ? x->body : "", x->size, &err) == PL_OK) {
        x->write.event = &x->report.event;
        x->write.done = reported;
        history_add(x->server->history, &x->write);
        return;
    }
    char text[900];
    snprintf(text, sizeof text, "%s: %s", err.where, err.message);
    pl_response_problem(&x->response, err.code == PL_MISSING ? 503 : 400, pl_status_name(err.code),
                        text);
    resume(x);
}

static pl_request request_of(const exchange *x) {
    return (pl_request){.size = sizeof(pl_request),
                        .method = x->method,
                        .path = x->path,
                        .name = x->name,
                        .body = x->body ? x->body : "",
                        .body_size = x->size};
}

static void compute(pool_task *task) {
    exchange *x = (exchange *)task;
    const struct own_path *own = own_path_of(x);
    if (own) {
        bool later = own->give == take_report;
        own->give(x);
        if (!later) resume(x);
        return;
    }
    pl_request request = request_of(x);
    pthread_rwlock_rdlock(&x->server->reloading);
    pl_service_answer(x->server->service, &request, &x->response);
    pthread_rwlock_unlock(&x->server->reloading);
    resume(x);
}

/* ---- answering ---- */

static void log_request(const exchange *x, int status, int64_t took_ns) {
    const char *how = x->server->config->log;
    if (strcmp(how, "off") == 0) return;
    struct timespec t;
    struct tm when;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &when);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &when);
    const char *route = x->route && *x->route ? x->route : "other";
    /* route and method are ours: nothing of the client's is written into a log */
    if (strcmp(how, "json") == 0)
        fprintf(stderr,
                "{\"time\":\"%s.%03ldZ\",\"level\":\"info\",\"method\":\"%s\",\"route\":\"%s\","
                "\"status\":%d,\"us\":%lld,\"bytes\":%zu,\"known\":%s}\n",
                stamp, t.tv_nsec / 1000000, x->method, route, status, (long long)(took_ns / 1000),
                x->size, x->response.known ? "true" : "false");
    else
        fprintf(stderr, "%s.%03ldZ %s %s %d %lld us, %zu bytes%s\n", stamp, t.tv_nsec / 1000000,
                x->method, route, status, (long long)(took_ns / 1000), x->size,
                x->response.known ? ", known" : "");
}

static void give_back(void *response) {
    pl_response_close(response);
    free(response);
}

static enum MHD_Result send_answer(exchange *x) {
    struct MHD_Response *r = x->own;
    int status = x->own ? x->own_status : x->response.status;
    int64_t took = pl_now_ns() - x->began_ns;
    bool denied = status == 401, busy = status == 503 || status == 429;
    const char *type = x->response.type;
    if (!r) { /* the bytes stay the service's: held until they were sent */
        pl_response *held = malloc(sizeof *held);
        if (!held) return MHD_NO;
        *held = x->response;
        r = MHD_create_response_from_buffer_with_free_callback_cls(
            held->length, (void *)(uintptr_t)held->body, give_back, held);
        if (!r) {
            give_back(held);
            x->response.owner = NULL;
            return MHD_NO;
        }
        x->response.owner = NULL;
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    }
    x->own = NULL;
    if (denied) MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (busy) MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (x->refused || atomic_load(&x->server->draining))
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    x->route = x->route ? x->route : x->response.route;
    metrics_count(x->server->metrics, x->route, status, x->response.known, took);
    log_request(x, status, took);
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

static exchange *new_exchange(server *s, struct MHD_Connection *connection, const char *path,
                              const char *method, bool over_unix) {
    exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    const char *limit = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "limit");
    const char *texts[] = {MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "state"),
                           MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "job")};
    const char *name = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "name");
    x->server = s;
    x->connection = connection;
    x->over_unix = over_unix;
    x->began_ns = pl_now_ns();
    x->response.size = sizeof x->response;
    snprintf(x->method, sizeof x->method, "%s", method);
    snprintf(x->path, sizeof x->path, "%s", path);
    snprintf(x->name, sizeof x->name, "%s", name ? name : "");
    for (int i = 0; i < 2; i++)
        snprintf(x->query[i], sizeof x->query[i], "%s", texts[i] ? texts[i] : "");
    x->limit = limit ? strtoll(limit, NULL, 10) : 0;
    atomic_fetch_add(&s->under_way, 1);
    return x;
}

/* Whether the request may be asked; else the refusal was sent. */
static bool admit(exchange *x, enum MHD_Result *result) {
    server *s = x->server;
    const union MHD_ConnectionInfo *info;
    int wanted = scope_of(x, own_path_of(x));
    if (!x->over_unix) {
        info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        if (!rates_take(s->rates, info ? info->client_addr : NULL, x->began_ns)) {
            *result = refuse(x, 429, "limit", "more requests a second than one address may send");
            return false;
        }
    }
    pthread_rwlock_rdlock(&s->reloading);
    int scopes = SCOPE_ALL;
    bool asks = access_has_tokens(s->access) && !x->over_unix;
    if (asks)
        scopes =
            access_of_token(s->access, MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND,
                                                                   MHD_HTTP_HEADER_AUTHORIZATION));
    if (x->over_unix) {
        info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (!info || !access_of_peer(s->access, info->connect_fd)) scopes = SCOPE_NONE;
    }
    pthread_rwlock_unlock(&s->reloading);
    if (wanted == SCOPE_NONE || (scopes > 0 && (scopes & wanted) == wanted)) return true;
    *result = scopes < 0 ? refuse(x, 401, "denied", "a bearer token is needed")
                         : refuse(x, 403, "denied", "the token or user may not ask this");
    return false;
}

static bool announced_too_large(const exchange *x) {
    const char *length =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > (unsigned long long)x->server->config->body_bytes;
}

/* Adds to the body. False: too much, too slow or no memory; the refusal is kept until all was sent. */
static void take_body(exchange *x, const char *bytes, size_t size) {
    server *s = x->server;
    const config *c = s->config;
    if (x->refused) return;
    const char *why = NULL;
    int status = 413;
    if (size > (size_t)c->body_bytes - x->size) {
        why = "the body is larger than a request may have";
    } else if (pl_now_ns() - x->began_ns > c->request_s * 1000000000) {
        why = "the request took too long to be sent";
        status = 408;
    } else if (x->size + size > x->room) {
        size_t room = x->room ? 2 * x->room : 4096;
        while (room < x->size + size) room *= 2;
        if (atomic_fetch_add(&s->bodies, (long long)(room - x->room)) +
                (long long)(room - x->room) >
            c->bodies_bytes) {
            atomic_fetch_sub(&s->bodies, (long long)(room - x->room));
            why = "too much is being sent at once";
            status = 503;
        } else {
            char *grown = realloc(x->body, room);
            if (!grown) {
                atomic_fetch_sub(&s->bodies, (long long)(room - x->room));
                why = "out of memory";
                status = 503;
            } else {
                x->body = grown;
                x->room = room;
            }
        }
    }
    if (why) {
        x->refused = true;
        pl_response_problem(&x->response, status, "limit", why);
        return;
    }
    memcpy(x->body + x->size, bytes, size);
    x->size += size;
}

/* The request is whole. */
static enum MHD_Result answer(exchange *x) {
    server *s = x->server;
    const struct own_path *own = own_path_of(x);
    if (x->refused) return send_answer(x);
    if (own) x->route = own->path;
    if (own && !own->waits) {
        own->give(x);
        return send_answer(x);
    }
    if (!own) {
        pl_request request = request_of(x);
        pthread_rwlock_rdlock(&s->reloading);
        if (atomic_load(&s->learned) && x->began_ns - atomic_load(&s->forgotten_ns) > 1000000000) {
            atomic_store(&s->learned, false);
            atomic_store(&s->forgotten_ns, x->began_ns);
            pl_service_learned(s->service);
        }
        bool known = pl_service_known(s->service, &request, &x->response);
        pthread_rwlock_unlock(&s->reloading);
        if (known) return send_answer(x);
    }
    x->task.run = compute;
    x->waits = true;
    MHD_suspend_connection(x->connection);
    if (!pool_add(s->pool, &x->task)) {
        pl_response_problem(&x->response, 503, "limit", "too many requests are waiting");
        resume(x);
    }
    return MHD_YES;
}

static enum MHD_Result handle(server *s, bool over_unix, struct MHD_Connection *connection,
                              const char *path, const char *method, const char *bytes, size_t *size,
                              void **state) {
    exchange *x = *state;
    enum MHD_Result result = MHD_YES;
    if (!x) {
        x = new_exchange(s, connection, path, method, over_unix);
        if (!x) return MHD_NO;
        *state = x;
        if (strlen(path) >= sizeof x->path || strlen(method) >= sizeof x->method)
            return refuse(x, 404, "usage", "no such path");
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

static enum MHD_Result handle_tcp(void *s, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *size, void **state) {
    (void)version;
    return handle(s, false, connection, path, method, bytes, size, state);
}

static enum MHD_Result handle_unix(void *s, struct MHD_Connection *connection, const char *path,
                                   const char *method, const char *version, const char *bytes,
                                   size_t *size, void **state) {
    (void)version;
    return handle(s, true, connection, path, method, bytes, size, state);
}

static void completed(void *given, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode how) {
    server *s = given;
    exchange *x = *state;
    (void)connection;
    (void)how;
    if (!x) return;
    pl_response_close(&x->response);
    if (x->own) MHD_destroy_response(x->own);
    report_close(&x->report);
    atomic_fetch_sub(&s->bodies, (long long)x->room);
    free(x->body);
    free(x);
    *state = NULL;
    atomic_fetch_sub(&s->under_way, 1);
}

static void connected(void *given, struct MHD_Connection *connection, void **socket_state,
                      enum MHD_ConnectionNotificationCode how) {
    server *s = given;
    (void)connection;
    (void)socket_state;
    atomic_fetch_add(&s->connections, how == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1);
}

/* ---- opening ---- */

static bool keep_model(void *context, const char *digest, const char *name, const void *bytes,
                       size_t size) {
    server *s = context;
    history_write w = {.digest = digest, .name = name, .bytes = bytes, .size = size};
    return history_add_now(s->history, &w);
}

static bool find_model(void *context, const char *digest, char name[128], void **bytes,
                       size_t *size) {
    server *s = context;
    return history_model(s->history, digest, name, bytes, size);
}

static size_t seen_jobs(void *context, const char *gpu, const char *family, const char *digest,
                        pl_seen *jobs, size_t room) {
    server *s = context;
    return history_seen(s->history, gpu, family, digest, jobs, room);
}

static pl_status open_service(server *s, pl_service **service, pl_catalogue **cards,
                              access_list **access, pl_error *err) {
    const config *c = s->config;
    *service = NULL;
    *cards = NULL;
    *access = NULL;
    pl_status status = *c->gpus ? pl_catalogue_open(cards, c->gpus, err) : PL_OK;
    if (status == PL_OK) status = access_open(access, c, err);
    pl_service_settings settings;
    pl_service_settings_default(&settings);
    settings.model_bytes = (size_t)c->model_bytes;
    settings.answer_bytes = (size_t)c->answer_bytes;
    settings.limits.memory_bytes = (size_t)c->memory_bytes;
    settings.limits.timeout_ms = c->timeout_ms;
    settings.catalogue = *cards;
    settings.keep = keep_model;
    settings.find = find_model;
    settings.context = s;
    settings.seen = seen_jobs;
    if (status == PL_OK) status = pl_service_open(service, &settings, err);
    if (status == PL_OK) return PL_OK;
    access_close(access);
    pl_catalogue_close(cards);
    return status;
}

pl_status server_reload(server *s, pl_error *err) {
    pl_service *service, *old_service;
    pl_catalogue *cards, *old_cards;
    access_list *access, *old_access;
    pl_status status = open_service(s, &service, &cards, &access, err);
    if (status != PL_OK) return status;
    pthread_rwlock_wrlock(&s->reloading);
    bool same = !*s->config->gpus; /* no cards of one's own: nothing that was computed changes */
    old_service = same ? service : s->service;
    old_cards = s->catalogue;
    old_access = s->access;
    if (!same) s->service = service;
    s->catalogue = cards;
    s->access = access;
    pthread_rwlock_unlock(&s->reloading);
    /* Answers that are still being sent hold what they need of the old service's until then. */
    for (int i = 0; old_service != service && i < 3000 && atomic_load(&s->under_way) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pl_service_close(&old_service);
    pl_catalogue_close(&old_cards);
    access_close(&old_access);
    return PL_OK;
}

/* "address:port", "[::1]:9477", ":9477" */
static int listen_tcp(const char *text, int *port, pl_error *err) {
    char host[256];
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof host) {
        pl_fail(err, PL_USAGE, "listen", -1, "%.100s: expected ADDRESS:PORT", text);
        return -1;
    }
    char *end;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end || number > 65535) {
        pl_fail(err, PL_USAGE, "listen", -1, "%.100s: a port is a number from 0 to 65535", text);
        return -1;
    }
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    size_t length = strlen(host);
    if (*host == '[' && host[length - 1] == ']') {
        memmove(host, host + 1, length);
        host[length - 2] = '\0';
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *list = NULL;
    int code = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &list);
    int fd = -1, on = 1;
    for (struct addrinfo *a = list; !code && a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) break;
        code = errno;
        close(fd);
        fd = -1;
        errno = code;
        code = 0;
    }
    if (list) freeaddrinfo(list);
    if (fd < 0) {
        pl_fail(err, PL_MISSING, "listen", -1, "%.100s: %s", text,
                code ? gai_strerror(code) : strerror(errno));
        return -1;
    }
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &size);
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return fd;
}

/* One that nobody listens on any more is taken over. */
static bool is_stale(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                 errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return stale;
}

static int listen_unix(const char *path, pl_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        pl_fail(err, PL_USAGE, "socket", -1, "%.100s: a socket's path has at most %zu bytes", path,
                sizeof address.sun_path - 1);
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    struct stat there;
    if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode) && is_stale(&address)) unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        pl_fail(err, PL_MISSING, "socket", -1, "%.100s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    return fd;
}

static char *read_pem(const char *path, pl_error *err) {
    pl_file file;
    if (pl_file_open(&file, path, 1 << 20, err) != PL_OK) return NULL;
    char *text = strndup(file.bytes, file.size);
    pl_file_close(&file);
    return text;
}

static void complain(void *s, const char *format, va_list list) {
    (void)s;
    (void)format;
    (void)list; /* broken connections, which are the clients' */
}

static struct MHD_Daemon *start(server *s, int fd, bool over_unix) {
    const config *c = s->config;
    bool tls = s->cert && !over_unix;
    struct MHD_OptionItem tls_options[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert},
                                           {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key},
                                           {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME |
                     (tls ? MHD_USE_TLS : 0);
    return MHD_start_daemon(flags, 0, NULL, NULL, over_unix ? handle_unix : handle_tcp, s,
                            MHD_OPTION_EXTERNAL_LOGGER, complain, NULL, MHD_OPTION_LISTEN_SOCKET,
                            fd, MHD_OPTION_NOTIFY_COMPLETED, completed, s,
                            MHD_OPTION_NOTIFY_CONNECTION, connected, s, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)c->connections, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)c->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384,
                            MHD_OPTION_ARRAY, tls ? tls_options : none, MHD_OPTION_END);
}

static pl_status listen_on(server *s, pl_error *err) {
    const config *c = s->config;
    if (*c->tls_cert) {
        s->cert = read_pem(c->tls_cert, err);
        s->key = s->cert ? read_pem(c->tls_key, err) : NULL;
        if (!s->key) return PL_INPUT;
    }
    for (int way = 0; way < WAYS; way++) {
        const char *where = way ? c->socket : c->listen;
        if (!*where) continue;
        int fd = way ? listen_unix(where, err) : listen_tcp(where, &s->port, err);
        if (fd < 0) return err->code;
        s->daemons[way] = start(s, fd, way == 1);
        if (!s->daemons[way]) {
            close(fd);
            return pl_fail(
                err, PL_MISSING, way ? "socket" : "listen", -1,
                s->cert ? "%s: no server starts there; certificate and key may not go together"
                        : "%s: no server starts there",
                where);
        }
    }
    return PL_OK;
}

pl_status server_open(server **out, const config *c, pl_error *err) {
    *out = NULL;
    server *s = calloc(1, sizeof *s);
    if (!s) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    s->config = c;
    pthread_rwlock_init(&s->reloading, NULL);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    s->rates = rates_open(c->rate);
    s->metrics = metrics_open();
    s->pool = pool_open(c->workers ? (int)c->workers : (int)cores, (size_t)c->queue);
    pl_status status = s->rates && s->metrics && s->pool
                           ? history_open(&s->history, c->data, err)
                           : pl_fail(err, PL_MISSING, NULL, -1, "no memory, or no threads");
    if (status == PL_OK) status = open_service(s, &s->service, &s->catalogue, &s->access, err);
    if (status == PL_OK) status = listen_on(s, err);
    if (status == PL_OK)
        *out = s;
    else
        server_close(&s);
    return status;
}

int server_port(const server *s) {
    return s->port;
}

void server_drain(server *s) {
    atomic_store(&s->draining, true);
    for (int way = 0; way < WAYS; way++) {
        if (!s->daemons[way]) continue;
        int fd = MHD_quiesce_daemon(s->daemons[way]);
        if (fd >= 0) close(fd);
    }
    for (int64_t left = s->config->drain_s * 100; left > 0 && atomic_load(&s->under_way) > 0;
         left--)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

void server_close(server **given) {
    if (!given || !*given) return;
    server *s = *given;
    atomic_store(&s->draining, true);
    if (s->pool) pool_stop(s->pool); /* all that was computed is resumed */
    history_close(&s->history);      /* all that was written likewise */
    for (int way = 0; way < WAYS; way++)
        if (s->daemons[way]) MHD_stop_daemon(s->daemons[way]);
    pool_close(&s->pool);
    if (*s->config->socket && s->daemons[1]) unlink(s->config->socket);
    pl_service_close(&s->service);
    pl_catalogue_close(&s->catalogue);
    access_close(&s->access);
    rates_close(&s->rates);
    metrics_close(&s->metrics);
    pthread_rwlock_destroy(&s->reloading);
    free(s->cert);
    free(s->key);
    free(s);
    *given = NULL;
}
