/* evaluate: estimators against measured jobs. The jobs and their graphs are read once, then each
 * estimator is run, with --split trained anew for each fold. Files are written before anything is
 * printed, so that a path that cannot be written fails without half an answer. An estimator that
 * fails does not take the others with it: it is left out and the reason reported; where it was asked
 * for by name, the exit code says so too. Where a limit cut off any job, figures are over those that
 * happened to be done: the exit code is the limit's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "comparison.h"
#include "progress.h"
#include "verbs.h"

enum { MOST_TARGETS = 16 };

/* ---- who is asked ---- */

static void add_contender(comparison *c, const pl_estimator_info *info) {
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].info == info) return;
    c->list[c->count++].info = info;
}

/* The estimator of a name that options.c has found in the list, whatever its case. */
static const pl_estimator_info *find_estimator(const char *name, size_t length) {
    const pl_estimator_info *info;
    for (size_t i = 0; (info = pl_estimator_at(i)); i++)
        if (strlen(info->name) == length && strncasecmp(info->name, name, length) == 0) return info;
    return NULL;
}

/* Fills the list from --estimator, from --model, or with the default. *all: the word itself was
 * given. */
static void gather(comparison *c, const request *r, bool *all) {
    const char *names = r->estimator ? r->estimator : r->job.estimator;
    size_t most = 0;
    while (pl_estimator_at(most)) most++;
    c->list = need(most, sizeof *c->list);
    *all = false;
    for (const char *at = names; *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        const pl_estimator_info *info = find_estimator(at, length);
        if (info) add_contender(c, info);
        *all = *all || (length == 3 && strncasecmp(at, "all", 3) == 0);
        at += length;
    }
    for (size_t i = 0; *all && i < most; i++) add_contender(c, pl_estimator_at(i));
}

static bool any_of(const comparison *c, bool (*ask)(const pl_estimator_info *)) {
    for (size_t i = 0; i < c->count; i++)
        if (ask(c->list[i].info)) return true;
    return false;
}

static bool learns(const pl_estimator_info *info) {
    return info->learns;
}
static bool needs_no_graph(const pl_estimator_info *info) {
    return !info->needs_graph;
}

/* What can be seen to be wrong before anything is read. */
static int check_request(const comparison *c, const request *r) {
    char list[1024];
    if (r->split != PL_SPLIT_NONE && r->job.weights)
        return complain(PL_USAGE,
                        "--split trains anew, --model brings what was trained: one of them");
    if (r->split != PL_SPLIT_NONE && !any_of(c, learns)) {
        list_names(list, sizeof list, learner_name);
        return complain(PL_USAGE,
                        "--split: %s does not learn, there is nothing to train; these do: %s",
                        c->count == 1 ? c->list[0].info->name : "what is named", list);
    }
    if (r->split == PL_SPLIT_NONE && (r->set || r->folds))
        return complain(PL_USAGE, "--%s is of training, and nothing is trained without --split",
                        r->set ? "set" : "folds");
    if (r->job.weights) {
        const char *of = pl_weights_describe(r->job.weights)->estimator;
        bool found = false;
        for (size_t i = 0; i < c->count; i++)
            found = found || strcmp(c->list[i].info->name, of) == 0;
        if (!found)
            return complain(PL_USAGE,
                            "--model: %s holds what %s has learnt, which --estimator does "
                            "not name",
                            r->model, of);
    }
    if (!r->graphs.count && !r->described && !any_of(c, needs_no_graph))
        return complain(PL_USAGE, "evaluate needs --graphs DIR, the folder of the jobs' graphs%s%s",
                        c->count == 1 ? ", for estimator " : "",
                        c->count == 1 ? c->list[0].info->name : "");
    return 0;
}

/* ---- running ---- */

static void show_progress(size_t done, size_t total, void *context) {
    (void)context;
    progress_total(total);
    progress_at(done);
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
    settings.threads = (int)r->threads;
    settings.progress = show_progress;
    progress_start("reading", 0);
    pl_status status = pl_jobs_open(jobs, r->files.names, r->files.count, &settings, &err);
    progress_stop();
    if (status == PL_OK) return 0;
    return complain_of(&err, err.where[0] ? NULL : r->file);
}

