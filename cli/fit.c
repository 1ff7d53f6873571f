/* fit: what is the most, or the least, that fits: where an option has a ? for its value, the longest
 * sequence, the fewest GPUs or the smallest card, else the largest batch (pl_fit_find: bisection,
 * verified at the answer and at its neighbour); and the cards of the catalogue that the job as given
 * fits on, each simulated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "progress.h"
#include "text.h"
#include "verbs.h"

/* What can be looked for, in the order of `sought`. */
static const struct {
    const char *noun;  /* "largest batch 8", "a batch of 9" */
    const char *role;  /* of the model's open dimension; NULL: none is needed */
    const char *most;  /* "largest", "longest" */
    const char *least; /* "smallest", "shortest" */
    const char *label; /* of the progress bar */
    pl_fit_what what;
    int64_t usual; /* to try at the most */
} rows[] = {
    [SOUGHT_NOTHING] = {"batch", "batch", "largest", "smallest", "looking for the largest batch",
                        PL_FIT_BATCH, 65536},
    [SOUGHT_BATCH] = {"batch", "batch", "largest", "smallest", "looking for the largest batch",
                      PL_FIT_BATCH, 65536},
    [SOUGHT_SEQ] = {"sequence", "seq", "longest", "shortest", "looking for the longest sequence",
                    PL_FIT_SEQ, 1 << 20},
    [SOUGHT_WORLD] = {"GPUs", NULL, "fewest", "most", "looking for the fewest GPUs", PL_FIT_WORLD,
                      1024},
    [SOUGHT_GPU] = {0},
};

static int64_t most_of(const request *r) {
    return r->most ? r->most : rows[r->sought].usual;
}

/* The model's dimension that is looked for, or NULL. */
static const pl_symbol *open_symbol(const pl_model *model, const char *role) {
    const pl_symbol *symbol;
    for (size_t i = 0; role && (symbol = pl_model_symbol(model, i)); i++)
        if (strcmp(symbol->role, role) == 0) return symbol;
    return NULL;
}

static const char how_to_export[] =
    "batch = torch.export.Dim(\"batch\")\n"
    "program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))\n"
    "torch.export.save(program, \"model.pt2\")\n";

static int64_t apart(int64_t a, int64_t b) {
    return a < b ? b - a : a - b;
}

static void print_largest(const pl_fit *fit, const pl_symbol *symbol, const pl_report *report,
                          const request *r) {
    const char *noun = rows[r->sought].noun, *most = rows[r->sought].most, *on = report->gpu->title;
    bool all = fit->found >= most_of(r), whole = fit->found >= symbol->most;
    if (fit->found == 0 && symbol->least > 1) {
        printf("not even its %s %s, %" PRId64 ", fits %s\n", rows[r->sought].least, noun,
               symbol->least, on);
    } else if (fit->found == 0) {
        printf("not even a %s of 1 fits %s\n", noun, on);
    } else if (fit->high_at < 0) { /* no interval: only the peak was held against the card */
        printf("%s%s%s %" PRId64 "%s%s%s %s; no interval\n", all || whole ? "" : most,
               all || whole ? "" : " ", noun, fit->found, all || whole ? " is the " : "",
               all || whole ? most : "",
               all     ? " that was to be tried (--most) and fits"
               : whole ? " that the model takes and fits"
                       : " on",
               on);
    } else if (all || whole) {
        printf("%s %" PRId64 " fits %s (up to %s), and is the %s that %s\n", noun, fit->found, on,
               text_bytes(fit->high_at).text, most,
               all ? "was to be tried (--most)" : "the model takes");
    } else {
        /* The two bounds and the room between them are to be told apart. */
        int64_t room = report->usable_bytes, step = apart(fit->high_above, fit->high_at),
                beyond = apart(fit->high_above, room);
        if (beyond > 0 && beyond < step) step = beyond;
        printf("%s%s %s %" PRId64
               "%s on %s: up to %s of the %s that a process can have; a %s of %" PRId64
               " up to %s\n",
               text_style(BOLD), most, noun, fit->found, text_style(PLAIN), on,
               text_bytes_apart(fit->high_at, step).text, text_bytes_apart(room, step).text, noun,
               fit->found + 1, text_bytes_apart(fit->high_above, step).text);
    }
}

