/* plimsoll's own graph: what is written is read back as it was, to the byte and to the estimate,
 * and what is damaged is reported with its place. test_graph_json FOLDER: of .pt2 files */
#include <dirent.h>
#include <stdlib.h>

#include "check.h"
#include "graph_sound.h"
#include "import/graph_json.h"
#include "import_graph.h"

static const char *folder;

static char *written(const pl_graph *g, pl_arena **arena, size_t *size) {
    *arena = pl_arena_new(0);
    pl_text text = {.arena = *arena};
    pl_graph_json_write(&text, g);
    CHECK(!text.failed);
    *size = text.length;
    return text.text;
}

static int64_t peak_of(const void *bytes, size_t size) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_job job;
    pl_job_default(&job);
    int64_t peak = -1;
    if (pl_model_open_memory(&model, bytes, size, "g", NULL, NULL) == PL_OK &&
        pl_estimate(&report, model, &job, NULL) == PL_OK)
        peak = report->peak_bytes;
    pl_report_close(&report);
    pl_model_close(&model);
    return peak;
}

static void comes_back_as_it_was(void) {
    int tried = 0;
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[600];
        if (!strstr(entry->d_name, ".pt2")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        pl_graph *g = NULL, *again = NULL;
        pl_error err = {0};
        if (import_graph_file(&g, path, NULL, &err) != PL_OK) continue;
        pl_arena *first, *second;
        size_t size, size_again;
        char *text = written(g, &first, &size);
        CHECK_INT(pl_import_graph_json(&again, text, size, "g.json", NULL, &err), PL_OK);
        if (again) {
            const char *wrong = graph_unsound(again);
            if (wrong) printf("    %s: %s\n", path, wrong);
            CHECK(!wrong);
            char *text_again = written(again, &second, &size_again);
            CHECK(size == size_again && memcmp(text, text_again, size) == 0);
            pl_arena_free(&second);
        } else {
            printf("    %s: %s at %lld\n", path, err.message, (long long)err.position);
        }
        pl_model *model = NULL;
        pl_report *report = NULL;
        pl_job job;
        pl_job_default(&job);
        if (pl_model_open(&model, path, NULL, NULL) == PL_OK &&
            pl_estimate(&report, model, &job, NULL) == PL_OK)
            CHECK_INT(peak_of(text, size), report->peak_bytes);
        pl_report_close(&report);
        pl_model_close(&model);
        pl_graph_close(&g);
        pl_graph_close(&again);
        pl_arena_free(&first);
        tried++;
    }
    if (dir) closedir(dir);
    CHECK(tried >= 5);
}

#define TENSOR(role, sizes)                                                                        \
    "{\"role\": \"" role "\", \"path\": \"w\", \"dtype\": \"float32\", \"requires_grad\": true, "  \
    "\"sizes\": " sizes "}"
/* A linear layer: y = x w^T. */
#define GRAPH(x, w, y)                                                                             \
    "{\"plimsoll_graph\": 1, \"symbols\": [{\"name\": \"s0\", \"role\": \"batch\"}], "             \
    "\"tensors\": [" TENSOR("input", x) "," TENSOR(                                                \
        "parameter", w) ","                                                                        \
                        "{\"dtype\": \"float32\", \"sizes\": " y                                   \
                        "}], \"nodes\": [{\"target\": \"aten.linear.default\", "                   \
                        "\"args\": [[\"input\", \"tensor\", 0], [\"weight\", \"tensor\", 1]], "    \
                        "\"outputs\": [2]}], "                                                     \
                        "\"inputs\": [0], \"outputs\": [2]}"

