/* seen: see seen.h. Each job is held against what was predicted, and against what the correction would have made of
 * that by what was known before it ended: nothing is judged by itself. */
#include "seen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "core/number.h"
#include "history.h"

enum { MOST_CARDS = 64, WINDOW = 256, WORST = 10, DRIFT = 20 };

typedef struct job {
    char name[128], model[80], family[32];
    int64_t predicted, upper, peak;
    double error, corrected; /* shares: (real - predicted) / predicted; NAN: too few before it */
    double predicted_step, step; /* ms; 0: not said */
} job;

typedef struct card {
    char gpu[64];
    job *jobs;
    size_t count, room;
} card;

typedef struct all {
    card cards[MOST_CARDS];
    size_t count;
    bool failed;
} all;

static card *card_of(all *a, const char *gpu) {
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->cards[i].gpu, gpu) == 0) return &a->cards[i];
    if (a->count == MOST_CARDS) return NULL;
    card *c = &a->cards[a->count++];
    snprintf(c->gpu, sizeof c->gpu, "%s", gpu);
    return c;
}

/* By the jobs of the card before it, the newest first. */
static double corrected_error(const card *c, const job *j) {
    pl_seen seen[WINDOW];
    size_t n = 0;
    for (size_t i = c->count; i-- > 0 && n < WINDOW;)
        seen[n++] = (pl_seen){.predicted_bytes = c->jobs[i].predicted,
                              .peak_bytes = c->jobs[i].peak,
                              .same_family = *j->family && !strcmp(c->jobs[i].family, j->family),
                              .same_model = *j->model && !strcmp(c->jobs[i].model, j->model)};
    pl_correction correction = PL_SIZED(pl_correction);
    pl_correction_of(&correction, seen, n);
    if (correction.jobs == 0) return NAN;
    int64_t low = PL_UNKNOWN, high = PL_UNKNOWN, peak = j->predicted;
    pl_correction_apply(&correction, &low, &peak, &high);
    return ((double)j->peak - (double)peak) / fmax((double)peak, 1);
}

static bool add(void *context, const history_pair *pair) {
    all *a = context;
    card *c = card_of(a, pair->gpu);
    if (!c) return true; /* more kinds of cards than are shown */
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        job *grown = realloc(c->jobs, room * sizeof *grown);
        a->failed = !grown;
        if (!grown) return false;
        c->jobs = grown;
        c->room = room;
    }
    job *j = &c->jobs[c->count];
    snprintf(j->name, sizeof j->name, "%s", pair->job);
    snprintf(j->model, sizeof j->model, "%s", pair->model);
    snprintf(j->family, sizeof j->family, "%s", pair->family);
    j->predicted = pair->predicted_bytes;
    j->upper = pair->upper_bytes;
    j->peak = pair->peak_bytes;
    j->predicted_step = pair->predicted_step_ms;
    j->step = pair->step_ms;
    j->error = (double)(j->peak - j->predicted) / (double)j->predicted;
    j->corrected = corrected_error(c, j);
    c->count++;
    return true;
}

/* ---- figures ---- */

