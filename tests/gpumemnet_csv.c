/* GPUMemNet's CSV: made-up rows in every form the reader takes, each error with its byte, and the
 * public file where it lies beside the repository:
 *     test_gpumemnet_csv [FILE.csv.xz] */
#include "lab/jobs/gpumemnet_csv.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define HEAD                                                                                       \
    "Filename,Depth,Activations-Params,Activation Function,Total Activations,Total Parameters,"    \
    "Batch Size,Batch Normalization Layers,Dropout Layers,Max GPU Memory (MiB),Avg GPUTL,"         \
    "Avg GRACT,Avg SMACT,Avg SMOCC,Avg FP32A"
#define ROW                                                                                        \
    "first.out,2,\"[('linear', 8, 72), ('ReLU', 8, 0), ('linear', 3, 27)]\",ReLU,19,99,32,0,0,"    \
    "1200,12.5,0.25,0.125,0.0625,0.5"

static const char *public_file;

static pl_status read_rows(pl_gpumemnet_rows *out, const char *text, pl_arena *arena,
                           pl_error *err) {
    size_t size = strlen(text);
    char *exact = malloc(size ? size : 1); /* no 0 behind it: a read past the end is seen */
    if (!exact) return PL_MISSING;
    memcpy(exact, text, size);
    pl_status status = pl_gpumemnet_read(out, exact, size, "a.csv", arena, err);
    free(exact);
    return status;
}

static void plain_rows(void) {
    static const char *const ends[] = {"\n", "\r\n"};
    for (int e = 0; e < 2; e++)
        for (int last = 0; last < 2; last++) {
            char text[2048];
            pl_gpumemnet_rows r = {0};
            pl_error err = {0};
            pl_arena *arena = pl_arena_new(0);
            snprintf(text, sizeof text, "%s%s%s%s%s%s", HEAD, ends[e], ROW, ends[e],
                     "b,0,\"[('x',1,2)]\",,0,0,1,4,5,3.5,,nan,0,1e-2,7", last ? ends[e] : "");
            CHECK(pl_gpumemnet_is(text, strlen(text)));
            CHECK_INT(read_rows(&r, text, arena, &err), PL_OK);
            CHECK_INT(r.count, 2);
            if (r.count == 2) {
                const pl_gpumemnet_row *a = &r.rows[0], *b = &r.rows[1];
                CHECK_STR(a->filename, "first.out");
                CHECK_STR(a->activation, "ReLU");
                CHECK_INT(a->depth, 2);
                CHECK_INT(a->layer_count, 3);
                CHECK_STR(a->layers[1].type, "ReLU");
                CHECK_INT(a->layers[2].activations, 3);
                CHECK_INT(a->layers[2].parameters, 27);
                CHECK_INT(a->total_activations, 19);
                CHECK_INT(a->total_parameters, 99);
                CHECK_INT(a->batch, 32);
                CHECK(a->max_mib == 1200 && a->gputl == 12.5 && a->gract == 0.25);
                CHECK(a->smact == 0.125 && a->smocc == 0.0625 && a->fp32a == 0.5);
                CHECK_INT(a->position, strlen(HEAD) + strlen(ends[e]));
                CHECK_STR(b->activation, "");
                CHECK_INT(b->batch_norm_layers, 4);
                CHECK_INT(b->dropout_layers, 5);
                CHECK(b->max_mib == 3.5 && isnan(b->gputl) && isnan(b->gract) && b->smact == 0);
                CHECK(b->smocc == 0.01 && b->fp32a == 7);
            }
            pl_arena_free(&arena);
        }
    CHECK(!pl_gpumemnet_is("{\"Activations-Params\": 1}\n", 26));
    CHECK(!pl_gpumemnet_is("a,b\nActivations-Params\n", 23));
    CHECK(!pl_gpumemnet_is("", 0));
}

/* A mark, other columns, another order, no averages, quotes where none are needed, a line break and
 * a doubled quote inside, empty lines. */
