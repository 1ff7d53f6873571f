/* Sizes that depend on numbers: what each comes to, expected and at worst, by graphs of a few
 * operators; hostile ranges; and what an estimate says of it. test_data_sizes FOLDER: of .pt2
 * files */
#include "graph/data_sizes.h"

#include <stdlib.h>

#include "check.h"
#include "import/graph_json.h"
#include "import_graph.h"
#include "plimsoll/plimsoll.h"

static const char *folder;

enum { MOST = 8 };

/* A graph of the rows below: ' stands for ". */
static pl_graph *graph_of(const char *symbols, const char *tensors, const char *nodes) {
    size_t room = strlen(symbols) + strlen(tensors) + strlen(nodes) + 200;
    char *text = malloc(room);
    if (!text) return NULL;
    snprintf(text, room, "{'plimsoll_graph':1,'symbols':[%s],'tensors':[%s],'nodes':[%s]}", symbols,
             tensors, nodes);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    pl_graph *graph = NULL;
    pl_error err = {0};
    if (pl_import_graph_json(&graph, text, strlen(text), "g", NULL, &err) != PL_OK)
        printf("    %s at %lld\n", err.message, (long long)err.position);
    free(text);
    return graph;
}

static bool find(const pl_graph *g, pl_data_case which, int64_t *values, pl_data_size *sizes) {
    pl_arena *arena = pl_arena_new(NULL);
    for (int32_t i = 0; i < g->symbol_count; i++) values[i] = g->symbols[i].hint;
    bool good = arena && pl_data_sizes(g, which, values, sizes, arena);
    pl_arena_free(&arena);
    return good;
}

#define U(name)                   "{'name':'" name "'}"
#define RANGED(name, least, most) "{'name':'" name "','least':" #least ",'most':" #most "}"
#define F(sizes)                  "{'dtype':'float32','role':'input','sizes':" sizes "}"
#define VALUE(type, sizes)        "{'dtype':'" type "','sizes':" sizes "}"
#define I(sizes)                  VALUE("int64", sizes)
#define GIVEN                     VALUE("int64", "[],'role':'input'")
#define B(sizes)                  VALUE("bool", sizes)
#define R(sizes)                  VALUE("float32", sizes)
#define T(name, id)               "['" name "','tensor'," #id "]"
#define N(name, value)            "['" name "','int'," #value "]"
#define NODE(target, args, outputs)                                                                \
    "{'target':'aten." target "','args':[" args "],'outputs':[" outputs "]}"
#define ITEM(id, symbol)                                                                           \
    "{'target':'aten.item.default','args':[" T("self", id) "],'outputs':[-1],'number':'" symbol "'}"
/* 64 tokens' two of four experts: 0 the scores, 1 and 2 topk's values and places. */
#define TOP_TENSORS F("[64,4]") "," R("[64,2]") "," I("[64,2]") ","
#define TOP         NODE("topk.default", T("self", 0) "," N("k", 2), "1,2") ","
#define FOUR        U("u0") "," U("u1") "," U("u2") "," U("u3")

