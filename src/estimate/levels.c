/* levels: names of a step's counters and families, and the classes low, medium and high of a
 * counter's value.
 *
 * Bins: GPUMemNet (paper 3), table 7, by family and counter: from the first edge on a value is
 * medium, from the second on high. Recurrent networks have none there; they take the MLPs', since
 * they too are chains of small products. Tensor activity has none for any family. */
#include <math.h>
#include <stddef.h>

#include "core/error.h"

static const char *const counter_names[PL_COUNTERS] = {"smact", "smocc", "drama", "tensor"};
static const char *const family_names[PL_FAMILIES] = {"mlp", "cnn", "transformer", "rnn"};
static const char *const level_names[PL_LEVELS] = {"low", "medium", "high"};

/* Percent; {0, 0}: no bins. */
static const double edges[PL_FAMILIES][PL_COUNTERS][2] = {
    [PL_FAMILY_MLP] = {[PL_SMACT] = {20, 70}, [PL_SMOCC] = {10, 30}, [PL_DRAMA] = {20, 70}},
    [PL_FAMILY_CNN] = {[PL_SMACT] = {30, 90}, [PL_SMOCC] = {10, 30}, [PL_DRAMA] = {30, 90}},
    [PL_FAMILY_TRANSFORMER] = {[PL_SMACT] = {30, 80}, [PL_SMOCC] = {30, 40}, [PL_DRAMA] = {30, 80}},
    [PL_FAMILY_RNN] = {[PL_SMACT] = {20, 70}, [PL_SMOCC] = {10, 30}, [PL_DRAMA] = {20, 70}},
};

const char *pl_counter_name(pl_counter counter) {
    return (unsigned)counter < PL_COUNTERS ? counter_names[counter] : NULL;
}

const char *pl_family_name(pl_family family) {
    return (unsigned)family < PL_FAMILIES ? family_names[family] : NULL;
}

const char *pl_level_name(pl_level level) {
    return (unsigned)level < PL_LEVELS ? level_names[level] : NULL;
}

pl_level pl_level_of(pl_family family, pl_counter counter, double value) {
    if ((unsigned)family >= PL_FAMILIES || (unsigned)counter >= PL_COUNTERS || isnan(value))
        return PL_LEVEL_UNKNOWN;
    const double *edge = edges[family][counter];
    if (edge[1] <= 0) return PL_LEVEL_UNKNOWN;
    return value >= edge[1] ? PL_LEVEL_HIGH : value >= edge[0] ? PL_LEVEL_MEDIUM : PL_LEVEL_LOW;
}

/* Of the 37 measured Transformers of high occupancy the lean finds 33, the value alone 25; about as
 * many classes are right with it as without (docs/utilization.md). */
pl_level pl_level_predicted(pl_family family, pl_counter counter, const pl_figure *figure) {
    const double lean = 0.25, most = 2.5; /* points: intervals of other cards are wide */
    pl_level level = pl_level_of(family, counter, figure->value);
    if (level != PL_LEVEL_MEDIUM || !isfinite(figure->high)) return level;
    return pl_level_of(family, counter,
                       figure->value + fmin(most, lean * (figure->high - figure->value)));
}