static void print_fewest(const pl_fit *fit, const pl_report *report, const request *r) {
    const char *on = report->gpu->title;
    if (fit->found == 0) {
        printf("not even %" PRId64 " of %s are enough: up to %s each of the %s that a process can "
               "have\n",
               most_of(r), on, text_bytes(fit->high_above).text,
               text_bytes(report->usable_bytes).text);
        return;
    }
    printf("%sfewest GPUs %" PRId64 "%s of %s (fsdp2:%" PRId64 ")", text_style(BOLD), fit->found,
           text_style(PLAIN), on, fit->found);
    if (fit->high_at >= 0)
        printf(": up to %s each of the %s that a process can have", text_bytes(fit->high_at).text,
               text_bytes(report->usable_bytes).text);
    if (fit->found > 1 && fit->high_above >= 0)
        printf("; with %" PRId64 " up to %s", fit->found - 1, text_bytes(fit->high_above).text);
    putchar('\n');
}

/* Cards in the catalogue's order; *smallest is the least of those that fit, or NULL. On failure (one
 * card's simulation) complains and stops. */
static int over_cards(const request *r, const pl_model *model, table *t, pl_json_writer *j,
                      const pl_gpu **smallest) {
    const pl_gpu **list = card_list(r, true), *gpu;
    size_t cards = 0;
    *smallest = NULL;
    while (list[cards]) cards++;
    progress_start("simulating each card", cards);
    int code = 0;
    for (size_t i = 0; code == 0 && (gpu = list[i]); i++) {
        pl_job job = r->job;
        job.gpu = gpu->name;
        pl_report *report = NULL;
        pl_error err = PL_SIZED(pl_error);
        progress_at(i);
        if (pl_estimate(&report, model, &job, &err) != PL_OK) {
            progress_stop();
            code = complain_of(&err, r->file);
            break;
        }
        int64_t left = headroom(report);
        if (report->fits && (!*smallest || gpu->capacity_bytes < (*smallest)->capacity_bytes))
            *smallest = gpu;
        if (j) {
            pl_json_put_open(j, NULL, '{');
            pl_json_put_string(j, "name", gpu->name);
            pl_json_put_bool(j, "fits", report->fits);
            json_verdict(j, report);
            pl_json_put_count(j, "peak_bytes", report->peak_bytes);
            pl_json_put_count(j, "low_bytes", report->low_bytes);
            pl_json_put_count(j, "high_bytes", report->high_bytes);
            pl_json_put_count(j, "upper_bytes", report->upper_bytes);
            pl_json_put_count(j, "capacity_bytes", gpu->capacity_bytes);
            pl_json_put_int(j, "headroom_bytes", left);
            pl_json_put_bool(j, "out_of_memory", report->out_of_memory);
            pl_json_put_bool(j, "calibrated", gpu->calibrated);
            pl_json_put_close(j, '}');
        } else {
            small_text capacity = text_bytes(gpu->capacity_bytes),
                       high = text_bytes(report->upper_bytes),
                       peak = text_bytes(report->peak_bytes), change = text_change(left);
            table_row(t, (const char *[]){gpu->name, capacity.text, peak.text,
                                          report->upper_bytes >= 0 ? high.text : "-",
                                          verdict_answer(report->verdict), change.text,
                                          gpu->calibrated ? "measured" : "data sheet"});
            table_style(t, 4, verdict_style(report->verdict));
        }
        pl_report_close(&report);
    }
    progress_stop();
    free(list);
    return code;
}

/* The whole table is of the job as given, which a sequence or ranks looked for are not. */
static bool wants_cards(const request *r) {
    return r->sought != SOUGHT_SEQ && r->sought != SOUGHT_WORLD;
}

