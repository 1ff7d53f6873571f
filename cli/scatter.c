/* scatter: a picture of predicted against measured peaks; with several estimators a panel each, the
 * best first, all with the same axes. Both axes are logarithmic and alike, so that equal relative
 * errors lie equally far from the diagonal; the dashed lines are 10 % above and below it. Colours
 * are families. The dots of a family in a panel are one path of strokes without length, a tenth of
 * the bytes that circles would take. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comparison.h"
#include "core/number.h"
#include "output.h"
#include "svg.h"

enum { MOST_FAMILIES = 8, LEGEND = 190, MARGIN = 24, BEYOND = 2 };

static const char *const colours[MOST_FAMILIES] = {"#4a78a8", "#ee8f2f", "#5a9f52", "#dd5458",
                                                   "#a97ba3", "#8c6a56", "#d37fa5", "#4f9f9a"};

typedef struct families {
    const char *names[MOST_FAMILIES];
    size_t jobs[MOST_FAMILIES], count;
} families;

/* Index of a family, in the order they come; those beyond the colours share the last. */
static size_t family_of(families *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->names[i], name) == 0) return i;
    if (f->count == MOST_FAMILIES) return MOST_FAMILIES - 1;
    f->names[f->count] = name;
    return f->count++;
}

/* How panels are laid out; pixels. */
typedef struct layout {
    size_t columns, rows;
    double side;       /* of a panel's frame */
    double left, top;  /* of the frame in its cell */
    double wide, high; /* of a cell */
    double from;       /* where the first row of cells starts */
    double dot;        /* across */
    bool memory;       /* figures are bytes */
    int step;          /* powers of two between grid lines */
} layout;

typedef struct panel {
    double left, top, side;
    double least, most; /* logarithms of bytes (or of the target's unit), base 2 */
    bool linear;        /* percent: least and most are no logarithms */
    bool clipped;       /* predictions lie beyond them */
} panel;

static double place(const panel *p, double value) {
    return p->linear ? value : log2(value);
}
static double value_at(const panel *p, double place) {
    return p->linear ? place : exp2(place);
}
static double along(const panel *p, double bytes) {
    return p->side * (place(p, bytes) - p->least) / (p->most - p->least);
}
static double x_of(const panel *p, double bytes) {
    return p->left + along(p, bytes);
}
static double y_of(const panel *p, double bytes) {
    return p->top + p->side - along(p, bytes);
}

static bool usable(const comparison *c, const pl_trial *t) {
    if (!trial_counts(t)) return false;
    return target_is_counter(c->target) || (t->predicted > 0 && t->measured > 0);
}

/* Axes that hold what was measured, and what was predicted up to four times above and below it;
 * what lies further off is left at the edge, so that one estimator's slip does not crush the
 * others. */
static void find_range(const comparison *c, panel *p) {
    bool any = false;
    p->linear = target_is_counter(c->target);
    if (p->linear) {
        p->least = -2;
        p->most = 102;
        return;
    }
    double least = 30, most = 31, low = 30, high = 31;
    for (size_t i = 0; i < c->ran; i++)
        for (size_t k = 0; k < c->list[i].evaluation->count; k++) {
            const pl_trial *t = pl_evaluation_trial(c->list[i].evaluation, k);
            if (!usable(c, t)) continue;
            double truth = log2(t->measured), said = log2(t->predicted);
            if (!any) least = most = low = high = truth;
            any = true;
            least = fmin(least, truth);
            most = fmax(most, truth);
            low = fmin(low, said);
            high = fmax(high, said);
        }
    p->clipped = low < least - BEYOND || high > most + BEYOND;
    least = fmin(least, fmax(low, least - BEYOND));
    most = fmax(most, fmin(high, most + BEYOND));
    double room = fmax(0.25, 0.04 * (most - least));
    p->least = least - room;
    p->most = most + room;
}

