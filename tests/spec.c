/* spec: models that people sketch, and summaries. The YAML reader; what families and lists of
 * layers build; each error with its line; the texts of torchsummary and torchinfo. test_spec
 * tests/data/summary */
#include <stdlib.h>

#include "check.h"
#include "core/file.h"
#include "graph_sound.h"
#include "import/spec.h"
#include "import/summary.h"
#include "import/yaml.h"

static const char *folder;

/* ---- YAML ---- */

/* The tree as one line of JSON-like text: what was understood. */
static void write_tree(const pl_yaml *node, char *out, size_t size) {
    size_t used = strlen(out);
#define PUT(...) (used += (size_t)snprintf(out + used, used < size ? size - used : 0, __VA_ARGS__))
    if (node->key) PUT("%s: ", node->key);
    switch (node->kind) {
    case PL_YAML_NULL: PUT("null"); break;
    case PL_YAML_BOOL: PUT("%s", node->i ? "true" : "false"); break;
    case PL_YAML_INT: PUT("%lld", (long long)node->i); break;
    case PL_YAML_FLOAT: PUT("%gf", node->f); break;
    case PL_YAML_STRING: PUT("'%s'", node->text); break;
    default:
        PUT("%s", node->kind == PL_YAML_MAP ? "{" : "[");
        for (const pl_yaml *m = node->first; m; m = m->next) {
            write_tree(m, out, size);
            used = strlen(out);
            if (m->next) PUT(", ");
        }
        PUT("%s", node->kind == PL_YAML_MAP ? "}" : "]");
    }
#undef PUT
}

static const struct {
    const char *text, *tree;
} trees[] = {
    {"a: 1", "{a: 1}"},
    {"# talk\n---\na: 1 # more\n\nb: 'it''s' # end\n", "{a: 1, b: 'it's'}"},
    {"a: true\nb: False\nc: null\nd: ~\ne:\nf: -3\ng: 1.5\nh: 1e3\ni: .5\nj: 010\nk: 0x10\nl: no\n",
     "{a: true, b: false, c: null, d: null, e: null, f: -3, g: 1.5f, h: 1000f, i: 0.5f, j: 10, k: "
     "'0x10', l: 'no'}"},
    {"a:\n  - 1\n  - two\n  - - 3\n    - 4\n  - b: 5\n    c: 6\nd: 7\n",
     "{a: [1, 'two', [3, 4], {b: 5, c: 6}], d: 7}"},
    {"a:\n- 1\n- 2\nb: 3\n", "{a: [1, 2], b: 3}"},
    {"{\"a\": [1, 2.5, \"x\\u00e9\\n\"], \"b\":{\"c\":null,\"d\":true}}",
     "{a: [1, 2.5f, 'x\xc3\xa9\n'], b: {c: null, d: true}}"},
    {"[a b, {c: 1, d}, [],\n  # talk\n  e: 2,]", "['a b', {c: 1, d: null}, [], {e: 2}]"},
    {"- lstm {hidden: 512, both}\n- x: gru [1, 2]\n",
     "[{lstm: {hidden: 512, both: null}}, {x: {gru: [1, 2]}}]"},
    {"a: b c # d\ne: f#g\nh: i:j\n", "{a: 'b c', e: 'f#g', h: 'i:j'}"},
    {"\"a b\": \"c: d\"\r\n'e': [\r\n1]\r\n", "{a b: 'c: d', e: [1]}"},
    {"-\n  a: 1\n-\n- b\n", "[{a: 1}, null, 'b']"},
    {"99999999999999999999", "1e+20f"},
};

static void yaml_is_understood(void) {
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        pl_arena *arena = pl_arena_new(NULL);
        const pl_yaml *root = NULL;
        pl_error err = {0};
        char got[1024] = "";
        if (pl_yaml_read(&root, trees[i].text, strlen(trees[i].text), "t", 64, arena, &err) ==
            PL_OK)
            write_tree(root, got, sizeof got);
        else
            snprintf(got, sizeof got, "%s", err.message);
        CHECK_STR(got, trees[i].tree);
        pl_arena_free(&arena);
    }
}

