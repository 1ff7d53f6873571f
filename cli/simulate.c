/* simulate: a cluster's day under several policies, side by side. The library lets the day pass (pl_day_open); here its
 * files are read, and what it says is printed: a table with a column per policy, bars, JSON, a picture. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "core/number.h"
#include "day.h"
#include "progress.h"
#include "text.h"
#include "verbs.h"

/* ---- text ---- */

small_text text_span(double seconds) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{172800, "days"}, {7200, "h"}, {120, "min"}, {0, "s"}};
    small_text t = {"?"};
    if (!isfinite(seconds)) return t;
    size_t u = 0;
    while (seconds < units[u].unit) u++;
    double size = u == 0 ? 86400 : u == 1 ? 3600 : u == 2 ? 60 : 1, value = seconds / size;
    snprintf(t.text, sizeof t.text, "%s %s",
             PL_REAL(value < 10     ? ".2f"
                     : value < 1000 ? ".1f"
                                    : ".0f",
                     value),
             units[u].name);
    return t;
}

static small_text text_hours(double hours) {
    small_text t = {"?"};
    if (isfinite(hours))
        snprintf(t.text, sizeof t.text, "%s",
                 PL_REAL(fabs(hours) < 1000 ? ".1f" : ".0f", fabs(hours) < 0.05 ? 0 : hours));
    return t;
}

static small_text text_ratio(double ratio) {
    small_text t = {"?"};
    if (isfinite(ratio)) snprintf(t.text, sizeof t.text, "%s", PL_REAL(".3f", ratio));
    return t;
}

static small_text text_share(double share, const char *style) {
    small_text t = {"?"};
    if (isfinite(share))
        snprintf(t.text, sizeof t.text, "%s %%", pl_number_write(style, 100 * share).text);
    return t;
}

static double crash_share(const pl_day_outcome *o) {
    return o->placements ? (double)o->crashes / (double)o->placements : NAN;
}

/* A row of the table: what it is, and its text of an outcome. */
typedef small_text row_text(const pl_day_outcome *o);

#define ROW_OF(name, expression)                                                                   \
    static small_text name(const pl_day_outcome *o) {                                              \
        return expression;                                                                         \
    }
ROW_OF(finished, text_whole(o->finished))
ROW_OF(placements, text_whole(o->placements))
ROW_OF(shared, text_whole(o->shared))
ROW_OF(alone, text_whole(o->alone))
ROW_OF(crashes, text_whole(o->crashes))
ROW_OF(crashes_of, text_share(crash_share(o), ".2f"))
ROW_OF(crashed, text_whole(o->crashed_jobs))
ROW_OF(lost, text_hours(o->lost_hours))
ROW_OF(slowed, text_hours(o->slowed_hours))
ROW_OF(held, text_hours(o->held_hours))
ROW_OF(card_hours, text_hours(o->card_hours))
ROW_OF(wait_mean, text_span(o->wait_mean_s))
ROW_OF(wait_p50, text_span(o->wait_p50_s))
ROW_OF(wait_p95, text_span(o->wait_p95_s))
ROW_OF(turn_mean, text_span(o->turnaround_mean_s))
ROW_OF(turn_p95, text_span(o->turnaround_p95_s))
ROW_OF(makespan, text_span(o->makespan_s))
ROW_OF(slow_mean, text_ratio(o->slowdown_mean))
ROW_OF(slow_p95, text_ratio(o->slowdown_p95))
ROW_OF(cards_used, text_share(o->cards_used, ".1f"))
ROW_OF(memory_used, text_share(o->memory_used, ".1f"))
ROW_OF(sm_used, text_share(o->sm_used, ".1f"))

