/* job_submit/plimsoll: called by slurmctld for every job that is submitted, while it holds its locks: what is asked of the
 * daemon has a deadline for all questions together, and a job about which nothing is known passes as it is. It needs
 * slurm.h alone, and is one source for Slurm 22.05 to 26.05. */
#include <pthread.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <string.h>
#include <sys/stat.h>

#include "decide.h"
#include "exported.h"
#include "handed.h"

EXPORTED const char plugin_name[] = "plimsoll: GPU memory that is predicted";
EXPORTED const char plugin_type[] = "job_submit/plimsoll";
EXPORTED const uint32_t plugin_version = SLURM_VERSION_NUMBER;

/* Of libslurmfull, of which slurmctld is made; what it frees with xfree has to come from there. */
extern char *slurm_xstrdup(const char *);
extern void slurm_xfree(void **);
extern int slurm_env_array_append(char ***, const char *, const char *);
extern void slurm_info(const char *, ...) __attribute__((format(printf, 1, 2)));
extern int slurm_error(const char *, ...) __attribute__((format(printf, 1, 2)));

enum { FAILURES = 3, MOST_ANSWER = 1 << 20 };

/* slurmctld's one job at a time; the lock is for a version that would not. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static settings set;
static bool ready;        /* set is as plimsoll.conf has it */
static struct stat known; /* the file that was read */
static int failures;      /* of the daemon, in a row */
static int64_t rest_until;
static char answer[MOST_ANSWER];

/* Reads plimsoll.conf where it is another than before; what was right stays where the new one is wrong. */
static void refresh(void) {
    char path[1024], room[512];
    struct stat now;
    settings_path(path, sizeof path);
    if (stat(path, &now) != 0) memset(&now, 0, sizeof now);
    if (ready && now.st_ino == known.st_ino && now.st_size == known.st_size &&
        now.st_mtim.tv_sec == known.st_mtim.tv_sec && now.st_mtim.tv_nsec == known.st_mtim.tv_nsec)
        return;
    bool same = now.st_ino == known.st_ino && now.st_mtim.tv_sec == known.st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == known.st_mtim.tv_nsec && known.st_ino;
    if (same) return; /* wrong before, and not changed */
    known = now;
    text wrong = text_in(room, sizeof room);
    settings fresh;
    if (settings_read(&fresh, path, &wrong)) {
        set = fresh;
        ready = true;
        failures = 0;
        rest_until = 0;
        slurm_info("plimsoll: %s: %d kinds of cards, %lld ms", path, set.count,
                   (long long)set.deadline_ms);
    } else {
        slurm_error("plimsoll: %s; %s", room,
                    ready ? "what was read before stays" : "jobs pass unchecked");
    }
}

EXPORTED int init(void) {
    pthread_mutex_lock(&lock);
    refresh();
    pthread_mutex_unlock(&lock);
    return SLURM_SUCCESS;
}

EXPORTED int fini(void) {
    return SLURM_SUCCESS;
}

/* The value of a variable of an environment, or NULL. */
static const char *variable(char *const *environment, uint32_t size, const char *name) {
    size_t length = strlen(name);
    for (uint32_t i = 0; environment && i < size; i++)
        if (environment[i] && strncmp(environment[i], name, length) == 0 &&
            environment[i][length] == '=')
            return environment[i] + length + 1;
    return NULL;
}

static void drop_variable(job_desc_msg_t *job, const char *name) {
    size_t length = strlen(name);
    for (uint32_t i = 0; job->environment && i < job->env_size; i++) {
        char *one = job->environment[i];
        if (!one || strncmp(one, name, length) != 0 || one[length] != '=') continue;
        slurm_xfree((void **)&job->environment[i]);
        for (uint32_t j = i + 1; j < job->env_size; j++)
            job->environment[j - 1] = job->environment[j];
        job->environment[--job->env_size] = NULL;
        return;
    }
}

