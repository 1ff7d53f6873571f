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
                                   .verdict = report->verdict,
                                   .out_of_memory = report->out_of_memory,
                                   .upper_bytes = report->upper_bytes};
        for (int k = 0; k < PL_KINDS; k++)
            g->cells[i].kinds[k] = pl_report_bytes(report, (pl_kind)k);
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
    pl_json_put_real(&j, "risk", first->risk);
    pl_json_put_count(&j, "usable_bytes", first->usable_bytes);
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
            pl_json_put_count(&j, "upper_bytes", c->upper_bytes);
            pl_json_put_bool(&j, "fits", c->verdict == PL_FITS);
            pl_json_put_string(&j, "verdict", pl_verdict_name(c->verdict));
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

/* "~ 78.31 GiB (to 78.79)": the mark, the peak, and the upper end where it decides. */
static small_text cell_text(const sweep_cell *c) {
    small_text t, peak = text_bytes(c->peak_bytes);
    if (c->verdict == PL_MAY_NOT_FIT && c->upper_bytes >= 0)
        snprintf(t.text, sizeof t.text, "%.4s %.14s (to %.14s)", verdict_mark(c->verdict),
                 peak.text, text_bytes(c->upper_bytes).text);
    else
        snprintf(t.text, sizeof t.text, "%.4s %.40s", verdict_mark(c->verdict), peak.text);
    return t;
}

/* ", at a risk of 10 %", where another than the default is accepted. */
static void add_risk(char *out, size_t size, const pl_report *first) {
    pl_job standard;
    pl_job_default(&standard);
    size_t used = strlen(out);
    if (first->risk != standard.risk)
        snprintf(out + used, size - used, ", at a risk of %s", text_risk(first->risk).text);
}

/* What the marks mean, of those that occur. */
static void print_marks(const sweep_grid *g, const pl_report *first) {
    bool seen[PL_VERDICTS] = {false};
    const char *between = "\n";
    for (size_t i = 0; i < g->batches.count * g->seqs.count; i++) seen[g->cells[i].verdict] = true;
    for (int v = 0; v < PL_VERDICTS; v++) {
        if (!seen[v]) continue;
        printf("%s%s%s %s%s", between, text_style(verdict_style((pl_verdict)v)),
               verdict_mark((pl_verdict)v), pl_verdict_name((pl_verdict)v), text_style(PLAIN));
        if (v == PL_MAY_NOT_FIT) fputs(" (its upper end in brackets)", stdout);
        between = ", ";
    }
    char risk[64] = "";
    add_risk(risk, sizeof risk, first);
    printf(": %s, %s usable%s\n", g->gpu->title, text_bytes(first->usable_bytes).text, risk);
}

static void print_table(const sweep_grid *g, const pl_report *first) {
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
    for (size_t row = 0; row < g->batches.count; row++) {
        small_text batch = {"-"};
        if (g->has_batch) batch = text_whole(g->batches.numbers[row]);
        cells[0] = batch.text;
        for (size_t k = 0; k < g->seqs.count; k++) {
            texts[k] = cell_text(cell_at(g, row, k));
            cells[k + 1] = texts[k].text;
        }
        table_row(t, cells);
        for (size_t k = 0; k < g->seqs.count; k++)
            table_style(t, k + 1, verdict_style(cell_at(g, row, k)->verdict));
    }
    table_print(t, stdout, 2);
    print_marks(g, first);
}

/* ---- where more takes less ---- */

/* Why a kind can shrink while a job grows. */
static const char *const reasons[PL_KINDS] = {
    [PL_ACTIVATIONS] = "other kernels are chosen, which keep less for backward",
    [PL_WORKSPACE] = "other kernels are chosen, with smaller workspaces",
    [PL_TEMPORARY] = "other kernels are chosen, or the peak lies at another operator",
    [PL_FRAGMENTATION] = "blocks of these sizes fill the allocator's segments better",
    [PL_GRADIENTS] = "the peak lies where fewer gradients are alive",
    [PL_OPTIMIZER] = "the peak lies before the optimizer's state is there",
    [PL_CONTEXT] = "fewer libraries are loaded",
};

