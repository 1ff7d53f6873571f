/* The command's parts that need no model: the option table and its parser, sizes in words, the tree
 * of modules, JSON. What it prints and its exit codes as a whole: tests/test_cli.sh. */
#include <stdlib.h>
#include <unistd.h>

#include <math.h>

#include "check.h"
#include "comma.h"
#include "core/json_writer.h"
#include "curve.h"
#include "modules.h"
#include "options.h"
#include "text.h"

/* ---- the table ---- */

static void options_are_told_apart(void) {
    for (size_t i = 0; i < option_count; i++)
        for (size_t k = 0; k < i; k++) {
            const option_row *a = &option_table[i], *b = &option_table[k];
            if (!(a->verbs & b->verbs)) continue;
            CHECK(strcmp(a->name, b->name) != 0);
            CHECK(!a->letter || a->letter != b->letter);
        }
}

static void options_are_well_formed(void) {
    for (size_t i = 0; i < option_count; i++) {
        const option_row *row = &option_table[i];
        CHECK(row->verbs != 0);
        CHECK((row->argument == NULL) == (row->type == OPTION_SWITCH));
        CHECK(row->help[0] && row->help[strlen(row->help) - 1] != '.');
        CHECK(strspn(row->name, "abcdefghijklmnopqrstuvwxyz-") == strlen(row->name));
        if (row->type == OPTION_NAME || row->type == OPTION_NAMES || row->type == OPTION_SPLIT ||
            row->type == OPTION_GPU || row->type == OPTION_PRECISION || row->type == OPTION_LOSS)
            CHECK(row->names != NULL && row->names(0) != NULL);
    }
}

/* What the table calls the default is what pl_job_default sets. */
static void defaults_are_the_library_s(void) {
    pl_job job;
    pl_job_default(&job);
    for (size_t i = 0; i < option_count; i++) {
        const option_row *row = &option_table[i];
        if (strcmp(row->name, "optimizer") == 0) CHECK_STR(job.optimizer, row->standard);
        if (strcmp(row->name, "gpu") == 0 && !(row->verbs >> VERB_COLLOCATE & 1))
            CHECK_STR(job.gpu, row->standard);
        if (strcmp(row->name, "estimator") == 0) CHECK_STR(job.estimator, option_standard(row));
        if (strcmp(row->name, "host-speed") == 0) CHECK(job.host_speed == PL_UNKNOWN);
        if (strcmp(row->name, "copy-gbps") == 0) CHECK(job.copy_gbps == PL_UNKNOWN);
        if (strcmp(row->name, "accumulate") == 0) CHECK_INT(job.accumulate, atoi(row->standard));
    }
}

static void every_listed_name_is_taken(void) {
    for (size_t i = 0; pl_precision_name(i); i++) {
        pl_precision precision;
        CHECK(pl_precision_parse(pl_precision_name(i), &precision));
        CHECK_INT(precision, i);
    }
    for (size_t i = 0; pl_loss_name(i); i++) {
        pl_loss loss;
        CHECK(pl_loss_parse(pl_loss_name(i), &loss));
        CHECK_INT(loss, i);
    }
}

/* words: separated by single spaces. What the request holds is freed by the next one. */
static int parse(request *r, const char *words) {
    static request before;
    static char text[512], *argv[128];
    options_close(&before);
    int argc = 0;
    snprintf(text, sizeof text, "plimsoll %s", words);
    for (char *word = strtok(text, " "); word && argc < 127; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    int code = options_parse(r, argc, argv);
    before = *r;
    return code;
}

/* What the command takes for its own defaults are the library's. */
static void training_starts_from_the_library_s(void) {
    pl_train_settings train;
    pl_evaluate_settings evaluate;
    request r;
    pl_train_settings_default(&train);
    pl_evaluate_settings_default(&evaluate);
    CHECK_INT(parse(&r, "train x"), 0);
    CHECK_INT(r.split, train.split);
    CHECK_INT(r.seed, train.seed);
    CHECK(r.hold_out < 0 && train.hold_out < 0);
    CHECK(r.target == NULL && train.target == NULL);
    CHECK_INT(parse(&r, "evaluate x"), 0);
    CHECK_INT(r.split, evaluate.split);
    CHECK_INT(r.seed, evaluate.seed);
    CHECK_STR(target_name(0), evaluate.target);
    CHECK_STR(evaluate.estimator, r.job.estimator);
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].name, "folds") == 0)
            CHECK_INT(evaluate.folds, atoi(option_table[i].standard));
}