static const struct row {
    const char *name, *symbols, *tensors, *nodes;
    int64_t expected[MOST], worst[MOST];
    pl_data_kind kind;
} rows[] = {
    {"tokens by expert: a mask's sums, read, and a split by them",
     FOUR,
     TOP_TENSORS
         R("[64,4]") "," R("[64,4]") "," I("[64,4]") "," I("[4]") "," I("[]") "," I("[]") "," I("[]") "," I(
             "[]") "," F("[128,8]") "," R("[[1,'u0'],8]") "," R("[[1,'u1'],8]") "," R("[[1,'u2'],8]") "," R("[[1,'u3'],8]"),
     TOP NODE("zeros.default", "['size','ints',[64,4]]", "3") "," NODE(
         "scatter.value", T("self", 3) "," N("dim", 1) "," T("index", 2) "," N("value", 1),
         "4") "," NODE("to.dtype", T("self", 4),
                       "5") "," NODE("sum.dim_IntList", T("self", 5) ",['dim','ints',[0]]",
                                     "6") "," NODE("unbind.int", T("self", 6),
                                                   "7,8,9,10") "," ITEM(7,
                                                                        "u0") "," ITEM(8,
                                                                                       "u1") "," ITEM(9,
                                                                                                      "u2") "," ITEM(10,
                                                                                                                     "u3") "," NODE("split_with_sizes.default",
                                                                                                                                    T("self",
                                                                                                                                      11) ",['split_sizes','ints',[[1,'u0'],[1,'u1'],[1,'u2'],[1,'u3']]]",
                                                                                                                                    "12,13,14,15"),
     {32, 32, 32, 32},
     {0, 0, 64, 64},
     PL_DATA_PART},
    {"tokens by expert: the places of one_hot",
     U("u0") "," U("u1"),
     TOP_TENSORS I("[64,2,4]") "," VALUE("int64", "[4,2,64],'strides':[1,4,8]") "," I("[2,64]") "," I(
         "[[1,'u0']]") "," I("[[1,'u0']]") "," I("[2,64]") "," I("[[1,'u1']]") "," I("[[1,'u1']]"),
     TOP NODE("one_hot.default", T("self", 2) "," N("num_classes", 4), "3") "," NODE(
         "permute.default", T("self", 3) ",['dims','ints',[2,1,0]]",
         "4") "," NODE("select.int", T("self", 4) "," N("dim", 0) "," N("index", 0),
                       "5") "," NODE("where.default", T("condition", 5),
                                     "6,7") "," NODE("select.int",
                                                     T("self", 4) "," N("dim", 0) "," N("index",
                                                                                        -1),
                                                     "8") "," NODE("where.default",
                                                                   T("condition", 8), "9,10"),
     {32, 32},
     {0, 64},
     PL_DATA_PART},
    {"one of a range",
     U("u0") "," U("u1"),
     F("[10,3]") "," I("[10]") "," B("[10]") "," R("[[1,'u0'],3]") "," B("[10]") "," R(
         "[[1,'u1'],3]"),
     NODE("argmax.default", T("self", 0) "," N("dim", -1), "1") "," NODE(
         "eq.Scalar", T("self", 1) "," N("other", 0),
         "2") "," NODE("index.Tensor", T("self", 0) ",['indices','tensors',[2]]",
                       "3") "," NODE("eq.Scalar", T("self", 1) "," N("other", 2),
                                     "4") "," NODE("index.Tensor",
                                                   T("self", 0) ",['indices','tensors',[4]]", "5"),
     {4, 3},
     {0, 10},
     PL_DATA_PART},
    {"any other mask: all of it",
     U("u0"),
     F("[10,3]") "," B("[10,3]") "," I("[[1,'u0'],2]"),
     NODE("gt.Scalar", T("self", 0) "," N("other", 0), "1") "," NODE("nonzero.default",
                                                                     T("self", 1), "2"),
     {30},
     {30},
     PL_DATA_LARGEST},
    {"a mask of rows that masked_select spreads",
     U("u0"),
     F("[10,3]") "," B("[10,1]") "," R("[[1,'u0']]"),
     NODE("gt.Scalar", T("self", 0) "," N("other", 0),
          "1") "," NODE("masked_select.default", T("self", 0) "," T("mask", 1), "2"),
     {30},
     {30},
     PL_DATA_LARGEST},
    {"both masks: no more than the fewer",
     U("u0"),
     TOP_TENSORS B("[64,2]") "," B("[64,2]") "," B("[64,2]") "," I("[[1,'u0'],2]"),
     TOP NODE("eq.Scalar", T("self", 2) "," N("other", 1),
              "3") "," NODE("gt.Scalar", T("self", 1) "," N("other", 0),
                            "4") "," NODE("__and__.Tensor", T("self", 3) "," T("other", 4),
                                          "5") "," NODE("nonzero.default", T("self", 5), "6"),
     {64},
     {64},
     PL_DATA_LARGEST},
    {"rows that have one: two of four experts, so every second",
     U("u0"),
     TOP_TENSORS B("[64,2]") "," B("[64]") "," I("[[1,'u0'],1]"),
     TOP NODE("eq.Scalar", T("self", 2) "," N("other", 3),
              "3") "," NODE("any.dim", T("self", 3) "," N("dim", 1),
                            "4") "," NODE("nonzero.default", T("self", 4), "5"),
     {32},
     {64},
     PL_DATA_PART},
    {"what is written over is not known",
     U("u0"),
     F("[10,3]") "," I("[10]") "," B("[10]") "," B("[10]") "," B("[10]") "," I("[[1,'u0'],1]"),
     NODE("argmax.default", T("self", 0) "," N("dim", 1), "1") "," NODE(
         "eq.Scalar", T("self", 1) "," N("other", 0),
         "2") "," NODE("view.default", T("self", 2),
                       "3") "," NODE("copy_.default", T("self", 3) "," T("src", 3),
                                     "4") "," NODE("nonzero.default", T("self", 2), "5"),
     {10},
     {10},
     PL_DATA_LARGEST},
    {"pieces of which only the total is known, beside one that is given",
     U("u0") "," U("u1"),
     F("[30,3]") "," GIVEN "," GIVEN "," R("[[1,'u0'],3]") "," R("[5,3]") "," R("[[1,'u1'],3]"),
     ITEM(1, "u0") "," ITEM(2, "u1") "," NODE(
         "split_with_sizes.default", T("self", 0) ",['split_sizes','ints',[[1,'u0'],5,[1,'u1']]]",
         "3,4,5"),
     {13, 12},
     {0, 25},
     PL_DATA_PART},
    {"pieces within ranges",
     RANGED("u0", 2, 6) "," RANGED("u1", 2, 28),
     F("[30,3]") "," GIVEN "," GIVEN "," R("[[2,'u0'],3]") "," R("[[2,'u1'],3]"),
     ITEM(1, "u0") "," ITEM(2, "u1") "," NODE(
         "split_with_sizes.default", T("self", 0) ",['split_sizes','ints',[[2,'u0'],[2,'u1']]]",
         "3,4"),
     {6, 24},
     {2, 28},
     PL_DATA_PART},
    {"offsets: cut by neighbours",
     U("u0") "," U("u1") "," U("u2"),
     F("[11,3]") "," VALUE("int64", "[3],'role':'input'") "," I("[]") "," I("[]") "," I("[]") "," R(
         "[[0,'u1-u0'],3]") "," R("[[0,'u2-u1'],3]"),
     NODE("unbind.int", T("self", 1), "2,3,4") "," ITEM(2, "u0") "," ITEM(3, "u1") "," ITEM(
         4, "u2") "," NODE("slice.Tensor",
                           T("self", 0) "," N("dim",
                                              0) ",['start','int',[1,'u0']],['end','int',[1,'u1']]",
                           "5") "," NODE("slice.Tensor",
                                         T("self", 0) "," N(
                                             "dim",
                                             0) ",['start','int',[1,'u1']],['end','int',[1,'u2']]",
                                         "6"),
     {0, 6, 11},
     {0, 0, 11},
     PL_DATA_PART},
    {"lengths: each from the beginning",
     U("u0") "," U("u1"),
     F("[11,3]") "," VALUE("int64", "[2],'role':'input'") "," I("[]") "," I("[]") "," R(
         "[[1,'u0'],3]") "," R("[[1,'u1'],3]"),
     NODE("unbind.int", T("self", 1), "2,3") "," ITEM(2, "u0") "," ITEM(3, "u1") "," NODE(
         "slice.Tensor", T("self", 0) "," N("dim", 0) "," N("start", 0) ",['end','int',[1,'u0']]",
         "4") "," NODE("slice.Tensor",
                       T("self", 0) "," N("dim", 0) "," N("start", 0) ",['end','int',[1,'u1']]",
                       "5"),
     {11, 11},
     {11, 11},
     PL_DATA_LARGEST},
    {"sums so far of counts",
     U("u0") "," U("u1"),
     F("[10,2]") "," I("[10]") "," I("[10,2]") "," I("[2]") "," I("[2]") "," I("[]") "," I("[]"),
     NODE("argmax.default", T("self", 0) "," N("dim", 1), "1") "," NODE(
         "one_hot.default", T("self", 1) "," N("num_classes", 2),
         "2") "," NODE("sum.dim_IntList", T("self", 2) ",['dim','ints',[0]]",
                       "3") "," NODE("cumsum.default", T("self", 3) "," N("dim", 0),
                                     "4") "," NODE("unbind.int", T("self", 4),
                                                   "5,6") "," ITEM(5, "u0") "," ITEM(6, "u1"),
     {5, 10},
     {0, 10},
     PL_DATA_PART},
    {"values that differ: 10 draws of 4",
     U("u0"),
     F("[10,4]") "," I("[10]") "," I("[[1,'u0']]"),
     NODE("argmax.default", T("self", 0) "," N("dim", 1), "1") "," NODE("_unique2.default",
                                                                        T("self", 1), "2"),
     {4},
     {4},
     PL_DATA_COUNT},
    {"values that differ: 4 draws of 100",
     U("u0"),
     F("[4,100]") "," I("[4]") "," I("[[1,'u0']]"),
     NODE("argmax.default", T("self", 0) "," N("dim", 1), "1") "," NODE("_unique2.default",
                                                                        T("self", 1), "2"),
     {4},
     {4},
     PL_DATA_COUNT},
    {"values that differ: 60 draws of 100",
     U("u0"),
     F("[60,100]") "," I("[60]") "," I("[[1,'u0']]"),
     NODE("argmax.default", T("self", 0) "," N("dim", 1), "1") "," NODE("_unique2.default",
                                                                        T("self", 1), "2"),
     {46},
     {60},
     PL_DATA_COUNT}, /* 100 (1 - 0.99^60) = 45.3 */
    {"repeats that add up",
     U("u0"),
     F("[10,4]") "," I("[10]") "," I("[10,4]") "," I("[4]") "," I("[[1,'u0']]"),
     NODE("argmax.default", T("self", 0) "," N("dim", 1), "1") "," NODE(
         "one_hot.default", T("self", 1) "," N("num_classes", 4),
         "2") "," NODE("sum.dim_IntList", T("self", 2) ",['dim','ints',[0]]",
                       "3") "," NODE("repeat_interleave.Tensor", T("repeats", 3), "4"),
     {10},
     {10},
     PL_DATA_COUNT},
    {"a number that nobody knows: as long as the longest input",
     U("u0"),
     F("[12,4]") "," GIVEN "," R("[[1,'u0'],4]"),
     ITEM(1, "u0") "," NODE("new_zeros.default", T("self", 0), "2"),
     {12},
     {12},
     PL_DATA_OPEN},
    {"a number of a range that somebody meant",
     RANGED("u0", 0, 40),
     F("[12,4]") "," GIVEN "," R("[[1,'u0'],4]"),
     ITEM(1, "u0") "," NODE("new_zeros.default", T("self", 0), "2"),
     {40},
     {40},
     PL_DATA_LARGEST},
    /* hostile */
    {"pieces that are more than the whole",
     RANGED("u0", 40, 50) "," RANGED("u1", 40, 50),
     F("[30,3]") "," GIVEN "," GIVEN "," R("[[40,'u0'],3]") "," R("[[40,'u1'],3]"),
     ITEM(1, "u0") "," ITEM(2, "u1") "," NODE(
         "split_with_sizes.default", T("self", 0) ",['split_sizes','ints',[[40,'u0'],[40,'u1']]]",
         "3,4"),
     {50, 50},
     {50, 50},
     PL_DATA_LARGEST},
    {"one piece twice",
     U("u0"),
     F("[30,3]") "," GIVEN "," R("[[1,'u0'],3]") "," R("[[1,'u0'],3]"),
     ITEM(1, "u0") "," NODE("split_with_sizes.default",
                            T("self", 0) ",['split_sizes','ints',[[1,'u0'],[1,'u0']]]", "2,3"),
     {30},
     {30},
     PL_DATA_OPEN},
    {"a range near the end of numbers",
     RANGED("u0", 9223372036854775806, 9223372036854775807),
     F("[30,3]") "," GIVEN,
     ITEM(1, "u0"),
     {INT64_MAX - 1},
     {INT64_MAX - 1},
     PL_DATA_OPEN},
    {"a split of nothing known into pieces at the end of numbers",
     RANGED("u0", 0, 9223372036854775807) "," RANGED("u1", 0, 9223372036854775807),
     F("[0,3]") "," GIVEN "," GIVEN "," R("[[1,'u0'],3]") "," R("[[1,'u1'],3]"),
     ITEM(1, "u0") "," ITEM(2, "u1") "," NODE(
         "split_with_sizes.default", T("self", 0) ",['split_sizes','ints',[[1,'u0'],[1,'u1']]]",
         "3,4"),
     {0, 0},
     {0, 0},
     PL_DATA_PART},
};

