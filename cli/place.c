/* place: jobs onto the cards of a cluster, one after the other: where each may go, the best first, and why not
 * elsewhere. A job is what estimate --json wrote, or a model, which is estimated for each kind of card that the
 * cluster has. The library decides (pl_place); here it is asked and its answer printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "core/number.h"
#include "text.h"
#include "verbs.h"

enum { MOST_KINDS = 64, SHOWN = 10 };

/* One job as estimated for each kind of card. */
typedef struct estimated {
    pl_demand demands[MOST_KINDS];
    size_t count;
} estimated;

/* Each kind of card once; on failure complains. */
static int kinds_of(const pl_gpu *kinds[MOST_KINDS], size_t *count, const pl_cluster *cluster) {
    *count = 0;
    for (size_t i = 0; i < pl_cluster_count(cluster); i++) {
        const pl_gpu *gpu = pl_cluster_gpu(cluster, i);
        size_t k = 0;
        while (k < *count && kinds[k] != gpu) k++;
        if (k < *count) continue;
        if (*count == MOST_KINDS)
            return complain(PL_USAGE, "place: more than %d kinds of cards", MOST_KINDS);
        kinds[(*count)++] = gpu;
    }
    return 0;
}

static int estimate_for(estimated *out, const request *r, const char *path,
                        const pl_gpu *const *kinds, size_t count) {
    pl_error err = PL_SIZED(pl_error);
    out->demands[0] = (pl_demand)PL_SIZED(pl_demand);
    out->count = 1;
    pl_status status = pl_demand_open(&out->demands[0], path, &err);
    if (status == PL_OK) return 0;
    if (status != PL_INPUT || looks_like_estimate(path)) return complain_of(&err, path);
    request one = *r;
    one.file = path;
    pl_model *model = NULL;
    int code = open_model(&model, &one);
    for (out->count = 0; code == 0 && out->count < count; out->count++) {
        pl_report *report = NULL;
        one.job.gpu = kinds[out->count]->name;
        code = simulate(&report, model, &one, &one.job);
        out->demands[out->count] = (pl_demand)PL_SIZED(pl_demand);
        if (code == 0) pl_demand_of(&out->demands[out->count], report, model);
        pl_report_close(&report);
    }
    pl_model_close(&model);
    return code;
}

/* ---- what was found ---- */

static void print_slower(char *out, size_t size, double value) {
    if (isfinite(value))
        snprintf(out, size, "%.20s times", PL_REAL(".2f", value));
    else
        snprintf(out, size, "?");
}

static void print_job(const char *name, const pl_placement *p, const pl_cluster *cluster) {
    const pl_place_option *best = pl_placement_at(p, 0), *o;
    fputs(text_style(BOLD), stdout);
    text_clean(stdout, name);
    fputs(text_style(PLAIN), stdout);
    if (best->possible) {
        printf(" %s->%s ", text_style(GREEN), text_style(PLAIN));
        text_clean(stdout, pl_cluster_name(cluster, best->card));
        putchar('\n');
    } else {
        printf(": %son none of the cards%s\n", text_style(RED), text_style(PLAIN));
    }
    table *t = table_new("llrrrl");
    table_row(t, (const char *[]){"CARD", "GPU", "RISK", "SLOWER", "SLOWEST", "WHY"});
    for (size_t i = 0; i < SHOWN && (o = pl_placement_at(p, i)); i++) {
        char risk[32] = "?", slower[32], slowest[32];
        if (o->risk < 0.001 || o->risk > 0.99)
            snprintf(risk, sizeof risk, "%s", o->risk > 0.99 ? "above 99 %" : "below 0.1 %");
        else if (isfinite(o->risk))
            snprintf(risk, sizeof risk, "%.20s %%", PL_REAL(".1f", 100 * o->risk));
        print_slower(slower, sizeof slower, o->slowdown.value);
        print_slower(slowest, sizeof slowest, o->worst_slowdown);
        table_row(t, (const char *[]){pl_cluster_name(cluster, o->card),
                                      pl_cluster_gpu(cluster, o->card)->name, risk, slower, slowest,
                                      o->reason});
    }
    table_print(t, stdout, 2);
    size_t more = pl_cluster_count(cluster) > SHOWN ? pl_cluster_count(cluster) - SHOWN : 0;
    if (more) printf("  and %zu more, which --json has\n", more);
}

