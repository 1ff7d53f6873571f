/* layer_kinds: the table of layers, and what they share. */
#include "lab/learn/layer.h"

#include <math.h>

#define WHOLE(name, least, most, standard)                                                         \
    { name, least, most, standard, true }
#define SHARE(name, standard)                                                                      \
    { name, 0, 0.95, standard, false }
#define FUNCTIONS(f)                                                                               \
    .shape = pl_layer_##f##_shape, .forward = pl_layer_##f##_forward,                              \
    .backward = pl_layer_##f##_backward
#define KEPT(f)    .kept = pl_layer_##f##_kept
#define SCRATCH(f) .scratch = pl_layer_##f##_scratch
#define ACTIVATION(name_, f)                                                                       \
    { .name = name_, .variant = f, FUNCTIONS(activation) }
#define POOL(name_, v)                                                                             \
    { .name = name_, .wants = PL_SEQUENCE, .variant = v, FUNCTIONS(pool) }

/* What each does stands above its functions. */
static const pl_layer_kind kinds[] = {
    /* where the numbers come from; without one of the first three, a first layer that wants a
     * sequence takes the samples' steps, any other one their columns */
    {.name = "steps", .wants = PL_STEPS, FUNCTIONS(steps)},
    {.name = "columns", .wants = PL_COLUMNS, FUNCTIONS(steps)},
    {.name = "tokens",
     .wants = PL_COLUMNS,
     .args = {WHOLE("width", 1, PL_WIDTH_MOST, NAN)},
     FUNCTIONS(tokens)},
    {.name = "append", FUNCTIONS(append)},
    {.name = "embedding",
     .wants = PL_SEQUENCE,
     .args = {WHOLE("channel", 0, PL_WIDTH_MOST, NAN), WHOLE("ids", 1, 65536, NAN),
              WHOLE("width", 1, PL_WIDTH_MOST, NAN)},
     FUNCTIONS(embedding)},
    {.name = "positions",
     .wants = PL_SEQUENCE,
     .args = {WHOLE("steps", 1, PL_STEPS_MOST, 512)},
     FUNCTIONS(positions)},
    {.name = "sinusoid", .wants = PL_SEQUENCE, FUNCTIONS(sinusoid)},

    {.name = "linear", .args = {WHOLE("width", 1, PL_WIDTH_MOST, PL_OUTPUTS)}, FUNCTIONS(linear)},
    {.name = "dropout",
     .args = {SHARE("share", NAN)},
     FUNCTIONS(dropout),
     KEPT(dropout),
     .only_training = true},
    {.name = "layernorm", FUNCTIONS(layernorm), KEPT(layernorm)},
    {.name = "batchnorm", FUNCTIONS(batchnorm), KEPT(batchnorm), .across_samples = true},
    ACTIVATION("relu", PL_RELU),
    ACTIVATION("leaky", PL_LEAKY),
    ACTIVATION("elu", PL_ELU),
    ACTIVATION("gelu", PL_GELU),
    ACTIVATION("silu", PL_SILU),
    ACTIVATION("tanh", PL_TANH),
    ACTIVATION("sigmoid", PL_SIGMOID),

    {.name = "attention",
     .wants = PL_SEQUENCE,
     .args = {WHOLE("heads", 1, 64, NAN), WHOLE("key", 0, 1024, 0), SHARE("dropout", 0)},
     .words = {"causal", "residual"},
     FUNCTIONS(attention),
     KEPT(attention),
     SCRATCH(attention)},
    {.name = "encoder",
     .wants = PL_SEQUENCE,
     .args = {WHOLE("heads", 1, 64, NAN), WHOLE("inner", 1, PL_WIDTH_MOST, NAN),
              SHARE("dropout", 0), WHOLE("key", 0, 1024, 0)},
     .words = {"pre", "gelu", "causal"},
     FUNCTIONS(encoder),
     KEPT(encoder),
     SCRATCH(encoder)},
    {.name = "gru",
     .wants = PL_SEQUENCE,
     .args = {WHOLE("width", 1, 4096, NAN)},
     .words = {"reversed"},
     FUNCTIONS(gru),
     KEPT(gru),
     SCRATCH(gru)},
    {.name = "bigru",
     .wants = PL_SEQUENCE,
     .variant = 1,
     .args = {WHOLE("width", 1, 4096, NAN), WHOLE("reversed", 0, 4096, 0)},
     FUNCTIONS(gru),
     KEPT(gru),
     SCRATCH(gru)},

    POOL("sum", 0),
    POOL("mean", 1),
    POOL("max", 2),
    POOL("first", 3),
    POOL("last", 4),
    {.name = "ends",
     .wants = PL_SEQUENCE,
     .variant = 5,
     .args = {WHOLE("forward", 0, PL_WIDTH_MOST, 0)},
     FUNCTIONS(pool)},
    {.name = "flatten",
     .wants = PL_SEQUENCE,
     .args = {WHOLE("steps", 0, PL_STEPS_MOST, 0)},
     FUNCTIONS(flatten)},
};

const pl_layer_kind *pl_layer_kind_at(size_t index) {
    return index < sizeof kinds / sizeof *kinds ? &kinds[index] : NULL;
}

void pl_layer_tensor(pl_layer *layer, size_t rows, size_t columns, pl_tensor_use use,
                     pl_tensor_start start, double bound) {
    layer->tensors[layer->tensor_count++] = (pl_net_tensor){
        .rows = rows, .columns = columns, .use = use, .start = start, .bound = (float)bound};
}
