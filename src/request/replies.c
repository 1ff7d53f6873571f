/* replies: what each path answers. The objects are those of the command's --json: an estimate's is
 * pl_report_json's, the others have the same members. */
#include <math.h>
#include <string.h>

#include "core/sized.h"
#include "decide/demand.h"
#include "estimate/verdict.h"
#include "request/service.h"

/* As of `plimsoll fit`. */
enum { MOST_BATCH = 65536, MOST_SEQ = 1 << 20, MOST_WORLD = 1024 };

static bool out_of_memory(pl_turn *t) {
    return pl_fail(&t->err, PL_MISSING, NULL, -1, "out of memory") == PL_OK;
}

/* The job as asked, within the request's limits. */
static const pl_job *job_of(pl_turn *t, pl_asked *asked) {
    asked->job.limits = &t->limits;
    asked->job.catalogue = t->service->settings.catalogue;
    return &asked->job;
}

/* ---- cards and models ---- */

static void put_card(pl_json_writer *w, const pl_gpu *gpu) {
    pl_json_put_open(w, NULL, '{');
    pl_json_put_string(w, "name", gpu->name);
    pl_json_put_string(w, "title", gpu->title);
    pl_json_put_string(w, "part_of", gpu->part_of);
    pl_json_put_count(w, "capacity_bytes", gpu->capacity_bytes);
    pl_json_put_count(w, "usable_bytes", pl_gpu_usable(gpu));
    pl_json_put_int(w, "sms", gpu->sms);
    pl_json_put_real(w, "bandwidth_gbps", gpu->bandwidth_gbps);
    pl_json_put_bool(w, "calibrated", gpu->calibrated);
    pl_json_put_close(w, '}');
}

bool pl_reply_cards(pl_turn *t) {
    const pl_catalogue *own = t->service->settings.catalogue;
    const pl_gpu *gpu;
    pl_json_put_open(&t->out, NULL, '{');
    pl_json_put_int(&t->out, "schema", 1);
    pl_json_put_open(&t->out, "gpus", '[');
    for (size_t i = 0; own && (gpu = pl_catalogue_at(own, i)); i++) put_card(&t->out, gpu);
    for (size_t i = 0; (gpu = pl_gpu_at(i)); i++) put_card(&t->out, gpu);
    pl_json_put_close(&t->out, ']');
    pl_json_put_close(&t->out, '}');
    return true;
}

static void put_model(pl_turn *t, const pl_known_model *known) {
    const pl_model_info *info = pl_model_describe(known->model);
    const pl_symbol *symbol;
    pl_json_writer *w = &t->out;
    pl_json_put_open(w, NULL, '{');
    pl_json_put_int(w, "schema", 1);
    pl_json_put_string(w, "model", known->digest);
    pl_json_put_string(w, "name", info->name);
    pl_json_put_count(w, "parameters", info->parameters);
    pl_json_put_count(w, "trainable", info->trainable);
    pl_json_put_count(w, "operators", info->operators);
    pl_json_put_count(w, "batch", info->batch);
    pl_json_put_count(w, "seq", info->seq);
    pl_json_put_string(w, "as_exported", info->as_exported);
    pl_json_put_open(w, "open", '['); /* what may be chosen */
    for (size_t i = 0; (symbol = pl_model_symbol(known->model, i)); i++) {
        pl_json_put_open(w, NULL, '{');
        pl_json_put_string(w, "name", symbol->name);
        pl_json_put_string(w, "role", symbol->role && *symbol->role ? symbol->role : NULL);
        pl_json_put_count(w, "least", symbol->least);
        pl_json_put_count(w, "most", symbol->most == INT64_MAX ? PL_UNKNOWN : symbol->most);
        pl_json_put_close(w, '}');
    }
    pl_json_put_close(w, ']');
    pl_json_put_close(w, '}');
}

bool pl_reply_model(pl_turn *t) {
    pl_known_model *known = pl_turn_post(t);
    if (!known) return false;
    put_model(t, known);
    pl_turn_give(t, known);
    t->status = 201;
    return true;
}

bool pl_reply_described(pl_turn *t) {
    t->asked.digest = strrchr(t->request->path, '/') + 1;
    pl_known_model *known = pl_turn_model(t, &t->asked);
    if (!known) return false;
    put_model(t, known);
    pl_turn_give(t, known);
    return true;
}

/* ---- estimates ---- */

enum { MOST_SEEN = 256 };

void pl_turn_correction(pl_turn *t, const char *gpu, const char *family, const char *digest,
                        pl_correction *out) {
    const pl_service_settings *s = &t->service->settings;
    pl_turn_goes_by(t, gpu);
    pl_seen *jobs = s->seen ? pl_arena_array(t->arena, MOST_SEEN, sizeof *jobs) : NULL;
    size_t count =
        jobs ? s->seen(s->context, gpu, family ? family : "", digest, jobs, MOST_SEEN) : 0;
    pl_correction_of(out, jobs, count);
}

