/* service: see plimsoll/service.h. A path is a row of a table; what is computed from the request alone is
 * kept as it was answered, by path and body. */
#include "request/service.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/sized.h"
#include "estimate/estimator.h"
#include "estimate/weights.h"

static const char json_type[] = "application/json", problem_type[] = "application/problem+json";

/* ---- paths ---- */

typedef struct route {
    const char *method, *path; /* a last {part} stands for what is there */
    bool (*reply)(pl_turn *turn);
    bool reads; /* the body is a request's object; else a model's bytes, or nothing */
    bool stays; /* the same request has the same answer */
} route;

static const route routes[] = {
    {"GET", "/v1/cards", pl_reply_cards, false, true},
    {"POST", "/v1/models", pl_reply_model, false, false},
    {"GET", "/v1/models/{digest}", pl_reply_described, false, false},
    {"POST", "/v1/estimate", pl_reply_estimate, true, true},
    {"POST", "/v1/fit", pl_reply_fit, true, true},
    {"POST", "/v1/explain", pl_reply_explain, true, true},
    {"POST", "/v1/collocate", pl_reply_collocate, true, true},
    {"POST", "/v1/place", pl_reply_place, true, true},
};
enum { ROUTES = sizeof routes / sizeof *routes };

static bool is_path(const route *r, const char *path) {
    size_t fixed = strcspn(r->path, "{");
    if (!r->path[fixed]) return strcmp(r->path, path) == 0;
    return strncmp(r->path, path, fixed) == 0 && path[fixed] && !strchr(path + fixed, '/');
}

const char *pl_service_route(size_t index, const char **methods) {
    if (index >= ROUTES) return NULL;
    *methods = routes[index].method;
    return routes[index].path;
}

/* ---- responses ---- */

/* A response's bytes: an item of the answers that are kept, or alone. */
typedef struct pl_answer {
    pl_item item; /* its first member */
    pl_kept *kept;
    const char *type, *route;
    int status;
    int slot;            /* of what was learnt, that it went by; PL_NO_SLOT: nothing */
    unsigned generation; /* of that slot */
    size_t length;
    char *body; /* [length + 1], behind key */
    char key[]; /* path, a blank, the request's body */
} pl_answer;

static void free_answer(pl_item *item) {
    free(item);
}

static void fill(pl_response *out, pl_answer *answer, bool known) {
    pl_response own = {.size = sizeof own,
                       .status = answer->status,
                       .type = answer->type,
                       .body = answer->body,
                       .length = answer->length,
                       .route = answer->route,
                       .known = known,
                       .owner = answer};
    pl_sized_fill(out, out->size, &own, sizeof own);
}

static size_t key_size(const pl_request *r) {
    return strlen(r->path) + 1 + r->body_size;
}

static void write_key(char *out, const pl_request *r) {
    size_t path = strlen(r->path);
    memcpy(out, r->path, path);
    out[path] = ' ';
    if (r->body_size) memcpy(out + path + 1, r->body, r->body_size);
}

/* request: whose answer it stays; NULL: nobody's after this. */
static pl_answer *new_answer(const pl_request *request, const char *body, size_t length) {
    size_t key = request ? key_size(request) : 0;
    pl_answer *answer = calloc(1, sizeof *answer + key + length + 1);
    if (!answer) return NULL;
    if (request) write_key(answer->key, request);
    answer->slot = PL_NO_SLOT;
    answer->body = answer->key + key;
    memcpy(answer->body, body, length);
    answer->length = length;
    answer->item = (pl_item){.key = answer->key,
                             .key_size = key,
                             .bytes = sizeof *answer + key + length + 1,
                             .users = 1,
                             .free = free_answer};
    return answer;
}

void pl_response_close(pl_response *response) {
    if (!response || !response->owner) return;
    pl_answer *answer = response->owner;
    if (answer->kept)
        pl_kept_give(answer->kept, &answer->item);
    else
        free(answer);
    response->owner = NULL;
    response->body = NULL;
}

static const char *title_of(int status) {
    static const struct {
        int status;
        const char *title;
    } titles[] = {
        {400, "Bad Request"},       {401, "Unauthorized"},          {403, "Forbidden"},
        {404, "Not Found"},         {405, "Method Not Allowed"},    {408, "Request Timeout"},
        {413, "Content Too Large"}, {422, "Unprocessable Content"}, {429, "Too Many Requests"},
        {501, "Not Implemented"},   {503, "Service Unavailable"},   {507, "Insufficient Storage"}};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status) return titles[i].title;
    return "Internal Server Error";
}

