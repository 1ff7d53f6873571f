/* pt2_module: the module a node ran in, the line of code it came from, and which weights are tied.
 *
 * nn_module_stack is "key,path,type" for each module from the model inwards, joined by ';'
 * (serialize_metadata in torch/_export/serde/serialize.py). A key that ends in @N is the Nth
 * further call of the same module. Keys of older versions hold brackets (L['self'].layers[0]),
 * types may too, so commas within brackets do not count. stack_trace is Python's traceback text. */
#define _GNU_SOURCE /* memrchr, memmem */
#include "import/pt2_reader.h"

#include <stdio.h>
#include <string.h>

/* The next `stop` at or after `at` outside brackets; end where there is none. */
static const char *outside(const char *at, const char *end, char stop) {
    const char *plain = memchr(at, stop, (size_t)(end - at)), *reach = plain ? plain : end;
    if (!memchr(at, '[', (size_t)(reach - at)) && !memchr(at, '(', (size_t)(reach - at)))
        return reach;
    int depth = 0;
    for (; at < end; at++) {
        if (*at == '[' || *at == '(')
            depth++;
        else if ((*at == ']' || *at == ')') && depth > 0)
            depth--;
        else if (*at == stop && depth == 0)
            return at;
    }
    return end;
}

/* The call's number behind the last @ of a key, 0 where there is none. */
static int32_t call_of(const char *key, const char *end) {
    const char *at = end;
    while (at > key && at[-1] >= '0' && at[-1] <= '9') at--;
    if (at == end || at == key || at[-1] != '@' || end - at > 8) return 0;
    int32_t call = 0;
    for (; at < end; at++) call = call * 10 + (*at - '0');
    return call;
}

static bool one_module(reader *r, const char *start, const char *end, int32_t *parent) {
    const char *comma = outside(start, end, ','), *path = comma < end ? comma + 1 : end;
    const char *second = outside(path, end, ','), *type = second < end ? second + 1 : end;
    pl_json_text whole = {start, (size_t)(end - start), false};
    int32_t entry = pl_pt2_name(r, &whole, space_of(SPACE_MODULES, *parent));
    if (entry < 0) return false;
    if (r->names.entries[entry].value < 0) {
        pl_module m = {.parent = *parent, .call = call_of(start, comma)};
        pl_json_text path_text = {path, (size_t)(second - path), false},
                     type_text = {type, (size_t)(end - type), false};
        const char *at = memchr(path, '@', path_text.length);
        if (at && call_of(path, second) > 0) path_text.length = (size_t)(at - path);
        m.path = pl_pt2_intern(r, &path_text);
        m.type = pl_pt2_intern(r, &type_text);
        if (!m.path || !m.type || !GROW(r, r->modules, r->module_count, r->module_room))
            return pl_pt2_no_memory(r);
        r->modules[r->module_count] = m;
        r->names.entries[entry].value = (int32_t)r->module_count++;
    }
    *parent = r->names.entries[entry].value;
    return true;
}

bool pl_pt2_module(reader *r, const pl_json_text *stack, int32_t *module) {
    *module = -1;
    if (stack->length == 0) return true;
    if (stack->length == r->last_stack.length &&
        !memcmp(stack->bytes, r->last_stack.bytes, stack->length)) {
        *module = r->last_module;
        return true;
    }
    int32_t entry = pl_pt2_name(r, stack, SPACE_STACKS);
    if (entry < 0) return false;
    if (r->names.entries[entry].value < 0) {
        /* the entry's bytes have no escapes in them */
        const char *at = r->names.entries[entry].bytes, *end = at + r->names.entries[entry].length;
        static const char empty[] = "_empty_nn_module_stack"; /* nodes that export made itself */
        bool none = (size_t)(end - at) >= sizeof empty - 1 && !memcmp(at, empty, sizeof empty - 1);
        while (!none && at < end) {
            const char *stop = outside(at, end, ';');
            if (stop > at && !one_module(r, at, stop, module)) return false;
            at = stop < end ? stop + 1 : end;
        }
        r->names.entries[entry].value = *module + 1;
    }
    *module = r->last_module = r->names.entries[entry].value - 1;
    r->last_stack = *stack;
    return true;
}

/* ---- tied weights ---- */

static bool same_shape(const pl_tensor *a, const pl_tensor *b) {
    return a->dtype == b->dtype && a->dims == b->dims &&
           !memcmp(a->sizes, b->sizes, a->dims * sizeof *a->sizes);
}

/* Whether parameter `id`, used in a module whose path it does not have, stands there for the
 * module's own. */
