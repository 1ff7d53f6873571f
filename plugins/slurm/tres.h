/* tres: what a job asks of GPUs, read off Slurm's texts and written again. Slurm 22.05 writes gres:gpu:h200:2, later versions
 * gres/gpu:h200:2, and for tasks also gres/gpu=2; options have gpu:h200:2 (srun's --gres). */
#ifndef PLIMSOLL_SLURM_TRES_H
#define PLIMSOLL_SLURM_TRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

typedef struct tres {
    int64_t gpus;   /* 0: none asked for */
    int64_t shards; /* likewise */
    char type[64];  /* of the GPUs or the shards; "": any */
    int gpu_items;  /* how many items ask for them: more than one is not rewritten */
    bool others;    /* MPS, or what is none of these, which may be more GPUs in other words */
} tres;

/* NULL or "" is nothing. False: it is not written as Slurm writes it, and is better left alone. */
bool tres_read(tres *out, const char *list);
/* The list with its item of GPUs replaced by shards: every other item stays as it is, and where it was. list: NULL
 * for none, then the shards alone. form: what stands before a name (tres_form). */
void tres_write(const char *list, const char *form, int64_t shards, text *out);
/* What this version of Slurm puts before the names of a list: "gres:", "gres/" or "". */
const char *tres_form(const char *list);

#endif
