/* api: what is used of NVML, declared here: no header of NVIDIA's is needed to build, and no library
 * before it is loaded. Names, numbers and layouts are those of NVML's documented binary interface
 * (docs.nvidia.com/deploy/nvml-api), as drivers from 418 to 580 have them. Everything that is asked is
 * optional but for opening, counting and finding cards: a function that a driver lacks is NULL. */
#ifndef PL_NVML_API_H
#define PL_NVML_API_H

#include <plimsoll/live.h>

typedef struct nvmlDevice_st *pl_nvml_device; /* opaque, NVML's */
typedef struct nvmlGpmSample_st *pl_nvml_sample;
typedef int pl_nvml_return;

/* Of nvmlReturn_t, those that are told apart. */
enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_OPERATING_SYSTEM = 17,
};

enum { NVML_TEXT = 96, NVML_GPM_ROOM = 512 };
#define NVML_NO_BYTES    (~0ull) /* of bytes: not available */
#define NVML_NO_INSTANCE (~0u)

typedef struct pl_nvml_memory {
    unsigned long long total, free, used; /* used: what is reserved included */
} pl_nvml_memory;

typedef struct pl_nvml_memory_v2 {
    unsigned version; /* sizeof | 2 << 24 */
    unsigned long long total, reserved, free, used;
} pl_nvml_memory_v2;

typedef struct pl_nvml_rates {
    unsigned gpu, memory; /* percent */
} pl_nvml_rates;

typedef struct pl_nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
} pl_nvml_pci;

typedef struct pl_nvml_process_rates {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder; /* percent */
} pl_nvml_process_rates;

typedef struct pl_nvml_account {
    unsigned gpu_util, memory_util;         /* percent of its life */
    unsigned long long peak_bytes, time_ms; /* time: 0 while it runs */
    unsigned long long start_us;
    unsigned running, reserved[5];
} pl_nvml_account;

typedef struct pl_nvml_gpm_support {
    unsigned version; /* 1 */
    unsigned supported;
} pl_nvml_gpm_support;

typedef struct pl_nvml_gpm_metric {
    unsigned id;
    pl_nvml_return status; /* of this one */
    double value;
    char *names[3];
} pl_nvml_gpm_metric;

/* NVML's struct ends in as many metrics as its version knows; the library touches `count`. */
typedef struct pl_nvml_gpm_query {
    unsigned version; /* 1 */
    unsigned count;
    pl_nvml_sample older, newer;
    pl_nvml_gpm_metric metrics[NVML_GPM_ROOM];
} pl_nvml_gpm_query;

typedef pl_nvml_return pl_nvml_list_fn(pl_nvml_device device, unsigned *count, void *rows);
typedef pl_nvml_return pl_nvml_text_fn(pl_nvml_device device, char *text, unsigned room);
typedef pl_nvml_return pl_nvml_number_fn(pl_nvml_device device, unsigned *number);

/* The three lists of processes; each has a row's layout, by the version of the function that was
 * found: 1, 2 or 3 (nvml/processes.c). */
typedef enum pl_nvml_list {
    NVML_COMPUTE_LIST,
    NVML_MPS_LIST,
    NVML_GRAPHICS_LIST,
    NVML_LISTS,
} pl_nvml_list;

typedef struct pl_nvml_api {
    void *library;
    pl_nvml_return (*init)(void);
    pl_nvml_return (*shutdown)(void);
    const char *(*error_text)(pl_nvml_return code);
    pl_nvml_return (*driver_version)(char *text, unsigned room);
    pl_nvml_return (*count)(unsigned *count);
    pl_nvml_return (*device)(unsigned index, pl_nvml_device *device);
    pl_nvml_text_fn *name, *uuid;
    pl_nvml_return (*pci)(pl_nvml_device device, pl_nvml_pci *pci);
    pl_nvml_return (*memory)(pl_nvml_device device, pl_nvml_memory *memory);
    pl_nvml_return (*memory_v2)(pl_nvml_device device, pl_nvml_memory_v2 *memory);
    pl_nvml_return (*rates)(pl_nvml_device device, pl_nvml_rates *rates);
    pl_nvml_number_fn *power, *power_limit; /* milliwatts */
    pl_nvml_return (*energy)(pl_nvml_device device, unsigned long long *millijoules);
    pl_nvml_return (*temperature)(pl_nvml_device device, int sensor, unsigned *celsius);
    pl_nvml_list_fn *list[NVML_LISTS];
    int list_version[NVML_LISTS];
    pl_nvml_return (*process_rates)(pl_nvml_device device, pl_nvml_process_rates *rows,
                                    unsigned *count, unsigned long long seen_us);
    pl_nvml_number_fn *accounting;
    pl_nvml_return (*account)(pl_nvml_device device, unsigned pid, pl_nvml_account *account);
    pl_nvml_return (*mig_mode)(pl_nvml_device device, unsigned *now, unsigned *pending);
    pl_nvml_number_fn *mig_most, *gpu_instance, *compute_instance;
    pl_nvml_return (*mig_device)(pl_nvml_device device, unsigned index, pl_nvml_device *mig);
    pl_nvml_return (*gpm_support)(pl_nvml_device device, pl_nvml_gpm_support *support);
    pl_nvml_return (*gpm_alloc)(pl_nvml_sample *sample);
    pl_nvml_return (*gpm_free)(pl_nvml_sample sample);
    pl_nvml_return (*gpm_sample)(pl_nvml_device device, pl_nvml_sample sample);
    pl_nvml_return (*gpm_mig_sample)(pl_nvml_device device, unsigned gpu_instance,
                                     pl_nvml_sample sample);
    pl_nvml_return (*gpm_metrics)(pl_nvml_gpm_query *query);
} pl_nvml_api;

/* Loads and starts it. path: NULL for the usual places. On failure there is nothing to close. */
pl_status pl_nvml_open(pl_nvml_api *api, const char *path, pl_error *err);
void pl_nvml_close(pl_nvml_api *api);

/* Of a code; static, or the library's. */
const char *pl_nvml_text(const pl_nvml_api *api, pl_nvml_return code);

#endif
