/* timeline: see timeline.h.
 *
 * The .csv holds every moment: one line per allocation or free, bytes. The picture has one column per
 * pixel: of the moments that fall into a column it shows the one with the most allocated, and the
 * most reserved, so that no peak is lost. Stacked from below: what is outside the allocator, then
 * the kinds; the top of the stack is allocated + outside, the line above it reserved + outside,
 * which nvidia-smi shows. */
#include "timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/counts.h"
#include "core/number.h"
#include "output.h"
#include "svg.h"
#include "text.h"
#include "verbs.h"

/* ---- numbers ---- */

/* A name from a file as one CSV field (RFC 4180): quoted, quotes doubled, control characters out.
 */
static void put_field(FILE *out, const char *text) {
    putc('"', out);
    for (; text && *text; text++) {
        if (*text == '"') putc('"', out);
        putc((unsigned char)*text < 0x20 ? '?' : *text, out);
    }
    putc('"', out);
}

static void write_csv(FILE *out, const pl_report *report) {
    fputs("event,step,phase,allocated,reserved", out);
    for (int kind = 0; kind < PL_FRAGMENTATION; kind++)
        fprintf(out, ",%s", pl_kind_name((pl_kind)kind));
    fputs(",operator,module\n", out);
    for (size_t i = 0; i < report->moment_count; i++) {
        const pl_moment *m = pl_report_moment(report, i);
        fprintf(out, "%zu,%d,%s,%" PRId64 ",%" PRId64, i, m->step, pl_phase_name(m->phase),
                m->allocated, m->reserved);
        for (int kind = 0; kind < PL_FRAGMENTATION; kind++)
            fprintf(out, ",%" PRId64, pl_moment_bytes(m, (pl_kind)kind));
        putc(',', out);
        put_field(out, m->operator_name);
        putc(',', out);
        put_field(out, m->module);
        putc('\n', out);
    }
}

/* ---- the picture ---- */

enum { WIDTH = 1200, HEIGHT = 620, LEFT = 84, RIGHT = 24, TOP = 104, BOTTOM = 92 };
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, PLOT_HEIGHT = HEIGHT - TOP - BOTTOM };

/* From below. Context is no kind of a moment: it is the same throughout. */
static const struct layer {
    pl_kind kind;
    const char *colour;
} layers[] = {
    {PL_CONTEXT, "#b9b5ae"},   {PL_WEIGHTS, "#4a78a8"},     {PL_OPTIMIZER, "#a97ba3"},
    {PL_GRADIENTS, "#ee8f2f"}, {PL_ACTIVATIONS, "#5a9f52"}, {PL_INPUTS, "#8c6a56"},
    {PL_WORKSPACE, "#dd5458"}, {PL_TEMPORARY, "#e9c341"},
};
enum { LAYERS = sizeof layers / sizeof *layers };

typedef struct column {
    const pl_moment *moment; /* the one with the most allocated */
    int64_t reserved;        /* the most */
} column;

typedef struct picture {
    FILE *out;
    const pl_report *report;
    column *columns;
    size_t count;  /* of columns */
    int64_t range; /* bytes that the plot is high */
} picture;

static double x_of(const picture *p, size_t column_index) {
    return LEFT + PLOT_WIDTH * (double)column_index / (double)p->count;
}

static double y_of(const picture *p, int64_t bytes) {
    return TOP + PLOT_HEIGHT * (1 - (double)bytes / (double)p->range);
}

static void gather(picture *p) {
    size_t moments = p->report->moment_count;
    p->count = moments < PLOT_WIDTH ? moments : PLOT_WIDTH;
    p->columns = need(p->count, sizeof *p->columns);
    for (size_t i = 0; i < moments; i++) {
        const pl_moment *m = pl_report_moment(p->report, i);
        /* moments * count stays far below 2^64: a timeline is held in memory. */
        column *c = &p->columns[i * p->count / moments];
        if (!c->moment || m->allocated > c->moment->allocated) c->moment = m;
        if (m->reserved > c->reserved) c->reserved = m->reserved;
    }
}