static const struct {
    const char *text;
    int64_t position;
    const char *message;
} bad_yaml[] = {
    {"", 0, "line 1: expected a model; there is no content"},
    {"a: &x 1", 3, "line 1: anchors (&name) are not read"},
    {"a: *x", 3, "line 1: aliases (*name) are not read"},
    {"a: !!int 1", 3, "line 1: tags (!name) are not read"},
    {"a: |\n  b", 3,
     "line 1: block scalars (|) are not read; write the text in quotes, on one line"},
    {"a: 1\n---\nb: 2", 5, "line 2: expected `key: value`"},
    {"a: 1\na: 2", 5, "line 2: `a` stands twice in one mapping (line 1)"},
    {"a: 1\n  b: 2", 7, "line 2: indented by 2, but the lines before by 0"},
    {"a:\n  - 1\n  b: 2", 11, "line 3: indented by 2, but the lines before by 0"},
    {"a: 'b", 3, "line 1: a quote that is not closed on its line"},
    {"a: b: c", 4, "line 1: a second key on one line"},
    {"[1, 2", 5, "line 1: the text ends before the ] of line 1"},
    {"[1 2 {", 6, "line 1: the text ends before the } of line 1"},
    {"[1}", 2, "line 1: expected , or ]"},
    {"[,]", 1, "line 1: expected a value, found a comma"},
    {"\"\\q\"", 2, "line 1: an escape that is not known: \\q"},
    {"a: \"b\" c", 7, "line 1: expected the end of the line, found more text"},
    {"a:\n\t- 1\n\t- 2\n", 5, NULL},
    {"a: \x01", 3, "line 1: a control character (1)"},
    {"a: 1\nb: \xff", 8, "line 2: expected text in UTF-8"},
    {"? a\n: b", 0, "line 1: complex keys (?) are not read"},
};

static void yaml_is_refused(void) {
    for (size_t i = 0; i < sizeof bad_yaml / sizeof *bad_yaml; i++) {
        pl_arena *arena = pl_arena_new(NULL);
        const pl_yaml *root = NULL;
        pl_error err = {0};
        pl_status status =
            pl_yaml_read(&root, bad_yaml[i].text, strlen(bad_yaml[i].text), "t", 64, arena, &err);
        CHECK_INT(status, PL_INPUT);
        CHECK(root == NULL);
        CHECK_STR(err.where, "t");
        if (bad_yaml[i].message) {
            CHECK_STR(err.message, bad_yaml[i].message);
            CHECK_INT(err.position, bad_yaml[i].position);
        }
        pl_arena_free(&arena);
    }
}

static void yaml_nests_so_far(void) {
    char text[600] = "";
    for (int i = 0; i < 64; i++) strcat(text, "[");
    for (int depth = 63; depth <= 64; depth++) {
        pl_arena *arena = pl_arena_new(NULL);
        const pl_yaml *root = NULL;
        pl_error err = {0};
        char whole[1200];
        snprintf(whole, sizeof whole, "%s1%.*s", text, 64,
                 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
        CHECK_INT(pl_yaml_read(&root, whole, strlen(whole), "t", depth, arena, &err),
                  depth == 64 ? PL_OK : PL_INPUT);
        pl_arena_free(&arena);
    }
}

/* ---- what is built ---- */

static pl_graph *build(const char *text, int64_t batch, int64_t seq, pl_error *err) {
    pl_recipe *recipe = NULL;
    pl_graph *graph = NULL;
    *err = (pl_error){0};
    if (pl_import_spec(&recipe, text, strlen(text), "t.yaml", NULL, err) == PL_OK)
        recipe->build(recipe, batch > 0 ? batch : recipe->batch, seq > 0 ? seq : recipe->seq, NULL,
                      &graph, err);
    pl_recipe_close(&recipe);
    if (graph && graph_unsound(graph)) {
        printf("  %s\n", graph_unsound(graph));
        check_failures_in_case++;
    }
    return graph;
}

static int64_t parameters_of(const pl_graph *g) {
    int64_t sum = 0;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && g->tensors[i].tied < 0)
            sum += pl_tensor_elements(&g->tensors[i]);
    return sum;
}

