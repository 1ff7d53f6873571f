/* service: requests in, responses out, without a server: paths, problems, digests; models and answers that
 * are kept and dropped; threads that share all of it, with caches so small that they are always dropping. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "core/sha256.h"
#include <plimsoll/service.h>

#define GPT2 "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":64,\"n_head\":4,\"vocab_size\":100}"

static pl_service *open_service(size_t model_bytes, size_t answer_bytes) {
    pl_service *service = NULL;
    pl_service_settings settings;
    pl_service_settings_default(&settings);
    settings.model_bytes = model_bytes;
    settings.answer_bytes = answer_bytes;
    CHECK_INT(pl_service_open(&service, &settings, NULL), PL_OK);
    return service;
}

static pl_request request_of(const char *method, const char *path, const char *body) {
    return (pl_request){.size = sizeof(pl_request),
                        .method = method,
                        .path = path,
                        .body = body,
                        .body_size = strlen(body)};
}

/* The status; *body (may be NULL) is a copy. */
static int ask(pl_service *service, const char *method, const char *path, const char *body,
               char **copy, bool *known) {
    pl_request request = request_of(method, path, body);
    pl_response response = PL_SIZED(pl_response);
    pl_service_answer(service, &request, &response);
    int status = response.status;
    CHECK(response.body && strlen(response.body) == response.length && response.route);
    if (copy) *copy = strdup(response.body);
    if (known) *known = response.known;
    pl_response_close(&response);
    pl_response_close(&response); /* twice does no harm */
    return status;
}

static void digests(void) {
    /* FIPS 180-4's examples, and lengths around a block's end (hashlib's) */
    static const struct {
        const char *text;
        size_t times;
        const char *digest;
    } rows[] = {
        {"", 0, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 55, "sha256:9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {"a", 56, "sha256:b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {"a", 64, "sha256:ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {"a", 1000000, "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].text), size = length * rows[i].times;
        char *bytes = malloc(size + 1), digest[PL_DIGEST_ROOM];
        for (size_t j = 0; j < rows[i].times; j++) memcpy(bytes + j * length, rows[i].text, length);
        pl_digest_of(digest, sizeof digest, bytes, size);
        CHECK_STR(digest, rows[i].digest);
        free(bytes);
    }
}

static void requests(void) {
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *word;
    } rows[] = {
        {"GET", "/v1/cards", "", 200, "\"name\":\"h200\""},
        {"POST", "/v1/cards", "", 405, "is not for"},
        {"GET", "/v1/models/", "", 404, "no such path"},
        {"GET", "/v1/models/a/b", "", 404, "no such path"},
        {"GET", "/v1/models/abc", "", 400, "hexadecimal"},
        {"POST", "/v1/models", GPT2, 201, "\"parameters\":"},
        {"POST", "/v1/models", "nothing", 422, "\"code\":\"input\""},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 "}", 200, "\"verdict\":\"fits\""},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 ",\"batch\":null,\"risk\":0.1}", 200,
         "\"risk\":0.1"},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 "} ", 200, "\"schema\":1"},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 "}x", 400, "\"where\":\"body\""},
        {"POST", "/v1/estimate", "{\"model\":7}", 400, "\"position\":9"},
        {"POST", "/v1/estimate", "{}", 400, "names no model"},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 ",\"presicion\":1}", 400,
         "did you mean precision?"},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 ",\"precision\":\"f7\"}", 400,
         "\"where\":\"precision\""},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 ",\"optimizer\":\"adman\"}", 400, "optimizer"},
        {"POST", "/v1/estimate", "{\"model\":" GPT2 ",\"parallel\":\"ddp\"}", 400, "parallel"},
        {"POST", "/v1/fit", "{\"model\":" GPT2 ",\"what\":\"gpu\"}", 200, "\"smallest_gpu\":\""},
        {"POST", "/v1/fit", "{\"model\":" GPT2 ",\"what\":\"seq\",\"most\":64}", 200,
         "\"largest\":{\"seq\":"},
        {"POST", "/v1/explain", "{\"model\":" GPT2 "}", 200, "\"tensors\":[{"},
        {"POST", "/v1/collocate", "{\"jobs\":[{\"model\":" GPT2 "},{\"model\":" GPT2 "}]}", 200,
         "\"advice\":"},
        {"POST", "/v1/collocate", "{\"jobs\":[]}", 400, "two jobs"},
        {"POST", "/v1/collocate", "{\"jobs\":[{\"schema\":1},{\"schema\":1}]}", 422, "is missing"},
    };
    pl_service *service = open_service((size_t)1 << 30, (size_t)1 << 26);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *body = NULL;
        CHECK_INT(ask(service, rows[i].method, rows[i].path, rows[i].body, &body, NULL),
                  rows[i].status);
        CHECK(strstr(body, rows[i].word));
        if (check_failures_in_case) printf("    %s %s: %s\n", rows[i].path, rows[i].body, body);
        free(body);
    }
    pl_service_close(&service);
    pl_service_close(&service);
}

