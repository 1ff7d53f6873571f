/* names: what is taken for a precision or an optimizer, and what is refused with the nearest; what a file
 * that is no model is said to be; folders. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <plimsoll/plimsoll.h>

#include "check.h"

static void precisions(void) {
    static const struct {
        const char *name, *row; /* row NULL: refused with this part */
        const char *part;
    } names[] = {
        {"fp32", "fp32", NULL},
        {"float32", "fp32", NULL},
        {"torch.float", "fp32", NULL},
        {"32-true", "fp32", NULL},
        {"32", "fp32", NULL},
        {"BF16", "bf16", NULL},
        {"bfloat16", "bf16", NULL},
        {"torch.bfloat16", "bf16", NULL},
        {"bf16-true", "bf16", NULL},
        {"half", "fp16", NULL},
        {"torch.half", "fp16", NULL},
        {"float16", "fp16", NULL},
        {"16-true", "fp16", NULL},
        {"bf16-mixed", "amp-bf16", NULL},
        {"amp_bf16", "amp-bf16", NULL},
        {"16-mixed", "amp-fp16", NULL},
        {"fp16-mixed", "amp-fp16", NULL},
        {"tf32", "tf32", NULL},
        {"as_exported", "as-exported", NULL},
        {"16", NULL, "could be autocast or weights in fp16; the nearest is amp-fp16 or fp16"},
        {"torch.float64", NULL, "64 bits are not simulated; the nearest is fp32"},
        {"fp8", NULL, "the nearest is bf16 or amp-bf16"},
        {"nf4", NULL, "qlora-r16"},
        {"bf61", NULL, "did you mean bf16? there are as-exported, fp32"},
        {"", NULL, "there are as-exported, fp32"},
        {NULL, NULL, "expected the name of a precision"},
        {"a name that is longer than all names of precisions there have ever been anywhere", NULL,
         "no precision"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pl_error err = PL_SIZED(pl_error);
        pl_precision found = PL_PRECISION_AS_EXPORTED;
        pl_status status = pl_precision_read(&found, names[i].name, &err);
        CHECK_INT(status, names[i].row ? PL_OK : PL_USAGE);
        if (names[i].row) CHECK_STR(pl_precision_name((size_t)found), names[i].row);
        if (names[i].part && !strstr(err.message, names[i].part))
            CHECK_STR(err.message, names[i].part);
        if (names[i].part) CHECK_STR(err.where, "precision");
        if (names[i].name) CHECK_INT(pl_precision_parse(names[i].name, &found), status == PL_OK);
    }
}

