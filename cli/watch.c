/* watch: the cards as they are, at an interval: for a terminal, as lines, for Prometheus, to a daemon; or one command, whose
 * processes are followed and whose peak is held against what was predicted at its end.
 *
 * Everything happens in one thread: between two samples it waits for signals, which come by a descriptor. A command
 * has standard input and output for itself. */
#define _DEFAULT_SOURCE /* SIGWINCH */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/number.h"
#include "core/replace.h"
#include "verbs.h"
#include "watch.h"

enum {
    USUAL_MS = 1000,
    USUAL_COMMAND_MS = 200,
    LEAST_MS = 10,
    MOST_MS = 86400000,
    TELL_MS = 60000,    /* a job that goes on is told of once a minute */
    FORGET_MS = 600000, /* one that is gone, and could not be told of */
    GONE_MS = 30000,    /* one that is gone, and was */
};

typedef struct watching {
    const request *r;
    pl_live *live; /* NULL: none, with a command alone */
    who_cache who;
    watch_sample sample;
    size_t room; /* of the sample's lists */
    watch_jobs jobs;
    watch_job *own; /* of the command; NULL: none */
    char name[256]; /* its name, or that of --job */
    bool own_end;   /* its end is told of here, not by a scheduler */
    watch_child child;
    watch_prediction predicted;
    watch_post post;
    int64_t interval_ms, last_ns, started_ns, samples;
    int signals; /* signalfd */
    FILE *out;   /* of lines; NULL: none */
    bool table, lines, sees_all, said_prometheus, said_out, stop;
    int rows, columns;
} watching;

/* ---- a sample ---- */

/* Whether the process is the command's. Ids that mean nothing here, in a container whose driver has the host's, are
 * taken for its own where they were not there when it began. */
static bool is_mine(watching *w, who *who) {
    if (who->asked) return who->mine;
    who->asked = true;
    if (who->there)
        who->mine = w->child.pid > 0 && who_descends(who->pid, getpid());
    else if (w->samples > 0 && !w->sees_all)
        who->mine = w->own->appeared = true;
    return who->mine;
}

static void take(watching *w) {
    watch_sample *s = &w->sample;
    struct timespec now;
    int64_t now_ns = pl_now_ns();
    clock_gettime(CLOCK_REALTIME, &now);
    s->time_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    s->seconds = w->last_ns ? (double)(now_ns - w->last_ns) / 1e9 : 0;
    w->last_ns = now_ns;
    s->live = w->live;
    s->processes = 0;
    if (!w->live) return;
    pl_live_read(w->live);
    who_begin(&w->who);
    while (pl_live_process_at(w->live, s->processes)) s->processes++;
    if (s->processes > w->room) {
        free(s->who);
        free(s->job);
        w->room = 2 * s->processes;
        s->who = need(w->room, sizeof *s->who);
        s->job = need(w->room, sizeof *s->job);
    }
    for (size_t i = 0; i < s->processes; i++) {
        who *who = who_of(&w->who, pl_live_process_at(w->live, i)->pid);
        s->who[i] = who;
        if (w->own)
            s->job[i] = is_mine(w, who) ? w->own->name : NULL;
        else
            s->job[i] = w->name[0] ? w->name : who->job[0] ? who->job : NULL;
    }
    if (w->own || w->r->post) watch_jobs_add(&w->jobs, s);
    w->samples++;
}

/* ---- the terminal ---- */

static void measure_terminal(watching *w) {
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
    w->rows = known ? size.ws_row : 24;
    w->columns = known ? size.ws_col : 80;
}

/* A screen of its own, without a cursor, and back. */
static void enter_screen(watching *w) {
    if (w->table) fputs("\033[?1049h\033[?25l", stdout);
}

static void leave_screen(watching *w) {
    if (w->table) fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
}

static void draw(watching *w) {
    measure_terminal(w);
    watch_table(stdout, &w->sample, w->interval_ms, w->rows, w->columns, true);
    fflush(stdout);
}

