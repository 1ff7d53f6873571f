/* catalogue: cards by name. Rows are the library's (gpus.tsv, at build time) or of a file of one's
 * own in the same form (card_file.c); a row may be given another size of memory (card.c). */
#ifndef PL_DEVICE_CATALOGUE_H
#define PL_DEVICE_CATALOGUE_H

#include "core/error.h"

/* A row: the card, and other spellings of its name. */
typedef struct pl_card_row {
    const char *aliases; /* comma-separated, letters and digits alone; "-": none */
    pl_gpu gpu;
} pl_card_row;

/* The row that name means, whatever its case and marks; NULL: none, or one of several. own: rows
 * that are looked at before the library's; NULL: none. */
const pl_gpu *pl_card_find(const char *name, const pl_catalogue *own);

/* Rows of a catalogue; pl_card_rows: the library's where it is NULL. */
const pl_card_row *pl_catalogue_rows(const pl_catalogue *own, size_t *count);
const pl_card_row *pl_card_rows(const pl_catalogue *own, size_t *count);

/* Why there is no such card: those that it could be, or the nearest. PL_USAGE, of "gpu". */
pl_status pl_card_unknown(const char *name, const pl_catalogue *own, pl_error *err);

/* Of a name as "a100-40gb-1g.5gb": the length of the card's; 0: no instance of MIG. */
size_t pl_card_profile(const char *name);

/* The bytes of a bare context by one of gpus.tsv's two rules; false: no such rule. */
bool pl_card_context(const char *rule, int64_t threads, int64_t *bytes);

/* ---- one card as it was asked for (card.c) ---- */

enum { PL_CARD_NAME = 40, PL_CARD_TITLE = 128, PL_CARD_SOURCE = 1024 };

/* A card with its own text, so that it may outlive the catalogue. Not to be copied: it points into
 * itself. */
typedef struct pl_card {
    pl_gpu gpu; /* first, since pl_gpu_open hands it out */
    char name[PL_CARD_NAME + 64], title[PL_CARD_TITLE + 64], source[PL_CARD_SOURCE + 64];
    char part_of[PL_CARD_NAME];
} pl_card;

/* text: a name, or "a100-80gb,memory=40GiB". */
pl_status pl_card_read(pl_card *out, const char *text, const pl_catalogue *own, pl_error *err);

#endif
