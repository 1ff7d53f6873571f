/* row: what the laboratory's rows share: a model's profile before an estimate, and whether a part of
 * a model file is one that this version's features and learners are for. */
#include <string.h>

#include "lab/estimators/method.h"

/* ---- before an estimate ---- */

/* The job as estimators that look at counts see it. false: out of memory. */
static bool profile_of(pl_profile *out, const pl_model *model, const pl_graph *g, const pl_job *job,
                       int64_t batch, int64_t seq, pl_arena *arena) {
    const pl_trace *t = model->trace;
    const pl_summary *s = model->summary;
    if (!t && !s) return pl_profile_of_graph(out, g, job, batch, seq, arena);
    size_t count = t ? t->layer_count : s->layer_count;
    pl_profile_layer *layers = pl_arena_array(arena, count + 1, sizeof *layers);
    if (!layers) return false;
    for (size_t i = 0; i < count; i++)
        layers[i] = t ? (pl_profile_layer){.type = t->layers[i].type,
                                           .activations = t->layers[i].outputs,
                                           .parameters = t->layers[i].parameters}
                      : (pl_profile_layer){.type = s->layers[i].type,
                                           .activations = s->layers[i].activations,
                                           .parameters = s->layers[i].parameters};
    *out = (pl_profile){.job = *job,
                        .parameters = model->info.parameters,
                        .trainable = model->info.trainable,
                        .parameter_bytes = PL_UNKNOWN,
                        .buffer_bytes = PL_UNKNOWN,
                        .input_elements = s ? s->input_elements : PL_UNKNOWN};
    out->job.batch = batch;
    out->job.seq = seq;
    if (t) {
        pl_precision_parse(t->precision, &out->job.precision);
        if (t->optimizer[0]) out->job.optimizer = t->optimizer;
        out->job.checkpoint = t->checkpoint;
    }
    pl_profile_complete(out, layers, count);
    return true;
}

pl_status pl_profile_prepare(pl_subject *subject, const pl_weights *weights, int64_t batch,
                             int64_t seq, pl_arena *arena, pl_error *err) {
    (void)weights;
    pl_profile *profile = pl_arena_array(arena, 1, sizeof *profile);
    if (!profile ||
        !profile_of(profile, subject->model, subject->graph, subject->job, batch, seq, arena))
        return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    subject->profile = profile;
    return PL_OK;
}

pl_status pl_learned_prepare(pl_subject *subject, const pl_weights *weights, int64_t batch,
                             int64_t seq, pl_arena *arena, pl_error *err) {
    if (!pl_weights_part(weights, "memory"))
        return pl_fail(err, PL_USAGE, "weights", -1,
                       "these weights learnt %s, not memory: there is no peak to report",
                       weights->info.target);
    return pl_profile_prepare(subject, weights, batch, seq, arena, err);
}

/* ---- parts of a model file ---- */

/* Where the names differ from what this version feeds its learners: says which. */
static pl_status check_names(const pl_scaled *learnt, size_t learnt_count, const char *const *names,
                             size_t count, const char *path, pl_error *err) {
    for (size_t i = 0; i < learnt_count || i < count; i++) {
        const char *was = i < learnt_count ? learnt[i].name : "", *is = i < count ? names[i] : "";
        if (strcmp(was, is) != 0)
            return pl_fail(err, PL_INPUT, path, -1,
                           "learnt from other features than this version has: number %zu is '%s', "
                           "'%s' is expected; train it anew",
                           i + 1, was, is);
    }
    return PL_OK;
}

pl_status pl_learned_check(const pl_trained *part, const char *path, pl_error *err) {
    const pl_method *method = pl_method_of(pl_estimator_named(part->estimator));
    const char *name = part->estimator, *target = part->target;
    if (strcmp(target, "memory") != 0 &&
        !(method->compute && (strcmp(target, "flops") == 0 || strcmp(target, "flop-rate") == 0)))
        return pl_fail(err, PL_INPUT, path, -1, "a target \"%s\", which %s does not learn", target,
                       name);
    if (part->learner != method->learner)
        return pl_fail(err, PL_INPUT, path, -1, "learnt by \"%s\", %s learns by \"%s\"",
                       part->learner->name, name, method->learner->name);
    if ((part->class_count > 0) != method->classifies)
        return pl_fail(err, PL_INPUT, path, -1, "%s, which %s is not",
                       method->classifies ? "a regression" : "a classifier", name);
    pl_status status =
        check_names(part->columns, part->column_count, pl_feature_names(method->view),
                    method->columns ? pl_feature_count(method->view) : 0, path, err);
    if (status != PL_OK) return status;
    return check_names(part->channels, part->channel_count, pl_channel_names(),
                       method->steps ? pl_channel_count() : 0, path, err);
}
