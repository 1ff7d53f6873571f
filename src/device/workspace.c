/* workspace: what cuBLAS and the attention kernels take from PyTorch's allocator.
 *
 * Convolutions and recurrent layers have files of their own (workspace_conv.c, workspace_rnn.c).
 * Rules were read in PyTorch 2.11 (named at each) or found by taking recorded sizes apart (H200,
 * 2026-11-15; job ids at each). Exact where they say so. Left out: CUBLAS_WORKSPACE_CONFIG and
 * CUBLASLT_WORKSPACE_SIZE, nested tensors, flash attention's deterministic mode. */
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

/* The memory-efficient backward kernel's workspace: an fp32 gradient of the queries in blocks, four
 * counters per block and column of 64; heads over 128 in half precision add buffers for the keys,
 * by how far they are split (approximate). */
static int64_t efficient_workspace(const pl_attention *a, int64_t size) {
    int64_t block = a->head <= 64 ? 64 : 128, width = pl_round_up(a->head, 64);
    int64_t rows = pl_round_up(a->queries, block);
    int64_t columns = size == 2 && a->head > 64 && a->head <= 128 ? 1 : width / 64;
    int64_t floats = rows * width + rows / block * columns * 4;
    if (size == 2 && a->head > 128) floats += pl_round_up(a->keys, 128) / 128 * 32768;
    return PRODUCT(a->batch, a->heads, floats, 4);
}

int64_t pl_workspace_attention(const pl_attention *a, bool backward, int cc_major, int cc_minor,
                               double *relative_uncertainty) {
    double unused;
    if (!relative_uncertainty) relative_uncertainty = &unused;
    *relative_uncertainty = cc_major == 9 && cc_minor == 0 ? 0.01 : 0.2;
    int64_t size = pl_dtype_size(a->dtype);
    int64_t most = (int64_t)1 << 40;
    if (a->queries > most || a->keys > most || a->head > most || a->value_head > most) size = 0;
    int64_t queries = PRODUCT(a->batch, a->heads, a->queries, a->value_head); /* of the output */
    int64_t rows = PRODUCT(a->batch, a->heads, a->queries);
    int64_t keys = PRODUCT(a->batch, a->heads, a->keys, a->head);
    int64_t scores = a->mask_gradient ? PRODUCT(rows, pl_round_up(a->keys, 16)) : 0;
    if (queries < 0 || rows < 0 || keys < 0 || scores < 0 || size < 1 ||
        queries > INT64_MAX / 512 || keys > INT64_MAX / 512 || scores > INT64_MAX / 64) {
        *relative_uncertainty = 1.0;
        return INT64_MAX;
    }
    switch (a->backend) {
    case PL_ATTENTION_CUDNN:
        if (!backward) return 256;
        /* dq summed in fp32, a row sum per query; with fewer key heads, dk and dv of every query
         * head too. Exact in all 273 measured calls and in tfm-0453, hf-llama-1b-0,
         * hf-mistral-1b-0, hf-gemma3-1b-0. */
        return queries * 4 + rows * 4 + 256 + (a->kv_heads < a->heads ? 2 * keys * size : 0);
    case PL_ATTENTION_EFFICIENT: {
        /* Half precision with wide heads accumulates its output in fp32. */
        if (!backward) return size == 2 && a->value_head > 128 ? queries * 4 : 0;
        if (size == 2 && a->head > 128) *relative_uncertainty = 1.0;
        int64_t kernel = efficient_workspace(a, size);
        if (kernel < 0) return INT64_MAX;
        /* fp32: grad_out * out, its sum over the head and that sum transposed, before the kernel's
         * own workspace beside the sum; half precision sums inside. A mask's gradient is made for
         * every head first. Exact in hf-bert-base-0, hf-gpt2-0, tv-vit_b_16-0, tfm-0952. */
        int64_t bias = scores * size, before = size == 4 ? queries * 4 + 2 * rows * 4 : 0;
        int64_t during = rows * 4 + kernel;
        return bias + (before > during ? before : during);
    }
    case PL_ATTENTION_FLASH: {
        /* mha_bwd: dq_accum in fp32 and softmax_d, queries rounded up to 128, heads to 32. By
         * reading, not measured. */
        *relative_uncertainty = 0.2;
        if (!backward) return 0;
        int64_t sums = PRODUCT(a->batch, a->heads, pl_round_up(a->queries, 128),
                               pl_round_up(a->head, 32) + 1, 4);
        int64_t more = a->kv_heads < a->heads ? 2 * keys * size : 0;
        return sums < 0 || !pl_add_i64(sums, more, &sums) ? INT64_MAX : sums;
    }
    case PL_ATTENTION_MATH: return 0; /* plain operators, which the tape has itself */
    }
    return 0;
}
