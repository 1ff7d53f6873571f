/* day_chart: a simulated day as a picture: what became of the jobs under each policy as bars, a panel per figure, and
 * below them the cards' memory in use and the jobs that wait, over time, a line per policy. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/number.h"
#include "day.h"
#include "output.h"
#include "svg.h"

enum {
    WIDTH = 980,
    MARGIN = 24,
    TOP = 88,
    GAP = 28,
    ROW = 20,
    BAR = 13,
    HEAD = 26,   /* of a panel */
    FIGURE = 86, /* room for a bar's figure */
    LINES = 150, /* height of a chart over time */
    AXIS = 56
};

static const char *const colours[] = {"#4a78a8", "#ee8f2f", "#4f9d69", "#b04a57",
                                      "#8064a2", "#8a6d4b", "#3aa0a8", "#7f7f7f"};
enum { COLOURS = sizeof colours / sizeof *colours };

/* ---- bars ---- */

typedef struct panel {
    const char *title;
    double (*value)(const pl_day_outcome *o);
    small_text (*text)(double value);
} panel;

static double crashes(const pl_day_outcome *o) {
    return o->placements ? (double)o->crashes / (double)o->placements : 0;
}
static double lost(const pl_day_outcome *o) {
    return o->lost_hours;
}
static double waits(const pl_day_outcome *o) {
    return o->wait_mean_s;
}
static double turns(const pl_day_outcome *o) {
    return o->turnaround_mean_s;
}
static double span(const pl_day_outcome *o) {
    return o->makespan_s;
}
static double slower(const pl_day_outcome *o) {
    return o->slowdown_mean;
}

static small_text share_text(double share) {
    small_text t;
    snprintf(t.text, sizeof t.text, "%s %%", PL_REAL(".2f", 100 * share));
    return t;
}
static small_text hours_text(double hours) {
    small_text t;
    snprintf(t.text, sizeof t.text, "%s h", PL_REAL(hours < 100 ? ".1f" : ".0f", hours));
    return t;
}
static small_text times_text(double times) {
    small_text t;
    snprintf(t.text, sizeof t.text, "%s", PL_REAL(".3f", times));
    return t;
}

static const panel panels[] = {
    {"Out-of-memory crashes, of placements", crashes, share_text},
    {"GPU-hours lost in crashes", lost, hours_text},
    {"Waiting in the queue, mean", waits, text_span},
    {"From coming to end, mean", turns, text_span},
    {"Makespan", span, text_span},
    {"Slowdown by sharing, mean", slower, times_text},
};
enum { PANELS = sizeof panels / sizeof *panels };

/* Wider than most faces have it, so that no name meets what stands beside it. */
static double name_width(const char *name) {
    return 1.12 * svg_text_width(name, 12);
}

static double names_width(const day_runs *runs) {
    double wide = 0;
    for (size_t i = 0; i < runs->count; i++)
        wide = fmax(wide, name_width(runs->outcomes[i]->policy));
    return wide + 10;
}

static void draw_panel(FILE *out, const panel *p, const day_runs *runs, double x, double y,
                       double width) {
    double names = names_width(runs), most = 0;
    double left = x + names, room = width - names - FIGURE;
    svg_text(out, x, y, 13, SVG_START, SVG_INK, true, p->title);
    for (size_t i = 0; i < runs->count; i++) most = fmax(most, p->value(runs->outcomes[i]));
    svg_line(out, left, y + 8, left, y + HEAD - 8 + ROW * (double)runs->count, SVG_GRID, 1, NULL);
    for (size_t i = 0; i < runs->count; i++) {
        double value = p->value(runs->outcomes[i]), top = y + HEAD - 12 + ROW * (double)i;
        double bar = most > 0 && isfinite(value) ? room * value / most : 0;
        svg_text(out, left - 8, top + BAR - 2, 12, SVG_END, SVG_INK, false,
                 runs->outcomes[i]->policy);
        svg_rect(out, left, top, fmax(bar, 1), BAR, colours[i % COLOURS]);
        svg_text(out, left + fmax(bar, 1) + 6, top + BAR - 2, 11, SVG_START, SVG_INK, false,
                 p->text(value).text);
    }
}

/* ---- over time ---- */

typedef struct course {
    const char *title;
    double (*value)(const pl_day_point *p);
    bool share;
} course;

static double memory_at(const pl_day_point *p) {
    return p->memory_used;
}
static double waiting_at(const pl_day_point *p) {
    return p->waiting;
}

static const course courses[] = {
    {"Memory in use, of all cards", memory_at, true},
    {"Jobs that wait", waiting_at, false},
};
enum { COURSES = sizeof courses / sizeof *courses };

static double round_up(double value) {
    double step = pow(10, floor(log10(value)));
    static const double steps[] = {1, 2, 2.5, 5, 10};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (value <= steps[i] * step * (1 + 1e-9)) return steps[i] * step;
    return value;
}

