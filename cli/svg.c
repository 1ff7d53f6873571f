/* svg: see svg.h. Colours and sizes stand as attributes, not in a style sheet, which some viewers
 * ignore. */
#include "svg.h"

#include <errno.h>
#include <string.h>

#include "core/number.h"
#include "text.h"

/* As XML 1.0 (section 2.2) takes it, which has no form for most control characters: they, and what
 * is no UTF-8, become U+FFFD. */
static void put_escaped(FILE *out, const char *text) {
    for (int length; *text; text += length) {
        uint32_t code;
        length = text_sequence(text, &code);
        if (length == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xfffe ||
            code == 0xffff) {
            fputs("\xef\xbf\xbd", out);
            if (length == 0) length = 1;
            continue;
        }
        switch (code) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fwrite(text, 1, (size_t)length, out);
        }
    }
}

void svg_begin(FILE *out, int width, int height, const char *title) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" "
            "font-family=\"'DejaVu Sans', 'Noto Sans', Arial, Helvetica, sans-serif\">\n<title>",
            width, height, width, height);
    put_escaped(out, title);
    fputs("</title>\n", out);
    svg_rect(out, 0, 0, width, height, "#f6f6f3");
}

void svg_end(FILE *out) {
    fputs("</svg>\n", out);
}

void svg_rect(FILE *out, double x, double y, double width, double height, const char *fill) {
    fprintf(out, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"/>\n",
            PL_REAL(".1f", x), PL_REAL(".1f", y), PL_REAL(".1f", width), PL_REAL(".1f", height),
            fill);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *stroke,
              double width, const char *dash) {
    fprintf(out, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" stroke=\"%s\" stroke-width=\"%s\"",
            PL_REAL(".1f", x1), PL_REAL(".1f", y1), PL_REAL(".1f", x2), PL_REAL(".1f", y2), stroke,
            PL_REAL(".1f", width));
    if (dash) fprintf(out, " stroke-dasharray=\"%s\"", dash);
    fputs("/>\n", out);
}

void svg_circle(FILE *out, double x, double y, double radius, const char *fill, double opacity) {
    fprintf(out, "<circle cx=\"%s\" cy=\"%s\" r=\"%s\" fill=\"%s\" fill-opacity=\"%s\"/>\n",
            PL_REAL(".1f", x), PL_REAL(".1f", y), PL_REAL(".1f", radius), fill,
            PL_REAL(".2f", opacity));
}

void svg_text(FILE *out, double x, double y, double size, svg_anchor anchor, const char *fill,
              bool bold, const char *text) {
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(out, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" text-anchor=\"%s\" fill=\"%s\"%s>",
            PL_REAL(".1f", x), PL_REAL(".1f", y), PL_REAL(".0f", size), anchors[anchor], fill,
            bold ? " font-weight=\"bold\"" : "");
    put_escaped(out, text);
    fputs("</text>\n", out);
}

/* Bytes of the first (or last) `letters` of a text. */
static size_t bytes_of(const char *text, size_t letters, bool last) {
    size_t length = strlen(text), at = last ? length : 0;
    while (letters > 0 && (last ? at > 0 : at < length)) {
        if (last) do
                at--;
            while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
        else
            do at++;
            while (at < length && ((unsigned char)text[at] & 0xc0) == 0x80);
        letters--;
    }
    return last ? length - at : at;
}

enum { SMALLEST = 10 };

static double weight_of(bool bold) {
    return bold ? 1.08 : 1;
}

double svg_line_width(const char *text, bool bold) {
    return weight_of(bold) * svg_text_width(text, SMALLEST) + 1;
}

void svg_line_of_text(FILE *out, double x, double y, double size, double width, const char *fill,
                      bool bold, const char *text) {
    double weight = weight_of(bold);
    while (size > SMALLEST && weight * svg_text_width(text, size) > width) size--;
    fprintf(out, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" fill=\"%s\"%s><title>",
            PL_REAL(".1f", x), PL_REAL(".1f", y), PL_REAL(".0f", size), fill,
            bold ? " font-weight=\"bold\"" : "");
    put_escaped(out, text);
    fputs("</title>", out);
    if (weight * svg_text_width(text, size) <= width) {
        put_escaped(out, text);
    } else {
        size_t room = (size_t)(width / (weight * svg_text_width("m", size))), half = room / 2;
        size_t head = bytes_of(text, half, false),
               tail = bytes_of(text, half > 1 ? half - 1 : 0, true);
        char part[1024];
        snprintf(part, sizeof part, "%.*s", (int)head, text);
        put_escaped(out, part);
        fputs("\xe2\x80\xa6", out);
        put_escaped(out, text + strlen(text) - tail);
    }
    fputs("</text>\n", out);
}

double svg_text_width(const char *text, double size) {
    size_t letters = 0;
    for (; *text; text++) letters += ((unsigned char)*text & 0xc0) != 0x80;
    return 0.58 * size * (double)letters;
}

int64_t svg_step(int64_t range, int ticks) {
    int64_t step = 1024;
    while (step < INT64_MAX / 4 && range / step > ticks) step *= 2;
    return step;
}