static void optimizers(void) {
    static const struct {
        const char *name, *row, *part;
    } names[] = {
        {"adamw", "adamw", NULL},
        {"AdamW", "adamw", NULL},
        {"torch.optim.AdamW", "adamw", NULL},
        {"adamw_torch", "adamw", NULL},
        {"adamw_torch_fused", "adamw-fused", NULL},
        {"sgd", "sgd", NULL},
        {"sgd_momentum", "sgd-momentum", NULL},
        {"adagrad", "adagrad", NULL},
        {"rmsprop", "rmsprop", NULL},
        {"adafactor", "adafactor", NULL},
        {"NAdam", "nadam", NULL},
        {"none", "none", NULL},
        {"adamw_8bit", "adamw-8bit", NULL},
        {"adamw_bnb_8bit", "adamw-8bit", NULL},
        {"paged_adamw_8bit", NULL, "the nearest is adamw-8bit"},
        {"paged_adamw_32bit", NULL, "move between host and card; the nearest is adamw-fused"},
        {"lion_32bit", NULL, "the nearest is lion"},
        {"galore_adamw", NULL, "projected gradients; the nearest is adamw"},
        {"adamw_apex_fused", NULL, "the nearest is adamw-fused"},
        {"lomo", NULL, "within the backward pass"},
        {"LBFGS", NULL, "calls the model several times"},
        {"adamv", NULL, "did you mean adam? there are sgd"},
        {"abacus", NULL, "no optimizer \"abacus\"; there are sgd"},
        {NULL, NULL, "expected the name of an optimizer"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pl_error err = PL_SIZED(pl_error);
        const char *found = NULL;
        CHECK_INT(pl_optimizer_read(&found, names[i].name, &err), names[i].row ? PL_OK : PL_USAGE);
        if (names[i].row) CHECK_STR(found, names[i].row);
        if (names[i].part && !strstr(err.message, names[i].part))
            CHECK_STR(err.message, names[i].part);
        pl_job job;
        pl_job_default(&job);
        job.optimizer = names[i].name;
        CHECK_INT(pl_job_check(&job, &err), names[i].row ? PL_OK : PL_USAGE);
    }
}

/* Every row of the library is its own name. */
static void rows(void) {
    for (size_t i = 0; pl_optimizer_name(i); i++) {
        const char *found = NULL;
        CHECK_INT(pl_optimizer_read(&found, pl_optimizer_name(i), NULL), PL_OK);
        CHECK_STR(found, pl_optimizer_name(i));
    }
}

/* ---- files ---- */

#define BYTES(text) text, sizeof(text) - 1

static const struct {
    const char *name, *bytes;
    size_t size;
    const char *part; /* of the message */
} files[] = {
    {"a.pt", BYTES("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."),
     "a torch.save checkpoint: weights without a graph; give the model's config.json"},
    {"a.pkl", BYTES("\x80\x04\x95\x0b\0\0\0"), "a Python pickle"},
    {"m.safetensors", BYTES("\x40\0\0\0\0\0\0\0{\"w\":{}}"),
     "safetensors: weights without a graph"},
    {"m.gguf", BYTES("GGUF\3\0\0\0"), "GGUF: quantized weights"},
    {"l.pt2", BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
     "`git lfs pull`"},
    {"m.h5", BYTES("\x89HDF\r\n\x1a\n\0"), "Keras or TensorFlow"},
    {"m.tflite", BYTES("\x1c\0\0\0TFL3\0"), "TensorFlow Lite"},
    {"d.parquet", BYTES("PAR1\0\0"), "a table of data"},
    {"a.npy", BYTES("\x93NUMPY\1\0"), "an array of numpy"},
    {"i.png", BYTES("\x89PNG\r\n\x1a\n"), "an image"},
    {"i.jpg", BYTES("\xff\xd8\xff\xe0"), "an image"},
    {"m.json.gz", BYTES("\x1f\x8b\x08\0"), "a compressed file"},
    {"m.json.xz",
     BYTES("\xfd"
           "7zXZ\0\0"),
     "a compressed file"},
    {"p.json", BYTES("<!DOCTYPE html>\n<html><title>Sign in"), "a page in HTML"},
    {"n.xml", BYTES("<?xml version=\"1.0\"?>\n<net name=\"x\"/>"), "an OpenVINO model"},
    {"train.py", BYTES("import torch\nmodel = 1\n"), "a Python script"},
    {"train", BYTES("#!/usr/bin/env python3\nx\n"), "a Python script"},
    {"d.csv", BYTES("a,b\n1,2\n"), "a table of data"},
    {"saved_model.pb", BYTES("\x12\x34zz"), "a TensorFlow SavedModel"},
    {"n.ipynb", BYTES("{\"cells\": [], \"nbformat\": 4}"), "a notebook"},
    {"tokenizer.json",
     BYTES("{\"version\": \"1.0\", \"added_tokens\": [], \"model\": {\"type\": \"BPE\"}}"),
     "a tokenizer"},
    {"tokenizer_config.json", BYTES("{\"tokenizer_class\": \"X\"}"), "the settings of a tokenizer"},
    {"generation_config.json", BYTES("{\"eos_token_id\": 2, \"transformers_version\": \"5\"}"),
     "the settings of generation"},
    {"adapter_config.json",
     BYTES("{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"meta-llama/Llama-2-7b\"}"),
     "give the config.json of meta-llama/Llama-2-7b"},
    {"params.json", BYTES("{\"dim\": 4096, \"n_layers\": 32}"), "Meta's params.json"},
    {"i.index.json", BYTES("{\"metadata\": {}, \"weight_map\": {}}"), "an index of weights"},
    {"trainer_state.json", BYTES("{\"global_step\": 3, \"log_history\": []}"),
     "the state of a training run"},
    {"special_tokens_map.json", BYTES("{\"eos_token\": \"</s>\", \"bos_token\": \"<s>\"}"),
     "the special tokens of a tokenizer"},
    {"d.jsonl", BYTES("{\"text\": 1}\n{\"text\": 2}\n"), "several objects of JSON"},
    {"c.json", BYTES("\xff\xfe{\0\"\0"), "a text in UTF-16"},
    {"b.json", BYTES("\xef\xbb\xbf{\"one\": 1}"), "this object has none of their keys"},
    {"b.md", BYTES("\xef\xbb\xbf# Title\n"), "a text, not a model"},
    {"b", BYTES("\xef\xbb\xbf"), "the file is empty"},
    {"x.json", BYTES("{\"one\": 1}"), "this object has none of their keys"},
    {"x", BYTES("?? what"), "this is none of them"},
    {"e.json", BYTES(""), "the file is empty"},
};

static void put(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(name, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size);
    if (file) fclose(file);
}

static void what_files_are(void) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pl_model *model = NULL;
        pl_error err = PL_SIZED(pl_error);
        put(files[i].name, files[i].bytes, files[i].size);
        CHECK_INT(pl_model_open(&model, files[i].name, NULL, &err), PL_INPUT);
        CHECK(!model);
        if (!strstr(err.message, files[i].part)) CHECK_STR(err.message, files[i].part);
        CHECK_STR(err.where, files[i].name);
        err.message[0] = 0; /* the same from memory, and mapped */
        CHECK_INT(
            pl_model_open_memory(&model, files[i].bytes, files[i].size, files[i].name, NULL, &err),
            PL_INPUT);
        if (!strstr(err.message, files[i].part)) CHECK_STR(err.message, files[i].part);
        unlink(files[i].name);
    }
}

