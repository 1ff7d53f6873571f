/* watch_job: what jobs took, from samples. A job's memory is that of all its processes on one card, as nvidia-smi adds
 * up; its peak is the largest of its cards', which is what an estimate of one rank is held against. Its activity is
 * the card's counters while nothing else computes there, and else not known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "watch.h"

enum { MOST_PROCESSES = 1 << 16 };

double watch_mean_of(const watch_mean *mean) {
    return mean->seconds > 0 ? mean->sum / mean->seconds : NAN;
}

static void add(watch_mean *mean, double value, double seconds) {
    if (!isfinite(value)) return;
    mean->sum += value * seconds;
    mean->seconds += seconds;
}

/* Room for one more row behind count of them; room is the next power of two. */
static void *one_more(void *rows, size_t count, size_t size) {
    if (count & (count - 1)) return rows;
    char *larger = need(count ? 2 * count : 1, size);
    if (count) memcpy(larger, rows, count * size);
    free(rows);
    return larger;
}

watch_job *watch_job_named(watch_jobs *jobs, const char *name) {
    for (size_t i = 0; i < jobs->count; i++)
        if (strcmp(jobs->rows[i]->name, name) == 0) return jobs->rows[i];
    watch_job *job = need(1, sizeof *job);
    snprintf(job->name, sizeof job->name, "%s", name);
    job->told_bytes = PL_UNKNOWN;
    jobs->rows = one_more(jobs->rows, jobs->count, sizeof *jobs->rows);
    jobs->rows[jobs->count++] = job;
    return job;
}

static void free_job(watch_job *job) {
    free(job->cards);
    free(job->processes);
    free(job);
}

void watch_jobs_drop(watch_jobs *jobs, size_t index) {
    free_job(jobs->rows[index]);
    jobs->rows[index] = jobs->rows[--jobs->count];
}

void watch_jobs_free(watch_jobs *jobs) {
    for (size_t i = 0; i < jobs->count; i++) free_job(jobs->rows[i]);
    free(jobs->rows);
    *jobs = (watch_jobs){0};
}

static watch_card *find_card(watch_job *job, const pl_live_card *card) {
    for (size_t i = 0; i < job->card_count; i++)
        if (strcmp(job->cards[i].uuid, card->uuid) == 0 && job->cards[i].index == card->index &&
            job->cards[i].gpu_instance == card->gpu_instance)
            return &job->cards[i];
    return NULL;
}

static watch_card *card_of(watch_job *job, const pl_live_card *card) {
    watch_card *found = find_card(job, card);
    if (found) return found;
    job->cards = one_more(job->cards, job->card_count, sizeof *job->cards);
    watch_card *c = &job->cards[job->card_count++];
    *c = (watch_card){.index = card->index,
                      .gpu_instance = card->gpu_instance,
                      .peak_bytes = PL_UNKNOWN,
                      .account_bytes = PL_UNKNOWN,
                      .now_bytes = PL_UNKNOWN,
                      .energy_from = card->energy_j,
                      .energy_to = card->energy_j,
                      .power_j = NAN};
    snprintf(c->uuid, sizeof c->uuid, "%s", card->uuid);
    snprintf(c->name, sizeof c->name, "%s", card->name);
    return c;
}

void watch_job_begin(watch_job *job, const watch_sample *sample) {
    const pl_live_card *card;
    job->listed = true;
    for (size_t i = 0; sample->live && (card = pl_live_card_at(sample->live, i)); i++)
        card_of(job, card);
}

static void add_process(watch_job *job, const pl_live_process *p, const pl_live_card *card) {
    for (size_t i = 0; i < job->process_count; i++)
        if (job->processes[i].pid == p->pid && strcmp(job->processes[i].uuid, card->uuid) == 0)
            return;
    if (job->process_count == MOST_PROCESSES) return;
    job->processes = one_more(job->processes, job->process_count, sizeof *job->processes);
    watch_process *row = &job->processes[job->process_count++];
    row->pid = p->pid;
    snprintf(row->uuid, sizeof row->uuid, "%s", card->uuid);
}

/* Whether all that computes where this card's counters are counted is of the job. */
static bool is_alone(const watch_job *job, const watch_sample *sample, const pl_live_card *card) {
    for (size_t i = 0; i < sample->processes; i++) {
        const pl_live_process *p = pl_live_process_at(sample->live, i);
        const pl_live_card *its = pl_live_card_at(sample->live, p->card);
        if (its->index != card->index || its->gpu_instance != card->gpu_instance ||
            p->use == PL_LIVE_GRAPHICS)
            continue;
        if (!sample->job[i] || strcmp(sample->job[i], job->name) != 0) return false;
    }
    return true;
}

