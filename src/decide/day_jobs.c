/* day_jobs: the jobs of a simulated day: of each of the trace's, which kind it is, what it takes, what its user asks
 * for. Every number is drawn for the job or kind by itself (SplitMix64 of the seed, what is drawn, and its index:
 * Steele, Lea, Flood 2014), so that nothing that a policy does changes them.
 *
 * Kinds that were measured are drawn where there are any, else all, by weight; a model that the trace names is the
 * kind of that name whose batch is nearest. What a kind takes is what was measured; else a quantile of the interval
 * of hybrid's, or of the first estimator that has one: one error per kind, since jobs of one kind err alike. The trace's jobs
 * ran: none is drawn that no card holds. Left out: that users learn from crashes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decide/day.h"
#include "estimate/verdict.h"

static const double gib = 1073741824.0;

static double draw(uint64_t seed, uint64_t what, uint64_t index) {
    uint64_t z =
        seed * UINT64_C(0xd1342543de82ef95) + what * UINT64_C(0x2545f4914f6cdd1d) + index + 1;
    for (int i = 0; i < 2; i++) {
        z += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    }
    return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

enum { OF_KIND, OF_TRUTH, OF_WHOLE, OF_LOW };

/* ---- kinds ---- */

typedef struct pool {
    const pl_sizes *sizes;
    double *truth;  /* by kind; -1: nothing is known of it */
    double *sum;    /* weights of the kinds that are drawn, added up */
    int32_t *named; /* by kind, the trace's model; -1: none */
} pool;

/* Whose interval tells what was not measured. */
static int teller_of(const pl_sizes *s) {
    int hybrid = pl_sizes_find(s, "hybrid");
    if (hybrid >= 0) return hybrid;
    for (size_t i = 0; i < s->estimator_count; i++)
        if (s->intervals[i]) return (int)i;
    return s->estimator_count ? 0 : -1;
}

static double truth_of(const pl_job_kind *k, int teller, uint64_t seed, size_t index) {
    if (k->measured_bytes > 0) return (double)k->measured_bytes;
    if (teller < 0 || k->said[teller].peak <= 0) return -1;
    const pl_span *s = &k->said[teller];
    return pl_interval_quantile(s->low, s->peak, s->high, draw(seed, OF_TRUTH, index));
}

static bool fill(pool *p, const pl_arrivals *trace, const pl_day_settings *settings,
                 double usable) {
    const pl_sizes *s = p->sizes;
    int teller = teller_of(s);
    bool measured = false;
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        p->truth[i] = truth_of(&s->kinds[i], teller, settings->seed, i);
        measured |= s->kinds[i].measured_bytes > 0 && p->truth[i] <= usable;
        p->named[i] = -1;
        for (size_t m = 0; m < trace->model_count && p->named[i] < 0; m++)
            if (strcmp(trace->models[m], s->kinds[i].demand.name) == 0) p->named[i] = (int32_t)m;
    }
    for (size_t i = 0; i < s->count; i++) {
        bool drawn = p->truth[i] > 0 && p->truth[i] <= usable &&
                     (!measured || s->kinds[i].measured_bytes > 0);
        p->sum[i] = sum += drawn ? s->kinds[i].weight : 0;
    }
    return sum > 0;
}

static int32_t drawn_kind(const pool *p, double chance) {
    size_t low = 0, high = p->sizes->count - 1;
    double at = chance * p->sum[high];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->sum[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return (int32_t)low;
}

/* -1: the trace names none that there is. */
static int32_t named_kind(const pool *p, const pl_arrival *a) {
    int32_t best = -1;
    double nearest = INFINITY;
    for (size_t i = 0; a->model >= 0 && i < p->sizes->count; i++) {
        if (p->named[i] != a->model || p->truth[i] <= 0) continue;
        int64_t batch = p->sizes->kinds[i].batch;
        double far = a->batch > 0 && batch > 0 ? fabs(log((double)batch / (double)a->batch)) : 100;
        if (far >= nearest) continue;
        nearest = far;
        best = (int32_t)i;
    }
    return best;
}

/* ---- what users ask for ---- */

static double guess_of(double truth, double usable, const pl_day_settings *s, size_t index) {
    bool low = draw(s->seed, OF_LOW, index) * (1 - s->guess_whole) < s->guess_low;
    double power = log2(truth * (low ? 1 : s->guess_spare) / gib);
    return fmin(usable, gib * exp2(low ? floor(power) : ceil(power)));
}

/* ---- all of them ---- */

/* Cards that hold so much. */
static int64_t cards_for(const pl_cluster *cluster, double truth) {
    int64_t count = 0;
    for (size_t i = 0; i < cluster->count; i++)
        count += (double)pl_card_usable(&cluster->cards[i]) >= truth;
    return count;
}

pl_status pl_day_jobs_make(pl_day_job **out, pl_day_outcome *o, const pl_arrivals *trace,
                           const pl_sizes *sizes, const pl_day_settings *settings, double usable,
                           const pl_cluster *cluster, pl_error *err) {
    pool p = {.sizes = sizes,
              .truth = malloc(sizes->count * sizeof *p.truth),
              .sum = malloc(sizes->count * sizeof *p.sum),
              .named = malloc(sizes->count * sizeof *p.named)};
    int64_t *holds = malloc(sizes->count * sizeof *holds); /* cards that hold a kind */
    pl_day_job *jobs = calloc(trace->count, sizeof *jobs);
    pl_status status = PL_OK;
    bool any = false;
    if (!p.truth || !p.sum || !p.named || !holds || !jobs)
        status = pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    else
        any = fill(&p, trace, settings, usable);
    for (size_t i = 0; status == PL_OK && i < sizes->count; i++)
        holds[i] = cards_for(cluster, p.truth[i]);
    for (size_t i = 0; status == PL_OK && i < trace->count; i++) {
        const pl_arrival *a = &trace->jobs[i];
        pl_day_job *j = &jobs[i];
        int32_t kind = named_kind(&p, a);
        if (kind < 0 && !any) {
            status = pl_fail(err, PL_USAGE, "sizes", -1,
                             "no kind of job with known memory fits a card of the cluster");
            break;
        }
        if (kind < 0) kind = drawn_kind(&p, draw(settings->seed, OF_KIND, i));
        *j = (pl_day_job){.truth = p.truth[kind],
                          .submit = a->submit_s,
                          .work = a->duration_s,
                          .slowdown = 1,
                          .kind = kind,
                          .gpus = a->gpus,
                          .before = -1,
                          .behind = -1};
        j->asks_whole = draw(settings->seed, OF_WHOLE, i) < settings->guess_whole;
        j->guess = guess_of(j->truth, usable, settings, i);
        j->done = holds[kind] < a->gpus;
        o->impossible += j->done;
        o->drawn += !j->done && sizes->kinds[kind].measured_bytes <= 0;
    }
    o->jobs = (int64_t)trace->count;
    free(p.truth);
    free(p.sum);
    free(p.named);
    free(holds);
    if (status != PL_OK) {
        free(jobs);
        jobs = NULL;
    }
    *out = jobs;
    return status;
}
