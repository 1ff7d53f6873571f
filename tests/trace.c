/* Captured traces: two jobs recorded without a card come to the peaks that were measured with one
 * (mlp-0625, rnn-0389; H200, PyTorch 2.11, 2026-11-15); steps that were not recorded are made from
 * those that were; what is wrong with a file is reported, and no file harms. Given: the folder of
 * the traces (written by plimsoll.capture.trace_step, python/). */
#include <stdlib.h>

#include "check.h"
#include "core/file.h"
#include "device/simulate.h"
#include "import/trace.h"
#include "tape/replay.h"

static const char *folder;

static pl_file open_file(const char *name) {
    char path[512];
    pl_file file = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_INT(pl_file_open(&file, path, (size_t)64 << 20, NULL), PL_OK);
    return file;
}

static pl_trace *read_trace(const char *name) {
    pl_file file = open_file(name);
    pl_error err = {0};
    pl_trace *trace = NULL;
    CHECK_INT(pl_import_trace(&trace, file.bytes, file.size, name, NULL, &err), PL_OK);
    CHECK_STR(err.message, "");
    pl_file_close(&file);
    return trace;
}

static pl_simulation simulated(const char *name, pl_tape **out) {
    pl_simulation s = {0};
    pl_trace *trace = read_trace(name);
    if (!trace) return s;
    const pl_gpu *gpu = pl_gpu_find("h200");
    pl_tape_device device = pl_tape_device_of(gpu);
    pl_tape *tape = NULL;
    CHECK_INT(pl_tape_replay(&tape, trace, &device, NULL, NULL), PL_OK);
    if (tape) {
        pl_allocator_settings settings;
        pl_allocator_settings_default(&settings);
        pl_arena *arena = pl_arena_new(0);
        CHECK_INT(pl_simulate(&s, tape, &trace->graph, &settings, false, arena, NULL), PL_OK);
        pl_arena_free(&arena);
    }
    if (out)
        *out = tape; /* its names are the trace's: not to be read after this */
    else
        pl_tape_close(&tape);
    pl_trace_close(&trace);
    return s;
}

static void reading(void) {
    pl_trace *t = read_trace("mlp-0625-3.json");
    if (!t) return;
    CHECK_INT(t->steps, 3);
    CHECK_INT(t->batch, 32);
    CHECK_STR(t->precision, "fp32");
    CHECK_STR(t->loss, "ce");
    CHECK_INT(t->cc_major, 9);
    int64_t parameters = 0, in_layers = 0;
    for (int32_t i = 0; i < t->graph.tensor_count; i++)
        if (t->graph.tensors[i].role == PL_ROLE_PARAMETER)
            parameters += pl_tensor_elements(&t->graph.tensors[i]);
    for (size_t i = 0; i < t->layer_count; i++) in_layers += t->layers[i].parameters;
    CHECK_INT(parameters, in_layers);
    CHECK(t->graph.node_count > 0 && t->graph.module_count > 0);
    CHECK_STR(pl_node_module(&t->graph, t->graph.node_count - 1), ""); /* the optimizer's */
    pl_trace_close(&t);
    CHECK(t == NULL);
    pl_trace_close(&t);
}

/* Measured, to the byte. */
static void measured_peaks(void) {
    pl_simulation mlp = simulated("mlp-0625-3.json", NULL),
                  rnn = simulated("rnn-0389-3.json", NULL);
    CHECK_INT(mlp.peak_allocated, 382008832);
    CHECK_INT(mlp.peak_reserved, 415236096);
    CHECK_INT(rnn.peak_allocated, 117389824);
    CHECK_INT(rnn.peak_reserved, 136314880);
}

/* One and two recorded steps are followed by copies: the same tape as of three recorded ones; but
 * for the order in which gradients die where their deaths were never seen. */
static void steps_not_recorded(void) {
    pl_tape *tapes[3] = {0};
    const char *const names[3] = {"mlp-0625-3.json", "mlp-0625-2.json", "mlp-0625-1.json"};
    for (int i = 0; i < 3; i++) CHECK_INT(simulated(names[i], &tapes[i]).peak_reserved, 415236096);
    for (int i = 1; i < 3 && tapes[0] && tapes[i]; i++) {
        CHECK_INT(tapes[i]->event_count, tapes[0]->event_count);
        CHECK_INT(tapes[i]->mark_count >= tapes[0]->mark_count, 1);
        for (size_t k = 0; i == 1 && k < tapes[i]->event_count; k++) {
            if (k >= tapes[0]->event_count) break;
            int32_t a = tapes[i]->events[k], b = tapes[0]->events[k];
            int64_t bytes = tapes[i]->blocks[abs(a)].bytes;
            if ((a > 0) == (b > 0) && bytes == tapes[0]->blocks[abs(b)].bytes) continue;
            CHECK_INT(k, -1); /* the first event that differs */
            break;
        }
    }
    for (int i = 0; i < 3; i++) pl_tape_close(&tapes[i]);
}