static void sizes_are_followed(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        pl_graph *g = graph_of(r->symbols, r->tensors, r->nodes);
        int64_t values[MOST], worst[MOST];
        pl_data_size sizes[MOST], at_worst[MOST];
        bool good = g && g->symbol_count <= MOST && find(g, PL_DATA_EXPECTED, values, sizes) &&
                    find(g, PL_DATA_WORST, worst, at_worst);
        int before = check_failures_in_case;
        CHECK(good);
        for (int32_t k = 0; good && k < g->symbol_count; k++) {
            CHECK_INT(values[k], r->expected[k]);
            CHECK_INT(worst[k], r->worst[k]);
            CHECK_INT(sizes[k].kind, r->kind);
        }
        if (check_failures_in_case > before) printf("    in: %s\n", r->name);
        pl_graph_close(&g);
    }
}

static pl_report *estimate(const char *file, int64_t batch) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_error err = {0};
    pl_job job;
    pl_job_default(&job);
    job.loss = PL_LOSS_OWN;
    job.estimator = "sim";
    job.batch = batch;
    if (pl_model_open(&model, path, NULL, &err) != PL_OK ||
        pl_estimate(&report, model, &job, &err) != PL_OK)
        printf("    %s\n", err.message);
    pl_model_close(&model);
    return report;
}

