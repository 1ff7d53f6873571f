/* forms: see forms.h.
 *
 * A form is the operator's name and the dimensions of each tensor that it is given, of a list those of
 * its first. Left out: types, layouts and sizes, of which the simulation's rules know. */
#include "estimate/forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mix.h"

/* ---- of a graph ---- */

static size_t append(char *text, size_t at, const char *more) {
    while (*more && at + 1 < PL_FORM_MOST) text[at++] = *more++;
    text[at] = '\0';
    return at;
}

static size_t append_dims(char *text, size_t at, const pl_graph *graph, int32_t tensor) {
    if (tensor < 0 || tensor >= graph->tensor_count) return at;
    int dims = graph->tensors[tensor].dims;
    char digits[] = {'/', (char)('0' + dims % 10), '\0', '\0'};
    if (dims >= 10) {
        digits[1] = (char)('0' + dims / 10);
        digits[2] = (char)('0' + dims % 10);
    }
    return append(text, at, digits);
}

static void form_of(char text[PL_FORM_MOST], const pl_graph *graph, const pl_node *node) {
    size_t at = append(text, 0, node->target);
    for (uint32_t i = 0; i < node->arg_count; i++) {
        const pl_arg *arg = &node->args[i];
        if (arg->kind == PL_ARG_TENSOR) at = append_dims(text, at, graph, arg->tensor);
        if (arg->kind == PL_ARG_TENSORS && arg->count)
            at = append_dims(text, at, graph, arg->list[0]);
    }
}

static double made_by(const pl_graph *graph, const pl_node *node) {
    double bytes = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] < 0) continue;
        const pl_tensor *t = &graph->tensors[node->outputs[i]];
        bytes += (double)pl_tensor_elements(t) * pl_dtype_size(t->dtype);
    }
    return bytes;
}

void pl_forms_each(const pl_graph *graph, pl_forms_see *see, void *context) {
    char text[PL_FORM_MOST];
    for (int32_t i = 0; i < graph->node_count; i++) {
        form_of(text, graph, &graph->nodes[i]);
        see(context, text, made_by(graph, &graph->nodes[i]));
    }
}

/* ---- a set ---- */

struct pl_forms {
    const char **texts; /* [room], NULL: free */
    size_t count, room; /* room: a power of two */
};

static size_t place_of(const pl_forms *f, const char *form) {
    uint64_t secret = pl_mix_secret(f), hash = 0;
    for (const char *c = form; *c; c++)
        hash = pl_mix(hash + 1, (uint64_t)(unsigned char)*c, secret);
    size_t at = (size_t)(hash ^ hash >> 29) & (f->room - 1);
    while (f->texts[at] && strcmp(f->texts[at], form) != 0) at = (at + 1) & (f->room - 1);
    return at;
}

static bool make_room(pl_forms *f) {
    if (2 * f->count < f->room) return true;
    pl_forms grown = {.count = f->count, .room = f->room ? 2 * f->room : 1024};
    grown.texts = calloc(grown.room, sizeof *grown.texts);
    if (!grown.texts) return false;
    const char **old = f->texts;
    size_t count = f->room;
    *f = grown;
    for (size_t i = 0; i < count; i++)
        if (old[i]) f->texts[place_of(f, old[i])] = old[i];
    free(old);
    return true;
}

pl_forms *pl_forms_new(void) {
    pl_forms *forms = calloc(1, sizeof *forms);
    if (forms && !make_room(forms)) pl_forms_close(&forms);
    return forms;
}

bool pl_forms_add(pl_forms *forms, const char *form) {
    if (!make_room(forms)) return false;
    size_t at = place_of(forms, form);
    if (!forms->texts[at]) forms->count++;
    forms->texts[at] = form;
    return true;
}

bool pl_forms_have(const pl_forms *forms, const char *form) {
    return forms->texts[place_of(forms, form)] != NULL;
}

void pl_forms_close(pl_forms **forms) {
    if (!forms || !*forms) return;
    free((*forms)->texts);
    free(*forms);
    *forms = NULL;
}

/* ---- what is strange ---- */

typedef struct sum {
    const pl_forms *known;
    double bytes;
} sum;

static void add_strange(void *context, const char *form, double bytes) {
    sum *s = context;
    if (!pl_forms_have(s->known, form)) s->bytes += bytes;
}

double pl_forms_strange(const pl_trained *part, const pl_graph *graph) {
    pl_forms *known = pl_forms_new();
    bool ok = known != NULL;
    for (size_t i = 0; ok && i < part->column_count; i++)
        ok = pl_forms_add(known, part->columns[i].name);
    sum s = {.known = known};
    if (ok) pl_forms_each(graph, add_strange, &s);
    pl_forms_close(&known);
    return ok ? s.bytes : NAN;
}