static void what_is_wrong_is_reported(void) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{\"plimsoll_graph\": 2}", "version 1"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [{\"sizes\": [3, -4]}]}", "fits a memory"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [{\"sizes\": [1099511627776, 1099511627776]}]}",
         "fits a memory"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [{\"dtype\": \"float33\"}]}", "a type such as"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [{\"role\": \"king\"}]}", "value, parameter"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [{\"role\": \"parameter\"}]}", "a path"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [{\"sizes\": [[4, \"s0\"]]}]}", "symbols"},
        {"{\"plimsoll_graph\": 1, \"modules\": [{\"parent\": 0}]}", "comes before"},
        {"{\"plimsoll_graph\": 1, \"nodes\": [{\"module\": 3}]}", "module that is not there"},
        {"{\"plimsoll_graph\": 1, \"nodes\": [{\"args\": [[\"x\", \"tensor\", 0]]}]}",
         "no tensor made before"},
        {"{\"plimsoll_graph\": 1, \"nodes\": [{\"args\": [[\"x\", \"tensor\"]]}]}", "name, kind"},
        {"{\"plimsoll_graph\": 1, \"nodes\": [{\"outputs\": [0]}]}", "no value of its own"},
        {"{\"plimsoll_graph\": 1, \"inputs\": [0]}", "input that is none"},
        {"{\"plimsoll_graph\": 1, \"mutations\": [[0]]}", "new value"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [{\"tied\": 5}]}", "tied"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [", "expected"},
        /* sizes that were believed */
        {"{\"plimsoll_graph\": 1, \"symbols\": [{\"name\": \"s0\", \"hint\": 8}], "
         "\"tensors\": [{\"dtype\": \"float32\", \"sizes\": [[4, \"s0\"]]}]}",
         "size that its expression gives"},
        {"{\"plimsoll_graph\": 1, \"symbols\": [{\"name\": \"s0\", \"hint\": 8, \"most\": 4}]}",
         "hint within the symbol's range"},
        {"{\"plimsoll_graph\": 1, \"symbols\": [{\"name\": \"s0\"}, {\"name\": \"s0\"}]}",
         "a name of its own"},
        {"{\"plimsoll_graph\": 1, \"tensors\": [" TENSOR(
             "parameter", "[4, 4]") ", {\"role\": "
                                    "\"parameter\", \"path\": \"v\", \"dtype\": \"float32\", "
                                    "\"sizes\": [400, 4], \"tied\": 0}]}",
         "tensor 1 is tied to tensor 0, of another size or type: [400, 4], [4, 4]"},
        {GRAPH("[8, 4]", "[4, 5]", "[8, 4]"), "sizes do not go together"},
        {GRAPH("[8, 4]", "[4, 4]", "[8, 5]"), "node 0 (aten.linear.default): its tensors' sizes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_model *model = NULL;
        pl_error err = {0};
        CHECK_INT(
            pl_model_open_memory(&model, rows[i].text, strlen(rows[i].text), "g.json", NULL, &err),
            PL_INPUT);
        CHECK(model == NULL);
        CHECK_STR(err.where, "g.json");
        if (!strstr(err.message, rows[i].message)) printf("    %zu: %s\n", i, err.message);
        CHECK(strstr(err.message, rows[i].message) != NULL);
    }
}

/* A symbol without a hint may be meant: sizes are guessed, reported, and the interval is wider. */
static void a_symbol_without_a_hint_is_reported(void) {
    static const char *const texts[] = {
        GRAPH("[[8, \"s0\"], 4]", "[4, 4]", "[[8, \"s0\"], 4]"),
        GRAPH("[8, 4]", "[4, 4]", "[8, 4]"),
    };
    for (int i = 0; i < 2; i++) {
        pl_model *model = NULL;
        pl_report *report = NULL;
        pl_error err = {0};
        pl_job job;
        pl_job_default(&job);
        job.loss = PL_LOSS_MSE;
        CHECK_INT(pl_model_open_memory(&model, texts[i], strlen(texts[i]), "g", NULL, &err), PL_OK);
        if (model) CHECK_INT(pl_estimate(&report, model, &job, &err), PL_OK);
        CHECK_STR(err.message, "");
        bool reported = false;
        for (size_t k = 0; report && k < report->warning_count; k++)
            reported |= strstr(report->warnings[k], "no hint") != NULL;
        CHECK(reported);
        if (report) CHECK((double)report->low_bytes < 0.92 * (double)report->peak_bytes);
        pl_report_close(&report);
        pl_model_close(&model);
    }
}

/* Each of 200,000 symbols is looked up once: minutes, were it done by going through the others. */
static void many_symbols(void) {
    enum { COUNT = 200000 };
    char *text = malloc((size_t)COUNT * 100 + 1000);
    if (!text) return;
    size_t at = (size_t)sprintf(text, "{\"plimsoll_graph\": 1, \"symbols\": [");
    for (int i = 0; i < COUNT; i++)
        at += (size_t)sprintf(text + at, "%s{\"name\": \"s%d\", \"hint\": 4}", i ? "," : "", i);
    at += (size_t)sprintf(text + at, "], \"tensors\": [");
    for (int i = 0; i < COUNT; i++)
        at += (size_t)sprintf(text + at, "%s{\"dtype\": \"float32\", \"sizes\": [[4, \"s%d\"]]}",
                              i ? "," : "", i);
    at += (size_t)sprintf(text + at, "]}");
    pl_graph *graph = NULL;
    pl_error err = {0};
    CHECK_INT(pl_import_graph_json(&graph, text, at, "g", NULL, &err), PL_OK);
    CHECK_STR(err.message, "");
    if (graph) CHECK_INT(graph->expr_count, COUNT);
    pl_graph_close(&graph);
    free(text);
}

/* Every byte cut off, and some changed: a sound graph or a failure that is reported. */
static void damage_is_reported(void) {
    pl_graph *g = NULL;
    pl_error err = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/mlp.pt2", folder);
    CHECK_INT(import_graph_file(&g, path, NULL, &err), PL_OK);
    if (!g) return;
    pl_arena *arena;
    size_t size;
    char *text = written(g, &arena, &size);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < size + 20000; i++) {
        char *copy = malloc(size);
        size_t length = i < size ? i : size;
        if (!copy) break;
        memcpy(copy, text, size);
        for (int k = 0; i >= size && k < 3; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            static const char marks[] = "{}[]\",:-0123456789eE.ntf\\ ";
            copy[state % size] = marks[(state >> 32) % (sizeof marks - 1)];
        }
        char *exact = malloc(length ? length : 1); /* so that a sanitizer sees the end */
        if (exact) {
            memcpy(exact, copy, length);
            pl_graph *damaged = NULL;
            pl_error why = {0};
            pl_status status = pl_import_graph_json(&damaged, exact, length, "g", NULL, &why);
            const char *wrong = damaged ? graph_unsound(damaged) : NULL;
            if (wrong) CHECK_STR(wrong, "");
            CHECK((status == PL_OK) == (damaged != NULL));
            if (status != PL_OK) CHECK(why.message[0] && status == PL_INPUT);
            pl_graph_close(&damaged);
        }
        free(exact);
        free(copy);
    }
    pl_arena_free(&arena);
    pl_graph_close(&g);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : "tests/data/graphs";
    RUN(comes_back_as_it_was);
    RUN(what_is_wrong_is_reported);
    RUN(a_symbol_without_a_hint_is_reported);
    RUN(many_symbols);
    RUN(damage_is_reported);
    return check_done();
}