static void draw_frame(FILE *out, const panel *p, const layout *l) {
    double size = p->side > 400 ? 12 : 10;
    svg_rect(out, p->left, p->top, p->side, p->side, "#ffffff");
    for (double power = ceil(p->least / l->step) * l->step; power <= p->most; power += l->step) {
        double bytes = value_at(p, power), x = x_of(p, bytes), y = y_of(p, bytes);
        char text[32];
        if (p->linear)
            snprintf(text, sizeof text, "%s %%", PL_REAL(".0f", bytes));
        else if (!l->memory)
            snprintf(text, sizeof text, "%s", PL_REAL(".3g", bytes));
        else if (power >= 40)
            snprintf(text, sizeof text, "%s TiB", PL_REAL("g", bytes / exp2(40)));
        else if (power >= 30)
            snprintf(text, sizeof text, "%s GiB", PL_REAL("g", bytes / exp2(30)));
        else
            snprintf(text, sizeof text, "%s MiB", PL_REAL("g", bytes / exp2(20)));
        svg_line(out, x, p->top, x, p->top + p->side, SVG_GRID, 1, NULL);
        svg_line(out, p->left, y, p->left + p->side, y, SVG_GRID, 1, NULL);
        svg_text(out, x, p->top + p->side + 6 + size, size, SVG_MIDDLE, SVG_INK, false, text);
        svg_text(out, p->left - 6, y + 4, size, SVG_END, SVG_INK, false, text);
    }
}

/* The line predicted = factor * measured, as far as it lies in the frame; of percent, as many
 * points above it as factor is percent above 1. */
static void draw_ratio(FILE *out, const panel *p, double factor, const char *colour,
                       const char *dash) {
    double points = factor < 1 ? -100 * (1 / factor - 1) : 100 * (factor - 1);
    double shift = p->linear ? points : log2(factor), from = fmax(p->least, p->least - shift),
           to = fmin(p->most, p->most - shift);
    svg_line(out, x_of(p, value_at(p, from)), y_of(p, value_at(p, from + shift)),
             x_of(p, value_at(p, to)), y_of(p, value_at(p, to + shift)), colour,
             p->side > 400 ? 1.2 : 0.8, dash);
}

static void draw_dots(FILE *out, const panel *p, const comparison *c, const pl_evaluation *e,
                      families *f, double dot) {
    for (size_t family = 0; family < MOST_FAMILIES; family++) {
        bool open = false;
        for (size_t i = 0; i < e->count; i++) {
            const pl_trial *t = pl_evaluation_trial(e, i);
            if (!usable(c, t) || family_of(f, t->family) != family) continue;
            double said = fmin(fmax(t->predicted, value_at(p, p->least)), value_at(p, p->most));
            if (!open)
                fprintf(out,
                        "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" "
                        "stroke-linecap=\"round\" stroke-opacity=\"0.55\" d=\"",
                        colours[family], PL_REAL(".1f", dot));
            open = true;
            fprintf(out, "M%s %sh0", PL_REAL(".1f", x_of(p, t->measured)),
                    PL_REAL(".1f", y_of(p, said)));
        }
        if (open) fputs("\"/>\n", out);
    }
}

static void draw_panel(FILE *out, const panel *p, const layout *l, const comparison *c,
                       const contender *of, families *f) {
    char text[128];
    bool titled = c->ran > 1;
    draw_frame(out, p, l);
    draw_ratio(out, p, 1, SVG_INK, NULL);
    const char *dash = titled ? "3 3" : "6 4"; /* of small frames */
    draw_ratio(out, p, 1.1, SVG_FAINT, dash);
    draw_ratio(out, p, 1 / 1.1, SVG_FAINT, dash);
    draw_dots(out, p, c, of->evaluation, f, l->dot);
    if (!titled) return;
    snprintf(text, sizeof text, "%.40s%s", of->info->name, of->evaluation->seen ? " *" : "");
    svg_line_of_text(out, p->left, p->top - 8, 13, p->side, SVG_INK, true, text);
    snprintf(text, sizeof text, p->linear ? "mean %s points" : "median %s %%",
             PL_REAL(".2f", p->linear ? of->all.mae : 100 * of->all.median));
    svg_text(out, p->left + 6, p->top + 16, 11, SVG_START, SVG_FAINT, false,
             text); /* inside: names are long */
}

/* Families and how many jobs of each there are, counted once. */
static size_t count_families(const comparison *c, families *f) {
    size_t jobs = 0;
    for (size_t k = 0; k < c->jobs; k++)
        for (size_t i = 0; i < c->ran; i++) {
            const pl_trial *t = pl_evaluation_trial(c->list[i].evaluation, k);
            if (!usable(c, t)) continue;
            f->jobs[family_of(f, t->family)]++;
            jobs++;
            break;
        }
    return jobs;
}

