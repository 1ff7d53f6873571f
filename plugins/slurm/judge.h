/* judge: what the daemon says of a request on each kind of card that the cluster has, believed only where its figures
 * hold together. */
#ifndef PLIMSOLL_SLURM_JUDGE_H
#define PLIMSOLL_SLURM_JUDGE_H

#include "http.h"
#include "request.h"
#include "settings.h"

typedef enum verdict { FITS, MAY_NOT_FIT, DOES_NOT_FIT } verdict;
const char *verdict_words(verdict v); /* "does not fit" */

/* One card. Bytes. */
typedef struct judged {
    const card *card;
    verdict verdict;
    int64_t peak, low, upper; /* low <= peak <= upper */
    int64_t usable, capacity; /* usable <= capacity */
    int64_t
        shards; /* of this card that the job takes; the card's own where it takes it whole; 0: it has none */
    char family[32]; /* of the model, for reports; "": not said */
    bool corrected;  /* by what the fleet's jobs took */
} judged;

typedef enum judge_outcome {
    JUDGED,
    JUDGE_AWAY,    /* the daemon is not there, too slow, or talks nonsense */
    JUDGE_UNKNOWN, /* it does not have the model (any more) */
    JUDGE_DENIED,  /* it says that the request is wrong: *wrong has its words */
} judge_outcome;

/* What questions need: room for one answer at a time, and the end of the time for all of them. */
typedef struct asking {
    const settings *settings;
    int64_t until; /* as http_now has it */
    char *room;
    size_t size;
} asking;

/* type: the cards of that type alone; "": all. out: [SETTINGS_CARDS]. */
judge_outcome judge_cards(const asking *a, const request *r, const char *type, judged *out,
                          int *count, text *wrong);
/* The card that is spoken of: of those of the best verdict the one that takes most, or where it does not fit has most. */
const judged *judge_best(const judged *cards, int count);
/* Reads one estimate; false: it cannot be one. Public to be tested. */
bool judge_estimate(const char *body, size_t length, const card *c, int64_t shard_bytes,
                    judged *out);
/* ", batch=2,accumulate=32 (104 GiB)": up to three changes with which the request would fit that card; nothing where the daemon
 * does not know them in time. */
void judge_remedies(const asking *a, const request *r, const card *c, text *out);
/* Those that an answer of /v1/explain has. */
void judge_pick(const http_answer *explained, text *out);
/* The words of a problem (RFC 9457), or what is left of an answer that is none. */
void judge_problem(const http_answer *answer, text *wrong);

#endif
