/* symmetric: gradient boosting on symmetric (oblivious) trees with ordered boosting, as CatBoost
 * describes it (Prokhorenkova et al., "CatBoost: unbiased boosting with categorical features",
 * 2018, algorithm 2 and its appendix B).
 *
 * All nodes of a level ask the same question, so a tree is a few questions and a table of leaves. A
 * row's gradient comes from a model that never saw that row: rows stand in a few random orders, and
 * for prefixes of an order that double in length there are scores learnt from the prefix alone (its
 * body), used for the rows behind it (its tail). A tree's questions are chosen on one order by the
 * cosine between the tail's gradients and the leaves' means over the body; its leaves are then set
 * from all rows. Every row has a random weight while a level's question is chosen (Bayesian
 * bootstrap), and every threshold's score gets noise that fades as the model grows; without the
 * noise the errors on Friedman's function and on our measured jobs were 2 to 4 % larger. ordered=0
 * leaves the orders out.
 *
 * Left out: categories and their statistics, several steps per leaf, a rate chosen by the number of
 * rows. One thread. */
#include "lab/learn/bins.h"
#include "lab/learn/boost.h"
#include "lab/learn/learners.h"
#include "lab/learn/options.h"
#include "lab/learn/random.h"
#include "lab/learn/tree_train.h"
#include "lend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEPTH = 12,
    MOST_ORDERS = 16,
    MOST_PREFIXES = 40,
    MOST_TREES = 100000,
    WORDS = PL_BINS_MOST / 64
};

typedef struct question {
    float threshold; /* above it: the level's bit is 1 */
    uint16_t column;
} question;

typedef struct tree {
    uint32_t question, value; /* the first of its own */
    uint32_t depth;
} tree;

typedef struct symmetric {
    pl_learned learned;
    size_t columns, classes;
    size_t scores; /* 1, or one per class from three classes on */
    float *base;   /* [scores] */
    tree *trees;
    question *questions;
    float *values; /* a tree's: [leaves, scores] */
    size_t tree_count, question_count, value_count;
    size_t tree_room, question_room, value_room;
} symmetric;

static const pl_option options[] = {
    {"trees", 1000, 1, MOST_TREES, true},
    {"depth", 6, 1, MOST_DEPTH, true},
    {"rate", 0.05, 1e-6, 1, false},
    {"lambda", 3, 0, 1e30, false},
    {"ordered", 1, 0, 1, true},
    {"orders", 3, 1, MOST_ORDERS, true},
    {"temperature", 1, 0, 10, false}, /* of the random weights; 0: all 1 */
    {"noise", 1, 0, 1000, false},
    {"features", 1, 0.001, 1, false}, /* share of the columns tried at a level */
    {"bins", 255, 2, PL_BINS_MOST, true},
    {"stop", 0, 0, 1e6, true}, /* trees without a better validation loss; 0: all are grown */
};
enum { OPTIONS = sizeof options / sizeof *options };

static double option(const char *text, const char *key) {
    return pl_options_number(text, options, OPTIONS, key);
}

/* ---- the model ---- */

static void close_symmetric(pl_learned **learned) {
    if (!learned || !*learned) return;
    symmetric *model = (symmetric *)*learned;
    free(model->base);
    free(model->trees);
    free(model->questions);
    free(model->values);
    free(model);
    *learned = NULL;
}

static symmetric *new_symmetric(size_t columns, size_t classes) {
    symmetric *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_symmetric, classes ? classes : 1};
    model->columns = columns;
    model->classes = classes;
    model->scores = classes <= 2 ? 1 : classes;
    model->base = calloc(model->scores, sizeof *model->base);
    if (model->base) return model;
    pl_learned *learned = &model->learned;
    close_symmetric(&learned);
    return NULL;
}

static void *reserve(void *array, size_t *room, size_t need, size_t size) {
    size_t wanted = need < 64 ? 64 : need + need / 2, bytes;
    if (need <= *room) return array;
    if (need > PL_TREES_NODES || !pl_mul_size(wanted, size, &bytes)) return NULL;
    void *moved = realloc(array, bytes);
    if (moved) *room = wanted;
    return moved;
}