/* Bytes up to the top of layer `top` at a column; -1: the floor. */
static int64_t stacked(const picture *p, size_t at, int top) {
    int64_t sum = 0;
    for (int i = 0; i <= top; i++)
        sum += layers[i].kind == PL_CONTEXT
                   ? p->report->overhead_bytes
                   : pl_moment_bytes(p->columns[at].moment, layers[i].kind);
    return sum;
}

static int64_t reserved_at(const picture *p, size_t at) {
    return p->columns[at].reserved + p->report->overhead_bytes;
}

static void draw_layer(picture *p, int layer) {
    bool empty = true;
    for (size_t i = 0; empty && i < p->count; i++)
        empty = stacked(p, i, layer) == stacked(p, i, layer - 1);
    if (empty) return;
    fprintf(p->out, "<path fill=\"%s\" d=\"M%s %s", layers[layer].colour,
            PL_REAL(".1f", x_of(p, 0)), PL_REAL(".1f", y_of(p, stacked(p, 0, layer))));
    for (size_t i = 1; i < p->count; i++)
        if (stacked(p, i, layer) != stacked(p, i - 1, layer))
            fprintf(p->out, "H%sV%s", PL_REAL(".1f", x_of(p, i)),
                    PL_REAL(".1f", y_of(p, stacked(p, i, layer))));
    fprintf(p->out, "H%sV%s", PL_REAL(".1f", x_of(p, p->count)),
            PL_REAL(".1f", y_of(p, stacked(p, p->count - 1, layer - 1))));
    for (size_t i = p->count - 1; i > 0; i--)
        if (stacked(p, i, layer - 1) != stacked(p, i - 1, layer - 1))
            fprintf(p->out, "H%sV%s", PL_REAL(".1f", x_of(p, i)),
                    PL_REAL(".1f", y_of(p, stacked(p, i - 1, layer - 1))));
    fprintf(p->out, "H%sZ\"/>\n", PL_REAL(".1f", x_of(p, 0)));
}

static int64_t allocated_at(const picture *p, size_t at) {
    return stacked(p, at, LAYERS - 1);
}

static void draw_curve(picture *p, int64_t (*value)(const picture *, size_t), const char *colour,
                       double width) {
    fprintf(p->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" d=\"M%s %s", colour,
            PL_REAL(".1f", width), PL_REAL(".1f", x_of(p, 0)),
            PL_REAL(".1f", y_of(p, value(p, 0))));
    for (size_t i = 1; i < p->count; i++)
        if (value(p, i) != value(p, i - 1))
            fprintf(p->out, "H%sV%s", PL_REAL(".1f", x_of(p, i)),
                    PL_REAL(".1f", y_of(p, value(p, i))));
    fprintf(p->out, "H%s\"/>\n", PL_REAL(".1f", x_of(p, p->count)));
}

/* "4 GiB", "512 MiB" */
static small_text tick_text(int64_t bytes) {
    small_text t;
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    int unit = 0;
    while (unit < 3 && value >= 1024) {
        value /= 1024;
        unit++;
    }
    snprintf(t.text, sizeof t.text, "%s %s", PL_REAL("g", value), units[unit]);
    return t;
}

static void draw_axes(picture *p) {
    int64_t step = svg_step(p->range, 8);
    for (int64_t at = 0; at <= p->range; at += step) {
        double y = y_of(p, at);
        svg_line(p->out, LEFT, y, WIDTH - RIGHT, y, SVG_GRID, 1, NULL);
        svg_text(p->out, LEFT - 8, y + 4, 12, SVG_END, SVG_INK, false, tick_text(at).text);
    }
    svg_text(p->out, LEFT, HEIGHT - BOTTOM + 18, 12, SVG_START, SVG_FAINT, false,
             "allocations and frees, in order");
    char count[48];
    snprintf(count, sizeof count, "%zu of them", p->report->moment_count);
    svg_text(p->out, WIDTH - RIGHT, HEIGHT - BOTTOM + 18, 12, SVG_END, SVG_FAINT, false, count);
}

/* The first text that fits into `width`, centred; nothing where none does. */
static void label(picture *p, double from, double to, double y, bool bold,
                  const char *const *texts) {
    for (; *texts; texts++) {
        if (svg_text_width(*texts, 12) + 6 > to - from) continue;
        svg_text(p->out, (from + to) / 2, y, 12, SVG_MIDDLE, bold ? SVG_INK : SVG_FAINT, bold,
                 *texts);
        return;
    }
}

