/* api: see api.h. Of a function with several versions the newest that the library has is taken; where
 * versions differ in what they take, each is a row of its own. */
#include "nvml/api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

#define AT(member) offsetof(pl_nvml_api, member)

static const struct {
    size_t at;
    bool needed;
    const char *names[3]; /* the newest first */
} functions[] = {
    {AT(init), true, {"nvmlInit_v2", "nvmlInit"}},
    {AT(shutdown), true, {"nvmlShutdown"}},
    {AT(error_text), false, {"nvmlErrorString"}},
    {AT(driver_version), false, {"nvmlSystemGetDriverVersion"}},
    {AT(count), true, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}},
    {AT(device), true, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}},
    {AT(name), false, {"nvmlDeviceGetName"}},
    {AT(uuid), false, {"nvmlDeviceGetUUID"}},
    {AT(pci), false, {"nvmlDeviceGetPciInfo_v3"}},
    {AT(memory), false, {"nvmlDeviceGetMemoryInfo"}},
    {AT(memory_v2), false, {"nvmlDeviceGetMemoryInfo_v2"}},
    {AT(rates), false, {"nvmlDeviceGetUtilizationRates"}},
    {AT(power), false, {"nvmlDeviceGetPowerUsage"}},
    {AT(power_limit), false, {"nvmlDeviceGetEnforcedPowerLimit"}},
    {AT(energy), false, {"nvmlDeviceGetTotalEnergyConsumption"}},
    {AT(temperature), false, {"nvmlDeviceGetTemperature"}},
    {AT(process_rates), false, {"nvmlDeviceGetProcessUtilization"}},
    {AT(accounting), false, {"nvmlDeviceGetAccountingMode"}},
    {AT(account), false, {"nvmlDeviceGetAccountingStats"}},
    {AT(mig_mode), false, {"nvmlDeviceGetMigMode"}},
    {AT(mig_most), false, {"nvmlDeviceGetMaxMigDeviceCount"}},
    {AT(mig_device), false, {"nvmlDeviceGetMigDeviceHandleByIndex"}},
    {AT(gpu_instance), false, {"nvmlDeviceGetGpuInstanceId"}},
    {AT(compute_instance), false, {"nvmlDeviceGetComputeInstanceId"}},
    {AT(gpm_support), false, {"nvmlGpmQueryDeviceSupport"}},
    {AT(gpm_alloc), false, {"nvmlGpmSampleAlloc"}},
    {AT(gpm_free), false, {"nvmlGpmSampleFree"}},
    {AT(gpm_sample), false, {"nvmlGpmSampleGet"}},
    {AT(gpm_mig_sample), false, {"nvmlGpmMigSampleGet"}},
    {AT(gpm_metrics), false, {"nvmlGpmMetricsGet"}},
};

/* A row's layout changed with the version. */
static const char *const lists[NVML_LISTS] = {
    [NVML_COMPUTE_LIST] = "nvmlDeviceGetComputeRunningProcesses",
    [NVML_MPS_LIST] = "nvmlDeviceGetMPSComputeRunningProcesses",
    [NVML_GRAPHICS_LIST] = "nvmlDeviceGetGraphicsRunningProcesses",
};

/* A function's address as dlsym has it, into a member of its type: POSIX has them of one size. */
static bool find(pl_nvml_api *api, size_t at, const char *name) {
    void *symbol = dlsym(api->library, name);
    if (symbol) memcpy((char *)api + at, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void find_lists(pl_nvml_api *api) {
    for (size_t i = 0; i < NVML_LISTS; i++)
        for (int version = 3; version >= 1 && !api->list[i]; version--) {
            char name[64];
            snprintf(name, sizeof name, version > 1 ? "%s_v%d" : "%s", lists[i], version);
            if (find(api, AT(list) + i * sizeof api->list[0], name)) api->list_version[i] = version;
        }
}

static void *load(const char *path, char *why, size_t room) {
    static const char *const places[] = {
        "libnvidia-ml.so.1",
        "/usr/lib/wsl/lib/libnvidia-ml.so.1",
        "/run/opengl-driver/lib/libnvidia-ml.so.1",
    };
    void *library = NULL;
    for (size_t i = 0; !library && i < (path ? 1 : sizeof places / sizeof *places); i++) {
        library = dlopen(path ? path : places[i], RTLD_NOW | RTLD_LOCAL);
        const char *said = library ? NULL : dlerror(); /* "NAME: why" */
        const char *reason = said ? strstr(said, ": ") : NULL;
        if (i == 0 && said) snprintf(why, room, "%s", reason ? reason + 2 : said);
    }
    return library;
}

pl_status pl_nvml_open(pl_nvml_api *api, const char *path, pl_error *err) {
    char why[256] = "";
    *api = (pl_nvml_api){.library = load(path, why, sizeof why)};
    const char *name = path ? path : "libnvidia-ml.so.1";
    if (!api->library) return pl_fail(err, PL_MISSING, name, -1, "no NVIDIA driver here: %s", why);
    pl_status status = PL_OK;
    for (size_t i = 0; status == PL_OK && i < sizeof functions / sizeof *functions; i++) {
        bool found = false;
        for (int k = 0; k < 3 && !found && functions[i].names[k]; k++)
            found = find(api, functions[i].at, functions[i].names[k]);
        if (!found && functions[i].needed)
            status = pl_fail(err, PL_MISSING, name, -1, "it has no %s", functions[i].names[0]);
    }
    if (status == PL_OK) find_lists(api);
    pl_nvml_return code = status == PL_OK ? api->init() : NVML_OK;
    if (code != NVML_OK) status = pl_fail(err, PL_MISSING, name, -1, "%s", pl_nvml_text(api, code));
    if (status != PL_OK) {
        dlclose(api->library);
        *api = (pl_nvml_api){0};
    }
    return status;
}

void pl_nvml_close(pl_nvml_api *api) {
    if (!api->library) return;
    api->shutdown();
    dlclose(api->library);
    *api = (pl_nvml_api){0};
}

const char *pl_nvml_text(const pl_nvml_api *api, pl_nvml_return code) {
    static const struct {
        pl_nvml_return code;
        const char *text;
    } texts[] = {
        {NVML_UNINITIALIZED, "the driver was unloaded"},
        {NVML_NO_PERMISSION, "no permission"},
        {NVML_DRIVER_NOT_LOADED, "the NVIDIA driver is not loaded"},
        {NVML_GPU_IS_LOST, "it has fallen off the bus, or cannot be reached"},
        {NVML_RESET_REQUIRED, "it needs a reset"},
        {NVML_OPERATING_SYSTEM, "the operating system or a cgroup keeps it back"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].code == code) return texts[i].text;
    const char *text = api->error_text ? api->error_text(code) : NULL;
    return text ? text : "an error that NVML has no text for";
}