/* Room for a tree of this depth; its values are zeroed. NULL: out of memory. */
static tree *add_tree(symmetric *m, size_t depth) {
    size_t values = m->scores << depth;
    tree *trees = reserve(m->trees, &m->tree_room, m->tree_count + 1, sizeof *trees);
    if (trees) m->trees = trees;
    question *questions =
        reserve(m->questions, &m->question_room, m->question_count + depth + 1, sizeof *questions);
    if (questions) m->questions = questions;
    float *numbers = reserve(m->values, &m->value_room, m->value_count + values, sizeof *numbers);
    if (numbers) m->values = numbers;
    if (!trees || !questions || !numbers) return NULL;
    memset(numbers + m->value_count, 0, values * sizeof *numbers);
    tree *added = &trees[m->tree_count++];
    *added = (tree){(uint32_t)m->question_count, (uint32_t)m->value_count, (uint32_t)depth};
    m->question_count += depth;
    m->value_count += values;
    return added;
}

/* A row's leaf, as its first value: [scores]. */
static const float *find_leaf(const symmetric *m, const tree *t, const float *row) {
    const question *q = m->questions + t->question;
    size_t leaf = 0;
    for (uint32_t d = 0; d < t->depth; d++)
        leaf |= (size_t)(row[q[d].column] > q[d].threshold) << d;
    return m->values + t->value + leaf * m->scores;
}

/* ---- learning ---- */

/* Scores learnt from the first `body` rows of an order, for the first `end` of them. */
typedef struct prefix {
    size_t body, end;
    double *scores;              /* [scores, end] */
    float *gradients, *hessians; /* [scores, end] */
} prefix;

typedef struct order {
    uint32_t *rows; /* [count] */
    uint8_t *codes; /* [columns, count] bins in this order */
    uint16_t *leaf; /* [count] rows' leaves in this order */
    prefix prefixes[MOST_PREFIXES];
    size_t prefix_count;
} order;

/* Body and tail of the rows of one leaf and bin. */
typedef struct cell {
    double body, body_weight, tail, tail_weight;
} cell;

typedef struct state {
    pl_boost boost;
    pl_bins bins;
    order orders[MOST_ORDERS];
    size_t order_count;
    bool ordered;
    size_t depth;
    double rate, lambda, temperature, noise;
    double *scores, *valid_scores; /* [scores, count] of the model itself */
    float *gradients, *hessians;   /* [scores, count] */
    uint16_t *leaf;                /* [count] rows' leaves in the tree at hand */
    float *weights;                /* [count] random weight, in the order that is searched */
    float *masses;                 /* [count] the same times the row's own weight */
    double *base;                  /* [scores] */
    double *leaf_gradients, *leaf_hessians; /* [scores << depth] */
    cell *cells;                            /* [leaves, PL_BINS_MOST], zero between uses */
    uint64_t *full;                         /* [leaves, WORDS] bins with rows, zero between uses */
    cell *totals;                           /* [scores * prefixes, leaves] */
    uint32_t *columns;                      /* [columns] shuffled at every level */
    double steps[PL_BINS_MOST][2];          /* what a threshold adds to both sums of the cosine */
    question chosen[MOST_DEPTH];
    uint8_t chosen_bin[MOST_DEPTH];
} state;

static double row_weight(const pl_samples *samples, size_t row) {
    return samples->weights ? (double)samples->weights[row] : 1;
}

/* Bodies double in length; the first has a row, or a fiftieth of many. */
static bool open_prefixes(order *o, size_t count, size_t scores, bool ordered) {
    size_t body = count <= 500 ? 1 : count / 50 < 100 ? count / 50 : 100;
    for (size_t end = 0; end < count && o->prefix_count < MOST_PREFIXES; body = end) {
        end = ordered && body < count - body ? 2 * body : count;
        prefix *p = &o->prefixes[o->prefix_count++];
        size_t cells;
        if (!pl_mul_size(scores, end, &cells)) return false;
        *p = (prefix){.body = ordered ? body : count, .end = end};
        p->scores = calloc(cells, sizeof *p->scores);
        p->gradients = calloc(cells, sizeof *p->gradients);
        p->hessians = calloc(cells, sizeof *p->hessians);
        if (!p->scores || !p->gradients || !p->hessians) return false;
    }
    return true;
}

