/* train: a learned estimator, trained on measured jobs. What it learnt goes into a file for
 * --model (docs/formats.md); the command line goes with it, so that the file says how it came
 * about. The jobs held out only decide when to stop, and the figures of them are printed; what an
 * estimator is worth on models it has not seen is evaluate's to say, with --split. */
#include <unistd.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "core/number.h"
#include "curve.h"
#include "progress.h"
#include "text.h"
#include "verbs.h"

static int check_request(const request *r, const pl_estimator_info **info) {
    *info = pl_estimator_find(r->file);
    if (!*info) return unknown_name("train", "estimator", learner_name, r->file);
    if (!(*info)->learns) {
        char list[1024];
        list_names(list, sizeof list, learner_name);
        return complain(PL_USAGE, "train: %s does not learn; these do: %s", r->file, list);
    }
    if (r->jobs.count == 0)
        return complain(PL_USAGE, "train needs --jobs FILE, the measured jobs to learn from");
    if (!r->out)
        return complain(PL_USAGE, "train needs --out FILE, where to write what was learnt");
    /* Before hours of training, not after. */
    char folder[4096];
    const char *slash = strrchr(r->out, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - r->out + 1) : 1,
             slash ? r->out : ".");
    if (access(folder, W_OK) != 0)
        return complain(PL_MISSING, "--out: cannot write to %s: %s", folder, strerror(errno));
    if ((*info)->needs_graph && !r->graphs.count && !r->described)
        return complain(PL_USAGE, "train: %s needs --graphs DIR, the folder of the jobs' graphs",
                        r->file);
    return 0;
}

static void show_reading(size_t done, size_t total, void *context) {
    (void)context;
    progress_total(total);
    progress_at(done);
}

static void show_epoch(const pl_train_point *point, void *context) {
    char note[128];
    size_t used = 0;
    curve_add(context, point);
    progress_total((size_t)(point->epochs > 0 ? point->epochs : 0));
    progress_at((size_t)(point->epoch > 0 ? point->epoch : 0));
    note[0] = '\0';
    if (isfinite(point->train_loss))
        used = (size_t)snprintf(note, sizeof note, "loss %s", PL_REAL(".4g", point->train_loss));
    if (isfinite(point->valid_loss))
        snprintf(note + used, sizeof note - used, "%svalidation %s", used ? ", " : "",
                 PL_REAL(".4g", point->valid_loss));
    progress_note(note);
}

static int open_jobs(pl_jobs **jobs, const request *r) {
    pl_jobs_settings settings;
    pl_error err = PL_SIZED(pl_error);
    pl_jobs_settings_default(&settings);
    settings.limits = &r->limits;
    settings.more_graphs = r->graphs.names;
    settings.more_graph_count = r->graphs.count;
    settings.described = r->described;
    settings.gpu = r->job.gpu;
    settings.progress = show_reading;
    progress_start("reading", 0);
    pl_status status = pl_jobs_open(jobs, r->jobs.names, r->jobs.count, &settings, &err);
    progress_stop();
    return status == PL_OK ? 0 : complain_of(&err, err.where[0] ? NULL : r->jobs.names[0]);
}

static int train_weights(pl_weights **weights, const pl_jobs *jobs, const request *r,
                         const char *estimator, const char *command, curve *losses) {
    pl_train_settings settings;
    pl_error err = PL_SIZED(pl_error);
    char label[96];
    pl_train_settings_default(&settings);
    settings.estimator = estimator;
    settings.target = r->target;
    if (r->set) settings.options = r->set;
    settings.seed = r->seed;
    settings.split = r->split;
    if (r->hold_out >= 0) settings.hold_out = r->hold_out;
    settings.bin_bytes = r->bin << 20;
    settings.command = command;
    settings.progress = show_epoch;
    settings.progress_context = losses;
    snprintf(label, sizeof label, "training %s", estimator);
    progress_start(label, 0);
    pl_status status = pl_train(weights, jobs, &settings, &err);
    progress_stop();
    return status == PL_OK ? 0 : complain_of(&err, NULL);
}

static int last_epoch(const curve *losses) {
    int last = 0;
    for (size_t i = 0; i < losses->count; i++)
        if (losses->points[i].epoch > last) last = losses->points[i].epoch;
    return last;
}

