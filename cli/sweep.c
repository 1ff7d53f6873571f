/* sweep: see sweep.h. A row per batch, a column per sequence length; each cell is an estimate. */
#include "sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "progress.h"
#include "text.h"
#include "verbs.h"

static const sweep_cell *cell_at(const sweep_grid *g, size_t row, size_t column) {
    return &g->cells[row * g->seqs.count + column];
}

/* The estimates; the first report is kept for what does not change from cell to cell. */
static int fill(sweep_grid *g, const request *r, const pl_model *model, pl_report **first) {
    size_t total = g->batches.count * g->seqs.count;
    int code = 0;
    progress_start("estimating", total);
    for (size_t i = 0; i < total && code == 0; i++) {
        pl_job job = r->job;
        pl_error err = PL_SIZED(pl_error);
        pl_report *report = NULL;
        if (r->batches.count) job.batch = g->batches.numbers[i / g->seqs.count];
        if (r->seqs.count) job.seq = g->seqs.numbers[i % g->seqs.count];
        progress_at(i);
        if (pl_estimate(&report, model, &job, &err) != PL_OK) {
            progress_stop();
            return complain_of(&err, r->file);
        }
        g->cells[i] = (sweep_cell){.peak_bytes = report->peak_bytes,
                                   .low_bytes = report->low_bytes,
                                   .high_bytes = report->high_bytes,
                                   .step_ms = report->step_ms.value,
                                   .fits = report->fits,
                                   .out_of_memory = report->out_of_memory};
        if (i == 0) {
            *first = report;
            g->gpu = report->gpu;
            g->has_batch = report->batch >= 0;
            g->has_seq = report->seq >= 0;
            if (!r->batches.count) g->batches.numbers[0] = report->batch;
            if (!r->seqs.count) g->seqs.numbers[0] = report->seq;
        } else {
            pl_report_close(&report);
        }
    }
    progress_stop();
    return code;
}

static void print_json(const sweep_grid *g, const pl_report *first) {
    pl_json_writer j = {.file = stdout};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    pl_json_put_string(&j, "model", g->model);
    pl_json_put_string(&j, "gpu", g->gpu->name);
    pl_json_put_string(&j, "estimator", first->estimator);
    pl_json_put_open(&j, "sweep", '[');
    for (size_t row = 0; row < g->batches.count; row++)
        for (size_t column = 0; column < g->seqs.count; column++) {
            const sweep_cell *c = cell_at(g, row, column);
            pl_json_put_open(&j, NULL, '{');
            pl_json_put_count(&j, "batch", g->batches.numbers[row]);
            pl_json_put_count(&j, "seq", g->seqs.numbers[column]);
            pl_json_put_count(&j, "peak_bytes", c->peak_bytes);
            pl_json_put_count(&j, "low_bytes", c->low_bytes);
            pl_json_put_count(&j, "high_bytes", c->high_bytes);
            pl_json_put_bool(&j, "fits", c->fits);
            pl_json_put_bool(&j, "out_of_memory", c->out_of_memory);
            pl_json_put_real(&j, "step_ms", c->step_ms);
            pl_json_put_close(&j, '}');
        }
    pl_json_put_close(&j, ']');
    pl_json_put_open(&j, "warnings", '[');
    for (size_t i = 0; i < first->warning_count; i++)
        pl_json_put_string(&j, NULL, first->warnings[i]);
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    putchar('\n');
}

/* Peaks; those that do not fit are in brackets. */
static void print_table(const sweep_grid *g) {
    char columns[MOST_NUMBERS + 2];
    const char *cells[MOST_NUMBERS + 1];
    small_text texts[MOST_NUMBERS + 1];
    memset(columns, 'r', g->seqs.count + 1);
    columns[g->seqs.count + 1] = '\0';
    table *t = table_new(columns);
    cells[0] = "batch";
    for (size_t k = 0; k < g->seqs.count; k++) {
        if (g->has_seq)
            snprintf(texts[k].text, sizeof texts[k].text, "seq %" PRId64, g->seqs.numbers[k]);
        else
            snprintf(texts[k].text, sizeof texts[k].text, "peak");
        cells[k + 1] = texts[k].text;
    }
    table_row(t, cells);
    bool some = false;
    for (size_t row = 0; row < g->batches.count; row++) {
        small_text batch = {"-"};
        if (g->has_batch) batch = text_whole(g->batches.numbers[row]);
        cells[0] = batch.text;
        for (size_t k = 0; k < g->seqs.count; k++) {
            const sweep_cell *c = cell_at(g, row, k);
            small_text bytes = text_bytes(c->peak_bytes);
            snprintf(texts[k].text, sizeof texts[k].text, c->fits ? "%.40s" : "[%.40s]",
                     bytes.text);
            cells[k + 1] = texts[k].text;
            some = some || !c->fits;
        }
        table_row(t, cells);
    }
    table_print(t, stdout, 2);
    if (some)
        printf("\n[ ] does not fit %s (%s)\n", g->gpu->title,
               text_bytes(g->gpu->capacity_bytes).text);
}

int sweep(const request *r, const pl_model *model) {
    sweep_grid g = {
        .model = pl_model_describe(model)->name, .batches = r->batches, .seqs = r->seqs};
    if (!g.batches.count) g.batches.count = 1;
    if (!g.seqs.count) g.seqs.count = 1;
    g.cells = need(g.batches.count * g.seqs.count, sizeof *g.cells);
    pl_report *first = NULL;
    int code = fill(&g, r, model, &first);
    if (code == 0 && r->heatmap) code = heatmap_write(r->heatmap, &g);
    if (code == 0 && r->json) {
        print_json(&g, first);
    } else if (code == 0) {
        print_model(model, first, &r->job);
        putchar('\n');
        print_table(&g);
        print_warnings(first);
    }
    pl_report_close(&first);
    free(g.cells);
    return code;
}