static bool open_order(state *st, order *o, pl_random *random) {
    const size_t n = st->bins.count, m = st->bins.columns;
    o->rows = calloc(n, sizeof *o->rows);
    o->leaf = calloc(n, sizeof *o->leaf);
    o->codes = calloc(n * m, 1);
    if (!o->rows || !o->leaf || !o->codes) return false;
    for (size_t i = 0; i < n; i++) o->rows[i] = (uint32_t)i;
    if (st->ordered) pl_random_shuffle(random, o->rows, n);
    for (size_t c = 0; c < m; c++)
        for (size_t i = 0; i < n; i++) o->codes[c * n + i] = st->bins.codes[c * n + o->rows[i]];
    return open_prefixes(o, n, st->boost.scores, st->ordered);
}

static bool open_state(state *st, const pl_samples *samples, const pl_learn_settings *settings,
                       const char *text) {
    const size_t n = samples->count, k = st->boost.scores;
    size_t cells, valid_cells = 0;
    pl_random random = pl_random_seed(settings->seed, 1);
    st->depth = (size_t)option(text, "depth");
    st->ordered = option(text, "ordered") > 0;
    st->order_count = st->ordered ? (size_t)option(text, "orders") : 1;
    st->rate = option(text, "rate");
    st->temperature = option(text, "temperature");
    st->noise = option(text, "noise");
    if (!pl_bins_open(&st->bins, samples, (size_t)option(text, "bins"), 1)) return false;
    for (size_t r = 0; r < st->order_count; r++)
        if (!open_order(st, &st->orders[r], &random)) return false;
    if (!pl_mul_size(k, n, &cells)) return false;
    if (settings->valid && !pl_mul_size(k, settings->valid->count, &valid_cells)) return false;
    size_t leaves = (size_t)1 << st->depth;
    st->scores = calloc(cells, sizeof *st->scores);
    st->valid_scores = calloc(valid_cells + 1, sizeof *st->valid_scores);
    st->gradients = calloc(cells, sizeof *st->gradients);
    st->hessians = calloc(cells, sizeof *st->hessians);
    st->leaf = calloc(n, sizeof *st->leaf);
    st->weights = calloc(n, sizeof *st->weights);
    st->masses = calloc(n, sizeof *st->masses);
    st->base = calloc(k, sizeof *st->base);
    st->leaf_gradients = calloc(leaves, sizeof *st->leaf_gradients);
    st->leaf_hessians = calloc(leaves, sizeof *st->leaf_hessians);
    st->cells = calloc(leaves * PL_BINS_MOST, sizeof *st->cells);
    st->full = calloc(leaves * WORDS, sizeof *st->full);
    st->totals = calloc(k * MOST_PREFIXES * leaves, sizeof *st->totals);
    st->columns = calloc(samples->columns, sizeof *st->columns);
    if (!st->scores || !st->valid_scores || !st->gradients || !st->hessians || !st->leaf ||
        !st->weights || !st->masses || !st->base || !st->leaf_gradients || !st->leaf_hessians ||
        !st->cells || !st->full || !st->totals || !st->columns)
        return false;
    double weight = 0; /* the penalty is a number of rows of mean weight */
    for (size_t i = 0; i < n; i++) weight += row_weight(samples, i);
    st->lambda = option(text, "lambda") * weight / (double)n;
    return true;
}

static void close_state(state *st) {
    for (size_t r = 0; r < st->order_count; r++) {
        order *o = &st->orders[r];
        for (size_t j = 0; j < o->prefix_count; j++) {
            free(o->prefixes[j].scores);
            free(o->prefixes[j].gradients);
            free(o->prefixes[j].hessians);
        }
        free(o->rows);
        free(o->leaf);
        free(o->codes);
    }
    pl_bins_close(&st->bins);
    free(st->scores);
    free(st->valid_scores);
    free(st->gradients);
    free(st->hessians);
    free(st->leaf);
    free(st->weights);
    free(st->masses);
    free(st->base);
    free(st->leaf_gradients);
    free(st->leaf_hessians);
    free(st->cells);
    free(st->full);
    free(st->totals);
    free(st->columns);
}

