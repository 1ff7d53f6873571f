/* slurm_submit: asks a slurmctld over libslurm, a question per line of its input, and prints the microseconds that each took and its outcome:
 *     submit COMMENT   a held batch job of one GPU, with that comment (- for none)
 *     look JOB         one job's record, for which slurmctld takes the lock that submissions hold
 * It stands for many users' commands: of an sbatch most is its own start. For bench/slurm.py. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void submit(const char *comment) {
    static char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    job_desc_msg_t job;
    submit_response_msg_t *response = NULL;
    slurm_init_job_desc_msg(&job);
    job.name = "bench";
    job.script = "#!/bin/sh\ntrue\n";
    job.environment = environment;
    job.env_size = 1;
    job.work_dir = "/tmp";
    job.std_out = "/dev/null";
    job.user_id = getuid();
    job.group_id = getgid();
    job.min_nodes = job.max_nodes = 1;
    job.priority = 0;
    job.tres_per_node =
        SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0) ? "gres/gpu:1" : "gres:gpu:1";
    if (strcmp(comment, "-") != 0) job.comment = (char *)comment;
    long begin = now_us();
    int code = slurm_submit_batch_job(&job, &response);
    long took = now_us() - begin;
    printf("%ld %s %u\n", took, code ? slurm_strerror(slurm_get_errno()) : "ok",
           response ? response->job_id : 0);
    if (response) slurm_free_submit_response_response_msg(response);
}

static void look(unsigned id) {
    job_info_msg_t *jobs = NULL;
    long begin = now_us();
    int code = slurm_load_job(&jobs, id, 0);
    long took = now_us() - begin;
    printf("%ld %s %u\n", took, code ? slurm_strerror(slurm_get_errno()) : "ok", id);
    if (jobs) slurm_free_job_info_msg(jobs);
}

int main(void) {
    char line[4096];
    slurm_init(NULL);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "submit ", 7) == 0)
            submit(line + 7);
        else
            look((unsigned)atoi(line + 5));
        fflush(stdout);
    }
    return 0;
}