/* A card that the job is on in this sample. */
static void end_card(watch_job *job, watch_card *c, const pl_live_card *card,
                     const watch_sample *sample) {
    if (c->now_bytes > c->peak_bytes) c->peak_bytes = c->now_bytes;
    if (c->now > c->most) c->most = c->now;
    if (!is_alone(job, sample, card)) return;
    add(&job->smact, card->smact, sample->seconds);
    add(&job->smocc, card->smocc, sample->seconds);
    add(&job->drama, card->drama, sample->seconds);
    add(&job->tensor, card->tensor, sample->seconds);
    add(&job->gpu_util, card->gpu_util, sample->seconds);
}

static void begin_cards(watch_job *job) {
    job->there = false;
    for (size_t i = 0; i < job->card_count; i++) {
        job->cards[i].now_bytes = PL_UNKNOWN;
        job->cards[i].now = 0;
        job->cards[i].seen = false;
    }
}

void watch_jobs_add(watch_jobs *jobs, const watch_sample *sample) {
    for (size_t i = 0; i < jobs->count; i++) begin_cards(jobs->rows[i]);
    for (size_t i = 0; i < sample->processes; i++) {
        if (!sample->job[i]) continue;
        const pl_live_process *p = pl_live_process_at(sample->live, i);
        const pl_live_card *card = pl_live_card_at(sample->live, p->card);
        watch_job *job = watch_job_named(jobs, sample->job[i]);
        watch_card *c = card_of(job, card);
        if (p->memory_bytes >= 0)
            c->now_bytes = (c->now_bytes > 0 ? c->now_bytes : 0) + p->memory_bytes;
        c->now++;
        c->seen = true;
        job->there = true;
        if (!job->user[0]) snprintf(job->user, sizeof job->user, "%s", sample->who[i]->user);
        if (job->listed) add_process(job, p, card);
    }
    const pl_live_card *card;
    for (size_t i = 0; i < jobs->count; i++) {
        watch_job *job = jobs->rows[i];
        job->samples += job->there;
        for (size_t k = 0; sample->live && (card = pl_live_card_at(sample->live, k)); k++) {
            watch_card *c = find_card(job, card);
            if (!c) continue;
            if (c->seen) end_card(job, c, card, sample);
            if (isfinite(card->energy_j)) c->energy_to = card->energy_j;
            if (c->seen && isfinite(card->power_w))
                c->power_j =
                    (isfinite(c->power_j) ? c->power_j : 0) + card->power_w * sample->seconds;
        }
    }
}

/* ---- at the end ---- */

void watch_job_account(watch_job *job, const pl_live *live, const int64_t *pids, size_t count) {
    const pl_live_card *card;
    for (size_t k = 0; live && (card = pl_live_card_at(live, k)); k++) {
        if (card->gpu_instance >= 0) continue; /* accounting is the whole card's */
        pl_live_account account = PL_SIZED(pl_live_account);
        watch_card *c = NULL;
        for (size_t i = 0; i < job->process_count + count; i++) {
            bool sampled = i < job->process_count;
            int64_t pid = sampled ? job->processes[i].pid : pids[i - job->process_count];
            if (sampled && strcmp(job->processes[i].uuid, card->uuid) != 0) continue;
            bool known = pl_live_account_of(live, k, pid, &account) && account.peak_bytes >= 0;
            if (!known && !sampled) continue;
            c = card_of(job, card);
            if (!known)
                c->unaccounted = true;
            else if (account.peak_bytes > c->account_bytes)
                c->account_bytes = account.peak_bytes;
        }
    }
}

/* Accounting is of one process: where several were there at a time, their sum is sampled. */
watch_peak watch_peak_of(const watch_job *job) {
    watch_peak peak = {.bytes = PL_UNKNOWN};
    for (size_t i = 0; i < job->card_count; i++) {
        const watch_card *c = &job->cards[i];
        int64_t bytes = c->account_bytes > c->peak_bytes ? c->account_bytes : c->peak_bytes;
        if (bytes <= peak.bytes) continue;
        bool accounted = c->account_bytes >= 0 && !c->unaccounted && c->most <= 1;
        peak = (watch_peak){bytes, accounted ? BY_ACCOUNTING : BY_SAMPLES, c};
    }
    return peak;
}

double watch_energy_of(const watch_job *job, bool *counted) {
    double joules = 0;
    bool any = false;
    *counted = true;
    for (size_t i = 0; i < job->card_count; i++) {
        const watch_card *c = &job->cards[i];
        if (c->most == 0 && c->account_bytes < 0) continue; /* the job was not on it */
        double by_counter = c->energy_to - c->energy_from;
        if (!isfinite(by_counter)) {
            *counted = false;
            by_counter = c->power_j;
        }
        if (!isfinite(by_counter)) return NAN;
        joules += by_counter;
        any = true;
    }
    return any ? joules : NAN;
}