static const struct {
    const char *text;
    int64_t parameters, operators, output[3]; /* the output's sizes, 0: none */
} models[] = {
    {"kind: mlp\ninp: 4\nout: 2\nwidths: [3]\n", 4 * 3 + 3 + 3 * 2 + 2, 3, {1, 2}},
    {"{\"kind\": \"mlp\", \"inp\": 4, \"out\": 2, \"widths\": [3, 5], \"bn\": true, \"act\": "
     "\"prelu\", \"dropout\": 0.5, \"batch\": 8}",
     (15 + 6 + 1) + (20 + 10 + 1) + 12,
     11,
     {8, 2}},
    /* widths 64, 32, 20, 20; then 60, 30, 20, 30, 60; then 40, 30 */
    {"kind: mlp\ninp: 10\nout: 20\narch: pyramid\nwidth: 64\ndepth: 4\n",
     64 * 11 + 32 * 65 + 20 * 33 + 20 * 21 + 20 * 21,
     9,
     {1, 20}},
    {"kind: mlp\ninp: 10\nout: 20\narch: bottleneck\nwidth: 60\ndepth: 5\n",
     60 * 11 + 30 * 61 + 20 * 31 + 30 * 21 + 60 * 31 + 20 * 61,
     11,
     {1, 20}},
    {"kind: mlp\ninp: 10\nout: 20\narch: gradual\nwidth: 40\ndepth: 2\n",
     40 * 11 + 30 * 41 + 20 * 31,
     5,
     {1, 20}},
    {"kind: cnn\nsize: 16\nbase: 8\ndepth: 2\nclasses: 5\npool_every: 1\n",
     (3 * 8 * 9 + 16) + (8 * 8 * 9 + 16) + 45,
     13,
     {1, 5}},
    {"kind: cnn\nsize: 16\nbase: 8\ndepth: 2\nclasses: 5\narch: residual\nbn: false\n",
     (3 * 8 * 9 + 8) + (3 * 8 + 8) + (8 * 8 * 9 + 8) + 45,
     10,
     {1, 5}},
    {"kind: cnn\nsize: 16\nbase: 8\ndepth: 2\nclasses: 5\narch: dense\nbn: no\nkernel: 1\n",
     (3 * 2 + 2) + (5 * 2 + 2) + 8 * 5,
     9,
     {1, 5}},
    {"kind: transformer\nd: 8\nheads: 2\nlayers: 1\nvocab: 50\nff: 16\nbatch: 2\nseq: 7\n",
     50 * 8 + 7 * 8 + (16 + 24 * 9 + 72 + 16 + 16 * 9 + 8 * 17) + 16 + 400,
     27,
     {2, 7, 50}},
    {"kind: rnn\ncell: gru\nvocab: 10\ninp: 4\nhidden: 3\nclasses: 5\nbatch: 2\nseq: 6\n",
     40 + 9 * (4 + 3 + 2) + 20,
     5,
     {2, 5}},
    {"input: [3, 8, 8]\nlayers: [conv 4, batchnorm, relu, maxpool, flatten, linear 2]\nbatch: 2\n",
     3 * 4 * 9 + 4 + 8 + 4 * 9 * 2 + 2,
     7,
     {2, 2}},
    {"input: {tokens: 5}\nlayers:\n  - embedding {vocab: 10, width: 8}\n  - transformer {heads: 2, "
     "ff: 4, layers: 2, norm_first}\n  - mean\n  - linear: {out: 3, bias: false}\n",
     80 + 2 * (24 * 9 + 72 + 36 + 40 + 32) + 24,
     75,
     {1, 3}},
    {"input: {steps: 6, features: 4}\nlayers:\n  - {lstm: 3, layers: 2, bidirectional: yes}\n  - "
     "last\n",
     2 * 12 * (4 + 3 + 2) + 2 * 12 * (6 + 3 + 2),
     4,
     {1, 6}},
    {"input: 4\nlayers:\n  - repeat: {times: 3, layers: [{residual: [linear 4, relu]}]}\n",
     3 * 20,
     9,
     {1, 4}},
    {"input: [4]\nloss: mse\nlayers: [linear 4]\n", 20, 2, {0}},
};

static void models_have_their_sizes(void) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_graph *g = build(models[i].text, 0, 0, &err);
        if (!g) {
            printf("  %s: %s\n", models[i].text, err.message);
            check_failures_in_case++;
            continue;
        }
        CHECK_INT(parameters_of(g), models[i].parameters);
        CHECK_INT(g->node_count, models[i].operators);
        const pl_tensor *out = &g->tensors[g->outputs[0]];
        for (int k = 0; k < 3; k++)
            CHECK_INT(k < out->dims ? out->sizes[k] : 0, models[i].output[k]);
        pl_graph_close(&g);
    }
}

static void batch_and_sequence_are_the_callers(void) {
    const char *text = "kind: transformer\nd: 8\nheads: 2\nlayers: 1\nvocab: 50\n";
    pl_recipe *recipe = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_import_spec(&recipe, text, strlen(text), "a/net.yaml", NULL, &err), PL_OK);
    if (!recipe) return;
    CHECK_STR(recipe->name, "net");
    CHECK(recipe->batch_assumed && recipe->seq_assumed);
    pl_recipe_close(&recipe);
    pl_graph *g = build(text, 3, 11, &err);
    CHECK(g && g->tensors[g->outputs[0]].sizes[0] == 3 && g->tensors[g->outputs[0]].sizes[1] == 11);
    pl_graph_close(&g);
    g = build("kind: transformer\nd: 8\nheads: 2\nlayers: 1\nvocab: 50\npositions: 16\nseq: 16\n",
              1, 17, &err);
    CHECK(!g && err.code == PL_USAGE);
}

/* Modules are named as nn.Sequential and the sketched classes name them; parameters in the order of
 * named_parameters. */