static void derive_prefixes(const state *st, order *o) {
    for (size_t j = 0; j < o->prefix_count; j++) {
        prefix *p = &o->prefixes[j];
        for (size_t i = 0; i < p->end; i++)
            pl_boost_derive_row(&st->boost, o->rows[i], p->scores + i, p->gradients + i,
                                p->hessians + i, p->end);
    }
}

/* A leaf's part of the two sums of the cosine: the tail's gradients times the body's mean, and that
 * mean squared. */
static inline void add_leaf(double sums[2], double lambda, double body, double body_weight,
                            double tail, double tail_weight) {
    double mean = body_weight > 0 ? body / (body_weight + lambda) : 0;
    sums[0] += mean * tail;
    sums[1] += mean * mean * tail_weight;
}

/* Sums of the leaves as they are, for every score and prefix. */
static void sum_totals(state *st, const order *o, size_t leaves) {
    cell *totals = st->totals;
    for (size_t k = 0; k < st->boost.scores; k++)
        for (size_t j = 0; j < o->prefix_count; j++, totals += leaves) {
            const prefix *p = &o->prefixes[j];
            const float *gradients = p->gradients + k * p->end;
            memset(totals, 0, leaves * sizeof *totals);
            for (size_t i = 0; i < p->body; i++) {
                cell *c = &totals[o->leaf[i]];
                c->body += (double)(gradients[i] * st->weights[i]);
                c->body_weight += (double)st->masses[i];
            }
            for (size_t i = st->ordered ? p->body : 0; i < p->end; i++) {
                cell *c = &totals[o->leaf[i]];
                c->tail += (double)(gradients[i] * st->weights[i]);
                c->tail_weight += (double)st->masses[i];
            }
        }
}

/* Adds to st->steps how the cosine's sums change from threshold to threshold; only bins with rows
 * change them. Leaves the cells zero. */
static void walk_leaf(state *st, size_t leaf, const cell *total, size_t bins) {
    cell *cells = st->cells + leaf * PL_BINS_MOST;
    uint64_t *full = st->full + leaf * WORDS;
    double before[2] = {0, 0};
    cell left = {0};
    add_leaf(before, st->lambda, total->body, total->body_weight, total->tail, total->tail_weight);
    for (size_t word = 0; word < WORDS; word++) {
        for (uint64_t bits = full[word]; bits; bits &= bits - 1) {
            size_t bin = word * 64 + (size_t)__builtin_ctzll(bits);
            cell *c = &cells[bin];
            left.body += c->body;
            left.body_weight += c->body_weight;
            left.tail += c->tail;
            left.tail_weight += c->tail_weight;
            *c = (cell){0};
            if (bin + 1 >= bins) continue;
            double now[2] = {0, 0};
            add_leaf(now, st->lambda, left.body, left.body_weight, left.tail, left.tail_weight);
            add_leaf(now, st->lambda, total->body - left.body,
                     fmax(total->body_weight - left.body_weight, 0), total->tail - left.tail,
                     total->tail_weight - left.tail_weight);
            st->steps[bin][0] += now[0] - before[0];
            st->steps[bin][1] += now[1] - before[1];
            before[0] = now[0];
            before[1] = now[1];
        }
        full[word] = 0;
    }
}

/* The best cosine of a column's thresholds, each with its noise; sums: those of the leaves as they
 * are. */
