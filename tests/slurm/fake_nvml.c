/* fake_nvml: a libnvidia-ml.so.1 with two cards, whose processes stand in the file nvml.txt beside the library: lines
 * CARD PID BYTES, read at every question. For tests on machines without a card. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned instance, compute;
} process;
static char cards[2];

EXPORTED int nvmlInit_v2(void);
EXPORTED int nvmlShutdown(void);
EXPORTED int nvmlDeviceGetCount_v2(unsigned *count);
EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORTED int nvmlDeviceGetName(void *device, char *out, unsigned room);
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *out);

int nvmlInit_v2(void) {
    return 0;
}

int nvmlShutdown(void) {
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = sizeof cards;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= sizeof cards) return 2;
    *device = &cards[index];
    return 0;
}

int nvmlDeviceGetName(void *device, char *out, unsigned room) {
    (void)device;
    snprintf(out, room, "NVIDIA H200");
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *out) {
    Dl_info about;
    char path[1024] = "";
    if (dladdr(cards, &about) && strlen(about.dli_fname) < 900)
        snprintf(path, sizeof path, "%s", about.dli_fname);
    char *slash = strrchr(path, '/');
    if (!slash) return 3;
    memcpy(slash, "/nvml.txt", sizeof "/nvml.txt");
    FILE *file = fopen(path, "r");
    unsigned found = 0, card, pid;
    unsigned long long bytes;
    while (file && found < *count && fscanf(file, "%u %u %llu", &card, &pid, &bytes) == 3)
        if (&cards[card % sizeof cards] == (char *)device)
            out[found++] = (process){pid, bytes, ~0u, ~0u};
    if (file) fclose(file);
    *count = found;
    return 0;
}