/* Bands: loading, then each step; in a step its phases. The short input phase goes with what
 * follows. */
static void draw_bands(picture *p, bool names) {
    static const char *const phase_names[PL_PHASES][4] = {
        [PL_PHASE_LOAD] = {"load", NULL},
        [PL_PHASE_INPUT] = {NULL},
        [PL_PHASE_FORWARD] = {"forward", "fwd", "f", NULL},
        [PL_PHASE_BACKWARD] = {"backward", "bwd", "b", NULL},
        [PL_PHASE_OPTIMIZER] = {"optimizer", "opt", "o", NULL},
    };
    for (size_t from = 0, to; from < p->count; from = to) {
        const pl_moment *m = p->columns[from].moment;
        for (to = from + 1; to < p->count; to++) {
            const pl_moment *n = p->columns[to].moment;
            if (n->phase != m->phase || n->step != m->step) break;
        }
        double x = x_of(p, from), end = x_of(p, to);
        if (names)
            label(p, x, end, TOP - 10, false, phase_names[m->phase]);
        else if (m->phase == PL_PHASE_BACKWARD)
            svg_rect(p->out, x, TOP, end - x, PLOT_HEIGHT, "#ecece6");
        else if (m->phase == PL_PHASE_OPTIMIZER)
            svg_rect(p->out, x, TOP, end - x, PLOT_HEIGHT, "#e2e2da");
    }
    if (!names) return;
    for (size_t from = 0, to; from < p->count; from = to) {
        const pl_moment *m = p->columns[from].moment;
        bool load = m->phase == PL_PHASE_LOAD;
        for (to = from + 1; to < p->count; to++) {
            const pl_moment *n = p->columns[to].moment;
            if (n->step != m->step || (n->phase == PL_PHASE_LOAD) != load) break;
        }
        double x = x_of(p, from), end = x_of(p, to);
        if (from) svg_line(p->out, x, TOP - 40, x, HEIGHT - BOTTOM, SVG_FAINT, 1, "2 3");
        char text[32];
        snprintf(text, sizeof text, "step %d", m->step + 1);
        if (!load) label(p, x, end, TOP - 27, true, (const char *const[]){text, text + 5, NULL});
    }
}

static void draw_capacity(picture *p) {
    int64_t capacity = p->report->usable_bytes;
    char text[192];
    if (capacity > p->range) { /* beyond the picture: an arrow says how far */
        snprintf(text, sizeof text, "\u2191 %s usable of %s", text_bytes(capacity).text,
                 p->report->gpu->title);
        svg_text(p->out, WIDTH - RIGHT - 4, TOP + 14, 12, SVG_END, "#c2272d", false, text);
        return;
    }
    snprintf(text, sizeof text, "%s usable of %s", text_bytes(capacity).text,
             p->report->gpu->title);
    double y = y_of(p, capacity);
    svg_line(p->out, LEFT, y, WIDTH - RIGHT, y, "#c2272d", 1.5, "7 4");
    svg_text(p->out, LEFT + 6, y - 6, 12, SVG_START, "#c2272d", false, text);
}

/* A dot at the first column of the highest reserve, of these the one with the most allocated. */
static void draw_peak(picture *p) {
    size_t best = 0;
    for (size_t i = 1; i < p->count; i++)
        if (p->columns[i].reserved > p->columns[best].reserved ||
            (p->columns[i].reserved == p->columns[best].reserved &&
             p->columns[i].moment->allocated > p->columns[best].moment->allocated))
            best = i;
    double x = x_of(p, best), y = y_of(p, reserved_at(p, best));
    const pl_report *report = p->report;
    char text[400];
    snprintf(text, sizeof text, "peak %s%s%s%s%s", text_bytes(report->peak_bytes).text,
             report->peak_operator && report->peak_operator[0] ? "; most is allocated in " : "",
             report->peak_operator ? report->peak_operator : "",
             report->peak_module && report->peak_module[0] ? " of " : "",
             report->peak_module ? report->peak_module : "");
    svg_circle(p->out, x, y, 4, SVG_INK, 1);
    bool left_half = x < LEFT + PLOT_WIDTH / 2.0;
    svg_text(p->out, left_half ? x - 2 : x + 2, y - 10, 12, left_half ? SVG_START : SVG_END,
             SVG_INK, true, text);
}

