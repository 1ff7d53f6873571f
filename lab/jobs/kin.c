/* kin: see kin.h.
 *
 * The longest beginning in the table of the name decides; names that begin with none of them
 * are of a kind by themselves, up to the first figure, dash or underscore ("rwkv"). Grouped is what
 * shares its blocks: residual networks with what was built on them, inverted bottlenecks, plain
 * vision transformers, decoders like Llama. Left out: sizes and heads, which do not matter. */
#include "lab/jobs/kin.h"

#include <stddef.h>
#include <string.h>

typedef struct row {
    const char *beginning, *kin;
} row;

static const row rows[] = {
    {"albert", "bert"},
    {"alexnet", "vgg"},
    {"bart", "bart"},
    {"beit", "vit"},
    {"bert", "bert"},
    {"biogpt", "gpt"},
    {"bloom", "gpt"},
    {"camembert", "bert"},
    {"clip", "vit"},
    {"codegen", "gpt"},
    {"cohere", "llama"},
    {"convnext", "convnext"},
    {"cvt", "pvt"},
    {"deberta", "deberta"},
    {"deeplabv3_mobilenet", "mobilenet"},
    {"deeplabv3_resnet", "resnet"},
    {"deit", "vit"},
    {"densenet", "densenet"},
    {"dinov2", "vit"},
    {"distilbert", "bert"},
    {"efficientnet", "mobilenet"},
    {"electra", "bert"},
    {"falcon", "gpt"},
    {"fcn_resnet", "resnet"},
    {"gemma", "llama"},
    {"glm", "llama"},
    {"googlenet", "inception"},
    {"gpt", "gpt"},
    {"granite", "llama"},
    {"helium", "llama"},
    {"hubert", "wav2vec"},
    {"inception", "inception"},
    {"llama", "llama"},
    {"lraspp_mobilenet", "mobilenet"},
    {"marian", "bart"},
    {"mbart", "bart"},
    {"mc3", "resnet"},
    {"mistral", "llama"},
    {"mixtral", "moe"},
    {"mnasnet", "mobilenet"},
    {"mobilenet", "mobilenet"},
    {"mpnet", "bert"},
    {"mt5", "t5"},
    {"nemotron", "llama"},
    {"olmo", "llama"},
    {"opt", "gpt"},
    {"pegasus", "bart"},
    {"persimmon", "llama"},
    {"phi", "llama"},
    {"pvt", "pvt"},
    {"qwen", "llama"},
    {"qwen3_moe", "moe"},
    {"r2plus1d", "resnet"},
    {"r3d", "resnet"},
    {"rembert", "bert"},
    {"resnet", "resnet"},
    {"resnext", "resnet"},
    {"roberta", "bert"},
    {"roformer", "bert"},
    {"s3d", "inception"},
    {"segformer", "pvt"},
    {"siglip", "vit"},
    {"smollm", "llama"},
    {"stablelm", "llama"},
    {"starcoder2", "llama"},
    {"swin", "swin"},
    {"t5", "t5"},
    {"vgg", "vgg"},
    {"vit", "vit"},
    {"wav2vec2", "wav2vec"},
    {"wide_resnet", "resnet"},
    {"xglm", "gpt"},
    {"xlm", "bert"},
};

const char *pl_kin_of(const char *name, int *length) {
    const row *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].beginning);
        if (n > longest && strncmp(name, rows[i].beginning, n) == 0) {
            best = &rows[i];
            longest = n;
        }
    }
    *length = (int)(best ? strlen(best->kin) : strcspn(name, "0123456789-_"));
    return best ? best->kin : name;
}