/* ---- files ---- */

static void write_prometheus(watching *w) {
    const char *path = w->r->prometheus;
    pl_replace file;
    if (strcmp(path, "-") == 0) {
        watch_prometheus(stdout, &w->sample);
        fflush(stdout);
        return;
    }
    bool good = pl_replace_open(&file, path);
    if (good) {
        watch_prometheus(file.out, &w->sample);
        good = pl_replace_close(&file, true);
    }
    if (!good && !w->said_prometheus)
        complain(0, "--prometheus: %s: %s; the cards are watched on", path, strerror(errno));
    w->said_prometheus = !good;
}

/* A line more; a disk that is full ends the watching, but not that of a command. */
static int write_lines(watching *w) {
    if (w->r->json) {
        pl_json_writer j = {.file = w->out};
        watch_json(&j, &w->sample);
        putc('\n', w->out);
    } else {
        watch_lines(w->out, &w->sample, !w->lines);
        w->lines = true;
    }
    if (fflush(w->out) == 0 && !ferror(w->out)) return 0;
    if (w->out == stdout) return complain(PL_MISSING, "standard output: %s", strerror(errno));
    if (!w->said_out) complain(0, "--out: %s: %s", w->r->out, strerror(errno));
    w->said_out = true;
    return w->own ? 0 : PL_MISSING;
}

/* ---- the daemon ---- */

/* The catalogue's name, which the daemon learns by; else the driver's. */
static const char *card_name(const watch_job *job, const watch_peak *peak) {
    const watch_card *c = peak->card;
    for (size_t i = 0; i < job->card_count && !c; i++)
        if (job->cards[i].most > 0) c = &job->cards[i];
    if (!c || !c->name[0]) return NULL;
    const pl_gpu *gpu = pl_gpu_find(c->name);
    return gpu ? gpu->name : c->name;
}

static bool tell(watching *w, watch_job *job, const char *state) {
    char *body = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&body, &length);
    if (!text) return false;
    pl_json_writer j = {.file = text};
    watch_peak peak = watch_peak_of(job);
    bool end = strcmp(state, "ended") == 0;
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_string(&j, "job", job->name);
    pl_json_put_string(&j, "state", state);
    pl_json_put_string(&j, "user", job->user[0] ? job->user : NULL);
    pl_json_put_string(&j, "gpu", card_name(job, &peak));
    if (job == w->own) pl_json_put_count(&j, "predicted_bytes", w->predicted.peak_bytes);
    pl_json_put_count(&j, "peak_bytes", peak.bytes);
    pl_json_put_real(&j, "smact", watch_mean_of(&job->smact));
    pl_json_put_real(&j, "smocc", watch_mean_of(&job->smocc));
    pl_json_put_real(&j, "drama", watch_mean_of(&job->drama));
    if (end) pl_json_put_int(&j, "exit_code", watch_child_code(&w->child));
    pl_json_put_close(&j, '}');
    bool good = fclose(text) == 0 && watch_post_send(&w->post, body, length);
    free(body);
    if (good) {
        job->told_bytes = peak.bytes;
        job->told_ms = pl_now_ns() / 1000000;
    }
    return good;
}

/* Tells of jobs whose peak has grown by a hundredth, that have gone, or that were not told of for a minute; last: of all. */
static void tell_jobs(watching *w, bool last) {
    int64_t now_ms = pl_now_ns() / 1000000;
    for (size_t i = 0; i < w->jobs.count; i++) {
        watch_job *job = w->jobs.rows[i];
        int64_t peak = watch_peak_of(job).bytes;
        if (job->there) job->there_ms = now_ms;
        bool told = job->told_bytes >= 0 && peak <= job->told_bytes,
             grown = peak >= 0 &&
                     (job->told_bytes < 0 || peak - job->told_bytes > job->told_bytes / 100),
             old = job->there && now_ms - job->told_ms >= TELL_MS && peak >= 0;
        bool due = grown || old || (!told && peak >= 0 && (!job->there || last));
        if (due && (last || watch_post_due(&w->post)) && !tell(w, job, "seen") && last) return;
    }
    for (size_t i = w->jobs.count; i-- > 0;) {
        const watch_job *job = w->jobs.rows[i];
        bool told = job->told_bytes >= watch_peak_of(job).bytes;
        if (job != w->own && !job->there && now_ms - job->there_ms > (told ? GONE_MS : FORGET_MS))
            watch_jobs_drop(&w->jobs, i);
    }
}

