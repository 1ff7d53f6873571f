/* catalogue: every row of the GPU table is whole and plausible, names find the right card or none, and
 * rows of one's own are read, or refused with their place. */
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
    check(memory >= 4000 && memory <= 300000, n, "memory is not between 4,000 and 300,000 MiB");
    check(cc == 60 || cc == 61 || cc == 70 || cc == 75 || cc == 80 || cc == 86 || cc == 89 ||
              cc == 90 || cc == 100 || cc == 103 || cc == 120,
          n, "compute capability is of no card here");
    check(g->sms >= 10 && g->sms <= 200, n, "SMs are not between 10 and 200");
    check(g->threads == (cc == 75                            ? 1024
                         : cc == 86 || cc == 89 || cc == 120 ? 1536
                                                             : 2048),
          n, "threads do not go with the compute capability");
    check(g->bandwidth_gbps >= 120 && g->bandwidth_gbps <= 10000, n,
          "bandwidth is not between 120 and 10,000 GB/s");
    check(is_rate(g->l2_mib, 1, 256), n, "l2 is not between 1 and 256 MiB");
    check(g->fp32_tflops >= 2 && g->fp32_tflops <= 150, n, "fp32 is not between 2 and 150 TFLOP/s");
    check(is_rate(g->tf32_tflops, 5, 1500), n, "tf32 is not between 5 and 1,500 TFLOP/s");
    check(is_rate(g->fp16_tflops, 10, 3000), n, "fp16 is not between 10 and 3,000 TFLOP/s");
    check(is_rate(g->bf16_tflops, 10, 3000), n, "bf16 is not between 10 and 3,000 TFLOP/s");
    /* tf32 and bf16 came with compute capability 8.0, fp16 tensor units with 7.0. */
    check(isnan(g->tf32_tflops) == (cc < 80), n, "tf32 does not go with the compute capability");
    check(isnan(g->bf16_tflops) == (cc < 80), n, "bf16 does not go with the compute capability");
    bool none = cc < 70 || strncmp(n, "gtx16", 5) == 0; /* without tensor units */
    check(isnan(g->fp16_tflops) == none, n, "fp16 is missing, or of a card without tensor units");
    check(cc < 80 || fabs(g->fp16_tflops / g->tf32_tflops - 2) < 0.06, n,
          "fp16 is not twice tf32: with and without sparsity may be mixed");
    /* An SM does 64 (6.0, 7.0, 7.5, 8.0) or 128 multiply-adds per cycle, at 1 to 3 GHz. */
    double lanes = cc <= 80 && cc != 61 ? 64 : 128;
    double ghz = g->fp32_tflops * 1e3 / (2 * lanes * g->sms);
    check(ghz > 1 && ghz < 3, n, "fp32 does not go with the number of SMs");
    check(context >= 40 && context <= 800, n, "context is not between 40 and 800 MiB");
    check(context < memory / 20, n, "context is more than a twentieth of the memory");
    const pl_gpu *whole = g->part_of ? pl_gpu_find(g->part_of) : NULL;
    check(!g->part_of == !strstr(n, "g."), n, "part_of does not go with the name");
    check(!g->part_of ||
              (whole && whole->capacity_bytes > g->capacity_bytes && whole->sms >= g->sms &&
               whole->context_bytes >= g->context_bytes && strcmp(whole->name, g->part_of) == 0),
          n, "an instance is not a part of its card");
    check(g->calibrated == !strcmp(n, "h200"), n, "only the h200 was measured");
    for (size_t i = 0; i < index; i++)
        check(strcmp(n, pl_gpu_at(i)->name) != 0, n, "the name stands there twice");
    check(pl_gpu_find(n) == g, n, "its name finds another row");
    check(pl_gpu_find(g->title) == g || strchr(g->title, '('), n, "its title finds another row");
}

