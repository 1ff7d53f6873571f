/* live: NVML as the library asks it (src/nvml), against fakes of four ages (fake_nvml.c): versions of
 * lists and structs, what is missing, what fails, what vanishes, what grows. */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <plimsoll/live.h>

#include "check.h"
#include "core/clock.h"

enum { NOW, FIRST_535, R470, R418, AGES };

static char path[] = "/tmp/plimsoll-live-XXXXXX";

static const char *library(int age) {
    static char text[512];
    snprintf(text, sizeof text, "%s/libfake-nvml-%d.so", FAKE_FOLDER, age);
    return text;
}

/* What the fakes answer from now on. Replaced whole, since they read it by its inode. */
static void answers(const char *text) {
    char beside[64];
    snprintf(beside, sizeof beside, "%s.new", path);
    FILE *f = fopen(beside, "w");
    CHECK(f != NULL);
    if (!f) return;
    fputs(text, f);
    CHECK(fclose(f) == 0 && rename(beside, path) == 0);
}

static pl_live *opened(int age, const char *text) {
    pl_live *live = NULL;
    pl_live_settings settings;
    pl_error err = PL_SIZED(pl_error);
    answers(text);
    pl_live_settings_default(&settings);
    settings.library = library(age);
    if (pl_live_open(&live, &settings, &err) != PL_OK) printf("  %s: %s\n", err.where, err.message);
    CHECK(live != NULL);
    return live;
}

/* The counters are refreshed 10 times per second. */
static void pause_for_counters(void) {
    nanosleep(&(struct timespec){.tv_nsec = 120000000}, NULL);
}

static const pl_live_process *process(const pl_live *live, size_t card, int64_t pid) {
    const pl_live_process *p;
    for (size_t i = 0; (p = pl_live_process_at(live, i)); i++)
        if (p->card == card && p->pid == pid) return p;
    return NULL;
}

static size_t process_count(const pl_live *live) {
    size_t n = 0;
    while (pl_live_process_at(live, n)) n++;
    return n;
}

#define MIB (INT64_C(1) << 20)

static const char two_cards[] = "driver 580.65.06\n"
                                "card 0 NVIDIA_H200 143771 3000\nrates 0 50 20\n"
                                "power 0 512250 700000\nenergy 0 123456\ntemperature 0 61\n"
                                "gpm 0 78.25 34.5 46.125 12\n"
                                "process 0 4242 2900\nbusy 0 4242 77 41\n"
                                "card 1 NVIDIA_H200 143771 0\n";

static void everything_a_card_says(void) {
    pl_live *live = opened(NOW, two_cards);
    if (!live) return;
    CHECK_STR(pl_live_driver(live), "580.65.06");
    const pl_live_card *c = pl_live_card_at(live, 0);
    CHECK(isnan(c->smact) && isnan(c->drama)); /* one sample is no figure */
    pause_for_counters();
    pl_live_read(live);
    c = pl_live_card_at(live, 0);
    CHECK_STR(c->name, "NVIDIA H200");
    CHECK_STR(c->uuid, "GPU-0");
    CHECK_STR(c->pci, "00000000:00:00.0");
    CHECK_INT(c->state, PL_LIVE_OK);
    CHECK_STR(c->reason, "");
    CHECK_INT(c->index, 0);
    CHECK_INT(c->gpu_instance, PL_UNKNOWN);
    CHECK_INT(c->memory_total_bytes, 143771 * MIB);
    CHECK_INT(c->memory_used_bytes, 3000 * MIB);
    CHECK_INT(c->memory_reserved_bytes, 500 * MIB);
    CHECK(c->smact == 78.25 && c->smocc == 34.5 && c->drama == 46.125 && c->tensor == 12);
    CHECK(c->gpu_util == 50 && c->memory_util == 20);
    CHECK(c->power_w == 512.25 && c->power_limit_w == 700 && c->temperature_c == 61);
    CHECK(c->energy_j == 123.456);
    CHECK_INT(c->accounting, 0);
    CHECK_INT(c->processes, 1);
    const pl_live_process *p = process(live, 0, 4242);
    CHECK(p != NULL);
    CHECK_INT(p ? p->memory_bytes : 0, 2900 * MIB);
    CHECK(p && p->alone && p->use == PL_LIVE_COMPUTE && !p->mps);
    CHECK(p && p->sm_util == 77 && p->memory_util == 41);
    c = pl_live_card_at(live, 1); /* it has no counter at all */
    CHECK(isnan(c->smact) && isnan(c->gpu_util) && isnan(c->power_w) && isnan(c->energy_j));
    CHECK(isnan(c->temperature_c) && c->memory_used_bytes == 0 && c->processes == 0);
    CHECK(pl_live_card_at(live, 2) == NULL && pl_live_process_at(live, 1) == NULL);
    pl_live_close(&live);
    CHECK(live == NULL);
    pl_live_close(&live);
}

