/* live: the NVIDIA cards of this machine and what runs on them, as the driver sees them now
 * (libplimsoll-live).
 *
 *     pl_live *live = NULL;
 *     pl_error err = PL_SIZED(pl_error);
 *     if (pl_live_open(&live, NULL, &err) == PL_OK) {
 *         sleep(1);
 *         pl_live_read(live);
 *         const pl_live_card *card;
 *         for (size_t i = 0; (card = pl_live_card_at(live, i)); i++)
 *             printf("%s %lld\n", card->name, (long long)card->memory_used_bytes);
 *     }
 *     pl_live_close(&live);
 *
 * The driver's library (NVML, libnvidia-ml.so.1) is loaded when a pl_live is opened; nothing of it
 * is needed to build. What a card, a driver or the caller's rights do not tell is PL_UNKNOWN or NAN,
 * never 0. A pl_live is used by one thread at a time. Rates are of the time since the read before;
 * the opening is one. */
#ifndef PLIMSOLL_LIVE_H
#define PLIMSOLL_LIVE_H

#include <plimsoll/plimsoll.h>

#ifdef __cplusplus
extern "C" {
#endif
/* What stands here is exported (and listed in live.map); all else in the library is hidden. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct pl_live pl_live;

typedef struct pl_live_settings {
    size_t size; /* of this struct; pl_live_settings_default sets it */
    /* default NULL: libnvidia-ml.so.1 where the loader finds it, else where WSL and NixOS have it */
    const char *library;
} pl_live_settings;

void pl_live_settings_default_sized(pl_live_settings *settings, size_t size);
static inline void pl_live_settings_default(pl_live_settings *settings) {
    pl_live_settings_default_sized(settings, sizeof *settings);
}

/* settings: NULL for defaults. PL_MISSING: no driver, no card, or no right to ask. On failure *out is
 * NULL. */
pl_status pl_live_open(pl_live **out, const pl_live_settings *settings, pl_error *err);
void pl_live_close(pl_live **live);
/* Reads everything anew. What could not be read is unknown, and a card's state says why; there is no
 * failure that ends the watching. */
void pl_live_read(pl_live *live);
const char *pl_live_driver(const pl_live *live); /* its version; "" where it is not known */

typedef enum pl_live_state {
    PL_LIVE_OK,
    PL_LIVE_LOST,   /* fallen off the bus, or in need of a reset */
    PL_LIVE_DENIED, /* not the caller's to see */
    PL_LIVE_FAILED, /* the driver has another reason */
} pl_live_state;

const char *pl_live_state_name(pl_live_state state); /* "ok", ...; NULL past the end */

/* A card, or an instance of one that is divided (MIG). Valid until the next read. */
typedef struct pl_live_card {
    int index;                          /* of the card, as nvidia-smi counts */
    int gpu_instance, compute_instance; /* PL_UNKNOWN: the card itself */
    bool divided;                       /* its instances follow it */
    const char *name, *uuid, *pci;      /* "" where not known */
    pl_live_state state;
    const char *reason;         /* of another state than PL_LIVE_OK; "" */
    int64_t memory_total_bytes; /* as nvidia-smi's memory.total */
    int64_t memory_used_bytes;
    int64_t memory_reserved_bytes; /* by the driver, not part of what is used */
    /* Percent. Performance counters (Hopper and later): multiprocessors with a warp on them, warps on
     * them of those they could hold, the memory interface and the tensor cores in use. */
    double smact, smocc, drama, tensor;
    /* Percent of the time that any kernel ran, that memory was read or written: coarser, and on all
     * cards. */
    double gpu_util, memory_util;
    double power_w, power_limit_w, temperature_c;
    double energy_j;    /* since the driver was loaded */
    int64_t accounting; /* the driver's accounting of processes: 1 on, 0 off */
    int64_t processes;  /* on it; PL_UNKNOWN: they could not be listed */
} pl_live_card;

/* Cards, each followed by its instances; NULL past the end. */
const pl_live_card *pl_live_card_at(const pl_live *live, size_t index);

typedef enum pl_live_use {
    PL_LIVE_COMPUTE,
    PL_LIVE_GRAPHICS,
    PL_LIVE_BOTH,
} pl_live_use;

const char *pl_live_use_name(pl_live_use use); /* "compute", ...; NULL past the end */

/* A process on a card; one on two cards is two of them. Valid until the next read. */
typedef struct pl_live_process {
    size_t card; /* of pl_live_card_at */
    int64_t pid; /* as the driver has it: docs/watch.md says of which namespace */
    pl_live_use use;
    bool mps;                    /* a client of the multi-process service */
    int64_t memory_bytes;        /* PL_UNKNOWN: the driver does not say (WSL, some virtual cards) */
    double sm_util, memory_util; /* percent of the time; NAN too where the driver saw none */
    bool alone; /* nothing else computes on the card: its counters are this process's */
} pl_live_process;

const pl_live_process *pl_live_process_at(const pl_live *live,
                                          size_t index); /* NULL past the end */

/* What the driver's accounting has kept of a process, running or ended. */
typedef struct pl_live_account {
    size_t size;                  /* of this struct: PL_SIZED(pl_live_account) */
    int64_t peak_bytes;           /* the most that it ever had; no short peak is missed */
    double gpu_util, memory_util; /* percent of its life */
    int64_t time_ms;              /* of its context; PL_UNKNOWN while it runs */
    bool running;
} pl_live_account;

/* false: accounting is off, or the process is not known. card: of pl_live_card_at. */
bool pl_live_account_of(const pl_live *live, size_t card, int64_t pid, pl_live_account *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