static double search_column(state *st, const order *o, uint32_t column, size_t leaves,
                            const double sums[2], double noise, pl_random *random,
                            size_t *best_bin) {
    const size_t n = st->bins.count, bins = st->bins.first[column + 1] - st->bins.first[column];
    const uint8_t *codes = o->codes + (size_t)column * n;
    const cell *totals = st->totals;
    memset(st->steps, 0, bins * sizeof st->steps[0]);
    for (size_t k = 0; k < st->boost.scores; k++)
        for (size_t j = 0; j < o->prefix_count; j++, totals += leaves) {
            const prefix *p = &o->prefixes[j];
            const float *gradients = p->gradients + k * p->end;
            for (size_t i = 0; i < p->body; i++) {
                cell *c = &st->cells[o->leaf[i] * (size_t)PL_BINS_MOST + codes[i]];
                c->body += (double)(gradients[i] * st->weights[i]);
                c->body_weight += (double)st->masses[i];
                st->full[o->leaf[i] * (size_t)WORDS + codes[i] / 64] |= (uint64_t)1
                                                                        << codes[i] % 64;
            }
            for (size_t i = st->ordered ? p->body : 0; i < p->end; i++) {
                cell *c = &st->cells[o->leaf[i] * (size_t)PL_BINS_MOST + codes[i]];
                c->tail += (double)(gradients[i] * st->weights[i]);
                c->tail_weight += (double)st->masses[i];
                st->full[o->leaf[i] * (size_t)WORDS + codes[i] / 64] |= (uint64_t)1
                                                                        << codes[i] % 64;
            }
            for (size_t l = 0; l < leaves; l++) walk_leaf(st, l, &totals[l], bins);
        }
    double now[2] = {sums[0], sums[1]}, best = -INFINITY;
    for (size_t bin = 0; bin + 1 < bins; bin++) {
        now[0] += st->steps[bin][0];
        now[1] += st->steps[bin][1];
        double cosine = now[1] > 1e-100 ? now[0] / sqrt(now[1]) : 0;
        if (noise > 0) cosine += noise * pl_random_normal(random);
        if (!(cosine > best)) continue;
        best = cosine;
        *best_bin = bin;
    }
    return best;
}

static bool asked_before(const state *st, size_t level, uint32_t column, size_t bin) {
    for (size_t d = 0; d < level; d++)
        if (st->chosen[d].column == column && st->chosen_bin[d] == bin) return true;
    return false;
}

/* Random weights of the rows: of an exponential distribution, to the power of the temperature. */
static void weigh(state *st, const order *o, pl_random *random) {
    for (size_t i = 0; i < st->bins.count; i++) {
        double w = 1;
        if (st->temperature > 0) w = -log(1 - pl_random_unit(random));
        if (st->temperature > 0 && st->temperature != 1) w = pow(w, st->temperature);
        st->weights[i] = (float)w;
        st->masses[i] = (float)(w * row_weight(st->boost.samples, o->rows[i]));
    }
}

/* Chooses a tree's questions on one order; returns how many. Leaves are in o->leaf afterwards. */
static size_t choose(state *st, order *o, size_t tried, double noise, pl_random *random) {
    const size_t n = st->bins.count, m = st->bins.columns;
    memset(o->leaf, 0, n * sizeof *o->leaf);
    for (size_t level = 0; level < st->depth; level++) {
        const size_t leaves = (size_t)1 << level;
        double sums[2] = {0, 0}, best = -INFINITY;
        uint32_t best_column = 0;
        size_t best_bin = 0, bin = 0;
        weigh(st, o, random);
        sum_totals(st, o, leaves);
        for (size_t i = 0; i < st->boost.scores * o->prefix_count * leaves; i++)
            add_leaf(sums, st->lambda, st->totals[i].body, st->totals[i].body_weight,
                     st->totals[i].tail, st->totals[i].tail_weight);
        if (tried < m) pl_random_shuffle(random, st->columns, m);
        for (size_t c = 0; c < tried; c++) {
            uint32_t column = st->columns[c];
            if (st->bins.first[column + 1] - st->bins.first[column] < 2) continue;
            double score = search_column(st, o, column, leaves, sums, noise, random, &bin);
            if (!(score > best) || asked_before(st, level, column, bin)) continue;
            best = score;
            best_column = column;
            best_bin = bin;
        }
        if (best == -INFINITY) return level;
        st->chosen[level] = (question){st->bins.upper[st->bins.first[best_column] + best_bin],
                                       (uint16_t)best_column};
        st->chosen_bin[level] = (uint8_t)best_bin;
        const uint8_t *codes = o->codes + (size_t)best_column * n;
        for (size_t i = 0; i < n; i++)
            o->leaf[i] = (uint16_t)(o->leaf[i] | (codes[i] > best_bin) << level);
    }
    return st->depth;
}

