/* remedies: what makes a job fit, as pl_remedies_find has it, in options of the command; printed by
 * explain where the job does not fit. */
#include "remedies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/number.h"
#include "progress.h"
#include "text.h"

enum { MOST_SHOWN = 12 };

static void told(void *context, int64_t done, int64_t most) {
    (void)context;
    (void)most;
    progress_at((size_t)done);
}

int remedies_find(pl_remedies **out, const pl_model *model, const pl_job *job, const char *file) {
    pl_remedy_settings settings;
    pl_error err = PL_SIZED(pl_error);
    pl_remedy_settings_default(&settings);
    settings.progress = told;
    progress_start("looking for what makes it fit", (size_t)settings.most);
    pl_status status = pl_remedies_find(out, model, job, &settings, &err);
    progress_stop();
    return status == PL_OK ? 0 : complain_of(&err, file);
}

void remedy_options(char *out, size_t size, const pl_remedy *remedy) {
    const char *member, *value;
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; used < size && (member = pl_remedy_member(remedy, i)); i++) {
        value = pl_remedy_value(remedy, i);
        bool on = strcmp(value, "true") == 0; /* a switch */
        used += (size_t)snprintf(out + used, size - used, "%s%s%s%s", i ? " " : "",
                                 text_option(member), on ? "" : " ", on ? "" : value);
    }
}

/* "+31 %", "as before"; with a star where communication is left out of it. */
static small_text cost_of(const pl_remedy *r) {
    small_text t = {"not known"};
    double more = 100 * (r->time_ratio - 1);
    if (!isfinite(more)) return t;
    const char *star = r->communicates ? " *" : "";
    if (fabs(more) < 0.5)
        snprintf(t.text, sizeof t.text, "as before%s", star);
    else if (more < 300)
        snprintf(t.text, sizeof t.text, "%s%s %%%s", more > 0 ? "+" : "", PL_REAL(".0f", more),
                 star);
    else
        snprintf(t.text, sizeof t.text, "%s times%s", PL_REAL(".1f", r->time_ratio), star);
    return t;
}

static void add_row(table *t, const pl_remedy *r) {
    char options[400];
    remedy_options(options, sizeof options, r);
    small_text peak = text_bytes(r->peak_bytes), upper = text_bytes(r->upper_bytes),
               step = text_ms(r->step_ms.value), cost = cost_of(r);
    table_row(t, (const char *[]){options, peak.text, r->upper_bytes >= 0 ? upper.text : "-",
                                  step.text, cost.text});
}

void remedies_print(const pl_remedies *all, const pl_report *report) {
    bool stars = false;
    printf("\n%swhat makes it fit%s\n\n", text_style(BOLD), text_style(PLAIN));
    table *t = table_new("lrrrl");
    table_row(t, (const char *[]){"WITH", "PEAK", "UP TO", "STEP",
                                  report->seq > 0 ? "TIME PER TOKEN" : "TIME PER SAMPLE"});
    if (all->count == 0) {
        printf("  nothing of these makes it fit: checkpointing, other forms of the optimizer, "
               "precision, batch, sequence, adapters, sharding over up to 64, the catalogue's "
               "cards%s\n",
               all->complete ? "" : " (not all of them were tried)");
        if (all->nearest) {
            const pl_remedy *near = all->nearest;
            int64_t upper = near->upper_bytes >= 0 ? near->upper_bytes : near->peak_bytes;
            if (upper > near->usable_bytes)
                printf("  the nearest, %s too much:\n\n",
                       text_bytes(upper - near->usable_bytes).text);
            else
                printf("  the nearest, on which the allocator runs out of memory:\n\n");
            add_row(t, all->nearest);
            stars = all->nearest->communicates;
        }
    }
    const pl_remedy *r;
    for (size_t i = 0; i < MOST_SHOWN && (r = pl_remedies_at(all, i)); i++) {
        add_row(t, r);
        stars |= r->communicates;
    }
    table_print(t, stdout, 2);
    if (all->count > MOST_SHOWN)
        printf("  and %zu more, which --json has\n", all->count - MOST_SHOWN);
    if (!all->complete && all->count)
        printf("  not all combinations were tried: %lld were simulated\n", (long long)all->tried);
    if (stars) printf("  * without what the ranks send each other, which is not simulated\n");
}

static void json_remedy(pl_json_writer *j, const char *key, const pl_remedy *r) {
    char options[400];
    const char *member;
    remedy_options(options, sizeof options, r);
    pl_json_put_open(j, key, '{');
    pl_json_put_string(j, "with", options);
    pl_json_put_open(j, "settings", '{');
    for (size_t i = 0; (member = pl_remedy_member(r, i)); i++)
        pl_json_put_string(j, member, pl_remedy_value(r, i));
    pl_json_put_close(j, '}');
    pl_json_put_count(j, "peak_bytes", r->peak_bytes);
    pl_json_put_count(j, "low_bytes", r->low_bytes);
    pl_json_put_count(j, "high_bytes", r->high_bytes);
    pl_json_put_count(j, "upper_bytes", r->upper_bytes);
    pl_json_put_count(j, "usable_bytes", r->usable_bytes);
    pl_json_put_string(j, "verdict", pl_verdict_name(r->verdict));
    j->real = ".6g";
    pl_json_put_real(j, "step_ms", r->step_ms.value);
    pl_json_put_real(j, "step_ms_low", r->step_ms.low);
    pl_json_put_real(j, "step_ms_high", r->step_ms.high);
    pl_json_put_real(j, "time_ratio", r->time_ratio);
    pl_json_put_bool(j, "communicates", r->communicates);
    pl_json_put_int(j, "weight", r->weight);
    pl_json_put_close(j, '}');
}

void remedies_json(pl_json_writer *j, const pl_remedies *all) {
    const pl_remedy *r;
    pl_json_put_open(j, "remedies", '[');
    for (size_t i = 0; all && (r = pl_remedies_at(all, i)); i++) json_remedy(j, NULL, r);
    pl_json_put_close(j, ']');
    if (all && all->nearest)
        json_remedy(j, "nearest", all->nearest);
    else
        pl_json_put_string(j, "nearest", NULL);
    if (!all) return;
    pl_json_put_int(j, "simulations", all->tried);
    pl_json_put_bool(j, "complete", all->complete);
}