/* Where even this finds no memory, the words alone. */
static void problem(pl_response *out, int status, const char *code, const pl_error *err,
                    const char *route) {
    static pl_answer last = {.type = "application/problem+json",
                             .status = 503,
                             .route = "",
                             .body = "{\"status\":503,\"code\":\"missing\"}",
                             .length = 30};
    pl_arena *arena = pl_arena_new(NULL);
    pl_text text = {.arena = arena};
    pl_json_writer w = {.text = &text};
    if (arena) {
        pl_json_put_open(&w, NULL, '{');
        pl_json_put_string(&w, "type", "about:blank");
        pl_json_put_string(&w, "title", title_of(status));
        pl_json_put_int(&w, "status", status);
        pl_json_put_string(&w, "detail", err->message);
        pl_json_put_string(&w, "code", code);
        pl_json_put_string(&w, "where", err->where[0] ? err->where : NULL);
        pl_json_put_count(&w, "position", err->position);
        pl_json_put_close(&w, '}');
    }
    pl_answer *answer = !arena || text.failed ? NULL : new_answer(NULL, text.text, text.length);
    if (answer) {
        answer->type = problem_type;
        answer->status = status;
        answer->route = route;
        fill(out, answer, false);
    } else {
        fill(out, &last, false);
        out->owner = NULL;
    }
    pl_arena_free(&arena);
}

void pl_response_problem(pl_response *out, int status, const char *code, const char *detail) {
    pl_error err = PL_SIZED(pl_error);
    pl_fail(&err, PL_USAGE, NULL, -1, "%s", detail);
    problem(out, status, code, &err, "");
}

void pl_response_failed(pl_response *out, int status, const pl_error *err) {
    problem(out, status, pl_status_name(err->code), err, "");
}

/* ---- what was learnt ---- */

static int slot_of(const char *gpu) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *gpu; gpu++) hash = (hash ^ (unsigned char)*gpu) * 16777619u;
    return (int)(hash % PL_SLOTS);
}

static unsigned generation_of(pl_service *service, int slot) {
    static const int64_t most_often =
        1000000000; /* ns: answers that are asked every time last that long */
    pl_lesson *l = &service->learned[slot];
    long long before = atomic_load(&l->at_ns), now;
    if (atomic_load(&l->more) && (now = pl_now_ns()) - before > most_often &&
        atomic_compare_exchange_strong(&l->at_ns, &before, now)) {
        atomic_store(&l->more, false);
        atomic_fetch_add(&l->generation, 1);
    }
    return atomic_load(&l->generation);
}

void pl_turn_goes_by(pl_turn *t, const char *gpu) {
    int slot = slot_of(gpu);
    if (t->slot == slot || t->slot == PL_ALL_SLOTS) return;
    bool first = t->slot == PL_NO_SLOT;
    t->slot = first ? slot : PL_ALL_SLOTS;
    t->generation = first ? generation_of(t->service, slot) : t->generation_of_all;
}

void pl_service_learned(pl_service *service, const char *gpu) {
    atomic_store(&service->learned[slot_of(gpu)].more, true);
    atomic_store(&service->learned[PL_ALL_SLOTS].more, true);
}

/* ---- the service ---- */

void pl_service_settings_default_sized(pl_service_settings *settings, size_t size) {
    pl_service_settings own = {
        .size = sizeof own, .model_bytes = (size_t)1 << 30, .answer_bytes = (size_t)64 << 20};
    pl_limits_default(&own.limits);
    own.limits.memory_bytes = (size_t)1 << 30;
    own.limits.timeout_ms = 10000;
    pl_sized_fill(settings, size, &own, sizeof own);
}

pl_status pl_service_open(pl_service **out, const pl_service_settings *settings, pl_error *err) {
    *out = NULL;
    pl_service *service = calloc(1, sizeof *service);
    if (!service) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_service_settings_default(&service->settings);
    if (settings) {
        if (!PL_SIZED_OK(settings, seen)) {
            free(service);
            return pl_fail(err, PL_USAGE, "settings", -1, "a struct whose size is not set");
        }
        pl_sized_read(&service->settings, sizeof service->settings, settings, settings->size);
    }
    const pl_weights *weights; /* of the usual estimator: read now, not by those who ask at once */
    const pl_estimator *usual = pl_estimator_named("hybrid");
    pl_status status = usual ? pl_weights_for(&weights, usual, NULL, err) : PL_OK;
    if (status != PL_OK) {
        free(service);
        return status;
    }
    service->models = pl_kept_open(service->settings.model_bytes);
    service->answers = pl_kept_open(service->settings.answer_bytes);
    if (!service->models || !service->answers) {
        pl_service_close(&service);
        return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    }
    *out = service;
    return PL_OK;
}

void pl_service_close(pl_service **service) {
    if (!service || !*service) return;
    pl_kept_close(&(*service)->models);
    pl_kept_close(&(*service)->answers);
    free(*service);
    *service = NULL;
}

void pl_service_count(pl_service *service, pl_service_counts *out) {
    pl_kept_counts models = pl_kept_count(service->models),
                   answers = pl_kept_count(service->answers);
    pl_service_counts own = {.size = sizeof own,
                             .models = models.items,
                             .model_bytes = models.bytes,
                             .answers = answers.items,
                             .answer_bytes = answers.bytes,
                             .answers_found = answers.found,
                             .answers_missed = answers.missed,
                             .answers_dropped = answers.dropped};
    pl_sized_fill(out, out->size, &own, sizeof own);
}

/* ---- answering ---- */