/* The same machine by libraries of four ages: what an age lacks is unknown, the rest is as it is. */
static void each_age_of_the_library(void) {
    static const char text[] =
        "card 0 Tesla 16384 1000\nrates 0 50 20\npower 0 1000 2000\nenergy 0 5000\n"
        "gpm 0 1 2 3 4\nprocess 0 11 100\nprocess 0 12 200\nprocess 0 13 -1\n"
        "process 0 14 400 graphics\nprocess 0 15 500 graphics\n";
    for (int age = 0; age < AGES; age++) {
        pl_live *live = opened(age, text);
        if (!live) continue;
        pause_for_counters();
        pl_live_read(live);
        const pl_live_card *c = pl_live_card_at(live, 0);
        CHECK_INT(process_count(live), 5);
        for (int pid = 11; pid <= 15; pid++) {
            const pl_live_process *p = process(live, 0, pid);
            CHECK(p != NULL);
            if (!p) continue;
            CHECK_INT(p->memory_bytes, pid == 13 ? PL_UNKNOWN : (pid - 10) * 100 * MIB);
            CHECK_INT(p->use, pid < 14 ? PL_LIVE_COMPUTE : PL_LIVE_GRAPHICS);
            CHECK(!p->alone && isnan(p->sm_util));
        }
        bool old = age >= R470;
        CHECK_INT(c->memory_total_bytes, 16384 * MIB);
        CHECK_INT(c->memory_used_bytes,
                  (old ? 1500 : 1000) * MIB); /* reserved is in the old figure */
        CHECK_INT(c->memory_reserved_bytes, old ? PL_UNKNOWN : 500 * MIB);
        CHECK(old ? isnan(c->smact) : c->smact == 1);
        CHECK(age == R418 ? isnan(c->energy_j) : c->energy_j == 5);
        CHECK(c->gpu_util == 50 && c->power_w == 1);
        pl_live_close(&live);
    }
}

static void rows_of_32_bytes_by_count(void) {
    char text[4096];
    for (int n = 0; n <= 40; n++) {
        size_t used = (size_t)snprintf(text, sizeof text, "card 0 H100 81559 1\n");
        for (int i = 0; i < n; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "process 0 %d %d\n", 100 + i,
                                     i + 1);
        pl_live *live = opened(FIRST_535, text);
        if (!live) return;
        CHECK_INT(process_count(live), n);
        for (int i = 0; i < n; i++) {
            const pl_live_process *p = process(live, 0, 100 + i);
            CHECK_INT(p ? p->memory_bytes : -2, (i + 1) * MIB);
        }
        pl_live_close(&live);
    }
}

/* A process may be in several lists; it is one. */
static void lists_are_one(void) {
    pl_live *live =
        opened(NOW, "card 0 A100 40960 1\nprocess 0 7 100 compute\nprocess 0 7 120 graphics\n"
                    "process 0 8 50 mps\nprocess 0 9 5 graphics\n");
    if (!live) return;
    CHECK_INT(process_count(live), 3);
    const pl_live_process *both = process(live, 0, 7), *mps = process(live, 0, 8);
    CHECK(both && both->use == PL_LIVE_BOTH && both->memory_bytes == 120 * MIB && !both->alone);
    CHECK(mps && mps->mps && mps->use == PL_LIVE_COMPUTE);
    CHECK_STR(pl_live_use_name(both->use), "both");
    answers("card 0 A100 40960 1\nprocess 0 7 100 compute\nprocess 0 9 5 graphics\n");
    pl_live_read(live);
    CHECK(process(live, 0, 7)->alone); /* a picture on the screen does not compute */
    pl_live_close(&live);
}