static void draw_axes(FILE *out, double x, double y, double width, double most, double end,
                      bool share) {
    for (int i = 0; i <= 2; i++) {
        double at = y + LINES - LINES * i / 2.0, value = most * i / 2;
        char text[32];
        snprintf(text, sizeof text, "%s%s", PL_REAL("g", share ? 100 * value : value),
                 share ? " %" : "");
        svg_line(out, x, at, x + width, at, SVG_GRID, 1, NULL);
        svg_text(out, x - 8, at + 4, 11, SVG_END, SVG_INK, false, text);
    }
    /* Round steps of days, hours or minutes. */
    static const double units[] = {86400, 3600, 60, 1};
    static const char *const names[] = {"days", "hours", "minutes", "seconds"};
    size_t u = 0;
    while (u < 3 && end < 2 * units[u]) u++;
    double step = round_up(end / units[u] / 8);
    char text[48];
    for (double at = 0; step > 0 && at * units[u] <= end; at += step) {
        double tick = x + width * at * units[u] / end;
        svg_line(out, tick, y + LINES, tick, y + LINES + 4, SVG_INK, 1, NULL);
        svg_text(out, tick, y + LINES + 17, 11, SVG_MIDDLE, SVG_INK, false, PL_REAL("g", at));
    }
    snprintf(text, sizeof text, "%s from the first job on", names[u]);
    svg_text(out, x + width, y + LINES + 33, 11, SVG_END, SVG_FAINT, false, text);
}

static void draw_course(FILE *out, const course *c, const day_runs *runs, double y) {
    double x = MARGIN + 56, width = WIDTH - 2 * MARGIN - 56, most = 0, end = 0;
    const pl_day_point *p, *before;
    for (size_t i = 0; i < runs->count; i++)
        for (size_t k = 0; (p = pl_day_at(runs->days[i], k)); k++) {
            most = fmax(most, c->value(p));
            end = fmax(end, p->to_s);
        }
    most = most > 0 ? round_up(most) : 1;
    if (c->share) most = fmin(most, 1);
    svg_text(out, MARGIN, y - 12, 13, SVG_START, SVG_INK, true, c->title);
    svg_rect(out, x, y, width, LINES, "#ffffff");
    if (!(end > 0)) return;
    draw_axes(out, x, y, width, most, end, c->share);
    for (size_t i = 0; i < runs->count; i++) {
        before = NULL;
        for (size_t k = 0; (p = pl_day_at(runs->days[i], k)); k++, before = p) {
            double from = x + width * p->from_s / end, to = x + width * p->to_s / end;
            double at = y + LINES - LINES * fmin(c->value(p), most) / most;
            const char *colour = colours[i % COLOURS];
            if (before) {
                double last = y + LINES - LINES * fmin(c->value(before), most) / most;
                svg_line(out, from, last, from, at, colour, 1.4, NULL);
            }
            svg_line(out, from, at, to, at, colour, 1.4, NULL);
        }
    }
}

/* Returns where it ends. */
static double draw_legend(FILE *out, const day_runs *runs, double y) {
    double x = MARGIN;
    for (size_t i = 0; i < runs->count; i++) {
        const char *name = runs->outcomes[i]->policy;
        double wide = 18 + name_width(name) + 14;
        if (x + wide > WIDTH - MARGIN) {
            x = MARGIN;
            y += 20;
        }
        svg_rect(out, x, y - 10, 12, 12, colours[i % COLOURS]);
        svg_text(out, x + 18, y, 12, SVG_START, SVG_INK, false, name);
        x += wide;
    }
    return y;
}

/* Lines that the legend takes. */
static int legend_lines(const day_runs *runs) {
    double x = MARGIN;
    int lines = 1;
    for (size_t i = 0; i < runs->count; i++) {
        double wide = 18 + name_width(runs->outcomes[i]->policy) + 14;
        if (x + wide > WIDTH - MARGIN) {
            x = MARGIN;
            lines++;
        }
        x += wide;
    }
    return lines;
}

int day_chart_write(const char *path, const day_runs *runs) {
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    double panel_high = HEAD + ROW * (double)runs->count + 22;
    double below = TOP + panel_high * ((PANELS + 1) / 2);
    double high = below + 20 * legend_lines(runs) + 16 + COURSES * (LINES + AXIS + 16);
    double wide = (WIDTH - 2.0 * MARGIN - GAP) / 2;
    svg_begin(out, WIDTH, (int)high, runs->title);
    svg_line_of_text(out, MARGIN, 30, 17, WIDTH - 2 * MARGIN, SVG_INK, true, runs->title);
    svg_line_of_text(out, MARGIN, 50, 12, WIDTH - 2 * MARGIN, SVG_FAINT, false, runs->subtitle);
    for (int i = 0; i < PANELS; i++)
        draw_panel(out, &panels[i], runs, MARGIN + (i % 2) * (wide + GAP),
                   TOP + panel_high * (i / 2), wide);
    double y = draw_legend(out, runs, below) + 44;
    for (int i = 0; i < COURSES; i++, y += LINES + AXIS + 16)
        draw_course(out, &courses[i], runs, y);
    svg_end(out);
    return output_close(&file);
}
