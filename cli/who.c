/* who: see who.h. Slurm puts SLURM_JOB_ID and SLURM_CLUSTER_NAME into a task's environment, which its user and root may
 * read, and "job_ID" into the path of its cgroup, which anybody may. */
#include "who.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"

enum { DEEPEST = 256, ENVIRONMENT = 1 << 17, KEPT_SAMPLES = 4, YOUNG = 8 };

/* At most room - 1 bytes of /proc/PID/NAME, and a 0; the count, -1 where it cannot be read. */
static ssize_t read_proc(int64_t pid, const char *name, char *out, size_t room) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t used = 0;
    ssize_t got = 1;
    while (used < room - 1 && (got = read(fd, out + used, room - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    out[used] = '\0';
    return got < 0 && used == 0 ? -1 : (ssize_t)used;
}

/* Name, parent and start of proc(5)'s stat; the name stands in brackets, and may hold blanks and brackets. */
static bool read_stat(int64_t pid, char name[64], int64_t *parent, uint64_t *started) {
    char text[1024];
    if (read_proc(pid, "stat", text, sizeof text) <= 0) return false;
    char *at = strrchr(text, ')'), *from = strchr(text, '(');
    if (!at || !from || from > at) return false;
    snprintf(name, 64, "%.*s", (int)(at - from - 1), from + 1);
    int field = 2;
    for (at++; *at == ' '; field++) {
        if (field == 3) *parent = strtoll(at, NULL, 10);
        if (field == 21) {
            *started = strtoull(at, NULL, 10);
            return true;
        }
        at++;
        at += strcspn(at, " ");
    }
    return false;
}

static void read_command(who *w) {
    ssize_t length = read_proc(w->pid, "cmdline", w->command, sizeof w->command);
    if (length <= 0) length = read_proc(w->pid, "comm", w->command, sizeof w->command);
    if (length < 0) length = 0;
    while (length > 0 && (w->command[length - 1] == '\0' || w->command[length - 1] == '\n'))
        w->command[--length] = '\0';
    for (ssize_t i = 0; i < length; i++)
        if (w->command[i] == '\0' || w->command[i] == '\n') w->command[i] = ' ';
}

static void read_user(who *w) {
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%" PRId64, w->pid);
    if (stat(path, &is) != 0) return;
    const struct passwd *user = getpwuid(is.st_uid);
    if (user)
        snprintf(w->user, sizeof w->user, "%s", user->pw_name);
    else
        snprintf(w->user, sizeof w->user, "%ju", (uintmax_t)is.st_uid);
}

/* Letters that a job's name may be made of here. */
static bool is_plain(const char *text) {
    for (; *text; text++)
        if (*text <= ' ' || *text > '~') return false;
    return true;
}

static void name_job(char *out, size_t room, const char *cluster, const char *id) {
    if (id[0] && strlen(id) < 32 && strlen(cluster) < 64 && is_plain(id) && is_plain(cluster))
        snprintf(out, room, "slurm:%s:%s", cluster, id);
}

/* The value of NAME among words that each end in a 0. */
static const char *variable(const char *environment, size_t size, const char *name) {
    size_t length = strlen(name);
    for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
    return NULL;
}

static void read_job(who *w) {
    char *text = need(ENVIRONMENT, 1);
    const char *own = getenv("SLURM_CLUSTER_NAME"), *cluster = NULL, *id = NULL;
    ssize_t size = read_proc(w->pid, "environ", text, ENVIRONMENT);
    if (size > 0) {
        id = variable(text, (size_t)size, "SLURM_JOB_ID");
        cluster = variable(text, (size_t)size, "SLURM_CLUSTER_NAME");
    }
    if (id) {
        name_job(w->job, sizeof w->job, cluster ? cluster : own ? own : "", id);
    } else if (read_proc(w->pid, "cgroup", text, ENVIRONMENT) > 0) {
        char *at = strstr(text, "slurm");
        at = at ? strstr(at, "/job_") : NULL;
        if (at) {
            at += strlen("/job_");
            at[strspn(at, "0123456789")] = '\0';
            name_job(w->job, sizeof w->job, own ? own : "", at);
        }
    }
    free(text);
}

void who_begin(who_cache *cache) {
    size_t kept = 0;
    cache->sample++;
    for (size_t i = 0; i < cache->count; i++)
        if (cache->rows[i]->seen + KEPT_SAMPLES >= cache->sample)
            cache->rows[kept++] = cache->rows[i];
        else
            free(cache->rows[i]);
    cache->count = kept;
}

who *who_of(who_cache *cache, int64_t pid) {
    int64_t parent = -1;
    uint64_t started = 0;
    char name[64] = "";
    bool there = read_stat(pid, name, &parent, &started);
    for (size_t i = 0; i < cache->count; i++) {
        who *row = cache->rows[i];
        if (row->pid != pid || (there && (!row->there || row->started != started))) continue;
        row->seen = cache->sample; /* or it has just ended: as it was */
        /* It may be another program by now: often so soon after it was made, and by its name later. */
        if (there && (row->looks < YOUNG || strcmp(row->name, name) != 0)) {
            row->looks++;
            memcpy(row->name, name, sizeof name);
            read_command(row);
            read_job(row);
        }
        return row;
    }
    if (cache->count == cache->room) {
        cache->room = cache->room ? 2 * cache->room : 64;
        who **larger = need(cache->room, sizeof *larger);
        if (cache->count) memcpy(larger, cache->rows, cache->count * sizeof *larger);
        free(cache->rows);
        cache->rows = larger;
    }
    who *row = need(1, sizeof *row);
    *row = (who){.pid = pid, .started = started, .parent = parent, .there = there};
    row->seen = cache->sample;
    cache->rows[cache->count++] = row;
    if (there) {
        memcpy(row->name, name, sizeof name);
        read_command(row);
        read_user(row);
        read_job(row);
    }
    return row;
}

void who_free(who_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) free(cache->rows[i]);
    free(cache->rows);
    *cache = (who_cache){0};
}

bool who_descends(int64_t pid, int64_t ancestor) {
    uint64_t started;
    char name[64];
    for (int i = 0; i < DEEPEST && pid > 0; i++) {
        if (pid == ancestor) return true;
        if (!read_stat(pid, name, &pid, &started)) return false;
    }
    return false;
}

bool who_own_job(char *out, size_t room) {
    const char *id = getenv("SLURM_JOB_ID"), *cluster = getenv("SLURM_CLUSTER_NAME");
    out[0] = '\0';
    if (id) name_job(out, room, cluster ? cluster : "", id);
    return out[0] != '\0';
}

/* The first namespace's number is the same on every Linux: PROC_PID_INIT_INO. */
bool who_sees_all(void) {
    char link[64];
    ssize_t length = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    if (length < 0) return true;
    link[length] = '\0';
    return strcmp(link, "pid:[4026531836]") == 0;
}
