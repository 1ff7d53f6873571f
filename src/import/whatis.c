/* whatis: see whatis.h. Tables of signatures: of files, of texts, of archives' members, of JSON keys.
 * The first row that holds is taken. Signatures are from the formats' own descriptions (PyTorch's
 * serialization.py, safetensors, GGUF, HDF5, FlatBuffers' identifiers, git-lfs). Left out: what is inside
 * of archives in archives. */
#include "import/whatis.h"

#include <stdio.h>
#include <string.h>

#include "import/json.h"

#define GIVE "give the model's config.json, or export the model with torch.export.save"

static const char checkpoint[] = "a torch.save checkpoint: weights without a graph; " GIVE;
static const char script[] =
    "a TorchScript archive, whose code is not read; export the model with torch.export.save";
static const char image[] = "an image, not a model";
static const char packed[] = "a compressed file; unpack it, and give what is inside";
static const char keras[] =
    "a model of Keras or TensorFlow (HDF5), which is not read; PyTorch's models and ONNX are";
static const char wide[] = "begins as a text in UTF-16 does, which is not read; save it as UTF-8";
static const char special[] =
    "the special tokens of a tokenizer; the config.json that lies beside it is the file to give";
static const char table[] = "a table of data, not a model";

/* ---- first bytes ---- */

