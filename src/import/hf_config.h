/* hf_config: the keys of a config.json, flat: "rope_scaling.factor" is one of them. */
#ifndef PL_IMPORT_HF_CONFIG_H
#define PL_IMPORT_HF_CONFIG_H

#include "import/hf.h"

/* Reads the file into arena, which keeps it. file: for messages. */
pl_status pl_config_read(pl_config **out, pl_arena *arena, const char *bytes, size_t size,
                         const char *file, pl_error *err);

/* Keys of the object called name become keys of the file, over what is there; the object stays.
 * false: out of memory. */
bool pl_config_promote(pl_config *config, pl_arena *arena, const char *name);

/* The other way: keys of the file become keys of the object called name, which the file does not
 * have, as far as they are of a model and not of another configuration. false: out of memory. */
bool pl_config_demote(pl_config *config, pl_arena *arena, const char *name);

/* What transformers' class of that model_type holds where the file says nothing, and the classes of
 * the configurations inside it ("vision_config."): from now on every question about a key that
 * the file does not have is answered by it. A null in the file is an answer. Of types that are not
 * known nothing changes. false: out of memory. */
bool pl_config_defaults(pl_config *config, pl_arena *arena, const char *model_type);
bool pl_config_known(const char *model_type); /* whether transformers has it */

/* For the choice of what to build: nothing is refused here. Alternatives as of pl_hf_int. */
bool pl_config_has(const pl_config *config, const char *key);          /* and is not null */
const char *pl_config_text(const pl_config *config, const char *key);  /* NULL: no string */
const char *pl_config_first(const pl_config *config, const char *key); /* of a list of strings */
int64_t pl_config_number(const pl_config *config, const char *key);    /* -1: no such number */
bool pl_config_true(const pl_config *config, const char *key);
/* The name of an element of a list, NULL: there is none or it is no string. */
const char *pl_config_listed(const pl_config *config, const char *key, int64_t index);
/* The first key that starts so, at top level, and is not null; NULL: none does. */
const char *pl_config_starting(const pl_config *config, const char *start);
/* The keys of the file and, behind them, of its class, inner objects' too ("vision_config.depth");
 * NULL: no more. One may come twice. */
const char *pl_config_key(const pl_config *config, size_t index);
/* Whether its keys speak of experts that a router chooses from. */
bool pl_config_experts(const pl_config *config);
/* Whether the file itself has it, as a number, a list or null. */
bool pl_config_given(const pl_config *config, const char *key);
int64_t pl_config_at(const pl_config *config, const char *key); /* byte, -1: absent */

#endif
