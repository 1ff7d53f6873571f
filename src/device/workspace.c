/* workspace: what cuBLAS, cuDNN's recurrent layers and the attention kernels take from PyTorch's
 * allocator.
 *
 * Convolutions have a file of their own (workspace_conv.c). Rules were read in PyTorch 2.11 (named
 * at each) or found by taking recorded sizes apart (H200, 2026-11-15; job ids at each). Exact where
 * they say so. Left out: CUBLAS_WORKSPACE_CONFIG and CUBLASLT_WORKSPACE_SIZE, packed sequences of
 * unequal length, nested tensors, flash attention's deterministic mode. */
#include "device/workspace.h"

#include "core/checked.h"

/* ---- cuBLAS ---- */

/* at::cuda::getChosenWorkspaceSize: ":4096:2:16:8" (8,519,680 B) by default, 32 MiB from Hopper on.
 */
int64_t pl_workspace_cublas(int cc_major, int cc_minor) {
    (void)cc_minor;
    return cc_major == 9 || cc_major == 10 || cc_major == 12 ? (int64_t)32 << 20
                                                             : 4096 * 1024 * 2 + 16 * 1024 * 8;
}

/* at::cuda::getCUDABlasLtWorkspaceSize: 1,024 KiB unless the environment says otherwise, on every
 * card. */
int64_t pl_workspace_cublaslt(int cc_major, int cc_minor) {
    (void)cc_major;
    (void)cc_minor;
    return (int64_t)1 << 20;
}

/* ---- products of sizes ---- */

/* The product of count factors, or -1 where one is negative or it does not fit. */
static int64_t product(const int64_t *factors, int count) {
    int64_t result = 1;
    for (int i = 0; i < count; i++)
        if (factors[i] < 0 || !pl_mul_i64(result, factors[i], &result)) return -1;
    return result;
}
#define PRODUCT(...)                                                                               \
    product((const int64_t[]){__VA_ARGS__},                                                        \
            (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* ---- attention ---- */

int64_t pl_workspace_attention(const pl_attention *a, bool backward, int cc_major, int cc_minor,
                               double *relative_uncertainty) {
    double unused;
    if (!relative_uncertainty) relative_uncertainty = &unused;
    *relative_uncertainty = cc_major == 9 && cc_minor == 0 ? 0.02 : 0.2;
    int64_t size = pl_dtype_size(a->dtype);
    int64_t queries =
        PRODUCT(a->batch, a->heads, a->queries, a->value_head); /* elements of the output */
    int64_t rows = PRODUCT(a->batch, a->heads, a->queries);
    int64_t keys = PRODUCT(a->batch, a->heads, a->keys, a->head);
    if (queries < 0 || rows < 0 || keys < 0 || size < 1 || queries > INT64_MAX / 64 ||
        keys > INT64_MAX / 64) {
        *relative_uncertainty = 1.0;
        return INT64_MAX;
    }
    switch (a->backend) {
    case PL_ATTENTION_CUDNN:
        if (!backward) return 256;
        /* dq summed in fp32, a row sum a query; with fewer key heads, dk and dv of every query head
         * too. Exact in tfm-0453, tfm-0393, hf-llama-1b-0, hf-mistral-1b-0, hf-gemma3-1b-0. */
        return queries * 4 + rows * 4 + 256 + (a->kv_heads < a->heads ? 2 * keys * size : 0);
    case PL_ATTENTION_EFFICIENT:
        if (!backward) return 0;
        /* grad_out * out in fp32, its sum over the head, and that sum again, transposed: held at
         * once. Exact in hf-bert-base-0, hf-gpt2-0, hf-gpt2-medium-0, hf-t5-small-0. Heads that the
         * kernel cannot keep in registers take an fp32 accumulator besides (tv-vit_b_16-0,
         * tfm-0952). */
        return queries * 4 + 2 * rows * 4;
    case PL_ATTENTION_FLASH:
        /* mha_bwd: dq_accum in fp32 and softmax_d, queries rounded up to 128, heads to 32. By
         * reading, not measured. */
        if (!backward) return 0;
        return PRODUCT(a->batch, a->heads, pl_round_up(a->queries, 128), pl_round_up(a->head, 32),
                       4) +
               PRODUCT(a->batch, a->heads, pl_round_up(a->queries, 128), 4) +
               (a->kv_heads < a->heads ? 2 * keys * size : 0);
    case PL_ATTENTION_MATH: return 0; /* plain operators, which the tape has itself */
    }
    return 0;
}
