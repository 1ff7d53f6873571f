/* slurm_job: job_submit/plimsoll as slurmctld calls it, with a slurmctld that is not: what becomes of a job's description, under
 * whichever sanitizer this is built with; whole jobs, then jobs whose texts are damaged from a seed. Needs slurm.h alone. */
#include "check.h"

#include <stdarg.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "decide.h"
#include "fuzz.h"
#include "json.h"
#include "slurm_fake.h"

/* ---- the plugin's and slurmctld's ---- */

int init(void);
int job_submit(job_desc_msg_t *job, uint32_t uid, char **error);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
int job_modify(job_desc_msg_t *job, void *record, uint32_t uid, char **error);
#define MODIFY(job) job_modify(job, NULL, 0, NULL)
#else
int job_modify(job_desc_msg_t *job, void *record, uint32_t uid);
#define MODIFY(job) job_modify(job, NULL, 0)
#endif

char *slurm_xstrdup(const char *words);
void slurm_xfree(void **block);
int slurm_env_array_append(char ***environment, const char *name, const char *value);
void slurm_info(const char *format, ...);
int slurm_error(const char *format, ...);

static char last_line[2048];

char *slurm_xstrdup(const char *words) {
    return words ? strdup(words) : NULL;
}

void slurm_xfree(void **block) {
    free(*block);
    *block = NULL;
}

int slurm_env_array_append(char ***environment, const char *name, const char *value) {
    size_t count = 0;
    while ((*environment)[count]) count++;
    char **longer = realloc(*environment, (count + 2) * sizeof *longer);
    if (!longer) return 0;
    size_t size = strlen(name) + strlen(value) + 2;
    longer[count] = malloc(size);
    snprintf(longer[count], size, "%s=%s", name, value);
    longer[count + 1] = NULL;
    *environment = longer;
    return 1;
}

__attribute__((format(printf, 1, 2))) void slurm_info(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_line, sizeof last_line, format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 1, 2))) int slurm_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_line, sizeof last_line, format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- jobs ---- */

static void add(char ***list, uint32_t *count, const char *words) {
    char **longer = realloc(*list, (*count + 2) * sizeof *longer);
    if (!longer) abort();
    *list = longer;
    longer[(*count)++] = strdup(words);
    longer[*count] = NULL;
}

/* A batch job as slurmctld unpacks one; words: NULL for none. */
static job_desc_msg_t *job_of(const char *tres, const char *comment, const char *script,
                              const char *variable, const char *handed) {
    job_desc_msg_t *job = calloc(1, sizeof *job);
    if (!job) abort();
    job->min_nodes = job->max_nodes = job->num_tasks = NO_VAL;
    job->ntasks_per_node = job->ntasks_per_tres = job->shared = NO_VAL16;
    job->tres_per_node = slurm_xstrdup(tres);
    job->comment = slurm_xstrdup(comment);
    job->script = slurm_xstrdup(script ? script : "#!/bin/sh\ntrue\n");
    add(&job->environment, &job->env_size, "PATH=/bin");
    add(&job->environment, &job->env_size, "SLURM_GPUS_PER_NODE=1");
    add(&job->environment, &job->env_size, "SLURM_GPUS=1");
    if (variable) add(&job->environment, &job->env_size, variable);
    if (handed) add(&job->spank_job_env, &job->spank_job_env_size, handed);
    return job;
}

static void job_free(job_desc_msg_t *job) {
    for (uint32_t i = 0; i < job->env_size; i++) free(job->environment[i]);
    for (uint32_t i = 0; i < job->spank_job_env_size; i++) free(job->spank_job_env[i]);
    free(job->environment);
    free(job->spank_job_env);
    free(job->tres_per_node);
    free(job->tres_per_job);
    free(job->comment);
    free(job->script);
    free(job->admin_comment);
    free(job);
}

static const char *variable_of(const job_desc_msg_t *job, const char *name) {
    for (uint32_t i = 0; i < job->env_size; i++)
        if (strncmp(job->environment[i], name, strlen(name)) == 0) return job->environment[i];
    return NULL;
}

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char fitting[] = FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "fits",
                                            FAKE_GB("39"), FAKE_GB("40"));
static const char hopeless[] = FAKE_ESTIMATE(FAKE_GB("80"), FAKE_GB("79"), FAKE_GB("81"),
                                             "does not fit", FAKE_GB("39"), FAKE_GB("40"));
static const char *given_answer = fitting;

