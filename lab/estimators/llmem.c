/* llmem: the peak of fine-tuning a transformer decoder on one GPU, by formula.
 *
 * Kim et al., "LLMem: Estimating GPU Memory Usage for Fine-Tuning Pre-Trained LLMs", IJCAI 2024
 * (arXiv 2404.10933), and the authors' program (taehokim20/LLMem, 2025), which is written for one
 * way of training: ColossalAI's chunks, 16-bit weights with a 32-bit copy, Adam, gradient
 * checkpointing of every block. Everything is rounded up to 2 MiB. With P parameters, L blocks,
 * batch B, sequence S, width H and vocabulary V:
 *
 *     base      CUDA context, and chunks of 2 P (weights; gradients take their place) and 4 P
 *     states    2 x 4 n of each linear or embedding tensor of n elements, the head's own apart
 *     head      2 H V
 *     input     8 B S
 *     outputs   (L + 2) x 2 B S H: two embeddings, the blocks' inputs that are kept, the last
 * output loss      2 B S V, and twice 2 B (S - 1) V for the shifted logits and their gradient
 *
 * The authors measure the base on the card; here it is the catalogue's context and the chunks. The
 * program knows a block by its class's name; here the graph decides: token ids embedded once, a
 * causal mask (is_causal, le, tril or triu), a last product onto the vocabulary; a block is an
 * attention. Left out: all other models, what is kept without checkpointing, full 32-bit and
 * autocast training, other optimizers, frozen weights, norms' states, workspaces, fragmentation,
 * and the publication's formulas for several GPUs. */
#include "lab/estimators/rival.h"

#define STEP (INT64_C(2) << 20) /* bytes everything is rounded up to */

enum { HALF = 2, FULL = 4, TOKEN = 8, STATES = 2 };

/* What the formula wants of a decoder. Tensors are the graph's. */
typedef struct decoder {
    int64_t batch, seq, width, vocabulary, blocks;
    int32_t embedded; /* the vocabulary's weight */
    int32_t head;     /* the last product's weight, -1: not found */
} decoder;

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* The model's input that t is, or is a view of; -1: none. */
static int32_t input_of(const pl_graph *g, int32_t t) {
    for (int depth = 0; t >= 0 && depth < 4; depth++) {
        const pl_tensor *tensor = &g->tensors[t];
        if (tensor->role == PL_ROLE_INPUT) return t;
        t = tensor->producer >= 0 ? pl_node_tensor(&g->nodes[tensor->producer], "self") : -1;
    }
    return -1;
}

/* The largest table that token ids of the model's input are looked up in: [V, H] by [B, S]. False:
 * none, or it is looked up twice, as an encoder and its decoder do. */
static bool find_vocabulary(decoder *d, const pl_graph *g) {
    int lookups = 0;
    d->embedded = -1;
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *node = &g->nodes[i];
        if (!starts(node->target, "aten.embedding.") || node->output_count < 1) continue;
        int32_t weight = pl_node_tensor(node, "weight"), ids = pl_node_tensor(node, "indices");
        if (weight < 0 || ids < 0 || g->tensors[weight].dims != 2) continue;
        if (g->tensors[weight].tied >= 0) weight = g->tensors[weight].tied;
        if (weight == d->embedded) lookups++;
        const pl_tensor *table = &g->tensors[weight], *tokens = &g->tensors[ids];
        if (input_of(g, ids) < 0 || tokens->dims != 2) continue;
        if (table->sizes[0] <= d->vocabulary) continue;
        *d = (decoder){.batch = tokens->sizes[0],
                       .seq = tokens->sizes[1],
                       .width = table->sizes[1],
                       .vocabulary = table->sizes[0],
                       .embedded = weight};
        lookups = 1;
    }
    return lookups == 1;
}

/* The weight of a product: the argument that is a parameter, or a view of one by t or transpose. */
static int32_t weight_of(const pl_graph *g, const pl_node *node) {
    static const char *const names[] = {"weight", "mat2", "other"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        int32_t t = pl_node_tensor(node, names[k]);
        for (int depth = 0; t >= 0 && depth < 4; depth++) {
            const pl_tensor *tensor = &g->tensors[t];
            if (tensor->role == PL_ROLE_PARAMETER) return tensor->tied >= 0 ? tensor->tied : t;
            t = tensor->producer >= 0 ? pl_node_tensor(&g->nodes[tensor->producer], "self") : -1;
        }
    }
    return -1;
}

static bool is_product(const char *target) {
    static const char *const products[] = {"aten.linear.", "aten.matmul.", "aten.mm.",
                                           "aten.addmm."};
    for (size_t k = 0; k < sizeof products / sizeof *products; k++)
        if (starts(target, products[k])) return true;
    return false;
}

static bool is_causal(const pl_node *node) {
    return pl_node_int(node, "is_causal", 0) != 0 || starts(node->target, "aten.le.Tensor") ||
           starts(node->target, "aten.tril.") || starts(node->target, "aten.triu.");
}

