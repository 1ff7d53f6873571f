/* live: see plimsoll/live.h. A read goes through the cards; a call that fails leaves what it would have
 * told unknown and the others as they are. Only a card that is lost, or not the caller's, is not asked
 * further.
 *
 * Left out: cards that are plugged in later; what NVML calls a vGPU host. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sized.h"
#include "nvml/counters.h"
#include "nvml/processes.h"

enum { MOST_CARDS = 256, MOST_INSTANCES = 16, NOWHERE = -1 };

typedef struct card {
    pl_live_card shown;
    pl_nvml_device device, parent; /* parent: of an instance, else NULL; device NULL: never found */
    char name[NVML_TEXT], uuid[NVML_TEXT], pci[32], reason[128];
    unsigned long long seen_us; /* the newest sample of processes' rates */
    pl_nvml_counters counters;
} card;

typedef struct slot {
    card card;
    card instances[MOST_INSTANCES];
    size_t instance_count;
} slot;

struct pl_live {
    pl_nvml_api api;
    char driver[NVML_TEXT];
    slot *slots; /* [count] */
    size_t count;
    card **cards; /* [card_count]: cards, each followed by its instances */
    size_t card_count;
    pl_nvml_processes listed;   /* of one card */
    pl_live_process *processes; /* [process_count] of process_room */
    size_t process_count, process_room;
};

void pl_live_settings_default_sized(pl_live_settings *settings, size_t size) {
    pl_live_settings own = {.size = sizeof own};
    pl_sized_fill(settings, size, &own, sizeof own);
}