static void draw_legend(FILE *out, const comparison *c, const families *f, bool clipped,
                        size_t jobs, double x, double y) {
    char text[160];
    for (size_t i = 0; i < f->count; i++, y += 24) {
        snprintf(text, sizeof text, "%s (%zu)", f->names[i][0] ? f->names[i] : "no family",
                 f->jobs[i]);
        svg_circle(out, x, y - 4, 5, colours[i], 0.9);
        svg_text(out, x + 14, y, 13, SVG_START, SVG_INK, false, text);
    }
    snprintf(text, sizeof text, "%zu jobs", jobs);
    svg_text(out, x - 5, y + 16, 13, SVG_START, SVG_INK, false, text);
    if (c->ran == 1) {
        bool counter = target_is_counter(c->target);
        snprintf(text, sizeof text, counter ? "mean error %s points" : "median error %s %%",
                 PL_REAL(".2f", counter ? c->list[0].all.mae : 100 * c->list[0].all.median));
        svg_text(out, x - 5, y + 38, 13, SVG_START, SVG_INK, false, text);
    }
    svg_line(out, x - 5, y + 62, x + 23, y + 62, SVG_FAINT, 1.2, "6 4");
    svg_text(out, x + 30, y + 66, 13, SVG_START, SVG_INK, false,
             target_is_counter(c->target) ? "10 points off" : "10 % off");
    y += 90;
    if (clipped) {
        svg_text(out, x - 5, y, 12, SVG_START, SVG_FAINT, false, "dots at the edge");
        svg_text(out, x - 5, y + 16, 12, SVG_START, SVG_FAINT, false, "lie beyond it");
        y += 40;
    }
    for (size_t i = 0; i < c->ran; i++)
        if (c->list[i].evaluation->seen) {
            svg_text(out, x - 5, y, 12, SVG_START, SVG_FAINT, false, "* may have learnt");
            svg_text(out, x - 5, y + 16, 12, SVG_START, SVG_FAINT, false, "from these jobs");
            break;
        }
}

/* One large frame, or small ones in rows of at most five. */
static layout layout_of(const comparison *c, const panel *range) {
    layout l = {.columns = 1, .rows = 1, .side = 620, .left = 92, .top = 64, .dot = 6, .step = 1};
    l.memory = target_is_memory(c->target);
    if (!l.memory) l.step = (int)ceil((range->most - range->least) / 10);
    if (c->ran > 1) {
        while (l.columns < 5 && l.columns * l.columns < c->ran) l.columns++;
        l.rows = (c->ran + l.columns - 1) / l.columns;
        l.side = l.columns <= 2 ? 360 : 230;
        l.left = 70;
        l.top = 30;
        l.dot = 3.6;
        l.from = 50;
        l.step = (int)ceil((range->most - range->least) / (l.side / 60));
    }
    l.wide = l.left + l.side + (c->ran > 1 ? 14 : MARGIN);
    l.high = l.top + l.side + (c->ran > 1 ? 30 : 66);
    return l;
}

int scatter_write(const comparison *c, const char *path) {
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    panel p = {0};
    families f = {.count = 0};
    char text[160];
    find_range(c, &p);
    layout l = layout_of(c, &p);
    double width = l.wide * (double)l.columns + LEGEND,
           height = l.from + l.high * (double)l.rows + (c->ran > 1 ? 28 : 0);
    size_t jobs = count_families(c, &f);
    svg_begin(out, (int)width, (int)height, "plimsoll: predicted against measured peaks");
    snprintf(text, sizeof text, "Predicted against measured %s%s%s", target_title(c->target),
             c->ran == 1 ? ", estimator " : "", c->ran == 1 ? c->list[0].info->name : "");
    svg_text(out, c->ran == 1 ? l.left : MARGIN, 30, 16, SVG_START, SVG_INK, true, text);
    for (size_t i = 0; i < c->ran; i++) {
        p.side = l.side;
        p.left = l.left + l.wide * (double)(i % l.columns);
        p.top = l.from + l.top + l.high * (double)(i / l.columns);
        draw_panel(out, &p, &l, c, &c->list[i], &f);
    }
    double bottom = l.from + l.high * (double)l.rows;
    if (c->ran == 1) {
        svg_text(out, l.left + l.side / 2, l.top + l.side + 42, 13, SVG_MIDDLE, SVG_INK, false,
                 l.memory ? "measured peak" : "measured");
        svg_text(out, l.left, l.top - 10, 13, SVG_START, SVG_INK, false,
                 l.memory ? "predicted peak" : "predicted");
    } else {
        svg_text(out, MARGIN, bottom + 12, 13, SVG_START, SVG_INK, false,
                 l.memory ? "across: measured peak; up: predicted peak"
                          : "across: measured; up: predicted");
    }
    draw_legend(out, c, &f, p.clipped, jobs, l.wide * (double)l.columns + 5, l.from + l.top + 16);
    svg_end(out);
    return output_close(&file);
}
