/* output: see output.h. */
#include "output.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "text.h"

/* Which verbs take an option is options.c's to say. The writers: timeline.c, times.c, heatmap.c,
 * export.c (CSV, sizes), scatter.c, bars.c, markdown.c (report), curve.c, day_chart.c. */
static const struct {
    const char *option;
    size_t path; /* its place in the request, a const char * */
    const char *ending, *other;
} outputs[] = {
    {"timeline", offsetof(request, timeline), ".svg", ".csv"},
    {"times", offsetof(request, times), ".svg", ".csv"},
    {"heatmap", offsetof(request, heatmap), ".svg", NULL},
    {"scatter", offsetof(request, scatter), ".svg", NULL},
    {"bars", offsetof(request, bars), ".svg", NULL},
    {"report", offsetof(request, report), ".md", NULL},
    {"curve", offsetof(request, curve), ".svg", NULL},
    {"chart", offsetof(request, chart), ".svg", NULL},
};

int outputs_check(const request *r) {
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const char *path, *ending = outputs[i].ending, *other = outputs[i].other;
        memcpy(&path, (const char *)r + outputs[i].path, sizeof path);
        if (!path || text_ends(path, ending) || (other && text_ends(path, other))) continue;
        if (other)
            return complain(PL_USAGE, "--%s: %s ends neither in %s nor in %s", outputs[i].option,
                            path, ending, other);
        return complain(PL_USAGE, "--%s: %s does not end in %s", outputs[i].option, path, ending);
    }
    return 0;
}

static int complain_of_output(const char *path) {
    return complain(PL_MISSING, "%s: could not be written: %s", path, strerror(errno));
}

FILE *output_open(output *o, const char *path, int *code) {
    o->path = path;
    if (pl_replace_open(&o->file, path)) return o->file.out;
    *code = complain_of_output(path);
    return NULL;
}

int output_close(output *o) {
    return pl_replace_close(&o->file, true) ? 0 : complain_of_output(o->path);
}
