/* reply_place: jobs onto the cards of a cluster that the request has, one after the other: the objects are those of
 * `plimsoll place --json`. */
#include <string.h>

#include "request/service.h"

enum { MOST_KINDS = 64 };

static void put_option(pl_json_writer *j, const pl_place_option *o, const pl_cluster *cluster) {
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

/* The job for each kind of card that the cluster has. */
static bool estimate_for_all(pl_turn *t, int index, const pl_cluster *cluster, pl_demand *demands,
                             size_t *count) {
    const pl_gpu *kinds[MOST_KINDS];
    size_t cards = pl_cluster_count(cluster);
    *count = 0;
    for (size_t i = 0; i < cards; i++) {
        const pl_gpu *gpu = pl_cluster_gpu(cluster, i);
        size_t k = 0;
        while (k < *count && kinds[k] != gpu) k++;
        if (k < *count) continue;
        if (*count == MOST_KINDS)
            return pl_fail(&t->err, PL_USAGE, "cluster", -1, "more than %d kinds of cards",
                           MOST_KINDS) == PL_OK;
        bool fixed;
        kinds[*count] = gpu;
        demands[*count] = (pl_demand)PL_SIZED(pl_demand);
        if (!pl_turn_demand(t, index, gpu->name, &demands[*count], &fixed)) return false;
        ++*count;
        if (fixed) break; /* an estimate, of one card */
    }
    return true;
}

static bool place_one(pl_turn *t, int index, pl_cluster *cluster) {
    pl_demand *demands = pl_arena_array(t->arena, MOST_KINDS, sizeof *demands);
    pl_placement *p = NULL;
    const pl_place_option *o;
    size_t count;
    if (!demands) return pl_fail(&t->err, PL_MISSING, NULL, -1, "out of memory") == PL_OK;
    if (!estimate_for_all(t, index, cluster, demands, &count)) return false;
    if (pl_place(&p, cluster, demands, count, &t->asked.place, &t->err) != PL_OK) return false;
    const pl_place_option *best = pl_placement_at(p, 0);
    const char *card = best->possible ? pl_cluster_name(cluster, best->card) : NULL;
    const char *gpu = pl_cluster_gpu(cluster, best->card)->name;
    pl_json_put_open(&t->out, NULL, '{');
    pl_json_put_string(&t->out, "name", demands[0].name);
    pl_json_put_string(&t->out, "card", card);
    pl_json_put_open(&t->out, "options", '[');
    for (size_t i = 0; (o = pl_placement_at(p, i)); i++) put_option(&t->out, o, cluster);
    pl_json_put_close(&t->out, ']');
    pl_json_put_close(&t->out, '}');
    bool good = true, added = !card;
    for (size_t i = 0; good && !added && i < count; i++)
        if (count == 1 || strcmp(demands[i].gpu, gpu) == 0) {
            good = pl_cluster_add(cluster, best->card, &demands[i], &t->err) == PL_OK;
            added = true;
        }
    pl_placement_close(&p);
    return good;
}

bool pl_reply_place(pl_turn *t) {
    pl_cluster *cluster = NULL;
    if (!t->asked.cluster || t->asked.job_count == 0)
        return pl_fail(&t->err, PL_USAGE, t->asked.cluster ? "jobs" : "cluster", -1,
                       "expected a cluster and a list of jobs") == PL_OK;
    if (pl_cluster_open_memory(&cluster, t->asked.cluster, t->asked.cluster_size, "cluster",
                               t->service->settings.catalogue, &t->err) != PL_OK)
        return false;
    t->asked.place.limits = &t->limits;
    pl_json_put_open(&t->out, NULL, '{');
    pl_json_put_int(&t->out, "schema", 1);
    pl_json_put_string(&t->out, "policy", pl_policy_name(t->asked.place.policy));
    pl_json_put_open(&t->out, "jobs", '[');
    bool good = true;
    for (int i = 0; good && i < t->asked.job_count; i++) good = place_one(t, i, cluster);
    pl_json_put_close(&t->out, ']');
    pl_json_put_close(&t->out, '}');
    pl_cluster_close(&cluster);
    return good;
}