static void tie(reader *r, int32_t id, const pl_module *m) {
    const pl_tensor *t = &r->tensors[id];
    if (t->role != PL_ROLE_PARAMETER) return;
    size_t length = strlen(m->path);
    const char *leaf = strrchr(t->path, '.');
    leaf = leaf ? leaf + 1 : t->path;
    if (leaf - t->path == (ptrdiff_t)length + 1 && !strncmp(t->path, m->path, length)) return;
    char path[512];
    int total = snprintf(path, sizeof path, "%s%s%s", m->path, length ? "." : "", leaf);
    if (total < 0 || (size_t)total >= sizeof path) return;
    int32_t entry = pl_names_find(&r->names, path, (size_t)total, SPACE_PATHS);
    int32_t other = entry < 0 ? -1 : r->names.entries[entry].value;
    if (other < 0 || other == id) return;
    pl_tensor *o = &r->tensors[other];
    if (o->role == PL_ROLE_PARAMETER && !r->notes[other].used && o->tied < 0 && same_shape(t, o))
        o->tied = id;
}

/* x.bias, taken by no node, where x.decoder.bias is taken. */
static void tie_decoder(reader *r, pl_tensor *t) {
    const char *leaf = strrchr(t->path, '.');
    char path[512];
    if (!leaf || strlen(t->path) > sizeof path - 16) return;
    int total = snprintf(path, sizeof path, "%.*s.decoder%s", (int)(leaf - t->path), t->path, leaf);
    int32_t entry = pl_names_find(&r->names, path, (size_t)total, SPACE_PATHS);
    int32_t other = entry < 0 ? -1 : r->names.entries[entry].value;
    if (other >= 0 && r->notes[other].used && same_shape(t, &r->tensors[other])) t->tied = other;
}

/* Tied weights have one storage and several names in the signature; the graph uses one of the names
 * for all. The file does not say which are tied when it was exported without weights. But a node
 * that runs in module wte and takes lm_head.weight, while wte.weight is taken by no node, shows it.
 * A parameter that no node takes and that has the shape of a tied one is taken to be one more name
 * of it (T5's shared.weight); so is the bias of a BERT-like head, predictions.bias, where
 * predictions.decoder.bias is in use. Checked on 2026-11-15 against the parameter counts of 909
 * measured jobs: all agree. */
void pl_pt2_find_ties(reader *r) {
    for (size_t n = 0; n < r->node_count; n++) {
        const pl_node *node = &r->nodes[n];
        for (uint32_t a = 0; a < node->arg_count && node->module >= 0; a++)
            if (node->args[a].kind == PL_ARG_TENSOR)
                tie(r, node->args[a].tensor, &r->modules[node->module]);
    }
    int32_t known[8];
    size_t count = 0;
    for (size_t i = 0; i < r->tensor_count && count < 8; i++)
        if (r->tensors[i].tied >= 0) known[count++] = r->tensors[i].tied;
    for (size_t i = 0; i < r->tensor_count && count; i++) {
        pl_tensor *t = &r->tensors[i];
        if (t->role != PL_ROLE_PARAMETER || r->notes[i].used || t->tied >= 0) continue;
        tie_decoder(r, t);
        for (size_t k = 0; k < count && t->tied < 0; k++)
            if (same_shape(t, &r->tensors[known[k]])) t->tied = known[k];
    }
}

/* ---- the line ---- */

enum { LINE_LIMIT = 160 };

/* The last `word` that ends at or before `before`; NULL where there is none. */
static const char *last_word(const char *start, const char *before, const char *word,
                             size_t length) {
    while ((size_t)(before - start) >= length) {
        const char *at = memrchr(start, *word, (size_t)(before - start) - length + 1);
        if (!at || !memcmp(at, word, length)) return at;
        before = at + length - 1;
    }
    return NULL;
}

/* A frame of PyTorch's own Python code, from `File \"` on. */
static bool is_library(const char *frame, const char *end) {
    static const char part[] = "-packages/torch/";
    const char *comma = memchr(frame, ',', (size_t)(end - frame));
    return comma && memmem(frame, (size_t)(comma - frame), part, sizeof part - 1);
}

static const char frame_word[] = "File \\\"";

/* "modeling_gpt2.py:682: code" of one frame. Works on the text with its escapes: a quote is \" and a
 * new line \n there. "": an odd one. */
