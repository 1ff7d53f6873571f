/* modules: see modules.h.
 *
 * Paths are sorted by component, so that a module's whole subtree is one run of the list; nodes are
 * made in that order, each before its children. Cost is n log n: a model may have as many modules
 * as operators. A number in a path becomes * where modules lie below it (blocks of a stack,
 * experts); the numbered layers of a plain Sequential stay apart. */
#include "modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

typedef struct entry {
    char *path;        /* normalised; owned */
    const char *whole; /* as the report has it */
    const module_item *item;
} entry;

typedef struct module_node {
    char *path;         /* owned */
    size_t parent, end; /* its subtree is the nodes up to end; parent of a top node: SIZE_MAX */
    size_t children, modules;
    int64_t size, own, parts[MODULE_PARTS];
    bool shown, opened;
} module_node;

/* By component: the dot comes before every other character. */
static int compare_paths(const char *a, const char *b) {
    for (; *a && *a == *b; a++, b++) {
    }
    int left = *a == '.' ? 1 : (unsigned char)*a, right = *b == '.' ? 1 : (unsigned char)*b;
    return left - right;
}

static int compare_entries(const void *a, const void *b) {
    const entry *left = a, *right = b;
    int order = compare_paths(left->path, right->path);
    return order ? order : strcmp(left->whole, right->whole);
}

static bool is_number(const char *text, size_t length) {
    return length > 0 && strspn(text, "0123456789") >= length;
}

/* Numbers with something below them become *. */
static char *normalise(const char *path) {
    char *out = need(strlen(path) + 1, 1), *to = out;
    while (*path) {
        size_t length = strcspn(path, ".");
        if (is_number(path, length) && path[length] == '.') {
            *to++ = '*';
        } else {
            memcpy(to, path, length);
            to += length;
        }
        path += length;
        if (*path) *to++ = *path++;
    }
    return out;
}

/* layers.3 itself joins layers.* where another path goes on below layers.*; list is sorted. */
static void join_blocks(entry *list, size_t count) {
    char **joined = need(count, sizeof *joined);
    for (size_t i = 0; i < count; i++) {
        const char *dot = strrchr(list[i].path, '.'), *last = dot ? dot + 1 : list[i].path;
        if (!is_number(last, strlen(last))) continue;
        size_t prefix = (size_t)(last - list[i].path);
        char *wanted = need(prefix + 3, 1);
        memcpy(wanted, list[i].path, prefix);
        memcpy(wanted + prefix, "*.", 2);
        size_t low = 0, high = count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (compare_paths(list[middle].path, wanted) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < count && strncmp(list[low].path, wanted, prefix + 2) == 0) {
            wanted[prefix + 1] = '\0';
            joined[i] = wanted;
        } else {
            free(wanted);
        }
    }
    for (size_t i = 0; i < count; i++)
        if (joined[i]) {
            free(list[i].path);
            list[i].path = joined[i];
        }
    free(joined);
    qsort(list, count, sizeof *list, compare_entries);
}

/* Whether path lies in the module `prefix` of `length` bytes (or is it). */
static bool within(const char *path, const char *prefix, size_t length) {
    return strncmp(path, prefix, length) == 0 && (path[length] == '.' || path[length] == '\0');
}

/* Bytes of the first `components` components of a path. */
static size_t components_length(const char *path, size_t components) {
    size_t at = 0;
    for (;;) {
        at += strcspn(path + at, ".");
        if (--components == 0 || !path[at]) return at;
        at++;
    }
}

typedef struct slice {
    const char *text;
    size_t length;
} slice;

static int compare_slices(const void *a, const void *b) {
    const slice *left = a, *right = b;
    size_t shorter = left->length < right->length ? left->length : right->length;
    int order = memcmp(left->text, right->text, shorter);
    return order ? order : left->length < right->length ? -1 : left->length > right->length;
}

/* How many modules of the model a node that ends in * stands for. */
static size_t count_merged(const entry *list, size_t from, size_t to, const char *path) {
    size_t components = 1, different = 0;
    for (const char *at = path; *at; at++) components += *at == '.';
    slice *slices = need(to - from, sizeof *slices);
    for (size_t i = from; i < to; i++)
        slices[i - from] = (slice){list[i].whole, components_length(list[i].whole, components)};
    qsort(slices, to - from, sizeof *slices, compare_slices);
    for (size_t i = 0; i < to - from; i++)
        different += i == 0 || compare_slices(&slices[i], &slices[i - 1]) != 0;
    free(slices);
    return different;
}

/* ---- the tree ---- */

typedef struct builder {
    module_node *nodes;
    size_t count, room;
} builder;

static size_t add_node(builder *b, const char *path, size_t length, size_t parent) {
    if (b->count == b->room) {
        size_t room = b->room ? 2 * b->room : 64;
        module_node *nodes = need(room, sizeof *nodes);
        if (b->nodes) memcpy(nodes, b->nodes, b->count * sizeof *nodes);
        free(b->nodes);
        b->nodes = nodes;
        b->room = room;
    }
    module_node *node = &b->nodes[b->count];
    *node = (module_node){.path = need(length + 1, 1), .parent = parent, .modules = 1};
    memcpy(node->path, path, length);
    return b->count++;
}

