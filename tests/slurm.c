/* slurm: what the plugins of Slurm share: requests, lists of GPUs, plimsoll.conf, answers of the daemon, and questions to one that
 * is slow, silent, gone or lies. Nothing of Slurm's is needed. A question that does not end ends the program. */
#include "check.h"

#include "decide.h"
#include "json.h"
#include "request.h"
#include "slurm_fake.h"
#include "tres.h"

/* ---- requests ---- */

static bool reads(request *r, const char *words, char *wrong, size_t room) {
    text t = text_in(wrong, room);
    return request_read(r, words, words + strlen(words), &t);
}

static void a_request_is_read_and_written(void) {
    static const struct {
        const char *words, *body, *again;
    } right[] = {
        {"m.pt2", "{\"model\":\"m.pt2\"}", "model=m.pt2"},
        {"m.pt2,batch=32", "{\"model\":\"m.pt2\",\"batch\":32}", "model=m.pt2,batch=32"},
        {" model=m.pt2  seq=128 batch=4 ", "{\"model\":\"m.pt2\",\"batch\":4,\"seq\":128}",
         "model=m.pt2,batch=4,seq=128"},
        {"m,checkpoint", "{\"model\":\"m\",\"checkpoint\":true}", "model=m,checkpoint=true"},
        {"m,channels-last=no", "{\"model\":\"m\",\"channels_last\":false}",
         "model=m,channels_last=false"},
        {"batch=2,model=a\"b c\"", "{\"model\":\"ab c\",\"batch\":2}", "model=\"ab c\",batch=2"},
        {"m,alloc_conf=\"a:1,b:2\",risk=0.1",
         "{\"model\":\"m\",\"alloc_conf\":\"a:1,b:2\",\"risk\":0.1}",
         "model=m,alloc_conf=\"a:1,b:2\",risk=0.1"},
        {"m\\,parallel=fsdp2:8", "{\"model\":\"m\\\\\",\"parallel\":\"fsdp2:8\"}",
         "model=m\\,parallel=fsdp2:8"},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        request r, twice;
        char wrong[512], room[2048], body[2048];
        CHECK(reads(&r, right[i].words, wrong, sizeof wrong));
        text t = text_in(room, sizeof room), b = text_in(body, sizeof body);
        request_write(&r, &t);
        CHECK_STR(room, right[i].again);
        request_body(&r, "", "", &b);
        CHECK_STR(body, right[i].body);
        CHECK(json_check((json){body, body + b.length}));
        CHECK(reads(&twice, room, wrong, sizeof wrong));
        CHECK(memcmp(&r, &twice, sizeof r) == 0);
    }
}

