/* workspace_forest: see workspace_forest.h.
 *
 * A forest answers with shares of its trees' votes. Taken is the formula of least expected cost
 * under them, where formulas that agree to 1 KiB agree; too low costs more there than in training,
 * chosen on models held out (2026-11-15): the share of peaks more than 5 % too low falls, the 90th
 * percentile stays. What cudnn.benchmark tries at a shape's first call has forests of its own, from
 * 700 configurations. It is known to an order only, and a segment of its size is reserved: there
 * too low costs most, and the larger of the forest's and the tree's answer is taken. Of 54 such
 * jobs 5 or 6 are then more than 5 % too low and 8 too high, against 10 and 7 with the trees alone;
 * the forests had not seen their layers, the tree had. */
#include "estimate/workspace_forest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mix.h"
#include "estimate/workspace_forest_costs.h"
#include "learn/forest.h"

const pl_workspace_question pl_workspace_questions[PL_WORKSPACE_QUESTIONS] = {
    {"workspace forward", "trees=6 features=0.4 min_leaf=3", {3, 3, 0.1}},
    {"workspace data", "trees=6 features=0.4 min_leaf=3", {3, 3, 0.1}},
    {"workspace weight", "trees=10 features=0.4 min_leaf=3", {3, 3, 0.1}},
    {"tried forward", "trees=12 features=0.4 min_leaf=3", {10, 30, 0}},
    {"tried data", "trees=12 features=0.4 min_leaf=3", {10, 30, 0}},
    {"tried weight", "trees=12 features=0.4 min_leaf=3", {10, 30, 0}},
};

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

double pl_workspace_cost(const pl_workspace_costs *costs, int64_t answer, int64_t truth,
                         double tensors) {
    double error = (double)answer - (double)truth;
    if (fabs(error) <= PL_WORKSPACE_EXACT) return 0;
    double share = fabs(error) / (tensors + PL_WORKSPACE_MIB) * (error < 0 ? costs->low : 1);
    return fmin(share, costs->most) + costs->inexact;
}

/* A convolution's pass that was answered. */
typedef struct answer {
    pl_conv conv;
    pl_conv_pass pass;
    bool tried, used;
    int64_t bytes;
} answer;

struct pl_workspace_chooser {
    const pl_trained
        *parts[PL_WORKSPACE_QUESTIONS]; /* of the used ones, and of those tried: all or none */
    answer *answers;                    /* [room], a hash table; NULL: none yet */
    size_t count, room;                 /* room: a power of two */
    pl_workspace_tally tally;
    const pl_trained *silent; /* a part that had no answer; NULL: none */
};

static pl_status check_part(const pl_trained *part, const char *target, pl_error *err) {
    bool fits = part && part->column_count == PL_CONV_FEATURES && part->class_count >= 2 &&
                part->class_count <= PL_CONV_FORMULAS && part->learner == &pl_learner_forest;
    for (size_t k = 0; fits && k < part->class_count; k++)
        fits = part->class_values[k] >= 0 && part->class_values[k] < PL_CONV_FORMULAS;
    for (size_t c = 0; fits && c < PL_CONV_FEATURES; c++)
        fits = strcmp(part->columns[c].name, pl_workspace_conv_features[c]) == 0;
    return fits ? PL_OK
                : pl_fail(err, PL_INPUT, NULL, -1,
                          "weights whose part \"%s\" is missing or knows other features than this "
                          "version",
                          target);
}

pl_status pl_workspace_chooser_open(pl_workspace_chooser **out, const pl_weights *weights,
                                    pl_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return no_memory(err);
    pl_status status = PL_OK;
    for (int first = 0; first < PL_WORKSPACE_QUESTIONS; first += PL_CONV_PASSES) {
        bool forest = false;
        for (int q = first; weights && q < first + PL_CONV_PASSES; q++) {
            (*out)->parts[q] = pl_weights_part(weights, pl_workspace_questions[q].target);
            forest |= (*out)->parts[q] != NULL;
        }
        for (int q = first; forest && status == PL_OK && q < first + PL_CONV_PASSES; q++)
            status = check_part((*out)->parts[q], pl_workspace_questions[q].target, err);
    }
    if (status != PL_OK) pl_workspace_chooser_close(out);
    return status;
}

void pl_workspace_chooser_close(pl_workspace_chooser **chooser) {
    if (!chooser || !*chooser) return;
    free((*chooser)->answers);
    free(*chooser);
    *chooser = NULL;
}

