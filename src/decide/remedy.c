/* remedy: what makes a job fit.
 *
 * A change is a point: a level for each axis (remedy.h). Every point of an answer was simulated and
 * fits. Looked at are: every axis by itself, level after level up to the first that fits; every two
 * axes together along the edge between what fits and what does not; and for each group of axes that
 * belong together, where nothing of it fits so, all of them at their furthest, of which as much as
 * possible is then taken back, what changes most first. Of the points that fit those are left
 * out that go as far as another in every axis. That memory falls from level to level is assumed in
 * choosing what to look at, not in what is reported. */
#include "decide/remedy.h"

#include <math.h>
#include <stdlib.h>

#include "core/error.h"

typedef struct point {
    uint8_t levels[PL_AXES];
    bool known; /* false: the model does not take it */
    bool fits, communicates;
    pl_verdict verdict;
    int weight;
    int64_t peak, low, high, upper, usable; /* bytes */
    int64_t excess;                         /* of upper over usable */
    pl_figure step_ms;
    double per_token; /* ms for a sample, or a token where there are sequences */
} point;

typedef struct remedy {
    pl_remedy remedy; /* first: a pl_remedy * is a remedy * */
    pl_job job;
    size_t count;
    const char *members[PL_AXES + 1], *values[PL_AXES + 1];
} remedy;

typedef struct full {
    pl_remedies remedies; /* first */
    pl_arena *arena;
    remedy *list; /* [remedies.count], and the nearest behind it */
} full;

typedef struct search {
    const pl_model *model;
    pl_job job; /* as given */
    pl_limits limits;
    pl_remedy_settings settings;
    pl_axis axes[PL_AXES];
    point *points; /* [count], the job as given first */
    int64_t count;
    int64_t batch; /* of the job as given, simulated */
    pl_status status;
    bool complete;
    pl_error *err;
} search;

void pl_remedy_settings_default_sized(pl_remedy_settings *settings, size_t size) {
    const pl_remedy_settings usual = {.most = 256};
    pl_sized_fill(settings, size, &usual, sizeof usual);
}

/* ---- simulating ---- */

static pl_job job_at(const search *s, const uint8_t *levels) {
    pl_job job = s->job;
    for (int a = 0; a < PL_AXES; a++)
        if (levels[a]) pl_axis_apply(&job, a, &s->axes[a].levels[levels[a]], s->batch);
    return job;
}

static void note(point *p, const pl_job *job, const pl_report *report) {
    int64_t upper = report->upper_bytes >= 0 ? report->upper_bytes : report->peak_bytes;
    double samples = report->batch > 0 ? (double)report->batch : 1,
           tokens = report->seq > 0 ? (double)report->seq : 1;
    p->known = true;
    p->verdict = report->verdict;
    p->fits = report->verdict == PL_FITS;
    p->communicates = job->parallel != PL_ALONE && job->world > 1;
    p->peak = report->peak_bytes;
    p->low = report->low_bytes;
    p->high = report->high_bytes;
    p->upper = report->upper_bytes;
    p->usable = report->usable_bytes;
    p->excess = upper - report->usable_bytes;
    p->step_ms = report->step_ms;
    p->per_token = report->step_ms.value / (samples * tokens * job->accumulate);
}

/* The point, simulated; NULL: there is an end to it (status, or simulations). */
static const point *at(search *s, const uint8_t *levels) {
    for (int64_t i = 0; i < s->count; i++)
        if (memcmp(s->points[i].levels, levels, PL_AXES) == 0) return &s->points[i];
    if (s->status != PL_OK) return NULL;
    if (s->count == s->settings.most) {
        s->complete = false;
        return NULL;
    }
    pl_report *report = NULL;
    pl_error err = PL_SIZED(pl_error);
    pl_job job = job_at(s, levels);
    point *p = &s->points[s->count];
    memcpy(p->levels, levels, PL_AXES);
    for (int a = 0; a < PL_AXES; a++) p->weight += s->axes[a].levels[levels[a]].weight;
    pl_status status = pl_estimate(&report, s->model, &job, &err);
    if (status == PL_OK) note(p, &job, report);
    pl_report_close(&report);
    if (status == PL_LIMIT || status == PL_MISSING) {
        s->status = pl_fail(s->err, status, err.where, err.position, "%s", err.message);
        return NULL;
    }
    s->count++;
    if (s->settings.progress)
        s->settings.progress(s->settings.progress_context, s->count, s->settings.most);
    return p;
}

static bool fits_at(search *s, const uint8_t *levels) {
    const point *p = at(s, levels);
    return p && p->fits;
}

/* ---- looking ---- */

static void try_alone(search *s, int furthest[PL_AXES]) {
    for (int a = 0; a < PL_AXES; a++) {
        uint8_t levels[PL_AXES] = {0};
        furthest[a] = s->axes[a].count;
        for (int l = 1; l <= s->axes[a].count; l++) {
            levels[a] = (uint8_t)l;
            if (!fits_at(s, levels)) continue;
            furthest[a] = l - 1; /* what goes further needs no other axis */
            break;
        }
    }
}

