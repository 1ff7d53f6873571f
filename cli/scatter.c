/* scatter: see scatter.h. Both axes are logarithmic and alike, so that equal relative errors lie
 * equally far from the diagonal; the dashed lines are 10 % above and below it. */
#include "scatter.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "svg.h"
#include "text.h"

enum {
    SIDE = 620,
    MARGIN_LEFT = 92,
    MARGIN_TOP = 64,
    WIDTH = 900,
    HEIGHT = 750,
    MOST_FAMILIES = 8
};

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

typedef struct axes {
    double least, most; /* logarithms of bytes, base 2 */
} axes;

static double along(const axes *a, double bytes) {
    return SIDE * (log2(bytes) - a->least) / (a->most - a->least);
}
static double x_of(const axes *a, double bytes) {
    return MARGIN_LEFT + along(a, bytes);
}
static double y_of(const axes *a, double bytes) {
    return MARGIN_TOP + SIDE - along(a, bytes);
}

static bool usable(const pl_trial *t) {
    return t->status == PL_OK && t->peak_bytes > 0 && t->measured_bytes > 0;
}

static axes axes_of(const pl_evaluation *e) {
    axes a = {30, 31};
    bool any = false;
    for (size_t i = 0; i < e->count; i++) {
        if (!usable(&e->trials[i])) continue;
        double values[] = {log2((double)e->trials[i].peak_bytes),
                           log2((double)e->trials[i].measured_bytes)};
        for (int k = 0; k < 2; k++) {
            if (!any) a.least = a.most = values[k];
            any = true;
            a.least = fmin(a.least, values[k]);
            a.most = fmax(a.most, values[k]);
        }
    }
    double room = fmax(0.25, 0.04 * (a.most - a.least));
    a.least -= room;
    a.most += room;
    return a;
}

static void draw_frame(FILE *out, const axes *a) {
    svg_rect(out, MARGIN_LEFT, MARGIN_TOP, SIDE, SIDE, "#ffffff");
    for (double power = ceil(a->least); power <= a->most; power++) {
        double bytes = exp2(power), x = x_of(a, bytes), y = y_of(a, bytes);
        char text[32];
        if (power >= 30)
            snprintf(text, sizeof text, "%g GiB", bytes / exp2(30));
        else
            snprintf(text, sizeof text, "%g MiB", bytes / exp2(20));
        svg_line(out, x, MARGIN_TOP, x, MARGIN_TOP + SIDE, SVG_GRID, 1, NULL);
        svg_line(out, MARGIN_LEFT, y, MARGIN_LEFT + SIDE, y, SVG_GRID, 1, NULL);
        svg_text(out, x, MARGIN_TOP + SIDE + 18, 12, SVG_MIDDLE, SVG_INK, false, text);
        svg_text(out, MARGIN_LEFT - 8, y + 4, 12, SVG_END, SVG_INK, false, text);
    }
    svg_text(out, MARGIN_LEFT + SIDE / 2.0, MARGIN_TOP + SIDE + 42, 13, SVG_MIDDLE, SVG_INK, false,
             "measured peak");
    svg_text(out, MARGIN_LEFT, MARGIN_TOP - 10, 13, SVG_START, SVG_INK, false, "predicted peak");
}

/* The line predicted = factor * measured, as far as it lies in the frame. */
static void draw_ratio(FILE *out, const axes *a, double factor, const char *colour,
                       const char *dash) {
    double shift = log2(factor), from = fmax(a->least, a->least - shift),
           to = fmin(a->most, a->most - shift);
    svg_line(out, x_of(a, exp2(from)), y_of(a, exp2(from + shift)), x_of(a, exp2(to)),
             y_of(a, exp2(to + shift)), colour, 1.2, dash);
}

int scatter_write(const char *path, const pl_evaluation *e, double median) {
    FILE *out = fopen(path, "w");
    if (!out) return complain(PL_MISSING, "%s: could not be written: %s", path, strerror(errno));
    axes a = axes_of(e);
    families f = {.count = 0};
    char text[160];
    svg_begin(out, WIDTH, HEIGHT, "plimsoll: predicted against measured peaks");
    snprintf(text, sizeof text, "Predicted against measured peak GPU memory, estimator %s",
             e->estimator);
    svg_text(out, MARGIN_LEFT, 30, 16, SVG_START, SVG_INK, true, text);
    draw_frame(out, &a);
    draw_ratio(out, &a, 1, SVG_INK, NULL);
    draw_ratio(out, &a, 1.1, SVG_FAINT, "6 4");
    draw_ratio(out, &a, 1 / 1.1, SVG_FAINT, "6 4");
    size_t jobs = 0;
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = &e->trials[i];
        if (!usable(t)) continue;
        size_t family = family_of(&f, t->family);
        f.jobs[family]++;
        jobs++;
        svg_circle(out, x_of(&a, (double)t->measured_bytes), y_of(&a, (double)t->peak_bytes), 3,
                   colours[family], 0.55);
    }
    double x = MARGIN_LEFT + SIDE + 24, y = MARGIN_TOP + 16;
    for (size_t i = 0; i < f.count; i++, y += 24) {
        snprintf(text, sizeof text, "%s (%zu)", f.names[i][0] ? f.names[i] : "no family",
                 f.jobs[i]);
        svg_circle(out, x, y - 4, 5, colours[i], 0.9);
        svg_text(out, x + 14, y, 13, SVG_START, SVG_INK, false, text);
    }
    snprintf(text, sizeof text, "%zu jobs", jobs);
    svg_text(out, x - 5, y + 16, 13, SVG_START, SVG_INK, false, text);
    snprintf(text, sizeof text, "median error %.2f %%", 100 * median);
    svg_text(out, x - 5, y + 38, 13, SVG_START, SVG_INK, false, text);
    svg_line(out, x - 5, y + 62, x + 23, y + 62, SVG_FAINT, 1.2, "6 4");
    svg_text(out, x + 30, y + 66, 13, SVG_START, SVG_INK, false, "10 % off");
    svg_end(out);
    return svg_close(out, path);
}
