/* spellings: the names of precisions and optimizers as PyTorch, Lightning, Accelerate, Hugging Face's
 * Trainer and bitsandbytes write them. A spelling stands for a row whose memory is the same, or it is
 * refused with the row that is nearest: never taken for another.
 *
 * Case, "_" for "-" and a "torch." or "torch.optim." before the name do not count. Names of Hugging
 * Face are those of training_args.py (OptimizerNames, 5.22), of Lightning those of its Trainer's
 * precision. Left out: timm's, where they are not PyTorch's own (its sgd has Nesterov's momentum). */
#include <stdio.h>
#include <string.h>

#include "core/nearest.h"
#include "estimate/job.h"
#include "tape/optimizer.h"

enum { LONGEST = 64 };

/* The same name as the tables below have it; "" where it is too long for any. */
static void plain_name(char out[LONGEST], const char *name) {
    static const char *const before[] = {"torch.optim.", "torch."};
    size_t length = strlen(name);
    out[0] = 0;
    if (length >= LONGEST) return;
    for (size_t i = 0; i <= length; i++)
        out[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a')
                 : name[i] == '_'                 ? '-'
                                                  : name[i];
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp(out, before[i], strlen(before[i])) == 0) {
            memmove(out, out + strlen(before[i]), length - strlen(before[i]) + 1);
            return;
        }
}

/* A spelling, and the row that it is; why: not that row, which is only the nearest. */
typedef struct spelling {
    const char *name, *row, *why;
} spelling;

static const char no_64[] = "types of 64 bits are not simulated";
static const char no_8[] = "8-bit arithmetic is not simulated";

static const spelling precisions[] = {
    {"float32", "fp32", NULL},
    {"float", "fp32", NULL},
    {"single", "fp32", NULL},
    {"32", "fp32", NULL},
    {"32-true", "fp32", NULL},
    {"fp32-true", "fp32", NULL},
    {"bfloat16", "bf16", NULL},
    {"bf16-true", "bf16", NULL},
    {"float16", "fp16", NULL},
    {"half", "fp16", NULL},
    {"16-true", "fp16", NULL},
    {"fp16-true", "fp16", NULL},
    {"tensorfloat32", "tf32", NULL},
    {"bf16-mixed", "amp-bf16", NULL},
    {"bfloat16-mixed", "amp-bf16", NULL},
    {"amp-bfloat16", "amp-bf16", NULL},
    {"16-mixed", "amp-fp16", NULL},
    {"fp16-mixed", "amp-fp16", NULL},
    {"float16-mixed", "amp-fp16", NULL},
    {"amp-float16", "amp-fp16", NULL},
    {"amp", "amp-bf16 or amp-fp16", "autocast has two types"},
    {"mixed", "amp-bf16 or amp-fp16", "autocast has two types"},
    {"16", "amp-fp16 or fp16", "it could be autocast or weights in fp16"},
    {"float64", "fp32", no_64},
    {"double", "fp32", no_64},
    {"fp64", "fp32", no_64},
    {"64", "fp32", no_64},
    {"64-true", "fp32", no_64},
    {"fp8", "bf16 or amp-bf16", no_8},
    {"float8", "bf16 or amp-bf16", no_8},
    {"float8-e4m3fn", "bf16 or amp-bf16", no_8},
    {"transformer-engine", "amp-bf16", no_8},
    {"transformer-engine-float16", "amp-fp16", no_8},
    {"int8", "bf16", no_8},
    {"bnb.nf4", "bf16", "4-bit weights are of fine-tuning: train \"qlora-r16\""},
    {"nf4", "bf16", "4-bit weights are of fine-tuning: train \"qlora-r16\""},
    {"int4", "bf16", "4-bit weights are of fine-tuning: train \"qlora-r16\""},
};

static const char bits[] = "its state has 8 bits, and other temporaries";
static const char paged[] = "its state lies in pages that move between host and card";
static const char lowrank[] = "its state is of projected gradients";