static void lists_of_names_end(void) {
    pl_split split;
    for (size_t i = 0; split_name(i); i++) {
        CHECK(pl_split_parse(split_name(i), &split));
        CHECK_INT(split, i);
    }
    CHECK(!pl_split_parse("rows", &split));
    size_t learners = 0, estimators = 0;
    while (learner_name(learners)) {
        CHECK(pl_estimator_find(learner_name(learners)) &&
              pl_estimator_find(learner_name(learners))->learns);
        learners++;
    }
    while (pl_estimator_name(estimators)) estimators++;
    CHECK(learners > 0 && learners < estimators);
    CHECK_STR(evaluated_name(estimators), "all");
    CHECK(evaluated_name(estimators + 1) == NULL);
}

/* ---- parsing ---- */

static void forms_of_options(void) {
    static const char *const forms[] = {
        "estimate m.pt2 --batch 8 --json",
        "estimate --batch=8 m.pt2 -j",
        "estimate -b 8 -j m.pt2",
        "estimate -b8 --json m.pt2",
        "estimate --json --batch 8 -- m.pt2",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        request r;
        CHECK_INT(parse(&r, forms[i]), 0);
        CHECK_INT(r.verb, VERB_ESTIMATE);
        CHECK_INT(r.job.batch, 8);
        CHECK(r.json);
        CHECK_STR(r.file, "m.pt2");
    }
}

static void every_setting_arrives(void) {
    request r;
    CHECK_INT(
        parse(
            &r,
            "explain m.pt2 --batch 3 --seq 7 --precision amp-fp16 --optimizer sgd --loss mse "
            "--checkpoint --accumulate 4 --channels-last --cudnn-benchmark --alloc-conf expandable_segments:True "
            "--parallel fsdp2:8:2:mp --gpu h200 --timeline t.svg"),
        0);
    CHECK_INT(r.verb, VERB_EXPLAIN);
    CHECK_INT(r.job.batch, 3);
    CHECK_INT(r.job.seq, 7);
    CHECK_INT(r.job.precision, PL_AMP_FP16);
    CHECK_STR(r.job.optimizer, "sgd");
    CHECK_INT(r.job.loss, PL_LOSS_MSE);
    CHECK(r.job.checkpoint && r.job.channels_last && r.job.cudnn_benchmark);
    CHECK_INT(r.job.accumulate, 4);
    CHECK_STR(r.job.alloc_conf, "expandable_segments:True");
    CHECK_INT(r.job.parallel, PL_FSDP2);
    CHECK_INT(r.job.world, 8);
    CHECK_INT(r.job.stage, 2);
    CHECK(r.job.parallel_mixed);
    CHECK_STR(r.timeline, "t.svg");
}

