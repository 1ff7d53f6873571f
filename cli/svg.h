/* svg: the few shapes that the pictures are made of, written as SVG 1.1.
 *
 * A picture has its own light background, so that it reads the same on a light and on a dark page.
 * Units are pixels, y grows downwards. */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdio.h>

#include <plimsoll/plimsoll.h>

#define SVG_INK   "#2b2b2b"
#define SVG_FAINT "#8a8a86"
#define SVG_GRID  "#dcdcd6"

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

void svg_begin(FILE *out, int width, int height, const char *title);
void svg_end(FILE *out);
void svg_rect(FILE *out, double x, double y, double width, double height, const char *fill);
/* dash: NULL or "4 3" */
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *stroke,
              double width, const char *dash);
void svg_circle(FILE *out, double x, double y, double radius, const char *fill, double opacity);
/* bold: heavier; text is escaped. */
void svg_text(FILE *out, double x, double y, double size, svg_anchor anchor, const char *fill,
              bool bold, const char *text);
/* A line that is smaller where it is too long for `width` (down to 10), then has an ellipsis in its
 * middle; the whole text is its <title>. */
void svg_line_of_text(FILE *out, double x, double y, double size, double width, const char *fill,
                      bool bold, const char *text);
/* The width below which such a line has an ellipsis: a picture's titles are given that much. */
double svg_line_width(const char *text, bool bold);
/* About how wide a text is: letters of a sans-serif face are near 0.56 of its size. */
double svg_text_width(const char *text, double size);

/* Least round step (1, 2, 4, 8, ... of a binary unit) that cuts `range` bytes into at most `ticks`.
 */
int64_t svg_step(int64_t range, int ticks);

#endif
