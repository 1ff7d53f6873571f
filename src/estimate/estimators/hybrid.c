/* hybrid: the simulation of `sim`, with two things learnt that it cannot know: which formula the
 * workspace of a cuDNN convolution follows (workspace_forest.c), and how far the truth may lie from
 * the peak (evidence.c; how it is learnt: lab/train/hybrid_learn.c). The peak itself is not corrected afterwards: learnt from
 * the same evidence, a correction made the median of unseen models worse (docs/estimators.md).
 *
 * Jobs of which too few were measured keep interval.c's rows: cudnn.benchmark, DDP and FSDP2, other
 * cards, operators without a rule, hidden branches. */
#include "estimate/forms.h"
#include "estimate/hybrid.h"
#include "estimate/usage.h"

#include <math.h>
#include <string.h>

/* The bound that part learnt, log2 of truth / peak, 0 or on its side; NAN: not covered. */
static pl_status bound_of(double *out, const pl_trained *part, const pl_observation *seen,
                          double side, pl_error *err) {
    *out = NAN;
    if (!part || seen->kind == PL_EVIDENCE_NOT_COVERED ||
        part->extra[PL_HYBRID_JOBS + seen->kind] < PL_HYBRID_LEAST_JOBS)
        return PL_OK;
    pl_samples sample = {.count = 1,
                         .columns = PL_EVIDENCE_SIGNALS,
                         .values = seen->signals,
                         .names = pl_evidence_names};
    float quantile;
    if (part->class_count)
        return pl_fail(err, PL_INPUT, NULL, -1, "weights whose part \"%s\" is a classifier",
                       part->target);
    pl_status status = pl_trained_predict(part, &sample, &quantile, err);
    if (status != PL_OK) return status;
    double margin = part->extra[PL_HYBRID_MARGIN + seen->kind] * seen->scale;
    bool strange = seen->strange > PL_HYBRID_STRANGE;
    if (strange)
        margin = fmax(margin, seen->recurrent ? PL_HYBRID_STRANGE_RECURRENT
                                              : part->extra[PL_HYBRID_STRANGE_MARGIN]);
    double bound = fmax(0, side * (double)quantile) + margin;
    if (strange) bound = fmax(bound, log2(1 + fmin(seen->strange, PL_HYBRID_STRANGE_MOST)));
    *out = side * fmin(fmax(0, bound), 4);
    return PL_OK;
}

/* Traces have no operators: what they recorded is what was allocated. */
static pl_status find_strange(pl_observation *seen, const pl_report *report,
                              const pl_subject *subject, const pl_weights *weights, pl_error *err) {
    const pl_trained *forms = pl_weights_part(weights, PL_HYBRID_FORMS);
    seen->strange = 0;
    if (!forms || subject->model->trace || report->peak_bytes <= 0) return PL_OK;
    seen->strange = pl_forms_strange(forms, subject->graph) / (double)report->peak_bytes;
    return isfinite(seen->strange) ? PL_OK : pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *weights,
                          pl_error *err) {
    pl_workspace_chooser *chooser = NULL;
    pl_observation seen;
    double low = NAN, high = NAN;
    pl_status status = pl_workspace_chooser_open(&chooser, weights, err);
    if (status == PL_OK) status = pl_evidence_observe(report, &seen, subject, chooser, err);
    if (status == PL_OK) status = pl_workspace_chooser_status(chooser, err);
    if (status == PL_OK) status = find_strange(&seen, report, subject, weights, err);
    if (status == PL_OK) status = bound_of(&low, pl_weights_part(weights, "low"), &seen, -1, err);
    if (status == PL_OK) status = bound_of(&high, pl_weights_part(weights, "high"), &seen, 1, err);
    if (subject->model->trace) { /* NAN stays */
        low = low > -log2(1 + PL_HYBRID_TRACE_BELOW) ? -log2(1 + PL_HYBRID_TRACE_BELOW) : low;
        high = high < log2(1 + PL_HYBRID_TRACE_ABOVE) ? log2(1 + PL_HYBRID_TRACE_ABOVE) : high;
    }
    if (status == PL_OK && isfinite(low) && isfinite(high)) {
        report->low_bytes = (int64_t)((double)report->peak_bytes * exp2(low));
        report->high_bytes = (int64_t)ceil((double)report->peak_bytes * exp2(high));
        pl_report_full(report)->tail =
            seen.kind == PL_EVIDENCE_PLAIN ? PL_TAIL_PLAIN : PL_TAIL_CONVOLUTIONS;
    }
    if (status == PL_OK) status = pl_usage_correct(report, &seen.walk, subject, weights, err);
    pl_workspace_chooser_close(&chooser);
    return status;
}

/* models/hybrid.plm, see meson.build. */
extern const unsigned char pl_model_hybrid[], pl_model_hybrid_end[];
static pl_built_in built_in = {pl_model_hybrid, pl_model_hybrid_end, NULL};

const pl_estimator pl_estimator_hybrid = {
    .info = {.name = "hybrid",
             .kind = PL_SIMULATION,
             .title = "the simulation, with convolutions' workspaces and intervals learnt",
             .source = "sim; random forest (Breiman 2001) over the formulas of cuDNN's workspaces, "
                       "conformalised quantile regression (Romano, Patterson, Candès 2019)",
             .leaves_out = "intervals for cudnn.benchmark, DDP and FSDP2, and cards that were not "
                           "measured are sim's",
             .needs_graph = true,
             .learns = true,
             .has_weights = true},
    .estimate = estimate,
    .built_in = &built_in};
