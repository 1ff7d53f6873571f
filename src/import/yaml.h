/* yaml: the part of YAML 1.2 that people write by hand, and all of JSON, read into a tree.
 *
 * Block and flow mappings and sequences, plain and quoted scalars on one line, comments. One thing
 * is added: a word before a flow collection, `lstm {hidden: 512}`, is the mapping `{lstm: {hidden:
 * 512}}`, which YAML would refuse. Every node knows its line, since what is read here was typed.
 *
 * Left out, and refused with a word: anchors and aliases (a few lines of them make gigabytes),
 * tags, block scalars (| and >), scalars over several lines, several documents, complex keys. An
 * own reader instead of libyaml, since that gives events without checking what scalars mean,
 * follows YAML 1.1 (where `no` is false and 010 is eight), and would be one more library to load.
 */
#ifndef PL_IMPORT_YAML_H
#define PL_IMPORT_YAML_H

#include "core/arena.h"
#include "core/error.h"

enum { PL_YAML_MAX_BYTES = 16 << 20, PL_YAML_MAX_KEYS = 1024, PL_YAML_MAX_DEPTH = 256 };

typedef enum pl_yaml_kind {
    PL_YAML_NULL,
    PL_YAML_BOOL,   /* .i, 0 or 1 */
    PL_YAML_INT,    /* .i, and .f the same */
    PL_YAML_FLOAT,  /* .f; integers outside int64 too */
    PL_YAML_STRING, /* .text */
    PL_YAML_LIST,
    PL_YAML_MAP
} pl_yaml_kind;

typedef struct pl_yaml pl_yaml;
struct pl_yaml {
    pl_yaml_kind kind;
    int32_t line;     /* from 1 */
    int64_t position; /* byte in the text */
    const char *key;  /* of a mapping's member; else NULL */
    const char *text; /* a scalar as it was written, without quotes and escapes */
    int64_t i;
    double f;
    size_t count; /* of members or elements */
    const pl_yaml *first, *next;
};

/* The tree lives in arena, bytes are not needed afterwards. name: for messages. depth_limit: 1 to
 * PL_YAML_MAX_DEPTH. Fails with PL_INPUT, line and byte, or PL_MISSING. */
pl_status pl_yaml_read(const pl_yaml **out, const char *bytes, size_t size, const char *name,
                       int depth_limit, pl_arena *arena, pl_error *err);

/* What a plain scalar means by the core schema: fills kind, i and f from text. */
void pl_yaml_resolve(pl_yaml *node);

/* The member of a mapping; NULL: no such key, or no mapping. */
const pl_yaml *pl_yaml_get(const pl_yaml *map, const char *key);

#endif