static void modules_have_their_names(void) {
    pl_error err = PL_SIZED(pl_error);
    pl_graph *g = build("input: [3, 8, 8]\nlayers:\n  - conv 4\n  - repeat:\n      times: 2\n"
                        "      layers: [conv 4 1, relu]\n  - residual: [batchnorm]\n",
                        0, 0, &err);
    static const char *const paths[] = {"0.weight",        "0.bias",       "1.0.0.weight",
                                        "1.0.0.bias",      "1.1.0.weight", "1.1.0.bias",
                                        "2.body.0.weight", "2.body.0.bias"};
    size_t at = 0;
    for (int32_t i = 0; g && i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && at < sizeof paths / sizeof *paths)
            CHECK_STR(g->tensors[i].path, paths[at++]);
    CHECK_INT(at, sizeof paths / sizeof *paths);
    pl_graph_close(&g);
}

/* ---- errors ---- */

static const struct {
    const char *text, *message;
} bad_specs[] = {
    {"kind: mpl\ninp: 3\n", "line 1: kind: there is no `mpl`; did you mean `mlp`?"},
    {"kind: resnet50\n", "line 1: kind: expected one of: mlp cnn transformer rnn"},
    {"kind: mlp\nout: 3\ndepth: 1\n", "line 1: an mlp needs `inp`"},
    {"kind: mlp\ninp: 3\nout: 3\n", "line 1: an mlp without `widths` needs `depth`"},
    {"kind: mlp\ninp: many\nout: 3\nwidths: []\n",
     "line 2: inp: expected a whole number, not many"},
    {"kind: mlp\ninp: 3\nout: 0\nwidths: []\n", "line 3: out: expected 1 to 1073741824, not 0"},
    {"kind: mlp\ninp: 3\nout: 3\nwidths: [1, x]\n",
     "line 4: widths: expected a whole number, not x"},
    {"kind: mlp\ninp: 3\nout: 3\nwidths: []\nact: rleu\n",
     "line 5: act: there is no `rleu`; did you mean `relu`?"},
    {"kind: mlp\ninp: 3\nout: 3\nwidths: []\ndropout: 2\n",
     "line 5: dropout: expected a share from 0 to 1"},
    {"kind: mlp\ninp: 3\nout: 3\nwidths: []\nbn: maybe\n", "line 5: bn: expected true or false"},
    {"kind: mlp\ninp: 3\nuot: 3\n", "line 3: `uot` is no key of mlp; did you mean `out`?"},
    {"kind: cnn\nsize: 3\nbase: 4\ndepth: 2001\n", "line 4: depth: 2001 layers; the most is 2000"},
    {"kind: transformer\nd: 10\nheads: 3\nlayers: 1\nvocab: 5\n",
     "line 1: d: 10 is no multiple of 3 heads"},
    {"kind: mlp\nlayers: []\n", "line 1: `kind` and a list of `layers` exclude each other"},
    {"layers: [relu]\n",
     "line 1: a list of layers needs `input`: [784], [3, 224, 224], {tokens: 128}"},
    {"input: [3]\nlayers: []\n", "line 2: layers: the list is empty"},
    {"input: [3]\nlayers: relu\n", "line 2: layers: expected a list"},
    {"input: [1, 2, 3, 4, 5]\nlayers: [relu]\n", "line 1: input: expected the sizes of one sample, "
                                                 "as [784] or [3, 224, 224], or {tokens: 128}"},
    {"input: [3, 9, 9]\nlayers:\n  - conv 64 3\n  - relu\n  - linear 10\n",
     "line 5: linear expects features, not an image of 64 x 7 x 7; put `flatten` before it"},
    {"input: [64]\nlayers:\n  - conv 8\n", "line 3: conv expects an image, not 64 features"},
    {"input: {tokens: 9}\nlayers:\n  - gru 8\n",
     "line 3: gru expects a sequence, not 9 tokens; put `embedding` before it"},
    {"input: {steps: 9, features: 4}\nlayers: [batchnorm]\n",
     "line 2: batchnorm expects features or an image, not a sequence of 9 steps of 4 features; use "
     "`layernorm` for sequences"},
    {"input: [3]\nlayers:\n  - linaer 3\n",
     "line 3: there is no layer `linaer`; did you mean `linear`?"},
    {"input: [3]\nlayers:\n  - {}\n",
     "line 3: expected a layer, as `linear 10` or {conv: 64, kernel: 3}"},
    {"input: [3]\nlayers:\n  - 12\n",
     "line 3: expected a layer, as `linear 10` or {conv: 64, kernel: 3}"},
    {"input: [3]\nlayers:\n  - linear 3 4\n",
     "line 3: linear: `4` is not understood; it has: out bias"},
    {"input: [3]\nlayers:\n  - linear\n", "line 3: linear needs `out`"},
    {"input: [3]\nlayers:\n  - {linear: 3, out: 4}\n", "line 3: linear: `out` is given twice"},
    {"input: [3, 8, 8]\nlayers:\n  - conv 4 stirde=2\n",
     "line 3: conv has no `stirde`; did you mean `stride`?"},
    {"input: [3, 8, 8]\nlayers:\n  - {conv: 4, kernel: [3, 3, 3]}\n",
     "line 3: kernel: expected a number, or 2 of them"},
    {"input: [3, 8, 8]\nlayers:\n  - conv 4 9\n",
     "line 3: aten.conv2d.default: an input smaller than the kernel (conv gets an image of 3 x 8 x "
     "8)"},
    {"input: [3, 8, 8]\nlayers:\n  - conv 4 3 2 same\n",
     "line 3: padding: `same` needs an odd kernel and a stride of 1"},
    {"input: [3, 8, 8]\nlayers:\n  - conv 4 groups=2\n",
     "line 3: conv: 2 groups do not divide 3 and 4 channels"},
    {"input: [3, 8, 8]\nlayers:\n  - residual: [conv 4]\n",
     "line 3: residual: its layers make an image of 4 x 6 x 6, but its input is an image of 3 x 8 "
     "x "
     "8; give it a `shortcut` of layers"},
    {"input: [3]\nlayers:\n  - repeat: 3\n", "line 3: repeat needs `layers`, a list"},
    {"input: [3]\nlayers:\n  - repeat: {times: 1999, layers: [{repeat: {times: 1999, layers: "
     "[]}}]}\n",
     "line 3: more than 10000 layers"},
    {"input: {tokens: 4}\nlayers: [{repeat: {times: 1, layers: []}}]\n",
     "line 2: the layers do nothing with the tokens; put `embedding` first"},
    {"kind: transformer\nseq: 20\npositions: 16\n", "line 2: seq: 20, but there are 16 positions"},
    {"kind: mlp\nbatch: -1\n", "line 2: batch: expected a whole number from 1"},
    {"- kind\n", "line 1: expected `kind:` or `layers:` at the top"},
};