/* The rows of a file that is the library's own are the library's own. */
static void check_file(const char *path) {
    pl_error err = PL_SIZED(pl_error);
    pl_catalogue *own = NULL;
    check(pl_catalogue_open(&own, path, &err) == PL_OK, path, err.message);
    size_t rows = 0;
    for (const pl_gpu *g; own && (g = pl_catalogue_at(own, rows)); rows++) {
        const pl_gpu *l = pl_gpu_at(rows);
        bool same = l && !strcmp(l->name, g->name) && !strcmp(l->title, g->title) &&
                    !strcmp(l->source, g->source) && l->capacity_bytes == g->capacity_bytes &&
                    l->context_bytes == g->context_bytes && l->cc_major == g->cc_major &&
                    l->cc_minor == g->cc_minor && l->sms == g->sms && l->threads == g->threads &&
                    l->bandwidth_gbps == g->bandwidth_gbps && l->fp32_tflops == g->fp32_tflops &&
                    !l->part_of == !g->part_of &&
                    (!l->part_of || !strcmp(l->part_of, g->part_of)) && !g->calibrated;
        const double pairs[][2] = {{l ? l->tf32_tflops : 0, g->tf32_tflops},
                                   {l ? l->fp16_tflops : 0, g->fp16_tflops},
                                   {l ? l->bf16_tflops : 0, g->bf16_tflops},
                                   {l ? l->l2_mib : 0, g->l2_mib}};
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            same =
                same && (pairs[i][0] == pairs[i][1] || (isnan(pairs[i][0]) && isnan(pairs[i][1])));
        check(same, g->name, "differs from the library's row");
    }
    check(!pl_gpu_at(rows), path, "has fewer rows than the library");
    pl_catalogue_close(&own);
    pl_catalogue_close(&own);
    check(!own, path, "is not NULL when closed");
}

#define ROW(name, aliases)                                                                         \
    name "\tMine\t" aliases                                                                        \
         "\t12345\t8.6\t28\t1536\t-\t360\t12.7\t12.7\t25.4\t25.4\tgeneral\tyes\t"                  \
         "mine"

