/* trained: a part of a model file. What was learnt, the features it wants, and how it came about.
 *
 * Format, version 1 (docs/formats.md): 8 bytes of magic, u32 version, u32 CRC-32 of all that
 * follows, u64 bytes that follow, the learner's name, then the fields below in order, then the
 * learner's own bytes. A file is one part behind another. */
#ifndef PL_LEARN_TRAINED_H
#define PL_LEARN_TRAINED_H

#include "learn/learner.h"

/* The most a model file may hold. */
enum {
    PL_TRAINED_NAME_MOST = 255,      /* bytes of estimator, target and the features' names */
    PL_TRAINED_TEXT_MOST = 1 << 16,  /* bytes of options, command and data */
    PL_TRAINED_COLUMNS_MOST = 65536, /* columns; channels */
    PL_TRAINED_CLASSES_MOST = 65536,
};

/* (value - shift) * scale is what the learner sees. */
typedef struct pl_scaled {
    char *name;
    float shift, scale;
} pl_scaled;

typedef struct pl_trained {
    char *estimator; /* "random-forest" */
    char *target;    /* what is predicted and how it was transformed: "log2-bytes", "bins" */
    char *options;   /* the learner's, recipe and user's */
    char *command;   /* that made it */
    char *data;      /* files it saw, with their rows */
    uint64_t seed;
    uint64_t rows; /* samples it learnt from */
    pl_scaled *columns, *channels;
    size_t column_count, channel_count;
    /* truth = prediction / scale + shift, before "target" is undone */
    float target_shift, target_scale;
    /* A class's lower edge [class_count], ascending; NULL: a regression. Training leaves the
     * classes' numbers, 0, 1, 2 ... */
    float *class_values;
    size_t class_count;
    /* (truth - prediction), of held-out samples and in the target's own unit: the quantiles that
     * leave 2.5 % below and above. Training leaves 0. */
    float below, above;
    double extra[8]; /* the estimator's own numbers; meaning by estimator; training leaves 0 */
    const pl_learner *learner;
    /* By pl_trained_learned only: NULL until it is first needed, where the bytes are kept. */
    pl_learned *_Atomic learned;
    const unsigned char *kept; /* the learner's own bytes, not yet read; NULL: read at once */
    size_t kept_size;
} pl_trained;

/* out: [count] of a regression in the target's unit (shift and scale undone), [count, class_count]
 * probabilities of a classifier; always finite. PL_INPUT where the samples' names are not the ones
 * it was trained on: says which. Safe from several threads at once. */
pl_status pl_trained_predict(const pl_trained *trained, const pl_samples *samples, float *out,
                             pl_error *err);
/* To a temporary name beside it first; the file appears whole or not at all. What could not be read
 * back (weights that are not finite) is not written: PL_INPUT. */
pl_status pl_trained_save(pl_trained *const *parts, size_t count, const char *path, pl_error *err);
/* Behind what the writer has. */
pl_status pl_trained_write(const pl_trained *trained, pl_writer *writer, pl_error *err);
/* name: for messages. The bytes are not kept. *taken: how many of them the part has; taken NULL: it
 * has to have them all. */
pl_status pl_trained_read(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                          const char *name, pl_error *err);
/* The same of bytes that outlive it and are trusted (the library's own): their checksum is not
 * looked at, and the learner's own bytes are read when they are first needed. */
pl_status pl_trained_read_kept(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                               const char *name, pl_error *err);
/* What was learnt; safe from several threads at once. NULL: it cannot be read. */
const pl_learned *pl_trained_learned(const pl_trained *trained, pl_error *err);
pl_status pl_trained_open(pl_trained **out, const char *path, pl_error *err);
void pl_trained_close(pl_trained **trained); /* takes NULL */

#endif