static void errors_name_the_line(void) {
    for (size_t i = 0; i < sizeof bad_specs / sizeof *bad_specs; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_graph *g = build(bad_specs[i].text, 0, 0, &err);
        CHECK(g == NULL);
        CHECK_STR(err.message, bad_specs[i].message);
        CHECK_STR(err.where, "t.yaml");
        CHECK_INT(err.code, PL_INPUT);
        CHECK(err.position >= 0);
        pl_graph_close(&g);
    }
}

/* Sizes that do not fit anything are an error, not an overflow. */
static void huge_sizes_are_refused(void) {
    pl_error err = PL_SIZED(pl_error);
    pl_graph *g =
        build("kind: mlp\ninp: 1073741824\nout: 1073741824\nwidths: [1073741824]\n", 0, 0, &err);
    CHECK(!g && err.code == PL_INPUT && strncmp(err.message, "line ", 5) == 0);
    g = build("kind: mlp\ninp: 3\nout: 3\nwidths: [3]\n", INT64_MAX / 4, 0, &err);
    CHECK(!g && err.message[0]);
    g = build("kind: mlp\ninp: 3\nout: 3\nwidths: [3]\n", 0, 0, &err);
    CHECK(g != NULL);
    pl_graph_close(&g);
}

/* Memory that is gone at any moment makes a status. */
static void memory_may_be_gone(void) {
    static const char *const texts[] = {
        "kind: transformer\nd: 8\nheads: 2\nlayers: 1\nvocab: 50\n",
        "input: [3, 8, 8]\nlayers: [conv 4, {residual: [relu]}, flatten, linear 2]\n"};
    for (size_t k = 0; k < 2; k++)
        for (long after = 0; after < 100000; after++) {
            pl_recipe *recipe = NULL;
            pl_error err = {0};
            pl_arena_fail_after(after);
            pl_status status = pl_import_spec(&recipe, texts[k], strlen(texts[k]), "t", NULL, &err);
            pl_arena_fail_after(-1);
            pl_recipe_close(&recipe);
            if (status == PL_OK) {
                CHECK(after > 3);
                break;
            }
            if (status != PL_MISSING) {
                printf("  after %ld: %s\n", after, err.message);
                check_failures_in_case++;
                break;
            }
        }
}

/* ---- told apart ---- */

static const struct {
    const char *text;
    bool spec, summary;
} kinds[] = {
    {"kind: mlp\n", true, false},
    {"# talk\n\nbatch: 3\n\"layers\":\n  - relu\n", true, false},
    {"{\"kind\": \"cnn\"}", true, false},
    {"{\"input\": [3], \"layers\": [\"relu\"", true, false}, /* damaged, but meant as one */
    {"{kind: rnn, inp: 3}", true, false},
    {"{\"model_type\": \"gpt2\", \"layers\": 3}", false, false},
    {"{\"kind\": 1, \"graph_module\": {}}", false, false},
    {"{\"a\": {\"kind\": 1}}", false, false},
    {"a:\n  kind: mlp\n", false, false},
    {"", false, false},
    {"kind of blue\n", false, false},
    {"Layer (type)   Output Shape   Param #\n", false, true},
    {"INFO start\n  Layer (type:depth-idx)   Output Shape   Param #\n", false, true},
};