/* One sentence about the largest fall between neighbours, the second of which has more tokens. */
static void print_falls(const sweep_grid *g) {
    const sweep_cell *from = NULL, *to = NULL;
    size_t falls = 0, at[4] = {0};
    for (size_t i = 0; i < g->batches.count * g->seqs.count; i++) {
        size_t row = i / g->seqs.count, column = i % g->seqs.count;
        for (int down = 0; down < 2; down++) {
            size_t r = row + (size_t)down, c = column + (size_t)!down;
            if (r >= g->batches.count || c >= g->seqs.count) continue;
            const sweep_cell *a = cell_at(g, row, column), *b = cell_at(g, r, c);
            bool more = down ? g->batches.numbers[r] > g->batches.numbers[row]
                             : g->seqs.numbers[c] > g->seqs.numbers[column];
            if (!more || b->peak_bytes >= a->peak_bytes) continue;
            falls++;
            if (from && from->peak_bytes - to->peak_bytes >= a->peak_bytes - b->peak_bytes)
                continue;
            from = a, to = b;
            at[0] = row, at[1] = column, at[2] = r, at[3] = c;
        }
    }
    if (!falls) return;
    int kind = 0;
    for (int k = 1; k < PL_KINDS; k++)
        if (from->kinds[k] - to->kinds[k] > from->kinds[kind] - to->kinds[kind]) kind = k;
    printf("more %s take less memory at ", g->has_seq ? "tokens" : "samples");
    if (at[0] != at[2])
        printf("batch %" PRId64 " than at %" PRId64, g->batches.numbers[at[2]],
               g->batches.numbers[at[0]]);
    else
        printf("sequence %" PRId64 " than at %" PRId64, g->seqs.numbers[at[3]],
               g->seqs.numbers[at[1]]);
    if (at[0] != at[2] && g->has_seq) printf(" (sequence %" PRId64 ")", g->seqs.numbers[at[1]]);
    if (at[0] == at[2] && g->has_batch) printf(" (batch %" PRId64 ")", g->batches.numbers[at[0]]);
    printf(", by %s", text_bytes(from->peak_bytes - to->peak_bytes).text);
    int64_t shrunk = from->kinds[kind] - to->kinds[kind];
    if (from->kinds[kind] >= 0 && to->kinds[kind] >= 0 && shrunk > 0)
        printf(": %s shrink%s by %s%s%s", pl_kind_name((pl_kind)kind),
               kind == PL_ACTIVATIONS || kind == PL_GRADIENTS || kind == PL_WEIGHTS ||
                       kind == PL_INPUTS
                   ? ""
                   : "s",
               text_bytes(shrunk).text, reasons[kind] ? ", since " : "",
               reasons[kind] ? reasons[kind] : "");
    if (falls > 1) printf("; and at %zu other places", falls - 1);
    putchar('\n');
}

int sweep(const request *r, const pl_model *model) {
    sweep_grid g = {
        .model = pl_model_describe(model)->name, .batches = r->batches, .seqs = r->seqs};
    if (!g.batches.count) g.batches.count = 1;
    if (!g.seqs.count) g.seqs.count = 1;
    g.cells = need(g.batches.count * g.seqs.count, sizeof *g.cells);
    pl_report *first = NULL;
    int code = fill(&g, r, model, &first);
    char line[600] = "";
    pl_report shared = {0};
    if (code == 0) { /* what all cells share */
        shared = *first;
        if (g.batches.count > 1) shared.batch = PL_UNKNOWN;
        if (g.seqs.count > 1) shared.seq = PL_UNKNOWN;
        job_line(line, sizeof line, pl_model_describe(model), &shared, &r->job);
        g.usable_bytes = first->usable_bytes;
        add_risk(line, sizeof line, first);
    }
    g.job = line;
    if (code == 0 && r->heatmap) code = heatmap_write(r->heatmap, &g);
    if (code == 0 && r->json) {
        print_json(&g, first);
    } else if (code == 0) {
        print_model(model, &shared, &r->job);
        putchar('\n');
        print_table(&g, first);
        print_falls(&g);
        print_warnings(first);
    }
    pl_report_close(&first);
    free(g.cells);
    return code;
}
