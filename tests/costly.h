/* costly: small inputs that once cost much: texts of about n things each, for tests of what reading
 * and estimating them costs. Each is malloc'ed and *size bytes long. */
#ifndef PL_TESTS_COSTLY_H
#define PL_TESTS_COSTLY_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct costly_text {
    char *bytes;
    size_t size, room;
} costly_text;

__attribute__((format(printf, 2, 3))) static inline void costly_add(costly_text *text,
                                                                    const char *format, ...) {
    for (;;) {
        size_t left = text->room - text->size;
        va_list arguments;
        va_start(arguments, format);
        int n = vsnprintf(text->bytes + text->size, left, format, arguments);
        va_end(arguments);
        if ((size_t)n < left) {
            text->size += (size_t)n;
            return;
        }
        text->room = 2 * text->room + (size_t)n + 1;
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes) abort();
    }
}

static inline char *costly_done(const costly_text *text, size_t *size) {
    *size = text->size;
    return text->bytes;
}

/* torch.export's model.json: n operators, one behind the other, in 1,000 modules. strange: each of
 * another name, which nobody knows; else relus. */
static inline char *costly_graph(int n, size_t *size, int strange) {
    costly_text t = {0};
    costly_add(&t, "{\"graph_module\": {\"graph\": {\"inputs\": [{\"as_tensor\": {\"name\": "
                   "\"x0\"}}], \"outputs\": [], \"nodes\": [");
    for (int i = 0; i < n; i++) {
        if (strange)
            costly_add(&t, "%s{\"target\": \"torch.ops.mine.op%d.default\"", i ? ", " : "", i);
        else
            costly_add(&t, "%s{\"target\": \"torch.ops.aten.relu.default\"", i ? ", " : "");
        costly_add(&t,
                   ", \"inputs\": [{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": "
                   "\"x%d\"}}}], \"outputs\": [{\"as_tensor\": {\"name\": \"x%d\"}}], "
                   "\"metadata\": {\"stack_trace\": \"File \\\"m.py\\\", line "
                   "%d, in f\\n    x = f(x)\", \"nn_module_stack\": "
                   "\"L__self__,,M;L__self__l.%d,l.%d,R\"}}",
                   i, i + 1, i, i % 1000, i % 1000);
    }
    costly_add(&t, "], \"tensor_values\": {");
    for (int i = 0; i <= n; i++)
        costly_add(&t,
                   "%s\"x%d\": {\"dtype\": 7, \"sizes\": [{\"as_expr\": {\"expr_str\": \"s0\", "
                   "\"hint\": {\"as_int\": 4}}}, {\"as_int\": 8}], "
                   "\"requires_grad\": false, \"strides\": [{\"as_int\": 8}, {\"as_int\": 1}], "
                   "\"storage_offset\": {\"as_int\": 0}}",
                   i ? ", " : "", i);
    costly_add(&t,
               "}}, \"signature\": {\"input_specs\": [{\"user_input\": {\"arg\": "
               "{\"as_tensor\": {\"name\": \"x0\"}}}}], \"output_specs\": "
               "[{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"x%d\"}}}}]}}, "
               "\"schema_version\": {\"major\": 8, \"minor\": 17}}",
               n);
    return costly_done(&t, size);
}

static inline char *costly_chain(int n, size_t *size) {
    return costly_graph(n, size, 0);
}

static inline char *costly_strange(int n, size_t *size) {
    return costly_graph(n, size, 1);
}

/* plimsoll's own graph: n symbols, and an input that has each as its only size. */
static inline char *costly_symbols(int n, size_t *size) {
    costly_text t = {0};
    costly_add(&t,
               "{\"plimsoll_graph\": 1, \"name\": \"s\", \"torch_version\": \"\", \"symbols\": [");
    for (int i = 0; i < n; i++)
        costly_add(
            &t, "%s{\"name\": \"s%d\", \"role\": \"%s\", \"hint\": 4, \"least\": 1, \"most\": 64}",
            i ? ",\n" : "", i, i ? "" : "batch");
    costly_add(&t, "], \"modules\": [{\"path\": \"\", \"type\": \"M\", \"parent\": -1, \"call\": "
                   "0}], \"tensors\": [");
    for (int i = 0; i < n; i++)
        costly_add(&t,
                   "%s{\"name\": \"x%d\", \"role\": \"%s\", \"dtype\": \"float32\", \"sizes\": "
                   "[[4, \"Symbol('s%d', positive=True, integer=True)\"]]}",
                   i ? ",\n" : "", i, i ? "value" : "input", i);
    costly_add(&t, "], \"nodes\": [");
    for (int i = 1; i < n; i++)
        costly_add(&t,
                   "%s{\"target\": \"aten.relu.default\", \"module\": 0, \"args\": [[\"self\", "
                   "\"tensor\", %d]], \"outputs\": [%d], \"source\": \"\"}",
                   i > 1 ? ",\n" : "", i - 1, i);
    costly_add(&t, "], \"inputs\": [0], \"outputs\": [%d], \"mutations\": []}", n - 1);
    return costly_done(&t, size);
}