/* ---- the end of a command ---- */

static const char *by_name(watch_by by) {
    static const char *const names[] = {
        [BY_NOTHING] = NULL, [BY_ACCOUNTING] = "accounting", [BY_SAMPLES] = "samples"};
    return names[by];
}

static void summarize_json(watching *w, double seconds) {
    const watch_job *job = w->own;
    watch_peak peak = watch_peak_of(job);
    bool counted, signalled = WIFSIGNALED(w->child.status);
    double joules = watch_energy_of(job, &counted), predicted = (double)w->predicted.peak_bytes;
    pl_json_writer j = {.file = stderr};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_open(&j, "command", '[');
    for (char **word = w->r->command; *word; word++) pl_json_put_string(&j, NULL, *word);
    pl_json_put_close(&j, ']');
    pl_json_put_string(&j, "job", w->name[0] ? w->name : NULL);
    pl_json_put_int(&j, "exit_code", watch_child_code(&w->child));
    pl_json_put_count(&j, "signal", signalled ? WTERMSIG(w->child.status) : PL_UNKNOWN);
    pl_json_put_real(&j, "duration_s", seconds);
    pl_json_put_count(&j, "predicted_bytes", w->predicted.peak_bytes);
    pl_json_put_count(&j, "peak_bytes", peak.bytes);
    pl_json_put_string(&j, "peak_by", by_name(peak.by));
    pl_json_put_real(&j, "error",
                     peak.bytes > 0 && predicted >= 0
                         ? (predicted - (double)peak.bytes) / (double)peak.bytes
                         : NAN);
    pl_json_put_bool(&j, "by_elimination", job->appeared);
    pl_json_put_real(&j, "interval_s", (double)w->interval_ms / 1000);
    pl_json_put_int(&j, "samples", job->samples);
    pl_json_put_int(&j, "processes", (int64_t)job->process_count);
    pl_json_put_real(&j, "smact", watch_mean_of(&job->smact));
    pl_json_put_real(&j, "smocc", watch_mean_of(&job->smocc));
    pl_json_put_real(&j, "drama", watch_mean_of(&job->drama));
    pl_json_put_real(&j, "tensor", watch_mean_of(&job->tensor));
    pl_json_put_real(&j, "gpu_util", watch_mean_of(&job->gpu_util));
    pl_json_put_real(&j, "energy_j", joules);
    pl_json_put_string(&j, "energy_by", !isfinite(joules) ? NULL : counted ? "counter" : "power");
    pl_json_put_open(&j, "cards", '[');
    for (size_t i = 0; i < job->card_count; i++) {
        const watch_card *c = &job->cards[i];
        if (c->most == 0 && c->account_bytes < 0) continue;
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_int(&j, "index", c->index);
        pl_json_put_count(&j, "gpu_instance", c->gpu_instance);
        pl_json_put_string(&j, "name", c->name[0] ? c->name : NULL);
        pl_json_put_string(&j, "uuid", c->uuid[0] ? c->uuid : NULL);
        pl_json_put_count(&j, "sampled_bytes", c->peak_bytes);
        pl_json_put_count(&j, "accounted_bytes", c->account_bytes);
        pl_json_put_int(&j, "processes", c->most);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    putc('\n', stderr);
}

/* "12.3 s", "4 min 5 s", "2 h 3 min" */
static small_text span(double seconds) {
    small_text t;
    int64_t s = (int64_t)seconds;
    if (seconds < 60)
        snprintf(t.text, sizeof t.text, "%s s", PL_REAL(".1f", seconds));
    else if (s < 3600)
        snprintf(t.text, sizeof t.text, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else
        snprintf(t.text, sizeof t.text, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
    return t;
}

static void summarize_peak(watching *w, const watch_peak *peak) {
    int64_t predicted = w->predicted.peak_bytes;
    if (peak->bytes >= 0) {
        fprintf(stderr, "  peak       %s on card %d, ", text_bytes(peak->bytes).text,
                peak->card->index);
        if (peak->by == BY_ACCOUNTING)
            fputs("by the driver's accounting\n", stderr);
        else
            fprintf(stderr, "the most of %" PRId64 " samples every %s: shorter peaks are missed\n",
                    w->own->samples, text_ms((double)w->interval_ms).text);
        if (w->own->appeared)
            fputs("             of the processes that appeared meanwhile: the driver's ids are of "
                  "another namespace\n",
                  stderr);
    } else if (w->own->process_count) {
        fputs("  peak       not known: the driver does not say what a process has\n", stderr);
    } else if (w->live) {
        fputs("  peak       not known: no process of it was seen on a card\n", stderr);
    } else {
        fputs("  peak       not known: there was no card to watch\n", stderr);
    }
    if (predicted < 0) return;
    fprintf(stderr, "  predicted  %s", text_bytes(predicted).text);
    if (peak->bytes > 0) {
        double error = 100 * ((double)predicted / (double)peak->bytes - 1);
        fprintf(stderr, ", %s %% too %s", PL_REAL(".1f", fabs(error)), error < 0 ? "low" : "high");
    }
    putc('\n', stderr);
}

static void summarize(watching *w, double seconds) {
    const watch_job *job = w->own;
    watch_peak peak = watch_peak_of(job);
    bool counted;
    double joules = watch_energy_of(job, &counted), smact = watch_mean_of(&job->smact),
           util = watch_mean_of(&job->gpu_util);
    bool at_keys = WIFSIGNALED(w->child.status) && WTERMSIG(w->child.status) == SIGINT &&
                   isatty(STDERR_FILENO);
    fputs(at_keys ? "\nplimsoll: " : "plimsoll: ", stderr); /* behind the ^C */
    text_clean(stderr, w->r->command[0]);
    if (WIFSIGNALED(w->child.status))
        fprintf(stderr, " was ended by signal %d", WTERMSIG(w->child.status));
    else
        fprintf(stderr, " ended with %d", WEXITSTATUS(w->child.status));
    fprintf(stderr, " after %s\n", span(seconds).text);
    summarize_peak(w, &peak);
    if (isfinite(smact))
        fprintf(stderr, "  SMACT      %s in the mean, SMOCC %s, DRAMA %s\n",
                text_percent(smact / 100).text, text_percent(watch_mean_of(&job->smocc) / 100).text,
                text_percent(watch_mean_of(&job->drama) / 100).text);
    else if (isfinite(util))
        fprintf(stderr, "  kernels    ran %s of the time; the card has no counter of SM activity\n",
                text_percent(util / 100).text);
    if (isfinite(joules))
        fprintf(stderr, "  energy     %s of the cards it was on%s\n", text_scaled(joules, "J").text,
                counted ? "" : ", by samples of their power");
}

/* ---- signals ---- */

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

static bool block_signals(watching *w) {
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
        struct sigaction as;
        bool ignored = sigaction(passed_on[i], NULL, &as) == 0 && as.sa_handler == SIG_IGN;
        if (!ignored) sigaddset(&set, passed_on[i]); /* nohup's stay ignored */
    }
    if (w->own) sigaddset(&set, SIGCHLD);
    if (w->table) sigaddset(&set, SIGWINCH);
    if (w->table) sigaddset(&set, SIGTSTP);
    w->signals = -1;
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return w->signals >= 0;
}

static void take_signal(watching *w, const struct signalfd_siginfo *info) {
    int number = (int)info->ssi_signo;
    if (number == SIGCHLD) {
        watch_child_reap(&w->child);
        w->stop = w->child.ended;
    } else if (number == SIGWINCH) {
        draw(w);
    } else if (number == SIGTSTP) {
        leave_screen(w);
        raise(SIGSTOP);
        enter_screen(w);
        draw(w);
    } else if (!w->own) {
        w->stop = true;
    } else if (info->ssi_code != SI_KERNEL) { /* a terminal's go to its whole group already */
        kill(w->child.pid, number);
    }
}

/* Waits for signals until then. */
static void wait_until(watching *w, int64_t then_ns) {
    while (!w->stop) {
        int64_t left_ns = then_ns - pl_now_ns();
        if (left_ns <= 0) return;
        struct pollfd one = {.fd = w->signals, .events = POLLIN};
        int64_t ms = (left_ns + 999999) / 1000000;
        int ready = poll(&one, 1, ms > MOST_MS ? MOST_MS : (int)ms);
        if (ready < 0 && errno != EINTR) return;
        struct signalfd_siginfo info;
        while (ready > 0 && !w->stop && read(w->signals, &info, sizeof info) == sizeof info)
            take_signal(w, &info);
    }
}

/* ---- the loop ---- */

static int write_sample(watching *w) {
    if (!w->live) return 0;
    if (w->table) draw(w);
    if (w->r->prometheus) write_prometheus(w);
    int code = w->out ? write_lines(w) : 0;
    if (w->r->post) tell_jobs(w, false);
    return code;
}

static int loop(watching *w) {
    int code = 0;
    int64_t interval_ns = w->interval_ms * 1000000, next = w->started_ns + interval_ns;
    int64_t end = w->r->duration_ms ? w->started_ns + w->r->duration_ms * 1000000 : INT64_MAX;
    if (w->table) draw(w);
    while (!w->stop && code == 0) {
        wait_until(w, next < end ? next : end);
        if (w->stop) break;
        take(w);
        code = write_sample(w);
        if (next >= end) break;
        next += interval_ns;
        int64_t now = pl_now_ns();
        if (next <= now)
            next = now + interval_ns - (now - next) % interval_ns; /* some were missed */
    }
    return code;
}

static int watch_command(watching *w) {
    int why = 0, code;
    const request *r = w->r;
    const pl_live_card *first = w->live ? pl_live_card_at(w->live, 0) : NULL;
    code = watch_predict(&w->predicted, r, first ? first->name : "");
    if (code) return code;
    if (!block_signals(w)) return complain(PL_MISSING, "signals: %s", strerror(errno));
    take(w);
    watch_job_begin(w->own, &w->sample);
    w->started_ns = pl_now_ns();
    code = watch_child_start(&w->child, &why);
    if (code) return complain(code, "%s: %s", r->command[0], strerror(why));
    if (r->post && w->own_end) tell(w, w->own, "started");
    loop(w);
    double seconds = (double)(pl_now_ns() - w->started_ns) / 1e9;
    take(w);
    watch_job_account(w->own, w->live, w->child.reaped, w->child.reaped_count);
    if (r->post) {
        if (w->own_end)
            tell(w, w->own, "ended");
        else
            tell_jobs(w, true);
    }
    if (r->json)
        summarize_json(w, seconds);
    else
        summarize(w, seconds);
    return watch_child_code(&w->child);
}

static int watch_cards(watching *w) {
    if (!block_signals(w)) return complain(PL_MISSING, "signals: %s", strerror(errno));
    w->started_ns = pl_now_ns();
    take(w);
    enter_screen(w);
    int code = loop(w);
    leave_screen(w);
    if (w->table) {
        w->rows = 1000;
        watch_table(stdout, &w->sample, w->interval_ms, w->rows, w->columns, false);
    }
    if (w->r->post) tell_jobs(w, true);
    return code;
}

/* ---- beginning ---- */

static int check(const request *r) {
    const char *with = r->predict          ? "--predict"
                       : r->predict_script ? "--predict-script"
                                           : "--predicted";
    int predictions = (r->predict != NULL) + r->predict_script + (r->predicted > 0);
    if (r->interval_ms && (r->interval_ms < LEAST_MS || r->interval_ms > MOST_MS))
        return complain(PL_USAGE, "--interval: it is from 10 ms to a day");
    if (predictions && !r->command)
        return complain(PL_USAGE, "%s is of a command: plimsoll watch %s ... -- COMMAND", with,
                        with);
    if (predictions > 1)
        return complain(PL_USAGE, "--predicted, --predict, --predict-script: one of them");
    if (r->duration_ms && r->command)
        return complain(PL_USAGE, "--duration: a command is watched until it ends");
    if (r->command && r->prometheus && strcmp(r->prometheus, "-") == 0)
        return complain(PL_USAGE, "--prometheus: standard output is the command's; name a file");
    if (r->name && (!r->name[0] || strlen(r->name) >= sizeof((watching *)0)->name))
        return complain(PL_USAGE, "--job: a name of 1 to 255 letters");
    if (r->name && !r->command && !r->post)
        return complain(PL_USAGE, "--job: a name for --post or a command");
    return 0;
}

static int name_job(watching *w) {
    const request *r = w->r;
    if (r->name)
        snprintf(w->name, sizeof w->name, "%s", r->name);
    else if (r->command)
        who_own_job(w->name, sizeof w->name);
    w->own_end = r->name != NULL;
    if (r->post && r->command && !w->name[0])
        return complain(PL_USAGE, "--post: this is no Slurm job: name it by --job");
    return 0;
}

static int open_out(watching *w) {
    const request *r = w->r;
    if (r->out) {
        int fd = open(r->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        w->out = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (!w->out) return complain(PL_MISSING, "--out: %s: %s", r->out, strerror(errno));
    } else if (!r->command && (r->json || (!r->prometheus && !r->post))) {
        w->table = !r->json && isatty(STDOUT_FILENO);
        const char *term = getenv("TERM");
        if (w->table && (!term || strcmp(term, "dumb") == 0)) w->table = false;
        if (!w->table) w->out = stdout;
    }
    return 0;
}

int verb_watch(const request *r) {
    watching w = {.r = r, .signals = -1, .predicted.peak_bytes = PL_UNKNOWN};
    pl_error err = PL_SIZED(pl_error);
    w.child = (watch_child){.pid = -1, .go = -1, .failed = -1};
    w.interval_ms = r->interval_ms ? r->interval_ms : r->command ? USUAL_COMMAND_MS : USUAL_MS;
    int code = check(r);
    if (code == 0) code = name_job(&w);
    if (code == 0 && r->post) code = watch_post_open(&w.post, r->post);
    if (code == 0) code = open_out(&w);
    if (code) return code;
    if (r->command) {
        w.own = watch_job_named(&w.jobs, w.name[0] ? w.name : r->command[0]);
        w.sees_all = who_sees_all();
        if (!watch_child_make(&w.child, r->command))
            code = complain(PL_MISSING, "%s: %s", r->command[0], strerror(errno));
    }
    if (code == 0 && pl_live_open(&w.live, NULL, &err) != PL_OK) {
        complain_of(&err, NULL);
        if (!r->command) code = (int)err.code;
    }
    if (code == 0) code = r->command ? watch_command(&w) : watch_cards(&w);
    if (w.out && w.out != stdout && fclose(w.out) != 0 && !w.said_out)
        complain(0, "--out: %s: %s", r->out, strerror(errno));
    if (w.signals >= 0) close(w.signals);
    watch_child_free(&w.child);
    watch_jobs_free(&w.jobs);
    who_free(&w.who);
    free(w.sample.who);
    free(w.sample.job);
    pl_live_close(&w.live);
    return code;
}