static bool frame_line(reader *r, const char *frame, const char *frame_end, const char **source) {
    static const char line[] = ", line ";
    *source = "";
    char text[LINE_LIMIT * 2 + 64];
    size_t length = 0;
    const char *path = frame + sizeof frame_word - 1, *base = path, *at = path;
    for (; at < frame_end && *at != ',' && !(*at == '\\' && at[1] == '"'); at++)
        if (*at == '/') base = at + 1;
    size_t name = (size_t)(at - base) < 64 ? (size_t)(at - base) : 64;
    if (memchr(base, '\\', name)) return true; /* an odd name: not worth more code */
    memcpy(text, base, name);
    length = name;
    const char *number = at;
    while (number < frame_end && *number != 'l') number++;
    if (number > at + 2) number -= 2;
    if ((size_t)(frame_end - number) > sizeof line - 1 && !memcmp(number, line, sizeof line - 1)) {
        text[length++] = ':';
        number += sizeof line - 1;
        for (int i = 0; i < 9 && number < frame_end && *number >= '0' && *number <= '9'; i++)
            text[length++] = *number++;
    }
    /* the code: what follows the first \n */
    while (number + 1 < frame_end && !(number[0] == '\\' && number[1] == 'n'))
        number += number[0] == '\\' ? 2 : 1;
    if (number + 2 < frame_end) {
        number += 2;
        while (number < frame_end && *number == ' ') number++;
        text[length++] = ':';
        text[length++] = ' ';
        size_t limit = length + LINE_LIMIT;
        while (number < frame_end && length < limit) {
            size_t step = *number != '\\' ? 1 : number[1] == 'u' ? 6 : 2;
            if ((size_t)(frame_end - number) < step || (step == 2 && number[1] == 'n')) break;
            memcpy(text + length, number, step);
            length += step;
            number += step;
        }
    }
    pl_json_text found = {text, length, true};
    /* the table keeps the bytes it is given: look first, copy only what is new */
    int32_t entry = pl_names_find(&r->names, text, length, SPACE_STRINGS);
    if (entry >= 0 && r->names.entries[entry].copy) {
        *source = r->names.entries[entry].copy;
        return true;
    }
    char *kept = pl_arena_string(r->scratch, text, length);
    char *copy = kept ? pl_json_copy(r->arena, &found, NULL) : NULL;
    if (!copy) return pl_pt2_no_memory(r);
    entry = pl_names_get(&r->names, kept, length, SPACE_STRINGS);
    if (entry < 0) return pl_pt2_no_memory(r);
    r->names.entries[entry].copy = copy;
    *source = copy;
    return true;
}

/* From the innermost frame that is not PyTorch's own. */
bool pl_pt2_source(reader *r, const pl_json_text *trace, const char **source) {
    *source = "";
    if (trace->length == 0) return true;
    const char *start = trace->bytes, *end = start + trace->length;
    if (trace->length == r->last_trace.length &&
        !memcmp(trace->bytes, r->last_trace.bytes, trace->length)) {
        *source = r->last_source;
        return true;
    }
    r->last_trace = *trace;
    r->last_source = "";
    const char *frame = last_word(start, end, frame_word, sizeof frame_word - 1), *frame_end = end;
    if (!frame) return true;
    while (is_library(frame, frame_end)) {
        const char *outer = last_word(start, frame, frame_word, sizeof frame_word - 1);
        if (!outer) break;
        frame_end = frame;
        frame = outer;
    }
    if (!frame_line(r, frame, frame_end, source)) return false;
    r->last_source = *source;
    return true;
}

/* Frames are those of forward functions alone, from the model's own inwards; PyTorch's own left out,
 * there is one per module that is not PyTorch's. Which line called a module is the frame of the
 * nearest such module around it. */
bool pl_pt2_callers(reader *r, const pl_json_text *trace, int32_t module) {
    enum { DEEPEST = 32 };
    if (module < 0 || trace->length == 0 || r->modules[module].line) return true;
    const char *frames[DEEPEST], *ends[DEEPEST], *end = trace->bytes + trace->length;
    int count = 0;
    for (const char *at = trace->bytes; at < end && count < DEEPEST;) {
        const char *next =
            memmem(at + 1, (size_t)(end - at - 1), frame_word, sizeof frame_word - 1);
        bool frame = (size_t)(end - at) >= sizeof frame_word - 1 &&
                     memcmp(at, frame_word, sizeof frame_word - 1) == 0;
        if (frame && !is_library(at, next ? next : end)) {
            frames[count] = at;
            ends[count++] = next ? next : end;
        }
        at = next ? next : end;
    }
    int own = 0; /* modules of others than PyTorch around the innermost one, itself included */
    for (int32_t m = module; m >= 0; m = r->modules[m].parent)
        own += !pl_module_is_torch(&r->modules[m]);
    if (own > count) return true; /* some have no frame: which, nobody knows */
    for (int32_t m = module; m >= 0; m = r->modules[m].parent) {
        own -= !pl_module_is_torch(&r->modules[m]);
        if (r->modules[m].line) continue;
        r->modules[m].line = "";
        if (own > 0 && !frame_line(r, frames[own - 1], ends[own - 1], &r->modules[m].line))
            return false;
    }
    return true;
}