/* More than the 64 that are asked for first, growing from read to read. */
static void more_processes_than_room(void) {
    static char text[1 << 17];
    pl_live *live = opened(NOW, "card 0 A100 40960 1\n");
    if (!live) return;
    for (int n = 60; n <= 3000; n = n * 7 / 5) {
        size_t used = (size_t)snprintf(text, sizeof text, "card 0 A100 40960 1\n");
        for (int i = 0; i < n; i++)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "process 0 %d 3\nbusy 0 %d %d 1\n", i + 1, i + 1, i % 100);
        answers(text);
        pl_live_read(live);
        CHECK_INT(process_count(live), n);
        CHECK_INT(pl_live_card_at(live, 0)->processes, n);
        const pl_live_process *last = process(live, 0, n);
        CHECK(last && last->sm_util == (n - 1) % 100);
    }
    pl_live_close(&live);
}

static void processes_vanish_between_calls(void) {
    pl_live *live = opened(NOW, "card 0 A100 40960 1\nprocess 0 7 100\nprocess 0 8 100\n"
                                "busy 0 7 30 1\nbusy 0 9 40 1\nbusy 0 8 200 1\n");
    if (!live) return;
    CHECK_INT(process_count(live), 2); /* 9 has a sample and is gone from the list */
    CHECK(process(live, 0, 7)->sm_util == 30);
    CHECK(isnan(process(live, 0, 8)->sm_util)); /* 200 is no percentage */
    answers("card 0 A100 40960 1\n");
    pl_live_read(live);
    CHECK_INT(process_count(live), 0);
    CHECK_INT(pl_live_card_at(live, 0)->processes, 0);
    pl_live_close(&live);
}

static void a_card_is_lost_and_comes_back(void) {
    static const char *const calls[] = {"nvmlDeviceGetMemoryInfo",
                                        "nvmlDeviceGetComputeRunningProcesses",
                                        "nvmlDeviceGetGraphicsRunningProcesses"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char text[1024];
        pl_live *live = opened(NOW, two_cards);
        if (!live) return;
        for (int code = 15; code <= 16; code++) {
            snprintf(text, sizeof text, "%sprocess 1 5 6\nfault %s %d 0\n", two_cards, calls[i],
                     code);
            answers(text);
            pl_live_read(live);
            const pl_live_card *c = pl_live_card_at(live, 0);
            CHECK_INT(c->state, PL_LIVE_LOST);
            CHECK_STR(pl_live_state_name(c->state), "lost");
            CHECK_STR(c->reason, code == 15 ? "it has fallen off the bus, or cannot be reached"
                                            : "it needs a reset");
            CHECK_STR(c->name, "NVIDIA H200");
            CHECK_INT(c->memory_used_bytes, PL_UNKNOWN);
            CHECK_INT(c->processes, PL_UNKNOWN);
            CHECK(isnan(c->gpu_util) && isnan(c->power_w) && isnan(c->smact));
            CHECK_INT(process_count(live), 1); /* that of the other card */
            CHECK_INT(pl_live_card_at(live, 1)->state, PL_LIVE_OK);
        }
        answers(two_cards);
        pl_live_read(live);
        CHECK_INT(pl_live_card_at(live, 0)->state, PL_LIVE_OK);
        CHECK_INT(pl_live_card_at(live, 0)->memory_used_bytes, 3000 * MIB);
        CHECK(isnan(pl_live_card_at(live, 0)->smact) ||
              i > 0); /* samples from before do not count */
        pl_live_close(&live);
    }
}

/* One question that fails takes nothing else along. */
static void a_question_fails(void) {
    static const struct {
        const char *function;
        size_t at; /* of the card: a double that is unknown then */
    } rows[] = {
        {"nvmlDeviceGetUtilizationRates", offsetof(pl_live_card, gpu_util)},
        {"nvmlDeviceGetPowerUsage", offsetof(pl_live_card, power_w)},
        {"nvmlDeviceGetEnforcedPowerLimit", offsetof(pl_live_card, power_limit_w)},
        {"nvmlDeviceGetTotalEnergyConsumption", offsetof(pl_live_card, energy_j)},
        {"nvmlDeviceGetTemperature", offsetof(pl_live_card, temperature_c)},
        {"nvmlGpmSampleGet", offsetof(pl_live_card, smact)},
        {"nvmlGpmMetricsGet", offsetof(pl_live_card, drama)},
    };
    static const int codes[] = {3, 4, 6, 999};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%sfault %s %d\n", two_cards, rows[i].function, codes[i % 4]);
        pl_live *live = opened(NOW, text);
        if (!live) return;
        pause_for_counters();
        pl_live_read(live);
        const pl_live_card *c = pl_live_card_at(live, 0);
        double value;
        memcpy(&value, (const char *)c + rows[i].at, sizeof value);
        CHECK(isnan(value));
        CHECK_INT(c->state, PL_LIVE_OK);
        CHECK_INT(c->memory_used_bytes, 3000 * MIB);
        CHECK_INT(process_count(live), 1);
        CHECK((i == 0) == isnan(c->gpu_util));
        CHECK((i >= 5) == isnan(c->smact));
        pl_live_close(&live);
    }
}