static size_t estimated(const pl_evaluation *e) {
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) count += trial_counts(pl_evaluation_trial(e, i));
    return count;
}

/* Why an evaluation has no figure at all. */
static void no_estimates(char *out, size_t size, const contender *of, const request *r) {
    const pl_evaluation *e = of->evaluation;
    bool folder = r->graphs.count == 1;
    if (trials_unmeasured(e) == e->count)
        snprintf(out, size, "none of its %zu jobs has a measured %s", e->count, e->target);
    else if (of->info->needs_graph && trials_without_graph(e) == e->count)
        snprintf(out, size,
                 "none of its %zu jobs has a graph%s%s; the graph of job ID is looked for as "
                 "ID.pt2, ID.json, ID.pt2.xz or ID.json.xz",
                 e->count, folder ? " in " : "", folder ? r->graphs.names[0] : "");
    else
        snprintf(out, size, "none of its %zu jobs could be estimated", e->count);
}

/* Evaluates one; where that fails, of->left_out says why. Returns an exit code. */
static int run(contender *of, const comparison *c, const pl_jobs *jobs, size_t number) {
    const request *r = c->request;
    pl_evaluate_settings settings;
    pl_error err = PL_SIZED(pl_error);
    char label[96], reason[1024];
    pl_evaluate_settings_default(&settings);
    settings.estimator = of->info->name;
    if (r->job.weights &&
        strcmp(pl_weights_describe(r->job.weights)->estimator, of->info->name) == 0)
        settings.weights = r->job.weights;
    settings.target = c->target;
    settings.split = r->split;
    if (r->folds) settings.folds = (int)r->folds;
    if (r->set) settings.options = r->set;
    settings.seed = r->seed;
    settings.bin_bytes = r->bin << 20;
    settings.threads = (int)r->threads;
    settings.progress = show_progress;
    snprintf(label, sizeof label, c->count > 1 ? "%s (%zu of %zu)" : "%s", of->info->name, number,
             c->count);
    progress_start(label, 0);
    pl_status status = pl_evaluate(&of->evaluation, jobs, &settings, &err);
    progress_stop();
    if (status != PL_OK) {
        if (c->count == 1) complain_of(&err, NULL);
        of->left_out = need_string(err.message);
        return (int)status;
    }
    if (estimated(of->evaluation) > 0) return 0;
    no_estimates(reason, sizeof reason, of, r);
    of->left_out = need_string(reason);
    return trials_cut_off(of->evaluation) ? PL_LIMIT : PL_INPUT;
}

/* All of them; returns the first failure of one that was asked for by name. */
static int run_all(comparison *c, const pl_jobs *jobs, bool all) {
    const request *r = c->request;
    int code = 0;
    for (size_t i = 0; i < c->count; i++) {
        contender *of = &c->list[i];
        int failed = 0;
        if (all && of->info->slow && of->info->learns && r->split != PL_SPLIT_NONE) {
            of->left_out = need_string("slow to train; naming it in --estimator has it trained");
        } else if (of->info->needs_graph && !r->graphs.count && !r->described) {
            of->left_out = need_string("needs the jobs' graphs, --graphs DIR");
            failed = PL_USAGE;
        } else {
            failed = run(of, c, jobs, i + 1);
            if (code == 0 &&
                (failed == PL_LIMIT || (of->evaluation && trials_cut_off(of->evaluation))))
                code = PL_LIMIT;
            if (failed && c->count > 1) pl_evaluation_close(&of->evaluation);
        }
        if (failed && !all && c->count > 1)
            complain(failed, "%s: %s", of->info->name, of->left_out);
        if (failed && !all && code == 0) code = failed;
    }
    return code;
}

/* ---- the verb ---- */

static int write_files(const comparison *c, const request *r) {
    int code = r->csv ? comparison_csv(c, r->csv) : 0;
    if (code == 0 && r->sizes) code = comparison_sizes(c, r->sizes);
    if (code == 0 && r->scatter) code = scatter_write(c, r->scatter);
    if (code == 0 && r->bars) code = bars_write(c, r->bars);
    if (code == 0 && r->report) code = comparison_markdown(c, r->report);
    return code;
}

