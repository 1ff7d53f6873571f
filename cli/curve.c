/* curve: see curve.h. The loss is on a logarithmic axis where all of it is above 0 and it falls by
 * more than a factor of TOO_WIDE; an epoch of boosting is a tree. */
#include "curve.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "output.h"
#include "svg.h"
#include "text.h"

enum { WIDTH = 900, HEIGHT = 480, LEFT = 84, RIGHT = 24, TOP = 84, BOTTOM = 56, TOO_WIDE = 10 };
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, PLOT_HEIGHT = HEIGHT - TOP - BOTTOM };

#define TRAIN_COLOUR "#4a78a8"
#define VALID_COLOUR "#ee8f2f"

void curve_add(curve *c, const pl_train_point *point) {
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 256;
        pl_train_point *points = need(capacity, sizeof *points);
        if (c->count) memcpy(points, c->points, c->count * sizeof *points);
        free(c->points);
        c->points = points;
        c->capacity = capacity;
    }
    c->points[c->count++] = *point;
}

void curve_free(curve *c) {
    free(c->points);
    *c = (curve){0};
}

static double train_loss(const pl_train_point *p) {
    return p->train_loss;
}
static double valid_loss(const pl_train_point *p) {
    return p->valid_loss;
}

static bool starts_again(const curve *c, size_t at) {
    return at > 0 && c->points[at].epoch <= c->points[at - 1].epoch;
}

const pl_train_point *curve_best(const curve *c) {
    const pl_train_point *best = NULL;
    size_t last = 0;
    for (size_t i = 0; i < c->count && !starts_again(c, i); i++) {
        last = i;
        if (isfinite(c->points[i].valid_loss) &&
            (!best || c->points[i].valid_loss < best->valid_loss))
            best = &c->points[i];
    }
    /* Nothing held out: training ends where it ends. */
    if (!best && c->count) best = &c->points[last];
    return best;
}

typedef struct frame {
    bool logarithmic;
    double least, most; /* losses, logarithms (base 10) of them where logarithmic */
    int epochs;         /* the last that ran */
} frame;

static double x_of(const frame *f, int epoch) {
    return LEFT + PLOT_WIDTH * (f->epochs > 1 ? (double)(epoch - 1) / (f->epochs - 1) : 0.5);
}

static double y_of(const frame *f, double loss) {
    double at = f->logarithmic ? log10(loss) : loss;
    return TOP + PLOT_HEIGHT * (1 - (at - f->least) / (f->most - f->least));
}

static frame frame_of(const curve *c) {
    frame f = {.least = INFINITY, .most = -INFINITY};
    for (size_t i = 0; i < c->count; i++) {
        double losses[] = {c->points[i].train_loss, c->points[i].valid_loss};
        for (int k = 0; k < 2; k++) {
            if (!isfinite(losses[k])) continue;
            f.least = fmin(f.least, losses[k]);
            f.most = fmax(f.most, losses[k]);
        }
        if (c->points[i].epoch > f.epochs) f.epochs = c->points[i].epoch;
    }
    if (!(f.least <= f.most)) f.least = 0, f.most = 1;
    f.logarithmic = f.least > 0 && f.most / f.least > TOO_WIDE;
    if (f.logarithmic) {
        f.least = log10(f.least);
        f.most = log10(f.most);
    } else if (f.least > 0) {
        f.least = 0;
    }
    double room = f.most > f.least ? 0.05 * (f.most - f.least) : fmax(fabs(f.most), 1);
    f.most += room;
    if (f.logarithmic || f.least < 0) f.least -= room;
    return f;
}

/* Least of 1, 2, 5, 10, ... times a power of ten that cuts range into at most `ticks`. */
static double round_step(double range, int ticks) {
    double step = pow(10, floor(log10(range / ticks)));
    static const double factors[] = {1, 2, 5, 10};
    for (size_t i = 0; i < 4; i++)
        if (range / (step * factors[i]) <= ticks) return step * factors[i];
    return step * 10;
}

static void draw_level(FILE *out, const frame *f, double loss) {
    char text[48];
    double y = y_of(f, loss);
    svg_line(out, LEFT, y, LEFT + PLOT_WIDTH, y, SVG_GRID, 1, NULL);
    snprintf(text, sizeof text, "%s", PL_REAL(".3g", loss));
    svg_text(out, LEFT - 8, y + 4, 12, SVG_END, SVG_INK, false, text);
}

