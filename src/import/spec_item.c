/* spec_item: see spec_item.h.
 *
 *     conv 64 3 stride=2             a word, numbers in the layer's order, key=value, keys alone
 *     {conv: 64, kernel: 3}          the first key is the layer, its value the first number
 *     lstm: {hidden: 512}            or all settings
 *     residual: [...]                or the layers within
 *
 * Left out: lists among words (`kernel=[3, 5]`), for which there are mappings. */
#include "import/spec_item.h"

#include <stdio.h>
#include <string.h>

/* Other names that people use. */
static const char *const aliases[][2] = {
    {"fc", "linear"},
    {"dense", "linear"},
    {"conv1d", "conv"},
    {"conv2d", "conv"},
    {"conv3d", "conv"},
    {"bn", "batchnorm"},
    {"batchnorm1d", "batchnorm"},
    {"batchnorm2d", "batchnorm"},
    {"maxpool2d", "maxpool"},
    {"avgpool2d", "avgpool"},
    {"swish", "silu"},
    {"leakyrelu", "leaky_relu"},
};

static const pl_spec_layer *layer_of(const char **name) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i][0], *name) == 0) *name = aliases[i][1];
    for (const pl_spec_layer *l = pl_spec_layers; l->name; l++)
        if (strcmp(l->name, *name) == 0) return l;
    return pl_spec_index(pl_nn_activations, *name) >= 0 ? &pl_spec_any_activation : NULL;
}

/* key: copied where it is not the tree's own. */
static void add_member(pl_sketch *s, pl_spec_item *it, const char *key, bool copy,
                       const pl_yaml *from) {
    size_t n = it->args.count;
    if (n >= PL_SPEC_MAX_ARGS || (copy && strlen(key) >= sizeof *it->keys)) {
        pl_spec_fail(s, it->node, "%s: more than %d settings, or a long one", it->name,
                     PL_SPEC_MAX_ARGS);
        return;
    }
    for (const pl_yaml *m = it->args.first; m; m = m->next)
        if (strcmp(m->key, key) == 0) {
            pl_spec_fail(s, from, "%s: `%.40s` is given twice", it->name, key);
            return;
        }
    if (copy) strcpy(it->keys[n], key);
    pl_yaml *m = &it->members[n];
    *m = *from;
    m->key = copy ? it->keys[n] : key;
    m->next = NULL;
    if (n > 0) it->members[n - 1].next = m;
    it->args.first = it->members;
    it->args.count++;
}

/* The nth word of a list into out; false: past its end. */
static bool place_at(const char *places, int n, char out[24]) {
    for (; *places; n--) {
        size_t length = strcspn(places, " ");
        if (n == 0 && length < 24) {
            memcpy(out, places, length);
            out[length] = 0;
            return true;
        }
        places += length + (places[length] == ' ');
    }
    return false;
}

/* Words behind the name. */
static void read_setting(pl_sketch *s, pl_spec_item *it, const pl_spec_layer *l, char *word,
                         int *place) {
    char key[24];
    char *equals = strchr(word, '=');
    pl_yaml node = {.kind = PL_YAML_STRING,
                    .line = it->node->line,
                    .position = it->node->position,
                    .text = equals ? equals + 1 : word};
    if (equals) *equals = 0;
    bool alone = !equals && pl_spec_index(l->keys, word) >= 0;
    if (alone) node.text = "true";
    pl_yaml_resolve(&node);
    if ((equals || alone) && pl_spec_index(l->keys, word) >= 0) {
        add_member(s, it, word, true, &node);
        return;
    }
    size_t n;
    const char *near = pl_spec_nearest(l->keys, word, &n);
    if (!equals && (n == 0 || node.kind != PL_YAML_STRING) &&
        place_at(l->places, (*place)++, key)) {
        add_member(s, it, key, true, &node);
        return;
    }
    if (n > 0)
        pl_spec_fail(s, it->node, "%s has no `%s`; did you mean `%.*s`?", it->name, word, (int)n,
                     near);
    else
        pl_spec_fail(s, it->node, "%s: `%s` is not understood; %s%s", it->name, word,
                     l->keys[0] ? "it has: " : "it has no settings", l->keys);
}

static const pl_spec_layer *read_words(pl_sketch *s, pl_spec_item *it) {
    if (strlen(it->node->text) >= sizeof it->text) {
        pl_spec_fail(s, it->node, "a layer of more than %zu letters", sizeof it->text - 1);
        return NULL;
    }
    strcpy(it->text, it->node->text);
    const pl_spec_layer *l = NULL;
    int place = 0;
    for (char *at = it->text, *next; at && *at; at = next) {
        next = strpbrk(at, " \t");
        if (next) *next++ = 0;
        if (!*at) continue;
        if (l) {
            read_setting(s, it, l, at, &place);
            continue;
        }
        it->name = at;
        l = layer_of(&it->name);
        if (!l) return NULL;
    }
    return l;
}

static const pl_spec_layer *read_map(pl_sketch *s, pl_spec_item *it) {
    const pl_yaml *first = it->node->first;
    if (!first) return NULL;
    it->name = first->key;
    const pl_spec_layer *l = layer_of(&it->name);
    if (!l) return NULL;
    char place[24];
    if (first->kind == PL_YAML_MAP) {
        for (const pl_yaml *m = first->first; m; m = m->next) add_member(s, it, m->key, false, m);
    } else if (first->kind == PL_YAML_LIST && strcmp(l->name, "residual") == 0) {
        it->inner = first;
    } else if (first->kind != PL_YAML_NULL) {
        if (place_at(l->places, 0, place))
            add_member(s, it, place, true, first);
        else
            pl_spec_fail(s, first, "%s takes no number", it->name);
    }
    for (const pl_yaml *m = first->next; m; m = m->next) add_member(s, it, m->key, false, m);
    pl_spec_keys(s, &it->args, it->name, l->keys);
    if (!it->inner) it->inner = pl_yaml_get(&it->args, "layers");
    return l;
}

static void fail_unknown(pl_sketch *s, const pl_spec_item *it) {
    char known[400] = "";
    size_t used = 0, n = 0;
    for (const pl_spec_layer *l = pl_spec_layers; l->name && used < sizeof known; l++)
        used +=
            (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? " " : "", l->name);
    const char *near = pl_spec_nearest(known, it->name, &n);
    if (n == 0) near = pl_spec_nearest(pl_nn_activations, it->name, &n);
    if (n > 0)
        pl_spec_fail(s, it->node, "there is no layer `%.40s`; did you mean `%.*s`?", it->name,
                     (int)n, near);
    else if (it->name[0])
        pl_spec_fail(s, it->node, "there is no layer `%.40s`; there are: %s, and activations",
                     it->name, known);
    else
        pl_spec_fail(s, it->node, "expected a layer, as `linear 10` or {conv: 64, kernel: 3}");
}

const pl_spec_layer *pl_spec_read_item(pl_sketch *s, pl_spec_item *it, const pl_yaml *node) {
    *it = (pl_spec_item){.node = node, .name = ""};
    it->args = (pl_yaml){.kind = PL_YAML_MAP, .line = node->line, .position = node->position};
    const pl_spec_layer *l = NULL;
    if (node->kind == PL_YAML_MAP)
        l = read_map(s, it);
    else if (node->kind == PL_YAML_STRING)
        l = read_words(s, it);
    if (!l) fail_unknown(s, it);
    return pl_build_failed(s->b) ? NULL : l;
}
