/* models: the models of requests: by their digest, of those that were posted, or within the request
 * itself. What was opened once is kept for each task and kind of attention it was asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sha256.h"
#include "estimate/model.h"
#include "request/service.h"

void pl_digest_of(char *out, size_t room, const void *bytes, size_t size) {
    uint8_t sum[32];
    pl_sha256(sum, bytes, size);
    size_t used = (size_t)snprintf(out, room, "sha256:");
    for (int i = 0; i < 32 && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%02x", sum[i]);
}

static bool is_digest(const char *text) {
    return strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 &&
           strspn(text + 7, "0123456789abcdef") == 64;
}

static void free_model(pl_item *item) {
    pl_known_model *known = (pl_known_model *)item;
    pl_model_close(&known->model);
    free(known);
}

/* digest, task and attention, which the model was opened with. */
static size_t key_of(char *out, size_t room, const char *digest, const pl_asked *asked) {
    int used = snprintf(out, room, "%s %.40s %.40s", digest, asked->task ? asked->task : "",
                        asked->attention ? asked->attention : "");
    return used < 0 ? 0 : (size_t)used;
}

enum { MOST_KEY = 160 };

/* Opened, and kept under its key. */
static pl_known_model *open_model(pl_turn *t, const pl_asked *asked, const char *digest,
                                  const char *name, const void *bytes, size_t size) {
    char key[MOST_KEY];
    size_t length = key_of(key, sizeof key, digest, asked);
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    settings.limits = &t->limits;
    settings.task = asked->task;
    settings.attention = asked->attention;
    pl_known_model *known = calloc(1, sizeof *known + length + 1);
    if (!known) {
        pl_fail(&t->err, PL_MISSING, NULL, -1, "out of memory");
        return NULL;
    }
    if (pl_model_open_memory(&known->model, bytes, size, name, &settings, &t->err) != PL_OK) {
        free(known);
        return NULL;
    }
    memcpy(known->key, key, length + 1);
    memcpy(known->digest, digest, PL_DIGEST_ROOM);
    known->item.key = known->key;
    known->item.key_size = length;
    known->item.bytes = known->model->budget.bytes + sizeof *known;
    known->item.free = free_model;
    return (pl_known_model *)pl_kept_add(t->service->models, &known->item);
}

static pl_known_model *look(pl_turn *t, const pl_asked *asked, const char *digest) {
    char key[MOST_KEY];
    size_t length = key_of(key, sizeof key, digest, asked);
    return (pl_known_model *)pl_kept_find(t->service->models, key, length);
}

/* From where models stay beyond memory. */
static pl_known_model *fetch(pl_turn *t, const pl_asked *asked, const char *digest) {
    const pl_service_settings *s = &t->service->settings;
    char name[128] = "model";
    void *bytes = NULL;
    size_t size = 0;
    if (!s->find || !s->find(s->context, digest, name, &bytes, &size)) {
        pl_fail(&t->err, PL_INPUT, "model", -1, "no model of that digest: POST it to /v1/models");
        t->status = 404;
        return NULL;
    }
    pl_known_model *known = open_model(t, asked, digest, name, bytes, size);
    free(bytes);
    return known;
}

pl_known_model *pl_turn_model(pl_turn *t, const pl_asked *asked) {
    char digest[PL_DIGEST_ROOM] = "";
    if (asked->digest && !is_digest(asked->digest)) {
        pl_fail(&t->err, PL_USAGE, "model", -1,
                "a digest is \"sha256:\" and 64 hexadecimal digits; a model itself is an object");
        return NULL;
    }
    if (asked->digest) {
        memcpy(digest, asked->digest, 72);
        pl_known_model *known = look(t, asked, digest);
        return known ? known : fetch(t, asked, digest);
    }
    if (!asked->inline_text) {
        pl_fail(&t->err, PL_USAGE, "model", -1, "the request names no model");
        return NULL;
    }
    pl_digest_of(digest, sizeof digest, asked->inline_text, asked->inline_size);
    pl_known_model *known = look(t, asked, digest);
    return known ? known
                 : open_model(t, asked, digest, "model", asked->inline_text, asked->inline_size);
}

pl_known_model *pl_turn_post(pl_turn *t) {
    const pl_service_settings *s = &t->service->settings;
    const pl_request *r = t->request;
    const char *name = r->name && *r->name ? r->name : "model";
    char digest[PL_DIGEST_ROOM];
    pl_digest_of(digest, sizeof digest, r->body, r->body_size);
    pl_known_model *known = look(t, &t->asked, digest);
    if (!known) known = open_model(t, &t->asked, digest, name, r->body, r->body_size);
    if (known && s->keep && !s->keep(s->context, digest, name, r->body, r->body_size)) {
        pl_turn_give(t, known);
        pl_fail(&t->err, PL_MISSING, "model", -1, "it could not be stored");
        t->status = 507;
        return NULL;
    }
    return known;
}

void pl_turn_give(pl_turn *t, pl_known_model *known) {
    if (known) pl_kept_give(t->service->models, &known->item);
}