static const spelling optimizers[] = {
    {"adamw-torch", "adamw", NULL},
    {"adamw-torch-fused", "adamw-fused", NULL},
    {"adam-torch", "adam", NULL},
    {"sgd-torch", "sgd", NULL},
    {"adamw-foreach", "adamw", NULL},
    {"adam-foreach", "adam", NULL},
    {"adamw-bnb-8bit", "adamw-8bit", NULL},
    {"adamw8bit", "adamw-8bit", NULL},
    {"adam8bit", "adam-8bit", NULL},
    {"adamw-torch-8bit", "adamw-8bit", "its state has 8 bits, as torchao keeps it"},
    {"adamw-torch-4bit", "adamw-fused", "its state has 4 bits, as torchao keeps it"},
    {"paged-adamw", "adamw-fused", paged},
    {"paged-adamw-32bit", "adamw-fused", paged},
    {"paged-adamw-8bit", "adamw-8bit", paged},
    {"pagedadamw8bit", "adamw-8bit", paged},
    {"paged-lion-32bit", "lion", paged},
    {"paged-lion-8bit", "lion", paged},
    {"paged-ademamix-32bit", "adamw-amsgrad", paged},
    {"paged-ademamix-8bit", "adamw-amsgrad", paged},
    {"lion-32bit", "lion", "bitsandbytes' kernel has no temporaries, lion's loop has"},
    {"lion-8bit", "lion", bits},
    {"ademamix", "adamw-amsgrad", "its two averages of gradients are kept in one tensor"},
    {"ademamix-8bit", "adamw-amsgrad", bits},
    {"rmsprop-bnb", "rmsprop", "bitsandbytes' kernel has no temporaries, PyTorch's has"},
    {"rmsprop-bnb-32bit", "rmsprop", "bitsandbytes' kernel has no temporaries, PyTorch's has"},
    {"rmsprop-bnb-8bit", "rmsprop", bits},
    {"adamw-apex-fused", "adamw-fused", "apex keeps its step counter elsewhere"},
    {"fusedadam", "adam-fused", "apex keeps its step counter elsewhere"},
    {"adamw-anyprecision", "adamw", "its state has the types that it is given"},
    {"adamw-hf", "adamw-single", "it was a loop of transformers' own, which is gone"},
    {"adamw-torch-xla", "adamw", "it is not of CUDA"},
    {"adamw-torch-npu-fused", "adamw-fused", "it is not of CUDA"},
    {"galore-adamw", "adamw", lowrank},
    {"galore-adamw-8bit", "adamw", lowrank},
    {"galore-adafactor", "adafactor", lowrank},
    {"galore-adamw-layerwise", "adamw", lowrank},
    {"apollo-adamw", "adamw", lowrank},
    {"apollo-adamw-layerwise", "adamw", lowrank},
    {"lomo", "sgd", "it updates within the backward pass"},
    {"adalomo", "adafactor", "it updates within the backward pass"},
    {"grokadamw", "adamw", "it keeps averages of gradients beside AdamW's state"},
    {"stable-adamw", "adamw", "its temporaries are others"},
    {"schedule-free-adamw", "adamw", "it keeps other tensors than AdamW"},
    {"schedule-free-radam", "radam", "it keeps other tensors than RAdam"},
    {"schedule-free-sgd", "sgd-momentum", "it keeps other tensors than SGD"},
    {"lbfgs", "sgd", "it keeps its last steps, and calls the model several times a step"},
    {"sparseadam", "adam", "sparse gradients are not simulated"},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const spelling *find(const spelling *table, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

static bool is_row(const char *(*rows)(size_t), const char *name) {
    const char *row;
    for (size_t i = 0; (row = rows(i)); i++)
        if (strcmp(row, name) == 0) return true;
    return false;
}

static pl_status refuse(const char *member, const char *noun, const char *name,
                        const char *(*rows)(size_t), pl_error *err) {
    enum { MOST = 64 };
    const char *candidates[MOST], *row;
    char list[400], plain[LONGEST];
    size_t count = 0, used = 0;
    list[0] = 0;
    for (; count < MOST && (row = rows(count)); count++) {
        candidates[count] = row;
        if (used < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", count ? ", " : "", row);
    }
    plain_name(plain, name);
    const char *near = pl_nearest(plain, candidates, count);
    return pl_fail(err, PL_USAGE, member, -1, "no %s \"%.40s\"; %s%s%sthere are %s", noun, name,
                   near ? "did you mean " : "", near ? near : "", near ? "? " : "", list);
}

/* The row that name is. */
static pl_status read(const char **out, const char *member, const char *noun, const char *name,
                      const spelling *table, size_t count, const char *(*rows)(size_t),
                      pl_error *err) {
    char plain[LONGEST];
    if (!name)
        return pl_fail(err, PL_USAGE, member, -1, "expected the name of %s %s",
                       strchr("aeiou", noun[0]) ? "an" : "a", noun);
    plain_name(plain, name);
    const spelling *row = NULL;
    const char *wanted = plain;
    if (!is_row(rows, wanted) && (row = find(table, count, wanted)) && !row->why) wanted = row->row;
    const char *found;
    for (size_t i = 0; (found = rows(i)); i++)
        if (strcmp(found, wanted) == 0) {
            *out = found;
            return PL_OK;
        }
    if (!row) return refuse(member, noun, name, rows, err);
    return pl_fail(err, PL_USAGE, member, -1, "no %s \"%.60s\": %s; the nearest is %s", noun, name,
                   row->why, row->row);
}

pl_status pl_precision_read(pl_precision *out, const char *name, pl_error *err) {
    const char *found;
    pl_status status = read(&found, "precision", "precision", name, precisions, COUNT(precisions),
                            pl_precision_name, err);
    if (status != PL_OK) return status;
    for (size_t i = 0; pl_precision_name(i); i++)
        if (pl_precision_name(i) == found) *out = (pl_precision)i;
    return PL_OK;
}

bool pl_precision_parse(const char *name, pl_precision *out) {
    return pl_precision_read(out, name, NULL) == PL_OK;
}

pl_status pl_optimizer_read(const char **out, const char *name, pl_error *err) {
    return read(out, "optimizer", "optimizer", name, optimizers, COUNT(optimizers),
                pl_optimizer_name, err);
}
