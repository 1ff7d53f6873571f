/* spec_reader: what the files of the spec importer share: the sketch in hand, its keys, and
 * torch.nn's layers with their modules and parameters. */
#ifndef PL_IMPORT_SPEC_READER_H
#define PL_IMPORT_SPEC_READER_H

#include "graph/aten.h"
#include "import/yaml.h"

/* The most that a spec may ask for. */
enum {
    PL_SPEC_MAX_LAYERS = 10000, /* layers made, repeats counted */
    PL_SPEC_MAX_REPEAT = 2000,  /* times of one repeat, layers of a family */
    PL_SPEC_MAX_NESTING = 24,   /* residuals and repeats within each other */
    PL_SPEC_MAX_SIZE = 1 << 30, /* a width, a vocabulary, pixels of an edge */
};

typedef struct pl_sketch {
    pl_builder *b;
    const char *file;
    int64_t batch, seq;
    int64_t layers;    /* made so far */
    const pl_yaml *at; /* what is being built: for failures of operators */
    int64_t position;  /* byte of the first failure, -1: none */
    int nesting;       /* of residuals and repeats around it */
    char note[160];    /* behind an operator's failure: what the layer got; "" */
} pl_sketch;

/* The index of a word in a list separated by spaces, -1: not there. */
int pl_spec_index(const char *words, const char *word);
/* The word of such a list that somebody may have meant; *length 0: none. */
const char *pl_spec_nearest(const char *words, const char *word, size_t *length);

/* Fails with the node's line; the first failure holds. */
void pl_spec_fail(pl_sketch *s, const pl_yaml *node, const char *format, ...) PL_PRINTF(3, 4);

/* Every key of map must be one of `known`, separated by spaces; others are refused with the nearest
 * known one. */
void pl_spec_keys(pl_sketch *s, const pl_yaml *map, const char *what, const char *known);

/* Keys of a mapping; absent or null: otherwise. Of another kind, or out of range: a failure that
 * names the key. */
int64_t pl_spec_int(pl_sketch *s, const pl_yaml *map, const char *key, int64_t least,
                    int64_t otherwise);
/* At least 1; absent: a failure. */
int64_t pl_spec_need(pl_sketch *s, const pl_yaml *map, const char *key, const char *what);
double pl_spec_share(pl_sketch *s, const pl_yaml *map, const char *key,
                     double otherwise); /* 0 to 1 */
bool pl_spec_bool(pl_sketch *s, const pl_yaml *map, const char *key, bool otherwise);
/* One of `words`, separated by spaces: its index. */
int pl_spec_word(pl_sketch *s, const pl_yaml *map, const char *key, const char *words,
                 int otherwise);
/* A scalar's whole number; what: for the message. Between least and PL_SPEC_MAX_SIZE. */
int64_t pl_spec_number(pl_sketch *s, const pl_yaml *node, const char *what, int64_t least);

/* ---- spec_nn.c: torch.nn's layers: module `name`, its parameters, its operator ---- */

int32_t pl_nn_linear(pl_builder *b, const char *name, int32_t x, int64_t out, bool bias);
/* dims: spatial, 1 to 3. */
typedef struct pl_nn_window {
    int64_t kernel[3], stride[3], padding[3], dilation[3], output_padding[3];
    int64_t groups;
    bool bias, ceil;
} pl_nn_window;
int32_t pl_nn_conv(pl_builder *b, const char *name, int dims, int32_t x, int64_t out,
                   const pl_nn_window *w);
int32_t pl_nn_conv_transpose(pl_builder *b, const char *name, int dims, int32_t x, int64_t out,
                             const pl_nn_window *w);
int32_t pl_nn_max_pool(pl_builder *b, const char *name, int dims, int32_t x, const pl_nn_window *w);
int32_t pl_nn_avg_pool(pl_builder *b, const char *name, int dims, int32_t x, const pl_nn_window *w);
int32_t pl_nn_adaptive_avg_pool(pl_builder *b, const char *name, int dims, int32_t x,
                                const int64_t *sizes);
int32_t pl_nn_upsample(pl_builder *b, const char *name, int dims, int32_t x, int64_t scale,
                       bool linear);
int32_t pl_nn_batch_norm(pl_builder *b, const char *name, int32_t x);
int32_t pl_nn_layer_norm(pl_builder *b, const char *name, int32_t x);
int32_t pl_nn_rms_norm(pl_builder *b, const char *name, int32_t x);
int32_t pl_nn_group_norm(pl_builder *b, const char *name, int32_t x, int64_t groups);
int32_t pl_nn_dropout(pl_builder *b, const char *name, int32_t x, double p);
/* Dropout1d, 2d, 3d: whole channels. */
int32_t pl_nn_dropout_channels(pl_builder *b, const char *name, int dims, int32_t x, double p);
int32_t pl_nn_embedding(pl_builder *b, const char *name, int32_t x, int64_t rows, int64_t width);
int32_t pl_nn_flatten(pl_builder *b, const char *name, int32_t x);
/* Activations without parameters and PReLU, by the names of pl_nn_activations (separated by
 * spaces); inplace where the class has it. */
extern const char pl_nn_activations[];
int32_t pl_nn_activation(pl_builder *b, const char *name, int act, bool inplace, int32_t x);
/* cell: 0 lstm, 1 gru, 2 rnn (tanh); batch first; the output of all steps. */
int32_t pl_nn_recurrent(pl_builder *b, const char *name, int cell, int32_t x, int64_t hidden,
                        int64_t layers, bool bidirectional, double dropout);
/* nn.MultiheadAttention(batch_first=True) as self-attention, need_weights=False. */
int32_t pl_nn_attention(pl_builder *b, const char *name, int32_t x, int64_t heads, double dropout,
                        bool causal);
/* nn.TransformerEncoderLayer(batch_first=True) in training. act: as above. */
typedef struct pl_nn_encoder {
    int64_t heads, ff;
    double dropout;
    int act;
    bool norm_first, causal;
} pl_nn_encoder;
int32_t pl_nn_encoder_layer(pl_builder *b, const char *name, int32_t x, const pl_nn_encoder *e);

/* ---- spec_family.c, spec_list.c ---- */

/* Their names, separated by spaces. */
extern const char pl_spec_families[];
/* Builds the model; root: the whole file. Returns its output. */
int32_t pl_spec_family(pl_sketch *s, const pl_yaml *root, int family);
int32_t pl_spec_list(pl_sketch *s, const pl_yaml *root);
/* Whether the family, or the list's input, has a sequence; *given: its length, where the input
 * says. */
bool pl_spec_family_has_seq(int family);
bool pl_spec_list_has_seq(const pl_yaml *root, int64_t *given);

#endif