static void wrong_usage_is_2(void) {
    static const char *const wrong[] = {
        "",
        "estimate",
        "estimat m.pt2",
        "estimate m.pt2 n.pt2",
        "estimate m.pt2 --batch",
        "estimate m.pt2 --batch 0",
        "estimate m.pt2 --batch -3",
        "estimate m.pt2 --batch 3x",
        "estimate m.pt2 --batch=",
        "estimate m.pt2 --batch 99999999999999999999",
        "estimate m.pt2 --batch 1099511627777",
        "estimate m.pt2 --batch 1,1099511627777",
        "fit m.pt2 --batch 1099511627777",
        "estimate m.pt2 --seq 4,1099511627777",
        "estimate m.pt2 --alloc-conf a:b",
        "estimate m.pt2 --train lora-r0",
        "estimate m.pt2 --json=yes",
        "estimate m.pt2 --optimizer nothing-like-it",
        "estimate m.pt2 --precision fp31",
        "estimate m.pt2 --gpu abacus",
        "estimate m.pt2 --gpu h200,memory=40GB",
        "estimate m.pt2 --gpu h200,sms=2",
        "estimate m.pt2 --loss hinge",
        "estimate m.pt2 --parallel fsdp2:0",
        "estimate m.pt2 --parallel many:8",
        "estimate m.pt2 --parallel ddp:16385",
        "estimate m.pt2 --accumulate 4097",
        "evaluate j.jsonl --threads 257",
        "evaluate",
        "evaluate j.jsonl --estimator sim,no-such-thing",
        "evaluate j.jsonl --estimator sim,",
        "evaluate j.jsonl --estimator ,sim",
        "evaluate j.jsonl --split rows",
        "evaluate j.jsonl --folds 1",
        "evaluate j.jsonl --folds 1001",
        "evaluate j.jsonl --bin 0",
        "evaluate j.jsonl --seed -1",
        "evaluate j.jsonl --seed 18446744073709551616",
        "evaluate j.jsonl --seed 1x",
        "evaluate j.jsonl --seed=",
        "evaluate j.jsonl --target memories",
        "evaluate j.jsonl --target smact,",
        "collocate a.json",
        "collocate a.json b.json c.json",
        "collocate a.json b.json --sharing slice",
        "estimate m.pt2 --host-speed 0",
        "estimate m.pt2 --copy-gbps 0",
        "estimate m.pt2 --copy-gbps infinite",
        "estimate m.pt2 --host-speed 11",
        "estimate m.pt2 --host-speed 1x",
        "estimate m.pt2 --host-speed nan",
        "check m.pt2 --host-speed 1",
        "estimate m.pt2 --estimator sim,horus",
        "estimate m.pt2 --estimator all",
        "train",
        "train a b",
        "train a --jobs=",
        "train a --hold-out 1",
        "train a --hold-out -0.1",
        "train a --hold-out nan",
        "train a --hold-out 0.5x",
        "train a --split none",
        "estimators a b",
        "help nothing-like-it",
        "estimate m.pt2 --graphs d",
        "gpus m.pt2",
        "--json",
        "-x estimate",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        request r;
        int code = parse(&r, wrong[i]);
        if (code != PL_USAGE) printf("    %s\n", wrong[i]);
        CHECK_INT(code, PL_USAGE);
    }
}

/* The names of the tables arrive, whatever was typed. */
static void case_does_not_matter(void) {
    request r;
    CHECK_INT(
        parse(&r, "fit m.pt2 --precision AMP-fp16 --optimizer AdamW --loss CE --gpu A100-40GB"), 0);
    CHECK_INT(r.job.precision, PL_AMP_FP16);
    CHECK_STR(r.job.optimizer, "adamw");
    CHECK_INT(r.job.loss, PL_LOSS_CE);
    CHECK_STR(r.job.gpu, "a100-40gb");
}

static void largest_numbers_are_taken(void) {
    request r;
    CHECK_INT(parse(&r, "fit m.pt2 --accumulate 4096 --parallel ddp:16384"), 0);
    CHECK_INT(r.job.accumulate, 4096);
    CHECK_INT(r.job.world, 16384);
    CHECK_INT(parse(&r, "evaluate j.jsonl --threads 256"), 0);
    CHECK_INT(r.threads, 256);
    CHECK_INT(parse(&r, "help fit"), 0);
    CHECK(r.help && r.verb == VERB_FIT);
}

static bool taken(pl_job *job, bool yes) {
    return (pl_job_check(job, NULL) == PL_OK) == yes;
}

/* A job's bounds are pl_job_check's alone; what the help says of them is so. */
static void help_says_the_bounds_of_the_check(void) {
    static const struct {
        const char *name, *says;
        double bounds[2];
    } rows[] = {{"accumulate", "1 to 4096", {1, 4096}},
                {"host-speed", "0.1 to 10", {0.1, 10}},
                {"copy-gbps", "0.1 to 1000", {0.1, 1000}}};
    size_t seen = 0;
    for (size_t i = 0; i < option_count; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            if (strcmp(option_table[i].name, rows[k].name) != 0) continue;
            seen++;
            CHECK(strstr(option_table[i].help, rows[k].says) != NULL);
            for (int end = 0; end < 2; end++)
                for (int beyond = 0; beyond < 2; beyond++) {
                    pl_job job;
                    pl_job_default(&job);
                    double by = k == 0 ? 1 : 0.01, value = rows[k].bounds[end];
                    if (beyond) value += end ? by : -by;
                    if (k == 0) job.accumulate = (int)value;
                    if (k == 1) job.host_speed = value;
                    if (k == 2) job.copy_gbps = value;
                    CHECK(taken(&job, !beyond));
                }
        }
    CHECK_INT(seen, 3);
}