/* The most a kind ever has; the context is the same throughout. */
static int64_t most_of(const pl_report *report, pl_kind kind) {
    if (kind >= PL_FRAGMENTATION) return pl_report_bytes(report, (pl_kind)kind);
    int64_t most = 0;
    for (size_t i = 0; i < report->moment_count; i++) {
        int64_t bytes = pl_moment_bytes(pl_report_moment(report, i), kind);
        if (bytes > most) most = bytes;
    }
    return most;
}

static void draw_legend(picture *p) {
    double x = LEFT, y = HEIGHT - 44;
    static const struct {
        const char *name, *colour;
    } lines[] = {{"reserved", SVG_INK}, {"allocated", "#55554f"}};
    for (size_t i = 0; i < 2; i++) {
        svg_line(p->out, x, y - 4, x + 16, y - 4, lines[i].colour, i == 0 ? 2 : 1, NULL);
        svg_text(p->out, x + 21, y, 12, SVG_START, SVG_INK, false, lines[i].name);
        x += 21 + svg_text_width(lines[i].name, 12) + 16;
    }
    for (int i = 0; i < LAYERS; i++) {
        char text[64];
        int64_t most = most_of(p->report, layers[i].kind);
        if (most == 0) continue;
        snprintf(text, sizeof text, "%s %s", pl_kind_name(layers[i].kind), text_bytes(most).text);
        double width = 16 + svg_text_width(text, 12) + 16;
        if (x + width > WIDTH - RIGHT) {
            x = LEFT;
            y += 22;
        }
        svg_rect(p->out, x, y - 10, 12, 12, layers[i].colour);
        svg_text(p->out, x + 17, y, 12, SVG_START, SVG_INK, false, text);
        x += width;
    }
}

static void write_svg(FILE *out, const pl_report *report, const pl_model_info *model,
                      const pl_job *job) {
    picture p = {.out = out, .report = report};
    gather(&p);
    int64_t top = 1;
    for (size_t i = 0; i < p.count; i++)
        if (reserved_at(&p, i) > top) top = reserved_at(&p, i);
    p.range = top + top / 10; /* room for the peak's label */
    int64_t capacity = report->usable_bytes;
    if (capacity > 0 && capacity < top + top / 2 && capacity + capacity / 16 > p.range)
        p.range = capacity + capacity / 16;
    char title[1024], line[1024];
    snprintf(title, sizeof title, "%s: GPU memory over the first training steps", model->name);
    job_line(line, sizeof line, model, report, job);
    double room = PLOT_WIDTH; /* no title is cut */
    if (room < svg_line_width(title, true)) room = svg_line_width(title, true);
    if (room < svg_line_width(line, false)) room = svg_line_width(line, false);
    svg_begin(out, LEFT + (int)room + RIGHT, HEIGHT, title);
    svg_line_of_text(out, LEFT, 26, 17, room, SVG_INK, true, title);
    svg_line_of_text(out, LEFT, 45, 12, room, SVG_INK, false, line);
    svg_line_of_text(
        out, LEFT, 61, 11, PLOT_WIDTH, SVG_FAINT, false,
        "lines and areas stand on what lies outside the allocator; in the legend, the most of each "
        "kind");
    draw_bands(&p, false);
    draw_axes(&p);
    for (int i = 0; i < LAYERS; i++) draw_layer(&p, i);
    draw_curve(&p, allocated_at, "#55554f", 0.5);
    draw_curve(&p, reserved_at, SVG_INK, 1.8);
    draw_bands(&p, true);
    draw_capacity(&p);
    draw_peak(&p);
    draw_legend(&p);
    svg_end(out);
    free(p.columns);
}

int timeline_write(const char *path, const pl_report *report, const pl_model_info *model,
                   const pl_job *job) {
    if (report->moment_count == 0)
        return complain(PL_USAGE, "--timeline: estimator %s has no timeline; these have: %s",
                        report->estimator, simulating_names());
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    if (text_ends(path, ".csv"))
        write_csv(out, report);
    else
        write_svg(out, report, model, job);
    return output_close(&file);
}
