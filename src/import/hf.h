/* hf: Hugging Face's config.json as a recipe. hf.c reads the file and knows the heads and losses;
 * families/ builds the models; hf_layers.c what they share. */
#ifndef PL_IMPORT_HF_H
#define PL_IMPORT_HF_H

#include "graph/aten.h"
#include "graph/recipe.h"
#include "import/reading.h"

enum { PL_HF_MAX_LAYERS = 4096 };

/* What a model is trained to do: its Auto class. */
typedef enum pl_task {
    PL_TASK_AUTO,     /* as `architectures` says, else the family's first */
    PL_TASK_CAUSAL,   /* AutoModelForCausalLM */
    PL_TASK_MASKED,   /* AutoModelForMaskedLM */
    PL_TASK_SEQ2SEQ,  /* AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq */
    PL_TASK_CLASSIFY, /* AutoModelForSequenceClassification, ..ImageClassification */
    PL_TASK_TOKENS,   /* AutoModelForTokenClassification */
    PL_TASK_SEGMENT,  /* AutoModelForSemanticSegmentation */
    PL_TASK_DETECT,   /* AutoModelForObjectDetection */
    PL_TASK_CTC,      /* AutoModelForCTC */
    PL_TASK_BASE,     /* AutoModel: no head, no loss */
    PL_TASK_PICTURES, /* AutoModelForImageTextToText: pictures beside text */
    PL_TASKS
} pl_task;

/* config._attn_implementation. */
typedef enum pl_hf_attention { PL_ATTN_SDPA, PL_ATTN_EAGER, PL_ATTN_FLASH2 } pl_hf_attention;

typedef struct pl_config pl_config; /* the file's keys */

typedef struct pl_hf_family pl_hf_family;

/* A model being built. */
typedef struct pl_hf {
    pl_builder *b;
    const pl_config *config;
    const char *part; /* whose keys are asked for: "text_config.", one inside; "" the file's own */
    const pl_hf_family *family;
    bool guessed; /* the family is one that the keys look like: model_type is not known */
    pl_task task; /* never AUTO */
    pl_hf_attention attn;
    int64_t batch, seq; /* seq: as --seq; of seq2seq models both the encoder's and the decoder's */
    pl_dtype dtype;     /* of the weights, as the graph has them */
    const char *file;   /* for messages */
    int64_t failed_at;  /* byte of the key that was refused; -1: none was */
    int64_t picture[2]; /* beside the text, height and width, before the processor; 0: not said */
} pl_hf;

/* One picture to a sample, as its processor gives it. */
typedef struct pl_hf_picture {
    int64_t height, width; /* in pixels */
    int64_t tokens;        /* of the sequence that stand for it */
} pl_hf_picture;

/* Keys of the config. A number that is there and of another kind, or out of 0 .. 2^40, makes the
 * build fail with the key's name; null counts as absent. Names may have alternatives split by '|':
 * the first that is there ("n_embd|hidden_size"); "rope_scaling.rope_type" looks into an object. */
int64_t pl_hf_int(pl_hf *m, const char *key, int64_t otherwise);
int64_t pl_hf_need(pl_hf *m,
                   const char *key); /* at least 1; absent: a failure that names the key */
double pl_hf_float(pl_hf *m, const char *key, double otherwise);
bool pl_hf_bool(pl_hf *m, const char *key, bool otherwise);
const char *pl_hf_string(pl_hf *m, const char *key, const char *otherwise);
bool pl_hf_has(pl_hf *m, const char *key);
/* From now on keys are those of the configuration inside, "vision_config." (whole, with the dot; kept
 * by pointer), or of the file itself, "". Returns what held before. So a builder that asks for
 * "hidden_size" builds a tower or a language model inside another model, unchanged. */
const char *pl_hf_within(pl_hf *m, const char *part);
/* A failure that names the key, of alternatives the one in the file, and its byte: of values that
 * do not go together. message as printf. */
