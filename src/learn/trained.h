/* trained: a part of a model file. What was learnt, the features it wants, and how it came about.
 *
 * Format, version 2 (docs/formats.md): a head of fixed size, which says where the features, the
 * classes, the texts and the learner's own bytes stand. A file is one part behind another, each a
 * multiple of 16 bytes. What was read points into the bytes it was read from. */
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
    const char *name;
    float shift, scale;
} pl_scaled;

typedef struct pl_trained {
    const char *estimator; /* "random-forest" */
    const char *target;    /* what is predicted and how it was transformed: "log2-bytes", "bins" */
    const char *options;   /* the learner's, recipe and user's */
    const char *command;   /* that made it */
    const char *data;      /* files it saw, with their rows */
    uint64_t seed;
    uint64_t rows; /* samples it learnt from */
    pl_scaled *columns, *channels;
    size_t column_count, channel_count;
    /* truth = prediction / scale + shift, before "target" is undone */
    float target_shift, target_scale;
    /* A class's lower edge [class_count], ascending; NULL: a regression. Training leaves the
     * classes' numbers, 0, 1, 2 ... */
    const float *class_values;
    size_t class_count;
    /* (truth - prediction), of held-out samples and in the target's own unit: the quantiles that
     * leave 2.5 % below and above. Training leaves 0. */
    float below, above;
    double extra[8]; /* the estimator's own numbers; meaning by estimator; training leaves 0 */
    const pl_learner *learner;
    pl_learned *learned;
    float *classes_copied; /* class_values, where they could not be used as they lie; else NULL */
    bool borrowed; /* texts and class_values are those of bytes that outlive it; else malloc'ed */
    void *bytes;   /* those bytes, where they are its own (pl_trained_open); else NULL */
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
/* name: for messages. The bytes stay the caller's and have to outlive the part, which points into
 * them. *taken: how many of them the part has; taken NULL: it has to have them all. PL_INPUT: they
 * are damaged or of another version, the place says where; PL_MISSING: out of memory. */
pl_status pl_trained_read(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                          const char *name, pl_error *err);
/* The same of the library's own bytes, which a test checks: neither their checksum nor what stands
 * in them is looked at, but for the header and the learner's name. */
pl_status pl_trained_read_trusted(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                                  const char *name, pl_error *err);
pl_status pl_trained_open(pl_trained **out, const char *path, pl_error *err);
void pl_trained_close(pl_trained **trained); /* takes NULL */

#endif
