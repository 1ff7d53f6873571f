/* spec_item: one item of a list of layers, however it was written, and the table of layers. */
#ifndef PL_IMPORT_SPEC_ITEM_H
#define PL_IMPORT_SPEC_ITEM_H

#include "import/spec_reader.h"

/* What a tensor is to the layers; batch first. */
typedef enum pl_spec_form {
    FEATURES, /* [N, F] */
    SEQUENCE, /* [N, L, F] */
    IMAGE,    /* [N, C, one to three edges] */
    TOKENS,   /* [N, L] int64 */
} pl_spec_form;

typedef struct pl_spec_value {
    int32_t x;
    pl_spec_form form;
} pl_spec_value;

enum { PL_SPEC_MAX_ARGS = 12, PL_SPEC_MAX_WORDS = 256 };

typedef struct pl_spec_item {
    const pl_yaml *node;
    const char *name;     /* of the layer */
    const pl_yaml *inner; /* the list within a residual or a repeat, or NULL */
    pl_yaml args;         /* its settings: a mapping over members */
    pl_yaml members[PL_SPEC_MAX_ARGS];
    char keys[PL_SPEC_MAX_ARGS][24]; /* of members that were written without */
    char text[PL_SPEC_MAX_WORDS];    /* of an item that is words, taken apart */
} pl_spec_item;

typedef struct pl_spec_layer {
    const char *name;
    const char *places;            /* keys of the numbers behind the name, in order */
    const char *keys;              /* all of them */
    unsigned forms;                /* 1 << FEATURES | ..: what it takes */
    const char *expects, *instead; /* for the message */
    pl_spec_value (*build)(pl_sketch *s, const pl_spec_item *it, const char *name, pl_spec_value v);
} pl_spec_layer;

extern const pl_spec_layer pl_spec_layers[];       /* ends with a row without name */
extern const pl_spec_layer pl_spec_any_activation; /* by the names of pl_nn_activations */

/* NULL: failed. The item keeps pointers into node. */
const pl_spec_layer *pl_spec_read_item(pl_sketch *s, pl_spec_item *it, const pl_yaml *node);

#endif