static void what_is_denied(void) {
    char text[1024];
    snprintf(text, sizeof text,
             "%sfault nvmlDeviceGetComputeRunningProcesses 4\nfault nvmlDeviceGetName 4 1\n"
             "fault nvmlDeviceGetMemoryInfo 4 1\n",
             two_cards);
    pl_live *live = opened(NOW, text);
    if (!live) return;
    const pl_live_card *c = pl_live_card_at(live, 0);
    CHECK_INT(c->processes, PL_UNKNOWN); /* not 0 */
    CHECK_INT(c->state, PL_LIVE_OK);
    CHECK_INT(process_count(live), 0);
    c = pl_live_card_at(live, 1);
    CHECK_STR(c->name, "");
    CHECK_INT(c->memory_total_bytes, PL_UNKNOWN);
    pl_live_close(&live);
    snprintf(text, sizeof text, "%sfault nvmlDeviceGetHandleByIndex 17 1\n", two_cards);
    live = opened(NOW, text); /* a container's cgroup keeps one card back */
    if (!live) return;
    c = pl_live_card_at(live, 1);
    CHECK_INT(c->state, PL_LIVE_DENIED);
    CHECK_STR(c->reason, "the operating system or a cgroup keeps it back");
    CHECK_INT(c->index, 1);
    CHECK_INT(pl_live_card_at(live, 0)->state, PL_LIVE_OK);
    pl_live_read(live);
    CHECK_INT(pl_live_card_at(live, 1)->state, PL_LIVE_DENIED);
    pl_live_close(&live);
}

static void counters_that_are_no_percentages(void) {
    pl_live *live = opened(NOW, "card 0 H100 81559 1\ngpm 0 100.4 350 -1 nan\n");
    if (!live) return;
    pause_for_counters();
    pl_live_read(live);
    const pl_live_card *c = pl_live_card_at(live, 0);
    CHECK(c->smact == 100); /* rounding */
    CHECK(isnan(c->smocc) && isnan(c->drama) &&
          isnan(c->tensor)); /* nonsense, and a metric it lacks */
    pl_live_read(live);      /* too soon for others: those of before */
    CHECK(pl_live_card_at(live, 0)->smact == 100);
    pl_live_close(&live);
}

static const char divided[] = "card 0 NVIDIA_H100 81559 5000\ncard 1 NVIDIA_H100 81559 0\n"
                              "mig 0 1 0 40320 2000\nmig 0 2 0 20096 100\nmig 0 2 1 20096 100\n"
                              "miggpm 0 1 10 11 12 13\nmiggpm 0 2 20 21 22 23\nrates 0 5 5\n"
                              "process 0 70 1900 compute 1 0\nprocess 0 71 60 compute 2 0\n"
                              "process 0 72 70 compute 2 1\nprocess 1 73 80\n";