static bool find_decoder(decoder *d, const pl_graph *g) {
    *d = (decoder){0};
    if (!find_vocabulary(d, g)) return false;
    int64_t fused = 0, written_out = 0; /* attentions */
    bool causal = false, headed = false;
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *node = &g->nodes[i];
        fused += starts(node->target, "aten.scaled_dot_product_attention.");
        written_out +=
            starts(node->target, "aten.softmax.") || starts(node->target, "aten._softmax.");
        causal |= is_causal(node);
        if (!is_product(node->target) || node->output_count < 1 || node->outputs[0] < 0) continue;
        const pl_tensor *out = &g->tensors[node->outputs[0]];
        if (out->dims < 2 || out->sizes[out->dims - 1] != d->vocabulary) continue;
        headed = true;
        d->head = weight_of(g, node);
    }
    d->blocks = fused ? fused : written_out;
    return causal && headed && d->blocks > 0 && d->batch > 0 && d->seq > 0 && d->width > 0;
}

/* Whether t is a matrix, or the bias of one: its path but for the last part is that of the matrix
 * listed before it. */
static bool of_matrix(const pl_tensor *t, const pl_tensor *before) {
    if (t->dims >= 2) return true;
    if (!before || before->dims < 2 || !t->path || !before->path) return false;
    const char *a = strrchr(t->path, '.'), *b = strrchr(before->path, '.');
    return a && b && a - t->path == b - before->path &&
           memcmp(t->path, before->path, (size_t)(a - t->path)) == 0;
}

static bool add_states(int64_t *sum, const pl_graph *g, const decoder *d) {
    const pl_tensor *before = NULL;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i];
        if (t->role != PL_ROLE_PARAMETER) continue;
        bool counts = t->tied < 0 && of_matrix(t, before) && (i != d->head || i == d->embedded);
        before = t;
        if (counts && !pl_rival_add_rounded(sum, STATES, pl_tensor_elements(t), FULL, STEP))
            return false;
    }
    return true;
}

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *none,
                          pl_error *err) {
    (void)none;
    pl_status status = pl_rival_needs_training("llmem", subject, err);
    if (status == PL_OK) status = pl_rival_needs_one_gpu("llmem", subject, err);
    if (status != PL_OK) return status;
    decoder d;
    if (!find_decoder(&d, subject->graph))
        return pl_fail(err, PL_USAGE, "estimator", -1, "llmem covers transformer decoders alone");
    int64_t parameters = subject->profile->parameters, tokens = 0, shifted = 0;
    int64_t weights = 0, states = 0, input = 0, outputs = 0, all = subject->gpu->context_bytes;
    bool ok = pl_rival_add(&tokens, d.batch, d.seq) && pl_rival_add(&shifted, d.batch, d.seq - 1) &&
              pl_rival_add_rounded(&weights, 1, parameters, HALF, STEP) &&
              pl_rival_add_rounded(&weights, 1, parameters, FULL, STEP) &&
              add_states(&states, subject->graph, &d) &&
              pl_rival_add_rounded(&input, 1, tokens, TOKEN, STEP);
    int64_t row = 0, logits = 0, head = 0, fewer = 0;
    ok = ok && pl_rival_add(&row, d.width, HALF) && pl_rival_add(&logits, d.vocabulary, HALF) &&
         pl_rival_add_rounded(&head, 1, row, d.vocabulary, STEP) &&
         pl_rival_add_rounded(&outputs, d.blocks + 2, tokens, row, STEP) &&
         pl_rival_add_rounded(&outputs, 1, tokens, logits, STEP) &&
         pl_rival_add_rounded(&fewer, 1, shifted, logits, STEP) &&
         pl_rival_add(&outputs, fewer, 2) && pl_add_i64(weights, head, &weights);
    ok = ok && pl_add_i64(all, weights, &all) && pl_add_i64(all, states, &all) &&
         pl_add_i64(all, input, &all) && pl_add_i64(all, outputs, &all);
    if (!ok) return pl_rival_overflow("llmem", err);
    report->peak_bytes = all;
    report->overhead_bytes = subject->gpu->context_bytes;
    pl_report_full(report)->breakdown[PL_WEIGHTS] = weights;
    pl_report_full(report)->breakdown[PL_OPTIMIZER] = states;
    pl_report_full(report)->breakdown[PL_INPUTS] = input;
    pl_report_full(report)->breakdown[PL_ACTIVATIONS] = outputs;
    pl_report_full(report)->breakdown[PL_CONTEXT] = subject->gpu->context_bytes;
    return PL_OK;
}

const pl_estimator pl_estimator_llmem = {
    .info = {.name = "llmem",
             .kind = PL_ANALYTICAL,
             .title =
                 "fine-tuning a transformer decoder: chunks, Adam, checkpointed blocks, logits",
             .source = "Kim et al., LLMem, IJCAI 2024 (arXiv 2404.10933), and its program",
             .leaves_out = "other models, training without checkpointing or in 32 bits, other "
                           "optimizers, frozen weights, workspaces, fragmentation, several GPUs",
             .needs_graph = true},
    .prepare = pl_profile_prepare,
    .estimate = estimate};