/* What is requested of plimsoll, from the nearest to the farthest: --plimsoll as the SPANK plugin hands it on, the comment, a
 * line of the script, the environment. */
static bool find_request(const job_desc_msg_t *job, const char **at, const char **end) {
    const char *handed = variable(job->spank_job_env, job->spank_job_env_size, HANDED_CONTROL);
    if (!handed && !request_of_comment(job->comment, at, end) &&
        !request_of_script(job->script, at, end))
        handed = variable(job->environment, job->env_size, HANDED_USER);
    else if (!handed)
        return true;
    if (!handed || !*handed) return false;
    *at = handed;
    *end = handed + strlen(handed);
    return true;
}

static bool at_most_one(uint32_t count) {
    return count == NO_VAL || count == INFINITE || count <= 1;
}

static demand demand_of(const job_desc_msg_t *job) {
    demand d = {0};
    d.readable = tres_read(&d.node, job->tres_per_node) && tres_read(&d.job, job->tres_per_job) &&
                 tres_read(&d.task, job->tres_per_task) &&
                 tres_read(&d.socket, job->tres_per_socket);
    bool few_tasks = at_most_one(job->num_tasks) &&
                     (job->ntasks_per_node == NO_VAL16 || job->ntasks_per_node <= 1);
    d.one_node = at_most_one(job->min_nodes) && at_most_one(job->max_nodes) && few_tasks;
    d.exclusive = job->shared == 0;
    d.per_gpu = job->cpus_per_tres || job->mem_per_tres || job->tres_bind || job->tres_freq ||
                (job->ntasks_per_tres && job->ntasks_per_tres != NO_VAL16 &&
                 job->ntasks_per_tres != INFINITE16);
    /* srun asks once more for its step's GPUs, by itself: only what comes with an environment is a batch job. */
    d.rewritable = job->env_size > 0 || job->script;
    return d;
}

static void replace(char **field, const char *value) {
    slurm_xfree((void **)field);
    if (value) *field = slurm_xstrdup(value);
}

static void rewrite(job_desc_msg_t *job, const demand *d, int64_t shards) {
    char room[1024];
    text list = text_in(room, sizeof room);
    bool by_job = !d->node.gpus;
    tres_write(job->tres_per_node, tres_form(by_job ? job->tres_per_job : job->tres_per_node),
               shards, &list);
    if (list.cut) return;
    replace(&job->tres_per_node, room);
    if (by_job) replace(&job->tres_per_job, NULL);
    /* Else srun in the job asks for them again. */
    drop_variable(job, "SLURM_GPUS");
    drop_variable(job, "SLURM_GPUS_PER_NODE");
}

/* Behind what other plugins have to say. */
static void tell(char **message, const char *what) {
    char room[4096];
    if (!*what) return;
    text all = text_in(room, sizeof room);
    text_add(&all, "%s%s%s", *message ? *message : "", *message ? "\n" : "", what);
    replace(message, room);
}

/* One line, of what decide has to say and how long that took. */
static void write_log(const decision *made, uint32_t uid, int64_t begin) {
    char line[1536];
    size_t length = strcspn(made->say, "\n");
    text log = text_in(line, sizeof line);
    static const char *const done[] = {
        [PASS] = "passes", [REWRITE] = "rewritten", [REFUSE] = "refused"};
    text_add(&log, "plimsoll: uid %u: %s", uid, done[made->action]);
    if (made->action == REWRITE) text_add(&log, " to shard:%lld", (long long)made->shards);
    if (made->log[0])
        text_add(&log, ": %s", made->log + strlen("plimsoll: "));
    else if (made->say[0])
        text_add(&log, ": %.*s", (int)(length - strlen("plimsoll: ")),
                 made->say + strlen("plimsoll: "));
    slurm_info("%s (%lld us)", line, (long long)(http_now() - begin) / 1000);
}

/* For slurmstepd, which reports what the job took: what SPANK did not hand on. A job without an environment (srun,
 * salloc) has no place for it. */