pl_status pl_workspace_chooser_status(const pl_workspace_chooser *chooser, pl_error *err) {
    if (!chooser->silent) return PL_OK;
    return pl_fail(err, PL_INPUT, NULL, -1, "weights whose part \"%s\" votes for nothing",
                   chooser->silent->target);
}

const pl_workspace_tally *pl_workspace_chooser_tally(const pl_workspace_chooser *chooser) {
    return &chooser->tally;
}

pl_conv *pl_workspace_chooser_convs(const pl_workspace_chooser *c, size_t *count) {
    pl_conv *convs = calloc(c->count + 1, sizeof *convs);
    *count = 0;
    for (size_t i = 0; convs && i < c->room; i++)
        if (c->answers[i].used) convs[(*count)++] = c->answers[i].conv;
    return convs;
}

/* Votes on what a pass takes. */
typedef struct votes {
    int64_t bytes[PL_CONV_FORMULAS];
    double shares[PL_CONV_FORMULAS]; /* their sum is 1 */
    int count;
} votes;

/* false: the part votes for nothing. */
static bool vote(votes *b, pl_workspace_chooser *chooser, const pl_trained *part,
                 const pl_conv_choices *c) {
    enum { LEAST_PER_MILLE = 2 }; /* votes below are the forest's floor against log of 0 */
    const pl_trees *trees = &((const pl_forest *)part->learned)->trees;
    float sums[PL_CONV_FORMULAS];
    double sum = 0;
    b->count = 0;
    pl_trees_sum_shares(trees, c->features, sums);
    for (size_t k = 0; k < part->class_count; k++) {
        if (!(sums[k] > 0)) continue; /* the floor itself */
        double share = exp((double)pl_trees_log_share(trees, sums[k]));
        if (share * 1000 < LEAST_PER_MILLE) continue;
        b->bytes[b->count] = c->bytes[(int)part->class_values[k]];
        b->shares[b->count++] = share;
        sum += share;
    }
    for (int k = 0; k < b->count; k++) b->shares[k] /= sum;
    if (b->count == 0) chooser->silent = part;
    return b->count > 0;
}

/* Which of those voted for costs least. */
static int cheapest(const votes *b, const pl_workspace_costs *costs, double tensors) {
    int best = 0;
    double least = INFINITY;
    for (int k = 0; k < b->count; k++) {
        double cost = 0;
        for (int j = 0; j < b->count; j++)
            cost += b->shares[j] * pl_workspace_cost(costs, b->bytes[k], b->bytes[j], tensors);
        if (cost >= least) continue;
        least = cost;
        best = k;
    }
    return best;
}

static void note(pl_workspace_tally *t, int64_t bytes, int64_t high, int64_t doubt, bool split) {
    t->passes++;
    t->split_votes += split;
    if (bytes > t->largest) {
        t->largest = bytes;
        t->largest_doubt = doubt;
    }
    if (high > t->largest_high) t->largest_high = high;
    if (doubt > t->doubt) t->doubt = doubt;
}