static int by_size(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

typedef struct figures {
    size_t count, above;
    double median, p90, corrected_median, corrected_p90,
        drift; /* drift: the last DRIFT jobs' middle */
    size_t timed;
    double step_median; /* of step times, of the jobs that said them */
} figures;

static double at_share(double *list, size_t count, double share) {
    if (count == 0) return NAN;
    qsort(list, count, sizeof *list, by_size);
    return list[(size_t)(share * (double)(count - 1))];
}

static figures figures_of(const card *c) {
    figures f = {.count = c->count};
    double *errors = malloc((c->count + 1) * sizeof *errors),
           *better = malloc((c->count + 1) * sizeof *better);
    size_t n = 0, last = 0;
    double recent[DRIFT];
    for (size_t i = 0; errors && better && i < c->count; i++) {
        const job *j = &c->jobs[i];
        errors[i] = fabs(j->error);
        f.above += j->upper >= 0 && j->peak > j->upper;
        if (isfinite(j->corrected)) better[n++] = fabs(j->corrected);
        if (i + DRIFT >= c->count) recent[last++] = j->error;
    }
    size_t all = errors && better ? c->count : 0;
    f.median = at_share(errors, all, 0.5);
    f.p90 = at_share(errors, all, 0.9);
    f.corrected_median = at_share(better, n, 0.5);
    f.corrected_p90 = at_share(better, n, 0.9);
    f.drift = at_share(recent, last, 0.5);
    for (size_t i = 0; i < all; i++) {
        const job *j = &c->jobs[i];
        if (j->step > 0 && j->predicted_step > 0)
            errors[f.timed++] = fabs(j->step - j->predicted_step) / j->predicted_step;
    }
    f.step_median = at_share(errors, f.timed, 0.5);
    free(errors);
    free(better);
    return f;
}

static pl_correction correction_now(const card *c) {
    pl_seen seen[WINDOW];
    size_t n = 0;
    for (size_t i = c->count; i-- > 0 && n < WINDOW;)
        seen[n++] = (pl_seen){.predicted_bytes = c->jobs[i].predicted,
                              .peak_bytes = c->jobs[i].peak,
                              .predicted_step_ms = c->jobs[i].predicted_step,
                              .step_ms = c->jobs[i].step};
    pl_correction correction = PL_SIZED(pl_correction);
    pl_correction_of(&correction, seen, n);
    return correction;
}

/* The furthest off, by either side. */
static const job *worst(const card *c, size_t rank) {
    const job *found = NULL;
    double before = INFINITY;
    for (size_t r = 0; r <= rank; r++) {
        found = NULL;
        for (size_t i = 0; i < c->count; i++)
            if (fabs(c->jobs[i].error) < before &&
                (!found || fabs(c->jobs[i].error) > fabs(found->error)))
                found = &c->jobs[i];
        if (!found) return NULL;
        before = fabs(found->error);
    }
    return found;
}

/* ---- output ---- */

typedef struct small {
    char text[24];
} small;

static small percent(double share, bool sign) {
    small s = {"-"};
    if (isfinite(share))
        snprintf(s.text, sizeof s.text, "%s%.16s %%", sign && share > 0 ? "+" : "",
                 PL_REAL(".2f", 100 * share));
    return s;
}

static void print_clean(const char *text) {
    for (; *text; text++) putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
}

static void print_card(const card *c) {
    figures f = figures_of(c);
    pl_correction now = correction_now(c);
    print_clean(*c->gpu ? c->gpu : "(no card said)");
    printf(": %zu jobs ended\n", f.count);
    printf("  error of the peak   median %s, 90 %% within %s\n", percent(f.median, false).text,
           percent(f.p90, false).text);
    printf("  as corrected        median %s, 90 %% within %s\n",
           percent(f.corrected_median, false).text, percent(f.corrected_p90, false).text);
    printf("  above the upper end %zu\n  the last %d, middle  %s\n", f.above, DRIFT,
           percent(f.drift, true).text);
    if (now.jobs)
        printf("  learnt              %s%.16s MiB on this card, of %lld jobs%s\n",
               now.offset_bytes > 0 ? "+" : "", PL_REAL(".0f", (double)now.offset_bytes / 1048576),
               (long long)now.jobs, now.left_out ? ", some left out as no peaks of theirs" : "");
    if (f.timed)
        printf("  error of step times median %s, of %zu\n", percent(f.step_median, false).text,
               f.timed);
    if (now.step_jobs)
        printf("  learnt              %.16s times as long, of %lld jobs\n",
               PL_REAL(".2f", now.step_factor), (long long)now.step_jobs);
    const job *j;
    for (size_t i = 0; i < WORST && (j = worst(c, i)); i++) {
        printf(i ? "                      " : "  furthest off        ");
        printf("%s  ", percent(j->error, true).text);
        print_clean(j->name);
        putchar('\n');
    }
}

static void put_card(pl_json_writer *w, const card *c) {
    figures f = figures_of(c);
    pl_correction now = correction_now(c);
    const job *j;
    w->real = ".6g";
    pl_json_put_open(w, NULL, '{');
    pl_json_put_string(w, "gpu", c->gpu);
    pl_json_put_int(w, "jobs", (int64_t)f.count);
    pl_json_put_real(w, "error_median", f.median);
    pl_json_put_real(w, "error_p90", f.p90);
    pl_json_put_real(w, "corrected_median", f.corrected_median);
    pl_json_put_real(w, "corrected_p90", f.corrected_p90);
    pl_json_put_int(w, "above_upper", (int64_t)f.above);
    pl_json_put_real(w, "drift", f.drift);
    pl_json_put_int(w, "offset_bytes", now.offset_bytes);
    pl_json_put_int(w, "left_out", now.left_out);
    pl_json_put_real(w, "step_error_median", f.step_median);
    pl_json_put_real(w, "step_factor", now.step_factor);
    pl_json_put_open(w, "worst", '[');
    for (size_t i = 0; i < WORST && (j = worst(c, i)); i++) {
        pl_json_put_open(w, NULL, '{');
        pl_json_put_string(w, "job", j->name);
        pl_json_put_real(w, "error", j->error);
        pl_json_put_int(w, "predicted_bytes", j->predicted);
        pl_json_put_int(w, "peak_bytes", j->peak);
        pl_json_put_close(w, '}');
    }
    pl_json_put_close(w, ']');
    pl_json_put_close(w, '}');
}

int seen_main(int argc, char **argv) {
    const char *folder = NULL;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc) {
            folder = argv[++i];
        } else if (strncmp(argv[i], "--data=", 7) == 0) {
            folder = argv[i] + 7;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            puts(
                "usage: plimsoll history --data FOLDER [--json]\n\n"
                "What the daemon of that folder has seen: real peaks against predicted ones by kind of card, as they\n"
                "were estimated and as what was learnt by then corrects them.");
            return 0;
        } else {
            fprintf(stderr, "plimsoll history: unknown option %s\n", argv[i]);
            return PL_USAGE;
        }
    }
    if (!folder) {
        fputs("plimsoll history: --data FOLDER is needed\n", stderr);
        return PL_USAGE;
    }
    pl_error err = PL_SIZED(pl_error);
    history *h = NULL;
    if (history_open_read(&h, folder, &err) != PL_OK) {
        fprintf(stderr, "plimsoll history: %s: %s\n", err.where, err.message);
        return (int)err.code;
    }
    all *a = calloc(1, sizeof *a);
    int code = a && history_compared(h, add, a) && !a->failed ? 0 : PL_MISSING;
    if (code) fputs("plimsoll history: it could not be read whole\n", stderr);
    pl_json_writer w = {.file = stdout};
    if (code == 0 && json) {
        pl_json_put_open(&w, NULL, '{');
        pl_json_put_int(&w, "schema", 1);
        pl_json_put_open(&w, "cards", '[');
        for (size_t i = 0; i < a->count; i++) put_card(&w, &a->cards[i]);
        pl_json_put_close(&w, ']');
        pl_json_put_close(&w, '}');
        putchar('\n');
    } else if (code == 0) {
        if (a->count == 0) puts("no job has ended yet with both a predicted and a real peak");
        for (size_t i = 0; i < a->count; i++) print_card(&a->cards[i]);
    }
    for (size_t i = 0; a && i < a->count; i++) free(a->cards[i].jobs);
    free(a);
    history_close(&h);
    return code;
}
