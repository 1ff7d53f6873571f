/* server: see server.h. libmicrohttpd, one thread with epoll for each way in; what a request is answered with is
 * exchange.c's. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "exchange.h"
#include "listen.h"
#include "log.h"

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

static pl_status open_force(server *s, in_force **out, pl_error *err) {
    const config *c = s->config;
    in_force *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_status status = *c->gpus ? pl_catalogue_open(&f->cards, c->gpus, err) : PL_OK;
    pl_service_settings settings;
    pl_service_settings_default(&settings);
    settings.model_bytes = (size_t)c->model_bytes;
    settings.answer_bytes = (size_t)c->answer_bytes;
    settings.limits.memory_bytes = (size_t)c->memory_bytes;
    settings.limits.events = c->events;
    settings.limits.timeout_ms = c->timeout_ms;
    settings.catalogue = f->cards;
    settings.keep = keep_model;
    settings.find = find_model;
    settings.context = s;
    settings.seen = seen_jobs;
    f->users = 1;
    if (status == PL_OK) status = pl_service_open(&f->service, &settings, err);
    if (status == PL_OK) {
        *out = f;
        return PL_OK;
    }
    pl_catalogue_close(&f->cards);
    free(f);
    return status;
}

in_force *server_take(server *s) {
    pthread_mutex_lock(&s->lock);
    in_force *f = s->force;
    f->users++;
    pthread_mutex_unlock(&s->lock);
    return f;
}

void server_give(server *s, in_force *f) {
    if (!f) return;
    pthread_mutex_lock(&s->lock);
    bool last = --f->users == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last) return;
    pl_service_close(&f->service);
    pl_catalogue_close(&f->cards);
    free(f);
}

/* What is under way goes on with the cards it began with. */
pl_status server_reload(server *s, pl_error *err) {
    in_force *force = NULL;
    access_list *access = NULL, *old_access;
    pl_status status = access_open(&access, s->config, err);
    if (status == PL_OK && *s->config->gpus) status = open_force(s, &force, err);
    if (status != PL_OK) {
        access_close(&access);
        return status;
    }
    pthread_rwlock_wrlock(&s->reloading);
    old_access = s->access;
    s->access = access;
    pthread_rwlock_unlock(&s->reloading);
    access_close(&old_access);
    if (!force) return PL_OK; /* no cards of one's own: nothing that was computed changes */
    pthread_mutex_lock(&s->lock);
    in_force *old = s->force;
    s->force = force;
    pthread_mutex_unlock(&s->lock);
    server_give(s, old);
    return PL_OK;
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
    return MHD_start_daemon(
        flags, 0, NULL, NULL, over_unix ? exchange_unix : exchange_tcp, s,
        MHD_OPTION_EXTERNAL_LOGGER, complain, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
        exchange_connected, s, MHD_OPTION_UNESCAPE_CALLBACK, exchange_unescape, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->most_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)c->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_ARRAY,
        tls ? tls_options : none, MHD_OPTION_END);
}

static pl_status read_tls(server *s, pl_error *err) {
    const config *c = s->config;
    if (!*c->tls_cert) return PL_OK;
    s->cert = read_pem(c->tls_cert, err);
    s->key = s->cert ? read_pem(c->tls_key, err) : NULL;
    return s->key ? PL_OK : err->code;
}

static pl_status no_start(const server *s, const char *member, const char *where, pl_error *err) {
    return pl_fail(err, PL_MISSING, member, -1,
                   s->cert ? "%s: no server starts there; certificate and key may not go together"
                           : "%s: no server starts there",
                   where);
}

static pl_status listen_on(server *s, pl_error *err) {
    const config *c = s->config;
    for (int way = 0; way < WAYS; way++) {
        const char *where = way ? c->socket : c->listen;
        if (!*where) continue;
        int fd = way ? listen_unix(c, err) : listen_tcp(c, &s->port, err);
        if (fd < 0) return err->code;
        s->daemons[way] = start(s, fd, way == 1);
        if (s->daemons[way]) continue;
        close(fd);
        if (way) unlink(where);
        return no_start(s, way ? "socket" : "listen", where, err);
    }
    return PL_OK;
}

/* A connection is a descriptor; some more are for files. */
static int64_t room_for_connections(const config *c) {
    enum { OTHERS = 64 };
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return c->connections;
    int64_t ways = (*c->listen != '\0') + (*c->socket != '\0');
    rlim_t needed = (rlim_t)(ways * c->connections + OTHERS);
    if (files.rlim_cur < needed) {
        files.rlim_cur = files.rlim_max < needed ? files.rlim_max : needed;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= needed) return c->connections;
    int64_t left = (int64_t)files.rlim_cur - OTHERS;
    return left > 2 * ways ? left / ways : 2;
}