/* Files of one's own: what is read, and what each wrong column is told. */
static void check_own(void) {
    static const struct {
        const char *text, *part; /* of the message; NULL: read */
        int line;                /* in `where`; 0: none */
    } files[] = {
        {ROW("mine", "-"), NULL, 0},
        {"\xef\xbb\xbf# cards\r\n\r\n" ROW("mine", "my,card") "\r\n", NULL, 0},
        {"", "there are none", 0},
        {"# nothing\n", "there are none", 0},
        {"mine Mine - 12345", "expected 16 columns with a tab between them", 1},
        {"#\n" ROW("mine", "-") "\tmore\n", "found 17", 2},
        {ROW("mine", "-") "\n" ROW("mine", "-"), "name should be one that is no other row's", 2},
        {ROW("mine", "t4") "\n" ROW("t-4", "-"), "no other row's name or alias", 2},
        {ROW("1g.5gb", "-"), "no other row's name or alias", 1},
        {ROW("Mine", "-"), "name should be lower case letters", 1},
        {ROW("", "-"), "name should be text of 1 to 39 bytes", 1},
        {ROW("mine", "My Card"), "aliases should be", 1},
        {ROW("a\x01", "-"), "without control characters", 1},
        {"m\tM\t-\t-5\t8.6\t28\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tno\ts",
         "memory should be a whole", 1},
        {"m\tM\t-\t1e9\t8.6\t28\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tno\ts", "up to 16777216", 1},
        {"m\tM\t-\tnan\t8.6\t28\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tno\ts", "memory should be", 1},
        {"m\tM\t-\t9\t8\t28\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tno\ts", "cc should be", 1},
        {"m\tM\t-\t9\t8.66\t28\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tno\ts", "cc should be", 1},
        {"m\tM\t-\t9\t8.6\t2.5\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tno\ts", "sms should be a whole",
         1},
        {"m\tM\t-\t9\t8.6\t28\t1536\t-\t-\t1\t-\t-\t-\tgeneral\tno\ts", "bandwidth should be", 1},
        {"m\tM\t-\t9\t8.6\t28\t1536\t-\t360\t0\t-\t-\t-\tgeneral\tno\ts", "fp32 should be", 1},
        {"m\tM\t-\t9\t8.6\t28\t1536\t-\t360\t1\tx\t-\t-\tgeneral\tno\ts", "tf32 should be", 1},
        {"m\tM\t-\t9\t8.6\t28\t1536\t-\t360\t1\t-\t-\t-\tlarge\tno\ts", "context should be", 1},
        {"m\tM\t-\t9\t8.6\t28\t1536\t-\t360\t1\t-\t-\t-\t99999999\tno\ts",
         "no more than the memory", 1},
        {"m\tM\t-\t9\t8.6\t28\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tmaybe\ts", "calibrated should be",
         1},
        {"m\tM\t-\t9\t8.6\t28\t1536\t-\t360\t1\t-\t-\t-\tgeneral\tno\t", "source should be text",
         1},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_catalogue *own = NULL;
        char where[16] = "cards";
        pl_status status =
            pl_catalogue_open_memory(&own, files[i].text, strlen(files[i].text), "cards", &err);
        if (files[i].line) snprintf(where, sizeof where, "cards:%d", files[i].line);
        bool good = files[i].part
                        ? status == PL_INPUT && !own && strstr(err.message, files[i].part) &&
                              !strcmp(err.where, where)
                        : status == PL_OK && own;
        if (!good) printf("%d %s: %s; ", (int)status, err.where, err.message);
        check(good, files[i].text, "is not read as expected");
        pl_catalogue_close(&own);
    }
    static const char zero[] = "mine\0\tMine", big[] = "x";
    pl_error err = PL_SIZED(pl_error);
    pl_catalogue *own = NULL;
    check(pl_catalogue_open_memory(&own, zero, sizeof zero, "z", &err) == PL_INPUT && !own, "zero",
          "a zero byte is read");
    check(pl_catalogue_open_memory(&own, big, (size_t)2 << 20, "b", &err) == PL_INPUT && !own,
          "big", "2 MiB are read");
    check(pl_catalogue_open(&own, "/nowhere/at/all", &err) == PL_INPUT && !own, "nowhere",
          "is read");
    check(!pl_catalogue_at(NULL, 0), "NULL", "has a row");
}