/* A config.json of n layers. */
static inline char *costly_layers(int n, size_t *size) {
    costly_text t = {0};
    costly_add(&t,
               "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], "
               "\"num_hidden_layers\": %d, \"hidden_size\": 64, \"num_attention_heads\": 4, "
               "\"num_key_value_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 1000, "
               "\"max_position_embeddings\": 128, \"tie_word_embeddings\": false}",
               n);
    return costly_done(&t, size);
}

/* The Python package's trace: n operators, and as many marks of a phase. */
static inline char *costly_marks(int n, size_t *size) {
    costly_text t = {0};
    costly_add(&t, "{\"plimsoll_trace\":1,\"torch\":\"2.11.0\",\"name\":\"marks\",\"job\":{},"
                   "\"parameters\":[],\"operators\":[\"aten.relu.default\"],\"modules\":[],"
                   "\"layers\":[],\"storages\":[[64,\"inputs\"]");
    for (int i = 1; i <= n; i++) costly_add(&t, ",[64,\"\"]");
    costly_add(&t, "],\"tensors\":[[0,7,[16],[1]]");
    for (int i = 1; i <= n; i++) costly_add(&t, ",[%d,7,[16],[1]]", i);
    costly_add(&t, "],\"marks\":[[0,0,0]");
    for (int i = 0; i < n; i++) costly_add(&t, ",[%d,2,0]", i);
    costly_add(&t, "],\"events\":[[0,-1,-1,[-1],[0]]");
    for (int i = 1; i <= n; i++) costly_add(&t, ",[0,-1,-1,[%d],[%d]]", i - 1, i);
    costly_add(&t, "]}");
    return costly_done(&t, size);
}

static inline uint32_t costly_fnv(uint32_t h, const char *text) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

/* The i-th text of eight letters. */
static inline void costly_letters(uint32_t i, char out[9]) {
    uint64_t mixed = (i + 1) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    for (int k = 0; k < 8; k++) out[k] = (char)('a' + (mixed >> (8 * k) & 15));
    out[8] = 0;
}

/* Two texts that take FNV-1a's state h to the same next one, which is returned. Among
 * 2^18 texts there are about eight such pairs. */
static inline uint32_t costly_pair(uint32_t h, char one[9], char other[9]) {
    enum { SLOTS = 1 << 18 };
    static uint32_t seen[SLOTS]; /* 1 + the number of a text whose next state falls here */
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0;; i++) {
        costly_letters(i, other);
        uint32_t next = costly_fnv(h, other), slot = (next * 2654435761u) >> 14;
        if (seen[slot]) {
            costly_letters(seen[slot] - 1, one);
            if (strcmp(one, other) != 0 && costly_fnv(h, one) == next) return next;
        }
        seen[slot] = i + 1;
    }
}

/* A config.json with n keys (a power of 2) of one and the same FNV-1a hash: pairs of texts that
 * collide, one of each chosen by the bits of the key's number. */
static inline char *costly_keys(int n, size_t *size) {
    enum { MOST = 40 };
    char one[MOST][9], other[MOST][9];
    int bits = 0, made = 0;
    while (1 << bits < n) bits++;
    uint32_t h = 2166136261u;
    for (; made < bits; made++) h = costly_pair(h, one[made], other[made]);
    costly_text t = {0};
    costly_add(&t, "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 64, "
                   "\"num_attention_heads\": 4, \"intermediate_size\": 64, \"vocab_size\": 64");
    for (int i = 0; i < n; i++) {
        costly_add(&t, ", \"");
        for (int b = 0; b < made; b++) costly_add(&t, "%s", i >> b & 1 ? other[b] : one[b]);
        costly_add(&t, "\": 1");
    }
    costly_add(&t, "}");
    return costly_done(&t, size);
}

#endif
