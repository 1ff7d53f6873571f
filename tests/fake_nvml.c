/* fake_nvml: a libnvidia-ml.so.1 for tests. What it answers stands in the file that FAKE_NVML names,
 * read again whenever it has changed; lines of words:
 *
 *     driver VERSION
 *     card I NAME_WITHOUT_BLANKS TOTAL_MIB USED_MIB      cards are numbered from 0
 *     rates I GPU MEMORY                                 percent
 *     power I MILLIWATTS LIMIT_MILLIWATTS
 *     energy I MILLIJOULES
 *     temperature I CELSIUS
 *     gpm I SM OCCUPANCY DRAM TENSOR                     percent; without it the card has no GPM
 *     mig I GPU_INSTANCE COMPUTE_INSTANCE TOTAL_MIB USED_MIB   the card is divided; instances in order
 *     miggpm I GPU_INSTANCE SM OCCUPANCY DRAM TENSOR
 *     process I PID MIB [compute|graphics|mps] [GPU_INSTANCE COMPUTE_INSTANCE]   MIB -1: not available
 *     busy I PID SM MEMORY                               percent of a process
 *     account I PID PEAK_MIB TIME_MS                     accounting is on where there is such a line
 *     fault FUNCTION CODE [I]                            that function (of that card) answers CODE
 *
 * Names in FUNCTION have no version ("nvmlDeviceGetMemoryInfo" is both). It is strict where NVML is:
 * versions of structs, samples that were allocated, an uninitialised library, room in buffers.
 * FAKE_NVML_AGE, when it is built: 0 as drivers now; 1 first drivers of 535, whose rows of processes have
 * 32 bytes; 2 as 470: version 2 of the lists, no memory_v2, no GPM; 3 as 418: version 1 and no MIG, no
 * energy. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#ifndef FAKE_NVML_AGE
#define FAKE_NVML_AGE 0
#endif
#define EXPORT __attribute__((visibility("default")))

enum { CARDS = 16, INSTANCES = 8, PROCESSES = 4096, FAULTS = 32, ACCOUNTS = 64 };
enum { SUCCESS, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, SMALL = 7, VERSION = 25 };
#define MIB (1ull << 20)

typedef struct fake_device {
    bool there, has_rates, has_power, has_energy, has_temperature, has_gpm;
    struct fake_device *parent; /* of an instance */
    unsigned index, gpu, compute;
    char name[64];
    unsigned long long total, used, energy;
    unsigned rates[2], power[2], temperature;
    double gpm[4];
    struct fake_device *mig; /* [instances] */
    unsigned instances;
} fake_device;

static fake_device cards[CARDS], instances_of[CARDS][INSTANCES];
static struct {
    unsigned card, pid, gpu, compute;
    long long mib;
    char list; /* c, g, m */
} processes[PROCESSES];
static struct { unsigned card, pid, sm, memory; } busy[PROCESSES];
static struct {
    unsigned card, pid;
    unsigned long long peak, time;
} accounts[ACCOUNTS];
static struct {
    char function[64];
    int code, card;
} faults[FAULTS];
static unsigned card_count, process_count, busy_count, fault_count, account_count;
static int started;
static char driver[64];
static struct timespec read_at;
static ino_t read_inode;
static off_t read_size;

/* ---- the file ---- */

static fake_device *card_at(unsigned i) {
    return i < CARDS ? &cards[i] : &cards[0];
}

