/* fit: the largest batch for the card (pl_fit_batch: bisection, verified at the answer and one
 * above), and the cards of the catalogue that the job as given fits on, each simulated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "progress.h"
#include "text.h"
#include "verbs.h"

/* The model's dynamic batch, or NULL. */
static const pl_symbol *open_batch(const pl_model *model) {
    const pl_symbol *symbol;
    for (size_t i = 0; (symbol = pl_model_symbol(model, i)); i++)
        if (strcmp(symbol->role, "batch") == 0) return symbol;
    return NULL;
}

static const char how_to_export[] =
    "batch = torch.export.Dim(\"batch\")\n"
    "program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))\n"
    "torch.export.save(program, \"model.pt2\")\n";

static int64_t apart(int64_t a, int64_t b) {
    return a < b ? b - a : a - b;
}

static void print_batch(const pl_fit *fit, const pl_symbol *batch, const pl_report *report,
                        const request *r) {
    if (fit->batch == 0 && batch->least > 1) {
        printf("not even its smallest batch, %" PRId64 ", fits %s\n", batch->least,
               report->gpu->title);
    } else if (fit->batch == 0) {
        printf("not even a batch of 1 fits %s\n", report->gpu->title);
    } else if (fit->high_at < 0) { /* no interval: only the peak was held against the card */
        printf("%s %" PRId64 "%s %s; no interval\n",
               fit->batch >= r->most || fit->batch >= batch->most ? "batch" : "largest batch",
               fit->batch,
               fit->batch >= r->most ? " is the largest that was to be tried (--most) and fits"
               : fit->batch >= batch->most ? " is the largest that the model takes and fits"
                                           : " on",
               report->gpu->title);
    } else if (fit->batch >= r->most) {
        printf("batch %" PRId64
               " fits %s (up to %s), and is the largest that was to be tried (--most)\n",
               fit->batch, report->gpu->title, text_bytes(fit->high_at).text);
    } else if (fit->batch >= batch->most) {
        printf("batch %" PRId64 " fits %s (up to %s), and is the largest that the model takes\n",
               fit->batch, report->gpu->title, text_bytes(fit->high_at).text);
    } else {
        /* The two bounds and the room between them are to be told apart. */
        int64_t room = report->usable_bytes, step = apart(fit->high_above, fit->high_at),
                beyond = apart(fit->high_above, room);
        if (beyond > 0 && beyond < step) step = beyond;
        printf("%slargest batch %" PRId64
               "%s on %s: up to %s of the %s that a process can have; a batch of %" PRId64
               " up to %s\n",
               text_style(BOLD), fit->batch, text_style(PLAIN), report->gpu->title,
               text_bytes_apart(fit->high_at, step).text, text_bytes_apart(room, step).text,
               fit->batch + 1, text_bytes_apart(fit->high_above, step).text);
    }
}

/* Cards in the catalogue's order. On failure (one card's simulation) complains and stops. */
static int over_cards(const request *r, const pl_model *model, table *t, pl_json_writer *j) {
    const pl_gpu **list = card_list(r, true), *gpu;
    size_t cards = 0;
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

static int fit_json(const request *r, const pl_model *model, const pl_fit *fit) {
    const pl_model_info *info = pl_model_describe(model);
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_string(&j, "model", info->name);
    pl_json_put_string(&j, "gpu", r->job.gpu);
    if (fit) {
        pl_json_put_open(&j, "largest", '{');
        pl_json_put_int(&j, "batch", fit->batch);
        pl_json_put_count(&j, "high_bytes", fit->high_at);
        pl_json_put_count(&j, "high_bytes_above", fit->high_above);
        pl_json_put_int(&j, "simulations", fit->tried);
        pl_json_put_int(&j, "most", r->most);
        pl_json_put_close(&j, '}');
    } else {
        pl_json_put_string(&j, "largest", NULL);
    }
    pl_json_put_open(&j, "gpus", '[');
    int code = over_cards(r, model, NULL, &j);
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    putchar('\n');
    return code;
}

static int fit_text(const request *r, const pl_model *model, const pl_fit *fit) {
    pl_report *report = NULL;
    int code = simulate(&report, model, r, &r->job);
    if (code) return code;
    print_model(model, report, &r->job);
    putchar('\n');
    if (fit)
        print_batch(fit, open_batch(model), report, r);
    else
        printf("the batch of this file is fixed; for its largest batch export it with a dynamic "
               "one:\n\n%s",
               how_to_export);
    printf("\nthe job as given");
    if (report->batch >= 0) printf(", at batch %" PRId64, report->batch);
    printf(", on each card:\n\n");
    pl_report_close(&report);
    table *t = table_new("lrrrlrl");
    table_row(t, (const char *[]){"GPU", "MEMORY", "PEAK", "UP TO", "FITS", "LEFT", "FIGURES"});
    code = over_cards(r, model, t, NULL);
    table_print(t, stdout, 2);
    return code;
}

int verb_fit(const request *r) {
    pl_model *model = NULL;
    int code = open_model(&model, r);
    if (code) return code;
    pl_fit fit = PL_SIZED(pl_fit), *found = NULL;
    if (open_batch(model)) {
        pl_error err = PL_SIZED(pl_error);
        progress_start("looking for the largest batch", 0);
        pl_status status = pl_fit_batch(&fit, model, &r->job, r->most, &err);
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
