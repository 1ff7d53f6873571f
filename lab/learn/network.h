/* network: the learner of neural networks (pl_learner_network in learner.h), and what its training
 * (network_train.c) and its file (network_file.c) share.
 *
 * Options: see network_options in network_train.c. A network is one chain of layers or several,
 * separated by `|`, whose outputs are averaged. */
#ifndef PL_LAB_NETWORK_H
#define PL_LAB_NETWORK_H

#include "lab/learn/chain.h"
#include "lab/learn/learners.h"

enum { PL_NETWORK_TEXT = 4096, PL_NETWORK_MEMBERS = 64 }; /* bytes of `net` with its 0; chains */

typedef enum pl_network_store {
    PL_STORE_F32,
    PL_STORE_F16,
    PL_STORE_INT8,
    PL_STORES
} pl_network_store;
extern const char *const pl_network_stores[PL_STORES]; /* their names */

typedef struct pl_network {
    pl_learned learned;
    char *text; /* all chains */
    size_t columns, channels;
    pl_network_store store; /* how weights lie in the file; they are rounded to it when trained */
    size_t member_count;
    pl_chain members[PL_NETWORK_MEMBERS];
    float *weights[PL_NETWORK_MEMBERS]; /* packed, then states; into block */
    float *block;
} pl_network;

/* Parses the text and takes the block, weights unset. */
pl_status pl_network_open(pl_network **out, const char *text, size_t columns, size_t channels,
                          size_t outputs, pl_error *err);
/* The same in two steps: without a block first. */
pl_status pl_network_parse(pl_network **out, const char *text, size_t columns, size_t channels,
                           size_t outputs, pl_error *err);
bool pl_network_allocate(pl_network *network);
void pl_network_close(pl_learned **network);
static inline float *pl_network_states(const pl_network *n, size_t member) {
    return n->weights[member] + n->members[member].packed;
}

/* Some of the samples brought together, the longest first. */
typedef struct pl_gathered {
    pl_batch batch;
    size_t *begin;  /* [room for count + 1] */
    float *columns; /* [count, columns] */
    float *steps;   /* [rows, channels] */
    const float *x; /* the chain's input: one of the two */
} pl_gathered;

/* index: [count], sorted. */
void pl_network_gather(pl_gathered *out, const pl_chain *chain, const pl_samples *samples,
                       const uint32_t *index, size_t count);
/* Sorts by length, the longest first, samples of one length as they came. room: [count]. */
void pl_network_sort(const pl_samples *samples, uint32_t *index, size_t count, uint64_t *room);
static inline size_t pl_sample_steps(const pl_samples *samples, size_t i) {
    return samples->begin ? samples->begin[i + 1] - samples->begin[i] : 0;
}

/* Refuses samples that the network's chains cannot take. */
pl_status pl_network_fits(const pl_network *network, const pl_samples *samples, pl_error *err);

pl_status pl_network_train(pl_learned **out, const pl_samples *samples,
                           const pl_learn_settings *settings, pl_error *err);
void pl_network_save(const pl_learned *learned, pl_writer *writer);
pl_learned *pl_network_load(pl_reader *reader, size_t columns, size_t channels);
/* Rounds plain weights to what the file will hold. */
void pl_network_round(const pl_chain *chain, pl_network_store store, float *plain);

#endif