static void known_answers(void) {
    pl_service *service = open_service((size_t)1 << 30, (size_t)1 << 26);
    static const char question[] = "{\"model\":" GPT2 ",\"batch\":3}";
    pl_request request = request_of("POST", "/v1/estimate", question);
    pl_response response = PL_SIZED(pl_response);
    CHECK(!pl_service_known(service, &request, &response));
    char *first = NULL, *second = NULL;
    bool known = true;
    CHECK_INT(ask(service, "POST", "/v1/estimate", question, &first, &known), 200);
    CHECK(!known);
    CHECK_INT(ask(service, "POST", "/v1/estimate", question, &second, &known), 200);
    CHECK(known && strcmp(first, second) == 0);
    CHECK(pl_service_known(service, &request, &response));
    /* what was answered outlasts the cache that it came from being emptied: it is held */
    CHECK_STR(response.body, first);
    pl_response_close(&response);
    request.path = "/v1/fit";
    CHECK(!pl_service_known(service, &request, &response)); /* the same body elsewhere */
    free(first);
    free(second);
    pl_service_close(&service);
}

/* Of each card as many jobs as the number says, all 1 GiB larger than predicted. */
static atomic_int ended;

static size_t seen(void *context, const char *gpu, const char *family, const char *digest,
                   pl_seen *jobs, size_t room) {
    (void)context, (void)family, (void)digest;
    size_t count = strcmp(gpu, "t4") == 0 ? (size_t)atomic_load(&ended) : 0;
    for (size_t i = 0; i < count && i < room; i++)
        jobs[i] = (pl_seen){.predicted_bytes = INT64_C(1) << 32, .peak_bytes = INT64_C(5) << 30};
    return count < room ? count : room;
}