static void read_line(const char *line) {
    char word[64] = "", name[64] = "";
    unsigned i = 0, a = 0, b = 0, c = 0;
    unsigned long long x = 0, y = 0;
    double g[4];
    int code, n;
    sscanf(line, "%63s", word);
    if (strcmp(word, "driver") == 0) {
        sscanf(line, "%*s %63s", driver);
    } else if (sscanf(line, "card %u %63s %llu %llu", &i, name, &x, &y) == 4) {
        fake_device *d = card_at(i);
        d->there = true;
        d->index = i;
        strcpy(d->name, name);
        d->total = x * MIB;
        d->used = y * MIB;
        if (i + 1 > card_count) card_count = i + 1;
    } else if (sscanf(line, "rates %u %u %u", &i, &a, &b) == 3) {
        card_at(i)->has_rates = true;
        card_at(i)->rates[0] = a;
        card_at(i)->rates[1] = b;
    } else if (sscanf(line, "power %u %u %u", &i, &a, &b) == 3) {
        card_at(i)->has_power = true;
        card_at(i)->power[0] = a;
        card_at(i)->power[1] = b;
    } else if (sscanf(line, "energy %u %llu", &i, &x) == 2) {
        card_at(i)->has_energy = true;
        card_at(i)->energy = x;
    } else if (sscanf(line, "temperature %u %u", &i, &a) == 2) {
        card_at(i)->has_temperature = true;
        card_at(i)->temperature = a;
    } else if (sscanf(line, "gpm %u %lf %lf %lf %lf", &i, &g[0], &g[1], &g[2], &g[3]) == 5) {
        card_at(i)->has_gpm = true;
        memcpy(card_at(i)->gpm, g, sizeof g);
    } else if (sscanf(line, "mig %u %u %u %llu %llu", &i, &a, &b, &x, &y) == 5) {
        fake_device *d = card_at(i);
        fake_device *m = &d->mig[d->instances < INSTANCES ? d->instances++ : 0];
        *m = (fake_device){.there = true, .parent = d, .index = i, .gpu = a, .compute = b};
        snprintf(m->name, sizeof m->name, "%.40s_MIG", d->name);
        m->total = x * MIB;
        m->used = y * MIB;
    } else if (sscanf(line, "miggpm %u %u %lf %lf %lf %lf", &i, &a, &g[0], &g[1], &g[2], &g[3]) ==
               6) {
        for (unsigned k = 0; k < card_at(i)->instances; k++)
            if (card_at(i)->mig[k].gpu == a) {
                card_at(i)->mig[k].has_gpm = true;
                memcpy(card_at(i)->mig[k].gpm, g, sizeof g);
            }
    } else if (strcmp(word, "process") == 0 && process_count < PROCESSES) {
        char list[16] = "compute";
        long long mib = 0;
        a = b = ~0u;
        n = sscanf(line, "process %u %u %lld %15s %u %u", &i, &c, &mib, list, &a, &b);
        if (n < 3) return;
        processes[process_count].card = i;
        processes[process_count].pid = c;
        processes[process_count].mib = mib;
        processes[process_count].list = list[0];
        processes[process_count].gpu = a;
        processes[process_count++].compute = b;
    } else if (sscanf(line, "busy %u %u %u %u", &i, &a, &b, &c) == 4 && busy_count < PROCESSES) {
        busy[busy_count].card = i;
        busy[busy_count].pid = a;
        busy[busy_count].sm = b;
        busy[busy_count++].memory = c;
    } else if (sscanf(line, "account %u %u %llu %llu", &i, &a, &x, &y) == 4 &&
               account_count < ACCOUNTS) {
        accounts[account_count].card = i;
        accounts[account_count].pid = a;
        accounts[account_count].peak = x * MIB;
        accounts[account_count++].time = y;
    } else if (strcmp(word, "fault") == 0 && fault_count < FAULTS) {
        n = sscanf(line, "fault %63s %d %u", name, &code, &i);
        if (n < 2) return;
        strcpy(faults[fault_count].function, name);
        faults[fault_count].code = code;
        faults[fault_count++].card = n == 3 ? (int)i : -1;
    }
}

static void read_file(void) {
    const char *path = getenv("FAKE_NVML");
    struct stat is;
    if (!path || stat(path, &is) != 0) return;
    if (is.st_ino == read_inode && is.st_size == read_size && is.st_mtim.tv_sec == read_at.tv_sec &&
        is.st_mtim.tv_nsec == read_at.tv_nsec)
        return;
    FILE *f = fopen(path, "r");
    if (!f) return;
    read_inode = is.st_ino;
    read_size = is.st_size;
    read_at = is.st_mtim;
    memset(cards, 0, sizeof cards);
    for (unsigned i = 0; i < CARDS; i++) cards[i].mig = instances_of[i];
    card_count = process_count = busy_count = fault_count = account_count = 0;
    strcpy(driver, "0.fake");
    char line[256];
    while (fgets(line, sizeof line, f)) read_line(line);
    fclose(f);
}

/* Looked at again in these alone, since the tests measure what a read costs. */
static const char *const fresh[] = {"nvmlInit", "nvmlDeviceGetMemoryInfo",
                                    "nvmlDeviceGetComputeRunningProcesses",
                                    "nvmlDeviceGetAccountingStats"};

/* Every function begins here: 0, or what it is to answer. */
static int begin(const char *function, const fake_device *d) {
    if (strcmp(function, "nvmlInit") != 0 && started <= 0) return UNINITIALIZED;
    for (size_t i = 0; i < sizeof fresh / sizeof *fresh; i++)
        if (strcmp(fresh[i], function) == 0) read_file();
    for (unsigned i = 0; i < fault_count; i++)
        if (strcmp(faults[i].function, function) == 0 &&
            (faults[i].card < 0 || (d && (unsigned)faults[i].card == d->index)))
            return faults[i].code;
    return SUCCESS;
}