static const struct {
    size_t at;
    const char *bytes;
    size_t length;
    const char *what;
} heads[] = {
#define SIGN(at, bytes, what)                                                                      \
    { at, bytes, sizeof(bytes) - 1, what }
    /* a pickle of the number that torch.save began with before 1.6 */
    SIGN(0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", checkpoint),
    SIGN(0, "GGUF",
         "GGUF: quantized weights for llama.cpp, not for training; give the original "
         "model's config.json"),
    SIGN(0, "version https://git-lfs",
         "a pointer of git LFS, not the file itself; `git lfs pull` fetches it"),
    SIGN(0, "\x89HDF\r\n\x1a\n", keras),
    SIGN(4, "TFL3", "a TensorFlow Lite model, made for inference; it cannot be trained"),
    SIGN(0, "PAR1", table),
    SIGN(0, "ARROW1", table),
    SIGN(0, "\x93NUMPY", "an array of numpy, not a model"),
    SIGN(0, "\x89PNG", image),
    SIGN(0, "\xff\xd8\xff", image),
    SIGN(0, "GIF8", image),
    SIGN(0, "%PDF", "a PDF document, not a model"),
    SIGN(0, "\x1f\x8b", packed),
    SIGN(0,
         "\xfd"
         "7zXZ",
         packed),
    SIGN(0, "BZh", packed),
    SIGN(0, "\x28\xb5\x2f\xfd", packed),
    SIGN(0, "7z\xbc\xaf", packed),
    SIGN(0, "\xff\xfe", wide),
    SIGN(0, "\xfe\xff", wide),
    SIGN(257, "ustar", "a tar archive; unpack it, and give the model's config.json"),
    SIGN(0,
         "\x7f"
         "ELF",
         "a program or a library, not a model"),
    SIGN(0, "\x80\x02", "a Python pickle, which is not read: it could run anything; " GIVE),
    SIGN(0, "\x80\x03", "a Python pickle, which is not read: it could run anything; " GIVE),
    SIGN(0, "\x80\x04", "a Python pickle, which is not read: it could run anything; " GIVE),
    SIGN(0, "\x80\x05", "a Python pickle, which is not read: it could run anything; " GIVE),
#undef SIGN
};

/* safetensors: the length of a JSON header in 8 bytes, lowest first, then the header. */
static bool is_safetensors(const unsigned char *bytes, size_t size) {
    return size >= 10 && bytes[8] == '{' && bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0 &&
           (bytes[9] == '"' || bytes[9] == '}');
}

const char *pl_whatis_head(const void *bytes, size_t size) {
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (size >= heads[i].at + heads[i].length &&
            memcmp((const char *)bytes + heads[i].at, heads[i].bytes, heads[i].length) == 0)
            return heads[i].what;
    if (is_safetensors(bytes, size))
        return "safetensors: weights without a graph; the config.json that lies beside it is the file to give";
    return NULL;
}

/* ---- text, and names ---- */

static char folded(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool begins(const char *text, size_t size, const char *with) {
    size_t length = strlen(with);
    if (size < length) return false;
    for (size_t i = 0; i < length; i++)
        if (folded(text[i]) != with[i]) return false;
    return true;
}

static bool ends(const char *name, const char *with) {
    size_t length = strlen(name), tail = strlen(with);
    return length >= tail && begins(name + length - tail, tail, with);
}

const char *pl_whatis_text(const void *bytes, size_t size, const char *name) {
    static const struct {
        bool start; /* of the text; else the name's end */
        const char *sign, *what;
    } texts[] = {
        {true, "<!doctype html",
         "a page in HTML: perhaps what a server said in place of the file (a login?)"},
        {true, "<html",
         "a page in HTML: perhaps what a server said in place of the file (a login?)"},
        {true, "<?xml version=\"1.0\"?>\n<net",
         "an OpenVINO model, which is not read; ONNX and torch.export's files are"},
        {true, "<?xml version=\"1.0\"?><net",
         "an OpenVINO model, which is not read; ONNX and torch.export's files are"},
        {true, "#!/usr/bin/env python", "a Python script"},
        {true, "#!/usr/bin/python", "a Python script"},
        {false, ".py", "a Python script, which is run by the Python package and not read"},
        {false, ".csv", table},
        {false, ".tsv", table},
        {false, ".jsonl", table},
        {false, ".parquet", table},
        {false, ".mlmodel", "a Core ML model, made for inference; it cannot be trained"},
        {false, "saved_model.pb",
         "a TensorFlow SavedModel, which is not read; PyTorch's models and ONNX are"},
        {false, ".pb", "a TensorFlow graph, which is not read; PyTorch's models and ONNX are"},
        {false, ".engine", "a TensorRT engine, made for inference; it cannot be trained"},
        {false, ".bin", "raw weights, without a graph; " GIVE},
        {false, ".md", "a text, not a model"},
    };
    const char *text = bytes;
    while (size > 0 && (*text == ' ' || *text == '\n' || *text == '\r' || *text == '\t' ||
                        *text == '\xef' || *text == '\xbb' || *text == '\xbf')) {
        text++;
        size--;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].start ? begins(text, size, texts[i].sign) : ends(name, texts[i].sign))
            return texts[i].what;
    return NULL;
}

/* ---- archives ---- */

const char pl_whatis_archive[] =
    "a zip archive without a model in it; unpack it, and give the model's "
    "config.json or what torch.export.save wrote";

const char *pl_whatis_member(const char *name, size_t length, const char *last) {
    /* The first row holds before the later ones. */
    static const struct {
        const char *end, *what;
    } members[] = {
        {"constants.pkl", script},
        {"data.pkl", checkpoint},
        {"model.weights.h5", "a Keras model, which is not read; PyTorch's models and ONNX are"},
        {".mlmodel", "a Core ML package, made for inference; it cannot be trained"},
        {"coremldata.bin", "a Core ML package, made for inference; it cannot be trained"},
        {".npy", "arrays of numpy, not a model"},
        {"[Content_Types].xml", "a document or a table of an office program, not a model"},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        size_t tail = strlen(members[i].end);
        if (last == members[i].what) return last;
        if (length >= tail && memcmp(name + length - tail, members[i].end, tail) == 0)
            return members[i].what;
    }
    return last;
}

/* ---- JSON ---- */

bool pl_whatis_json(char *out, size_t room, const char *text, size_t size) {
    /* The first row of which the object has all keys. */
    static const struct {
        const char *keys[2], *what;
        bool names; /* the first key's value is told */
    } objects[] = {
        {{"base_model_name_or_path", "peft_type"},
         "the settings of an adapter (PEFT), which trains beside its base model; give the config.json of ",
         true},
        {{"weight_map", "metadata"},
         "an index of weights in several files; the config.json that lies beside it is the file to give",
         false},
        {{"added_tokens", "model"},
         "a tokenizer; the config.json that lies beside it is the file to give",
         false},
        {{"tokenizer_class", NULL},
         "the settings of a tokenizer; the config.json that lies beside it is the file to give",
         false},
        {{"nbformat", "cells"}, "a notebook; save its code as a script", false},
        {{"dim", "n_layers"},
         "Meta's params.json of a Llama, which has no names of layers; give the config.json of the same "
         "model as Hugging Face has it",
         false},
        {{"_diffusers_version", "_class_name"},
         "the settings of a part of a diffusion pipeline, which are not read; export it with "
         "torch.export.save",
         false},
        {{"image_processor_type", NULL},
         "the settings of an image processor; the config.json that lies beside it is the file to give",
         false},
        {{"feature_extractor_type", NULL},
         "the settings of a feature extractor; the config.json that lies beside it is the file to give",
         false},
        {{"eos_token_id", "transformers_version"},
         "the settings of generation; the config.json that lies beside it is the file to give",
         false},
        {{"_from_model_config", NULL},
         "the settings of generation; the config.json that lies beside it is the file to give",
         false},
        {{"log_history", "global_step"},
         "the state of a training run; the config.json that lies beside it is the file to give",
         false},
        {{"zero_optimization", NULL},
         "a configuration of DeepSpeed, not a model; the model's config.json is the file to give",
         false},
        {{"bos_token", NULL}, special, false},
        {{"unk_token", NULL}, special, false},
        {{"schema", "memory"}, "an estimate that was written before, not a model", false},
    };
    enum { ROWS = sizeof objects / sizeof *objects };
    unsigned char has[ROWS] = {0};
    char named[120] = "";
    pl_json json;
    pl_json_text key;
    pl_json_open(&json, text, size, PL_JSON_MAX_DEPTH);
    if (!pl_json_object(&json)) return false;
    while (pl_json_key(&json, &key)) {
        bool read = false;
        for (size_t i = 0; i < ROWS; i++)
            for (int k = 0; k < 2; k++)
                if (objects[i].keys[k] &&
                    pl_json_is(&key, objects[i].keys[k], strlen(objects[i].keys[k]))) {
                    has[i] |= (unsigned char)(1 << k);
                    pl_json_text value;
                    if (k == 0 && objects[i].names && !read && pl_json_peek(&json) == '"' &&
                        pl_json_string(&json, &value)) {
                        snprintf(named, sizeof named, "%.*s",
                                 value.length < 100 ? (int)value.length : 100, value.bytes);
                        read = true;
                    }
                }
        if (!read) pl_json_skip(&json);
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (has[i] != (objects[i].keys[1] ? 3 : 1)) continue;
        if (objects[i].names)
            snprintf(out, room, "%s%s", objects[i].what, named[0] ? named : "the base model");
        else
            snprintf(out, room, "%s", objects[i].what);
        return true;
    }
    return false;
}
