/* slurm_host: what Slurm's plugins do outside slurmctld: models posted where a job is submitted, and reports of what it took from its node;
 * against a daemon and an NVML that are not. */
#include "check.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "json.h"
#include "nvml.h"
#include "report.h"
#include "slurm_fake.h"
#include "submit.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char folder[64];
static const char *post_words;
static int post_status;
static char told
    [16384]; /* the questions that were asked, one after the other; the fake daemon's until it is closed */
static size_t told_length;

/* A question whole, kept; then an estimate, or what is to be said of a model. */
static void hear(int fd) {
    char room[8192];
    size_t have = 0, wanted = SIZE_MAX;
    while (have < wanted && have < sizeof room - 1) {
        ssize_t got = recv(fd, room + have, sizeof room - 1 - have, 0);
        if (got <= 0) break;
        have += (size_t)got;
        room[have] = 0;
        const char *behind = strstr(room, "\r\n\r\n"), *length = strstr(room, "Content-Length: ");
        if (behind) wanted = (size_t)(behind + 4 - room) + (length ? (size_t)atoi(length + 16) : 0);
    }
    room[have] = 0;
    if (told_length + have + 2 < sizeof told) {
        memcpy(told + told_length, room, have);
        told_length += have;
        told[told_length++] = '\n';
        told[told_length] = 0;
    }
    const char *words = "{\"stored\":true}";
    int status = 201;
    if (strncmp(room, "POST /v1/models", 15) == 0) {
        words = post_words;
        status = post_status;
    } else if (strncmp(room, "POST /v1/estimate", 17) == 0) {
        words = FAKE_ESTIMATE(FAKE_GB("20"), FAKE_GB("19"), FAKE_GB("21"), "fits", FAKE_GB("39"),
                              FAKE_GB("40"));
        status = 200;
    }
    char head[128];
    int length = snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n", status,
                          strlen(words));
    fake_send(fd, head, (size_t)length);
    fake_send(fd, words, strlen(words));
}

static settings with_daemon(fake *f) {
    settings s;
    settings_default(&s);
    s.cards[0] = (card){.type = "h200", .gpu = "h200", .shards = 40};
    s.count = 1;
    s.report_ms = s.submit_ms = 20000;
    s.sample_ms = 10;
    told_length = 0;
    told[0] = 0;
    fake_open(f, &s.daemon, folder, hear);
    return s;
}