/* Every block dies at most once, after its birth; what lives at the end is what training keeps. */
static void lives(void) {
    pl_tape *tape = NULL;
    simulated("rnn-0389-3.json", &tape);
    if (!tape) return;
    uint8_t *lives = calloc(tape->block_count + 1, 1);
    size_t wrong = 0, left = 0;
    for (size_t i = 0; lives && i < tape->event_count; i++) {
        int32_t e = tape->events[i];
        wrong += e > 0 ? lives[e] != 0 : lives[-e] != 1;
        lives[abs(e)] = e > 0 ? 1 : 2;
    }
    for (size_t b = 1; lives && b < tape->block_count; b++)
        if (lives[b] == 1) {
            uint8_t kind = tape->blocks[b].kind;
            left++;
            wrong += kind == PL_ACTIVATIONS || kind == PL_INPUTS || kind == PL_TEMPORARY;
        }
    CHECK_INT(wrong, 0);
    CHECK(left > 0);
    CHECK(tape->used_rnn && tape->used_cudnn && tape->used_blas && tape->used_blas_backward &&
          tape->trains);
    free(lives);
    pl_tape_close(&tape);
}

/* What later steps may take more raises the interval's upper end by as much, with either
 * estimator; what several cards hold lowers its lower end. */
static void allowances(void) {
    pl_file file = open_file("mlp-0625-1.json");
    static const char *const extras[] = {"", "\"beyond\":1000000007,", "\"assumed\":[\"cards\"],",
                                         "\"beyond\":72057594037927936,"};
    static const char *const estimators[] = {"sim", "hybrid"};
    char *text = malloc(file.size + 64);
    for (int e = 0; text && e < 2; e++) {
        pl_report *reports[4] = {NULL};
        for (int i = 0; i < 4; i++) {
            size_t size = (size_t)sprintf(text, "{\"plimsoll_trace\":1,%s", extras[i]);
            const char *rest = "{\"plimsoll_trace\":1,";
            memcpy(text + size, file.bytes + strlen(rest), file.size - strlen(rest));
            size += file.size - strlen(rest);
            pl_model *model = NULL;
            pl_job job;
            pl_job_default(&job);
            job.estimator = estimators[e];
            CHECK_INT(pl_model_open_memory(&model, text, size, "x.json", NULL, NULL), PL_OK);
            CHECK_INT(pl_estimate(&reports[i], model, &job, NULL), PL_OK);
            pl_model_close(&model);
        }
        if (reports[0] && reports[1] && reports[2] && reports[3]) {
            CHECK_INT(reports[1]->peak_bytes, reports[0]->peak_bytes);
            CHECK_INT(reports[1]->low_bytes, reports[0]->low_bytes);
            CHECK_INT(reports[1]->high_bytes, reports[0]->high_bytes + 1000000007);
            CHECK(reports[2]->low_bytes < reports[0]->low_bytes * 3 / 4);
            CHECK_INT(reports[3]->verdict, PL_MAY_NOT_FIT);
        }
        for (int i = 0; i < 4; i++) pl_report_close(&reports[i]);
    }
    free(text);
    pl_file_close(&file);
}

/* ---- what is wrong ---- */

