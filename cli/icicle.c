/* icicle: the picture of where a step's time goes: a bar per module, as wide as its share of the
 * time, and below it the bars of the modules inside it. A bar is split into forward, backward and
 * the rest (the optimizer, inputs); names are written where they fit. */
#include <stdlib.h>
#include <string.h>

#include "svg.h"
#include "text.h"
#include "times.h"
#include "verbs.h"

enum { WIDTH = 1200, LEFT = 24, TOP = 96, ROW = 34, GAP = 2, BOTTOM = 24, MOST_ROWS = 160 };

static const struct {
    const char *name, *colour;
} parts[] = {{"forward", "#8db48a"}, {"backward", "#8fb0d1"}, {"optimizer and other", "#c9b2c6"}};

static void draw_name(FILE *out, double x, double width, double y, const module_row *row,
                      double share) {
    char text[200];
    small_text percent = text_percent(share);
    snprintf(text, sizeof text, "%.140s %s", row->name, percent.text);
    if (svg_text_width(text, 12) + 8 > width) snprintf(text, sizeof text, "%.140s", row->name);
    if (svg_text_width(text, 12) + 8 > width) return;
    svg_text(out, x + 5, y + ROW / 2.0 + 4, 12, SVG_START, SVG_INK, false, text);
}

static void draw_row(FILE *out, double x, double width, const module_row *row, double share) {
    double y = TOP + ROW * row->depth, at = x;
    double size = row->size > 0 ? (double)row->size : 1;
    double shares[] = {(double)row->parts[TIME_FORWARD] / size,
                       (double)row->parts[TIME_BACKWARD] / size, 0};
    shares[2] = 1 - shares[0] - shares[1];
    for (int k = 0; k < 3; k++) {
        if (!(shares[k] > 0)) continue;
        double wide = (width - (width > 4 ? 1 : 0)) * shares[k];
        svg_rect(out, at, y, wide, ROW - GAP, parts[k].colour);
        at += wide;
    }
    draw_name(out, x, width, y, row, share);
}

/* Rows come each below its parent: the next of a depth starts where the last of it ended. */
static void draw_rows(FILE *out, const module_tree *tree, int depths) {
    double *next = need((size_t)depths + 2, sizeof *next);
    next[0] = LEFT;
    for (size_t i = 0; i < tree->row_count; i++) {
        const module_row *row = &tree->rows[i];
        double share = tree->total > 0 ? (double)row->size / (double)tree->total : 0;
        double width = (WIDTH - 2 * LEFT) * share, x = next[row->depth];
        if (width >= 0.3) draw_row(out, x, width, row, share);
        next[row->depth] = x + width;
        next[row->depth + 1] = x;
    }
    free(next);
}

void icicle_draw(FILE *out, const pl_report *report, const pl_model_info *info, const pl_job *job) {
    module_tree tree = times_tree(report, MOST_ROWS);
    int depths = 1;
    for (size_t i = 0; i < tree.row_count; i++)
        if (tree.rows[i].depth + 1 > depths) depths = tree.rows[i].depth + 1;
    char text[1024], line[1024];
    snprintf(text, sizeof text, "%s: where a step's time goes", info->name);
    job_line(line, sizeof line, info, report, job);
    double room = WIDTH - 2 * LEFT; /* no title is cut */
    if (room < svg_line_width(text, true)) room = svg_line_width(text, true);
    if (room < svg_line_width(line, false)) room = svg_line_width(line, false);
    svg_begin(out, (int)room + 2 * LEFT, TOP + ROW * depths + BOTTOM, text);
    svg_line_of_text(out, LEFT, 28, 17, room, SVG_INK, true, text);
    svg_line_of_text(out, LEFT, 47, 12, room, SVG_INK, false, line);
    snprintf(text, sizeof text, "a step takes %s; shown are the %s of the %s",
             text_ms(report->step_ms.value).text, text_ms((double)tree.total / 1e6).text,
             times_by_host(report) ? "host" : "card");
    svg_line_of_text(out, LEFT, 64, 12, WIDTH - 2 * LEFT, SVG_FAINT, false, text);
    double x = LEFT;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        svg_rect(out, x, 76, 12, 12, parts[i].colour);
        svg_text(out, x + 17, 86, 12, SVG_START, SVG_INK, false, parts[i].name);
        x += 17 + svg_text_width(parts[i].name, 12) + 16;
    }
    draw_rows(out, &tree, depths);
    svg_end(out);
    modules_free(&tree);
}