/* The object with what the fleet says behind its last member. */
static void put_estimate(pl_turn *t, const char *json, const pl_report *r, const char *digest) {
    pl_correction c = PL_SIZED(pl_correction);
    pl_turn_correction(t, r->gpu->name, pl_family_name(r->family), digest, &c);
    size_t length = strlen(json);
    if (c.jobs == 0 && c.step_jobs == 0) {
        pl_json_put_raw(&t->out, NULL, json);
        return;
    }
    int64_t low = r->low_bytes, peak = r->peak_bytes, high = r->high_bytes;
    pl_correction_apply(&c, &low, &peak, &high);
    pl_text_put(&t->text, json, length - 1); /* without its last brace */
    t->out.comma = true;
    pl_json_put_open(&t->out, "fleet", '{');
    pl_json_put_int(&t->out, "jobs", c.jobs);
    pl_json_put_int(&t->out, "left_out", c.left_out);
    pl_json_put_int(&t->out, "offset_bytes", c.offset_bytes);
    t->out.real = ".6g";
    pl_json_put_real(&t->out, "factor", c.factor);
    pl_json_put_count(&t->out, "peak_bytes", peak);
    pl_json_put_count(&t->out, "low_bytes", low);
    pl_json_put_count(&t->out, "high_bytes", high);
    pl_json_put_string(&t->out, "verdict",
                       pl_verdict_name(pl_verdict_of(low, peak, high, r->usable_bytes)));
    pl_figure step = r->step_ms;
    pl_correction_apply_step(&c, &step);
    pl_json_put_int(&t->out, "step_jobs", c.step_jobs);
    pl_json_put_real(&t->out, "step_factor", c.step_factor);
    pl_json_put_real(&t->out, "step_ms", step.value);
    pl_json_put_real(&t->out, "step_ms_low", step.low);
    pl_json_put_real(&t->out, "step_ms_high", step.high);
    pl_json_put_close(&t->out, '}');
    pl_json_put_close(&t->out, '}');
}

bool pl_reply_estimate(pl_turn *t) {
    pl_known_model *known = pl_turn_model(t, &t->asked);
    pl_report *report = NULL;
    bool done = known && pl_estimate(&report, known->model, job_of(t, &t->asked), &t->err) == PL_OK;
    if (done) {
        const char *json = pl_report_json(report, known->model);
        if (json)
            put_estimate(t, json, report, known->digest);
        else
            done = out_of_memory(t);
    }
    pl_report_close(&report);
    pl_turn_give(t, known);
    return done;
}

static void put_tensors(pl_json_writer *w, const pl_report *report) {
    const pl_alive *alive;
    pl_json_put_open(w, "tensors", '[');
    for (size_t i = 0; (alive = pl_report_alive(report, i)); i++) {
        pl_json_put_open(w, NULL, '{');
        pl_json_put_int(w, "bytes", alive->bytes);
        pl_json_put_string(w, "kind", pl_kind_name(alive->kind));
        pl_json_put_string(w, "born", pl_phase_name(alive->born));
        pl_json_put_string(w, "operator", alive->operator_name);
        pl_json_put_string(w, "tensor", alive->tensor);
        pl_json_put_string(w, "module", alive->module);
        pl_json_put_close(w, '}');
    }
    pl_json_put_close(w, ']');
}

static void put_remedy(pl_json_writer *w, const char *key, const pl_remedy *r) {
    const char *member;
    if (!r) {
        pl_json_put_string(w, key, NULL);
        return;
    }
    pl_json_put_open(w, key, '{');
    pl_json_put_open(w, "settings", '{');
    for (size_t i = 0; (member = pl_remedy_member(r, i)); i++)
        pl_json_put_string(w, member, pl_remedy_value(r, i));
    pl_json_put_close(w, '}');
    pl_json_put_count(w, "peak_bytes", r->peak_bytes);
    pl_json_put_count(w, "low_bytes", r->low_bytes);
    pl_json_put_count(w, "high_bytes", r->high_bytes);
    pl_json_put_count(w, "upper_bytes", r->upper_bytes);
    pl_json_put_count(w, "usable_bytes", r->usable_bytes);
    pl_json_put_string(w, "verdict", pl_verdict_name(r->verdict));
    w->real = ".6g";
    pl_json_put_real(w, "step_ms", r->step_ms.value);
    pl_json_put_real(w, "step_ms_low", r->step_ms.low);
    pl_json_put_real(w, "step_ms_high", r->step_ms.high);
    pl_json_put_real(w, "time_ratio", r->time_ratio);
    pl_json_put_bool(w, "communicates", r->communicates);
    pl_json_put_int(w, "weight", r->weight);
    pl_json_put_close(w, '}');
}