const char *pl_live_state_name(pl_live_state state) {
    static const char *const names[] = {"ok", "lost", "denied", "failed"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : NULL;
}

const char *pl_live_use_name(pl_live_use use) {
    static const char *const names[] = {"compute", "graphics", "both"};
    return (size_t)use < sizeof names / sizeof *names ? names[use] : NULL;
}

/* ---- a card's state ---- */

/* Everything that a read finds anew. */
static void forget(card *c) {
    pl_live_card *s = &c->shown;
    s->memory_total_bytes = s->memory_used_bytes = s->memory_reserved_bytes = PL_UNKNOWN;
    s->smact = s->smocc = s->drama = s->tensor = s->gpu_util = s->memory_util = NAN;
    s->power_w = s->power_limit_w = s->temperature_c = s->energy_j = NAN;
    s->processes = PL_UNKNOWN;
    s->state = PL_LIVE_OK;
    s->reason = c->reason;
    c->reason[0] = '\0';
}

static pl_live_state state_of(pl_nvml_return code) {
    switch (code) {
    case NVML_GPU_IS_LOST:
    case NVML_RESET_REQUIRED: return PL_LIVE_LOST;
    case NVML_NO_PERMISSION:
    case NVML_OPERATING_SYSTEM: return PL_LIVE_DENIED;
    default: return PL_LIVE_FAILED;
    }
}

static void set_state(const pl_nvml_api *api, card *c, pl_nvml_return code) {
    c->shown.state = state_of(code);
    snprintf(c->reason, sizeof c->reason, "%s", pl_nvml_text(api, code));
}

/* Whether the code says something of the card and not of the one question. */
static bool is_fatal(pl_nvml_return code) {
    return code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED || code == NVML_UNINITIALIZED ||
           code == NVML_DRIVER_NOT_LOADED;
}

static void get_text(pl_nvml_text_fn *get, pl_nvml_device device, char *out) {
    if (!get || get(device, out, NVML_TEXT) != NVML_OK) out[0] = '\0';
    out[NVML_TEXT - 1] = '\0';
}

static int number_of(pl_nvml_number_fn *get, pl_nvml_device device) {
    unsigned number;
    return get && get(device, &number) == NVML_OK && number < 1 << 20 ? (int)number : PL_UNKNOWN;
}

/* What stays: names. */
static void describe(const pl_nvml_api *api, card *c, pl_nvml_device device, int index) {
    pl_nvml_pci pci = {.id = ""};
    *c = (card){.device = device};
    c->shown = (pl_live_card){.index = index,
                              .gpu_instance = PL_UNKNOWN,
                              .compute_instance = PL_UNKNOWN,
                              .accounting = PL_UNKNOWN};
    forget(c);
    c->shown.name = c->name;
    c->shown.uuid = c->uuid;
    c->shown.pci = c->pci;
    pl_nvml_counters_forget(&c->counters);
    if (!device) return;
    get_text(api->name, device, c->name);
    get_text(api->uuid, device, c->uuid);
    if (api->pci && api->pci(device, &pci) == NVML_OK)
        snprintf(c->pci, sizeof c->pci, "%.31s", pci.id);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* the clock of NVML's samples */
    c->seen_us = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* ---- one read of one card ---- */

static int64_t bytes_of(unsigned long long bytes) {
    return bytes <= INT64_MAX ? (int64_t)bytes : PL_UNKNOWN;
}

/* The newer function sets apart what the driver keeps, as nvidia-smi shows it. */
static pl_nvml_return read_memory(const pl_nvml_api *api, card *c) {
    pl_nvml_memory_v2 newer = {.version = (unsigned)sizeof newer | 2u << 24};
    pl_nvml_memory older;
    pl_nvml_return code = api->memory_v2 ? api->memory_v2(c->device, &newer) : NVML_NOT_SUPPORTED;
    if (code == NVML_OK) {
        c->shown.memory_total_bytes = bytes_of(newer.total);
        c->shown.memory_used_bytes = bytes_of(newer.used);
        c->shown.memory_reserved_bytes = bytes_of(newer.reserved);
        return code;
    }
    if (is_fatal(code) || !api->memory) return code;
    code = api->memory(c->device, &older);
    if (code == NVML_OK) {
        c->shown.memory_total_bytes = bytes_of(older.total);
        c->shown.memory_used_bytes = bytes_of(older.used);
    }
    return code;
}

static double percent(unsigned number) {
    return number <= 100 ? (double)number : (double)NAN;
}

static void read_rest(const pl_nvml_api *api, card *c, int64_t now_ns) {
    pl_live_card *s = &c->shown;
    pl_nvml_rates rates;
    unsigned number;
    unsigned long long millijoules;
    if (api->rates && api->rates(c->device, &rates) == NVML_OK) {
        s->gpu_util = percent(rates.gpu);
        s->memory_util = percent(rates.memory);
    }
    pl_nvml_count(api, c->parent ? c->parent : c->device, c->parent ? s->gpu_instance : PL_UNKNOWN,
                  now_ns, &c->counters);
    s->smact = c->counters.smact;
    s->smocc = c->counters.smocc;
    s->drama = c->counters.drama;
    s->tensor = c->counters.tensor;
    if (c->parent) return; /* the rest is the whole card's */
    if (api->power && api->power(c->device, &number) == NVML_OK) s->power_w = number / 1000.0;
    if (api->power_limit && api->power_limit(c->device, &number) == NVML_OK)
        s->power_limit_w = number / 1000.0;
    if (api->energy && api->energy(c->device, &millijoules) == NVML_OK)
        s->energy_j = (double)millijoules / 1000;
    if (api->temperature && api->temperature(c->device, 0, &number) == NVML_OK && number < 1000)
        s->temperature_c = number;
    s->accounting = number_of(api->accounting, c->device);
}

/* ---- processes ---- */

static pl_live_process *new_process(pl_live *live) {
    if (live->process_count == live->process_room) {
        size_t room = live->process_room ? 2 * live->process_room : 64;
        pl_live_process *larger = realloc(live->processes, room * sizeof *larger);
        if (!larger) return NULL;
        live->processes = larger;
        live->process_room = room;
    }
    return &live->processes[live->process_count++];
}

/* The card's place in the list, or that of its instance that the process is in. */
static size_t place_of(const slot *s, size_t first, const pl_nvml_process *p) {
    for (size_t i = 0; i < s->instance_count && p->gpu_instance >= 0; i++) {
        const pl_live_card *instance = &s->instances[i].shown;
        if (instance->gpu_instance == p->gpu_instance &&
            (instance->compute_instance == p->compute_instance || p->compute_instance < 0))
            return first + 1 + i;
    }
    return first;
}

static bool is_listed(const pl_live *live, size_t from, size_t place, int64_t pid) {
    for (size_t i = from; i < live->process_count; i++)
        if (live->processes[i].card == place && live->processes[i].pid == pid) return true;
    return false;
}

/* Puts what live->listed holds behind the others. place: where they are, or NOWHERE: as they say. */
static void put_processes(pl_live *live, const slot *s, size_t first, long place) {
    size_t from = live->process_count;
    for (size_t i = 0; i < live->listed.count; i++) {
        const pl_nvml_process *p = &live->listed.rows[i];
        size_t at = place == NOWHERE ? place_of(s, first, p) : (size_t)place;
        if (is_listed(live, from, at, p->pid)) continue;
        pl_live_process *out = new_process(live);
        if (!out) return;
        *out = (pl_live_process){.card = at,
                                 .pid = p->pid,
                                 .use = p->use,
                                 .mps = p->mps,
                                 .memory_bytes = p->memory_bytes,
                                 .sm_util = p->sm_util,
                                 .memory_util = p->memory_util};
    }
}

/* Whether the process computes where the counters of a card are counted: in all compute instances of a
 * GPU instance together. */
static bool competes(const pl_live *live, const pl_live_process *p, size_t place) {
    return p->use != PL_LIVE_GRAPHICS &&
           live->cards[p->card]->shown.gpu_instance == live->cards[place]->shown.gpu_instance;
}

/* Of a divided card the list of each instance is asked for, which anybody may; that of the whole card
 * needs rights. */
static void read_processes(pl_live *live, slot *s, size_t first) {
    const pl_nvml_api *api = &live->api;
    card *whole = &s->card;
    size_t before = live->process_count;
    pl_nvml_return code = NVML_OK;
    for (size_t i = 0; i < s->instance_count; i++) {
        code = pl_nvml_list_processes(api, s->instances[i].device, &live->listed);
        if (code != NVML_OK) continue;
        whole->shown.processes = s->instances[i].shown.processes = 0;
        put_processes(live, s, first, (long)(first + 1 + i));
    }
    if (s->instance_count == 0 || code == NVML_NOT_SUPPORTED) {
        live->process_count = before;
        code = pl_nvml_list_processes(api, whole->device, &live->listed);
        if (code == NVML_OK) {
            pl_nvml_rate_processes(api, whole->device, &whole->seen_us, &live->listed);
            whole->shown.processes = 0;
            for (size_t i = 0; i < s->instance_count; i++) s->instances[i].shown.processes = 0;
            put_processes(live, s, first, NOWHERE);
        } else if (is_fatal(code)) {
            forget(whole);
            set_state(api, whole, code);
        }
    }
    for (size_t i = before; i < live->process_count; i++) {
        pl_live_process *p = &live->processes[i];
        live->cards[p->card]->shown.processes++;
        p->alone = p->use != PL_LIVE_GRAPHICS;
        for (size_t k = before; k < live->process_count && p->alone; k++)
            p->alone = k == i || !competes(live, &live->processes[k], p->card);
    }
}

/* ---- instances ---- */

/* They come and go while the card runs: a handle that is as before is the same instance. */
static void find_instances(pl_live *live, slot *s) {
    const pl_nvml_api *api = &live->api;
    unsigned now = 0, pending = 0;
    size_t count = 0;
    card *whole = &s->card;
    whole->shown.divided = api->mig_mode && api->mig_device &&
                           api->mig_mode(whole->device, &now, &pending) == NVML_OK && now == 1;
    int most = whole->shown.divided ? number_of(api->mig_most, whole->device) : 0;
    for (int i = 0; i < most && count < MOST_INSTANCES; i++) {
        pl_nvml_device device = NULL;
        if (api->mig_device(whole->device, (unsigned)i, &device) != NVML_OK || !device) continue;
        card *c = &s->instances[count++];
        int gpu = number_of(api->gpu_instance, device),
            compute = number_of(api->compute_instance, device);
        if (count <= s->instance_count && c->device == device && c->shown.gpu_instance == gpu &&
            c->shown.compute_instance == compute)
            continue;
        if (count <= s->instance_count) pl_nvml_counters_free(api, &c->counters);
        describe(api, c, device, whole->shown.index);
        c->parent = whole->device;
        c->shown.gpu_instance = gpu;
        c->shown.compute_instance = compute;
    }
    for (size_t i = count; i < s->instance_count; i++)
        pl_nvml_counters_free(api, &s->instances[i].counters);
    s->instance_count = count;
}

/* ---- reading ---- */

static bool read_card(pl_live *live, card *c, int64_t now_ns) {
    forget(c);
    pl_nvml_return code = read_memory(&live->api, c);
    if (is_fatal(code)) {
        set_state(&live->api, c, code);
        pl_nvml_counters_forget(&c->counters);
        return false;
    }
    read_rest(&live->api, c, now_ns);
    return true;
}

static void read_slot(pl_live *live, slot *s, int64_t now_ns) {
    size_t first = live->card_count;
    live->cards[live->card_count++] = &s->card;
    if (!s->card.device) return; /* its state says why */
    if (!read_card(live, &s->card, now_ns)) {
        for (size_t i = 0; i < s->instance_count; i++) {
            card *c = &s->instances[i];
            forget(c);
            c->shown.state = s->card.shown.state;
            snprintf(c->reason, sizeof c->reason, "%s", s->card.reason);
            live->cards[live->card_count++] = c;
        }
        return;
    }
    find_instances(live, s);
    for (size_t i = 0; i < s->instance_count; i++) {
        read_card(live, &s->instances[i], now_ns);
        live->cards[live->card_count++] = &s->instances[i];
    }
    read_processes(live, s, first);
}

void pl_live_read(pl_live *live) {
    int64_t now_ns = pl_now_ns();
    live->card_count = live->process_count = 0;
    for (size_t i = 0; i < live->count; i++) read_slot(live, &live->slots[i], now_ns);
}

/* ---- opening ---- */

static pl_status find_cards(pl_live *live, unsigned count, pl_error *err) {
    live->slots = calloc(count, sizeof *live->slots);
    live->cards = calloc((size_t)count * (1 + MOST_INSTANCES), sizeof(card *));
    if (!live->slots || !live->cards) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    for (unsigned i = 0; i < count; i++) {
        pl_nvml_device device = NULL;
        pl_nvml_return code = live->api.device(i, &device);
        card *c = &live->slots[i].card;
        describe(&live->api, c, code == NVML_OK ? device : NULL, (int)i);
        if (code != NVML_OK) set_state(&live->api, c, code);
        live->count++;
    }
    return PL_OK;
}

pl_status pl_live_open(pl_live **out, const pl_live_settings *settings, pl_error *err) {
    pl_live_settings own;
    *out = NULL;
    pl_live_settings_default(&own);
    if (settings && !PL_SIZED_OK(settings, library))
        return pl_fail(err, PL_USAGE, "settings", -1, "its size is not set");
    if (settings) pl_sized_read(&own, sizeof own, settings, settings->size);
    pl_live *live = calloc(1, sizeof *live);
    if (!live) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_status status = pl_nvml_open(&live->api, own.library, err);
    unsigned count = 0;
    if (status == PL_OK) {
        pl_nvml_return code = live->api.count(&count);
        if (code != NVML_OK)
            status = pl_fail(err, PL_MISSING, "NVML", -1, "%s", pl_nvml_text(&live->api, code));
        else if (count == 0)
            status = pl_fail(err, PL_MISSING, "NVML", -1, "no card is visible here");
    }
    if (status == PL_OK) {
        if (live->api.driver_version &&
            live->api.driver_version(live->driver, sizeof live->driver) != NVML_OK)
            live->driver[0] = '\0';
        status = find_cards(live, count < MOST_CARDS ? count : MOST_CARDS, err);
    }
    if (status == PL_OK)
        pl_live_read(live);
    else
        pl_live_close(&live);
    *out = live;
    return status;
}

void pl_live_close(pl_live **live) {
    pl_live *l = *live;
    if (!l) return;
    for (size_t i = 0; i < l->count; i++) {
        slot *s = &l->slots[i];
        pl_nvml_counters_free(&l->api, &s->card.counters);
        for (size_t k = 0; k < s->instance_count; k++)
            pl_nvml_counters_free(&l->api, &s->instances[k].counters);
    }
    pl_nvml_processes_free(&l->listed);
    pl_nvml_close(&l->api);
    free(l->slots);
    free(l->cards);
    free(l->processes);
    free(l);
    *live = NULL;
}

/* ---- what was read ---- */

const char *pl_live_driver(const pl_live *live) {
    return live->driver;
}

const pl_live_card *pl_live_card_at(const pl_live *live, size_t index) {
    return index < live->card_count ? &live->cards[index]->shown : NULL;
}

const pl_live_process *pl_live_process_at(const pl_live *live, size_t index) {
    return index < live->process_count ? &live->processes[index] : NULL;
}

bool pl_live_account_of(const pl_live *live, size_t index, int64_t pid, pl_live_account *out) {
    if (index >= live->card_count || !live->api.account || !PL_SIZED_OK(out, running)) return false;
    const card *c = live->cards[index];
    pl_nvml_device device = c->parent ? c->parent : c->device;
    pl_nvml_account got = {0};
    if (!device || pid < 0 || pid > UINT32_MAX ||
        live->api.account(device, (unsigned)pid, &got) != NVML_OK)
        return false;
    pl_live_account own = {.size = sizeof own,
                           .peak_bytes = bytes_of(got.peak_bytes),
                           .gpu_util = percent(got.gpu_util),
                           .memory_util = percent(got.memory_util),
                           .time_ms = got.running ? PL_UNKNOWN : bytes_of(got.time_ms),
                           .running = got.running != 0};
    pl_sized_fill(out, out->size, &own, sizeof own);
    return true;
}