static void draw_grid(FILE *out, const frame *f) {
    char text[48];
    svg_rect(out, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, "#ffffff");
    if (f->logarithmic) { /* 1, 2, 5 of each decade, the 1 alone where there are many */
        static const double parts[] = {1, 2, 5};
        size_t count = f->most - f->least > 3 ? 1 : 3;
        for (double decade = floor(f->least); decade <= f->most; decade++)
            for (size_t i = 0; i < count; i++) {
                double at = decade + log10(parts[i]);
                if (at >= f->least && at <= f->most) draw_level(out, f, pow(10, at));
            }
    } else {
        double step = round_step(f->most - f->least, 7);
        for (double k = ceil(f->least / step); k * step <= f->most; k++)
            draw_level(out, f, k * step);
    }
    int every = f->epochs > 1 ? (int)ceil(round_step(f->epochs, 10)) : 1;
    for (int epoch = every; epoch <= f->epochs; epoch += every) {
        double x = x_of(f, epoch);
        svg_line(out, x, TOP + PLOT_HEIGHT, x, TOP + PLOT_HEIGHT + 4, SVG_FAINT, 1, NULL);
        snprintf(text, sizeof text, "%d", epoch);
        svg_text(out, x, TOP + PLOT_HEIGHT + 20, 12, SVG_MIDDLE, SVG_INK, false, text);
    }
    svg_text(out, LEFT + PLOT_WIDTH / 2.0, HEIGHT - 14, 13, SVG_MIDDLE, SVG_INK, false,
             "epochs; of boosting, trees");
}

/* A line for each training: where several run one after the other, epochs start again. */
static bool draw_losses(FILE *out, const frame *f, const curve *c,
                        double (*loss)(const pl_train_point *), const char *colour) {
    bool open = false, any = false;
    for (size_t i = 0; i < c->count; i++) {
        double at = loss(&c->points[i]);
        if (open && (!isfinite(at) || starts_again(c, i))) {
            fputs("\"/>\n", out);
            open = false;
        }
        if (!isfinite(at)) continue;
        if (!open)
            fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" d=\"M", colour);
        else
            putc('L', out);
        fprintf(out, "%s %s", PL_REAL(".1f", x_of(f, c->points[i].epoch)),
                PL_REAL(".1f", y_of(f, at)));
        open = any = true;
    }
    if (open) fputs("\"/>\n", out);
    return any;
}

int curve_write(const curve *c, const char *path, const char *estimator) {
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    frame f = frame_of(c);
    const pl_train_point *best = curve_best(c);
    char text[160];
    snprintf(text, sizeof text, "Training of %s: loss by epoch", estimator);
    svg_begin(out, WIDTH, HEIGHT, text);
    svg_text(out, LEFT, 30, 16, SVG_START, SVG_INK, true, text);
    draw_grid(out, &f);
    bool trained = draw_losses(out, &f, c, train_loss, TRAIN_COLOUR);
    bool valid = draw_losses(out, &f, c, valid_loss, VALID_COLOUR);
    double x = LEFT;
    const struct {
        bool shown;
        const char *text, *colour;
    } lines[] = {{trained, "training", TRAIN_COLOUR},
                 {valid, "validation (held out)", VALID_COLOUR}};
    for (size_t i = 0; i < 2; i++) {
        if (!lines[i].shown) continue;
        svg_line(out, x, 56, x + 20, 56, lines[i].colour, 2.5, NULL);
        svg_text(out, x + 26, 60, 12, SVG_START, SVG_INK, false, lines[i].text);
        x += 26 + svg_text_width(lines[i].text, 12) + 18;
    }
    if (best && valid) {
        double at = x_of(&f, best->epoch), y = y_of(&f, best->valid_loss);
        bool left = at < LEFT + PLOT_WIDTH / 2.0;
        svg_line(out, at, TOP, at, TOP + PLOT_HEIGHT, SVG_FAINT, 1, "4 3");
        svg_circle(out, at, y, 4.5, VALID_COLOUR, 1);
        snprintf(text, sizeof text, "best: epoch %d, %s", best->epoch,
                 PL_REAL(".4g", best->valid_loss));
        svg_text(out, left ? at + 8 : at - 8, y - 10, 12, left ? SVG_START : SVG_END, SVG_INK, true,
                 text);
    }
    if (f.logarithmic)
        svg_text(out, WIDTH - RIGHT, 60, 12, SVG_END, SVG_FAINT, false, "logarithmic axis");
    svg_end(out);
    return output_close(&file);
}