static void other_forms(void) {
    static const char text[] =
        "\xef\xbb\xbf\"Batch Size\",Max GPU Memory (MiB),note,Filename,Dropout Layers,"
        "Batch Normalization Layers,Total Parameters,Total Activations,Activation Function,"
        "Activations-Params,Depth\n\n"
        "\"16\",100,\"two\nlines\",\"say \"\"hi\"\", then go\",1,2,3,4,Tanh,"
        "\" [ ( \"\"it's\"\" , 5 , 6 ) , ('a\"\"b',7,8)] \",9\n\r\n\n";
    pl_gpumemnet_rows r = {0};
    pl_error err = {0};
    pl_arena *arena = pl_arena_new(0);
    CHECK_INT(read_rows(&r, text, arena, &err), PL_OK);
    CHECK_INT(r.count, 1);
    if (r.count == 1) {
        CHECK_INT(r.rows[0].batch, 16);
        CHECK_STR(r.rows[0].filename, "say \"hi\", then go");
        CHECK_INT(r.rows[0].layer_count, 2);
        CHECK_STR(r.rows[0].layers[0].type, "it's");
        CHECK_INT(r.rows[0].layers[0].parameters, 6);
        CHECK_STR(r.rows[0].layers[1].type, "a\"b");
        CHECK_INT(r.rows[0].depth, 9);
        CHECK(isnan(r.rows[0].gputl) && isnan(r.rows[0].fp32a));
    } else {
        printf("    %s\n", err.message);
    }
    pl_arena_free(&arena);
}

