/* processes: see processes.h. A row of NVML's lists has, by the version of the function:
 *
 *     1   u32 pid, u64 bytes                                             16 bytes
 *     2   u32 pid, u64 bytes, u32 GPU instance, u32 compute instance     24 bytes
 *     3   the same                                                       24 bytes
 *     3   the same, u64 protected bytes: first drivers of 535            32 bytes
 *
 * The last two go by one name. Which it was is seen from what the driver has written: the buffer is
 * filled with a pattern first. */
#include "nvml/processes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 32, FIRST_ROOM = 64, MOST_ROWS = 1 << 16, TRIES = 8, PATTERN = 0xa5 };

static bool grow(pl_nvml_processes *p, size_t size) {
    if (size <= p->buffer_size) return true;
    unsigned char *larger = realloc(p->buffer, size);
    if (!larger) return false;
    p->buffer = larger;
    p->buffer_size = size;
    return true;
}

/* Calls a list until the buffer is large enough: processes may start in between. */
static pl_nvml_return fill(pl_nvml_list_fn *list, pl_nvml_device device, pl_nvml_processes *p,
                           unsigned *count) {
    unsigned room = (unsigned)(p->buffer_size / WIDEST);
    if (room < FIRST_ROOM) room = FIRST_ROOM;
    pl_nvml_return code = NVML_INSUFFICIENT_SIZE;
    for (int i = 0; i < TRIES && code == NVML_INSUFFICIENT_SIZE && room <= MOST_ROWS; i++) {
        if (!grow(p, (size_t)room * WIDEST)) break;
        memset(p->buffer, PATTERN, (size_t)room * WIDEST);
        *count = room;
        code = list(device, count, p->buffer);
        if (code == NVML_OK && *count > room) *count = room;
        if (code == NVML_INSUFFICIENT_SIZE)
            room = *count > room && *count < MOST_ROWS ? *count + *count / 4 : 2 * room;
    }
    return code;
}

static unsigned u32_at(const unsigned char *at) {
    unsigned value;
    memcpy(&value, at, sizeof value);
    return value;
}

static unsigned long long u64_at(const unsigned char *at) {
    unsigned long long value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Bytes of a row. Of one row both layouts of version 3 read alike; of more, the second row of a
 * 32-byte layout read in steps of 24 begins with the first one's protected bytes, which are 0. */
static size_t stride_of(int version, const unsigned char *buffer, unsigned count) {
    if (version == 1) return 16;
    if (version == 2 || count < 2) return 24;
    bool beyond = false;
    for (size_t i = (size_t)count * 24; i < (size_t)count * 32 && !beyond; i++)
        beyond = buffer[i] != PATTERN;
    return beyond && u32_at(buffer + 24) == 0 ? 32 : 24;
}

static int instance(unsigned id) {
    return id == NVML_NO_INSTANCE || id > 1 << 16 ? PL_UNKNOWN : (int)id;
}

static pl_nvml_process *row_of(pl_nvml_processes *p, int64_t pid, int gpu, int compute) {
    for (size_t i = 0; i < p->count; i++)
        if (p->rows[i].pid == pid && p->rows[i].gpu_instance == gpu &&
            p->rows[i].compute_instance == compute)
            return &p->rows[i];
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : FIRST_ROOM;
        pl_nvml_process *larger = realloc(p->rows, room * sizeof *larger);
        if (!larger) return NULL;
        p->rows = larger;
        p->room = room;
    }
    pl_nvml_process *row = &p->rows[p->count++];
    *row = (pl_nvml_process){.pid = pid,
                             .memory_bytes = PL_UNKNOWN,
                             .gpu_instance = gpu,
                             .compute_instance = compute,
                             .use = (pl_live_use)-1,
                             .sm_util = NAN,
                             .memory_util = NAN};
    return row;
}