static void refusals(void) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "expected"},
        {"[]", "expected"},
        {"{}", "plimsoll_trace"},
        {"{\"plimsoll_trace\":2}", "version 1"},
        {"{\"plimsoll_trace\":1}", "no events"},
        {"{\"plimsoll_trace\":1,\"events\":[0]}", "a storage that is not there"},
        {"{\"plimsoll_trace\":1,\"events\":[[0,-1,-1,[],[]]]}", "an operator that is not there"},
        {"{\"plimsoll_trace\":1,\"operators\":[\"aten.mm.default\"],\"events\":[[0,3,-1,[],[]]]}",
         "a module that is not there"},
        {"{\"plimsoll_trace\":1,\"operators\":[\"aten.mm.default\"],\"events\":[[0,-1,-1,[5],[]]]}",
         "a tensor that is not there"},
        {"{\"plimsoll_trace\":1,\"operators\":[\"a\"],\"events\":[[0,-1,9,[],[]]]}",
         "a function that is not there"},
        {"{\"plimsoll_trace\":1,\"storages\":[[-1,\"\"]]}", "bytes"},
        {"{\"plimsoll_trace\":1,\"storages\":[[1e99,\"\"]]}", "expected"},
        {"{\"plimsoll_trace\":1,\"tensors\":[[0,7,[9007199254740993,9007199254740993],[1,1]]]}",
         "fits"},
        {"{\"plimsoll_trace\":1,\"tensors\":[[0,7,[2],[]]]}", "fits"},
        {"{\"plimsoll_trace\":1,\"tensors\":[[0,99,[2],[1]]]}", "type"},
        {"{\"plimsoll_trace\":1,\"modules\":[[\"\",\"\",0]]}", "earlier module"},
        {"{\"plimsoll_trace\":1,\"marks\":[[5,1,0]],\"storages\":[[4,\"\"]],\"events\":[0]}",
         "order of events"},
        {"{\"plimsoll_trace\":1,\"marks\":[[0,7,0]]}", "phase"},
        {"{\"plimsoll_trace\":1,\"beyond\":-1}", "bytes from 0"},
        {"{\"plimsoll_trace\":1,\"beyond\":1e300}", "expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_error err = {0};
        pl_trace *trace = NULL;
        CHECK_INT(pl_import_trace(&trace, rows[i].text, strlen(rows[i].text), "x.json", NULL, &err),
                  PL_INPUT);
        CHECK(trace == NULL);
        if (!strstr(err.message, rows[i].says)) CHECK_STR(err.message, rows[i].says);
    }
}

/* A trace cut short or with a byte changed is refused or replayed; memory that is out is
 * reported. */
static void damage(void) {
    pl_file file = open_file("rnn-0389-3.json");
    char *copy = malloc(file.size + 1);
    const pl_gpu *gpu = pl_gpu_find("h200");
    pl_tape_device device = pl_tape_device_of(gpu);
    unsigned seed = 1;
    int refused = 0, replayed = 0;
    for (int i = 0; copy && file.size && i < 1500; i++) {
        memcpy(copy, file.bytes, file.size);
        size_t size = file.size;
        for (int k = 0; k < 1 + i % 3; k++) {
            seed = seed * 1103515245u + 12345u;
            size_t at = (seed >> 8) % size;
            static const char bytes[] = "0123456789-,[]\"9";
            copy[at] = bytes[seed % (sizeof bytes - 1)];
        }
        if (i % 10 == 0) size = (seed >> 4) % size;
        pl_trace *trace = NULL;
        pl_tape *tape = NULL;
        if (pl_import_trace(&trace, copy, size, "x.json", NULL, NULL) != PL_OK) {
            refused++;
            continue;
        }
        replayed += pl_tape_replay(&tape, trace, &device, NULL, NULL) == PL_OK;
        pl_tape_close(&tape);
        pl_trace_close(&trace);
    }
    CHECK(refused > 100);
    CHECK(replayed > 100);
    for (long n = 0; n < 60; n++) {
        pl_trace *trace = NULL;
        pl_arena_fail_after(n);
        pl_status status = pl_import_trace(&trace, file.bytes, file.size, "x.json", NULL, NULL);
        pl_arena_fail_after(-1);
        CHECK(status == PL_MISSING || trace);
        pl_trace_close(&trace);
    }
    pl_trace *trace = read_trace("rnn-0389-3.json");
    for (long n = 0; trace && n < 40; n++) {
        pl_tape *tape = NULL;
        pl_arena_fail_after(n);
        pl_status status = pl_tape_replay(&tape, trace, &device, NULL, NULL);
        pl_arena_fail_after(-1);
        CHECK(status == PL_MISSING || tape);
        pl_tape_close(&tape);
    }
    pl_trace_close(&trace);
    free(copy);
    pl_file_close(&file);
}

int main(int count, char **arguments) {
    folder = count > 1 ? arguments[1] : "tests/data/trace";
    RUN(reading);
    RUN(measured_peaks);
    RUN(steps_not_recorded);
    RUN(lives);
    RUN(allowances);
    RUN(refusals);
    RUN(damage);
    return check_done();
}