static int fit_json(const request *r, const pl_model *model, const pl_fit *fit) {
    const pl_model_info *info = pl_model_describe(model);
    const pl_gpu *smallest = NULL;
    static const char *const keys[] = {"batch", "batch", "seq", "world"};
    bool fewest = r->sought == SOUGHT_WORLD;
    int code = 0;
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_string(&j, "model", info->name);
    pl_json_put_string(&j, "gpu", r->sought == SOUGHT_GPU ? NULL : r->job.gpu);
    if (!fit || fewest) pl_json_put_string(&j, "largest", NULL);
    if (fit) {
        pl_json_put_open(&j, fewest ? "fewest" : "largest", '{');
        pl_json_put_int(&j, keys[r->sought], fit->found);
        pl_json_put_count(&j, "high_bytes", fit->high_at);
        pl_json_put_count(&j, fewest ? "high_bytes_below" : "high_bytes_above", fit->high_above);
        pl_json_put_int(&j, "simulations", fit->tried);
        pl_json_put_int(&j, "most", most_of(r));
        pl_json_put_close(&j, '}');
    }
    if (wants_cards(r)) {
        pl_json_put_open(&j, "gpus", '[');
        code = over_cards(r, model, NULL, &j, &smallest);
        pl_json_put_close(&j, ']');
        pl_json_put_string(&j, "smallest_gpu", smallest ? smallest->name : NULL);
    }
    pl_json_put_close(&j, '}');
    putchar('\n');
    return code;
}

static int print_cards(const request *r, const pl_model *model, const pl_report *report) {
    const pl_gpu *smallest = NULL;
    printf("\nthe job as given");
    if (report->batch >= 0) printf(", at batch %" PRId64, report->batch);
    printf(", on each card:\n\n");
    table *t = table_new("lrrrlrl");
    table_row(t, (const char *[]){"GPU", "MEMORY", "PEAK", "UP TO", "FITS", "LEFT", "FIGURES"});
    int code = over_cards(r, model, t, NULL, &smallest);
    table_print(t, stdout, 2);
    if (code) return code;
    if (smallest)
        printf("\n%ssmallest card %s%s: %s of %s\n", text_style(BOLD), smallest->name,
               text_style(PLAIN), smallest->title, text_bytes(smallest->capacity_bytes).text);
    else
        printf("\nit fits no card of the catalogue; `plimsoll explain` looks for what makes it "
               "fit\n");
    return 0;
}

static int fit_text(const request *r, const pl_model *model, const pl_fit *fit) {
    pl_report *report = NULL;
    pl_job job = r->job;
    if (fit && fit->found && r->sought == SOUGHT_WORLD) job.world = (int)fit->found;
    if (fit && fit->found && r->sought == SOUGHT_SEQ) job.seq = fit->found;
    int code = simulate(&report, model, r, &job);
    if (code) return code;
    print_model(model, report, &job);
    putchar('\n');
    if (fit && r->sought == SOUGHT_WORLD)
        print_fewest(fit, report, r);
    else if (fit)
        print_largest(fit, open_symbol(model, rows[r->sought].role), report, r);
    else if (r->sought == SOUGHT_NOTHING)
        printf("the batch of this file is fixed; for its largest batch export it with a dynamic "
               "one:\n\n%s",
               how_to_export);
    if (wants_cards(r)) code = print_cards(r, model, report);
    pl_report_close(&report);
    return code;
}

int verb_fit(const request *r) {
    pl_model *model = NULL;
    int code = open_model(&model, r);
    if (code) return code;
    pl_fit fit = PL_SIZED(pl_fit), *found = NULL;
    bool can = r->sought != SOUGHT_NOTHING || open_symbol(model, "batch");
    if (can && r->sought != SOUGHT_GPU) {
        pl_error err = PL_SIZED(pl_error);
        progress_start(rows[r->sought].label, 0);
        pl_status status =
            pl_fit_find(&fit, model, &r->job, rows[r->sought].what, most_of(r), &err);
        progress_stop();
        if (status == PL_OK)
            found = &fit;
        else
            code = complain_of(&err, r->file);
    }
    if (code == 0) code = r->json ? fit_json(r, model, found) : fit_text(r, model, found);
    pl_model_close(&model);
    return code;
}