/* A row with one field replaced: what is said, and at which byte behind the row's beginning. */
static void refused_values(void) {
    static const struct {
        const char *row;
        int at;
        const char *says;
    } cases[] = {
        {"f,x,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 2,
         "column 'Depth': expected a whole number from 0"},
        {"f,-1,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 2, "column 'Depth': expected a whole number"},
        {"f,1.5,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 2, "column 'Depth': expected a whole number"},
        {"f,,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 2, "column 'Depth': expected a whole number"},
        {"f,9223372036854775808,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 2, "column 'Depth'"},
        {"f,1,\"[('a',1,2)]\",R,0,0,0,0,0,9,,,,,", 24,
         "column 'Batch Size': expected a number above 0"},
        {"f,1,\"[('a',1,2)]\",R,0,0,1,0,0,0,,,,,", 30,
         "column 'Max GPU Memory (MiB)': expected a number of MiB above 0"},
        {"f,1,\"[('a',1,2)]\",R,0,0,1,0,0,nan,,,,,", 30, "a number of MiB above 0"},
        {"f,1,\"[('a',1,2)]\",R,0,0,1,0,0,1e999,,,,,", 30, "a number of MiB above 0"},
        {"f,1,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,x", 36,
         "column 'Avg FP32A': expected a number from 0, nan or nothing"},
        {"f,1,\"[('a',1,2)]\",R,0,0,1,0,0,9,-1,,,,", 32, "column 'Avg GPUTL'"},
        {"f,1,\"[('a',1,2)]\",R,0,0,1,0,0,9,1 ,,,,", 32, "column 'Avg GPUTL'"},
        {"\xff,1,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 0,
         "column 'Filename': expected text in UTF-8"},
        {"f,1,,R,0,0,1,0,0,9,,,,,", 4, "column 'Activations-Params': expected a list of layers"},
        {"f,1,\"[]\",R,0,0,1,0,0,9,,,,,", 5, "expected at least one layer"},
        {"f,1,\"[\",R,0,0,1,0,0,9,,,,,", 6, "expected a layer, as"},
        {"f,1,\"[('a',1,2)\",R,0,0,1,0,0,9,,,,,", 15, "expected a comma or the end of the list"},
        {"f,1,\"[('a',1,2),]\",R,0,0,1,0,0,9,,,,,", 16, "expected a layer, as"},
        {"f,1,\"[('a',1,2)] x\",R,0,0,1,0,0,9,,,,,", 17, "expected nothing after the list"},
        {"f,1,\"[(a,1,2)]\",R,0,0,1,0,0,9,,,,,", 7, "expected a layer's type in quotes"},
        {"f,1,\"[('',1,2)]\",R,0,0,1,0,0,9,,,,,", 8, "expected a layer's type and the quote"},
        {"f,1,\"[('a,1,2)]\",R,0,0,1,0,0,9,,,,,", 8, "expected a layer's type and the quote"},
        {"f,1,\"[('a\\n',1,2)]\",R,0,0,1,0,0,9,,,,,", 9, "expected a layer's type without escapes"},
        {"f,1,\"[('a' 1,2)]\",R,0,0,1,0,0,9,,,,,", 11, "expected a comma"},
        {"f,1,\"[('a',-1,2)]\",R,0,0,1,0,0,9,,,,,", 11, "expected a whole number from 0"},
        {"f,1,\"[('a',1)]\",R,0,0,1,0,0,9,,,,,", 12, "expected a comma"},
        {"f,1,\"[('a',1,2,3)]\",R,0,0,1,0,0,9,,,,,", 14, "expected a closing bracket"},
        {"f,1", 0, "expected 15 fields, as many as the first line has, this one has 2"},
        {"f,1,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,,", 0, "this one has 16"},
        {"f\"g,1,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 1, "expected no quote within a field"},
        {"\"f\"g,1,\"[('a',1,2)]\",R,0,0,1,0,0,9,,,,,", 3, "expected a comma or the line's end"},
        {"f,1,\"[('a',1,2)],R,0,0,1,0,0,9,,,,,", 4, "expected a quote at the end of what begins"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        pl_gpumemnet_rows r = {0};
        pl_error err = {0};
        pl_arena *arena = pl_arena_new(0);
        int before = snprintf(text, sizeof text, "%s\r\n%s\r\n", HEAD, ROW);
        snprintf(text + before, sizeof text - (size_t)before, "%s\r\n", cases[i].row);
        CHECK_INT(read_rows(&r, text, arena, &err), PL_INPUT);
        CHECK(r.rows == NULL && r.count == 0);
        CHECK_STR(err.where, "a.csv");
        CHECK_INT(err.position, before + cases[i].at);
        if (!strstr(err.message, cases[i].says)) CHECK_STR(err.message, cases[i].says);
        if (check_failures_in_case) printf("    in %s\n", cases[i].row);
        pl_arena_free(&arena);
        if (check_failures_in_case) break;
    }
}

static void refused_headers(void) {
    static const struct {
        const char *text, *says;
        int at;
    } cases[] = {
        {"", "expected a first line that names the columns", 0},
        {"\n\r\n", "expected a first line that names the columns", 3},
        {HEAD, "expected at least one row", (int)sizeof HEAD - 1},
        {HEAD "\r\n\r\n", "expected at least one row", (int)sizeof HEAD + 3},
        {"Filename,Depth,Activations-Params,Activation Function,Total Activations,Total Parameters"
         "\n",
         "missing: 'Batch Size', 'Batch Normalization Layers', 'Dropout Layers', 'Max GPU Memory "
         "(MiB)'",
         0},
        {"a,b\n1,2\n", "missing: 'Filename', 'Depth', 'Activations-Params'", 0},
        {HEAD ",Depth\n", "expected the column 'Depth' once", (int)sizeof HEAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_gpumemnet_rows r = {0};
        pl_error err = {0};
        pl_arena *arena = pl_arena_new(0);
        CHECK_INT(read_rows(&r, cases[i].text, arena, &err), PL_INPUT);
        CHECK_INT(err.position, cases[i].at);
        if (!strstr(err.message, cases[i].says)) CHECK_STR(err.message, cases[i].says);
        pl_arena_free(&arena);
    }
    char commas[600];
    memset(commas, ',', sizeof commas - 1);
    commas[sizeof commas - 1] = 0;
    pl_gpumemnet_rows r;
    pl_error err = PL_SIZED(pl_error);
    pl_arena *arena = pl_arena_new(0);
    CHECK_INT(read_rows(&r, commas, arena, &err), PL_INPUT);
    CHECK_STR(err.message, "expected at most 256 columns");
    CHECK_INT(pl_gpumemnet_open(&r, "/nowhere/at/all.csv", arena, &err), PL_INPUT);
    CHECK_STR(err.where, "/nowhere/at/all.csv");
    pl_arena_free(&arena);
}

/* Cut anywhere it is refused with a place, or what is there is read; each byte turned likewise. */
static void damaged(void) {
    static const char text[] = HEAD "\r\n" ROW "\r\n" ROW "\r\n";
    size_t size = sizeof text - 1;
    int whole = 0, refused = 0;
    for (size_t i = 0; i < size * 9; i++) {
        char copy[sizeof text];
        memcpy(copy, text, sizeof text);
        if (i < size)
            copy[i] = 0;
        else
            copy[(i - size) / 8] ^= (char)(1 << (i - size) % 8);
        pl_gpumemnet_rows r = {0};
        pl_error err = {0};
        pl_budget budget = {.most_bytes = 1 << 20};
        pl_arena *arena = pl_arena_new(&budget);
        pl_status status = read_rows(&r, copy, arena, &err);
        if (status == PL_OK)
            whole++;
        else
            refused++;
        CHECK(status == PL_OK ? r.count > 0
                              : status == PL_INPUT && err.position >= 0 &&
                                    err.position <= (int64_t)size && err.message[0]);
        pl_arena_free(&arena);
    }
    CHECK(whole > 100 && refused > 100);
}

static void memory_runs_out(void) {
    int failed = 0, done = 0;
    for (long after = 0; after < 200 && !done; after++) {
        pl_gpumemnet_rows r = {0};
        pl_error err = {0};
        pl_arena *arena = pl_arena_new(0);
        pl_arena_fail_after(after);
        pl_status status = read_rows(&r, HEAD "\n" ROW "\n" ROW "\n", arena, &err);
        pl_arena_fail_after(-1);
        if (status == PL_OK) {
            CHECK_INT(r.count, 2);
            done = 1;
        } else {
            CHECK_INT(status, PL_MISSING);
            CHECK(r.rows == NULL && r.count == 0 && err.message[0]);
            failed++;
        }
        pl_arena_free(&arena);
    }
    CHECK(done && failed >= 10);
}

/* 3,000 runs of MLPs on an A100; nothing of theirs is kept here but what holds for all of them. */
static void the_public_file(void) {
    pl_gpumemnet_rows r = {0};
    pl_error err = {0};
    pl_arena *arena = pl_arena_new(0);
    CHECK_INT(pl_gpumemnet_open(&r, public_file, arena, &err), PL_OK);
    if (err.message[0]) printf("    byte %" PRId64 ": %s\n", err.position, err.message);
    CHECK_INT(r.count, 3000);
    size_t wrong = 0;
    for (size_t i = 0; i < r.count; i++) {
        const pl_gpumemnet_row *row = &r.rows[i];
        int64_t parameters = 0, activations = 0, norms = 0, dropouts = 0, linears = 0;
        for (size_t k = 0; k < row->layer_count; k++) {
            parameters += row->layers[k].parameters;
            activations += row->layers[k].activations;
            norms += strcmp(row->layers[k].type, "batch_normalization") == 0;
            dropouts += strcmp(row->layers[k].type, "dropout") == 0;
            linears += strcmp(row->layers[k].type, "linear") == 0;
        }
        bool sound = parameters == row->total_parameters && activations == row->total_activations &&
                     norms == row->batch_norm_layers && dropouts == row->dropout_layers &&
                     linears == row->depth && row->max_mib > 1000 && row->max_mib < 40960 &&
                     row->gputl >= 0 && row->gputl <= 100 && row->smact >= 0 && row->smact <= 1;
        wrong += !sound;
    }
    CHECK_INT(wrong, 0);
    pl_arena_free(&arena);
}

int main(int argc, char **argv) {
    RUN(plain_rows);
    RUN(other_forms);
    RUN(refused_values);
    RUN(refused_headers);
    RUN(damaged);
    RUN(memory_runs_out);
    public_file = argc > 1 ? argv[1] : NULL;
    if (public_file && access(public_file, R_OK) == 0)
        RUN(the_public_file);
    else
        SKIP("the_public_file", "GPUMemNet's file is not there");
    return check_done();
}