static void instances_of_a_divided_card(void) {
    pl_live *live = opened(NOW, divided);
    if (!live) return;
    pause_for_counters();
    pl_live_read(live);
    const pl_live_card *c = pl_live_card_at(live, 0);
    CHECK(c->divided && c->processes == 0 && c->gpu_instance == PL_UNKNOWN);
    CHECK(isnan(c->gpu_util));
    c = pl_live_card_at(live, 1);
    CHECK_INT(c->index, 0);
    CHECK_INT(c->gpu_instance, 1);
    CHECK_INT(c->compute_instance, 0);
    CHECK_STR(c->name, "NVIDIA H100 MIG");
    CHECK_STR(c->uuid, "MIG-0-1-0");
    CHECK_INT(c->memory_total_bytes, 40320 * MIB);
    CHECK(c->smact == 10 && c->tensor == 13);
    CHECK(process(live, 1, 70) && process(live, 1, 70)->alone);
    c = pl_live_card_at(live, 3);
    CHECK_INT(c->gpu_instance, 2);
    CHECK_INT(c->compute_instance, 1);
    CHECK(c->smact == 20);
    /* Both are in one GPU instance, whose counters are of both. */
    CHECK(process(live, 2, 71) && !process(live, 2, 71)->alone);
    CHECK(process(live, 3, 72) && !process(live, 3, 72)->alone);
    CHECK_INT(pl_live_card_at(live, 4)->index, 1);
    CHECK(process(live, 4, 73) && process(live, 4, 73)->alone);
    CHECK_INT(process_count(live), 4);
    /* One is taken away, another is made. */
    answers("card 0 NVIDIA_H100 81559 5000\nmig 0 1 0 40320 2000\nmig 0 5 0 10000 1\n"
            "card 1 NVIDIA_H100 81559 0\nprocess 0 70 1900 compute 1 0\n");
    pl_live_read(live);
    CHECK_INT(pl_live_card_at(live, 2)->gpu_instance, 5);
    CHECK_STR(pl_live_card_at(live, 2)->uuid, "MIG-0-5-0");
    CHECK_INT(pl_live_card_at(live, 3)->index, 1);
    CHECK_INT(process_count(live), 1);
    answers("card 0 NVIDIA_H100 81559 5000\ncard 1 NVIDIA_H100 81559 0\nprocess 0 70 1900\n");
    pl_live_read(live); /* and the card is whole again */
    CHECK(!pl_live_card_at(live, 0)->divided && pl_live_card_at(live, 1)->index == 1);
    CHECK(process(live, 0, 70) != NULL);
    pl_live_close(&live);
}

static void a_divided_card_is_lost(void) {
    char text[1024];
    pl_live *live = opened(NOW, divided);
    if (!live) return;
    snprintf(text, sizeof text, "%sfault nvmlDeviceGetMemoryInfo 15 0\n", divided);
    answers(text);
    pl_live_read(live);
    for (size_t i = 0; i < 4; i++) CHECK_INT(pl_live_card_at(live, i)->state, PL_LIVE_LOST);
    CHECK_INT(pl_live_card_at(live, 4)->state, PL_LIVE_OK);
    CHECK_INT(process_count(live), 1);
    pl_live_close(&live);
}

static void what_accounting_keeps(void) {
    pl_live *live = opened(NOW, "card 0 A100 40960 1\naccount 0 7 12345 0\naccount 0 8 99 4500\n");
    if (!live) return;
    pl_live_account a = PL_SIZED(pl_live_account);
    CHECK_INT(pl_live_card_at(live, 0)->accounting, 1);
    CHECK(pl_live_account_of(live, 0, 7, &a) && a.running && a.time_ms == PL_UNKNOWN);
    CHECK_INT(a.peak_bytes, 12345 * MIB);
    CHECK(pl_live_account_of(live, 0, 8, &a) && !a.running && a.time_ms == 4500);
    CHECK_INT(a.peak_bytes, 99 * MIB);
    CHECK(a.gpu_util == 50 && a.memory_util == 20);
    CHECK(!pl_live_account_of(live, 0, 9, &a) && !pl_live_account_of(live, 1, 7, &a));
    CHECK(!pl_live_account_of(live, 0, -1, &a));
    pl_live_account unsized = {0};
    CHECK(!pl_live_account_of(live, 0, 8, &unsized));
    answers("card 0 A100 40960 1\n");
    pl_live_read(live);
    CHECK_INT(pl_live_card_at(live, 0)->accounting, 0);
    CHECK(!pl_live_account_of(live, 0, 7, &a));
    pl_live_close(&live);
}

static void fails(pl_live_settings *settings, const char *text, const char *where,
                  const char *message) {
    pl_live *live = (pl_live *)1;
    pl_error err = PL_SIZED(pl_error);
    answers(text);
    CHECK_INT(pl_live_open(&live, settings, &err), PL_MISSING);
    CHECK(live == NULL);
    if (where) CHECK_STR(err.where, where);
    CHECK(strstr(err.message, message) != NULL);
    if (!strstr(err.message, message)) printf("  %s\n", err.message);
}