static void build(builder *b, const entry *list, size_t count) {
    size_t current = SIZE_MAX; /* the innermost node that the last entry lay in */
    for (size_t i = 0; i < count; i++) {
        const char *path = list[i].path;
        while (current != SIZE_MAX &&
               !within(path, b->nodes[current].path, strlen(b->nodes[current].path)))
            current = b->nodes[current].parent;
        size_t length = current == SIZE_MAX ? 0 : strlen(b->nodes[current].path);
        while (current == SIZE_MAX || path[length]) {
            size_t next = current == SIZE_MAX ? 0 : length + 1;
            next += strcspn(path + next, ".");
            current = add_node(b, path, next, current);
            if (next && path[next - 1] == '*' && (next == 1 || path[next - 2] == '.')) {
                size_t to = i + 1;
                while (to < count && within(list[to].path, path, next)) to++;
                b->nodes[current].modules = count_merged(list, i, to, b->nodes[current].path);
            }
            length = next;
        }
        b->nodes[current].own += list[i].item->size;
        b->nodes[current].size += list[i].item->size;
        for (int k = 0; k < MODULE_PARTS; k++) b->nodes[current].parts[k] += list[i].item->parts[k];
    }
    for (size_t i = b->count; i-- > 0;) {
        module_node *node = &b->nodes[i];
        if (node->end < i + 1) node->end = i + 1;
        if (node->parent == SIZE_MAX) continue;
        module_node *parent = &b->nodes[node->parent];
        parent->size += node->size;
        parent->children++;
        if (parent->end < node->end) parent->end = node->end;
        for (int k = 0; k < MODULE_PARTS; k++) parent->parts[k] += node->parts[k];
    }
}

/* ---- which rows to show ---- */

/* A node with one child and nothing of its own is shown as that child. */
static size_t collapse(const module_node *nodes, size_t at) {
    while (nodes[at].children == 1 && nodes[at].own == 0) at++;
    return at;
}

/* Opens the largest nodes while the rows last. */
static void choose(builder *b, size_t rows, int64_t total) {
    size_t shown = 0;
    for (size_t i = 0; i < b->count; i = b->nodes[i].end) {
        b->nodes[collapse(b->nodes, i)].shown = true;
        shown++;
    }
    for (;;) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < b->count; i++) {
            const module_node *node = &b->nodes[i];
            if (!node->shown || node->opened || node->children == 0) continue;
            if (node->size < total / 25 || shown + node->children > rows) continue;
            if (best == SIZE_MAX || node->size > b->nodes[best].size) best = i;
        }
        if (best == SIZE_MAX) return;
        b->nodes[best].opened = true;
        for (size_t i = best + 1; i < b->nodes[best].end; i = b->nodes[i].end) {
            b->nodes[collapse(b->nodes, i)].shown = true;
            shown++;
        }
    }
}

typedef struct sized {
    size_t node;
    int64_t size;
} sized;

static int compare_sized(const void *a, const void *b) {
    const sized *left = a, *right = b;
    if (left->size != right->size) return left->size < right->size ? 1 : -1;
    return left->node < right->node ? -1 : left->node > right->node;
}

/* Rows of the shown nodes from `from` to `to`, and below them. Depth is bounded by the opened
 * nodes. */
static void put_rows(module_tree *tree, size_t from, size_t to, size_t prefix, int depth) {
    size_t count = 0;
    for (size_t i = from; i < to; i = tree->nodes[i].end) count++;
    sized *order = need(count, sizeof *order);
    count = 0;
    for (size_t i = from; i < to; i = tree->nodes[i].end) {
        size_t node = collapse(tree->nodes, i);
        order[count++] = (sized){node, tree->nodes[node].size};
    }
    qsort(order, count, sizeof *order, compare_sized);
    for (size_t i = 0; i < count; i++) {
        const module_node *node = &tree->nodes[order[i].node];
        module_row *row = &tree->rows[tree->row_count++];
        *row = (module_row){node->path, node->path + prefix, depth, node->modules, node->size, {0}};
        memcpy(row->parts, node->parts, sizeof row->parts);
        if (!node->path[0]) row->name = "(the model itself)";
        if (node->opened)
            put_rows(tree, order[i].node + 1, node->end, strlen(node->path) + 1, depth + 1);
    }
    free(order);
}

void modules_gather(module_tree *tree, const module_item *items, size_t count, size_t rows) {
    *tree = (module_tree){0};
    entry *list = need(count, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        const char *whole = items[i].module ? items[i].module : "";
        list[i] = (entry){normalise(whole), whole, &items[i]};
        tree->total += items[i].size;
    }
    qsort(list, count, sizeof *list, compare_entries);
    join_blocks(list, count);
    builder b = {0};
    build(&b, list, count);
    choose(&b, rows, tree->total);
    tree->nodes = b.nodes;
    tree->node_count = b.count;
    tree->rows = need(b.count, sizeof *tree->rows);
    put_rows(tree, 0, b.count, 0, 0);
    for (size_t i = 0; i < count; i++) free(list[i].path);
    free(list);
}

void modules_free(module_tree *tree) {
    for (size_t i = 0; i < tree->node_count; i++) free(tree->nodes[i].path);
    free(tree->nodes);
    free(tree->rows);
    *tree = (module_tree){0};
}
