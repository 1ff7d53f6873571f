/* bars: a chart of the relative errors by estimator: the median and the 90th percentile as bars,
 * the median on real models as a dot. The axis starts at 0; it is logarithmic where the largest
 * figure is more than TOO_WIDE times the least, since the small ones could not be told apart
 * otherwise. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comparison.h"
#include "core/number.h"
#include "output.h"
#include "svg.h"

enum { WIDTH = 980, TOP = 96, ROW = 40, BAR = 13, RIGHT = 90, BOTTOM = 56, TOO_WIDE = 20 };

#define MEDIAN_COLOUR "#4a78a8"
#define P90_COLOUR    "#a9c3dc"
#define REAL_COLOUR   "#ee8f2f"

typedef struct scale {
    bool logarithmic;
    double least, most; /* shares; least 0 unless logarithmic */
    double left, width; /* pixels */
} scale;

static double along(const scale *s, double value) {
    if (s->logarithmic) {
        if (!(value > s->least)) return s->left;
        return s->left + s->width * log(value / s->least) / log(s->most / s->least);
    }
    return s->left + s->width * value / s->most;
}

/* The figures of a row; NAN where there is none. */
static void figures(const contender *of, double values[3]) {
    values[0] = of->all.median;
    values[1] = of->all.p90;
    values[2] = of->real.median;
}

static scale scale_of(const comparison *c) {
    scale s = {.least = INFINITY, .most = 0, .left = 60};
    for (size_t i = 0; i < c->ran; i++) {
        double values[3], width = svg_text_width(c->list[i].info->name, 13) + 36;
        figures(&c->list[i], values);
        for (int k = 0; k < 3; k++) {
            if (!isfinite(values[k]) || values[k] <= 0) continue;
            s.least = fmin(s.least, values[k]);
            s.most = fmax(s.most, values[k]);
        }
        s.left = fmax(s.left, width);
    }
    s.width = WIDTH - RIGHT - s.left;
    if (s.most <= 0) s.least = s.most = 0.01; /* all are exact, or unknown */
    s.logarithmic = s.most / s.least > TOO_WIDE;
    if (s.logarithmic) {
        s.least = pow(10, floor(log10(s.least)));
        s.most = pow(10, ceil(log10(s.most) - 1e-9));
    } else {
        s.least = 0;
        s.most *= 1.05;
    }
    return s;
}

static void draw_tick(FILE *out, const scale *s, double value, double bottom) {
    char text[32];
    double x = along(s, value);
    snprintf(text, sizeof text, "%s %%", PL_REAL("g", 100 * value));
    svg_line(out, x, TOP - 8, x, bottom, SVG_GRID, 1, NULL);
    svg_text(out, x, bottom + 18, 12, SVG_MIDDLE, SVG_INK, false, text);
}

static void draw_axis(FILE *out, const scale *s, double bottom) {
    if (s->logarithmic) {
        for (double at = s->least; at <= s->most * 1.001; at *= 10) draw_tick(out, s, at, bottom);
        return;
    }
    double step = pow(10, floor(log10(s->most)));
    if (s->most / step < 2)
        step /= 5;
    else if (s->most / step < 5)
        step /= 2;
    for (int i = 0; i * step <= s->most; i++) draw_tick(out, s, i * step, bottom);
}

static void draw_row(FILE *out, const scale *s, const contender *of, double y) {
    static const char *const colours[] = {MEDIAN_COLOUR, P90_COLOUR};
    double values[3];
    char text[64];
    figures(of, values);
    snprintf(text, sizeof text, "%.40s%s", of->info->name, of->evaluation->seen ? " *" : "");
    svg_text(out, s->left - 10, y + BAR + 5, 13, SVG_END, SVG_INK, false, text);
    for (int k = 0; k < 2; k++) {
        double top = y + k * (BAR + 1), x = along(s, values[k]);
        if (!isfinite(values[k])) continue;
        svg_rect(out, s->left, top, fmax(x - s->left, 1), BAR, colours[k]);
        snprintf(text, sizeof text, "%s %%",
                 PL_REAL(values[k] < 0.0995 ? ".2f" : ".1f", 100 * values[k]));
        double dot = k == 0 && isfinite(values[2]) ? along(s, values[2]) : 0;
        if (dot > x && dot < x + 60) x = dot + 2; /* the figure gives way to the dot */
        svg_text(out, x + 8, top + BAR - 2, 11, SVG_START, k ? SVG_FAINT : SVG_INK, false, text);
    }
    if (isfinite(values[2])) svg_circle(out, along(s, values[2]), y + BAR / 2.0, 4, REAL_COLOUR, 1);
}

static void draw_legend(FILE *out, const scale *s, const comparison *c) {
    double x = s->left, y = 70;
    static const struct {
        const char *text, *colour;
    } bars[] = {{"median", MEDIAN_COLOUR}, {"90th percentile", P90_COLOUR}};
    for (size_t i = 0; i < 2; i++) {
        svg_rect(out, x, y - 10, 12, 12, bars[i].colour);
        svg_text(out, x + 17, y, 12, SVG_START, SVG_INK, false, bars[i].text);
        x += 17 + svg_text_width(bars[i].text, 12) + 16;
    }
    if (!scope_shown(c, SCOPE_REAL)) return;
    svg_circle(out, x + 6, y - 4, 4, REAL_COLOUR, 1);
    char text[96];
    snprintf(text, sizeof text, "median, %s", scope_title(c, SCOPE_REAL));
    svg_text(out, x + 17, y, 12, SVG_START, SVG_INK, false, text);
}

int bars_write(const comparison *c, const char *path) {
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    scale s = scale_of(c);
    double bottom = TOP + ROW * (double)c->ran;
    bool stars = false;
    char text[160];
    svg_begin(out, WIDTH, (int)bottom + BOTTOM, "plimsoll: errors by estimator");
    snprintf(text, sizeof text, "%s of predicted %s, by estimator",
             target_is_counter(c->target) ? "Error (% is points)" : "Relative error",
             target_title(c->target));
    svg_text(out, 24, 30, 16, SVG_START, SVG_INK, true, text);
    snprintf(text, sizeof text, "%zu jobs%s%s%s", c->jobs,
             c->request->split != PL_SPLIT_NONE ? ", split by " : "",
             c->request->split != PL_SPLIT_NONE ? split_name((size_t)c->request->split) : "",
             s.logarithmic ? "; logarithmic axis" : "");
    svg_text(out, 24, 50, 12, SVG_START, SVG_FAINT, false, text);
    svg_rect(out, s.left, TOP - 8, s.width, bottom - TOP + 8, "#ffffff");
    draw_axis(out, &s, bottom);
    for (size_t i = 0; i < c->ran; i++) {
        draw_row(out, &s, &c->list[i], TOP + ROW * (double)i + 2);
        stars = stars || c->list[i].evaluation->seen;
    }
    draw_legend(out, &s, c);
    if (stars)
        svg_text(out, 24, bottom + 42, 12, SVG_START, SVG_FAINT, false,
                 "* may have learnt from these very jobs: proves nothing");
    svg_end(out);
    return output_close(&file);
}