/* Every prefix takes a step of its own, learnt from its body. */
static void step_prefixes(state *st, order *o, size_t leaves) {
    for (size_t j = 0; j < o->prefix_count; j++) {
        prefix *p = &o->prefixes[j];
        for (size_t k = 0; k < st->boost.scores; k++) {
            const float *gradients = p->gradients + k * p->end,
                        *hessians = p->hessians + k * p->end;
            memset(st->leaf_gradients, 0, leaves * sizeof *st->leaf_gradients);
            memset(st->leaf_hessians, 0, leaves * sizeof *st->leaf_hessians);
            for (size_t i = 0; i < p->body; i++) {
                st->leaf_gradients[o->leaf[i]] += (double)gradients[i];
                st->leaf_hessians[o->leaf[i]] += (double)hessians[i];
            }
            for (size_t l = 0; l < leaves; l++)
                if (st->leaf_hessians[l] > 0)
                    st->leaf_gradients[l] /= st->leaf_hessians[l] + st->lambda;
            for (size_t i = 0; i < p->end; i++)
                p->scores[k * p->end + i] -= st->rate * st->leaf_gradients[o->leaf[i]];
        }
    }
}

/* Sets the new tree's leaves from all rows and adds it to the model's own scores. */
static void step_model(symmetric *model, state *st, const tree *t, const pl_samples *valid) {
    const size_t n = st->bins.count, leaves = (size_t)1 << t->depth;
    pl_boost_derive(&st->boost, st->scores, st->gradients, st->hessians);
    for (size_t k = 0; k < st->boost.scores; k++) {
        memset(st->leaf_gradients, 0, leaves * sizeof *st->leaf_gradients);
        memset(st->leaf_hessians, 0, leaves * sizeof *st->leaf_hessians);
        for (size_t i = 0; i < n; i++) {
            st->leaf_gradients[st->leaf[i]] += (double)st->gradients[k * n + i];
            st->leaf_hessians[st->leaf[i]] += (double)st->hessians[k * n + i];
        }
        float *values = model->values + t->value;
        for (size_t l = 0; l < leaves; l++)
            if (st->leaf_hessians[l] > 0)
                values[l * model->scores + k] = (float)(-st->rate * st->leaf_gradients[l] /
                                                        (st->leaf_hessians[l] + st->lambda));
        for (size_t i = 0; i < n; i++)
            st->scores[k * n + i] += (double)values[st->leaf[i] * model->scores + k];
    }
    for (size_t i = 0; valid && i < valid->count; i++) {
        const float *values = find_leaf(model, t, valid->values + i * valid->columns);
        for (size_t k = 0; k < model->scores; k++)
            st->valid_scores[k * valid->count + i] += (double)values[k];
    }
}

/* What the scores' noise is measured in: the gradients' root mean square, less and less of it as
 * the model's length (trees * rate) passes log(count), as CatBoost lets it fade. */
static double noise_now(const state *st, const order *o, size_t round) {
    const prefix *p = &o->prefixes[o->prefix_count - 1];
    const double count = (double)st->bins.count;
    double squares = 0;
    for (size_t i = 0; i < st->boost.scores * p->end; i++)
        squares += (double)p->gradients[i] * (double)p->gradients[i];
    double left = exp(log(count) - (double)round * st->rate);
    if (left < 1e-3) return 0; /* no longer worth its random numbers */
    return st->noise * sqrt(squares / count) * left / (1 + left);
}

