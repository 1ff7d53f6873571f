/* spank: --plimsoll for srun, sbatch and salloc, and on the nodes what a job took of the cards' memory, told to the daemon
 * when it ends. As `required` in plugstack.conf it can refuse. */
#include <pthread.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "exported.h"
#include "handed.h"
#include "report.h"
#include "submit.h"

EXPORTED extern const char plugin_name[], plugin_type[];
EXPORTED extern const unsigned int plugin_version, spank_plugin_version;
SPANK_PLUGIN(plimsoll, 1)

static const uint32_t batch_step = 0xfffffffbu, extern_step = 0xfffffffcu;

static char wanted[4096]; /* --plimsoll's argument */
static settings set;
static report *reported; /* in slurmstepd */

static int take_option(int value, const char *argument, int remote) {
    (void)value;
    if (remote) return 0;
    if (!argument || strlen(argument) >= sizeof wanted) {
        slurm_error("plimsoll: --plimsoll=MODEL[,batch=..,..] is wanted");
        return -1;
    }
    memcpy(wanted, argument, strlen(argument) + 1);
    setenv(HANDED_OPTION, wanted, 1);
    return 0;
}

static struct spank_option plimsoll_option = {
    "plimsoll",
    "MODEL[,batch=N,..]",
    "what it trains: its GPU memory is predicted, and asked for as shards",
    1,
    0,
    take_option};

EXPORTED int slurm_spank_init(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    if (spank_context() == S_CTX_SLURMD || spank_context() == S_CTX_JOB_SCRIPT) return 0;
    return spank_option_register(spank, &plimsoll_option) == ESPANK_SUCCESS ? 0 : -1;
}

/* aloud: says what is wrong with them. */
static bool read_settings(bool aloud) {
    char path[1024], room[512];
    text wrong = text_in(room, sizeof room);
    settings_path(path, sizeof path);
    if (settings_read(&set, path, &wrong)) return true;
    if (aloud) slurm_error("plimsoll: %s", room);
    return false;
}

/* The request as it is handed on; false: there is none. wrong: the job is refused. */
static bool prepare(bool step, char *room, size_t size, bool *wrong) {
    const char *text_wanted = wanted[0] ? wanted : step ? NULL : getenv(HANDED_USER);
    const char *prepared = getenv(HANDED_REQUEST);
    text out = text_in(room, size);
    if (prepared) { /* by cli_filter */
        text_add(&out, "%s", prepared);
        return strcmp(prepared, HANDED_NONE) != 0;
    }
    if (!text_wanted || !*text_wanted || !read_settings(true)) return false;
    static request r;
    char words[1536];
    text say = text_in(words, sizeof words);
    submitted outcome = submit_request(&set, text_wanted, &r, &say);
    if (outcome == SUBMIT_READY && !step) outcome = submit_ask(&set, &r, &say);
    if (outcome == SUBMIT_WRONG) {
        slurm_error("plimsoll: %s", words);
        *wrong = true;
        return false;
    }
    /* A model that could not be posted is not one to ask about; of one that could, slurmctld says what becomes of it. */
    if (!request_is_digest(r.model)) {
        slurm_error("plimsoll: the job was not checked: %s", words);
        return false;
    }
    request_write(&r, &out);
    return true;
}

EXPORTED int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    bool local = spank_context() == S_CTX_LOCAL;
    if (!local && spank_context() != S_CTX_ALLOCATOR) return 0;
    char room[REQUEST_BODY];
    bool wrong = false;
    /* An option that stays in the environment would be taken by the next part of a heterogeneous job, and by jobs that this one
     * submits. */
    unsetenv("_SLURM_SPANK_OPTION_plimsoll_plimsoll");
    spank_job_control_unsetenv(spank, "_SLURM_SPANK_OPTION_plimsoll_plimsoll");
    bool step = local && getenv("SLURM_JOB_ID");
    if (prepare(step, room, sizeof room, &wrong)) {
        spank_job_control_setenv(spank, HANDED_CONTROL, room, 1);
        setenv(HANDED_JOB, room, 1);
    } else if (!step) {
        spank_job_control_unsetenv(spank, HANDED_CONTROL);
        unsetenv(HANDED_JOB);
    }
    unsetenv(HANDED_OPTION);
    unsetenv(HANDED_REQUEST);
    wanted[0] = 0;
    return wrong ? -1 : 0;
}

/* ---- on the nodes, in slurmstepd ---- */

static uint32_t number(spank_t spank, spank_item_t item) {
    uint32_t value = 0;
    return spank_get_item(spank, item, &value) == ESPANK_SUCCESS ? value : 0;
}

EXPORTED int slurm_spank_task_post_fork(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    uint32_t step = number(spank, S_JOB_STEPID);
    if (reported || step == extern_step) return 0;
    char handed[REQUEST_BODY] = "", cluster[128] = "", environment[32] = "";
    /* Where SPANK handed nothing on, the request may still stand in the job's environment. */
    if (spank_getenv(spank, HANDED_JOB, handed, sizeof handed) != ESPANK_SUCCESS)
        spank_getenv(spank, HANDED_USER, handed, sizeof handed);
    if (!handed[0] || !read_settings(true) || !set.report) return 0;
    spank_getenv(spank, "SLURM_CLUSTER_NAME", cluster, sizeof cluster);
    spank_getenv(spank, "ENVIRONMENT", environment, sizeof environment);
    report_job job = {.cluster = cluster, .request = handed, .id = number(spank, S_JOB_ID)};
    /* Of a batch job the script's end is the job's, of others each step's; of several nodes the first's. */
    bool part = step != batch_step && strcmp(environment, "BATCH") == 0;
    job.ends = !part && number(spank, S_JOB_NODEID) == 0;
    reported = report_open(&set, &job);
    return 0;
}

EXPORTED int slurm_spank_task_exit(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    int status = 0;
    if (reported && spank_get_item(spank, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS)
        report_exit(reported, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}

EXPORTED int slurm_spank_exit(spank_t spank, int count, char **arguments) {
    (void)spank, (void)count, (void)arguments;
    report_close(&reported);
    return 0;
}

/* The job's share of its GPU as PyTorch's own limit, before what the user has set. */
EXPORTED int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    static const char name[] = "PYTORCH_CUDA_ALLOC_CONF", limit[] = "per_process_memory_fraction";
    char shards[32] = "", before[1024] = "", after[1200];
    if (spank_getenv(spank, "SLURM_SHARDS_ON_NODE", shards, sizeof shards) != ESPANK_SUCCESS)
        return 0;
    if (!read_settings(false) || !set.protect) return 0;
    int64_t share, whole = settings_most_shards(&set, "");
    if (!text_whole(shards, shards + strlen(shards), false, &share) || !whole || share >= whole)
        return 0;
    spank_getenv(spank, name, before, sizeof before);
    if (strstr(before, limit)) return 0;
    text all = text_in(after, sizeof after);
    text_add(&all, "%s:%.4f%s%s", limit, (double)share / (double)whole, before[0] ? "," : "",
             before);
    if (!all.cut) spank_setenv(spank, name, after, 1);
    return 0;
}
