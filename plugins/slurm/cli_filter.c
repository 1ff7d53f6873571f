/* cli_filter/plimsoll: called by srun, salloc and sbatch when their options are read. srun asks for GPUs twice, for the job and
 * again for its step, so that only here both can become shards; and here a job that fits nothing is refused before slurmctld
 * hears of it. It leaves steps of a job alone. */
#include <errno.h> /* program_invocation_short_name */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>

#include "exported.h"
#include "handed.h"
#include "submit.h"

EXPORTED const char plugin_name[] = "plimsoll: GPU memory that is predicted";
EXPORTED const char plugin_type[] = "cli_filter/plimsoll";
EXPORTED const uint32_t plugin_version = SLURM_VERSION_NUMBER;

/* Of libslurmfull: what cli_filter/lua uses. */
typedef struct slurm_options slurm_options;
extern char *slurm_option_get(slurm_options *, const char *);
extern int slurm_option_set(slurm_options *, const char *, const char *, bool);
extern bool slurm_option_isset(slurm_options *, const char *);
extern bool slurm_option_reset(slurm_options *, const char *);
extern void slurm_xfree(void **);
extern void slurm_info(const char *, ...) __attribute__((format(printf, 1, 2)));
extern int slurm_error(const char *, ...) __attribute__((format(printf, 1, 2)));

EXPORTED int init(void) {
    return SLURM_SUCCESS;
}

EXPORTED int fini(void) {
    return SLURM_SUCCESS;
}

EXPORTED int cli_filter_p_setup_defaults(slurm_options *options, bool early) {
    (void)options, (void)early;
    return SLURM_SUCCESS;
}

EXPORTED void cli_filter_p_post_submit(int offset, uint32_t job, uint32_t step) {
    (void)offset, (void)job, (void)step;
}

/* An option's value in room; false: it was not given, or is longer. */
static bool option(slurm_options *options, const char *name, char *room, size_t size) {
    room[0] = 0;
    if (!slurm_option_isset(options, name)) return false;
    char *value = slurm_option_get(options, name);
    bool right = value && strlen(value) < size;
    if (right) memcpy(room, value, strlen(value) + 1);
    slurm_xfree((void **)&value);
    return right;
}

/* --gpus and its like: "h200:2" */
static bool read_count(slurm_options *options, const char *name, tres *out) {
    char value[256], list[300];
    option(options, name, value, sizeof value);
    text item = text_in(list, sizeof list);
    if (value[0]) text_add(&item, "gpu:%s", value);
    return tres_read(out, list);
}

/* Given, and something else than one. */
static bool several(slurm_options *options, const char *name) {
    char value[64];
    return option(options, name, value, sizeof value) && strcmp(value, "1") != 0 &&
           strcmp(value, "1-1") != 0;
}

static demand demand_of(slurm_options *options) {
    static const char *const per_gpu[] = {"cpus-per-gpu",   "mem-per-gpu",   "gpu-bind", "gpu-freq",
                                          "ntasks-per-gpu", "tres-per-task", "tres-bind"};
    demand d = {.rewritable = true};
    char gres[512], exclusive[64];
    bool whole = option(options, "gres", gres, sizeof gres) || !slurm_option_isset(options, "gres");
    tres per_node = {0};
    d.readable =
        whole && tres_read(&d.node, gres) && read_count(options, "gpus-per-node", &per_node) &&
        read_count(options, "gpus", &d.job) && read_count(options, "gpus-per-task", &d.task) &&
        read_count(options, "gpus-per-socket", &d.socket);
    d.node.gpus += per_node.gpus;
    d.node.gpu_items += per_node.gpu_items;
    if (per_node.type[0]) memcpy(d.node.type, per_node.type, sizeof per_node.type);
    if (strchr(gres, ',')) d.node.others = true; /* only a list of one item is written anew here */
    d.one_node = !several(options, "nodes") && !several(options, "ntasks") &&
                 !several(options, "ntasks-per-node");
    option(options, "exclusive", exclusive, sizeof exclusive);
    d.exclusive = strcmp(exclusive, "exclusive") == 0 || strcmp(exclusive, "set") == 0;
    for (size_t i = 0; i < sizeof per_gpu / sizeof *per_gpu; i++)
        d.per_gpu |= slurm_option_isset(options, per_gpu[i]);
    return d;
}

static void say_lines(bool wrong, const char *words) {
    while (*words) {
        int length = (int)strcspn(words, "\n");
        if (wrong)
            slurm_error("%.*s", length, words);
        else
            slurm_info("%.*s", length, words);
        words += length + (words[length] == '\n');
    }
}

/* --plimsoll's argument, the comment, or PLIMSOLL_JOB; false: nothing is requested. */
static bool find_wanted(slurm_options *options, text *out) {
    const char *wanted = getenv(HANDED_OPTION), *at, *end;
    char comment[2048];
    if (wanted) {
        text_add(out, "%s", wanted);
    } else if (option(options, "comment", comment, sizeof comment) &&
               request_of_comment(comment, &at, &end)) {
        text_add(out, "%.*s", (int)(end - at), at);
    } else if ((wanted = getenv(HANDED_USER))) {
        text_add(out, "%s", wanted);
    }
    return out->length && !out->cut;
}

static void take_shards(slurm_options *options, int64_t shards) {
    char list[64];
    text gres = text_in(list, sizeof list);
    text_add(&gres, "shard:%lld", (long long)shards);
    slurm_option_reset(options, "gpus");
    slurm_option_reset(options, "gpus-per-node");
    slurm_option_reset(options, "gres");
    slurm_option_set(options, "gres", list, false);
}

EXPORTED int cli_filter_p_pre_submit(slurm_options *options, int offset) {
    (void)offset;
    char path[1024], wanted[4096], words[1536];
    text asked = text_in(wanted, sizeof wanted), say = text_in(words, sizeof words);
    unsetenv(HANDED_REQUEST);
    if (getenv("SLURM_JOB_ID") && strcmp(program_invocation_short_name, "srun") == 0)
        return SLURM_SUCCESS;
    static settings s;
    static request r;
    static decision made;
    if (!find_wanted(options, &asked)) return SLURM_SUCCESS;
    settings_path(path, sizeof path);
    if (!settings_read(&s, path, &say)) {
        slurm_error("plimsoll: %s", words);
        return SLURM_SUCCESS; /* the site's fault, not the job's */
    }
    submitted outcome = submit_request(&s, wanted, &r, &say);
    if (outcome == SUBMIT_READY) {
        demand d = demand_of(options);
        char handed[REQUEST_BODY];
        text request = text_in(handed, sizeof handed);
        request_write(&r, &request);
        setenv(HANDED_REQUEST, handed, 1);
        outcome = submit_decide(&s, &d, &r, &made);
        if (made.action == REWRITE) take_shards(options, made.shards);
        if (made.action == REWRITE || made.action == REFUSE || outcome == SUBMIT_WRONG)
            say_lines(made.action == REFUSE || outcome == SUBMIT_WRONG, made.say);
        if (made.action == REFUSE) return SLURM_ERROR;
    } else if (outcome == SUBMIT_WRONG) {
        slurm_error("plimsoll: %s", words);
    } else {
        slurm_error("plimsoll: the job was not checked: %s", words);
        setenv(HANDED_REQUEST, HANDED_NONE, 1);
    }
    return outcome == SUBMIT_WRONG ? SLURM_ERROR : SLURM_SUCCESS;
}