static bool grow_tree(symmetric *model, state *st, const pl_samples *valid, size_t tried,
                      size_t round, pl_random *random) {
    const pl_samples *samples = st->boost.samples;
    const size_t n = samples->count;
    order *o = &st->orders[st->ordered ? pl_random_below(random, (uint32_t)st->order_count) : 0];
    for (size_t r = 0; r < st->order_count; r++) derive_prefixes(st, &st->orders[r]);
    double noise = st->noise > 0 ? noise_now(st, o, round) : 0;
    size_t depth = choose(st, o, tried, noise, random);
    for (size_t i = 0; i < n; i++) st->leaf[o->rows[i]] = o->leaf[i];
    tree *added = add_tree(model, depth);
    if (!added) return false;
    memcpy(model->questions + added->question, st->chosen, depth * sizeof *st->chosen);
    for (size_t r = 0; r < st->order_count; r++) {
        order *each = &st->orders[r];
        for (size_t i = 0; i < n; i++) each->leaf[i] = st->leaf[each->rows[i]];
        step_prefixes(st, each, (size_t)1 << depth);
    }
    step_model(model, st, added, valid);
    return true;
}

static void start(symmetric *model, state *st, const pl_samples *valid) {
    const size_t n = st->bins.count;
    for (size_t k = 0; k < model->scores; k++) {
        double base = (double)(model->base[k] = (float)st->base[k]);
        for (size_t i = 0; i < n; i++) st->scores[k * n + i] = base;
        for (size_t i = 0; valid && i < valid->count; i++)
            st->valid_scores[k * valid->count + i] = base;
        for (size_t r = 0; r < st->order_count; r++)
            for (size_t j = 0; j < st->orders[r].prefix_count; j++) {
                prefix *p = &st->orders[r].prefixes[j];
                for (size_t i = 0; i < p->end; i++) p->scores[k * p->end + i] = base;
            }
    }
    for (size_t c = 0; c < st->bins.columns; c++) st->columns[c] = (uint32_t)c;
}

static bool boost_rounds(symmetric *model, state *st, const pl_learn_settings *settings,
                         const char *text) {
    const pl_samples *valid = settings->valid;
    const size_t rounds = (size_t)option(text, "trees"), stop = (size_t)option(text, "stop");
    double share = option(text, "features") * (double)st->bins.columns;
    size_t tried = share < 1 ? 1 : (size_t)share;
    pl_random random = pl_random_seed(settings->seed, 0);
    double best = INFINITY;
    size_t best_round = 0;
    if (!pl_boost_start(&st->boost, st->base)) return false;
    start(model, st, valid);
    for (size_t round = 1; round <= rounds; round++) {
        if (!pl_budget_poll(settings->budget)) return false;
        if (!grow_tree(model, st, valid, tried, round - 1, &random)) return false;
        double valid_loss = pl_boost_loss(&st->boost, valid, st->valid_scores);
        if (valid_loss < best) {
            best = valid_loss;
            best_round = round;
        }
        if (settings->progress) {
            pl_epoch epoch = {(int)round, (int)rounds,
                              pl_boost_loss(&st->boost, st->boost.samples, st->scores), valid_loss};
            settings->progress(&epoch, settings->progress_context);
        }
        if (stop && best_round && round - best_round >= stop) break;
    }
    if (stop && best_round && best_round < model->tree_count) {
        model->question_count = model->trees[best_round].question;
        model->value_count = model->trees[best_round].value;
        model->tree_count = best_round;
    }
    return true;
}

static pl_status train_symmetric(pl_learned **out, const pl_samples *samples,
                                 const pl_learn_settings *settings, pl_error *err) {
    const char *text = settings->options ? settings->options : "";
    *out = NULL;
    pl_status status = pl_options_check(text, options, OPTIONS, err);
    if (status == PL_OK) status = pl_tree_check_samples(samples, "symmetric", err);
    if (status == PL_OK) status = pl_tree_check_valid(settings->valid, samples, err);
    if (status != PL_OK) return status;
    state *st = calloc(1, sizeof *st);
    symmetric *model = new_symmetric(samples->columns, samples->class_count);
    bool done = st && model && pl_boost_open(&st->boost, samples, NULL, 0, err) == PL_OK &&
                open_state(st, samples, settings, text) && boost_rounds(model, st, settings, text);
    if (st) close_state(st);
    free(st);
    *out = model ? &model->learned : NULL;
    if (done) return PL_OK;
    close_symmetric(out);
    return pl_fail(err, PL_MISSING, "symmetric", -1, "out of memory");
}