static void what_cannot_be_opened(void) {
    pl_live_settings settings;
    pl_error err = PL_SIZED(pl_error);
    pl_live *live = NULL;
    pl_live_settings_default(&settings);
    settings.library = "/no/such/library.so";
    fails(&settings, two_cards, "/no/such/library.so", "no NVIDIA driver here");
    settings.library = "libm.so.6";
    fails(&settings, two_cards, "libm.so.6", "it has no nvmlInit_v2");
    char own[512];
    snprintf(own, sizeof own, "%s", library(NOW));
    settings.library = own;
    fails(&settings, "driver 1\n", "NVML", "no card is visible");
    fails(&settings, "card 0 A 1 1\nfault nvmlInit 9\n", own, "the NVIDIA driver is not loaded");
    fails(&settings, "card 0 A 1 1\nfault nvmlInit 18\n", own, "Fake Error");
    fails(&settings, "card 0 A 1 1\nfault nvmlDeviceGetCount 999\n", "NVML", "Unknown Error");
    CHECK_INT(pl_live_open(&live, &(pl_live_settings){0}, &err), PL_USAGE);
    CHECK_INT(pl_live_open(&live, &(pl_live_settings){.size = 4}, NULL), PL_USAGE);
}

/* The driver is replaced under the program: every question fails, and none is fatal. */
static void the_driver_goes_away(void) {
    char text[1024];
    pl_live *live = opened(NOW, two_cards);
    if (!live) return;
    snprintf(text, sizeof text, "%sfault nvmlDeviceGetMemoryInfo 1\n", two_cards);
    answers(text);
    pl_live_read(live);
    CHECK_INT(pl_live_card_at(live, 0)->state, PL_LIVE_FAILED);
    CHECK_STR(pl_live_card_at(live, 0)->reason, "the driver was unloaded");
    CHECK_INT(process_count(live), 0);
    pl_live_close(&live);
}

/* 8 cards and 64 processes: after the first thousand reads nothing more is taken. */
static void nothing_leaks(void) {
    static char text[1 << 14];
    size_t used = 0;
    enum { READS = 100000, SETTLED = 1000 };
    for (int i = 0; i < 8; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "card %d NVIDIA_H200 143771 100\nrates %d 5 5\npower %d 1 2\n"
                                 "energy %d 6\ntemperature %d 30\ngpm %d 1 2 3 4\n",
                                 i, i, i, i, i, i);
    for (int i = 0; i < 64; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "process %d %d 10\nbusy %d %d 5 5\n",
                             i % 8, 1000 + i, i % 8, 1000 + i);
    pl_live *live = opened(NOW, text);
    if (!live) return;
    size_t before = 0;
    int reads = getenv("PLIMSOLL_READS") ? atoi(getenv("PLIMSOLL_READS")) : READS;
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int i = 0; i < reads; i++) {
        pl_live_read(live);
#ifdef __GLIBC__
        if (i == SETTLED) before = mallinfo2().uordblks;
#endif
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
#ifdef __GLIBC__
    if (reads > SETTLED) CHECK_INT(mallinfo2().uordblks, before);
#endif
    CHECK_INT(process_count(live), 64);
    double us =
        ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 1e3;
    printf("# 8 cards, 64 processes: %d us of processor time per read, the fake's included\n",
           (int)(us / reads));
    pl_live_close(&live);
}

static void names(void) {
    CHECK_STR(pl_live_state_name(PL_LIVE_OK), "ok");
    CHECK_STR(pl_live_state_name(PL_LIVE_DENIED), "denied");
    CHECK_STR(pl_live_state_name(PL_LIVE_FAILED), "failed");
    CHECK(pl_live_state_name((pl_live_state)4) == NULL);
    CHECK_STR(pl_live_use_name(PL_LIVE_COMPUTE), "compute");
    CHECK(pl_live_use_name((pl_live_use)3) == NULL);
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0) return 4;
    close(fd);
    setenv("FAKE_NVML", path, 1);
    RUN(everything_a_card_says);
    RUN(each_age_of_the_library);
    RUN(rows_of_32_bytes_by_count);
    RUN(lists_are_one);
    RUN(more_processes_than_room);
    RUN(processes_vanish_between_calls);
    RUN(a_card_is_lost_and_comes_back);
    RUN(a_question_fails);
    RUN(what_is_denied);
    RUN(counters_that_are_no_percentages);
    RUN(instances_of_a_divided_card);
    RUN(a_divided_card_is_lost);
    RUN(what_accounting_keeps);
    RUN(what_cannot_be_opened);
    RUN(the_driver_goes_away);
    RUN(nothing_leaks);
    RUN(names);
    unlink(path);
    return check_done();
}
