/* gpus: the library's catalogue of cards as a table. Rates are dense, TFLOP/s; "-" where a card has
 * no such unit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "core/number.h"
#include "text.h"
#include "verbs.h"

static small_text rate(double tflops) {
    small_text t = {"-"};
    if (isfinite(tflops)) snprintf(t.text, sizeof t.text, "%s", PL_REAL(".0f", tflops));
    return t;
}

const pl_gpu **card_list(const request *r, bool whole) {
    const pl_catalogue *own = r->job.catalogue;
    size_t owned = 0, count = 0, all = 0;
    while (pl_catalogue_at(own, owned)) owned++;
    while (pl_gpu_at(all)) all++;
    const pl_gpu **list = need(owned + all + 1, sizeof *list);
    for (size_t i = 0; i < owned + all; i++) {
        const pl_gpu *gpu = i < owned ? pl_catalogue_at(own, i) : pl_gpu_at(i - owned);
        bool replaced = false;
        for (size_t k = 0; i >= owned && k < owned && !replaced; k++)
            replaced = strcmp(pl_catalogue_at(own, k)->name, gpu->name) == 0;
        if (!replaced && !(whole && gpu->part_of)) list[count++] = gpu;
    }
    return list;
}

static void print_table(const request *r) {
    table *t = table_new("lrrrrrrrrll");
    table_row(t, (const char *[]){"NAME", "MEMORY", "CC", "SMS", "GB/S", "FP32", "TF32", "FP16",
                                  "BF16", "FIGURES", "CARD"});
    const pl_gpu **list = card_list(r, false), *gpu;
    for (size_t i = 0; (gpu = list[i]); i++) {
        char capability[16];
        snprintf(capability, sizeof capability, "%d.%d", gpu->cc_major, gpu->cc_minor);
        small_text memory = text_bytes(gpu->capacity_bytes), sms = text_whole(gpu->sms),
                   bandwidth = rate(gpu->bandwidth_gbps), fp32 = rate(gpu->fp32_tflops),
                   tf32 = rate(gpu->tf32_tflops), fp16 = rate(gpu->fp16_tflops),
                   bf16 = rate(gpu->bf16_tflops);
        table_row(t, (const char *[]){gpu->name, memory.text, capability, sms.text, bandwidth.text,
                                      fp32.text, tf32.text, fp16.text, bf16.text,
                                      gpu->calibrated ? "measured" : "data sheet", gpu->title});
    }
    free(list);
    table_print(t, stdout, 0);
}

static void print_json(const request *r) {
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_open(&j, "gpus", '[');
    const pl_gpu **list = card_list(r, false), *gpu;
    for (size_t i = 0; (gpu = list[i]); i++) {
        pl_json_put_open(&j, NULL, '{');
        pl_json_put_string(&j, "name", gpu->name);
        pl_json_put_string(&j, "title", gpu->title);
        pl_json_put_count(&j, "capacity_bytes", gpu->capacity_bytes);
        pl_json_put_open(&j, "compute_capability", '[');
        pl_json_put_int(&j, NULL, gpu->cc_major);
        pl_json_put_int(&j, NULL, gpu->cc_minor);
        pl_json_put_close(&j, ']');
        pl_json_put_string(&j, "part_of", gpu->part_of);
        pl_json_put_int(&j, "sms", gpu->sms);
        pl_json_put_real(&j, "bandwidth_gbps", gpu->bandwidth_gbps);
        pl_json_put_real(&j, "fp32_tflops", gpu->fp32_tflops);
        pl_json_put_real(&j, "tf32_tflops", gpu->tf32_tflops);
        pl_json_put_real(&j, "fp16_tflops", gpu->fp16_tflops);
        pl_json_put_real(&j, "bf16_tflops", gpu->bf16_tflops);
        pl_json_put_count(&j, "context_bytes", gpu->context_bytes);
        pl_json_put_bool(&j, "calibrated", gpu->calibrated);
        pl_json_put_string(&j, "source", gpu->source);
        pl_json_put_close(&j, '}');
    }
    free(list);
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    putchar('\n');
}

int verb_gpus(const request *r) {
    if (r->json)
        print_json(r);
    else
        print_table(r);
    return 0;
}