/* What pl_gpu_open makes of a job's gpu. */
static void check_cards(void) {
    static const char rows[] =
        ROW("mine", "ourcard") "\n" ROW("a100-80gb", "-") "\n" ROW("mine-1g.5gb", "-");
    static const struct {
        const char *text, *name; /* NULL: an error with this part */
        const char *part;
        int64_t mib;
    } cards[] = {
        {"a100-40gb", "a100-40gb", NULL, 40960},
        {"A100 40GB,memory=20GiB", "a100-40gb,memory=20GiB", NULL, 20480},
        {"a100-40gb,memory=20gib", "a100-40gb,memory=20GiB", NULL, 20480},
        {"a100-40gb, memory=20 GiB", "a100-40gb,memory=20GiB", NULL, 20480},
        {"a100-40gb,memory=20G", "a100-40gb,memory=20GiB", NULL, 20480},
        {"a100-40gb,memory=23028MiB", "a100-40gb,memory=23028MiB", NULL, 23028},
        {"a100-40gb,memory=1.5GiB", "a100-40gb,memory=1536MiB", NULL, 1536},
        {"mine", "mine", NULL, 12345},
        {"Our-Card", "mine", NULL, 12345},
        {"NVIDIA MINE MIG 1g.5gb", "mine-1g.5gb", NULL, 12345},
        {"mine,memory=1GiB", "mine,memory=1GiB", NULL, 1024},
        {"a100-80gb", "a100-80gb", NULL, 12345}, /* one's own comes first */
        {"h200", "h200", NULL, 143771},
        {"a100-40gb,memory=40GB", NULL, "say GiB", 0},
        {"a100-40gb,memory=", NULL, "is not a size", 0},
        {"a100-40gb,memory=-1GiB", NULL, "is not a size", 0},
        {"a100-40gb,memory=1e30GiB", NULL, "is not a size", 0},
        {"a100-40gb,memory=10KiB", NULL, "is not a size", 0},
        {"a100-40gb,memory=99TiB", NULL, "is not a size", 0},
        {"a100-40gb,sms=3", NULL, "only memory can be given", 0},
        {"a100-40gb,", NULL, "only memory can be given", 0},
        {"a100", NULL, "could be ", 0},
        {"h100 64gb", NULL, "no card \"h100 64gb\" in the catalogue; the nearest names are h100-",
         0},
        {"4090", NULL, "the nearest names are rtx4090, ", 0},
        {"a100x", NULL, "the nearest names are a100-", 0},
        {"RTX PRO 6000 Max-Q", NULL, "the nearest names are rtxpro6000-", 0},
        {"AMD Instinct MI300X", NULL, "in the catalogue, which holds NVIDIA's cards alone; ", 0},
        {"MI300X", NULL, "in the catalogue, which holds NVIDIA's cards alone; ", 0},
        {"Tesla K80", NULL, "no card \"Tesla K80\" in the catalogue; a card that is not there", 0},
        {"", NULL, "no card \"\"", 0},
        {NULL, NULL, "expected the name of a card", 0},
    };
    pl_error err = PL_SIZED(pl_error);
    pl_catalogue *own = NULL;
    check(pl_catalogue_open_memory(&own, rows, sizeof rows - 1, "rows", &err) == PL_OK, "rows",
          err.message);
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        pl_gpu *gpu = NULL;
        pl_status status = pl_gpu_open(&gpu, cards[i].text, own, &err);
        bool good = cards[i].name
                        ? status == PL_OK && !strcmp(gpu->name, cards[i].name) &&
                              gpu->capacity_bytes == cards[i].mib << 20
                        : status == PL_USAGE && !gpu && strstr(err.message, cards[i].part) &&
                              !strcmp(err.where, "gpu");
        /* Its name finds it again. */
        pl_gpu *again = NULL;
        if (gpu && pl_gpu_open(&again, gpu->name, own, &err) == PL_OK)
            good = good && again->capacity_bytes == gpu->capacity_bytes &&
                   !strcmp(again->title, gpu->title);
        good = good && !gpu == !again;
        if (good && strstr(cards[i].name ? cards[i].name : "", "memory="))
            good = strstr(gpu->title, "of memory, as given") &&
                   !strncmp(gpu->source, "memory: as given", 16);
        if (!good)
            printf("%d %s %s; ", (int)status, gpu ? gpu->name : "", status ? err.message : "");
        check(good, cards[i].text ? cards[i].text : "NULL", "is not the card expected");
        pl_gpu_close(&again);
        pl_gpu_close(&gpu);
    }
    pl_catalogue_close(&own);
    pl_gpu_close(NULL);
}