static void a_model_is_posted(void) {
    static const struct {
        const char *wanted, *words;
        int status;
        submitted outcome;
        const char *says;
    } rows[] = {
        {"%s/my model.json", "{\"schema\":1,\"model\":\"" DIGEST "\"}", 201, SUBMIT_READY, ""},
        {"%s", "{\"schema\":1,\"model\":\"" DIGEST "\"}", 200, SUBMIT_READY, ""},
        {"%s/my model.json", "{\"detail\":\"no such family\",\"where\":\"model_type\"}", 422,
         SUBMIT_WRONG, "my model.json: model_type: no such family"},
        {"%s/my model.json", "{\"model\":\"sha256:12\"}", 201, SUBMIT_UNCHECKED,
         "not a model's digest"},
        {"%s/my model.json", "no JSON", 201, SUBMIT_UNCHECKED, "not a model's digest"},
        {"%s/my model.json", "busy", 503, SUBMIT_UNCHECKED, "status 503"},
        {"%s/none", "", 201, SUBMIT_WRONG, "No such file"},
        {"%s/large", "", 201, SUBMIT_WRONG, "are more than the"},
        {"%s/sock", "", 201, SUBMIT_WRONG, "/sock: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake f;
        request r;
        char path[128], wanted[256], said[1024];
        settings s = with_daemon(&f);
        s.most_file = 100;
        text say = text_in(said, sizeof said);
        post_words = rows[i].words;
        post_status = rows[i].status;
        snprintf(path, sizeof path, rows[i].wanted, folder);
        snprintf(wanted, sizeof wanted, "\"%s\",batch=2", path);
        submitted outcome = submit_request(&s, wanted, &r, &say);
        fake_close(&f);
        if (outcome != rows[i].outcome || !strstr(said, rows[i].says))
            printf("  row %zu: %d, %s\n", i, outcome, said);
        CHECK_INT(outcome, rows[i].outcome);
        CHECK(strstr(said, rows[i].says) != NULL);
        if (outcome == SUBMIT_READY) {
            CHECK_STR(r.model, DIGEST);
            CHECK(strstr(told, i ? "POST /v1/models?name=config.json "
                                 : "POST /v1/models?name=my%20model.json ") != NULL);
            CHECK(strstr(told, "{\"model_type\":\"x\"}\n") != NULL);
        }
    }
    fake f;
    request r;
    char said[1024];
    settings s = with_daemon(&f);
    text say = text_in(said, sizeof said);
    fake_close(&f);
    CHECK_INT(submit_request(&s, DIGEST ",batch=3", &r, &say), SUBMIT_READY); /* asks nobody */
    CHECK_INT(submit_ask(&s, &r, &say), SUBMIT_UNCHECKED);
    CHECK(strstr(said, "nobody listens") != NULL);
}

/* What NVML is to say: lines CARD PID BYTES. */
static const char *library(const char *lines) {
    static char path[1024], text_path[1100];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/tests/libfake-nvml.so", build ? build : "build");
    if (access(path, R_OK) != 0) return NULL;
    snprintf(text_path, sizeof text_path, "%s/tests/nvml.txt", build ? build : "build");
    FILE *file = fopen(text_path, "w");
    if (!file) return NULL;
    fputs(lines, file);
    fclose(file);
    return path;
}

static void nvml_is_read(void) {
    pid_t pids[4];
    int64_t bytes[4];
    char name[64];
    CHECK(nvml_open("/does/not/exist.so") == NULL);
    CHECK(nvml_open("libc.so.6") == NULL);
    const char *path = library("0 11 500\n1 12 700\n0 13 18446744073709551615\n");
    if (!path) {
        SKIP("nvml_is_read", "the fake library was not built");
        return;
    }
    nvml *n = nvml_open(path);
    CHECK(n != NULL);
    if (!n) return;
    CHECK_INT(nvml_cards(n), 2);
    nvml_name(n, 0, name, sizeof name);
    CHECK_STR(name, "NVIDIA H200");
    CHECK_INT(nvml_processes(n, 0, pids, bytes, 4), 2);
    CHECK_INT(pids[0], 11);
    CHECK_INT(bytes[0], 500);
    CHECK_INT(bytes[1], -1); /* not said */
    nvml_close(&n);
    CHECK(n == NULL);
    nvml_close(&n);
}

static void a_job_is_reported(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    char lines[256];
    snprintf(lines, sizeof lines,
             "0 %ld 3000000000\n1 %ld 7000000000\n0 1 90000000000\n0 %ld 2000000000\n", (long)child,
             (long)child, (long)child);
    const char *path = library(lines);
    fake f;
    settings s = with_daemon(&f);
    snprintf(s.nvml, sizeof s.nvml, "%s", path ? path : "none");
    report_job job = {
        .cluster = "harbour", .request = "model=" DIGEST ",batch=2", .id = 4711, .ends = true};
    report *r = report_open(&s, &job);
    CHECK(r != NULL);
    if (r) {
        report_exit(r, 0);
        report_exit(r, 137);
        report_exit(r, 1);
        report_close(&r);
    }
    CHECK(r == NULL);
    report_close(&r);
    fake_close(&f);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    const char *start = strstr(told, "\"state\":\"started\""),
               *end = strstr(told, "\"state\":\"ended\"");
    CHECK(start && end && start < end);
    if (!start || !end) return;
    CHECK(
        strstr(
            start,
            ",\"gpu\":\"h200\",\"predicted_bytes\":20000000000,\"upper_bytes\":21000000000,\"family\":\"cnn\"") !=
        NULL);
    CHECK(strstr(told, "{\"job\":\"slurm:harbour:4711\",") != NULL);
    CHECK(strstr(end, ",\"exit_code\":137") != NULL);
    /* The most of one card: 7 GB, not the 5 of the other, nor what is another's. */
    CHECK(!path || strstr(end, ",\"peak_bytes\":7000000000}") != NULL);
    for (const char *body = told; (body = strstr(body, "\r\n\r\n{")); body += 4) {
        const char *line = body + 4, *past = strchr(line, '\n');
        CHECK(past && json_check((json){line, past}));
    }
}

/* What was never known is not told: no peak without NVML, no prediction of what is no digest. */
static void what_is_unknown_is_not_told(void) {
    fake f;
    settings s = with_daemon(&f);
    snprintf(s.nvml, sizeof s.nvml, "/does/not/exist.so");
    report_job job = {.cluster = "", .request = DIGEST, .id = 1, .ends = false};
    report *r = report_open(&s, &job);
    CHECK(r != NULL);
    report_close(&r);
    job.request = "model.pt2,batch=2";
    CHECK(report_open(&s, &job) == NULL);
    job.request = "";
    CHECK(report_open(&s, &job) == NULL);
    fake_close(&f);
    CHECK(strstr(told, "\"job\":\"slurm:-:1\",\"state\":\"seen\"") != NULL);
    CHECK(!strstr(told, "peak_bytes") && !strstr(told, "exit_code"));
}

static void write_file(const char *name, const char *words, size_t times) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) abort();
    while (times--) fputs(words, file);
    fclose(file);
}

int main(void) {
    snprintf(folder, sizeof folder, "/tmp/plimsoll-slurm.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    alarm(120);
    write_file("my model.json", "{\"model_type\":\"x\"}", 1);
    write_file("config.json", "{\"model_type\":\"x\"}", 1);
    write_file("large", "0123456789", 20);
    RUN(a_model_is_posted);
    RUN(nvml_is_read);
    RUN(a_job_is_reported);
    RUN(what_is_unknown_is_not_told);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 1;
    return check_done();
}
