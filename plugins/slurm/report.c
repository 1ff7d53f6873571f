/* report: see report.h. Whose a process is: it descends from this slurmstepd, or has the job's number in the environment it
 * was started with (a process that became init's). The peak is of one card, over its processes of the job together, as
 * nvidia-smi shows it; between two looks more may have been held, which PyTorch's allocator rarely gives back so soon. */
#include "report.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "judge.h"
#include "nvml.h"

enum { MOST_ANSWER = 256 << 10, MOST_PARENTS = 64 };

struct report {
    const settings *settings;
    char name[192]; /* "slurm:CLUSTER:ID" */
    request request;
    uint32_t id;
    bool ends;
    pid_t above; /* the process whose children are the job's */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
    int code;     /* -1: no task has ended */
    int64_t peak; /* -1: unknown; the thread's until it has ended */
    char *room;
};

/* ---- whose a process is ---- */

static long slurp(const char *path, char *room, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t have = 0;
    for (ssize_t got = 1; got > 0 && have < size - 1;) {
        got = read(fd, room + have, size - 1 - have);
        if (got > 0) have += (size_t)got;
    }
    close(fd);
    room[have] = 0;
    return (long)have;
}

/* The parent of a process; 0: none, or it is gone. */
static pid_t parent_of(pid_t pid) {
    char path[64], stat[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if (slurp(path, stat, sizeof stat) <= 0) return 0;
    const char *behind = strrchr(stat, ')'); /* its name may hold anything */
    long parent = 0;
    if (behind && strlen(behind) > 4) parent = strtol(behind + 4, NULL, 10);
    return (pid_t)parent;
}

static bool is_of_job(report *r, pid_t pid) {
    pid_t one = pid;
    for (int i = 0; one > 1 && i < MOST_PARENTS; i++) {
        one = parent_of(one);
        if (one == r->above) return true;
    }
    char path[64], variable[48];
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    snprintf(variable, sizeof variable, "SLURM_JOB_ID=%u", r->id);
    long size = slurp(path, r->room, MOST_ANSWER);
    for (long at = 0; at < size; at += (long)strlen(r->room + at) + 1)
        if (strcmp(r->room + at, variable) == 0) return true;
    return false;
}

static void look(report *r, nvml *n) {
    pid_t pids[NVML_PROCESSES];
    int64_t bytes[NVML_PROCESSES];
    for (int card = 0; card < nvml_cards(n); card++) {
        int count = nvml_processes(n, card, pids, bytes, NVML_PROCESSES);
        int64_t sum = 0;
        for (int i = 0; i < count; i++)
            if (bytes[i] > 0 && is_of_job(r, pids[i])) sum += bytes[i];
        if (sum > 0 && sum > r->peak) r->peak = sum;
    }
}

/* ---- what is told ---- */

static void tell(report *r, const char *state, const char *more, int64_t until) {
    char body[2048], room[2048];
    text t = text_in(body, sizeof body);
    struct timespec now;
    http_answer answer;
    clock_gettime(CLOCK_REALTIME, &now);
    text_add(&t, "{\"job\":");
    text_quote(&t, r->name);
    text_add(&t, ",\"state\":\"%s\",\"at_ms\":%lld,\"model\":", state,
             (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    text_quote(&t, r->request.model);
    text_add(&t, "%s", more);
    if (r->peak > 0) text_add(&t, ",\"peak_bytes\":%lld", (long long)r->peak);
    text_add(&t, "}");
    if (!t.cut)
        http_ask(&r->settings->daemon, "POST", "/v1/jobs", "application/json", body, t.length,
                 until, room, sizeof room, &answer);
}

static int64_t soon(const report *r) {
    return http_now() + r->settings->report_ms * 1000000;
}

/* What was predicted, for the card of this node: the only one of plimsoll.conf, or as NVML calls the first. */
static void tell_start(report *r, nvml *n) {
    char more[512];
    text t = text_in(more, sizeof more);
    card named = {.reserve = -1};
    const card *c = settings_card(r->settings, "");
    if (!c && n && nvml_cards(n)) {
        nvml_name(n, 0, named.gpu, sizeof named.gpu);
        c = &named;
    }
    settings one = *r->settings;
    judged j;
    int count = 0;
    char unsaid[640];
    text wrong = text_in(unsaid, sizeof unsaid);
    if (c && c->gpu[0]) {
        one.cards[0] = *c;
        one.count = 1;
        asking a = {&one, soon(r), r->room, MOST_ANSWER};
        if (judge_cards(&a, &r->request, "", &j, &count, &wrong) == JUDGED && count) {
            text_add(&t, ",\"gpu\":");
            text_quote(&t, c->gpu);
            text_add(&t, ",\"predicted_bytes\":%lld,\"upper_bytes\":%lld", (long long)j.peak,
                     (long long)j.upper);
            if (j.family[0]) {
                text_add(&t, ",\"family\":");
                text_quote(&t, j.family);
            }
        }
    }
    tell(r, "started", more, soon(r));
}

/* Waits so long, or until it is told to stop. */
static bool stops(report *r, int64_t milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&r->lock);
    while (!r->stop && pthread_cond_timedwait(&r->changed, &r->lock, &until) == 0) continue;
    bool stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return stop;
}

static void *run(void *context) {
    report *r = context;
    nvml *n = nvml_open(r->settings->nvml);
    tell_start(r, n);
    do {
        if (n) look(r, n);
    } while (!stops(r, r->settings->sample_ms));
    nvml_close(&n);
    return NULL;
}

report *report_open(const settings *s, const report_job *job) {
    report *r = calloc(1, sizeof *r);
    char unsaid[256];
    text wrong = text_in(unsaid, sizeof unsaid), name;
    if (!r || !(r->room = malloc(MOST_ANSWER))) {
        free(r);
        return NULL;
    }
    *r = (report){.settings = s,
                  .id = job->id,
                  .ends = job->ends,
                  .above = getpid(),
                  .code = -1,
                  .peak = -1,
                  .room = r->room};
    name = text_in(r->name, sizeof r->name);
    text_add(&name, "slurm:%s:%u", job->cluster[0] ? job->cluster : "-", job->id);
    bool right =
        request_read(&r->request, job->request, job->request + strlen(job->request), &wrong) &&
        request_is_digest(r->request.model) && !name.cut;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    /* Signals are slurmstepd's own threads'. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    right = right && pthread_create(&r->thread, NULL, run, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!right) {
        free(r->room);
        free(r);
        return NULL;
    }
    return r;
}

void report_exit(report *r, int code) {
    pthread_mutex_lock(&r->lock);
    if (code > r->code) r->code = code;
    pthread_mutex_unlock(&r->lock);
}

void report_close(report **pointer) {
    report *r = *pointer;
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    char more[64];
    text t = text_in(more, sizeof more);
    if (r->ends && r->code >= 0) text_add(&t, ",\"exit_code\":%d", r->code);
    tell(r, r->ends ? "ended" : "seen", more, soon(r));
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r->room);
    free(r);
    *pointer = NULL;
}
