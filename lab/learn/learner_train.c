/* learner_train: who trains which learner. The two that the simulation's answers need (forest,
 * leafwise) have rows without a way to train, so that a program may answer with them and leave out
 * everything that grows trees; here they get it back. Whatever a learner says of its failure, a
 * budget that is spent is the reason. */
#include "lab/learn/learners.h"
#include "lend.h"

static pl_status train(const pl_learner *learner, pl_learned **out, const pl_samples *samples,
                       const pl_learn_settings *settings, pl_error *err) {
    if (learner->train) return learner->train(out, samples, settings, err);
    if (learner == &pl_learner_forest) return pl_forest_train(out, samples, settings, err);
    if (learner == &pl_learner_leafwise) return pl_leafwise_train(out, samples, settings, err);
    return pl_fail(err, PL_USAGE, learner->name, -1, "this build cannot train it");
}

pl_status pl_learner_train(const pl_learner *learner, pl_learned **out, const pl_samples *samples,
                           const pl_learn_settings *settings, pl_error *err) {
    pl_budget *budget = settings->budget;
    *out = NULL;
    if (!pl_budget_poll(budget)) return pl_budget_fail(err, budget, learner->name);
    pl_status status = train(learner, out, samples, settings, err);
    if (status != PL_OK && budget && budget->spent)
        status = pl_budget_fail(err, budget, learner->name);
    return status;
}