static void json_job(pl_json_writer *j, const char *name, const pl_placement *p,
                     const pl_cluster *cluster) {
    const pl_place_option *best = pl_placement_at(p, 0), *o;
    pl_json_put_open(j, NULL, '{');
    pl_json_put_string(j, "name", name);
    pl_json_put_string(j, "card", best->possible ? pl_cluster_name(cluster, best->card) : NULL);
    pl_json_put_open(j, "options", '[');
    for (size_t i = 0; (o = pl_placement_at(p, i)); i++) {
        pl_json_put_open(j, NULL, '{');
        pl_json_put_string(j, "card", pl_cluster_name(cluster, o->card));
        pl_json_put_string(j, "gpu", pl_cluster_gpu(cluster, o->card)->name);
        pl_json_put_bool(j, "possible", o->possible);
        pl_json_put_count(j, "expected_bytes", o->expected_bytes);
        pl_json_put_count(j, "usable_bytes", o->usable_bytes);
        j->real = ".6g";
        pl_json_put_real(j, "risk", o->risk);
        pl_json_put_real(j, "slowdown", o->slowdown.value);
        pl_json_put_real(j, "slowdown_low", o->slowdown.low);
        pl_json_put_real(j, "slowdown_high", o->slowdown.high);
        pl_json_put_real(j, "worst_slowdown", o->worst_slowdown);
        pl_json_put_real(j, "gain", o->gain);
        pl_json_put_int(j, "jobs", o->jobs);
        pl_json_put_bool(j, "calibrated", o->calibrated);
        pl_json_put_string(j, "reason", o->reason);
        pl_json_put_close(j, '}');
    }
    pl_json_put_close(j, ']');
    pl_json_put_close(j, '}');
}

static int place_one(pl_cluster *cluster, const estimated *job, const pl_place_settings *settings,
                     pl_json_writer *json, bool *placed) {
    pl_error err = PL_SIZED(pl_error);
    pl_placement *p = NULL;
    if (pl_place(&p, cluster, job->demands, job->count, settings, &err) != PL_OK)
        return complain_of(&err, NULL);
    const pl_place_option *best = pl_placement_at(p, 0);
    const char *gpu = pl_cluster_gpu(cluster, best->card)->name;
    if (json)
        json_job(json, job->demands[0].name, p, cluster);
    else
        print_job(job->demands[0].name, p, cluster);
    *placed = best->possible;
    pl_status status = PL_OK;
    for (size_t i = 0; best->possible && status == PL_OK && i < job->count; i++) {
        if (job->count > 1 && strcmp(job->demands[i].gpu, gpu) != 0) continue;
        status = pl_cluster_add(cluster, best->card, &job->demands[i], &err);
        break;
    }
    pl_placement_close(&p);
    return status == PL_OK ? 0 : complain_of(&err, NULL);
}

static int place_all(const request *r, pl_cluster *cluster, const pl_place_settings *settings) {
    const pl_gpu *kinds[MOST_KINDS];
    size_t count;
    bool all = true;
    int code = kinds_of(kinds, &count, cluster);
    estimated *job = malloc(sizeof *job);
    if (!job) return complain(PL_MISSING, "out of memory");
    pl_json_writer j = {.file = stdout};
    if (code == 0 && r->json) {
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_int(&j, "schema", 1);
        pl_json_put_string(&j, "policy", pl_policy_name(settings->policy));
        pl_json_put_open(&j, "jobs", '[');
    }
    for (size_t i = 0; code == 0 && i < r->files.count; i++) {
        bool placed = false;
        code = estimate_for(job, r, r->files.names[i], kinds, count);
        if (code == 0) code = place_one(cluster, job, settings, r->json ? &j : NULL, &placed);
        all &= placed;
    }
    if (code == 0 && r->json) {
        pl_json_put_close(&j, ']');
        pl_json_put_close(&j, '}');
        putchar('\n');
    }
    free(job);
    return code ? code : all ? 0 : verdict_code(PL_DOES_NOT_FIT);
}

int verb_place(const request *r) {
    pl_error err = PL_SIZED(pl_error);
    pl_cluster *cluster = NULL;
    pl_place_settings settings;
    pl_place_settings_default(&settings);
    if (!r->cluster) return complain(PL_USAGE, "place: --cluster FILE is needed");
    if (r->policy) pl_policy_parse(r->policy, &settings.policy);
    if (r->place_risk > 0) settings.risk = r->place_risk;
    if (r->most_slowdown > 0) settings.most_slowdown = r->most_slowdown;
    settings.most_jobs = r->most;
    if (pl_cluster_open(&cluster, r->cluster, r->own_cards, &err) != PL_OK)
        return complain_of(&err, r->cluster);
    int code = place_all(r, cluster, &settings);
    pl_cluster_close(&cluster);
    return code;
}