static const struct {
    const char *name;
    row_text *text;
} rows[] = {
    {"jobs finished", finished},
    {"placements", placements},
    {"  beside others", shared},
    {"jobs given cards of their own", alone},
    {"out-of-memory crashes", crashes},
    {"  of placements", crashes_of},
    {"  jobs that had one", crashed},
    {"GPU-hours jobs held cards", held},
    {"  lost in crashes", lost},
    {"  added by sharing", slowed},
    {"GPU-hours cards were in use", card_hours},
    {"waiting, mean", wait_mean},
    {"  median", wait_p50},
    {"  95th percentile", wait_p95},
    {"coming to end, mean", turn_mean},
    {"  95th percentile", turn_p95},
    {"makespan", makespan},
    {"slowdown, mean", slow_mean},
    {"  95th percentile", slow_p95},
    {"cards in use", cards_used},
    {"memory in use", memory_used},
    {"multiprocessors busy", sm_used},
};

static void print_table(const day_runs *runs) {
    const char *cells[MOST_POLICIES + 1] = {""};
    char columns[MOST_POLICIES + 2] = "l";
    small_text texts[MOST_POLICIES];
    for (size_t i = 0; i < runs->count; i++) {
        columns[i + 1] = 'r';
        cells[i + 1] = runs->outcomes[i]->policy;
    }
    columns[runs->count + 1] = '\0';
    table *t = table_new(columns);
    table_row(t, cells);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        cells[0] = rows[k].name;
        for (size_t i = 0; i < runs->count; i++) {
            texts[i] = rows[k].text(runs->outcomes[i]);
            cells[i + 1] = texts[i].text;
        }
        table_row(t, cells);
    }
    table_print(t, stdout, 2);
}

/* A bar per policy, the longest of them so many columns. */
static void print_bars(const day_runs *runs, const char *title,
                       double (*value)(const pl_day_outcome *), row_text *text) {
    enum { BAR = 40 };
    double most = 0;
    size_t wide = 0;
    for (size_t i = 0; i < runs->count; i++) {
        size_t length = strlen(runs->outcomes[i]->policy);
        most = fmax(most, value(runs->outcomes[i]));
        wide = length > wide ? length : wide;
    }
    printf("\n%s%s%s\n", text_style(BOLD), title, text_style(PLAIN));
    for (size_t i = 0; i < runs->count; i++) {
        const pl_day_outcome *o = runs->outcomes[i];
        printf("  %-*s  %10s  ", (int)wide, o->policy, text(o).text);
        if (most > 0) text_bar(stdout, value(o) / most, BAR);
        putchar('\n');
    }
}

static double turnaround(const pl_day_outcome *o) {
    return o->turnaround_mean_s;
}

static void print_assumed(const request *r, const day_runs *runs) {
    const pl_day_outcome *o = runs->outcomes[0];
    int64_t unknown = 0;
    bool points = false;
    for (size_t i = 0; i < runs->count; i++) {
        const pl_day_outcome *one = runs->outcomes[i];
        unknown = one->unknown_pairs > unknown ? one->unknown_pairs : unknown;
        points |= !one->intervals && strcmp(one->policy, "exclusive") != 0 &&
                  strcmp(one->policy, "requested") != 0 && strcmp(one->policy, "oracle") != 0;
    }
    printf("\nmemory that jobs take: measured of %lld",
           (long long)(o->jobs - o->drawn - o->impossible));
    if (o->drawn)
        printf(", drawn from an estimate's interval (not measured) of %lld", (long long)o->drawn);
    if (o->impossible)
        printf("; %lld not run, which the cluster has no cards for", (long long)o->impossible);
    printf(
        "\nslowdowns: as collocate predicts them of pairs, added up of more than two on a card; not "
        "measured here\n");
    if (unknown)
        printf("of up to %lld pairs the times are not known: taken to be two that fill the card\n",
               (long long)unknown);
    for (size_t i = 0; i < runs->count; i++)
        if (strcmp(runs->outcomes[i]->policy, "requested") == 0)
            printf("requested: a model of how users guess (%s)\n",
                   r->guess ? r->guess : "whole=0.3,low=0.1,spare=1.2");
    if (points) printf("estimates without an interval are taken at their word, without a risk\n");
}