/* Along the edge between what fits and what does not: the further in one, the less in the other. */
static void try_two(search *s, int a, int b, const int furthest[PL_AXES]) {
    int second = furthest[b];
    for (int first = 1; first <= furthest[a] && second > 0; first++) {
        uint8_t levels[PL_AXES] = {0};
        levels[a] = (uint8_t)first;
        levels[b] = (uint8_t)second;
        while (levels[b] > 0 && fits_at(s, levels)) second = --levels[b];
    }
}

/* All of some axes at their furthest, and then as much as possible taken back. */
static void try_all(search *s, unsigned axes) {
    uint8_t levels[PL_AXES] = {0};
    for (int a = 0; a < PL_AXES; a++)
        if (axes >> a & 1) levels[a] = (uint8_t)s->axes[a].count;
    if (!fits_at(s, levels)) return;
    for (int a = PL_AXES; a-- > 0;) {
        uint8_t furthest = levels[a];
        for (levels[a] = 0; levels[a] < furthest && !fits_at(s, levels);) levels[a]++;
    }
}

/* Whether a point fits that changes nothing else than these axes. */
static bool any_fits(const search *s, unsigned axes) {
    for (int64_t i = 0; i < s->count; i++) {
        bool within = s->points[i].fits;
        for (int a = 0; a < PL_AXES; a++) within &= (axes >> a & 1) || !s->points[i].levels[a];
        if (within) return true;
    }
    return false;
}

/* What belongs together: changes that leave the training what it is, those on this card, and with
 * other hardware; in the end all. */
enum {
    SAME = 1u << PL_AXIS_OPTIMIZER | 1u << PL_AXIS_CHECKPOINT | 1u << PL_AXIS_BATCH |
           1u << PL_AXIS_PRECISION,
    HERE = SAME | 1u << PL_AXIS_SEQ | 1u << PL_AXIS_TRAIN,
    SHARDED = SAME | 1u << PL_AXIS_WORLD,
    ELSEWHERE = SAME | 1u << PL_AXIS_GPU,
    ALL = (1u << PL_AXES) - 1,
};
static const unsigned together[] = {SAME, HERE, SHARDED, ELSEWHERE};

static void look(search *s) {
    int furthest[PL_AXES];
    try_alone(s, furthest);
    for (int sum = 1; sum < 2 * PL_AXES - 2; sum++) /* the milder first */
        for (int a = 0; a < PL_AXES; a++)
            if (sum - a > a && sum - a < PL_AXES && a != PL_AXIS_WORLD)
                try_two(s, a, sum - a, furthest);
    for (size_t i = 0; i < sizeof together / sizeof *together; i++)
        if (!any_fits(s, together[i])) try_all(s, together[i]);
    if (!any_fits(s, ALL)) try_all(s, ALL);
}

/* ---- the answer ---- */

static bool goes_as_far(const point *p, const point *other) {
    for (int a = 0; a < PL_AXES; a++)
        if (p->levels[a] < other->levels[a]) return false;
    return true;
}

static bool left_out(const search *s, const point *p) {
    if (!p->fits) return true;
    for (int64_t i = 0; i < s->count; i++)
        if (s->points[i].fits && &s->points[i] != p && goes_as_far(p, &s->points[i])) return true;
    return false;
}

static const point *nearest(const search *s) {
    const point *best = NULL;
    for (int64_t i = 1; i < s->count; i++) {
        const point *p = &s->points[i];
        if (p->known && (!best || p->excess < best->excess ||
                         (p->excess == best->excess && p->weight < best->weight)))
            best = p;
    }
    return best;
}

static int by_weight(const void *x, const void *y) {
    const remedy *a = x, *b = y;
    if (a->remedy.weight != b->remedy.weight) return a->remedy.weight < b->remedy.weight ? -1 : 1;
    double p = a->remedy.time_ratio, q = b->remedy.time_ratio;
    if (p < q || p > q) return p < q ? -1 : 1;
    if (isnan(p) != isnan(q)) return isnan(q) ? -1 : 1;
    return a->remedy.upper_bytes < b->remedy.upper_bytes   ? -1
           : a->remedy.upper_bytes > b->remedy.upper_bytes ? 1
                                                           : 0;
}

static const char *copy(pl_arena *arena, const char *text, bool *failed) {
    const char *made = text ? pl_arena_string(arena, text, strlen(text)) : NULL;
    *failed |= text && !made;
    return made;
}

