/* nvml: see nvml.h. The newest form of a function is looked for first. */
#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct device *device;
/* nvmlProcessInfo_t of version 2 and 3 of the function */
typedef struct process {
    unsigned pid;
    unsigned long long bytes; /* all bits 1: not said */
    unsigned instance, compute;
} process;

struct nvml {
    void *library;
    int (*shutdown)(void);
    int (*name)(device, char *, unsigned);
    int (*processes)(device, unsigned *, process *);
    device cards[NVML_CARDS];
    int count;
};

/* A function's address goes into a pointer to it as POSIX allows. */
static bool find(void *library, const char *const *names, void *to) {
    for (; *names; names++) {
        void *at = dlsym(library, *names);
        if (!at) continue;
        memcpy(to, &at, sizeof at);
        return true;
    }
    return false;
}

nvml *nvml_open(const char *library) {
    static const char *const starts[] = {"nvmlInit_v2", "nvmlInit", NULL},
                             *const ends[] = {"nvmlShutdown", NULL},
                             *const counts[] = {"nvmlDeviceGetCount_v2", NULL},
                             *const handles[] = {"nvmlDeviceGetHandleByIndex_v2", NULL},
                             *const titles[] = {"nvmlDeviceGetName", NULL},
                             *const running[] = {"nvmlDeviceGetComputeRunningProcesses_v3",
                                                 "nvmlDeviceGetComputeRunningProcesses_v2", NULL};
    int (*start)(void), (*count_of)(unsigned *), (*handle_of)(unsigned, device *);
    nvml *n = calloc(1, sizeof *n);
    if (!n) return NULL;
    n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    unsigned count = 0;
    if (!n->library || !find(n->library, starts, &start) || !find(n->library, ends, &n->shutdown) ||
        !find(n->library, counts, &count_of) || !find(n->library, handles, &handle_of) ||
        !find(n->library, titles, &n->name) || !find(n->library, running, &n->processes) ||
        start() != 0) {
        if (n->library) dlclose(n->library);
        free(n);
        return NULL;
    }
    if (count_of(&count) != 0) count = 0;
    for (unsigned i = 0; i < count && i < NVML_CARDS; i++)
        if (handle_of(i, &n->cards[n->count]) == 0) n->count++;
    return n;
}

void nvml_close(nvml **n) {
    if (!n || !*n) return;
    (*n)->shutdown();
    dlclose((*n)->library);
    free(*n);
    *n = NULL;
}

int nvml_cards(const nvml *n) {
    return n->count;
}

void nvml_name(nvml *n, int card, char *out, unsigned room) {
    out[0] = 0;
    if (n->name(n->cards[card], out, room) != 0) out[0] = 0;
}

int nvml_processes(nvml *n, int card, pid_t *pids, int64_t *bytes, int room) {
    process all[NVML_PROCESSES];
    unsigned count = NVML_PROCESSES;
    if (n->processes(n->cards[card], &count, all) != 0 || count > NVML_PROCESSES) return -1;
    int found = 0;
    for (unsigned i = 0; i < count && found < room; i++, found++) {
        pids[found] = (pid_t)all[i].pid;
        bytes[found] = all[i].bytes > (unsigned long long)INT64_MAX ? -1 : (int64_t)all[i].bytes;
    }
    return found;
}