int main(int argc, char **argv) {
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
        /* as torch.cuda.get_device_name() and nvidia-smi print them */
        {"NVIDIA GH200 480GB", "gh200-96gb"},
        {"NVIDIA GH200 120GB", "gh200-96gb"},
        {"NVIDIA GH200 144G HBM3e", "gh200-144gb"},
        {"NVIDIA H20", "h20"},
        {"NVIDIA H20-3e", "h20-141gb"},
        {"NVIDIA H800", "h800-sxm"},
        {"NVIDIA H800 PCIe", "h800-pcie"},
        {"NVIDIA H200 NVL", "h200-nvl"},
        {"NVIDIA B300 SXM6 AC", "b300"},
        {"NVIDIA GB200", "gb200"},
        {"NVIDIA GB300", "gb300"},
        {"NVIDIA A100-PCIE-40GB", "a100-40gb"},
        {"NVIDIA A100-SXM-64GB", "a100-64gb"},
        {"NVIDIA A800-SXM4-80GB", "a800-80gb"},
        {"NVIDIA A800 80GB PCIe", "a800-80gb"},
        {"NVIDIA A40", "a40"},
        {"NVIDIA A30", "a30"},
        {"NVIDIA RTX A5000", "a5000"},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000-blackwell"},
        {"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtxpro6000-blackwell"},
        {"NVIDIA RTX 5000 Ada Generation", "rtx5000-ada"},
        {"Quadro RTX 6000", "quadro-rtx6000"},
        {"NVIDIA Quadro RTX 8000", "quadro-rtx8000"},
        {"NVIDIA TITAN V", "titanv"},
        {"TITAN RTX", "titanrtx"},
        {"NVIDIA TITAN Xp", "titanxp"},
        {"Tesla P100-PCIE-16GB", "p100-16gb"},
        {"GeForce RTX 2080 Ti", "rtx2080ti"},
        {"NVIDIA GeForce GTX 1080 Ti", "gtx1080ti"},
        {"NVIDIA GeForce RTX 4090 D", "rtx4090d"},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090-laptop"},
        {"rtx 4090 laptop", "rtx4090-laptop"},
        {"NVIDIA GeForce RTX 5070 Ti Laptop GPU", "rtx5070ti-laptop"},
        {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-40gb-1g.5gb"},
        {"NVIDIA H100 80GB HBM3 MIG 3g.40gb", "h100-sxm-3g.40gb"},
        {"NVIDIA H200 MIG 1g.18gb", "h200-1g.18gb"},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 2g.48gb",
         "rtxpro6000-blackwell-2g.48gb"},
        /* as Slurm's GRES and Kubernetes' labels have them */
        {"nvidia_a100_80gb_pcie", "a100-80gb"},
        {"nvidia_a100-sxm4-80gb", "a100-80gb"},
        {"nvidia_h100_80gb_hbm3", "h100-sxm"},
        {"tesla_v100-sxm2-16gb", "v100-16gb"},
        {"nvidia_geforce_rtx_3090", "rtx3090"},
        {"nvidia-tesla-t4", "t4"},
        {"nvidia_h100_80gb_hbm3_1g.10gb", "h100-sxm-1g.10gb"},
        {"a100_1g.5gb", "a100-40gb-1g.5gb"}, /* no other A100 has such instances */
        {"a100_3g.40gb", "a100-80gb-3g.40gb"},
        {"NVIDIA-A100-SXM4-80GB", "a100-80gb"},
        {"NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "a100-80gb-1g.10gb"},
        {"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me", "a100-40gb-1g.5gb"},
        {"a100-40gb-1g.5gb+me", "a100-40gb-1g.5gb"},
        {"NVIDIA-A30-MIG-2g.12gb", "a30-2g.12gb"},
        {"a100_1g.10gb", NULL}, /* of 40 or of 80 GB */
        {"1g.5gb", NULL},
        {"h100-pcie-1g.10gb", NULL}, /* not in the table, and not the SXM's */
        {"a100-80gb-1g.5gb", NULL},
        {"h100 64gb", NULL},
        {"rtx 4090 ti", NULL},
        {"rtx6000", NULL}, /* Quadro or Ada */
        {"rtx 3050 laptop gpu", NULL},
        {"a4000 laptop", NULL},
        {"RTX A5000 Laptop GPU", NULL},
        {"gh200", NULL},
        {"h20 x", NULL},
        {"titan x", NULL},
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
    check(rows >= 150, "the table", "fewer than 150 rows");
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
    if (argc > 1) check_file(argv[1]);
    check_own();
    check_cards();
    printf(failures ? "%d failures\n" : "catalogue: all rows as expected\n", failures);
    return failures != 0;
}