static void files_add_up(void) {
    request r;
    CHECK_INT(parse(&r, "evaluate a.jsonl --json b.csv -- -c"), 0);
    CHECK_INT(r.files.count, 3);
    CHECK_STR(r.file, "a.jsonl");
    CHECK_STR(r.files.names[1], "b.csv");
    CHECK_STR(r.files.names[2], "-c");
    CHECK_INT(parse(&r, "train x --jobs a --jobs=b -J c -Jd --out o --graphs g --curve c.svg"), 0);
    CHECK_INT(r.jobs.count, 4);
    CHECK_STR(r.jobs.names[3], "d");
    CHECK_STR(r.out, "o");
    CHECK_STR(r.curve, "c.svg");
    char words[4 * (MOST_FILES + 4)] = "evaluate";
    for (int i = 0; i < MOST_FILES; i++) strcat(words, " a");
    CHECK_INT(parse(&r, words), 0);
    CHECK_INT(r.files.count, MOST_FILES);
    strcat(words, " a");
    CHECK_INT(parse(&r, words), PL_USAGE);
}

static void settings_of_training_arrive(void) {
    request r;
    CHECK_INT(parse(&r, "train random-forest --split family --hold-out .25 --seed "
                        "18446744073709551615 --bin 1000 --target flops --set epochs=5"),
              0);
    CHECK_INT(r.verb, VERB_TRAIN);
    CHECK_STR(r.file, "random-forest");
    CHECK_INT(r.split, PL_SPLIT_FAMILY);
    CHECK(r.hold_out > 0.24 && r.hold_out < 0.26);
    CHECK(r.seed == UINT64_MAX);
    CHECK_INT(r.bin, 1000);
    CHECK_STR(r.target, "flops");
    CHECK_STR(r.set, "epochs=5");
    CHECK_INT(parse(&r, "evaluate j --estimator Sim,ALL --split row --folds 3 --model m --bars b "
                        "--report r"),
              0);
    CHECK_STR(r.estimator, "Sim,ALL");
    CHECK_INT(r.split, PL_SPLIT_ROW);
    CHECK_INT(r.folds, 3);
    CHECK_STR(r.model, "m");
    CHECK_STR(r.bars, "b");
    CHECK_STR(r.report, "r");
}

/* A shell reads back the words that were given. */
static void settings_of_sharing_arrive(void) {
    request r;
    CHECK_INT(parse(&r, "collocate a.json b.json"), 0);
    CHECK_INT(r.sharing, PL_SLICES);
    CHECK(r.job.gpu == NULL); /* that of the estimates */
    CHECK_STR(r.files.names[1], "b.json");
    CHECK_INT(parse(&r, "collocate a b --sharing MPS --gpu t4 --host-speed .5 -b 8"), 0);
    CHECK_INT(r.sharing, PL_MPS);
    CHECK_STR(r.job.gpu, "t4");
    CHECK(r.job.host_speed == 0.5);
    CHECK_INT(parse(&r, "estimate m.pt2 --copy-gbps inf"), 0);
    CHECK(isinf(r.job.copy_gbps) && r.job.host_speed == PL_UNKNOWN);
    CHECK_INT(parse(&r, "collocate a b --sharing MPS --copy-gbps 12.5 -b 8"), 0);
    CHECK(r.job.copy_gbps == 12.5);
    CHECK_INT(r.job.batch, 8);
    CHECK_STR(verb_operand(VERB_COLLOCATE), "A B");
    CHECK_STR(verb_operand(VERB_EVALUATE), "JOBS...");
    CHECK_INT(parse(&r, "explain m.pt2 --time --times t.svg"), 0);
    CHECK(r.time);
    CHECK_STR(r.times, "t.svg");
    CHECK_INT(parse(&r, "evaluate j -G a --graphs b --target smact,STEP_MS"), 0);
    CHECK_INT(r.graphs.count, 2);
    CHECK_STR(r.graphs.names[1], "b");
    CHECK_STR(r.target, "smact,STEP_MS");
}