/* ---- JSON ---- */

static void json_run(pl_json_writer *j, const pl_day *day) {
    const pl_day_outcome *o = pl_day_describe(day);
    const struct {
        const char *key;
        int64_t count;
    } counts[] = {
        {"jobs", o->jobs},
        {"impossible", o->impossible},
        {"finished", o->finished},
        {"drawn", o->drawn},
        {"placements", o->placements},
        {"shared", o->shared},
        {"crashes", o->crashes},
        {"crashed_jobs", o->crashed_jobs},
        {"alone", o->alone},
        {"unknown_pairs", o->unknown_pairs},
        {"most_held_bytes", o->most_held_bytes},
        {"most_over_bytes", o->most_over_bytes},
        {"elapsed_us", o->elapsed_us},
    };
    const struct {
        const char *key;
        double value;
    } reals[] = {
        {"crash_share", crash_share(o)},
        {"work_hours", o->work_hours},
        {"lost_hours", o->lost_hours},
        {"slowed_hours", o->slowed_hours},
        {"held_hours", o->held_hours},
        {"card_hours", o->card_hours},
        {"makespan_s", o->makespan_s},
        {"wait_mean_s", o->wait_mean_s},
        {"wait_p50_s", o->wait_p50_s},
        {"wait_p95_s", o->wait_p95_s},
        {"turnaround_mean_s", o->turnaround_mean_s},
        {"turnaround_p50_s", o->turnaround_p50_s},
        {"turnaround_p95_s", o->turnaround_p95_s},
        {"slowdown_mean", o->slowdown_mean},
        {"slowdown_p95", o->slowdown_p95},
        {"cards_used", o->cards_used},
        {"memory_used", o->memory_used},
        {"sm_used", o->sm_used},
    };
    pl_json_put_open(j, NULL, '{');
    pl_json_put_string(j, "policy", o->policy);
    pl_json_put_bool(j, "intervals", o->intervals);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        pl_json_put_int(j, counts[i].key, counts[i].count);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        pl_json_put_real(j, reals[i].key, reals[i].value);
    pl_json_put_open(j, "points", '[');
    const pl_day_point *p;
    for (size_t i = 0; (p = pl_day_at(day, i)); i++) {
        pl_json_put_open(j, NULL, '{');
        pl_json_put_real(j, "from_s", p->from_s);
        pl_json_put_real(j, "to_s", p->to_s);
        pl_json_put_real(j, "cards_used", p->cards_used);
        pl_json_put_real(j, "memory_used", p->memory_used);
        pl_json_put_real(j, "sm_used", p->sm_used);
        pl_json_put_real(j, "waiting", p->waiting);
        pl_json_put_close(j, '}');
    }
    pl_json_put_close(j, ']');
    pl_json_put_close(j, '}');
}

static void print_json(const day_runs *runs, const pl_arrivals *arrivals, const pl_sizes *sizes,
                       uint64_t seed) {
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_string(&j, "format", pl_arrivals_format(arrivals));
    pl_json_put_int(&j, "cards", (int64_t)runs->cards);
    pl_json_put_int(&j, "kinds", (int64_t)pl_sizes_count(sizes));
    char text[32]; /* as evaluate has it: other readers keep no whole number beyond 2^53 */
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    if (seed < UINT64_C(1) << 53)
        pl_json_put_raw(&j, "seed", text);
    else
        pl_json_put_string(&j, "seed", text);
    pl_json_put_open(&j, "policies", '[');
    for (size_t i = 0; i < runs->count; i++) json_run(&j, runs->days[i]);
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    putchar('\n');
}

/* ---- what was asked ---- */