static bool warned(const pl_report *report, const char *text) {
    for (size_t i = 0; report && i < report->warning_count; i++)
        if (strstr(report->warnings[i], text)) return true;
    return false;
}

/* tests/data/graphs/routed.pt2: tokens to two of four experts, twice, a mask, and pieces. */
static void an_estimate_says_what_it_assumes(void) {
    enum { BATCH = 32768, TOKENS = BATCH * 8 };
    pl_report *report = estimate("routed.pt2", BATCH);
    CHECK(report != NULL);
    if (!report) return;
    CHECK(warned(report, "11 sizes that depend on the data: a known total is assumed to be shared "
                         "evenly, 131072 of 524288 in 4 parts"));
    CHECK(warned(report, "1 size that depends on the data: the largest is assumed, up to 262144"));
    CHECK(warned(report, "the interval's upper end holds"));
    /* all of the tokens, 16 floats each, are kept some thirty times at most; each expert's share at its
     * largest would be four times that */
    CHECK(report->allocated_bytes < (int64_t)TOKENS * 16 * 4 * 40);
    CHECK(report->high_bytes > report->peak_bytes);
    pl_report_close(&report);
}

static void the_total_is_the_batch_s(void) {
    static const int64_t batches[] = {4, 7, 1000};
    char path[512];
    snprintf(path, sizeof path, "%s/routed.pt2", folder);
    pl_graph *g = NULL;
    pl_error err = {0};
    CHECK_INT(import_graph_file(&g, path, NULL, &err), PL_OK);
    if (!g) return;
    int64_t *values = calloc((size_t)g->symbol_count, sizeof *values);
    pl_data_size *sizes = calloc((size_t)g->symbol_count, sizeof *sizes);
    pl_arena *arena = pl_arena_new(NULL);
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        for (int which = PL_DATA_EXPECTED; which <= PL_DATA_WORST; which++) {
            int64_t parts = 0;
            for (int32_t i = 0; i < g->symbol_count; i++)
                values[i] = g->symbols[i].role[0] ? batches[b] : PL_UNKNOWN;
            CHECK(pl_data_sizes(g, (pl_data_case)which, values, sizes, arena));
            for (int32_t i = 0; i < g->symbol_count; i++)
                if (sizes[i].kind == PL_DATA_PART) parts += values[i];
            CHECK_INT(parts, batches[b] * 8 * (2 + 2 + 1)); /* both mixtures, and the pieces */
        }
    }
    pl_arena_free(&arena);
    free(values);
    free(sizes);
    pl_graph_close(&g);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : "tests/data/graphs";
    RUN(sizes_are_followed);
    RUN(the_total_is_the_batch_s);
    RUN(an_estimate_says_what_it_assumes);
    return check_done();
}