static void put_remedies(pl_json_writer *w, const pl_remedies *all) {
    const pl_remedy *r;
    pl_json_put_open(w, "remedies", '[');
    for (size_t i = 0; (r = pl_remedies_at(all, i)); i++) put_remedy(w, NULL, r);
    pl_json_put_close(w, ']');
    put_remedy(w, "nearest", all->nearest);
    pl_json_put_int(w, "simulations", all->tried);
    pl_json_put_bool(w, "complete", all->complete);
}

bool pl_reply_explain(pl_turn *t) {
    pl_known_model *known = pl_turn_model(t, &t->asked);
    pl_report *report = NULL;
    pl_remedies *remedies = NULL;
    t->asked.job.want_alive = true;
    const pl_job *job = job_of(t, &t->asked);
    bool done = known && pl_estimate(&report, known->model, job, &t->err) == PL_OK;
    t->asked.job.want_alive = false;
    done = done && pl_remedies_find(&remedies, known->model, job, NULL, &t->err) == PL_OK;
    if (done) {
        const char *json = pl_report_json(report, known->model);
        pl_json_put_open(&t->out, NULL, '{');
        pl_json_put_int(&t->out, "schema", 1);
        pl_json_put_raw(&t->out, "estimate", json ? json : "null");
        put_tensors(&t->out, report);
        put_remedies(&t->out, remedies);
        pl_json_put_close(&t->out, '}');
        done = json || out_of_memory(t);
    }
    pl_remedies_close(&remedies);
    pl_report_close(&report);
    pl_turn_give(t, known);
    return done;
}

/* ---- searches ---- */

static const struct sought {
    const char *what;
    pl_fit_what sought;
    int64_t most;
    bool card; /* the smallest card, in place of a number */
} all_sought[] = {
    {"batch", PL_FIT_BATCH, MOST_BATCH, false},
    {"seq", PL_FIT_SEQ, MOST_SEQ, false},
    {"world", PL_FIT_WORLD, MOST_WORLD, false},
    {"gpu", PL_FIT_BATCH, 0, true},
};

static bool fit_card(pl_turn *t, const pl_model *model, const pl_job *job) {
    const pl_gpu *gpu = NULL;
    if (pl_fit_gpu(&gpu, model, job, &t->err) != PL_OK) return false;
    pl_json_put_string(&t->out, "largest", NULL);
    pl_json_put_string(&t->out, "smallest_gpu", gpu ? gpu->name : NULL);
    return true;
}

static bool fit_number(pl_turn *t, const pl_model *model, const pl_job *job,
                       const struct sought *s) {
    bool fewest = s->sought == PL_FIT_WORLD;
    int64_t most = t->asked.most > 0 ? t->asked.most : s->most;
    pl_fit fit = PL_SIZED(pl_fit);
    if (pl_fit_find(&fit, model, job, s->sought, most, &t->err) != PL_OK) return false;
    if (fewest) pl_json_put_string(&t->out, "largest", NULL);
    pl_json_put_open(&t->out, fewest ? "fewest" : "largest", '{');
    pl_json_put_int(&t->out, s->what, fit.found);
    pl_json_put_count(&t->out, "high_bytes", fit.high_at);
    pl_json_put_count(&t->out, fewest ? "high_bytes_below" : "high_bytes_above", fit.high_above);
    pl_json_put_int(&t->out, "simulations", fit.tried);
    pl_json_put_int(&t->out, "most", most);
    pl_json_put_close(&t->out, '}');
    return true;
}

bool pl_reply_fit(pl_turn *t) {
    const struct sought *s = NULL;
    for (size_t i = 0; !s && i < sizeof all_sought / sizeof *all_sought; i++)
        if (strcmp(all_sought[i].what, t->asked.what) == 0) s = &all_sought[i];
    if (!s)
        return pl_fail(&t->err, PL_USAGE, "what", -1, "%.60s is none of batch, seq, world, gpu",
                       t->asked.what) == PL_OK;
    pl_known_model *known = pl_turn_model(t, &t->asked);
    if (!known) return false;
    const pl_job *job = job_of(t, &t->asked);
    pl_json_put_open(&t->out, NULL, '{');
    pl_json_put_int(&t->out, "schema", 1);
    pl_json_put_string(&t->out, "model", pl_model_describe(known->model)->name);
    pl_json_put_string(&t->out, "gpu", s->card ? NULL : job->gpu);
    bool done = s->card ? fit_card(t, known->model, job) : fit_number(t, known->model, job, s);
    pl_json_put_close(&t->out, '}');
    pl_turn_give(t, known);
    return done;
}

/* ---- two jobs on one card ---- */

