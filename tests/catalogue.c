/* catalogue: every row of the GPU table is whole and plausible, and names find the right card. */
#include <plimsoll/plimsoll.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

static int failures;

static void check(bool good, const char *name, const char *what) {
    if (good) return;
    printf("FAILED %s: %s\n", name, what);
    failures++;
}

/* NAN (no such unit) or a rate within the bounds. */
static bool is_rate(double value, double least, double most) {
    return isnan(value) || (value >= least && value <= most);
}

static void check_row(const pl_gpu *g, size_t index) {
    double memory = (double)g->capacity_bytes / MIB, context = (double)g->context_bytes / MIB;
    const char *n = g->name;
    int cc = g->cc_major * 10 + g->cc_minor;
    check(n && n[0] && g->title && g->title[0] && g->source && strlen(g->source) > 20, n,
          "name, title or source is missing");
    check(memory >= 8000 && memory <= 200000, n, "memory is not between 8,000 and 200,000 MiB");
    check(cc == 70 || cc == 75 || cc == 80 || cc == 86 || cc == 89 || cc == 90 || cc == 100 ||
              cc == 120,
          n, "compute capability is of no card here");
    check(g->sms >= 20 && g->sms <= 200, n, "SMs are not between 20 and 200");
    check(g->bandwidth_gbps >= 200 && g->bandwidth_gbps <= 10000, n,
          "bandwidth is not between 200 and 10,000 GB/s");
    check(is_rate(g->l2_mib, 2, 256), n, "l2 is not between 2 and 256 MiB");
    check(g->fp32_tflops >= 5 && g->fp32_tflops <= 150, n, "fp32 is not between 5 and 150 TFLOP/s");
    check(is_rate(g->tf32_tflops, 10, 1500), n, "tf32 is not between 10 and 1,500 TFLOP/s");
    check(is_rate(g->fp16_tflops, 20, 3000), n, "fp16 is not between 20 and 3,000 TFLOP/s");
    check(is_rate(g->bf16_tflops, 20, 3000), n, "bf16 is not between 20 and 3,000 TFLOP/s");
    /* tf32 and bf16 came with compute capability 8.0, fp16 tensor units with 7.0. */
    check(isnan(g->tf32_tflops) == (cc < 80), n, "tf32 does not go with the compute capability");
    check(isnan(g->bf16_tflops) == (cc < 80), n, "bf16 does not go with the compute capability");
    check(!isnan(g->fp16_tflops), n, "fp16 is missing");
    check(cc < 80 || fabs(g->fp16_tflops / g->tf32_tflops - 2) < 0.06, n,
          "fp16 is not twice tf32: with and without sparsity may be mixed");
    /* An SM does 64 (7.0, 7.5, 8.0) or 128 multiply-adds per cycle, at 1 to 3 GHz. */
    double lanes = cc <= 80 ? 64 : 128;
    double ghz = g->fp32_tflops * 1e3 / (2 * lanes * g->sms);
    check(ghz > 1 && ghz < 3, n, "fp32 does not go with the number of SMs");
    check(context >= 60 && context <= 800, n, "context is not between 60 and 800 MiB");
    check(context < memory / 20, n, "context is more than a twentieth of the memory");
    check(g->calibrated == !strcmp(n, "h200"), n, "only the h200 was measured");
    for (size_t i = 0; i < index; i++)
        check(strcmp(n, pl_gpu_at(i)->name) != 0, n, "the name stands there twice");
    check(pl_gpu_find(n) == g, n, "its name finds another row");
    check(pl_gpu_find(g->title) == g || strchr(g->title, '('), n, "its title finds another row");
}

int main(void) {
    static const struct {
        const char *asked, *found; /* NULL: nothing */
    } names[] = {
        {"H200", "h200"},
        {"h100", "h100-sxm"},
        {"NVIDIA H100 80GB HBM3", "h100-sxm"}, /* these as nvidia-smi prints them */
        {"NVIDIA H100 PCIe", "h100-pcie"},
        {"NVIDIA H100 NVL", "h100-nvl"},
        {"NVIDIA A100-SXM4-40GB", "a100-40gb"},
        {"NVIDIA A100 80GB PCIe", "a100-80gb"},
        {"Tesla V100-SXM2-32GB", "v100-32gb"},
        {"Tesla T4", "t4"},
        {"NVIDIA RTX A6000", "a6000"},
        {"NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"},
        {"NVIDIA GeForce RTX 3090", "rtx3090"},
        {"rtx-4070-ti-super", "rtx4070tisuper"},
        {"RTX_5090", "rtx5090"},
        {"a100", NULL}, /* of 40 or of 80 GB */
        {"v100", NULL},
        {"rtx3080", NULL},
        {"rtx4060ti", NULL},
        {"h10", NULL}, /* a part of a name is none */
        {"a10080gb,a100", NULL},
        {"", NULL},
        {"-", NULL},
        {"nvidia", NULL},
        {NULL, NULL},
        {"a name that is much longer than any that is in the catalogue of cards and its buffer",
         NULL},
    };
    size_t rows = 0;
    for (; pl_gpu_at(rows); rows++) check_row(pl_gpu_at(rows), rows);
    check(rows >= 40, "the table", "fewer than 40 rows");
    check(!pl_gpu_at(rows + 1) && !pl_gpu_at((size_t)-1), "pl_gpu_at", "a row past the end");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const pl_gpu *g = pl_gpu_find(names[i].asked);
        bool good = names[i].found ? g && !strcmp(g->name, names[i].found) : !g;
        if (!good) printf("found: %s; ", g ? g->name : "nothing");
        check(good, names[i].asked ? names[i].asked : "NULL", "finds the wrong row");
    }
    const pl_gpu *h200 = pl_gpu_find("h200");
    check(h200 && h200->capacity_bytes == INT64_C(143771) << 20 &&
              h200->context_bytes == INT64_C(639631360),
          "h200", "is not as measured");
    printf(failures ? "%d failures\n" : "catalogue: all rows as expected\n", failures);
    return failures != 0;
}