static void kinds_are_told_apart(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].text);
        CHECK_INT(pl_spec_is(kinds[i].text, n), kinds[i].spec);
        CHECK_INT(pl_summary_is(kinds[i].text, n), kinds[i].summary);
    }
}

/* ---- summaries ---- */

static pl_summary *read_summary(const char *file, pl_error *err) {
    char path[512];
    pl_file bytes;
    pl_summary *summary = NULL;
    *err = (pl_error){0};
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (pl_file_open(&bytes, path, SIZE_MAX, err) != PL_OK) return NULL;
    CHECK(pl_summary_is(bytes.bytes, bytes.size));
    pl_import_summary(&summary, bytes.bytes, bytes.size, path, NULL, err);
    pl_file_close(&bytes);
    return summary;
}

static int64_t sum_of(const pl_summary *s, bool parameters) {
    int64_t sum = 0;
    for (size_t i = 0; i < s->layer_count; i++)
        sum += parameters ? s->layers[i].parameters : s->layers[i].activations;
    return sum;
}

/* Real texts (torchsummary 1.5.1, torchinfo 1.8.0): ResNet-18 has 20 convolutions, 20 norms, 17
 * ReLUs, two pools and a linear layer; of 64 x 64 pixels they make 611,816 numbers. torchinfo's
 * usual depth hides the two layers of each of three shortcuts behind their Sequential. */
static void summaries_are_read(void) {
    static const struct {
        const char *file;
        size_t layers;
        int64_t batch, parameters, trainable;
        const char *first, *last;
        int64_t activations; /* of all layers */
    } texts[] = {
        {"torchsummary-resnet18.txt", 60, PL_UNKNOWN, 11689512, 11642984, "Conv2d", "Linear",
         611816},
        {"torchinfo-resnet18.txt", 57, 8, 11689512, 11642984, "Conv2d", "Linear", 597480},
        {"torchsummary-mlp-b64.txt", 5, 64, 204042, 204042, "Linear", "Linear", 4 * 256 + 10},
        {"torchinfo-lm.txt", 19, 4, 176488, 176488, "Embedding", "Linear", 0},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_summary *s = read_summary(texts[i].file, &err);
        if (!s) {
            printf("  %s: %s\n", texts[i].file, err.message);
            check_failures_in_case++;
            continue;
        }
        CHECK_INT(s->layer_count, texts[i].layers);
        CHECK_INT(s->batch, texts[i].batch);
        CHECK_INT(s->parameters, texts[i].parameters);
        CHECK_INT(s->trainable, texts[i].trainable);
        CHECK_INT(sum_of(s, true), texts[i].parameters);
        if (texts[i].activations) CHECK_INT(sum_of(s, false), texts[i].activations);
        CHECK_STR(s->layers[0].type, texts[i].first);
        CHECK_STR(s->layers[s->layer_count - 1].type, texts[i].last);
        pl_summary_close(&s);
    }
}

/* torchinfo with other columns, names and plain letters; a container with a parameter of its own.
 */
static void columns_may_be_others(void) {
    static const char text[] =
        "talk before\n"
        "Layer (type (var_name):depth-idx)     Input Shape       Output Shape      Param #   "
        "Mult-Adds\n"
        "=====================================================================================\n"
        "Net (Net)                             [2, 3, 8, 8]      [2, 5]            7         --\n"
        "+ Conv2d (conv): 1-1                  [2, 3, 8, 8]      [2, 4, 6, 6]      (112)     99\n"
        "+ ModuleList (list): 1-2              --                --                --        --\n"
        "|    + Linear (0): 2-1                [2, 144]          [2, 5]            725       --\n"
        "|    + Linear (0): 2-2                [2, 5]            [2, 5]            (recursive)  "
        "--\n"
        "=====================================================================================\n"
        "Total params: 844\nTrainable params: 732\nNon-trainable params: 112\n";
    pl_summary *s = NULL;
    pl_error err = {0};
    CHECK_INT(pl_import_summary(&s, text, sizeof text - 1, "x/net.txt", NULL, &err), PL_OK);
    if (!s) {
        printf("  %s\n", err.message);
        return;
    }
    CHECK_STR(s->name, "net");
    CHECK_INT(s->layer_count, 4);
    CHECK_INT(s->input_elements, 192);
    CHECK_INT(s->trainable, 732);
    static const pl_summary_layer want[] = {
        {"Net", 0, 7}, {"Conv2d", 144, 112}, {"Linear", 5, 725}, {"Linear", 5, 0}};
    for (size_t i = 0; i < s->layer_count && i < 4; i++) {
        CHECK_STR(s->layers[i].type, want[i].type);
        CHECK_INT(s->layers[i].activations, want[i].activations);
        CHECK_INT(s->layers[i].parameters, want[i].parameters);
    }
    pl_summary_close(&s);
}

