/* heatmap: the table of a sweep as a picture. A cell's colour is the share that its peak takes of what
 * a process can have of the card, from light to dark green; one that may not fit is yellow, with its
 * upper end and a broken line below, one that does not fit is red, with a whole line, so that the
 * picture reads without colours too. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "svg.h"
#include "sweep.h"
#include "text.h"

enum { CELL_WIDE = 92, CELL_HIGH = 40, LEFT = 96, TOP = 96, RIGHT = 28, BOTTOM = 64 };

static const struct {
    const char *fill, *line, *dash, *mark; /* of fill NULL: by share */
} looks[PL_VERDICTS] = {
    [PL_FITS] = {NULL, NULL, NULL, ""},
    [PL_MAY_NOT_FIT] = {"#f2d488", "#8a5a00", "4 3", "~ "},
    [PL_DOES_NOT_FIT] = {"#e3a9a5", "#9b2f2a", NULL, "\u2717 "},
};

/* Light to dark green up to the card's room; yellow and red beyond. */
static void colour_of(char out[8], double share, pl_verdict verdict) {
    static const double light[3] = {236, 244, 236}, dark[3] = {64, 133, 88};
    if (looks[verdict].fill) {
        memcpy(out, looks[verdict].fill, 8);
        return;
    }
    double t = share < 0 ? 0 : share > 1 ? 1 : share;
    int rgb[3];
    for (int i = 0; i < 3; i++) rgb[i] = (int)(light[i] + (dark[i] - light[i]) * t + 0.5);
    snprintf(out, 8, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
}

static void draw_cell(FILE *out, const sweep_grid *g, size_t row, size_t column) {
    const sweep_cell *c = &g->cells[row * g->seqs.count + column];
    double x = LEFT + (double)column * CELL_WIDE, y = TOP + (double)row * CELL_HIGH;
    double share = (double)c->peak_bytes / (double)g->usable_bytes;
    char colour[8];
    colour_of(colour, share, c->verdict);
    svg_rect(out, x + 1, y + 1, CELL_WIDE - 2, CELL_HIGH - 2, colour);
    if (looks[c->verdict].line)
        svg_line(out, x + 8, y + CELL_HIGH - 5, x + CELL_WIDE - 8, y + CELL_HIGH - 5,
                 looks[c->verdict].line, 2, looks[c->verdict].dash);
    const char *ink = c->verdict == PL_FITS && share > 0.7 ? "#ffffff" : SVG_INK;
    bool upper = c->verdict == PL_MAY_NOT_FIT && c->upper_bytes >= 0;
    char text[96];
    snprintf(text, sizeof text, "%s%s", looks[c->verdict].mark, text_bytes(c->peak_bytes).text);
    svg_text(out, x + CELL_WIDE / 2.0, y + CELL_HIGH / 2.0 + (upper ? -3 : 4), 12, SVG_MIDDLE, ink,
             false, text);
    if (!upper) return;
    snprintf(text, sizeof text, "to %s", text_bytes(c->upper_bytes).text);
    svg_text(out, x + CELL_WIDE / 2.0, y + CELL_HIGH / 2.0 + 10, 10, SVG_MIDDLE, ink, false, text);
}

static void draw_legend(FILE *out, const sweep_grid *g, double y) {
    char colour[8], text[96];
    double x = LEFT;
    for (int i = 0; i <= 10; i++, x += 16) {
        colour_of(colour, i / 10.0, PL_FITS);
        svg_rect(out, x, y, 16, 12, colour);
    }
    snprintf(text, sizeof text, "fits: 0 to 100 %% of %s", text_bytes(g->usable_bytes).text);
    svg_text(out, x + 8, y + 11, 12, SVG_START, SVG_INK, false, text);
    x = LEFT;
    for (int v = PL_MAY_NOT_FIT; v < PL_VERDICTS; v++, x += 132) {
        svg_rect(out, x, y + 20, 16, 12, looks[v].fill);
        snprintf(text, sizeof text, "%s%s", looks[v].mark, pl_verdict_name((pl_verdict)v));
        svg_text(out, x + 24, y + 31, 12, SVG_START, SVG_INK, false, text);
    }
}

int heatmap_write(const char *path, const sweep_grid *g) {
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    double wide = LEFT + (double)g->seqs.count * CELL_WIDE + RIGHT,
           high = TOP + (double)g->batches.count * CELL_HIGH + BOTTOM;
    char title[300], label[48];
    snprintf(title, sizeof title, "%.200s: peak memory on %s", g->model, g->gpu->title);
    /* No title is cut, and no legend. */
    if (wide < 48 + svg_text_width(title, 17)) wide = 48 + svg_text_width(title, 17);
    if (wide < 48 + svg_line_width(g->job, false)) wide = 48 + svg_line_width(g->job, false);
    if (wide < 480) wide = 480;
    svg_begin(out, (int)wide, (int)high, title);
    svg_line_of_text(out, 24, 28, 17, wide - 48, SVG_INK, true, title);
    svg_line_of_text(out, 24, 46, 12, wide - 48, SVG_INK, false, g->job);
    svg_text(out, LEFT, TOP - 30, 12, SVG_START, SVG_FAINT, false,
             g->has_seq ? "sequence length" : "");
    svg_text(out, LEFT - 12, TOP - 10, 12, SVG_END, SVG_FAINT, false, "batch");
    for (size_t k = 0; k < g->seqs.count && g->has_seq; k++) {
        snprintf(label, sizeof label, "%" PRId64, g->seqs.numbers[k]);
        svg_text(out, LEFT + ((double)k + 0.5) * CELL_WIDE, TOP - 10, 12, SVG_MIDDLE, SVG_INK,
                 false, label);
    }
    for (size_t row = 0; row < g->batches.count; row++) {
        snprintf(label, sizeof label, "%" PRId64, g->batches.numbers[row]);
        svg_text(out, LEFT - 12, TOP + ((double)row + 0.5) * CELL_HIGH + 4, 12, SVG_END, SVG_INK,
                 false, g->has_batch ? label : "-");
        for (size_t k = 0; k < g->seqs.count; k++) draw_cell(out, g, row, k);
    }
    draw_legend(out, g, high - BOTTOM + 18);
    svg_end(out);
    return output_close(&file);
}