/* All but the sockets. Weights are read before there are threads. */
static pl_status open_parts(server *s, pl_error *err) {
    const config *c = s->config;
    static const int nice[LANES] = {0, 5, 10}; /* what is long leaves processors to what is short */
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int workers = c->workers ? (int)c->workers : cores > 0 ? (int)cores : 1;
    pl_status status = access_open(&s->access, c, err);
    if (status == PL_OK) status = open_force(s, &s->force, err);
    if (status == PL_OK) status = read_tls(s, err);
    if (status == PL_OK) status = history_open(&s->history, c, err);
    if (status != PL_OK) return status;
    s->rates = rates_open(c->rate);
    s->metrics = metrics_open();
    s->patience = patience_open();
    bool all = s->rates && s->metrics && s->patience;
    for (int i = 0; all && i < LANES; i++) {
        s->lanes[i] = pool_open(i == LANE_DISK ? 1 : workers, (size_t)c->queue, nice[i]);
        all = s->lanes[i] != NULL;
    }
    return all ? PL_OK : pl_fail(err, PL_MISSING, NULL, -1, "no memory, or no threads");
}

static server *new_server(const config *c, pl_error *err) {
    server *s = calloc(1, sizeof *s);
    if (!s) {
        pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
        return NULL;
    }
    s->config = c;
    for (int way = 0; way < WAYS; way++) s->quiesced[way] = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_rwlock_init(&s->reloading, NULL);
    return s;
}

pl_status server_open(server **out, const config *c, pl_error *err) {
    *out = NULL;
    server *s = new_server(c, err);
    if (!s) return PL_MISSING;
    s->most_connections = room_for_connections(c);
    if (s->most_connections < c->connections)
        log_say(LOG_WARNING,
                "at most %lld connections, not %lld: a process may not have more files open",
                (long long)s->most_connections, (long long)c->connections);
    pl_status status = open_parts(s, err);
    if (status == PL_OK) status = listen_on(s, err);
    if (status == PL_OK)
        *out = s;
    else
        server_close(&s);
    return status;
}

pl_status server_check(const config *c, pl_error *err) {
    server *s = new_server(c, err);
    if (!s) return PL_MISSING;
    s->most_connections = 1;
    pl_status status = listen_check(c, err) ? open_parts(s, err) : err->code;
    if (status == PL_OK && s->cert) { /* whether they go together: on a port of its own */
        config alone = *c;
        alone.listen = (char[]){"127.0.0.1:0"};
        int port, fd = listen_tcp(&alone, &port, err);
        struct MHD_Daemon *daemon = fd < 0 ? NULL : start(s, fd, false);
        if (!daemon) status = no_start(s, "tls-cert", c->tls_cert, err);
        if (daemon) MHD_stop_daemon(daemon);
        if (!daemon && fd >= 0) close(fd);
    }
    server_close(&s);
    return status;
}

int server_port(const server *s) {
    return s->port;
}

static bool is_idle(server *s, int64_t ms) {
    for (; atomic_load(&s->under_way) > 0 && ms > 0; ms -= 10)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return atomic_load(&s->under_way) == 0;
}

void server_drain(server *s) {
    atomic_store(&s->draining, true);
    for (int way = 0; way < WAYS; way++) {
        if (!s->daemons[way]) continue;
        /* refused from now on; closed when no thread can be about to accept on it any more */
        s->quiesced[way] = MHD_quiesce_daemon(s->daemons[way]);
        if (s->quiesced[way] >= 0) shutdown(s->quiesced[way], SHUT_RDWR);
    }
    if (is_idle(s, s->config->drain_s * 1000)) return;
    atomic_store(&s->ending, true); /* the rest gets 503 */
    is_idle(s, 1000);
}

void server_close(server **given) {
    if (!given || !*given) return;
    server *s = *given;
    atomic_store(&s->draining, true);
    atomic_store(&s->ending, true);
    for (int i = 0; i < LANES; i++)
        if (s->lanes[i]) pool_stop(s->lanes[i]); /* all that was computed is resumed */
    history_close(&s->history);                  /* all that was written likewise */
    for (int way = 0; way < WAYS; way++)
        if (s->daemons[way]) MHD_stop_daemon(s->daemons[way]);
    for (int way = 0; way < WAYS; way++)
        if (s->quiesced[way] >= 0) close(s->quiesced[way]);
    for (int i = 0; i < LANES; i++) pool_close(&s->lanes[i]);
    patience_close(&s->patience);
    if (*s->config->socket && s->daemons[1]) unlink(s->config->socket);
    server_give(s, s->force);
    access_close(&s->access);
    rates_close(&s->rates);
    metrics_close(&s->metrics);
    pthread_rwlock_destroy(&s->reloading);
    pthread_mutex_destroy(&s->lock);
    free(s->cert);
    free(s->key);
    free(s);
    *given = NULL;
}