/* "whole=0.3,low=0.1,spare=1.2", in any order, commas or blanks between them. */
static int read_guess(pl_day_settings *s, const char *text) {
    const struct {
        const char *name;
        double *value;
    } members[] = {{"whole", &s->guess_whole}, {"low", &s->guess_low}, {"spare", &s->guess_spare}};
    for (const char *at = text + strspn(text, ", "); *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", ");
        bool read = false;
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            size_t name = strlen(members[i].name);
            if (length > name + 1 && strncmp(at, members[i].name, name) == 0 && at[name] == '=')
                read |= pl_number_read(at + name + 1, length - name - 1, members[i].value);
        }
        if (!read)
            return complain(PL_USAGE, "--guess: %.*s is none of whole=X, low=X, spare=X",
                            (int)(length < 60 ? length : 60), at);
        at += length;
    }
    return 0;
}

static int settings_of(pl_day_settings *s, const request *r) {
    pl_day_settings_default(s);
    s->seed = r->seed;
    s->limits = &r->limits;
    if (r->place_risk > 0) s->risk = r->place_risk;
    if (r->most_slowdown > 0) s->most_slowdown = r->most_slowdown;
    s->most_jobs = r->most;
    if (r->backfill) s->backfill = r->backfill;
    if (r->crashes) s->crashes = r->crashes;
    if (r->patience_ms) s->patience_s = (double)r->patience_ms / 1000;
    if (r->peak_ms) s->peak_s = (double)r->peak_ms / 1000;
    return r->guess ? read_guess(s, r->guess) : 0;
}

/* The names of --policy, or all there are; count of them in names, which are `room` bytes each. */
static int policies_of(char names[MOST_POLICIES][64], size_t *count, const request *r,
                       const pl_sizes *sizes) {
    char all[MOST_POLICIES * 64] = "exclusive,requested";
    const char *name;
    if (!r->policy) {
        for (size_t i = 0; (name = pl_sizes_estimator(sizes, i)) && i < MOST_POLICIES - 3; i++)
            snprintf(all + strlen(all), sizeof all - strlen(all), ",%s", name);
        snprintf(all + strlen(all), sizeof all - strlen(all), ",oracle");
    }
    *count = 0;
    for (const char *at = r->policy ? r->policy : all;; at++) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= 64)
            return complain(PL_USAGE, "--policy: names with commas between them are expected");
        if (*count == MOST_POLICIES)
            return complain(PL_USAGE, "--policy: more than %d", MOST_POLICIES);
        snprintf(names[(*count)++], 64, "%.*s", (int)length, at);
        at += length;
        if (!*at) return 0;
    }
}

/* A file, unpacked where the laboratory is there to do so. */
static int read_file(char **bytes, size_t *size, const request *r, const char *path) {
    pl_error err = PL_SIZED(pl_error);
    const size_t usual = (size_t)1 << 30;
    size_t most =
        r->limits.memory_bytes && r->limits.memory_bytes < usual ? r->limits.memory_bytes : usual;
#if PLIMSOLL_LAB
    if (pl_lab_read(bytes, size, path, most, &err) == PL_OK) return 0;
    return complain_of(&err, path);
#else
    (void)err;
    (void)size;
    (void)most;
    (void)path;
    *bytes = NULL; /* the library reads it */
    return 0;
#endif
}

static int open_trace(pl_arrivals **out, const request *r) {
    pl_error err = PL_SIZED(pl_error);
    char *bytes;
    size_t size;
    int code = read_file(&bytes, &size, r, r->trace);
    if (code) return code;
    pl_status status = bytes ? pl_arrivals_open_memory(out, bytes, size, r->trace, &err)
                             : pl_arrivals_open(out, r->trace, &err);
    free(bytes);
    return status == PL_OK ? 0 : complain_of(&err, r->trace);
}

static int open_sizes(pl_sizes **out, const request *r) {
    pl_error err = PL_SIZED(pl_error);
    char *bytes;
    size_t size;
    int code = read_file(&bytes, &size, r, r->sizes);
    if (code) return code;
    pl_status status = bytes ? pl_sizes_open_memory(out, bytes, size, r->sizes, &err)
                             : pl_sizes_open(out, r->sizes, &err);
    free(bytes);
    return status == PL_OK ? 0 : complain_of(&err, r->sizes);
}