static void a_wrong_request_is_refused(void) {
    static const char *const wrong[][2] = {
        {"", "no model"},
        {"batch=3", "no model"},
        {"m,batch=0", "at least 1"},
        {"m,batch=-1", "at least 1"},
        {"m,batch=1e9", "at least 1"},
        {"m,batch=99999999999999999999", "at least 1"},
        {"m,batch", "without a value"},
        {"m,batch=", "at least 1"},
        {"m,precison=bf16", "there are model, batch"},
        {"m,other", "there are model, batch"},
        {"m,checkpoint=perhaps", "true or false"},
        {"m,risk=.5", "a number"},
        {"m,risk=0.", "a number"},
        {"m,batch=1,batch=2", "before"},
        {"m,model=n", "second model"},
        {"m,gpu=h200", "Slurm's to choose"},
        {"m,train=\"lora", "does not end"},
        {"m,\"\"", "empty"},
        {"m,train=a\nb", "control"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        request r;
        char said[512];
        CHECK(!reads(&r, wrong[i][0], said, sizeof said));
        if (!strstr(said, wrong[i][1])) {
            printf("  '%s' says: %s\n", wrong[i][0], said);
            CHECK_STR(said, wrong[i][1]);
        }
    }
    request r;
    char said[512], *words = malloc(100000);
    memset(words, 'x', 99999);
    words[99999] = 0;
    CHECK(!reads(&r, words, said, sizeof said));
    free(words);
}

static void where_a_request_stands(void) {
    const char *at, *end;
    CHECK(request_of_comment("plimsoll: m,batch=2", &at, &end));
    CHECK_STR(at, " m,batch=2");
    CHECK(!request_of_comment("my plimsoll: m", &at, &end));
    CHECK(!request_of_comment(NULL, &at, &end));
    static const char script[] =
        "#!/bin/sh\n#SBATCH -n1\n\n  # plimsoll: model=m batch=3\r\necho\n";
    CHECK(request_of_script(script, &at, &end));
    CHECK_INT(end - at, (int)strlen(" model=m batch=3\r"));
    request r;
    char said[64];
    text t = text_in(said, sizeof said);
    CHECK(request_read(&r, at, end, &t));
    CHECK_STR(r.model, "m");
    CHECK(!request_of_script("#!/bin/sh\necho\n# plimsoll: m\n", &at, &end));
    CHECK(!request_of_script("", &at, &end));
    CHECK(!request_of_script(NULL, &at, &end));
    CHECK(!request_of_script("#\n#", &at, &end));
}

/* The rows are the members that the daemon's description has. */
static void settings_are_those_of_the_daemon(void) {
    static char all[1 << 20];
    FILE *file = fopen("serve/openapi.json", "r");
    CHECK(file != NULL);
    if (!file) return;
    size_t size = fread(all, 1, sizeof all - 1, file);
    fclose(file);
    json one, inside = {0}, value;
    one = json_member((json){all, all + size}, "components.schemas.Settings.properties");
    CHECK(one.at != NULL);
    char name[64];
    size_t row = 0;
    while (json_next(one, &inside, name, sizeof name, &value)) {
        if (strcmp(name, "model") == 0 || strcmp(name, "gpu") == 0) continue;
        bool found = false;
        for (size_t i = 0; request_setting(i); i++) found |= strcmp(request_setting(i), name) == 0;
        if (!found) printf("  no setting %s\n", name);
        CHECK(found);
        row++;
    }
    CHECK_INT(row, REQUEST_SETTINGS);
}

/* ---- lists of GPUs ---- */

static void lists_are_read(void) {
    static const struct {
        const char *list;
        int64_t gpus, shards;
        const char *type;
        int items;
    } rows[] = {
        {NULL, 0, 0, "", 0},
        {"", 0, 0, "", 0},
        {"gres:gpu", 1, 0, "", 1},
        {"gres:gpu:1", 1, 0, "", 1},
        {"gres/gpu:h200:2", 2, 0, "h200", 1},
        {"gres/gpu:h200", 1, 0, "h200", 1},
        {"gres/gpu=4", 4, 0, "", 1},
        {"gpu:1g.10gb:2", 2, 0, "1g.10gb", 1},
        {"gpu:a100:1,gpu:h200:1", 2, 0, "h200", 2},
        {"gres:shard:60", 0, 60, "", 0},
        {"gres:shard:2k", 0, 2048, "", 0},
        {"cpu=2,gres/gpu=1", 1, 0, "", 1},
        {"gres:nic:1,gres:gpu:1,craynetwork:0", 1, 0, "", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tres t;
        CHECK(tres_read(&t, rows[i].list));
        CHECK_INT(t.gpus, rows[i].gpus);
        CHECK_INT(t.shards, rows[i].shards);
        CHECK_STR(t.type, rows[i].type);
        CHECK_INT(t.gpu_items, rows[i].items);
    }
    static const char *const wrong[] = {"gpu:",      "gpu:-1",    "gpu:h200:x",
                                        "gpu:h200:", "gpu:a:b:c", "gpu:99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tres t;
        if (tres_read(&t, wrong[i])) printf("  '%s' is read\n", wrong[i]);
        CHECK(!tres_read(&t, wrong[i]));
    }
}

static void lists_are_rewritten(void) {
    static const char *const rows[][2] = {
        {"gres:gpu:1", "gres:shard:60"},
        {"gres/gpu:h200:1", "gres/shard:60"},
        {"gres:nic:1,gres:gpu:1,license:x", "gres:nic:1,gres:shard:60,license:x"},
        {"", "shard:60"},
        {"gres:nic:1", "gres:nic:1,gres:shard:60"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char room[128];
        text t = text_in(room, sizeof room);
        tres_write(rows[i][0], tres_form(rows[i][0]), 60, &t);
        CHECK_STR(room, rows[i][1]);
    }
}

/* ---- plimsoll.conf ---- */

static char folder[64];

static const char *written(const char *words) {
    static char path[128];
    snprintf(path, sizeof path, "%s/conf", folder);
    FILE *file = fopen(path, "w");
    if (!file) abort();
    fputs(words, file);
    fclose(file);
    return path;
}

static void a_conf_is_read(void) {
    settings s;
    char said[512];
    text t = text_in(said, sizeof said);
    CHECK(settings_read(
        &s,
        written(
            "# a comment\ndaemon = /d/s # the socket\ncard = h200 shards=140\n"
            "card = a100 gpu=a100-80gb shards=80 reserve=512MiB\ndeadline-ms=7\nshard = 2GiB\nrefuse = no\n"),
        &t));
    CHECK_STR(said, "");
    CHECK_STR(s.daemon.socket, "/d/s");
    CHECK_INT(s.count, 2);
    CHECK_STR(s.cards[0].gpu, "h200");
    CHECK_INT(s.cards[0].reserve, -1);
    CHECK_STR(s.cards[1].gpu, "a100-80gb");
    CHECK_INT(s.cards[1].reserve, 512 << 20);
    CHECK_INT(s.deadline_ms, 7);
    CHECK_INT(s.shard_bytes, INT64_C(2) << 30);
    CHECK(!s.refuse && s.rewrite);
    CHECK_INT(settings_most_shards(&s, ""), 140);
    CHECK_INT(settings_most_shards(&s, "a100"), 80);
    CHECK(settings_card(&s, "") == NULL);
    CHECK(settings_read(&s, written("daemon = http://[::1]:9477\ncard = x\n"), &t));
    CHECK_STR(s.daemon.host, "::1");
    CHECK_STR(s.daemon.port, "9477");
    CHECK_STR(s.daemon.socket, "");
    CHECK(settings_card(&s, "") == &s.cards[0]);
}

static void a_wrong_conf_says_where(void) {
    static const char *const rows[][2] = {
        {"", "no card"},
        {"card = h200\ncard = h200\n", "conf:2: card"},
        {"card = h200 shards=x\n", "conf:1: card"},
        {"card = h200 memory=3\n", "conf:1: card"},
        {"card =\n", "conf:1: card"},
        {"card = h200\n\ndeadline-ms = 0\n", "conf:3: deadline-ms: 1 to 1000"},
        {"card = h200\ndeadline-ms = 99999\n", "deadline-ms"},
        {"card = h200\nrefuse = perhaps\n", "yes or no"},
        {"card = h200\ndaemon = x\n", "a path or http"},
        {"card = h200\ndaemon = http://x\n", "a path or http"},
        {"card = h200\ndaemon = http://x:99999999\n", "a path or http"},
        {"card = h200\ntoken-file = /does/not/exist\n", "a file with a token"},
        {"card = h200\nshard = 12parsecs\n", "a size"},
        {"card = h200\nnothing = 1\n", "no setting is called 'nothing'"},
        {"hello\n", "name = value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        settings s;
        char said[512];
        text t = text_in(said, sizeof said);
        CHECK(!settings_read(&s, written(rows[i][0]), &t));
        if (!strstr(said, rows[i][1])) {
            printf("  says: %s\n", said);
            CHECK_STR(rows[i][1], "said");
        }
    }
    settings s;
    char said[512];
    text t = text_in(said, sizeof said);
    CHECK(!settings_read(&s, "/does/not/exist", &t));
    CHECK(strstr(said, "No such file") != NULL);
}

/* ---- answers ---- */

static bool checked(const char *words) {
    return json_check((json){words, words + strlen(words)});
}

static void json_is_checked(void) {
    static const char *const right[] = {"{}",
                                        " [ ] ",
                                        "1",
                                        "-0.5e+3",
                                        "\"\\u12aF\\n\"",
                                        "[1,{\"a\":[null,true,false]},\"\"]",
                                        "{\"a\":{\"b\":1},\"c\":[]}"};
    static const char *const wrong[] = {
        "",    " ",        "{",       "[1,]",      "{\"a\"}",    "{\"a\":}", "{a:1}", "01",
        "1 2", "nul",      "\"\\x\"", "\"\\u12\"", "[1 2]",      "{,}",      "[,1]",  "}",
        "{]",  "\"a\nb\"", "1.",      "-",         "{\"a\":1,}", "\""};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        if (!checked(right[i])) printf("  %s\n", right[i]);
        CHECK(checked(right[i]));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (checked(wrong[i])) printf("  %s\n", wrong[i]);
        CHECK(!checked(wrong[i]));
    }
    char deep[300];
    memset(deep, '[', 150);
    memset(deep + 150, ']', 150);
    CHECK(!json_check((json){deep, deep + 300}));
    CHECK(json_check((json){deep + 100, deep + 200}));
    static const char object[] = "{\"a\":{\"b\\\"c\":1,\"d\":[1,2,3]},\"a.b\":2,\"n\":-7}";
    json all = {object, object + sizeof object - 1}, inside = {0}, one;
    int64_t number, sum = 0;
    while (json_element(json_member(all, "a.d"), &inside, &one))
        if (json_whole(one, &number)) sum += number;
    CHECK_INT(sum, 6);
    CHECK(json_whole(json_member(all, "n"), &number) && number == -7);
    CHECK(json_member(all, "a.x").at == NULL);
    CHECK(json_member(all, "n.x").at == NULL);
}

static void estimates_are_believed_where_they_hold(void) {
    static const card c = {.type = "x", .gpu = "x", .shards = 40, .reserve = -1};
    judged j;
    static const char good[] = FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "fits",
                                             FAKE_GB("39"), FAKE_GB("40"));
    CHECK(judge_estimate(good, sizeof good - 1, &c, 1 << 30, &j));
    CHECK_INT(j.verdict, FITS);
    CHECK_INT(j.shards, 21); /* 21e9 and the driver's 1e9 of 2^30 each: 20.5 */
    CHECK_STR(j.family, "cnn");
    static const card own = {.type = "x", .gpu = "x", .shards = 40, .reserve = 0};
    CHECK(judge_estimate(good, sizeof good - 1, &own, 1 << 30, &j));
    CHECK_INT(j.shards, 20);
    static const char nearly[] = FAKE_ESTIMATE(FAKE_GB("38"), FAKE_GB("37"), FAKE_GB("39"), "fits",
                                               FAKE_GB("39"), FAKE_GB("40"));
    CHECK(judge_estimate(nearly, sizeof nearly - 1, &c, 1 << 20, &j));
    CHECK_INT(j.shards, 40); /* never more than there are */
    static const char *const lies[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"memory\":1}",
        FAKE_ESTIMATE("-1", "19", "21", "fits", FAKE_GB("39"), FAKE_GB("40")),
        FAKE_ESTIMATE("0", "0", "0", "fits", FAKE_GB("39"), FAKE_GB("40")),
        FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "does not fit", FAKE_GB("39"),
                      FAKE_GB("40")),
        FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("50"), "fits", FAKE_GB("39"),
                      FAKE_GB("40")),
        FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "perhaps", FAKE_GB("39"),
                      FAKE_GB("40")),
        FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "fits", FAKE_GB("41"),
                      FAKE_GB("40")),
        FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "fits", "-39" FAKE_GB(""),
                      FAKE_GB("40")),
        FAKE_ESTIMATE(FAKE_GB(FAKE_GB("9")), FAKE_GB(FAKE_GB("9")), FAKE_GB(FAKE_GB("9")),
                      "does not fit", FAKE_GB("39"), FAKE_GB("40")),
        FAKE_ESTIMATE("\"20\"", FAKE_GB("19"), FAKE_GB("21"), "fits", FAKE_GB("39"), FAKE_GB("40")),
        FAKE_ESTIMATE("1e10", FAKE_GB("19"), FAKE_GB("21"), "fits", FAKE_GB("39"), FAKE_GB("40")),
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        if (judge_estimate(lies[i], strlen(lies[i]), &c, 1 << 30, &j))
            printf("  believed: %s\n", lies[i]);
        CHECK(!judge_estimate(lies[i], strlen(lies[i]), &c, 1 << 30, &j));
    }
    static const char fleet[] =
        "{\"memory\":{\"peak_bytes\":1,\"upper_bytes\":2},\"verdict\":\"fits\",\"usable_bytes\":39" FAKE_GB("") ",\"gpu\":{\"capacity_bytes\":40" FAKE_GB(
            "") "},\"fleet\":{\"peak_bytes\":41" FAKE_GB("") ",\"low_bytes\":40" FAKE_GB("") ",\"high_bytes\":42" FAKE_GB("") ",\"verdict\":\"does not fit\"}}";
    CHECK(judge_estimate(fleet, sizeof fleet - 1, &c, 1 << 30, &j));
    CHECK_INT(j.verdict, DOES_NOT_FIT);
    CHECK(j.corrected);
}