/* 8 GiB that are not read. */
static void large_weights_are_not_read(void) {
    pl_model *model = NULL;
    pl_error err = PL_SIZED(pl_error);
    put("big.safetensors", files[2].bytes, files[2].size);
    CHECK_INT(truncate("big.safetensors", (off_t)8 << 30), 0);
    CHECK_INT(pl_model_open(&model, "big.safetensors", NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "safetensors: weights") != NULL);
    unlink("big.safetensors");
}

static void a_mark_of_utf8_is_passed_over(void) {
    static const char config[] =
        "\xef\xbb\xbf{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 100}";
    pl_model *model = NULL;
    pl_error err = PL_SIZED(pl_error);
    put("config.json", config, sizeof config - 1);
    CHECK_INT(pl_model_open(&model, "config.json", NULL, &err), PL_OK);
    pl_model_close(&model);
    CHECK_INT(pl_model_open_memory(&model, config, sizeof config - 1, "c", NULL, &err), PL_OK);
    pl_model_close(&model);
    unlink("config.json");
}

static void folders(void) {
    static const struct {
        const char *names[4];
        const char *part; /* NULL: read */
    } kinds[] = {
        {{"config.json", "model.safetensors", "tokenizer.json", NULL}, NULL},
        {{"config.json", "adapter_config.json", NULL, NULL}, NULL},
        {{NULL}, "a folder without a config.json or another model file"},
        {{"readme.md", NULL}, "; in it are readme.md"},
        {{"adapter_config.json", NULL}, "the folder of an adapter (PEFT)"},
        {{"model.safetensors", NULL}, "a folder of weights without the model's config.json"},
        {{"model_index.json", NULL}, "a diffusion pipeline"},
        {{"a.pt2", "b.onnx", NULL}, "several models; name one of them: "},
        {{"a.pt2", NULL}, "the file is empty"}, /* the one model is opened */
    };
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 100}";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[64];
        CHECK_INT(mkdir("folder", 0700), 0);
        for (size_t k = 0; k < 4 && kinds[i].names[k]; k++) {
            snprintf(path, sizeof path, "folder/%s", kinds[i].names[k]);
            bool is_config = strcmp(kinds[i].names[k], "config.json") == 0;
            put(path, config, is_config ? sizeof config - 1 : 0);
        }
        pl_model *model = NULL;
        pl_error err = PL_SIZED(pl_error);
        pl_status status = pl_model_open(&model, i % 2 ? "folder/" : "folder", NULL, &err);
        CHECK_INT(status, kinds[i].part ? PL_INPUT : PL_OK);
        if (kinds[i].part && !strstr(err.message, kinds[i].part))
            CHECK_STR(err.message, kinds[i].part);
        pl_model_close(&model);
        for (size_t k = 0; k < 4 && kinds[i].names[k]; k++) {
            snprintf(path, sizeof path, "folder/%s", kinds[i].names[k]);
            unlink(path);
        }
        CHECK_INT(rmdir("folder"), 0);
    }
}

static void names_at_hugging_face(void) {
    pl_model *model = NULL;
    pl_error err = PL_SIZED(pl_error);
    CHECK_INT(pl_model_open(&model, "meta-llama/Llama-2-7b", NULL, &err), PL_INPUT);
    CHECK(strstr(err.message, "`hf download meta-llama/Llama-2-7b config.json`") != NULL);
    CHECK_INT(pl_model_open(&model, "https://huggingface.co/gpt2/config.json", NULL, &err),
              PL_INPUT);
    CHECK(strstr(err.message, "an address: nothing is fetched") != NULL);
    static const char *const others[] = {"models/net.pt2", "/meta/x", "./meta/x",
                                         "a/b/c",          "meta",    "a b/c"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK_INT(pl_model_open(&model, others[i], NULL, &err), PL_INPUT);
        CHECK(strstr(err.message, "cannot open") != NULL);
    }
}

int main(void) {
    char folder[] = "/tmp/plimsoll-names-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 2;
    RUN(precisions);
    RUN(optimizers);
    RUN(rows);
    RUN(what_files_are);
    RUN(a_mark_of_utf8_is_passed_over);
    RUN(large_weights_are_not_read);
    RUN(folders);
    RUN(names_at_hugging_face);
    if (chdir("/") != 0 || rmdir(folder) != 0) return 2;
    return check_done();
}