bool pl_turn_demand(pl_turn *t, int index, const char *gpu, pl_demand *out, bool *fixed) {
    pl_asked own, *job = &own;
    const char *text = t->asked.jobs[index];
    size_t size = t->asked.job_sizes[index];
    pl_json json;
    pl_json_text key;
    bool estimate = false;
    pl_json_open(&json, text, size, PL_JSON_MAX_DEPTH);
    if (pl_json_object(&json))
        while (!estimate && pl_json_key(&json, &key))
            estimate = PL_JSON_IS(&key, "schema") || !pl_json_skip(&json);
    *fixed = estimate;
    if (estimate) return pl_demand_read(out, text, size, "jobs", &t->err) == PL_OK;
    job->arena = t->arena;
    if (pl_asked_read(job, text, size, &t->err) != PL_OK) return false;
    if (gpu && !job->gpu_given) job->job.gpu = gpu;
    pl_known_model *known = pl_turn_model(t, job);
    pl_report *report = NULL;
    bool done = known && pl_estimate(&report, known->model, job_of(t, job), &t->err) == PL_OK;
    if (done) done = pl_demand_of(out, report, known->model);
    if (done) {
        pl_correction c = PL_SIZED(pl_correction);
        pl_turn_correction(t, report->gpu->name, pl_family_name(report->family), known->digest, &c);
        pl_correction_apply(&c, &out->low_bytes, &out->peak_bytes, &out->high_bytes);
        if (c.jobs && out->upper_bytes < out->high_bytes) out->upper_bytes = out->high_bytes;
        pl_figure step = {out->step_ms, out->step_ms, out->step_ms};
        pl_correction_apply_step(&c, &step);
        out->step_ms = step.value;
    }
    pl_report_close(&report);
    pl_turn_give(t, known);
    return done;
}

static void put_pair(pl_json_writer *j, const pl_demand jobs[2], const pl_pair *pair,
                     const pl_gpu *gpu) {
    pl_json_put_open(j, NULL, '{');
    pl_json_put_int(j, "schema", 1);
    pl_json_put_string(j, "gpu", gpu->name);
    pl_json_put_string(j, "sharing", pl_sharing_name(pair->sharing));
    pl_json_put_bool(j, "fits", pair->fits);
    pl_json_put_string(j, "verdict", pl_verdict_name(pair->verdict));
    pl_json_put_count(j, "needed_bytes", pair->needed_bytes);
    pl_json_put_count(j, "usable_bytes", pair->usable_bytes);
    pl_json_put_open(j, "jobs", '[');
    for (int i = 0; i < 2; i++) {
        pl_json_put_open(j, NULL, '{');
        pl_json_put_string(j, "name", jobs[i].name);
        pl_json_put_real(j, "slowdown", pair->slowdown[i].value);
        pl_json_put_real(j, "slowdown_low", pair->slowdown[i].low);
        pl_json_put_real(j, "slowdown_high", pair->slowdown[i].high);
        pl_json_put_real(j, "step_ms", jobs[i].step_ms);
        pl_json_put_count(j, "peak_bytes", jobs[i].peak_bytes);
        pl_json_put_count(j, "high_bytes", jobs[i].high_bytes);
        pl_json_put_close(j, '}');
    }
    pl_json_put_close(j, ']');
    pl_json_put_real(j, "coverage", pair->coverage);
    pl_json_put_real(j, "gain", pair->gain.value);
    pl_json_put_real(j, "gain_low", pair->gain.low);
    pl_json_put_real(j, "gain_high", pair->gain.high);
    pl_json_put_bool(j, "worth_it", pair->worth_it);
    pl_json_put_string(j, "advice", pair->advice);
    pl_json_put_bool(j, "calibrated", pair->calibrated);
    pl_json_put_close(j, '}');
}

bool pl_reply_collocate(pl_turn *t) {
    if (t->asked.job_count != 2)
        return pl_fail(&t->err, PL_USAGE, "jobs", -1, "expected a list of two jobs") == PL_OK;
    pl_demand jobs[2] = {PL_SIZED(pl_demand), PL_SIZED(pl_demand)};
    bool fixed;
    const char *name = t->asked.gpu_given ? t->asked.job.gpu : NULL;
    for (int i = 0; i < 2; i++)
        if (!pl_turn_demand(t, i, name, &jobs[i], &fixed)) return false;
    pl_gpu *gpu = NULL;
    pl_pair pair = PL_SIZED(pl_pair);
    if (pl_gpu_open(&gpu, name ? name : jobs[0].gpu, t->service->settings.catalogue, &t->err) !=
        PL_OK)
        return false;
    bool done = pl_collocate(&pair, &jobs[0], &jobs[1], gpu, t->asked.sharing, &t->err) == PL_OK;
    if (done) put_pair(&t->out, jobs, &pair, gpu);
    pl_gpu_close(&gpu);
    return done;
}