/* A process in two lists has the larger figure of both: each is all that it uses. */
static void add(pl_nvml_processes *p, pl_nvml_list list, int version, const unsigned char *at) {
    unsigned long long bytes = u64_at(at + 8);
    bool instances = version > 1;
    pl_nvml_process *row = row_of(p, u32_at(at), instances ? instance(u32_at(at + 16)) : PL_UNKNOWN,
                                  instances ? instance(u32_at(at + 20)) : PL_UNKNOWN);
    if (!row) return;
    pl_live_use use = list == NVML_GRAPHICS_LIST ? PL_LIVE_GRAPHICS : PL_LIVE_COMPUTE;
    row->use = row->use == (pl_live_use)-1 || row->use == use ? use : PL_LIVE_BOTH;
    row->mps |= list == NVML_MPS_LIST;
    if (bytes != NVML_NO_BYTES && bytes <= INT64_MAX && (int64_t)bytes > row->memory_bytes)
        row->memory_bytes = (int64_t)bytes;
}

static bool is_lost(pl_nvml_return code) {
    return code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED;
}

pl_nvml_return pl_nvml_list_processes(const pl_nvml_api *api, pl_nvml_device device,
                                      pl_nvml_processes *out) {
    pl_nvml_return result = NVML_NOT_SUPPORTED;
    out->count = 0;
    for (pl_nvml_list list = 0; list < NVML_LISTS; list++) {
        unsigned count = 0;
        int version = api->list_version[list];
        pl_nvml_return code =
            api->list[list] ? fill(api->list[list], device, out, &count) : NVML_NOT_SUPPORTED;
        if (list == NVML_COMPUTE_LIST || is_lost(code)) result = code;
        if (is_lost(code)) break;
        if (code != NVML_OK) continue;
        size_t stride = stride_of(version, out->buffer, count);
        for (unsigned i = 0; i < count; i++) add(out, list, version, out->buffer + i * stride);
    }
    return result;
}

/* The mean where the driver has several samples of a process. */
static void rate(pl_nvml_processes *p, const pl_nvml_process_rates *rates) {
    for (size_t i = 0; i < p->count; i++) {
        pl_nvml_process *row = &p->rows[i];
        if (row->pid != rates->pid || rates->sm > 100 || rates->memory > 100) continue;
        int n = row->samples++;
        row->sm_util = ((n ? row->sm_util * n : 0) + rates->sm) / (n + 1);
        row->memory_util = ((n ? row->memory_util * n : 0) + rates->memory) / (n + 1);
    }
}

void pl_nvml_rate_processes(const pl_nvml_api *api, pl_nvml_device device,
                            unsigned long long *seen_us, pl_nvml_processes *out) {
    if (!api->process_rates || out->count == 0) return;
    pl_nvml_return code = NVML_INSUFFICIENT_SIZE;
    unsigned room = 2 * FIRST_ROOM, count = 0;
    for (int i = 0; i < TRIES && code == NVML_INSUFFICIENT_SIZE && room <= MOST_ROWS; i++) {
        if (!grow(out, (size_t)room * sizeof(pl_nvml_process_rates))) return;
        count = room;
        code = api->process_rates(device, (pl_nvml_process_rates *)(void *)out->buffer, &count,
                                  *seen_us);
        room = count > room && count < MOST_ROWS ? count + count / 4 : 2 * room;
    }
    if (code != NVML_OK) return; /* NVML_NOT_FOUND: nothing since then */
    unsigned long long since = *seen_us;
    for (unsigned i = 0; i < count && i < out->buffer_size / sizeof(pl_nvml_process_rates); i++) {
        pl_nvml_process_rates row;
        memcpy(&row, out->buffer + i * sizeof row, sizeof row);
        if (row.time_us > *seen_us) *seen_us = row.time_us;
        if (row.time_us > since) rate(out, &row);
    }
}

void pl_nvml_processes_free(pl_nvml_processes *processes) {
    free(processes->rows);
    free(processes->buffer);
    *processes = (pl_nvml_processes){0};
}