static void the_command_line_again(void) {
    char *argv[] = {"./x/plimsoll", "train", "a-b",    "--set",      "k=1 l=2", "--out",
                    "it's",         "",      "--jobs", "\xc3\xa9$x", NULL};
    request r = {.argc = 10, .argv = argv};
    char *text = options_command(&r);
    CHECK_STR(text, "plimsoll train a-b --set 'k=1 l=2' --out 'it'\\''s' '' --jobs '\xc3\xa9$x'");
    free(text);
}

static void nearest_spelling(void) {
    static const char *const names[] = {"batch", "seq", "precision", "checkpoint"};
    CHECK_STR(nearest_name("bacth", names, 4), "batch");
    CHECK_STR(nearest_name("checkpiont", names, 4), "checkpoint");
    CHECK_STR(nearest_name("sep", names, 4), "seq");
    CHECK(nearest_name("xylophone", names, 4) == NULL);
    CHECK(nearest_name("a-word-that-is-much-too-long-for-any-option-there-is", names, 4) == NULL);
}

/* What complain_of writes on stderr. */
static void settings_are_to_blame(void) {
    static const struct {
        pl_error err;
        const char *says;
    } cases[] = {
        {{0, PL_USAGE, "no", "alloc_conf", 0}, "plimsoll: --alloc-conf: no\n"},
        {{0, PL_USAGE, "no", "batch", -1}, "plimsoll: --batch: no\n"},
        {{0, PL_USAGE, "no", "weights", -1}, "plimsoll: --model: no\n"},
        {{0, PL_USAGE, "no card \"x\", or a row of one's own", "gpu", -1},
         "plimsoll: --gpu: no card \"x\", or a row of one's own (--gpus FILE); `plimsoll gpus` lists "
         "those there are\n"},
        {{0, PL_INPUT, "no", "m.pt2", 7}, "plimsoll: m.pt2: at byte 7: no\n"},
        {{0, PL_INPUT, "no", "model.json", 0}, "plimsoll: m.pt2: model.json: at byte 0: no\n"},
        {{0, PL_MISSING, "no", "", -1}, "plimsoll: m.pt2: no\n"},
        {{0, PL_USAGE, "no", "m", -1}, "plimsoll: m.pt2: no\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "";
        FILE *file = tmpfile();
        fflush(stderr);
        int kept = dup(STDERR_FILENO);
        CHECK(file && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
        CHECK_INT(complain_of(&cases[i].err, "m.pt2"), cases[i].err.code);
        fflush(stderr);
        dup2(kept, STDERR_FILENO);
        close(kept);
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        CHECK_STR(text, cases[i].says);
    }
}

/* ---- words for sizes ---- */

static void sizes_in_words(void) {
    CHECK_STR(text_bytes(0).text, "0 B");
    CHECK_STR(text_bytes(1023).text, "1023 B");
    CHECK_STR(text_bytes(778043392).text, "742.0 MiB");
    CHECK_STR(text_bytes(INT64_C(150754820096)).text, "140.4 GiB");
    CHECK_STR(text_bytes(INT64_C(4) << 30).text, "4.00 GiB");
    CHECK_STR(text_bytes(PL_UNKNOWN).text, "?");
    CHECK_STR(text_bytes_apart(INT64_C(4) << 30, INT64_C(1) << 30).text, "4.00 GiB");
    CHECK_STR(text_bytes_apart((INT64_C(4) << 30) + (INT64_C(3) << 19), INT64_C(1) << 20).text,
              "4097.5 MiB");
    CHECK_STR(text_bytes_apart((INT64_C(4) << 30) + 512, 512).text, "4294967808 B");
    CHECK_STR(text_change(-(INT64_C(3) << 20)).text, "-3.0 MiB");
    CHECK_STR(text_change(0).text, "0 B");
    CHECK_STR(text_count(25557032).text, "25.6 M");
    CHECK_STR(text_count(9999).text, "9999");
    CHECK_STR(text_percent(0.1234).text, "12.3 %");
}

static void figures_in_words(void) {
    CHECK_STR(text_figure(1234567).text, "1.235e+06");
    CHECK_STR(text_figure(0.5).text, "0.5");
    CHECK_STR(text_figure(NAN).text, "-");
    CHECK_STR(text_figure(INFINITY).text, "-");
    CHECK_STR(text_fixed(0.98765, 3).text, "0.988");
    CHECK_STR(text_fixed(NAN, 3).text, "-");
}

static void times_and_amounts_in_words(void) {
    static const struct {
        double ms;
        const char *text;
    } times[] = {{12.34, "12.3 ms"}, {0.085, "85.0 us"}, {0.0004, "0.40 us"}, {1, "1.00 ms"},
                 {99.96, "100 ms"},  {2400, "2.40 s"},   {0, "0.00 ms"},      {NAN, "?"}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        CHECK_STR(text_ms(times[i].ms).text, times[i].text);
    CHECK_STR(text_scaled(83.2e9, "FLOP").text, "83.2 GFLOP");
    CHECK_STR(text_scaled(950, "FLOP").text, "950 FLOP");
    CHECK_STR(text_scaled(999.7, "B").text, "1.00 kB");
    CHECK_STR(text_scaled(3e21, "FLOP").text, "3000 EFLOP");
    CHECK_STR(text_scaled(NAN, "FLOP").text, "?");
}

static void tables_in_markdown(void) {
    char text[256] = "";
    FILE *file = tmpfile();
    CHECK(file != NULL);
    if (!file) return;
    table *t = table_new("lr");
    table_row(t, (const char *[]){"NAME", "N"});
    table_row(t, (const char *[]){"a|b_\n`", "1"});
    table_markdown(t, file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CHECK_STR(text, "| NAME | N |\n|---|---:|\n| a\\|b\\_ \\` | 1 |\n");
}

/* ---- curves ---- */

static void the_best_epoch(void) {
    curve c = {0};
    CHECK(curve_best(&c) == NULL);
    static const double valid[] = {3, 1, 2, 0.5, 0.1};
    /* The fourth starts a second training: it does not count. */
    static const int epochs[] = {1, 2, 3, 1, 2};
    for (int i = 0; i < 5; i++) curve_add(&c, &(pl_train_point){epochs[i], 3, 9, valid[i]});
    CHECK_INT(curve_best(&c)->epoch, 2);
    CHECK(curve_best(&c)->valid_loss == 1);
    curve_free(&c);
    /* Nothing held out: the last; and more points than a first block holds. */
    for (int i = 1; i <= 1000; i++) curve_add(&c, &(pl_train_point){i, 1000, 1.0 / i, NAN});
    CHECK_INT(curve_best(&c)->epoch, 1000);
    CHECK_INT(c.count, 1000);
    curve_free(&c);
    CHECK(c.points == NULL);
}

/* Constant, negative and unknown losses make a picture without a number that is none. */
static void curves_of_any_shape(void) {
    static const double losses[][3] = {{1, 1, 1},      {0, 0, 0},       {-2, -1, -3},
                                       {1e-9, 1, 1e9}, {NAN, NAN, NAN}, {INFINITY, 1, NAN}};
    char path[] = "/tmp/plimsoll-curve-XXXXXX";
    int made = mkstemp(path);
    CHECK(made >= 0);
    if (made < 0) return;
    close(made);
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        curve c = {0};
        char text[16384];
        for (int k = 0; k < 3; k++)
            curve_add(&c, &(pl_train_point){k + 1, 3, losses[i][k], losses[i][2 - k]});
        CHECK_INT(curve_write(&c, path, "x"), 0);
        curve_free(&c);
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        if (!file) break;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        CHECK(strstr(text, "</svg>") != NULL);
        CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
    }
    remove(path);
}

/* ---- modules ---- */

static void blocks_are_summed(void) {
    static const module_item items[] = {
        {"layers.0.attn", 10, {10}},    {"layers.1.attn", 20, {20}}, {"layers.1", 5, {0, 5}},
        {"layers.0.mlp.up", 7, {0, 7}}, {"", 3, {0, 0, 3}},          {NULL, 4, {4}},
        {"head", 50, {0, 0, 0, 50}},
    };
    module_tree tree;
    modules_gather(&tree, items, sizeof items / sizeof *items, 20);
    CHECK_INT(tree.total, 99);
    CHECK_INT(tree.row_count, 5);
    CHECK_STR(tree.rows[0].path, "head");
    CHECK_STR(tree.rows[1].path, "layers.*");
    CHECK_INT(tree.rows[1].size, 42);
    CHECK_INT(tree.rows[1].parts[0], 30);
    CHECK_INT(tree.rows[1].parts[1], 12);
    CHECK_INT(tree.rows[1].modules, 2);
    CHECK_STR(tree.rows[2].name, "attn");
    CHECK_INT(tree.rows[2].size, 30);
    CHECK_INT(tree.rows[2].depth, 1);
    CHECK_STR(tree.rows[3].name, "mlp.up");
    CHECK_STR(tree.rows[4].name, "(the model itself)");
    CHECK_INT(tree.rows[4].size, 7);
    modules_free(&tree);
}

static void plain_numbers_stay_apart(void) {
    static const module_item items[] = {
        {"features.0", 10, {0}}, {"features.3", 20, {0}}, {"features.10", 5, {0}}};
    module_tree tree;
    modules_gather(&tree, items, 3, 20);
    CHECK_INT(tree.row_count, 4);
    CHECK_STR(tree.rows[0].path, "features");
    CHECK_STR(tree.rows[1].path, "features.3");
    CHECK_STR(tree.rows[1].name, "3");
    modules_free(&tree);
}

static void many_modules(void) {
    enum { COUNT = 100000 };
    module_item *items = calloc(COUNT, sizeof *items);
    char(*names)[32] = calloc(COUNT, sizeof *names);
    CHECK(items && names);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof *names, "stack.m%d.sub.%d.x", i, i);
        items[i] = (module_item){.size = 1, .module = names[i]};
    }
    module_tree tree;
    modules_gather(&tree, items, COUNT, 20);
    CHECK_INT(tree.total, COUNT);
    CHECK_INT(tree.row_count, 1);
    modules_free(&tree);
    modules_gather(&tree, items, 0, 20);
    CHECK_INT(tree.row_count, 0);
    modules_free(&tree);
    free(items);
    free(names);
}

/* ---- JSON ---- */

static void json_is_escaped(void) {
    char text[512] = "";
    FILE *file = tmpfile();
    CHECK(file != NULL);
    if (!file) return;
    pl_json_writer j = {.file = file};
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_string(&j, "a\"b", "x\\y\n\x01\xc3\xa9\xff\xed\xa0\x80\xc0\xaf");
    pl_json_put_count(&j, "n", PL_UNKNOWN);
    pl_json_put_real(&j, "f", 0.5);
    pl_json_put_open(&j, "l", '[');
    pl_json_put_int(&j, NULL, -3);
    pl_json_put_bool(&j, NULL, true);
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
    rewind(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = '\0';
    fclose(file);
    CHECK_STR(
        text,
        "{\"a\\\"b\":\"x\\\\y\\u000a\\u0001\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\","
        "\"n\":null,\"f\":0.5,\"l\":[-3,true]}");
}

/* Numbers of options and in texts, tables and pictures once more. */
static void a_comma_changes_nothing(void) {
    CHECK(comma_make() && setlocale(LC_ALL, "comma"));
    every_setting_arrives();
    settings_of_training_arrive();
    sizes_in_words();
    figures_in_words();
    times_and_amounts_in_words();
    curves_of_any_shape();
    json_is_escaped();
    setlocale(LC_ALL, "C");
}

int main(void) {
    text_start();
    pl_lab_register();
    RUN(options_are_told_apart);
    RUN(options_are_well_formed);
    RUN(defaults_are_the_library_s);
    RUN(training_starts_from_the_library_s);
    RUN(lists_of_names_end);
    RUN(every_listed_name_is_taken);
    RUN(forms_of_options);
    RUN(every_setting_arrives);
    RUN(wrong_usage_is_2);
    RUN(case_does_not_matter);
    RUN(largest_numbers_are_taken);
    RUN(help_says_the_bounds_of_the_check);
    RUN(files_add_up);
    RUN(settings_of_training_arrive);
    RUN(the_command_line_again);
    RUN(nearest_spelling);
    RUN(settings_are_to_blame);
    RUN(sizes_in_words);
    RUN(figures_in_words);
    RUN(times_and_amounts_in_words);
    RUN(tables_in_markdown);
    RUN(settings_of_sharing_arrive);
    RUN(the_best_epoch);
    RUN(curves_of_any_shape);
    RUN(blocks_are_summed);
    RUN(plain_numbers_stay_apart);
    RUN(many_modules);
    RUN(json_is_escaped);
    RUN(a_comma_changes_nothing);
    return check_done();
}
