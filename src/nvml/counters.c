/* counters: see counters.h. Numbers of metrics: nvmlGpmMetricId_t. */
#include "nvml/counters.h"

#include <math.h>

enum { REFRESH_NS = 100000000 };

static const struct {
    unsigned id;
    size_t at;
} metrics[] = {
    {2, offsetof(pl_nvml_counters, smact)},  /* SM_UTIL */
    {3, offsetof(pl_nvml_counters, smocc)},  /* SM_OCCUPANCY */
    {10, offsetof(pl_nvml_counters, drama)}, /* DRAM_BW_UTIL */
    {5, offsetof(pl_nvml_counters, tensor)}, /* ANY_TENSOR_UTIL */
};
enum { METRICS = sizeof metrics / sizeof *metrics };

static double *figure(pl_nvml_counters *c, size_t i) {
    return (double *)(void *)((char *)c + metrics[i].at);
}

static void unknown(pl_nvml_counters *c) {
    for (size_t i = 0; i < METRICS; i++) *figure(c, i) = NAN;
}

/* Asked once: the two samples are the card's for good. */
static bool supported(const pl_nvml_api *api, pl_nvml_device device, pl_nvml_counters *c) {
    if (c->asked) return c->supported;
    c->asked = true;
    unknown(c);
    pl_nvml_gpm_support support = {.version = 1};
    if (!api->gpm_support || !api->gpm_alloc || !api->gpm_free || !api->gpm_sample ||
        !api->gpm_metrics || api->gpm_support(device, &support) != NVML_OK || !support.supported)
        return false;
    for (int i = 0; i < 2; i++)
        if (api->gpm_alloc(&c->samples[i]) != NVML_OK) return false;
    return c->supported = true;
}

static void compute(const pl_nvml_api *api, pl_nvml_counters *c) {
    pl_nvml_gpm_query query = {.version = 1,
                               .count = METRICS,
                               .older = c->samples[!c->newest],
                               .newer = c->samples[c->newest]};
    for (size_t i = 0; i < METRICS; i++) query.metrics[i].id = metrics[i].id;
    unknown(c);
    if (api->gpm_metrics(&query) != NVML_OK) return;
    for (size_t i = 0; i < METRICS; i++) {
        double value = query.metrics[i].value;
        /* Rounding of the card's may pass 100 by a little; more is no percentage. */
        if (query.metrics[i].status == NVML_OK && value >= 0 && value <= 101)
            *figure(c, i) = fmin(value, 100);
    }
}

void pl_nvml_count(const pl_nvml_api *api, pl_nvml_device device, int gpu_instance, int64_t now_ns,
                   pl_nvml_counters *c) {
    if (!supported(api, device, c)) return;
    if (c->taken && now_ns - c->taken_ns < REFRESH_NS) return;
    pl_nvml_sample next = c->samples[!c->newest];
    bool instance = gpu_instance >= 0 && api->gpm_mig_sample;
    pl_nvml_return code = instance ? api->gpm_mig_sample(device, (unsigned)gpu_instance, next)
                                   : api->gpm_sample(device, next);
    if (code != NVML_OK) {
        pl_nvml_counters_forget(c);
        return;
    }
    c->newest = !c->newest;
    c->taken_ns = now_ns;
    if (c->taken) compute(api, c);
    c->taken = true;
}

void pl_nvml_counters_forget(pl_nvml_counters *c) {
    c->taken = false;
    unknown(c);
}

void pl_nvml_counters_free(const pl_nvml_api *api, pl_nvml_counters *c) {
    for (int i = 0; i < 2; i++)
        if (c->samples[i]) api->gpm_free(c->samples[i]);
    *c = (pl_nvml_counters){0};
}