static bool fill(remedy *r, const search *s, const point *p, const pl_limits *limits,
                 pl_arena *arena) {
    bool failed = false;
    double base = s->points[0].per_token;
    r->job = job_at(s, p->levels);
    r->job.limits = limits;
    for (int a = 0; a < PL_AXES; a++) {
        if (!p->levels[a]) continue;
        for (size_t k = 0;
             pl_axis_setting(&r->job, a, k, &r->members[r->count], &r->values[r->count], arena);
             k++) {
            r->values[r->count] = copy(arena, r->values[r->count], &failed);
            r->count++;
        }
    }
    r->job.optimizer = copy(arena, r->job.optimizer, &failed);
    r->job.train = copy(arena, r->job.train, &failed);
    r->job.alloc_conf = copy(arena, r->job.alloc_conf, &failed);
    r->job.gpu = copy(arena, r->job.gpu, &failed);
    r->job.estimator = copy(arena, r->job.estimator, &failed);
    r->remedy = (pl_remedy){.peak_bytes = p->peak,
                            .low_bytes = p->low,
                            .high_bytes = p->high,
                            .upper_bytes = p->upper,
                            .usable_bytes = p->usable,
                            .verdict = p->verdict,
                            .step_ms = p->step_ms,
                            .time_ratio = base > 0 ? p->per_token / base : NAN,
                            .communicates = p->communicates,
                            .weight = p->weight};
    return !failed;
}

static bool answer(full *out, const search *s, const pl_limits *limits) {
    size_t count = 0;
    for (int64_t i = 1; i < s->count; i++) count += !left_out(s, &s->points[i]);
    const point *near = count ? NULL : nearest(s);
    out->list = pl_arena_array(out->arena, count + 1, sizeof *out->list);
    if (!out->list) return false;
    size_t n = 0;
    for (int64_t i = 1; i < s->count; i++)
        if (!left_out(s, &s->points[i]) &&
            !fill(&out->list[n++], s, &s->points[i], limits, out->arena))
            return false;
    qsort(out->list, n, sizeof *out->list, by_weight);
    if (near && !fill(&out->list[n], s, near, limits, out->arena)) return false;
    for (size_t i = 0; i <= n; i++) out->list[i].remedy.job = &out->list[i].job;
    out->remedies = (pl_remedies){.count = n,
                                  .nearest = near ? &out->list[n].remedy : NULL,
                                  .tried = s->count,
                                  .complete = s->complete};
    return true;
}

static pl_status find(full *out, search *s, const pl_limits *limits, pl_error *err) {
    const uint8_t given[PL_AXES] = {0};
    pl_report *report = NULL;
    pl_search_begin(&s->job, &s->limits, s->model);
    s->points = pl_arena_array(out->arena, (size_t)s->settings.most, sizeof *s->points);
    if (!s->points) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_status status = pl_estimate(&report, s->model, &s->job, err);
    if (status != PL_OK) return status;
    s->batch = report->batch;
    memcpy(s->points[s->count++].levels, given, PL_AXES);
    note(&s->points[0], &s->job, report);
    bool listed = report->fits || pl_axes_list(s->axes, s->model, &s->job, report, out->arena);
    bool fits = report->fits;
    pl_report_close(&report);
    if (!listed) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    if (fits) {
        out->remedies = (pl_remedies){.fits = true, .tried = 1, .complete = true};
        return PL_OK;
    }
    look(s);
    if (s->status != PL_OK) return s->status;
    return answer(out, s, limits) ? PL_OK : pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

pl_status pl_remedies_find(pl_remedies **out, const pl_model *model, const pl_job *given,
                           const pl_remedy_settings *settings, pl_error *err) {
    enum { MOST = 1 << 16 };
    *out = NULL;
    if (!model) return pl_fail(err, PL_USAGE, "model", -1, "expected a model");
    search s = {.model = model, .complete = true, .err = err};
    pl_status status = pl_job_read(&s.job, given, err);
    if (status != PL_OK) return status;
    pl_remedy_settings_default(&s.settings);
    if (settings) {
        if (!PL_SIZED_OK(settings, progress_context))
            return pl_fail(err, PL_USAGE, "settings", -1,
                           "pl_remedy_settings whose size is not set");
        pl_sized_read(&s.settings, sizeof s.settings, settings, settings->size);
    }
    if (s.settings.most < 1 || s.settings.most > MOST)
        return pl_fail(err, PL_USAGE, "most", -1, "%lld is not between 1 and %d",
                       (long long)s.settings.most, MOST);
    full *made = calloc(1, sizeof *made);
    if (made) made->arena = pl_arena_new(NULL);
    if (!made || !made->arena) {
        free(made);
        return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    }
    pl_remedies *found = &made->remedies;
    status = find(made, &s, s.job.limits, err);
    if (status != PL_OK)
        pl_remedies_close(&found);
    else
        *out = found;
    return status;
}

const pl_remedy *pl_remedies_at(const pl_remedies *remedies, size_t index) {
    return index < remedies->count ? &((const full *)remedies)->list[index].remedy : NULL;
}

const char *pl_remedy_member(const pl_remedy *r, size_t index) {
    return index < ((const remedy *)r)->count ? ((const remedy *)r)->members[index] : NULL;
}

const char *pl_remedy_value(const pl_remedy *r, size_t index) {
    return index < ((const remedy *)r)->count ? ((const remedy *)r)->values[index] : NULL;
}

void pl_remedies_close(pl_remedies **remedies) {
    if (!remedies || !*remedies) return;
    full *all = (full *)*remedies;
    *remedies = NULL;
    pl_arena_free(&all->arena);
    free(all);
}