static void bad_summaries_are_refused(void) {
#define HEAD "        Layer (type)               Output Shape         Param #\n"
    static const struct {
        const char *text, *message;
    } texts[] = {
        {"nothing", "line 1: expected the table's heading"},
        {HEAD, "line 1: the table has no rows"},
        {HEAD "========\n Conv2d-1 [-1, 6 8\n",
         "line 3: expected `Conv2d-1 [-1, 64, 32, 32] 9,408`"},
        {HEAD "========\n Conv2d-1 [-1, 64] 8\n",
         "line 3: expected `Total params:`; the text is cut short"},
        {HEAD "========\n Conv2d-1 [-1, 99999999999999999999] 8\n",
         "line 3: expected `Conv2d-1 [-1, 64, 32, 32] 9,408`"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_summary *s = NULL;
        pl_error err = {0};
        CHECK_INT(pl_import_summary(&s, texts[i].text, strlen(texts[i].text), "t", NULL, &err),
                  PL_INPUT);
        CHECK(s == NULL && err.position >= 0);
        CHECK_STR(err.message, texts[i].message);
    }
}

/* ---- against what was measured ---- */

/* Made-up jobs of the ground truth (H200, PyTorch 2.11, 2026-11-15): their `model` as it stands
 * there, and the most that torch.cuda had allocated and reserved. */
static const struct {
    const char *id, *spec;
    pl_precision precision;
    const char *optimizer;
    int64_t allocated, reserved;
} measured[] = {
    {"mlp-1051",
     "{\"kind\": \"mlp\", \"inp\": 2239, \"out\": 839, \"widths\": [1454, 727, 1454], \"act\": "
     "\"tanh\", \"bn\": true, \"dropout\": 0.49, \"arch\": \"bottleneck\", \"batch\": 256}",
     PL_FP32, "adamw", 202767872, 232783872},
    {"mlp-1893",
     "{\"kind\": \"mlp\", \"inp\": 2625, \"out\": 275, \"widths\": [2258, 1129, 564, 282], "
     "\"act\": "
     "\"elu\", \"bn\": true, \"dropout\": 0.18, \"arch\": \"pyramid\", \"batch\": 4}",
     PL_AMP_BF16, "adagrad", 256103424, 289406976},
    {"tfm-1106",
     "{\"kind\": \"transformer\", \"arch\": \"decoder\", \"d\": 512, \"heads\": 8, \"layers\": 22, "
     "\"ff\": 2048, \"vocab\": 30522, \"norm\": \"rmsnorm\", \"mlp\": \"gelu\", \"dropout\": 0, "
     "\"attn\": \"eager\", \"tie\": false, \"head\": \"lm\", \"classes\": 400, \"batch\": 32, "
     "\"seq\": 768}",
     PL_AMP_BF16, "adagrad", 40819963392, 42903535616},
    {"tfm-0108",
     "{\"kind\": \"transformer\", \"arch\": \"encdec\", \"d\": 768, \"heads\": 12, \"layers\": 18, "
     "\"ff\": 3072, \"vocab\": 128256, \"norm\": \"layernorm\", \"mlp\": \"relu\", \"dropout\": "
     "0.1, "
     "\"attn\": \"eager\", \"tie\": true, \"head\": \"lm\", \"classes\": 2, \"batch\": 8, \"seq\": "
     "64}",
     PL_AMP_BF16, "rmsprop", 6446285312, 7505707008},
    {"tfm-0462",
     "{\"kind\": \"transformer\", \"arch\": \"encoder\", \"d\": 128, \"heads\": 2, \"layers\": 19, "
     "\"ff\": 512, \"vocab\": 50257, \"norm\": \"layernorm\", \"mlp\": \"swiglu\", \"dropout\": 0, "
     "\"attn\": \"sdpa\", \"tie\": true, \"head\": \"lm\", \"classes\": 1000, \"batch\": 32, "
     "\"seq\": 768}",
     PL_TF32, "adamw", 20804247552, 25692209152},
    {"rnn-0510",
     "{\"kind\": \"rnn\", \"cell\": \"lstm\", \"vocab\": 30000, \"inp\": 300, \"hidden\": 256, "
     "\"layers\": 2, \"bidirectional\": false, \"dropout\": 0.2, \"classes\": 1000, \"batch\": 4, "
     "\"seq\": 256}",
     PL_TF32, "adagrad", 283310080, 335544320},
    {"rnn-1648",
     "{\"kind\": \"rnn\", \"cell\": \"rnn\", \"vocab\": 0, \"inp\": 300, \"hidden\": 512, "
     "\"layers\": 1, \"bidirectional\": true, \"dropout\": 0, \"classes\": 1000, \"batch\": 32, "
     "\"seq\": 512}",
     PL_BF16, "adamw", 453314560, 536870912},
    {"rnn-0507",
     "{\"kind\": \"rnn\", \"cell\": \"gru\", \"vocab\": 5000, \"inp\": 300, \"hidden\": 128, "
     "\"layers\": 5, \"bidirectional\": true, \"dropout\": 0.2, \"classes\": 2, \"batch\": 256, "
     "\"seq\": 50}",
     PL_AMP_FP16, "adagrad", 582979584, 752877568},
    {"cnn-0938",
     "{\"kind\": \"cnn\", \"channels\": 1, \"size\": 48, \"classes\": 2, \"base\": 128, \"depth\": "
     "24, \"arch\": \"residual\", \"kernel\": 3, \"act\": \"mish\", \"bn\": true, \"dropout\": "
     "0.2, "
     "\"inplace\": true, \"pool_every\": 4, \"batch\": 12}",
     PL_FP32, "sgd-momentum", 352603136, 436207616},
    {"cnn-1256",
     "{\"kind\": \"cnn\", \"channels\": 3, \"size\": 48, \"classes\": 21841, \"base\": 64, "
     "\"depth\": 16, \"arch\": \"gradual\", \"kernel\": 1, \"act\": \"selu\", \"bn\": true, "
     "\"dropout\": 0.2, \"inplace\": false, \"pool_every\": 6, \"batch\": 12}",
     PL_FP32, "sgd", 373678592, 417333248},
    {"cnn-1620",
     "{\"kind\": \"cnn\", \"channels\": 3, \"size\": 192, \"classes\": 2, \"base\": 32, \"depth\": "
     "6, "
     "\"arch\": \"hourglass\", \"kernel\": 3, \"act\": \"elu\", \"bn\": true, \"dropout\": 0.2, "
     "\"inplace\": false, \"pool_every\": 6, \"batch\": 4}",
     PL_TF32, "adamw", 310474752, 408944640},
    {"cnn-1538",
     "{\"kind\": \"cnn\", \"channels\": 1, \"size\": 160, \"classes\": 21841, \"base\": 96, "
     "\"depth\": 11, \"arch\": \"dense\", \"kernel\": 3, \"act\": \"mish\", \"bn\": false, "
     "\"dropout\": 0, \"inplace\": true, \"pool_every\": 2, \"batch\": 8}",
     PL_AMP_FP16, "sgd", 296132096, 383778816},
};

/* Convolutions within 2 %: their workspaces are learnt, and may be learnt anew. */
static void sketches_take_what_was_measured(void) {
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        pl_model *model = NULL;
        pl_report *report = NULL;
        pl_error err = {0};
        pl_job job;
        pl_job_default(&job);
        job.precision = measured[i].precision;
        job.optimizer = measured[i].optimizer;
        job.loss = PL_LOSS_CE;
        job.estimator = "sim";
        const char *spec = measured[i].spec;
        if (pl_model_open_memory(&model, spec, strlen(spec), "job.json", NULL, &err) != PL_OK ||
            pl_estimate(&report, model, &job, &err) != PL_OK) {
            printf("  %s: %s\n", measured[i].id, err.message);
            check_failures_in_case++;
        } else if (strncmp(measured[i].id, "cnn", 3) == 0) {
            CHECK(llabs(report->allocated_bytes - measured[i].allocated) <
                  measured[i].allocated / 50);
            CHECK(llabs(report->reserved_bytes - measured[i].reserved) < measured[i].reserved / 50);
        } else {
            CHECK_INT(report->allocated_bytes, measured[i].allocated);
            CHECK_INT(report->reserved_bytes, measured[i].reserved);
        }
        pl_report_close(&report);
        pl_model_close(&model);
    }
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : "tests/data/summary";
    RUN(yaml_is_understood);
    RUN(yaml_is_refused);
    RUN(yaml_nests_so_far);
    RUN(models_have_their_sizes);
    RUN(batch_and_sequence_are_the_callers);
    RUN(modules_have_their_names);
    RUN(errors_name_the_line);
    RUN(huge_sizes_are_refused);
    RUN(memory_may_be_gone);
    RUN(kinds_are_told_apart);
    RUN(summaries_are_read);
    RUN(columns_may_be_others);
    RUN(bad_summaries_are_refused);
    RUN(sketches_take_what_was_measured);
    return check_done();
}