static void hand_on(job_desc_msg_t *job, const request *r) {
    char room[REQUEST_BODY];
    text words = text_in(room, sizeof room);
    if (!job->environment || !job->env_size ||
        variable(job->environment, job->env_size, HANDED_JOB))
        return;
    request_write(r, &words);
    if (!words.cut && slurm_env_array_append(&job->environment, HANDED_JOB, room)) job->env_size++;
}

/* What is decided of a job is in *made. */
static void consider(job_desc_msg_t *job, const demand *d, int64_t begin, decision *made) {
    const char *at, *end;
    request r;
    char room[512];
    text wrong = text_in(room, sizeof room), say = text_in(made->say, sizeof made->say);
    if (!find_request(job, &at, &end)) {
        decide(&set, d, NULL, NULL, made);
        return;
    }
    if (!decide_shards(&set, d, made)) return;
    if (!request_read(&r, at, end, &wrong)) {
        made->action = REFUSE;
        text_add(&say, "plimsoll: %s", room);
        return;
    }
    if (!request_is_digest(r.model)) {
        made->action = REFUSE;
        text_add(
            &say,
            "plimsoll: the controller cannot read the file '%.200s': say it with --plimsoll where the job is submitted, "
            "or name the model by its digest (sha256:...)",
            r.model);
        return;
    }
    if (!variable(job->spank_job_env, job->spank_job_env_size, HANDED_CONTROL)) hand_on(job, &r);
    if (begin < rest_until) {
        text log = text_in(made->log, sizeof made->log);
        text_add(
            &log,
            "plimsoll: the job passes unchecked: the daemon failed %d times, and is left alone for %lld ms",
            FAILURES, (long long)set.rest_ms);
        text_add(&say, "plimsoll: the job was not checked: the daemon does not answer");
        return;
    }
    asking a = {&set, begin + set.deadline_ms * 1000000, answer, sizeof answer};
    decide(&set, d, &r, &a, made);
    failures = made->failed ? failures + 1 : 0;
    if (failures == FAILURES) {
        failures = 0;
        rest_until = http_now() + set.rest_ms * 1000000;
    }
}

EXPORTED int job_submit(job_desc_msg_t *job, uint32_t uid, char **error) {
    static decision made; /* under the lock */
    int64_t begin = http_now();
    int outcome = SLURM_SUCCESS;
    pthread_mutex_lock(&lock);
    refresh();
    if (ready) {
        demand d = demand_of(job);
        memset(&made, 0, sizeof made);
        consider(job, &d, begin, &made);
        if (made.action == REWRITE) rewrite(job, &d, made.shards);
        if (made.action == REFUSE) outcome = ESLURM_INVALID_GRES;
        if (made.note[0] && !job->admin_comment && made.action != REFUSE)
            replace(&job->admin_comment, made.note);
        tell(error, made.say);
        if (made.note[0] || made.say[0] || made.log[0]) write_log(&made, uid, begin);
    }
    pthread_mutex_unlock(&lock);
    return outcome;
}

/* A change of a job that waits: shards above one GPU are refused here too. Where Slurm gives no place for words, they
 * stand in the log. */
static int modify(job_desc_msg_t *job, uint32_t uid, char **error) {
    int outcome = SLURM_SUCCESS;
    static decision made;
    int64_t begin = http_now();
    pthread_mutex_lock(&lock);
    refresh();
    if (ready) {
        demand d = demand_of(job);
        if (!decide_shards(&set, &d, &made)) {
            outcome = ESLURM_INVALID_GRES;
            if (error) tell(error, made.say);
            write_log(&made, uid, begin);
        }
    }
    pthread_mutex_unlock(&lock);
    return outcome;
}

struct job_record;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
EXPORTED int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t uid,
                        char **error) {
    (void)record;
    return modify(job, uid, error);
}
#else
EXPORTED int job_modify(job_desc_msg_t *job, struct job_record *record, uint32_t uid) {
    (void)record;
    return modify(job, uid, NULL);
}
#endif