static void print_text(const request *r, const pl_weights_info *info, const curve *losses) {
    const pl_train_point *best = curve_best(losses);
    printf("%s%s%s, learnt from %" PRId64 " jobs, seed %" PRIu64 ", is in ", text_style(BOLD),
           info->estimator, text_style(PLAIN), info->rows, info->seed);
    text_clean(stdout, r->out);
    putchar('\n');
    if (best) {
        printf("epoch %d of %d", best->epoch, last_epoch(losses));
        if (isfinite(best->valid_loss))
            printf(" is the best: loss %s on what was held out", PL_REAL(".4g", best->valid_loss));
        if (isfinite(best->train_loss))
            printf(", %s on what was learnt from", PL_REAL(".4g", best->train_loss));
        putchar('\n');
    }
    printf("how it does on what it has not seen: plimsoll evaluate ");
    for (size_t i = 0; i < r->jobs.count; i++) {
        text_clean(stdout, r->jobs.names[i]);
        putchar(' ');
    }
    for (size_t i = 0; i < r->graphs.count; i++) {
        fputs("--graphs ", stdout);
        text_clean(stdout, r->graphs.names[i]);
        putchar(' ');
    }
    if (r->described) fputs("--described ", stdout);
    if (r->target) printf("--target %s ", r->target);
    printf("--estimator %s --split model\n", info->estimator);
}

static void print_json(const request *r, const pl_weights_info *info, const curve *losses) {
    const pl_train_point *best = curve_best(losses);
    char seed[32];
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_string(&j, "estimator", info->estimator);
    pl_json_put_string(&j, "file", r->out);
    pl_json_put_string(&j, "target", info->target);
    pl_json_put_string(&j, "options", info->options);
    pl_json_put_string(&j, "command", info->command);
    pl_json_put_string(&j, "data", info->data);
    snprintf(seed, sizeof seed, "%" PRIu64, info->seed);
    if (info->seed < UINT64_C(1) << 53)
        pl_json_put_raw(&j, "seed", seed);
    else
        pl_json_put_string(&j, "seed", seed); /* more than JSON readers take for a whole number */
    pl_json_put_count(&j, "rows", info->rows);
    if (best) {
        pl_json_put_int(&j, "best_epoch", best->epoch);
        pl_json_put_real(&j, "train_loss", best->train_loss);
        pl_json_put_real(&j, "valid_loss", best->valid_loss);
    } else {
        pl_json_put_string(&j, "best_epoch", NULL);
        pl_json_put_string(&j, "train_loss", NULL);
        pl_json_put_string(&j, "valid_loss", NULL);
    }
    pl_json_put_open(&j, "curve", '[');
    for (size_t i = 0; i < losses->count; i++) {
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_int(&j, "epoch", losses->points[i].epoch);
        pl_json_put_real(&j, "train_loss", losses->points[i].train_loss);
        pl_json_put_real(&j, "valid_loss", losses->points[i].valid_loss);
        pl_json_put_close(&j, '}');
    }
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    putchar('\n');
}

int verb_train(const request *r) {
    const pl_estimator_info *info;
    pl_jobs *jobs = NULL;
    pl_weights *weights = NULL;
    pl_error err = PL_SIZED(pl_error);
    curve losses = {0};
    int code = check_request(r, &info);
    if (code) return code;
    char *command = options_command(r);
    code = open_jobs(&jobs, r);
    size_t bare = code == 0 ? pl_jobs_without_layers(jobs) : 0;
    if (bare && !info->needs_graph)
        complain(0,
                 "warning: of %zu of the %zu jobs no layer is known: give --graphs DIR, the folder "
                 "of their graphs",
                 bare, pl_jobs_count(jobs));
    if (code == 0) code = train_weights(&weights, jobs, r, info->name, command, &losses);
    if (code == 0 && pl_weights_save(weights, r->out, &err) != PL_OK)
        code = complain_of(&err, r->out);
    if (code == 0 && r->curve && losses.count == 0)
        complain(0, "--curve: %s learns in one go, there is no curve to draw", info->name);
    else if (code == 0 && r->curve)
        code = curve_write(&losses, r->curve, info->name);
    if (code == 0 && r->json)
        print_json(r, pl_weights_describe(weights), &losses);
    else if (code == 0)
        print_text(r, pl_weights_describe(weights), &losses);
    curve_free(&losses);
    free(command);
    pl_weights_close(&weights);
    pl_jobs_close(&jobs);
    return code;
}