static void entitle(day_runs *runs, const request *r, const pl_cluster *cluster,
                    const pl_arrivals *arrivals, const pl_sizes *sizes) {
    const char *name = strrchr(r->trace, '/');
    runs->cards = pl_cluster_count(cluster);
    const pl_gpu *gpu = pl_cluster_gpu(cluster, 0);
    bool same = true;
    for (size_t i = 0; i < runs->cards; i++) same &= pl_cluster_gpu(cluster, i) == gpu;
    snprintf(runs->title, sizeof runs->title, "%.80s: %zu jobs on %zu cards",
             name ? name + 1 : r->trace, pl_arrivals_count(arrivals), runs->cards);
    snprintf(runs->subtitle, sizeof runs->subtitle, "%s; %zu kinds of jobs; risk %s, seed %llu",
             same ? gpu->title : "several kinds of cards", pl_sizes_count(sizes),
             text_share(r->place_risk > 0 ? r->place_risk : 0.01, "g").text,
             (unsigned long long)r->seed);
}

static int run_all(day_runs *runs, const request *r, const pl_cluster *cluster,
                   const pl_arrivals *arrivals, pl_sizes *sizes) {
    char names[MOST_POLICIES][64];
    pl_day_settings settings;
    size_t count;
    int code = settings_of(&settings, r);
    if (code == 0) code = policies_of(names, &count, r, sizes);
    for (size_t i = 0; code == 0 && i < count; i++) {
        pl_error err = PL_SIZED(pl_error);
        progress_start(names[i], 0);
        pl_status status =
            pl_day_open(&runs->days[i], cluster, arrivals, sizes, names[i], &settings, &err);
        progress_stop();
        if (status != PL_OK) code = complain_of(&err, NULL);
        if (code == 0) runs->outcomes[runs->count++] = pl_day_describe(runs->days[i]);
    }
    return code;
}

int verb_simulate(const request *r) {
    const struct {
        const char *name, *given;
    } needed[] = {{"trace", r->trace}, {"cluster", r->cluster}, {"sizes", r->sizes}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].given)
            return complain(PL_USAGE, "simulate: --%s FILE is needed", needed[i].name);
    pl_error err = PL_SIZED(pl_error);
    pl_cluster *cluster = NULL;
    pl_arrivals *arrivals = NULL;
    pl_sizes *sizes = NULL;
    day_runs runs = {.count = 0};
    int code = 0;
    if (pl_cluster_open(&cluster, r->cluster, r->own_cards, &err) != PL_OK)
        code = complain_of(&err, r->cluster);
    if (code == 0) code = open_trace(&arrivals, r);
    if (code == 0) code = open_sizes(&sizes, r);
    if (code == 0) entitle(&runs, r, cluster, arrivals, sizes);
    if (code == 0) code = run_all(&runs, r, cluster, arrivals, sizes);
    if (code == 0 && r->chart) code = day_chart_write(r->chart, &runs);
    if (code == 0 && r->json) {
        print_json(&runs, arrivals, sizes, r->seed);
    } else if (code == 0) {
        printf("%s%s%s\n%s\n\n", text_style(BOLD), runs.title, text_style(PLAIN), runs.subtitle);
        print_table(&runs);
        print_bars(&runs, "Out-of-memory crashes, of placements", crash_share, crashes_of);
        print_bars(&runs, "From coming to end, mean", turnaround, turn_mean);
        print_assumed(r, &runs);
    }
    for (size_t i = 0; i < MOST_POLICIES; i++) pl_day_close(&runs.days[i]);
    pl_sizes_close(&sizes);
    pl_arrivals_close(&arrivals);
    pl_cluster_close(&cluster);
    return code;
}