static const route *find_route(const pl_request *r, bool *other_method) {
    *other_method = false;
    for (size_t i = 0; i < ROUTES; i++) {
        if (!is_path(&routes[i], r->path)) continue;
        if (strcmp(routes[i].method, r->method) == 0) return &routes[i];
        *other_method = true;
    }
    return NULL;
}

/* HTTP's word for a failure: the client's mistake, what cannot be understood, what is too much. */
static int status_of(const pl_turn *t) {
    if (t->status != 200 && t->status != 201) return t->status;
    switch (t->err.code) {
    case PL_USAGE: return 400;
    case PL_INPUT: return strcmp(t->err.where, "body") == 0 ? 400 : 422;
    case PL_LIMIT: return 422;
    default: return 503;
    }
}

bool pl_service_takes(const char *method, const char *path) {
    pl_request request = {.size = sizeof request, .method = method, .path = path};
    bool other;
    return find_route(&request, &other) != NULL;
}

static bool run(pl_turn *t, const route *r) {
    t->asked.arena = t->arena;
    t->out.text = &t->text;
    t->text.arena = t->arena;
    const pl_request *q = t->request;
    if (pl_asked_read(&t->asked, r->reads ? q->body : "{}", r->reads ? q->body_size : 2, &t->err) !=
        PL_OK)
        return false;
    if (!r->reply(t)) return false;
    if (t->text.failed) pl_fail(&t->err, PL_MISSING, NULL, -1, "out of memory");
    return !t->text.failed;
}

static void succeed(pl_turn *t, const route *r, pl_response *out) {
    pl_answer *answer = new_answer(r->stays ? t->request : NULL, t->text.text, t->text.length);
    if (!answer) {
        pl_fail(&t->err, PL_MISSING, NULL, -1, "out of memory");
        problem(out, 503, "missing", &t->err, r->path);
        return;
    }
    answer->type = json_type;
    answer->status = t->status;
    answer->route = r->path;
    answer->slot = t->slot;
    answer->generation = t->generation;
    if (r->stays) {
        answer->kept = t->service->answers;
        answer = (pl_answer *)pl_kept_add(t->service->answers, &answer->item);
    }
    fill(out, answer, false);
}

/* most: bytes of a request that are looked up. */
static bool find_known(pl_service *service, const pl_request *request, size_t most,
                       pl_response *out) {
    bool other;
    char room[4096], *key = room;
    const route *r = find_route(request, &other);
    size_t size = key_size(request);
    if (!r || !r->stays || size > most) return false;
    if (size > sizeof room) key = malloc(size);
    if (!key) return false;
    write_key(key, request);
    pl_item *item = pl_kept_find(service->answers, key, size);
    if (key != room) free(key);
    if (!item) return false;
    pl_answer *answer = (pl_answer *)item;
    if (answer->slot != PL_NO_SLOT && answer->generation != generation_of(service, answer->slot)) {
        pl_kept_remove(service->answers, item);
        pl_kept_give(service->answers, item);
        return false;
    }
    fill(out, answer, true);
    return true;
}

bool pl_service_known(pl_service *service, const pl_request *request, pl_response *out) {
    static const size_t most = (size_t)256 << 10; /* some 100 us */
    return find_known(service, request, most, out);
}

void pl_service_answer(pl_service *service, const pl_request *request, pl_response *out) {
    bool other;
    const route *r = find_route(request, &other);
    if (!r) {
        pl_error err = PL_SIZED(pl_error);
        pl_fail(&err, PL_USAGE, NULL, -1,
                other ? "%.20s is not for %.100s" : "%.20s %.100s: no such path", request->method,
                request->path);
        problem(out, other ? 405 : 404, "usage", &err, "");
        return;
    }
    if (find_known(service, request, service->settings.answer_bytes, out)) return;
    pl_turn turn = {.service = service,
                    .request = request,
                    .limits = service->settings.limits,
                    .err = PL_SIZED(pl_error),
                    .status = 200,
                    .slot = PL_NO_SLOT,
                    .generation_of_all = generation_of(service, PL_ALL_SLOTS)};
    pl_limits *limits = &turn.limits;
    if (limits->timeout_ms > 0) limits->deadline_ns = pl_now_ns() + limits->timeout_ms * 1000000;
    limits->timeout_ms = 0;
    limits->cancelled = request->cancelled;
    limits->cancel_context = request->cancel_context;
    pl_budget budget;
    pl_budget_start(&budget, limits);
    turn.arena = pl_arena_new(&budget);
    if (!turn.arena) {
        pl_fail(&turn.err, PL_MISSING, NULL, -1, "out of memory");
        problem(out, 503, "missing", &turn.err, r->path);
    } else if (run(&turn, r)) {
        succeed(&turn, r, out);
    } else {
        if (budget.spent != PL_SPENT_NOTHING) pl_budget_fail(&turn.err, &budget, NULL);
        problem(out, status_of(&turn), pl_status_name(turn.err.code), &turn.err, r->path);
    }
    pl_arena_free(&turn.arena);
}