static pl_status predict_symmetric(const pl_learned *learned, const pl_samples *samples, float *out,
                                   pl_error *err) {
    const symmetric *m = (const symmetric *)learned;
    pl_status status = pl_tree_check_columns(samples, m->columns, "symmetric", err);
    if (status != PL_OK) return status;
    for (size_t i = 0; i < samples->count; i++) {
        const float *row = samples->values + i * samples->columns;
        float *outputs = out + i * learned->outputs;
        if (m->scores == 1) {
            double sum = (double)m->base[0];
            for (size_t t = 0; t < m->tree_count; t++)
                sum += (double)*find_leaf(m, &m->trees[t], row);
            outputs[0] = 0; /* of two classes the second one's logit over 0 */
            outputs[learned->outputs - 1] = (float)sum;
            continue;
        }
        memcpy(outputs, m->base, m->scores * sizeof *outputs);
        for (size_t t = 0; t < m->tree_count; t++) {
            const float *values = find_leaf(m, &m->trees[t], row);
            for (size_t k = 0; k < m->scores; k++) outputs[k] += values[k];
        }
    }
    return PL_OK;
}

/* u32 classes (0: a regression), f32 per score to start from, u32 trees; per tree: u32 depth, per
 * level its column (u32) and threshold (f32), then f32 per leaf and score. */
static void save_symmetric(const pl_learned *learned, pl_writer *w) {
    const symmetric *m = (const symmetric *)learned;
    pl_write_u32(w, (uint32_t)m->classes);
    pl_write_floats(w, m->base, m->scores);
    pl_write_u32(w, (uint32_t)m->tree_count);
    for (size_t i = 0; i < m->tree_count; i++) {
        const tree *t = &m->trees[i];
        pl_write_u32(w, t->depth);
        for (uint32_t d = 0; d < t->depth; d++) {
            pl_write_u32(w, m->questions[t->question + d].column);
            pl_write_f32(w, m->questions[t->question + d].threshold);
        }
        pl_write_floats(w, m->values + t->value, m->scores << t->depth);
    }
}

static bool load_tree(symmetric *m, pl_reader *r) {
    size_t depth = pl_read_u32_in(r, 0, MOST_DEPTH, "a depth of at most 12");
    if (r->failure) return false;
    if (!pl_read_has(r, depth * 2 + (m->scores << depth), 4)) {
        pl_read_fail(r, "as many bytes as the tree takes");
        return false;
    }
    tree *t = add_tree(m, depth);
    if (!t) {
        pl_read_no_memory(r);
        return false;
    }
    for (uint32_t d = 0; d < t->depth; d++) {
        question *q = &m->questions[t->question + d];
        q->column = (uint16_t)pl_read_u32_in(r, 0, (uint32_t)m->columns - 1, "one of the columns");
        q->threshold = pl_read_f32(r);
    }
    return pl_read_floats(r, m->values + t->value, m->scores << depth) && !r->failure;
}

static pl_learned *load_symmetric(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* trees see columns only */
    size_t classes = pl_read_u32_in(reader, 0, PL_TREE_CLASSES, "a number of classes");
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 1,022 columns");
    if (reader->failure) return NULL;
    symmetric *model = new_symmetric(columns, classes);
    if (!model) {
        pl_read_no_memory(reader);
        return NULL;
    }
    pl_read_floats(reader, model->base, model->scores);
    size_t trees = pl_read_u32_in(reader, 1, MOST_TREES, "a number of trees");
    while (!reader->failure && model->tree_count < trees) load_tree(model, reader);
    pl_learned *learned = &model->learned;
    if (reader->failure) close_symmetric(&learned);
    return learned;
}

const pl_learner pl_learner_symmetric = {
    .name = "symmetric",
    .scaled = "as-is",
    .train = train_symmetric,
    .predict = predict_symmetric,
    .save = save_symmetric,
    .load = load_symmetric,
    .close = close_symmetric,
};