static int64_t whole(double bytes) {
    return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

static int64_t by_forest(pl_workspace_chooser *chooser, const pl_conv_choices *c) {
    votes b;
    if (!vote(&b, chooser, chooser->parts[c->pass], c)) return 0;
    int best = cheapest(&b, &pl_workspace_questions[c->pass].answering, (double)c->tensors);
    int64_t bytes = b.bytes[best], high = bytes;
    double agree = 0, doubt = 0;
    for (int k = 0; k < b.count; k++) {
        double error = fabs((double)b.bytes[k] - (double)bytes), above = 0;
        if (error <= PL_WORKSPACE_EXACT) agree += b.shares[k];
        doubt += b.shares[k] * error;
        for (int j = 0; j < b.count; j++)
            if (b.bytes[j] >= b.bytes[k]) above += b.shares[j];
        if (above >= 0.1 && b.bytes[k] > high) high = b.bytes[k];
    }
    note(&chooser->tally, bytes, high, whole(doubt), agree < 0.75);
    return bytes;
}

/* By workspace.h's trees. */
static int64_t by_tree(pl_workspace_chooser *chooser, const pl_conv_choices *c, const pl_conv *conv,
                       pl_conv_pass pass, int major, int minor) {
    double share;
    int64_t bytes = pl_workspace_conv(conv, pass, major, minor, &share);
    double doubt = share * ((double)c->tensors + PL_WORKSPACE_MIB);
    note(&chooser->tally, bytes, whole((double)bytes + doubt), whole(doubt), share > 0.05);
    return bytes;
}

/* The largest tried, by the forest or the tree, whichever has more. */
static int64_t most_tried(pl_workspace_chooser *chooser, const pl_conv_choices *c, int64_t tree) {
    votes b;
    int question = PL_CONV_PASSES + (int)c->pass;
    if (!chooser->parts[question]) return tree;
    if (!vote(&b, chooser, chooser->parts[question], c)) return tree;
    int64_t bytes =
        b.bytes[cheapest(&b, &pl_workspace_questions[question].answering, (double)c->tensors)];
    return bytes > tree ? bytes : tree;
}

static int64_t work_out(pl_workspace_chooser *chooser, const pl_conv *conv, pl_conv_pass pass,
                        bool tried, int major, int minor) {
    pl_conv_choices c;
    bool sound = pl_workspace_conv_choices(conv, pass, major, minor, &c);
    if (tried) {
        int64_t tree = pl_workspace_conv_tried(conv, pass, major, minor, NULL);
        return sound ? most_tried(chooser, &c, tree) : tree;
    }
    if (!sound) return pl_workspace_conv(conv, pass, major, minor, NULL);
    return chooser->parts[0] ? by_forest(chooser, &c)
                             : by_tree(chooser, &c, conv, pass, major, minor);
}

/* ---- each once ---- */

static size_t hash_of(const answer *table, const pl_conv *conv, pl_conv_pass pass, bool tried) {
    uint64_t words[(sizeof *conv + 7) / 8] = {0}, hash = (uint64_t)pass * 2 + tried;
    uint64_t secret = pl_mix_secret(table);
    memcpy(words, conv, sizeof *conv);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) hash = pl_mix(hash, words[i], secret);
    return (size_t)(hash ^ hash >> 29);
}

/* The place of a request: used, or free for it. There is always a free one. */
static answer *place_of(answer *answers, size_t room, const pl_conv *conv, pl_conv_pass pass,
                        bool tried) {
    size_t at = hash_of(answers, conv, pass, tried) & (room - 1);
    while (answers[at].used && (answers[at].pass != pass || answers[at].tried != tried ||
                                memcmp(&answers[at].conv, conv, sizeof *conv) != 0))
        at = (at + 1) & (room - 1);
    return &answers[at];
}

static bool make_room(pl_workspace_chooser *c) {
    if (c->room && c->count < c->room / 2) return true;
    size_t room = c->room ? 2 * c->room : 256;
    answer *grown = calloc(room, sizeof *grown);
    if (!grown) return false;
    for (size_t i = 0; i < c->room; i++) {
        const answer *old = &c->answers[i];
        if (old->used) *place_of(grown, room, &old->conv, old->pass, old->tried) = *old;
    }
    free(c->answers);
    c->answers = grown;
    c->room = room;
    return true;
}

/* Without memory for the table, it is worked out every time. */
static int64_t ask(pl_workspace_chooser *c, const pl_conv *conv, pl_conv_pass pass, bool tried,
                   int major, int minor) {
    answer *at = make_room(c) ? place_of(c->answers, c->room, conv, pass, tried) : NULL;
    if (at && at->used) return at->bytes;
    int64_t bytes = work_out(c, conv, pass, tried, major, minor);
    if (!at) return bytes;
    memcpy(&at->conv, conv, sizeof *conv); /* its padding too: compared byte by byte */
    at->pass = pass;
    at->tried = tried;
    at->used = true;
    at->bytes = bytes;
    c->count++;
    return bytes;
}

static int64_t used(void *context, const pl_conv *conv, pl_conv_pass pass, int major, int minor,
                    double *doubt) {
    if (doubt) *doubt = 0;
    return ask(context, conv, pass, false, major, minor);
}

static int64_t tried(void *context, const pl_conv *conv, pl_conv_pass pass, int major, int minor,
                     double *doubt) {
    if (doubt) *doubt = 0;
    int64_t kept = ask(context, conv, pass, false, major, minor),
            most = ask(context, conv, pass, true, major, minor);
    return most > kept ? most : kept;
}

void pl_workspace_chooser_serve(pl_workspace_chooser *chooser, pl_tape_device *device) {
    device->context = chooser;
    device->conv = used;
    device->conv_tried = tried;
}
