/* gpumemnet_csv: training runs as GPUMemNet publishes them (https://github.com/itu-rad/GPUMemNet,
 * the data of "GPU Memory and Utilization Estimation for Training-Aware Resource Management"), one
 * line per run: what the model is made of and the memory it took. */
#ifndef PL_LAB_GPUMEMNET_CSV_H
#define PL_LAB_GPUMEMNET_CSV_H

#include "lend.h"

typedef struct pl_gpumemnet_layer {
    const char *type;                /* "linear", "batch_normalization", "ReLU" */
    int64_t activations, parameters; /* numbers, of one sample */
} pl_gpumemnet_layer;

typedef struct pl_gpumemnet_row {
    const char *filename;
    const char *activation; /* the activation function: "ReLU" */
    int64_t depth;
    const pl_gpumemnet_layer *layers; /* in the model's order */
    size_t layer_count;
    int64_t total_activations, total_parameters; /* numbers; activations of one sample */
    int64_t batch;
    int64_t batch_norm_layers, dropout_layers;
    double max_mib; /* peak, as nvidia-smi showed it */
    /* DCGM's averages over the run, NAN where the file has none: utilization in percent, the others
     * shares of 1. */
    double gputl, gract, smact, smocc, fp32a;
    int64_t position; /* the line's first byte in the (unpacked) file */
} pl_gpumemnet_row;

typedef struct pl_gpumemnet_rows {
    const pl_gpumemnet_row *rows;
    size_t count;
} pl_gpumemnet_rows;

/* Whether it is such a file, by its first line; whether it can be read is another matter. */
bool pl_gpumemnet_is(const char *bytes, size_t size);
/* Everything in *out lies in the arena. path: plain or xz. Positions in messages are those of the
 * unpacked bytes. Averages may be missing as columns or as values, all else is required. */
pl_status pl_gpumemnet_open(pl_gpumemnet_rows *out, const char *path, pl_arena *arena,
                            pl_error *err);
/* The same from memory; the bytes are not kept. name: for messages. */
pl_status pl_gpumemnet_read(pl_gpumemnet_rows *out, const char *bytes, size_t size,
                            const char *name, pl_arena *arena, pl_error *err);

#endif