/* ---- a daemon that is not ---- */

#define SAYS(name, words)                                                                          \
    static void name(int fd) {                                                                     \
        fake_swallow(fd);                                                                          \
        fake_send(fd, words, sizeof words - 1);                                                    \
    }
SAYS(plain, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\ntrue")
SAYS(in_capitals, "HTTP/1.1 404 Not Found\r\nCONTENT-LENGTH:2\r\n\r\n{}more than it said")
SAYS(garbage, "\x16\x03\x01\x02 is this TLS\r\n\r\n")
SAYS(no_length, "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n{}")
SAYS(below_zero, "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}")
SAYS(beyond_all, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n{}")
SAYS(too_much, "HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n{}")
SAYS(
    in_chunks,
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
SAYS(breaks_off, "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"memory\"")
SAYS(other_version, "HTTP/2 200\r\nContent-Length: 2\r\n\r\n{}")
SAYS(no_status, "HTTP/1.1 two OK\r\nContent-Length: 2\r\n\r\n{}")
SAYS(nothing, "")

static atomic_bool gone_on; /* what keeps a slow one from outlasting its question */

static void byte_by_byte(int fd) {
    static const char words[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue";
    fake_swallow(fd);
    for (size_t i = 0; i < sizeof words - 1 && !atomic_load(&gone_on); i++) {
        fake_send(fd, words + i, 1);
        poll(NULL, 0, 20);
    }
}

static void silent_one(int fd) {
    fake_swallow(fd);
    while (!atomic_load(&gone_on)) poll(NULL, 0, 5);
}

static void head_without_end(int fd) {
    char line[1024];
    fake_swallow(fd);
    memset(line, 'x', sizeof line);
    fake_send(fd, "HTTP/1.1 200 OK\r\n", 17);
    for (int i = 0; i < 64; i++) fake_send(fd, line, sizeof line);
}

static void closes_at_once(int fd) {
    (void)fd;
}

static http_outcome put(const http_place *place, int64_t milliseconds, http_answer *answer) {
    static char room[65536];
    return http_ask(place, "POST", "/v1/estimate", "application/json", "{}", 2,
                    http_now() + milliseconds * 1000000, room, sizeof room, answer);
}

static void answers_are_taken_or_not(void) {
    static const struct {
        const char *name;
        void (*behave)(int fd);
        int64_t milliseconds;
        http_outcome outcome;
        const char *body;
    } rows[] = {
        {"plain", plain, 5000, HTTP_ANSWERED, "true"},
        {"in capitals", in_capitals, 5000, HTTP_ANSWERED, "{}"},
        {"slowly, with time enough", byte_by_byte, 20000, HTTP_ANSWERED, "true"},
        {"slowly", byte_by_byte, 60, HTTP_LATE, NULL},
        {"silent", silent_one, 20, HTTP_LATE, NULL},
        {"garbage", garbage, 5000, HTTP_WRONG, NULL},
        {"no length", no_length, 5000, HTTP_WRONG, NULL},
        {"a length below 0", below_zero, 5000, HTTP_WRONG, NULL},
        {"a length beyond all", beyond_all, 5000, HTTP_WRONG, NULL},
        {"too much", too_much, 5000, HTTP_WRONG, NULL},
        {"in chunks", in_chunks, 5000, HTTP_WRONG, NULL},
        {"breaks off", breaks_off, 5000, HTTP_WRONG, NULL},
        {"another version", other_version, 5000, HTTP_WRONG, NULL},
        {"no status", no_status, 5000, HTTP_WRONG, NULL},
        {"nothing", nothing, 5000, HTTP_WRONG, NULL},
        {"a head without end", head_without_end, 5000, HTTP_WRONG, NULL},
        {"closes at once", closes_at_once, 5000, HTTP_WRONG, NULL},
        {"is stopped", NULL, 20, HTTP_LATE, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake f;
        http_place place;
        http_answer answer;
        atomic_store(&gone_on, false);
        fake_open(&f, &place, folder, rows[i].behave);
        http_outcome outcome = put(&place, rows[i].milliseconds, &answer);
        atomic_store(&gone_on, true);
        fake_close(&f);
        if (outcome != rows[i].outcome) printf("  %s: %d, %s\n", rows[i].name, outcome, answer.why);
        CHECK_INT(outcome, rows[i].outcome);
        if (rows[i].body) CHECK_STR(outcome == HTTP_ANSWERED ? answer.body : NULL, rows[i].body);
        CHECK(outcome == HTTP_ANSWERED || answer.why[0]);
    }
}

/* A stopped daemon's queue fills up: nobody waits for a place in it. */
static void a_full_queue_is_late(void) {
    fake f;
    http_place place;
    http_answer answer;
    fake_open(&f, &place, folder, NULL);
    int waiting[8], late = 0;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, place.socket, sizeof name.sun_path);
    for (int i = 0; i < 8; i++) {
        waiting[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        late += connect(waiting[i], (struct sockaddr *)&name, sizeof name) != 0;
    }
    CHECK(late > 0);
    CHECK_INT(put(&place, 10000, &answer), HTTP_LATE);
    CHECK_STR(answer.why, "its queue of connections is full");
    for (int i = 0; i < 8; i++) close(waiting[i]);
    fake_close(&f);
    CHECK_INT(put(&place, 10000, &answer),
              HTTP_AWAY); /* its socket is a file that nobody listens at */
    unlink(place.socket);
    CHECK_INT(put(&place, 10000, &answer), HTTP_AWAY);
}

/* ---- decisions ---- */

static const char *estimate_words;
static int estimate_status;

static void estimates(int fd) {
    fake_answer(fd, estimate_status, estimate_words);
}

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

typedef struct asked_for {
    const char *node, *job, *task;
    bool several, exclusive, per_gpu, fixed;
} asked_for;

/* One decision about a job with a request, on a cluster of one kind of card. */
static void decided(const asked_for *a, const char *words, int status, const char *estimate,
                    decision *out) {
    static char room[65536];
    fake f;
    settings s;
    settings_default(&s);
    s.cards[0] = (card){.type = "h200", .gpu = "h200", .shards = 40, .reserve = 0};
    s.count = 1;
    estimate_words = estimate;
    estimate_status = status;
    fake_open(&f, &s.daemon, folder, estimates);
    demand d = {.one_node = !a->several,
                .exclusive = a->exclusive,
                .per_gpu = a->per_gpu,
                .rewritable = !a->fixed};
    d.readable =
        tres_read(&d.node, a->node) && tres_read(&d.job, a->job) && tres_read(&d.task, a->task);
    request r;
    char wrong[256];
    CHECK(reads(&r, words, wrong, sizeof wrong));
    asking ask = {&s, http_now() + INT64_C(20000) * 1000000, room, sizeof room};
    decide(&s, &d, &r, &ask, out);
    fake_close(&f);
    if (out->note[0]) CHECK(checked(out->note));
}

static const char fitting[] = FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "fits",
                                            FAKE_GB("39"), FAKE_GB("40"));
static const char doubtful[] = FAKE_ESTIMATE(FAKE_GB("38"), FAKE_GB("37"), FAKE_GB("41"),
                                             "may not fit", FAKE_GB("39"), FAKE_GB("40"));
static const char hopeless[] = FAKE_ESTIMATE(FAKE_GB("80"), FAKE_GB("79"), FAKE_GB("81"),
                                             "does not fit", FAKE_GB("39"), FAKE_GB("40"));

static void what_is_asked_for_decides(void) {
    static const struct {
        asked_for job;
        const char *words, *estimate;
        action action;
        const char *says;
    } rows[] = {
        {{.node = "gres:gpu:1"}, DIGEST, fitting, REWRITE, "shard:20 in place of gpu:1"},
        {{.job = "gres:gpu:1"}, DIGEST, fitting, REWRITE, "shard:20"},
        {{.node = "gres:gpu:h200:1"}, DIGEST, fitting, REWRITE, "shard:20"},
        {{.node = "gres:gpu:1"},
         DIGEST,
         hopeless,
         REFUSE,
         "does not fit: needs at least 73.6 GiB of 36.3 GiB on h200"},
        {{.node = "gres:gpu:1"}, DIGEST, doubtful, PASS, "may not fit"},
        {{.node = "gres:gpu:2"}, DIGEST, fitting, PASS, ""},
        {{.node = "gres:gpu:2"}, DIGEST, hopeless, PASS, "parallel=fsdp2:2"},
        {{.node = "gres:gpu:2"}, DIGEST ",parallel=fsdp2:2", hopeless, REFUSE, "does not fit"},
        {{.task = "gres:gpu:1"}, DIGEST, fitting, PASS, ""},
        {{.task = "gres:gpu:1"}, DIGEST, hopeless, REFUSE, "does not fit"},
        {{.node = "gres:gpu:1", .several = true}, DIGEST, fitting, PASS, ""},
        {{.node = "gres:gpu:1", .exclusive = true}, DIGEST, fitting, PASS, ""},
        {{.node = "gres:gpu:1", .per_gpu = true}, DIGEST, fitting, PASS, ""},
        {{.node = "gres:gpu:1", .fixed = true}, DIGEST, fitting, PASS, ""},
        {{.node = "gres:gpu:1,gres:mps:10"}, DIGEST, fitting, PASS, ""},
        {{.node = "gres:gpu:a100:1"}, DIGEST, fitting, PASS, "no card of type a100"},
        {{.node = "gres:shard:30"}, DIGEST, fitting, PASS, ""},
        {{.node = "gres:shard:10"}, DIGEST, fitting, PASS, "shard:10 stays as it was asked for"},
        {{.node = "gres:shard:41"}, DIGEST, fitting, REFUSE, "wait for ever"},
        {{.node = "gres:shard:30"}, DIGEST, hopeless, REFUSE, "does not fit"},
        {{.node = "gres:gpu:x:y"}, DIGEST, hopeless, PASS, "not understood"},
        {{0}, DIGEST, fitting, PASS, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        decision made;
        decided(&rows[i].job, rows[i].words, 200, rows[i].estimate, &made);
        bool said = rows[i].says[0] ? strstr(made.say, rows[i].says) != NULL : !made.say[0];
        if (made.action != rows[i].action || !said)
            printf("  row %zu: %d, %s\n", i, made.action, made.say);
        CHECK_INT(made.action, rows[i].action);
        CHECK(said);
    }
}

static void a_lying_daemon_changes_nothing(void) {
    static const struct {
        int status;
        const char *words;
        bool failed, denied;
    } rows[] = {
        {200, "", true, false},
        {200, "{}", true, false},
        {200, "{\"memory\":{\"peak_bytes\":-5}}", true, false},
        {200,
         FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "does not fit", FAKE_GB("39"),
                       FAKE_GB("40")),
         true, false},
        {500, "{\"detail\":\"no\"}", true, false},
        {503, "busy", true, false},
        {403, "{}", true, false},
        {404, "{\"detail\":\"no such model\"}", false, false},
        {400, "{\"detail\":\"seq is not open\",\"where\":\"seq\"}", false, true},
        {422, "{\"detail\":\"a\\nb\"}", false, true},
    };
    static const asked_for one = {.node = "gres:gpu:1"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        decision made;
        decided(&one, DIGEST, rows[i].status, rows[i].words, &made);
        CHECK_INT(made.action, PASS);
        CHECK_STR(made.note, "");
        CHECK(strstr(made.log, "passes unchecked") != NULL);
        CHECK(!strchr(made.say, '\n'));
        CHECK_INT(made.failed, rows[i].failed);
        CHECK_INT(made.denied, rows[i].denied);
    }
}

/* Another answer for each of two kinds of cards. */
static const char *of_a100;

static void estimates_by_card(int fd) {
    char room[4096];
    ssize_t got = recv(fd, room, sizeof room - 1, 0);
    room[got > 0 ? got : 0] = 0;
    /* The question's body may come behind its head. */
    while (got > 0 && !strstr(room, "\"gpu\":")) {
        ssize_t more = recv(fd, room + got, sizeof room - 1 - (size_t)got, 0);
        if (more <= 0) return;
        got += more;
        room[got] = 0;
    }
    const char *body = strstr(room, "\"gpu\":\"a100\"") ? of_a100 : fitting;
    char head[128];
    int length =
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(body));
    fake_send(fd, head, (size_t)length);
    fake_send(fd, body, strlen(body));
}

/* With several kinds of cards the shards are right on whichever the job comes to, and keep it off those that it does not fit. */
static void shards_are_right_on_every_card(void) {
    static const char larger[] = FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("25"), "fits",
                                               FAKE_GB("29"), FAKE_GB("30"));
    static const char never[] = FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"),
                                              "does not fit", FAKE_GB("15"), FAKE_GB("16"));
    static const struct {
        const char *list, *a100;
        int64_t shards_of_a100;
        action action;
        int64_t shards;
    } rows[] = {
        {"gpu:1", larger, 30, REWRITE, 24}, /* the larger of both */
        {"gpu:1", never, 15, REWRITE, 20},  /* more than an A100 has, as it is */
        {"gpu:1", never, 22, REWRITE, 23},  /* one more than an A100 has */
        {"gpu:1", never, 50, PASS, 0},      /* no number keeps it off */
        {"gpu:1", never, 0, PASS, 0},       /* A100s are not divided */
        {"gpu:h200:1", never, 15, PASS, 0}, /* shards have no type */
        {"gpu:a100:1", never, 15, REFUSE, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static char room[65536];
        fake f;
        settings s;
        decision made;
        request r;
        char wrong[256];
        settings_default(&s);
        s.cards[0] = (card){.type = "h200", .gpu = "h200", .shards = 40};
        s.cards[1] = (card){.type = "a100", .gpu = "a100", .shards = rows[i].shards_of_a100};
        s.count = 2;
        of_a100 = rows[i].a100;
        fake_open(&f, &s.daemon, folder, estimates_by_card);
        demand d = {.readable = true, .one_node = true, .rewritable = true};
        CHECK(tres_read(&d.node, rows[i].list));
        CHECK(reads(&r, DIGEST, wrong, sizeof wrong));
        asking ask = {&s, http_now() + INT64_C(20000) * 1000000, room, sizeof room};
        decide(&s, &d, &r, &ask, &made);
        fake_close(&f);
        if (made.action != rows[i].action || made.shards != rows[i].shards)
            printf("  row %zu: %s\n", i, made.say);
        CHECK_INT(made.action, rows[i].action);
        CHECK_INT(made.shards, rows[i].shards);
    }
}

static void nobody_is_asked_in_vain(void) {
    decision made;
    settings s;
    settings_default(&s);
    s.cards[0] = (card){.type = "h200", .gpu = "h200", .shards = 40};
    s.count = 1;
    demand d = {.readable = true, .one_node = true};
    CHECK(tres_read(&d.node, "gres:shard:41"));
    decide(&s, &d, NULL, NULL, &made);
    CHECK_INT(made.action, REFUSE);
    s.across = true;
    decide(&s, &d, NULL, NULL, &made);
    CHECK_INT(made.action, PASS);
    CHECK_STR(made.say, "");
}

int main(void) {
    snprintf(folder, sizeof folder, "/tmp/plimsoll-slurm.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    alarm(120);
    RUN(a_request_is_read_and_written);
    RUN(a_wrong_request_is_refused);
    RUN(where_a_request_stands);
    RUN(settings_are_those_of_the_daemon);
    RUN(lists_are_read);
    RUN(lists_are_rewritten);
    RUN(a_conf_is_read);
    RUN(a_wrong_conf_says_where);
    RUN(json_is_checked);
    RUN(estimates_are_believed_where_they_hold);
    RUN(answers_are_taken_or_not);
    RUN(a_full_queue_is_late);
    RUN(what_is_asked_for_decides);
    RUN(a_lying_daemon_changes_nothing);
    RUN(shards_are_right_on_every_card);
    RUN(nobody_is_asked_in_vain);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 1;
    return check_done();
}