/* One estimator without a single estimate: what is known of the jobs is reported all the same. */
static int show_failure(comparison *c, const request *r, int code, bool whole) {
    contender *of = &c->list[0];
    if (!of->evaluation) return code;
    complain(code, "%s: %s", r->file, of->left_out);
    comparison_rank(c);
    if (r->csv) comparison_csv(c, r->csv);
    if (r->json)
        comparison_json(c, stdout, whole);
    else
        print_failures(of->evaluation);
    return code;
}

/* Ranks, writes and prints what has run. */
static int show(comparison *c, const request *r, int code, bool all, bool whole) {
    if (c->count == 1 && c->list[0].left_out) return show_failure(c, r, code, whole);
    comparison_rank(c);
    if (c->ran == 0) {
        for (size_t i = 0; all && i < c->remark_count; i++)
            complain(PL_MISSING, "%s", c->remarks[i]);
        return complain(code ? code : PL_MISSING, "%s: no estimator has an estimate of it",
                        r->file);
    }
    int failed = write_files(c, r);
    if (failed == 0 && r->json)
        comparison_json(c, stdout, whole);
    else if (failed == 0)
        print_comparison(c);
    return failed ? failed : code;
}

/* The names of --target, each once, in the order given. */
static size_t list_targets(const request *r, const char *targets[MOST_TARGETS]) {
    size_t count = 0;
    const char *name;
    if (!r->target) {
        targets[count++] = target_name(0);
        return count;
    }
    for (const char *at = r->target; *at; at += *at == ',') {
        size_t length = strcspn(at, ","), k = 0;
        for (size_t i = 0; (name = target_name(i)); i++)
            if (strlen(name) == length && strncasecmp(name, at, length) == 0) break;
        while (name && k < count && targets[k] != name) k++;
        if (name && k == count && count < MOST_TARGETS) targets[count++] = name;
        at += length;
    }
    return count;
}

/* One target through all estimators. first: nothing was printed yet. */
static int evaluate_target(const request *r, const pl_jobs *jobs, const char *target, bool several,
                           bool first) {
    comparison c = {.request = r, .target = target};
    bool all;
    gather(&c, r, &all);
    c.command = options_command(r);
    c.jobs = pl_jobs_count(jobs);
    c.bin_bytes = r->bin ? r->bin << 20 : pl_jobs_bin_bytes(jobs);
    c.split = r->split >= PL_SPLIT_MODEL;
    int code = run_all(&c, jobs, all);
    if (several && r->json && !first) putchar(',');
    if (several && !r->json)
        printf("%s%s%s: %s%s\n", first ? "" : "\n", text_style(BOLD), target, target_title(target),
               text_style(PLAIN));
    bool ran = false;
    for (size_t i = 0; i < c.count; i++) ran = ran || c.list[i].evaluation;
    /* One of several targets has an object even where there is nothing to show. */
    if (several && r->json && !ran) printf("{\"target\":\"%s\"}", target);
    code = show(&c, r, code, all, !several);
    comparison_free(&c);
    return code;
}

int verb_evaluate(const request *r) {
    pl_jobs *jobs = NULL;
    const char *targets[MOST_TARGETS] = {NULL};
    size_t count = list_targets(r, targets);
    comparison c = {.request = r, .target = targets[0]};
    bool all;
    gather(&c, r, &all);
    int code = check_request(&c, r);
    comparison_free(&c);
    if (code == 0 && r->sizes && strcmp(targets[0], "memory") != 0)
        code = complain(PL_USAGE, "--sizes is of memory");
    if (code == 0 && count > 1 && (r->csv || r->sizes || r->scatter || r->bars || r->report))
        code = complain(PL_USAGE, "--%s is of one target, not of several",
                        r->csv       ? "csv"
                        : r->sizes   ? "sizes"
                        : r->scatter ? "scatter"
                        : r->bars    ? "bars"
                                     : "report");
    if (code == 0) code = open_jobs(&jobs, r);
    if (code == 0 && count == 1) {
        code = evaluate_target(r, jobs, targets[0], false, true);
    } else if (code == 0) {
        if (r->json) fputs("{\"schema\":1,\"targets\":[", stdout);
        for (size_t i = 0; i < count; i++) {
            int failed = evaluate_target(r, jobs, targets[i], true, i == 0);
            if (code == 0) code = failed;
        }
        if (r->json) puts("]}");
    }
    pl_jobs_close(&jobs);
    return code;
}