/* What a job's end says of a card makes its answers forgotten, a second later, and no other card's. */
static void learned_answers(void) {
    pl_service *service = NULL;
    pl_service_settings settings;
    pl_service_settings_default(&settings);
    settings.seen = seen;
    CHECK_INT(pl_service_open(&service, &settings, NULL), PL_OK);
    static const char *const rows[][2] = {
        {"/v1/estimate", "{\"model\":" GPT2 ",\"gpu\":\"t4\"}"},
        {"/v1/estimate", "{\"model\":" GPT2 ",\"gpu\":\"h200\"}"},
        {"/v1/fit", "{\"model\":" GPT2 ",\"gpu\":\"t4\"}"},
        {"/v1/place",
         "{\"cluster\":{\"cards\":[{\"gpu\":\"t4\"},{\"gpu\":\"h200\"}]},\"jobs\":[{\"model\":" GPT2
         "}]}"}};
    char *before[4];
    for (int i = 0; i < 4; i++)
        CHECK_INT(ask(service, "POST", rows[i][0], rows[i][1], &before[i], NULL), 200);
    CHECK(!strstr(before[0], "\"fleet\""));
    atomic_store(&ended, 20);
    pl_service_learned(service, "t4");
    pl_response response = PL_SIZED(pl_response);
    pl_request t4 = request_of("POST", rows[0][0], rows[0][1]);
    for (int i = 0; i < 400 && pl_service_known(service, &t4, &response); i++) {
        pl_response_close(&response);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    for (int i = 0; i < 4; i++) {
        char *after = NULL;
        bool known = false;
        CHECK_INT(ask(service, "POST", rows[i][0], rows[i][1], &after, &known), 200);
        CHECK(known == (i == 1 || i == 2)); /* another card; a search does not go by it */
        CHECK(i != 0 || strstr(after, "\"fleet\":{\"jobs\":20"));
        CHECK(i != 3 || strcmp(after, before[3]) != 0);
        free(after);
        free(before[i]);
    }
    pl_service_counts counts = PL_SIZED(pl_service_counts);
    pl_service_count(service, &counts);
    CHECK(counts.models == 1 && counts.answers == 4 && counts.answers_found >= 2);
    pl_service_close(&service);
}

/* A request of any length is known again. */
static void long_requests(void) {
    pl_service *service = open_service((size_t)1 << 30, (size_t)1 << 26);
    for (size_t size = 4000; size < 600000; size *= 3) {
        char *body = malloc(size + 300), *first = NULL, *second = NULL;
        bool known = false;
        int used = sprintf(body, "{\"model\":" GPT2 ",\"batch\":3");
        memset(body + used, ' ', size);
        memcpy(body + (size_t)used + size, "}", 2);
        CHECK_INT(ask(service, "POST", "/v1/estimate", body, &first, NULL), 200);
        CHECK_INT(ask(service, "POST", "/v1/estimate", body, &second, &known), 200);
        CHECK(known && strcmp(first, second) == 0);
        free(body);
        free(first);
        free(second);
    }
    pl_service_close(&service);
}

static void methods(void) {
    CHECK(pl_service_takes("POST", "/v1/estimate") && !pl_service_takes("GET", "/v1/estimate"));
    CHECK(pl_service_takes("GET", "/v1/models/x") && !pl_service_takes("GET", "/v1/models/x/y"));
    CHECK(!pl_service_takes("GET", "/"));
    pl_error err = PL_SIZED(pl_error);
    err.code = PL_INPUT;
    strcpy(err.message, "no \"such\" thing");
    strcpy(err.where, "body");
    err.position = 7;
    pl_response response = PL_SIZED(pl_response);
    pl_response_failed(&response, 400, &err);
    CHECK_INT(response.status, 400);
    CHECK(strstr(response.body, "no \\\"such\\\" thing") &&
          strstr(response.body, "\"position\":7"));
    CHECK(strstr(response.body, "\"code\":\"input\""));
    pl_response_close(&response);
}

/* ---- models beyond memory ---- */

typedef struct shelf {
    char digest[PL_DIGEST_ROOM], bytes[512];
    size_t size;
    int kept, found;
    bool full;
} shelf;

static bool keep(void *context, const char *digest, const char *name, const void *bytes,
                 size_t size) {
    shelf *s = context;
    (void)name;
    if (s->full) return false;
    memcpy(s->digest, digest, sizeof s->digest);
    memcpy(s->bytes, bytes, size);
    s->size = size;
    s->kept++;
    return true;
}

static bool find(void *context, const char *digest, char name[128], void **bytes, size_t *size) {
    shelf *s = context;
    if (strcmp(digest, s->digest) != 0) return false;
    strcpy(name, "shelf");
    *bytes = malloc(s->size);
    memcpy(*bytes, s->bytes, s->size);
    *size = s->size;
    s->found++;
    return true;
}

static void models_beyond_memory(void) {
    shelf s = {.full = true};
    pl_service *service = NULL;
    pl_service_settings settings;
    pl_service_settings_default(&settings);
    settings.model_bytes = 0; /* none stays in memory */
    settings.keep = keep;
    settings.find = find;
    settings.context = &s;
    CHECK_INT(pl_service_open(&service, &settings, NULL), PL_OK);
    CHECK_INT(ask(service, "POST", "/v1/models", GPT2, NULL, NULL), 507);
    s.full = false;
    CHECK_INT(ask(service, "POST", "/v1/models", GPT2, NULL, NULL), 201);
    CHECK_INT(s.kept, 1);
    char question[256];
    snprintf(question, sizeof question, "{\"model\":\"%s\",\"batch\":2,\"task\":\"classify\"}",
             s.digest);
    char *body = NULL;
    CHECK_INT(ask(service, "POST", "/v1/estimate", question, &body, NULL), 200);
    CHECK(strstr(body, "\"name\":\"shelf\""));
    CHECK_INT(s.found, 1);
    free(body);
    s.digest[8] ^= 1;
    CHECK_INT(ask(service, "POST", "/v1/fit", question, NULL, NULL), 404);
    pl_service_close(&service);
}

/* ---- limits ---- */

static int cancel(void *context) {
    return ++*(int *)context > 0;
}

static void limits(void) {
    pl_service *service = open_service((size_t)1 << 30, 0);
    pl_request request = request_of("POST", "/v1/explain", "{\"model\":" GPT2 ",\"gpu\":\"t4\"}");
    pl_response response = PL_SIZED(pl_response);
    int asked = 0;
    request.cancelled = cancel;
    request.cancel_context = &asked;
    pl_service_answer(service, &request, &response);
    CHECK_INT(response.status, 422);
    CHECK(strstr(response.body, "\"code\":\"limit\"") && asked > 0);
    pl_response_close(&response);
    CHECK_INT(
        ask(service, "POST", "/v1/explain", "{\"model\":" GPT2 ",\"gpu\":\"t4\"}", NULL, NULL),
        200); /* the one after is not cancelled, though the model was opened before */
    pl_service_close(&service);
}

/* ---- threads ---- */

enum { THREADS = 6, ROUNDS = 60, QUESTIONS = 8 };
static pl_service *shared;
static char *expected[QUESTIONS];

static void question_of(char *out, size_t room, int i) {
    snprintf(out, room, "{\"model\":" GPT2 ",\"batch\":%d,\"seq\":%d}", 1 + i % 4, 8 << i / 4);
}

/* What follows "memory": the time that it took differs. */
static const char *figures(const char *body) {
    const char *at = strstr(body, "\"memory\"");
    return at ? at : "";
}

static void *ask_many(void *given) {
    intptr_t wrong = 0;
    unsigned state = (unsigned)(intptr_t)given * 2654435761u + 1;
    for (int i = 0; i < ROUNDS; i++) {
        char text[256];
        state = state * 1664525u + 1013904223u;
        int which = (int)(state >> 16) % QUESTIONS;
        question_of(text, sizeof text, which);
        pl_request request = request_of("POST", "/v1/estimate", text);
        pl_response response = PL_SIZED(pl_response);
        pl_service_answer(shared, &request, &response);
        const char *want = figures(expected[which]);
        size_t length = strcspn(want, "}");
        wrong += response.status != 200 || strncmp(figures(response.body), want, length) != 0;
        pl_response_close(&response);
    }
    return (void *)wrong;
}

static void threads(void) {
    pthread_t thread[THREADS];
    shared = open_service(200 << 10, 6 << 10);
    for (int i = 0; i < QUESTIONS; i++) {
        char text[256];
        question_of(text, sizeof text, i);
        CHECK_INT(ask(shared, "POST", "/v1/estimate", text, &expected[i], NULL), 200);
    }
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, ask_many, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        pthread_join(thread[i], &wrong);
        CHECK_INT((intptr_t)wrong, 0);
    }
    for (int i = 0; i < QUESTIONS; i++) free(expected[i]);
    pl_service_close(&shared);
}

int main(void) {
    RUN(digests);
    RUN(requests);
    RUN(known_answers);
    RUN(learned_answers);
    RUN(long_requests);
    RUN(methods);
    RUN(models_beyond_memory);
    RUN(limits);
    RUN(threads);
    return check_done();
}
