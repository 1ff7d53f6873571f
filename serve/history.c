/* history: see history.h. WAL, synchronous=FULL: a commit is on the disk when it returns. A job is one row,
 * which reports fill in; each report is kept beside it as it came. */
#include "history.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/json_writer.h"
#include "log.h"

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS models (digest TEXT PRIMARY KEY, name TEXT NOT NULL, bytes BLOB NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS jobs (number INTEGER PRIMARY KEY, job TEXT NOT NULL UNIQUE,"
    " state INTEGER NOT NULL, submitted_ms INTEGER, started_ms INTEGER, seen_ms INTEGER, ended_ms INTEGER,"
    " user TEXT, gpu TEXT, family TEXT, model TEXT, settings TEXT, predicted_bytes INTEGER, upper_bytes INTEGER,"
    " predicted_step_ms REAL, peak_bytes INTEGER, step_ms REAL, smact REAL, smocc REAL, drama REAL,"
    " exit_code INTEGER);"
    "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, number);"
    "CREATE INDEX IF NOT EXISTS jobs_that_ended ON jobs (gpu, number) WHERE state = 3;"
    "DROP INDEX IF EXISTS jobs_by_card;"
    "CREATE TABLE IF NOT EXISTS reports (number INTEGER PRIMARY KEY, job INTEGER NOT NULL,"
    " state INTEGER NOT NULL, at_ms INTEGER NOT NULL, peak_bytes INTEGER, step_ms REAL);"
    "PRAGMA user_version = 1;";
enum {
    VERSION = 1,
    MOST_LISTING = 16 << 20, /* bytes of JSON */
    REPORTS_PER_JOB = 16,    /* on average: more of them, and the oldest go */
    TRIM = 512,              /* rows at most that one transaction takes away */
};

/* A report fills in what it says; a state never goes back, and the largest peak counts. */
static const char put_job[] =
    "INSERT INTO jobs (job, state, submitted_ms, started_ms, seen_ms, ended_ms, user, gpu, model, settings,"
    " predicted_bytes, upper_bytes, predicted_step_ms, peak_bytes, step_ms, smact, smocc, drama, exit_code, family)"
    " VALUES (?1, ?2, CASE WHEN ?2 = 0 THEN ?3 END, CASE WHEN ?2 = 1 THEN ?3 END,"
    " CASE WHEN ?2 = 2 THEN ?3 END, CASE WHEN ?2 = 3 THEN ?3 END, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
    " ?14, ?15, ?16, ?17)"
    " ON CONFLICT (job) DO UPDATE SET state = max(state, excluded.state),"
    " submitted_ms = coalesce(excluded.submitted_ms, submitted_ms),"
    " started_ms = coalesce(excluded.started_ms, started_ms), seen_ms = coalesce(excluded.seen_ms, seen_ms),"
    " ended_ms = coalesce(excluded.ended_ms, ended_ms), user = coalesce(excluded.user, user),"
    " gpu = coalesce(excluded.gpu, gpu), model = coalesce(excluded.model, model),"
    " settings = coalesce(excluded.settings, settings),"
    " predicted_bytes = coalesce(excluded.predicted_bytes, predicted_bytes),"
    " upper_bytes = coalesce(excluded.upper_bytes, upper_bytes),"
    " predicted_step_ms = coalesce(excluded.predicted_step_ms, predicted_step_ms),"
    " peak_bytes = max(coalesce(excluded.peak_bytes, peak_bytes), coalesce(peak_bytes, excluded.peak_bytes)),"
    " step_ms = coalesce(excluded.step_ms, step_ms), smact = coalesce(excluded.smact, smact),"
    " smocc = coalesce(excluded.smocc, smocc), drama = coalesce(excluded.drama, drama),"
    " exit_code = coalesce(excluded.exit_code, exit_code), family = coalesce(excluded.family, family)";
static const char put_report[] = "INSERT INTO reports (job, state, at_ms, peak_bytes, step_ms)"
                                 " SELECT number, ?2, ?3, ?4, ?5 FROM jobs WHERE job = ?1";
static const char put_model[] =
    "INSERT OR IGNORE INTO models (digest, name, bytes) VALUES (?1, ?2, ?3)";

struct history {
    sqlite3 *writer, *reader; /* the reader serialises those who ask */
    sqlite3_stmt *job, *report, *model;
    pthread_mutex_t lock;
    pthread_cond_t some;
    history_write *first, **last;
    int64_t most_jobs, most_models; /* models: bytes */
    bool on_disk;
    atomic_llong failed_writes;
    bool closing, threaded;
    pthread_t thread;
};

static const char *const state_names[JOB_STATES] = {"submitted", "started", "seen", "ended"};

const char *history_state_name(history_state state) {
    return (unsigned)state < JOB_STATES ? state_names[state] : NULL;
}

/* ---- writing ---- */

static void bind_text(sqlite3_stmt *s, int at, const char *text) {
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

static void bind_int(sqlite3_stmt *s, int at, int64_t value) {
    if (value != PL_UNKNOWN)
        sqlite3_bind_int64(s, at, value);
    else
        sqlite3_bind_null(s, at);
}

static void bind_real(sqlite3_stmt *s, int at, double value) {
    if (isfinite(value))
        sqlite3_bind_double(s, at, value);
    else
        sqlite3_bind_null(s, at);
}

static bool step(sqlite3_stmt *s) {
    bool good = sqlite3_step(s) == SQLITE_DONE;
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return good;
}

static bool write_event(history *h, const history_event *e) {
    sqlite3_stmt *s = h->job;
    bind_text(s, 1, e->job);
    sqlite3_bind_int(s, 2, (int)e->state);
    sqlite3_bind_int64(s, 3, e->at_ms);
    bind_text(s, 4, e->user);
    bind_text(s, 5, e->gpu);
    bind_text(s, 6, e->model);
    bind_text(s, 7, e->settings);
    bind_int(s, 8, e->predicted_bytes);
    bind_int(s, 9, e->upper_bytes);
    bind_real(s, 10, e->predicted_step_ms);
    bind_int(s, 11, e->peak_bytes);
    bind_real(s, 12, e->step_ms);
    bind_real(s, 13, e->smact);
    bind_real(s, 14, e->smocc);
    bind_real(s, 15, e->drama);
    bind_int(s, 16, e->exit_code);
    bind_text(s, 17, e->family);
    if (!step(s)) return false;
    s = h->report;
    bind_text(s, 1, e->job);
    sqlite3_bind_int(s, 2, (int)e->state);
    sqlite3_bind_int64(s, 3, e->at_ms);
    bind_int(s, 4, e->peak_bytes);
    bind_real(s, 5, e->step_ms);
    return step(s);
}

static int64_t number_of(sqlite3 *db, const char *sql) {
    sqlite3_stmt *s = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

static bool is_stored(history *h, const char *digest) {
    sqlite3_stmt *s = NULL;
    bool there = sqlite3_prepare_v2(h->writer, "SELECT 1 FROM models WHERE digest = ?1", -1, &s,
                                    NULL) == SQLITE_OK;
    bind_text(s, 1, digest);
    there = there && sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return there;
}

static bool write_one(history *h, const history_write *w) {
    if (w->event) return write_event(h, w->event);
    if (is_stored(h, w->digest)) return true;
    int64_t stored = number_of(h->writer, "SELECT total(length(bytes)) FROM models");
    if (h->on_disk && stored + (int64_t)w->size > h->most_models) return false;
    bind_text(h->model, 1, w->digest);
    bind_text(h->model, 2, w->name);
    sqlite3_bind_blob64(h->model, 3, w->bytes, w->size, SQLITE_STATIC);
    return step(h->model);
}

/* The file that is written is still the one that will be found: what goes into one that was removed is lost. */
static bool is_there(history *h) {
    int moved = 0;
    return !h->on_disk ||
           sqlite3_file_control(h->writer, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK ||
           !moved;
}

/* The oldest jobs go, so many at a time, and the oldest reports. */
static bool trim(history *h) {
    char sql[512];
    int64_t last = number_of(h->writer, "SELECT max(number) FROM jobs"),
            first = number_of(h->writer, "SELECT min(number) FROM jobs"),
            reports = number_of(h->writer, "SELECT max(number) FROM reports");
    snprintf(
        sql, sizeof sql,
        "DELETE FROM jobs WHERE number IN (SELECT number FROM jobs WHERE number <= %lld ORDER BY number LIMIT %d);"
        "DELETE FROM reports WHERE number IN (SELECT number FROM reports WHERE number <= %lld ORDER BY number"
        " LIMIT %d)",
        (long long)(last - h->most_jobs), (int)TRIM,
        (long long)(reports - REPORTS_PER_JOB * h->most_jobs), (int)TRIM);
    if (last - first < h->most_jobs && reports <= REPORTS_PER_JOB * h->most_jobs) return true;
    return sqlite3_exec(h->writer, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* All or none of them. *one: it was one of them that could not be written, not the file. */
static bool write_all(history *h, const history_write *first, bool *one) {
    *one = false;
    if (!is_there(h)) {
        log_say_now_and_then(LOG_ERROR, "the history's file was moved or removed: nothing is "
                                        "stored until a restart");
        return false;
    }
    bool good = sqlite3_exec(h->writer, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    for (const history_write *w = first; good && w; w = w->next) {
        good = write_one(h, w);
        *one = !good;
    }
    if (good && trim(h) && sqlite3_exec(h->writer, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return true;
    log_say_now_and_then(LOG_ERROR, "the history cannot be written: %s", sqlite3_errmsg(h->writer));
    sqlite3_exec(h->writer, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

static void *write_on(void *given) {
    history *h = given;
    for (;;) {
        pthread_mutex_lock(&h->lock);
        while (!h->first && !h->closing) pthread_cond_wait(&h->some, &h->lock);
        history_write *first = h->first;
        h->first = NULL;
        h->last = &h->first;
        pthread_mutex_unlock(&h->lock);
        if (!first) return NULL;
        bool one, kept = write_all(h, first, &one);
        bool again = one && first->next;
        while (first) {
            history_write *next = first->next;
            first->next = NULL;
            /* one that cannot be written does not take the others with it */
            bool good = kept || (again && write_all(h, first, &one));
            if (!good) atomic_fetch_add(&h->failed_writes, 1);
            first->done(first, good);
            first = next;
        }
    }
}

void history_add(history *h, history_write *w) {
    pthread_mutex_lock(&h->lock);
    w->next = NULL;
    *h->last = w;
    h->last = &w->next;
    pthread_cond_signal(&h->some);
    pthread_mutex_unlock(&h->lock);
}

typedef struct waited {
    history_write write;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done, kept;
} waited;

static void wake(history_write *w, bool kept) {
    waited *own = (waited *)w;
    pthread_mutex_lock(&own->lock);
    own->done = true;
    own->kept = kept;
    pthread_cond_signal(&own->over);
    pthread_mutex_unlock(&own->lock);
}

bool history_add_now(history *h, history_write *w) {
    waited own = {.write = *w};
    own.write.done = wake;
    pthread_mutex_init(&own.lock, NULL);
    pthread_cond_init(&own.over, NULL);
    history_add(h, &own.write);
    pthread_mutex_lock(&own.lock);
    while (!own.done) pthread_cond_wait(&own.over, &own.lock);
    pthread_mutex_unlock(&own.lock);
    pthread_cond_destroy(&own.over);
    pthread_mutex_destroy(&own.lock);
    return own.kept;
}

/* ---- opening ---- */

static pl_status failed(const history *h, const char *path, pl_error *err) {
    bool later = h->writer && number_of(h->writer, "PRAGMA user_version") > VERSION;
    const char *why = later       ? "a later plimsoll made it"
                      : h->writer ? sqlite3_errmsg(h->writer)
                                  : "it cannot be opened";
    return pl_fail(err, PL_MISSING, path, -1, "the history cannot be kept there: %s", why);
}

static sqlite3 *open_one(const char *path, int flags) {
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_URI, NULL) != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_timeout(db, 5000);
    return db;
}

static bool prepare(history *h, const char *path) {
    static const struct {
        const char *sql;
        size_t at;
    } rows[] = {{put_job, offsetof(history, job)},
                {put_report, offsetof(history, report)},
                {put_model, offsetof(history, model)}};
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    h->writer = open_one(path, flags | SQLITE_OPEN_NOMUTEX);
    if (!h->writer || number_of(h->writer, "PRAGMA user_version") > VERSION ||
        sqlite3_exec(h->writer, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;", NULL, NULL,
                     NULL) != SQLITE_OK ||
        sqlite3_exec(h->writer, schema, NULL, NULL, NULL) != SQLITE_OK)
        return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sqlite3_prepare_v3(h->writer, rows[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
                               (sqlite3_stmt **)((char *)h + rows[i].at), NULL) != SQLITE_OK)
            return false;
    h->reader = open_one(path, flags | SQLITE_OPEN_FULLMUTEX);
    return h->reader && sqlite3_exec(h->reader, "PRAGMA read_uncommitted = 1", NULL, NULL, NULL) ==
                            SQLITE_OK; /* counts in memory, where both share a cache */
}

pl_status history_open_read(history **out, const char *folder, pl_error *err) {
    char path[4096];
    *out = NULL;
    history *h = calloc(1, sizeof *h);
    if (!h) return pl_fail(err, PL_MISSING, folder, -1, "out of memory");
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->some, NULL);
    snprintf(path, sizeof path, "%.4000s/plimsoll.db", folder);
    h->reader = open_one(path, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX);
    if (!h->reader ||
        sqlite3_exec(h->reader, "SELECT count(*) FROM jobs", NULL, NULL, NULL) != SQLITE_OK) {
        const char *why = h->reader ? sqlite3_errmsg(h->reader) : "cannot be opened";
        pl_status status = pl_fail(err, PL_INPUT, path, -1, "no history: %s", why);
        history_close(&h);
        return status;
    }
    *out = h;
    return PL_OK;
}

pl_status history_open(history **out, const config *c, pl_error *err) {
    char path[4096];
    const char *folder = c->data;
    *out = NULL;
    history *h = calloc(1, sizeof *h);
    if (!h) return pl_fail(err, PL_MISSING, folder, -1, "out of memory");
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->some, NULL);
    h->last = &h->first;
    h->most_jobs = c->stored_jobs;
    h->most_models = c->stored_bytes;
    h->on_disk = *folder != '\0';
    if (*folder && mkdir(folder, 0700) != 0 && errno != EEXIST) {
        pl_status status = pl_fail(err, PL_MISSING, folder, -1, "%s", strerror(errno));
        history_close(&h);
        return status;
    }
    if (*folder)
        snprintf(path, sizeof path, "%.4000s/plimsoll.db", folder);
    else /* shared by the two connections, as long as one of them is open */
        snprintf(path, sizeof path, "file:plimsoll-%p?mode=memory&cache=shared", (void *)h);
    sigset_t all, before;
    sigfillset(&all);
    if (!prepare(h, path)) {
        pl_status status = failed(h, *folder ? path : "memory", err);
        history_close(&h);
        return status;
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    h->threaded = pthread_create(&h->thread, NULL, write_on, h) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!h->threaded) {
        history_close(&h);
        return pl_fail(err, PL_MISSING, folder, -1, "no thread can be started");
    }
    *out = h;
    return PL_OK;
}

void history_close(history **given) {
    if (!given || !*given) return;
    history *h = *given;
    if (h->threaded) {
        pthread_mutex_lock(&h->lock);
        h->closing = true;
        pthread_cond_signal(&h->some);
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->thread, NULL);
    }
    sqlite3_finalize(h->job);
    sqlite3_finalize(h->report);
    sqlite3_finalize(h->model);
    sqlite3_close(h->reader);
    sqlite3_close(h->writer);
    pthread_cond_destroy(&h->some);
    pthread_mutex_destroy(&h->lock);
    free(h);
    *given = NULL;
}

/* ---- reading ---- */

bool history_model(history *h, const char *digest, char name[128], void **bytes, size_t *size) {
    sqlite3_stmt *s = NULL;
    bool found = false;
    if (sqlite3_prepare_v2(h->reader, "SELECT name, bytes FROM models WHERE digest = ?1", -1, &s,
                           NULL) != SQLITE_OK)
        return false;
    bind_text(s, 1, digest);
    if (sqlite3_step(s) == SQLITE_ROW) {
        snprintf(name, 128, "%s", (const char *)sqlite3_column_text(s, 0));
        const void *blob = sqlite3_column_blob(s, 1);
        *size = (size_t)sqlite3_column_bytes(s, 1);
        *bytes = malloc(*size + 1);
        found = *bytes != NULL;
        if (found && *size) memcpy(*bytes, blob, *size);
    }
    sqlite3_finalize(s);
    return found;
}

static const char *text_at(sqlite3_stmt *s, int at) {
    return (const char *)sqlite3_column_text(s, at);
}

static void put_int(pl_json_writer *w, const char *key, sqlite3_stmt *s, int at) {
    bool null = sqlite3_column_type(s, at) == SQLITE_NULL;
    pl_json_put_count(w, key, null ? PL_UNKNOWN : sqlite3_column_int64(s, at));
}

static void put_real(pl_json_writer *w, const char *key, sqlite3_stmt *s, int at) {
    bool null = sqlite3_column_type(s, at) == SQLITE_NULL;
    pl_json_put_real(w, key, null ? NAN : sqlite3_column_double(s, at));
}

static void put_row(pl_json_writer *w, sqlite3_stmt *s) {
    enum { TEXT, WHOLE, REAL, STATE, RAW };
    static const struct {
        const char *key;
        int kind;
    } columns[] = {{"job", TEXT},
                   {"state", STATE},
                   {"submitted_ms", WHOLE},
                   {"started_ms", WHOLE},
                   {"seen_ms", WHOLE},
                   {"ended_ms", WHOLE},
                   {"user", TEXT},
                   {"gpu", TEXT},
                   {"model", TEXT},
                   {"settings", RAW},
                   {"predicted_bytes", WHOLE},
                   {"upper_bytes", WHOLE},
                   {"predicted_step_ms", REAL},
                   {"peak_bytes", WHOLE},
                   {"step_ms", REAL},
                   {"smact", REAL},
                   {"smocc", REAL},
                   {"drama", REAL},
                   {"exit_code", WHOLE},
                   {"family", TEXT}};
    pl_json_put_open(w, NULL, '{');
    for (int i = 0; i < (int)(sizeof columns / sizeof *columns); i++) {
        const char *key = columns[i].key;
        switch (columns[i].kind) {
        case TEXT: pl_json_put_string(w, key, text_at(s, i)); break;
        case WHOLE: put_int(w, key, s, i); break;
        case REAL: put_real(w, key, s, i); break;
        case RAW: pl_json_put_raw(w, key, text_at(s, i) ? text_at(s, i) : "null"); break;
        default:
            pl_json_put_string(w, key, history_state_name((history_state)sqlite3_column_int(s, i)));
        }
    }
    pl_json_put_close(w, '}');
}

char *history_jobs(history *h, history_state state, const char *job, int64_t most) {
    static const char sql[] =
        "SELECT job, state, submitted_ms, started_ms, seen_ms, ended_ms, user, gpu, model, settings,"
        " predicted_bytes, upper_bytes, predicted_step_ms, peak_bytes, step_ms, smact, smocc, drama,"
        " exit_code, family FROM jobs WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR job = ?2)"
        " ORDER BY number DESC LIMIT ?3";
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(h->reader, sql, -1, &s, NULL) != SQLITE_OK) return NULL;
    if (state < JOB_STATES) sqlite3_bind_int(s, 1, (int)state);
    bind_text(s, 2, job);
    sqlite3_bind_int64(s, 3, most);
    pl_arena *arena = pl_arena_new(NULL);
    pl_text text = {.arena = arena};
    pl_json_writer w = {.text = &text};
    int code = arena ? SQLITE_ROW : SQLITE_NOMEM;
    if (arena) {
        pl_json_put_open(&w, NULL, '{');
        pl_json_put_int(&w, "schema", 1);
        pl_json_put_open(&w, "jobs", '[');
        while ((code = sqlite3_step(s)) == SQLITE_ROW && text.length < MOST_LISTING) put_row(&w, s);
        pl_json_put_close(&w, ']');
        pl_json_put_bool(&w, "cut", code == SQLITE_ROW); /* it would have become too long */
        pl_json_put_close(&w, '}');
    }
    sqlite3_finalize(s);
    char *out =
        (code == SQLITE_DONE || code == SQLITE_ROW) && !text.failed ? strdup(text.text) : NULL;
    pl_arena_free(&arena);
    return out;
}

bool history_count(history *h, history_figures *out) {
    /* the error's middle: of the last thousand */
    static const char sql[] =
        "WITH e AS (SELECT abs(peak_bytes - predicted_bytes) * 1.0 / predicted_bytes AS error,"
        " peak_bytes > upper_bytes AS above FROM jobs WHERE state = 3 AND peak_bytes > 0"
        " AND predicted_bytes > 0 AND coalesce(exit_code, 0) = 0 ORDER BY number DESC LIMIT 1000),"
        " t AS (SELECT abs(step_ms - predicted_step_ms) / predicted_step_ms AS error FROM jobs WHERE state = 3 AND step_ms > 0"
        " AND predicted_step_ms > 0 AND coalesce(exit_code, 0) = 0 ORDER BY number DESC LIMIT 1000)"
        " SELECT (SELECT count(*) FROM models), (SELECT count(*) FROM jobs), (SELECT count(*) FROM e),"
        " (SELECT total(above) FROM e), (SELECT avg(error) FROM e),"
        " (SELECT error FROM e ORDER BY error LIMIT 1 OFFSET (SELECT count(*) / 2 FROM e)),"
        " (SELECT error FROM t ORDER BY error LIMIT 1 OFFSET (SELECT count(*) / 2 FROM t))";
    sqlite3_stmt *s = NULL;
    *out = (history_figures){.error_median = NAN, .error_mean = NAN, .step_error_median = NAN};
    bool good = sqlite3_prepare_v2(h->reader, sql, -1, &s, NULL) == SQLITE_OK &&
                sqlite3_step(s) == SQLITE_ROW;
    if (good) {
        out->models = sqlite3_column_int64(s, 0);
        out->jobs = sqlite3_column_int64(s, 1);
        out->ended = sqlite3_column_int64(s, 2);
        out->above_upper = (int64_t)sqlite3_column_double(s, 3);
        if (sqlite3_column_type(s, 4) != SQLITE_NULL) out->error_mean = sqlite3_column_double(s, 4);
        if (sqlite3_column_type(s, 5) != SQLITE_NULL)
            out->error_median = sqlite3_column_double(s, 5);
        if (sqlite3_column_type(s, 6) != SQLITE_NULL)
            out->step_error_median = sqlite3_column_double(s, 6);
        out->failed_writes = atomic_load(&h->failed_writes);
    }
    sqlite3_finalize(s);
    return good;
}

size_t history_seen(history *h, const char *gpu, const char *family, const char *digest,
                    pl_seen *jobs, size_t room) {
    /* a run that failed did not reach its peak, or went past it */
    static const char sql[] =
        "SELECT predicted_bytes, peak_bytes, family IS ?2, model IS ?3, predicted_step_ms, step_ms FROM jobs"
        " WHERE gpu = ?1 AND state = 3 AND coalesce(exit_code, 0) = 0 AND (peak_bytes > 0 AND predicted_bytes > 0"
        " OR step_ms > 0 AND predicted_step_ms > 0) ORDER BY number DESC LIMIT ?4";
    sqlite3_stmt *s = NULL;
    size_t count = 0;
    if (sqlite3_prepare_v2(h->reader, sql, -1, &s, NULL) != SQLITE_OK) return 0;
    bind_text(s, 1, gpu);
    bind_text(s, 2, family && *family ? family : "?");
    bind_text(s, 3, digest && *digest ? digest : "?");
    sqlite3_bind_int64(s, 4, (int64_t)room);
    while (count < room && sqlite3_step(s) == SQLITE_ROW) {
        bool predicted = sqlite3_column_int64(s, 0) > 0, seen = sqlite3_column_int64(s, 1) > 0;
        jobs[count++] =
            (pl_seen){.predicted_bytes = predicted ? sqlite3_column_int64(s, 0) : PL_UNKNOWN,
                      .peak_bytes = seen ? sqlite3_column_int64(s, 1) : PL_UNKNOWN,
                      .same_family = sqlite3_column_int(s, 2) != 0,
                      .same_model = sqlite3_column_int(s, 3) != 0,
                      .predicted_step_ms = sqlite3_column_double(s, 4), /* 0: not said */
                      .step_ms = sqlite3_column_double(s, 5)};
    }
    sqlite3_finalize(s);
    return count;
}

bool history_compared(history *h, bool (*row)(void *context, const history_pair *pair),
                      void *context) {
    static const char sql[] =
        "SELECT job, gpu, family, model, predicted_bytes, upper_bytes, peak_bytes, ended_ms, predicted_step_ms, step_ms FROM jobs"
        " WHERE state = 3 AND peak_bytes > 0 AND predicted_bytes > 0 AND coalesce(exit_code, 0) = 0"
        " ORDER BY number";
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(h->reader, sql, -1, &s, NULL) != SQLITE_OK) return false;
    int code;
    bool more = true;
    while (more && (code = sqlite3_step(s)) == SQLITE_ROW) {
        bool upper = sqlite3_column_type(s, 5) != SQLITE_NULL;
        history_pair pair = {.job = text_at(s, 0),
                             .gpu = text_at(s, 1) ? text_at(s, 1) : "",
                             .family = text_at(s, 2) ? text_at(s, 2) : "",
                             .model = text_at(s, 3) ? text_at(s, 3) : "",
                             .predicted_bytes = sqlite3_column_int64(s, 4),
                             .upper_bytes = upper ? sqlite3_column_int64(s, 5) : PL_UNKNOWN,
                             .peak_bytes = sqlite3_column_int64(s, 6),
                             .ended_ms = sqlite3_column_int64(s, 7),
                             .predicted_step_ms = sqlite3_column_double(s, 8),
                             .step_ms = sqlite3_column_double(s, 9)};
        more = row(context, &pair);
    }
    sqlite3_finalize(s);
    return more && code == SQLITE_DONE;
}