static void answers(int fd) {
    fake_answer(fd, 200, given_answer);
}

static char folder[64];
static fake daemon_;

static void write_conf(const char *more) {
    char path[128];
    snprintf(path, sizeof path, "%s/plimsoll.conf", folder);
    FILE *file = fopen(path, "w");
    if (!file) abort();
    fprintf(
        file,
        "daemon = %s/sock\ncard = h200 shards=40 reserve=0MiB\ndeadline-ms = 1000\nrest-ms = 0\n%s",
        folder, more);
    fclose(file);
}

static void a_job_becomes_shards(void) {
    static const char *const rows[][4] = {
        {"plimsoll:" DIGEST, NULL, NULL, NULL},
        {NULL, "#!/bin/sh\n# plimsoll: model=" DIGEST " batch=3\ntrue\n", NULL, NULL},
        {NULL, NULL, "PLIMSOLL_JOB=" DIGEST, NULL},
        {"my job", NULL, NULL, "PLIMSOLL=model=" DIGEST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *error = NULL;
        job_desc_msg_t *job = job_of("gres:gpu:1", rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
        CHECK_INT(job_submit(job, 1000, &error), SLURM_SUCCESS);
        CHECK_STR(job->tres_per_node, "gres:shard:20");
        CHECK(error && strstr(error, "shard:20 in place of gpu:1"));
        CHECK(job->admin_comment && strstr(job->admin_comment, "\"peak_bytes\":20000000000"));
        CHECK(!variable_of(job, "SLURM_GPUS"));
        CHECK(!variable_of(job, "SLURM_GPUS_PER_NODE"));
        CHECK(rows[i][3] || variable_of(job, "SLURM_SPANK_PLIMSOLL=model=" DIGEST));
        CHECK(strstr(last_line, "rewritten to shard:20") != NULL);
        free(error);
        job_free(job);
    }
    char *error = strdup("another plugin's words");
    job_desc_msg_t *job = job_of(NULL, "plimsoll:" DIGEST, NULL, NULL, NULL);
    job->tres_per_job = slurm_xstrdup("gres/gpu:1");
    job->admin_comment = slurm_xstrdup("an operator's");
    CHECK_INT(job_submit(job, 1000, &error), SLURM_SUCCESS);
    CHECK_STR(job->tres_per_node, "gres/shard:20");
    CHECK(!job->tres_per_job);
    CHECK_STR(job->admin_comment, "an operator's");
    CHECK(error && strstr(error, "another plugin's words\nplimsoll: fits"));
    free(error);
    job_free(job);
}

static void a_job_is_refused(void) {
    static const char *const rows[][3] = {
        {"gres:gpu:1", "plimsoll:" DIGEST, "does not fit"},
        {"gres:shard:41", NULL, "more than the 40 of one GPU"},
        {"gres:gpu:1", "plimsoll:model.pt2", "the controller cannot read the file 'model.pt2'"},
        {"gres:gpu:1", "plimsoll:" DIGEST ",batch=0", "a whole number"},
        {"gres:gpu:1", "plimsoll:", "no model"},
    };
    given_answer = hopeless;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *error = NULL;
        job_desc_msg_t *job = job_of(rows[i][0], rows[i][1], NULL, NULL, NULL);
        CHECK_INT(job_submit(job, 1000, &error), ESLURM_INVALID_GRES);
        CHECK_STR(job->tres_per_node, rows[i][0]);
        CHECK(error && strstr(error, rows[i][2]));
        free(error);
        job_free(job);
    }
    given_answer = fitting;
    job_desc_msg_t *job = job_of("gres:shard:41", NULL, NULL, NULL, NULL);
    CHECK_INT(MODIFY(job), ESLURM_INVALID_GRES);
    job_free(job);
}

static void what_needs_nothing_is_not_touched(void) {
    char *error = NULL;
    job_desc_msg_t *job = job_of("gres:gpu:1", "my job", NULL, NULL, NULL);
    last_line[0] = 0;
    CHECK_INT(job_submit(job, 1000, &error), SLURM_SUCCESS);
    CHECK(!error && !job->admin_comment && !last_line[0]);
    CHECK_STR(job->tres_per_node, "gres:gpu:1");
    CHECK_INT(job->env_size, 3);
    CHECK_INT(MODIFY(job), SLURM_SUCCESS);
    job_free(job);
    /* srun's: its step asks again for what it asked. */
    job = job_of("gres:gpu:1", "plimsoll:" DIGEST, NULL, NULL, NULL);
    for (uint32_t i = 0; i < job->env_size; i++) free(job->environment[i]);
    free(job->environment);
    slurm_xfree((void **)&job->script);
    job->environment = NULL;
    job->env_size = 0;
    CHECK_INT(job_submit(job, 1000, &error), SLURM_SUCCESS);
    CHECK_STR(job->tres_per_node, "gres:gpu:1");
    CHECK(job->admin_comment != NULL);
    free(error);
    job_free(job);
}

/* Three failures in a row: nobody is asked any more until the rest is over. */
static void a_daemon_that_fails_is_left_alone(void) {
    fake_close(&daemon_);
    write_conf("rest-ms = 600000\n# longer than before\n");
    for (int i = 0; i < 5; i++) {
        char *error = NULL;
        job_desc_msg_t *job = job_of("gres:gpu:1", "plimsoll:" DIGEST, NULL, NULL, NULL);
        CHECK_INT(job_submit(job, 1000, &error), SLURM_SUCCESS);
        CHECK_STR(job->tres_per_node, "gres:gpu:1");
        CHECK(error && strstr(error, "was not checked"));
        CHECK_INT(strstr(last_line, "left alone") != NULL, i >= 3);
        free(error);
        job_free(job);
    }
    http_place place;
    fake_open(&daemon_, &place, folder, answers);
    write_conf("# another size\n");
}

static const char *const tokens[] = {"gres:",     "gres/",       "gpu",
                                     "shard:",    ":",           ",",
                                     "=",         "-1",          "99999999999999999999",
                                     "plimsoll:", "# plimsoll:", "model=",
                                     "sha256:",   "\"",          "\n",
                                     "batch=",    "\xff",        "%s%n",
                                     " "};

/* Whatever the texts: a job passes, or is refused with words. */
static void damaged_jobs_pass_or_are_refused(void) {
    static const char *const seeds[] = {
        "gres:nic:1,gres:gpu:h200:1", "plimsoll:" DIGEST ",batch=3,alloc_conf=\"a:1,b:2\"",
        "#!/bin/sh\n#SBATCH -n1\n# plimsoll: model=" DIGEST " batch=3\ntrue\n",
        "PLIMSOLL_JOB=" DIGEST ",seq=4", "PLIMSOLL=model=" DIGEST ",checkpoint"};
    int refused = 0, rewritten = 0;
    for (int i = 0; i < 4000; i++) {
        char words[5][1024];
        const char *given[5];
        for (size_t k = 0; k < 5; k++) {
            size_t size = strlen(seeds[k]);
            memcpy(words[k], seeds[k], size);
            if (below(3) == 0)
                fuzz_damage((unsigned char *)words[k], &size, 900, tokens,
                            sizeof tokens / sizeof *tokens);
            words[k][size] = 0;
            given[k] = k && below(2) ? NULL : words[k];
        }
        char *error = NULL;
        job_desc_msg_t *job = job_of(given[0], given[1], given[2], given[3], given[4]);
        int code = job_submit(job, 1000, &error);
        CHECK(code == SLURM_SUCCESS || (code == ESLURM_INVALID_GRES && error && error[0]));
        refused += code != SLURM_SUCCESS;
        rewritten += code == SLURM_SUCCESS && job->tres_per_node &&
                     strcmp(job->tres_per_node, words[0]) != 0;
        CHECK(!job->admin_comment ||
              json_check(
                  (json){job->admin_comment, job->admin_comment + strlen(job->admin_comment)}));
        free(error);
        job_free(job);
    }
    printf("# 4000 damaged jobs: %d refused, %d rewritten\n", refused, rewritten);
    CHECK(refused > 100 && rewritten > 100);
}

int main(void) {
    snprintf(folder, sizeof folder, "/tmp/plimsoll-slurm.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    alarm(300);
    char conf[128];
    snprintf(conf, sizeof conf, "%s/plimsoll.conf", folder);
    setenv("PLIMSOLL_SLURM_CONF", conf, 1);
    write_conf("");
    http_place place;
    fake_open(&daemon_, &place, folder, answers);
    CHECK_INT(init(), SLURM_SUCCESS);
    RUN(a_job_becomes_shards);
    RUN(a_job_is_refused);
    RUN(what_needs_nothing_is_not_touched);
    RUN(a_daemon_that_fails_is_left_alone);
    RUN(damaged_jobs_pass_or_are_refused);
    fake_close(&daemon_);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 1;
    return check_done();
}
