/* service: what the parts of src/request share. The public half is plimsoll/service.h. */
#ifndef PL_REQUEST_SERVICE_H
#define PL_REQUEST_SERVICE_H

#include <plimsoll/service.h>
#include <stdatomic.h>

#include "core/json_writer.h"
#include "request/asked.h"
#include "request/kept.h"

/* What was learnt of cards: a slot for those whose names fall into it, one for all. */
enum { PL_SLOTS = 64, PL_ALL_SLOTS = PL_SLOTS, PL_NO_SLOT = -1 };
typedef struct pl_lesson {
    atomic_uint generation; /* answers of an older one are not given any more */
    atomic_bool more;       /* was learnt since */
    atomic_llong at_ns;     /* when it began */
} pl_lesson;

struct pl_service {
    pl_service_settings settings;
    pl_kept *models, *answers;
    pl_lesson learned[PL_SLOTS + 1];
};

/* A model in use. */
typedef struct pl_known_model {
    pl_item item; /* its first member */
    pl_model *model;
    char digest[PL_DIGEST_ROOM];
    char key[]; /* digest, task and attention */
} pl_known_model;

/* One request being answered. */
typedef struct pl_turn {
    pl_service *service;
    const pl_request *request;
    pl_limits limits; /* with the request's deadline and its cancelling */
    pl_arena *arena;  /* of what is read and written */
    pl_asked asked;
    pl_json_writer out; /* into text */
    pl_text text;
    pl_error err;
    int status; /* of the response, where it is no failure's */
    int slot;   /* of what was learnt, that the answer goes by */
    unsigned generation, generation_of_all;
} pl_turn;

/* service.c: what was learnt of that card is about to be looked up. */
void pl_turn_goes_by(pl_turn *turn, const char *gpu);

/* models.c. The model that the request means, to be given back with pl_turn_give; NULL: turn->err. */
pl_known_model *pl_turn_model(pl_turn *turn, const pl_asked *asked);
void pl_turn_give(pl_turn *turn, pl_known_model *model);
/* The body of the request as a model, opened and kept. */
pl_known_model *pl_turn_post(pl_turn *turn);

/* replies.c: the response's object is written into turn->out. False: turn->err. */
bool pl_reply_cards(pl_turn *turn);
bool pl_reply_model(pl_turn *turn);     /* POST */
bool pl_reply_described(pl_turn *turn); /* GET */
bool pl_reply_estimate(pl_turn *turn);
bool pl_reply_fit(pl_turn *turn);
bool pl_reply_explain(pl_turn *turn);
bool pl_reply_collocate(pl_turn *turn);
/* An estimate's JSON in the request, or a job that is estimated now: index of turn->asked.jobs; gpu: the card where
 * the job names none, or NULL; *fixed: it was an estimate. */
bool pl_turn_demand(pl_turn *turn, int index, const char *gpu, pl_demand *out, bool *fixed);

/* What the fleet says of a card, a family and a model. */
void pl_turn_correction(pl_turn *turn, const char *gpu, const char *family, const char *digest,
                        pl_correction *out);

/* reply_place.c */
bool pl_reply_place(pl_turn *turn);

#endif