void pl_hf_refuse(pl_hf *m, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As pl_hf_need, and no more than PL_HF_MAX_LAYERS: what is built one by one. */
int64_t pl_hf_layers(pl_hf *m, const char *key);
int64_t pl_hf_labels(pl_hf *m);    /* classes: as many as id2label has, else num_labels, else 2 */
int64_t pl_hf_pad(pl_hf *m);       /* pad_token_id; -1: none */
int32_t pl_hf_input_ids(pl_hf *m); /* the input "input_ids" int64 [batch, seq] */
/* Elements of a list: count (0: absent or no list), and the element's number or string. */
int64_t pl_hf_list(pl_hf *m, const char *key);
int64_t pl_hf_list_int(pl_hf *m, const char *key, int64_t index, int64_t otherwise);
double pl_hf_list_float(pl_hf *m, const char *key, int64_t index, double otherwise);
const char *pl_hf_list_string(pl_hf *m, const char *key, int64_t index, const char *otherwise);

/* Of count things, the one that a number or an element of a list names, from the end where it is
 * negative; otherwise: of what the file does not have. */
int64_t pl_hf_from_end(pl_hf *m, const char *key, int64_t index, int64_t count, int64_t otherwise);

/* Experts, and how many of them a token goes to: names that families give the keys. */
#define PL_HF_EXPERTS "num_local_experts|num_experts|moe_num_experts"
#define PL_HF_CHOSEN  "num_experts_per_tok|moe_topk|moe_k"

/* A family: a row of a file in families/. */
struct pl_hf_family {
    const char *model_type; /* "llama" */
    uint32_t tasks;         /* 1 << PL_TASK_CAUSAL | ..: what it can be asked for */
    pl_task usual;          /* where the file does not say */
    void (*build)(pl_hf *m);
    /* For build: what sets this family apart from the others of its file, of a type that the file
     * defines; NULL: it has no others. */
    const void *plan;
    bool no_seq;           /* its input has no sequence to choose (images, audio) */
    const char *version;   /* transformers' release whose code was followed: "5.22" */
    bool learnt_positions; /* a table of positions: no sequence longer than it (--seq is refused) */
    const char *positions; /* the key that says how many; NULL: the usual ones */
    const char *warning;   /* what is assumed, reported with every estimate; NULL: nothing */
    int64_t kept_positions;  /* of the table's, not for tokens: RoBERTa counts from padding on */
    int64_t usual_positions; /* of learnt_positions: how many, where the file does not say */
    int64_t usual_seq;       /* where the job does not say; 0: as the positions allow */
    bool whole;              /* of several models in one (text_config, ..): all are built */
    /* Of models that take pictures beside text, whose language model's keys are in "text_config";
     * NULL: others. any_size: the processor keeps the picture's shape. */
    pl_hf_picture (*picture)(pl_hf *m);
    bool any_size;
    const char *text;      /* its language model\'s family, where the file names none */
    const char *towers;    /* the types of vision_config, blanks around each; NULL: its own alone */
    uint32_t no_attention; /* 1 << PL_ATTN_FLASH2 | ..: what it does not follow; its own runs */
};

/* Each file in families/ exports rows, ended by one without model_type; hf.c lists the files. */
extern const pl_hf_family pl_hf_llama[], pl_hf_llama_more[], pl_hf_mixtures[], pl_hf_gpt[],
    pl_hf_bert[], pl_hf_vision[], pl_hf_t5[], pl_hf_bart[], pl_hf_deberta[], pl_hf_mamba[];
extern const pl_hf_family pl_hf_clip[], pl_hf_modernbert[], pl_hf_deberta_v1[];
extern const pl_hf_family pl_hf_swin[], pl_hf_convnext[];
extern const pl_hf_family pl_hf_segformer[], pl_hf_wav2vec2[];
extern const pl_hf_family pl_hf_gemma[], pl_hf_hybrids[];
extern const pl_hf_family pl_hf_mamba2[], pl_hf_state_spaces[], pl_hf_bert_more[];
extern const pl_hf_family pl_hf_lfm2[], pl_hf_minimax[], pl_hf_rwkv[], pl_hf_modernbert_decoder[],
    pl_hf_recurrent_gemma[], pl_hf_zamba2[], pl_hf_xlm[];
extern const pl_hf_family pl_hf_xlnet[], pl_hf_convnets[], pl_hf_detr[];
extern const pl_hf_family pl_hf_llava[], pl_hf_qwen_vl[]; /* pictures beside text */

/* ---- hf_layers.c: layers with their modules and parameters, as torch.nn has them ---- */

/* A module `name` of type torch.nn.modules...; the parameters are made, the operator appended. */
int32_t pl_hf_linear(pl_hf *m, const char *name, int32_t x, int64_t out, bool bias);
int32_t pl_hf_embedding(pl_hf *m, const char *name, int64_t rows, int64_t width, int32_t indices,
                        int64_t padding_idx);
int32_t pl_hf_layer_norm(pl_hf *m, const char *name, int32_t x, double eps, bool bias);
int32_t pl_hf_dropout(pl_hf *m, const char *name, int32_t x, double p); /* nn.Dropout; p = 0 too */
/* config.hidden_act and its like: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish, quick_gelu,
 * tanh, relu2, mish, gelu_fast...: each with the operators that transformers' activations.py runs
 * (gelu_new is eight of them). name: the module ("act", "activation_fn"). */
int32_t pl_hf_activation(pl_hf *m, const char *name, const char *act, int32_t x);
/* A linear layer whose weight is another's (tied). */
int32_t pl_hf_tied_linear(pl_hf *m, const char *name, int32_t x, int32_t weight, int64_t out,
                          bool bias);

/* Heads' losses as transformers' loss_utils.py computes them. labels are inputs made here: int64
 * [batch, seq]. Causal: logits to float32, labels padded and shifted, flattened, cross entropy. */
void pl_hf_causal_loss(pl_hf *m, int32_t logits);
/* classes: config.num_labels; 1 label is a regression, labels [batch]. */
void pl_hf_classification_loss(pl_hf *m, int32_t logits);
void pl_hf_token_loss(pl_hf *m, int32_t logits);

/* Rotary embedding: cos and sin [1, seq, dim] as the model's rotary module makes them under no_grad
 * (inv_freq a buffer [dim / 2], not persistent). module: its name; like PL_DT_UNKNOWN: cos and sin
 * stay float32. */
void pl_hf_rotary(pl_hf *m, const char *module, const char *type, int64_t dim, int32_t position_ids,
                  pl_dtype like, int32_t *cos, int32_t *sin);

/* The same inside the present module, whose buffers' names start with prefix
 * ("sliding_attention_"). */
void pl_hf_rotary_of(pl_hf *m, const char *prefix, int64_t dim, int32_t position_ids, pl_dtype like,
                     int32_t *cos, int32_t *sin);

/* (x cos) + (rotate_half(x) sin); x [batch, heads, seq, d], cos and sin [1, 1, seq, d]. */
int32_t pl_hf_rotate(pl_hf *m, int32_t x, int32_t cos, int32_t sin);
/* repeat_kv: [batch, kv heads, seq, d] to [batch, heads, seq, d], a copy; as it is where they are
 * as many. */
int32_t pl_hf_repeat_heads(pl_hf *m, int32_t x, int64_t heads);
/* The logits of each sample's last token that is not pad: [batch, seq, n] to [batch, n]. */
int32_t pl_hf_last_token(pl_hf *m, int32_t ids, int64_t pad, int32_t logits);
/* BertOutput and its like, inside their module: dense, dropout, LayerNorm of the sum. */
int32_t pl_hf_residual_output(pl_hf *m, int32_t x, int32_t residual, double drop, double eps);

pl_status pl_import_hf(pl_recipe **out, const char *bytes, size_t size, const char *name,
                       const pl_reading *reading, pl_error *err);

#endif
