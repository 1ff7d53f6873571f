/* chain: layers one behind the other, from a sample's numbers to what is predicted.
 *
 * In text: "tokens:64,bigru:32,encoder:4:256:0.1,mean,linear:64,relu,linear". */
#ifndef PL_LAB_CHAIN_H
#define PL_LAB_CHAIN_H

#include "lab/learn/layer.h"
#include "lab/learn/random.h"
#include "lend.h"

enum { PL_CHAIN_LAYERS = 64, PL_CHAIN_WEIGHTS = 64 << 20 }; /* at most */

typedef struct pl_chain {
    pl_layer *layers;
    size_t count;
    bool takes_steps; /* the first layer's input is the samples' steps; else their columns */
    size_t fixed;     /* steps of every sample, where they are made of columns; else 0 */
    size_t columns, channels, outputs;
    size_t weights, packed, states; /* floats */
    bool across_samples;            /* see pl_layer_kind */
} pl_chain;

/* outputs: numbers that the last layer must give. On failure (PL_USAGE, with the layer) the chain
 * is empty. */
pl_status pl_chain_open(pl_chain *chain, const char *text, size_t length, size_t columns,
                        size_t channels, size_t outputs, pl_error *err);
void pl_chain_close(pl_chain *chain); /* takes an empty one */

/* Starting weights [weights] and states [states]. */
void pl_chain_start(const pl_chain *chain, float *weights, float *states, pl_random *random);
/* From weights as they are trained to those for predicting [packed], and back. */
void pl_chain_pack(const pl_chain *chain, const float *plain, float *packed);
void pl_chain_unpack(const pl_chain *chain, const float *packed, float *plain);

/* The extent as this chain's layers see it: steps made of columns replace the samples' own. */
pl_extent pl_chain_extent(const pl_chain *chain, const pl_extent *samples);
/* Floats of room that a pass over a batch of this extent (at most) needs; 0: more than can be. */
size_t pl_chain_room(const pl_chain *chain, const pl_extent *extent, bool training, bool packed);

/* x: [rows, channels] or [count, columns]; returns the outputs, [count, outputs], within the room.
 * The caller fills the pass up to `random`. */
const float *pl_chain_forward(const pl_chain *chain, pl_net_pass *pass, const float *x,
                              float *room);
/* After a forward of the same pass and room, training: adds to the gradients. */
void pl_chain_backward(const pl_chain *chain, pl_net_pass *pass, const float *x, const float *d_out,
                       float *room);

#endif