#define BEGIN(function, device)                                                                    \
    do {                                                                                           \
        int code_ = begin(function, device);                                                       \
        if (code_) return code_;                                                                   \
    } while (0)

/* ---- the library ---- */

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void) {
    BEGIN("nvmlInit", NULL);
    started++;
    return SUCCESS;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void) {
    BEGIN("nvmlShutdown", NULL);
    started--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code);
EXPORT const char *nvmlErrorString(int code) {
    return code == 999 ? "Unknown Error" : code == NOT_SUPPORTED ? "Not Supported" : "Fake Error";
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned room);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned room) {
    BEGIN("nvmlSystemGetDriverVersion", NULL);
    snprintf(text, room, "%s", driver);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    BEGIN("nvmlDeviceGetCount", NULL);
    *count = card_count;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, fake_device **device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, fake_device **device) {
    if (index >= CARDS || !cards[index].there) return INVALID;
    BEGIN("nvmlDeviceGetHandleByIndex", &cards[index]);
    *device = &cards[index];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetName(fake_device *d, char *text, unsigned room);
EXPORT int nvmlDeviceGetName(fake_device *d, char *text, unsigned room) {
    BEGIN("nvmlDeviceGetName", d);
    if (strlen(d->name) >= room) return SMALL;
    strcpy(text, d->name);
    for (char *at = text; *at; at++)
        if (*at == '_') *at = ' ';
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(fake_device *d, char *text, unsigned room);
EXPORT int nvmlDeviceGetUUID(fake_device *d, char *text, unsigned room) {
    BEGIN("nvmlDeviceGetUUID", d);
    if (d->parent)
        snprintf(text, room, "MIG-%u-%u-%u", d->index, d->gpu, d->compute);
    else
        snprintf(text, room, "GPU-%u", d->index);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfo_v3(fake_device *d, void *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(fake_device *d, void *pci) {
    BEGIN("nvmlDeviceGetPciInfo", d);
    snprintf((char *)pci + 36, 32, "00000000:%02X:00.0", d->index);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(fake_device *d, unsigned long long *m);
EXPORT int nvmlDeviceGetMemoryInfo(fake_device *d, unsigned long long *m) {
    BEGIN("nvmlDeviceGetMemoryInfo", d);
    m[0] = d->total;
    m[2] = d->used + 500 * MIB; /* what is reserved included */
    m[1] = m[0] - m[2];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(fake_device *d, unsigned *rates);
EXPORT int nvmlDeviceGetUtilizationRates(fake_device *d, unsigned *rates) {
    BEGIN("nvmlDeviceGetUtilizationRates", d);
    if (!d->has_rates || d->instances || d->parent) return NOT_SUPPORTED;
    memcpy(rates, d->rates, sizeof d->rates);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(fake_device *d, unsigned *milliwatts);
EXPORT int nvmlDeviceGetPowerUsage(fake_device *d, unsigned *milliwatts) {
    BEGIN("nvmlDeviceGetPowerUsage", d);
    *milliwatts = d->power[0];
    return d->has_power ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(fake_device *d, unsigned *milliwatts);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(fake_device *d, unsigned *milliwatts) {
    BEGIN("nvmlDeviceGetEnforcedPowerLimit", d);
    *milliwatts = d->power[1];
    return d->has_power ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetTemperature(fake_device *d, int sensor, unsigned *celsius);
EXPORT int nvmlDeviceGetTemperature(fake_device *d, int sensor, unsigned *celsius) {
    BEGIN("nvmlDeviceGetTemperature", d);
    if (sensor != 0) return INVALID;
    *celsius = d->temperature;
    return d->has_temperature ? SUCCESS : NOT_SUPPORTED;
}

/* Rows as the driver's age has them. */
static int list(char wanted, int version, const char *function, const fake_device *d,
                unsigned *count, unsigned char *rows) {
    BEGIN(function, d);
    size_t stride = version == 1 ? 16 : version == 3 && FAKE_NVML_AGE == 1 ? 32 : 24;
    const fake_device *whole = d->parent ? d->parent : d;
    unsigned found = 0, room = *count;
    for (unsigned i = 0; i < process_count; i++) {
        if (processes[i].card != whole->index || processes[i].list != wanted) continue;
        if (d->parent && (processes[i].gpu != d->gpu || processes[i].compute != d->compute))
            continue;
        if (found++ >= room || !rows) continue;
        unsigned char *at = rows + (found - 1) * stride;
        unsigned long long bytes =
            processes[i].mib < 0 ? ~0ull : (unsigned long long)processes[i].mib * MIB;
        memset(at, 0, stride);
        memcpy(at, &processes[i].pid, 4);
        memcpy(at + 8, &bytes, 8);
        if (version == 1) continue;
        memcpy(at + 16, &processes[i].gpu, 4);
        memcpy(at + 20, &processes[i].compute, 4);
    }
    *count = found;
    return found > room ? SMALL : SUCCESS;
}

#if FAKE_NVML_AGE == 3
#define LIST_VERSION 1
#define LIST(name)   name
#elif FAKE_NVML_AGE == 2
#define LIST_VERSION 2
#define LIST(name)   name##_v2
#else
#define LIST_VERSION 3
#define LIST(name)   name##_v3
#endif
#define LIST_FUNCTION(name, letter)                                                                \
    EXPORT int LIST(name)(fake_device * d, unsigned *count, void *rows);                           \
    EXPORT int LIST(name)(fake_device * d, unsigned *count, void *rows) {                          \
        return list(letter, LIST_VERSION, #name, d, count, rows);                                  \
    }
LIST_FUNCTION(nvmlDeviceGetComputeRunningProcesses, 'c')
LIST_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses, 'g')
#if FAKE_NVML_AGE < 3
LIST_FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses, 'm')
#endif

EXPORT int nvmlDeviceGetProcessUtilization(fake_device *d, void *rows, unsigned *count,
                                           unsigned long long since);
EXPORT int nvmlDeviceGetProcessUtilization(fake_device *d, void *rows, unsigned *count,
                                           unsigned long long since) {
    BEGIN("nvmlDeviceGetProcessUtilization", d);
    if (d->parent || d->instances) return NOT_SUPPORTED;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long us =
        (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
    unsigned found = 0, room = *count;
    for (unsigned i = 0; i < busy_count; i++) {
        if (busy[i].card != d->index) continue;
        if (found++ >= room) continue;
        unsigned char *at = (unsigned char *)rows + (found - 1) * 32;
        memset(at, 0, 32);
        memcpy(at, &busy[i].pid, 4);
        memcpy(at + 8, &us, 8);
        memcpy(at + 16, &busy[i].sm, 4);
        memcpy(at + 20, &busy[i].memory, 4);
    }
    *count = found;
    return found > room ? SMALL : found == 0 || us <= since ? NOT_FOUND : SUCCESS;
}

EXPORT int nvmlDeviceGetAccountingMode(fake_device *d, unsigned *mode);
EXPORT int nvmlDeviceGetAccountingMode(fake_device *d, unsigned *mode) {
    BEGIN("nvmlDeviceGetAccountingMode", d);
    *mode = account_count > 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetAccountingStats(fake_device *d, unsigned pid, void *out);
EXPORT int nvmlDeviceGetAccountingStats(fake_device *d, unsigned pid, void *out) {
    BEGIN("nvmlDeviceGetAccountingStats", d);
    if (account_count == 0) return NOT_SUPPORTED;
    for (unsigned i = 0; i < account_count; i++) {
        if (accounts[i].card != d->index || accounts[i].pid != pid) continue;
        unsigned running = accounts[i].time == 0, percent[2] = {50, 20};
        memset(out, 0, 56);
        memcpy(out, percent, sizeof percent);
        memcpy((char *)out + 8, &accounts[i].peak, 8);
        memcpy((char *)out + 16, &accounts[i].time, 8);
        memcpy((char *)out + 32, &running, 4);
        return SUCCESS;
    }
    return NOT_FOUND;
}

#if FAKE_NVML_AGE < 3
EXPORT int nvmlDeviceGetTotalEnergyConsumption(fake_device *d, unsigned long long *millijoules);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(fake_device *d, unsigned long long *millijoules) {
    BEGIN("nvmlDeviceGetTotalEnergyConsumption", d);
    *millijoules = d->energy;
    return d->has_energy ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetMigMode(fake_device *d, unsigned *now, unsigned *pending);
EXPORT int nvmlDeviceGetMigMode(fake_device *d, unsigned *now, unsigned *pending) {
    BEGIN("nvmlDeviceGetMigMode", d);
    *now = *pending = d->instances > 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(fake_device *d, unsigned *count);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(fake_device *d, unsigned *count) {
    BEGIN("nvmlDeviceGetMaxMigDeviceCount", d);
    *count = d->instances ? INSTANCES - 1 : 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(fake_device *d, unsigned index, fake_device **mig);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(fake_device *d, unsigned index, fake_device **mig) {
    BEGIN("nvmlDeviceGetMigDeviceHandleByIndex", d);
    if (index >= d->instances) return NOT_FOUND;
    *mig = &d->mig[index];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceId(fake_device *d, unsigned *id);
EXPORT int nvmlDeviceGetGpuInstanceId(fake_device *d, unsigned *id) {
    BEGIN("nvmlDeviceGetGpuInstanceId", d);
    *id = d->gpu;
    return d->parent ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetComputeInstanceId(fake_device *d, unsigned *id);
EXPORT int nvmlDeviceGetComputeInstanceId(fake_device *d, unsigned *id) {
    BEGIN("nvmlDeviceGetComputeInstanceId", d);
    *id = d->compute;
    return d->parent ? SUCCESS : NOT_SUPPORTED;
}
#endif

#if FAKE_NVML_AGE < 2
EXPORT int nvmlDeviceGetMemoryInfo_v2(fake_device *d, void *out);
EXPORT int nvmlDeviceGetMemoryInfo_v2(fake_device *d, void *out) {
    BEGIN("nvmlDeviceGetMemoryInfo", d);
    unsigned version;
    memcpy(&version, out, sizeof version);
    if (version != (40u | 2u << 24)) return VERSION;
    unsigned long long m[4] = {d->total, 500 * MIB, d->total - d->used - 500 * MIB, d->used};
    memcpy((char *)out + 8, m, sizeof m);
    return SUCCESS;
}

/* A sample is the order in which it was taken and whose it is. */
typedef struct fake_sample {
    unsigned long long order;
    const fake_device *device;
} fake_sample;
static unsigned long long samples_taken;

EXPORT int nvmlGpmQueryDeviceSupport(fake_device *d, unsigned *support);
EXPORT int nvmlGpmQueryDeviceSupport(fake_device *d, unsigned *support) {
    BEGIN("nvmlGpmQueryDeviceSupport", d);
    if (support[0] != 1) return VERSION;
    support[1] = d->has_gpm || d->instances;
    return SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(fake_sample **sample);
EXPORT int nvmlGpmSampleAlloc(fake_sample **sample) {
    BEGIN("nvmlGpmSampleAlloc", NULL);
    *sample = calloc(1, sizeof **sample);
    return *sample ? SUCCESS : 20;
}

EXPORT int nvmlGpmSampleFree(fake_sample *sample);
EXPORT int nvmlGpmSampleFree(fake_sample *sample) {
    free(sample);
    return SUCCESS;
}

EXPORT int nvmlGpmSampleGet(fake_device *d, fake_sample *sample);
EXPORT int nvmlGpmSampleGet(fake_device *d, fake_sample *sample) {
    BEGIN("nvmlGpmSampleGet", d);
    *sample = (fake_sample){.order = ++samples_taken, .device = d};
    return SUCCESS;
}

EXPORT int nvmlGpmMigSampleGet(fake_device *d, unsigned gpu, fake_sample *sample);
EXPORT int nvmlGpmMigSampleGet(fake_device *d, unsigned gpu, fake_sample *sample) {
    BEGIN("nvmlGpmMigSampleGet", d);
    for (unsigned i = 0; i < d->instances; i++)
        if (d->mig[i].gpu == gpu) {
            *sample = (fake_sample){.order = ++samples_taken, .device = &d->mig[i]};
            return SUCCESS;
        }
    return INVALID;
}

typedef struct fake_metric {
    unsigned id;
    int status;
    double value;
    char *names[3];
} fake_metric;

typedef struct fake_query {
    unsigned version, count;
    fake_sample *older, *newer;
    fake_metric metrics[];
} fake_query;

EXPORT int nvmlGpmMetricsGet(fake_query *query);
EXPORT int nvmlGpmMetricsGet(fake_query *query) {
    static const unsigned ids[4] = {2, 3, 10, 5};
    if (query->version != 1) return VERSION;
    if (!query->older || !query->newer || query->older->order == 0 ||
        query->older->order >= query->newer->order || query->older->device != query->newer->device)
        return INVALID;
    const fake_device *d = query->newer->device;
    BEGIN("nvmlGpmMetricsGet", d);
    for (unsigned i = 0; i < query->count; i++) {
        query->metrics[i].status = NOT_SUPPORTED;
        for (unsigned k = 0; k < 4; k++)
            if (query->metrics[i].id == ids[k] && d->has_gpm && d->gpm[k] >= 0) {
                query->metrics[i].status = SUCCESS;
                query->metrics[i].value = d->gpm[k];
            }
    }
    return SUCCESS;
}
#endif
