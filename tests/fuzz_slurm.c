/* fuzz_slurm: damaged answers, requests, lists, scripts and settings, as the plugins of Slurm read them inside slurmctld: nothing crashes, reads
 * past the end or hangs, and what is believed holds together. The first letter says what the rest is.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_slurm COUNT FILE-OR-FOLDER... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "decide.h"
#include "json.h"
#include "tres.h"

static void must(bool held, const char *what) {
    if (held) return;
    fprintf(stderr, "not sound: %s\n", what);
    abort();
}

/* Everything that can be reached is asked for. */
static void walk(json value, int level) {
    json inside = {0}, one;
    char name[16], words[24];
    int64_t number;
    json_whole(value, &number);
    json_text(value, words, sizeof words);
    while (level && json_element(value, &inside, &one)) walk(one, level - 1);
    inside = (json){0};
    while (level && json_next(value, &inside, name, sizeof name, &one)) walk(one, level - 1);
}

static bool estimate_once(const char *bytes, size_t size) {
    static const card c = {.type = "x", .gpu = "x", .shards = 140, .reserve = -1};
    judged j;
    json all = {bytes, bytes + size};
    if (json_check(all)) walk(all, 8);
    if (!judge_estimate(bytes, size, &c, INT64_C(1) << 30, &j)) return false;
    must(j.low <= j.peak && j.peak <= j.upper && j.low >= 0 && j.peak > 0, "an interval");
    must(j.usable > 0 && j.usable <= j.capacity, "a card");
    must(j.shards >= 1 && j.shards <= c.shards, "shards");
    must(j.verdict != FITS || j.peak <= j.usable, "a verdict");
    return true;
}

static bool request_once(const char *bytes, size_t size) {
    request r, twice;
    char wrong[512], again[REQUEST_BODY], body[REQUEST_BODY];
    text say = text_in(wrong, sizeof wrong), t = text_in(again, sizeof again),
         b = text_in(body, sizeof body);
    if (!request_read(&r, bytes, bytes + size, &say)) {
        must(wrong[0], "a refusal without a word");
        return false;
    }
    request_write(&r, &t);
    request_body(&r, "h200", "", &b);
    must(!b.cut && json_check((json){body, body + b.length}), "a body that is no JSON");
    must(!t.cut && request_read(&twice, again, again + t.length, &say),
         "what was written is not read");
    must(memcmp(&r, &twice, sizeof r) == 0, "what is read is not what was written");
    return true;
}

static bool tres_once(const char *words) {
    char room[4096];
    tres t;
    text out = text_in(room, sizeof room);
    tres_write(words, tres_form(words), 60, &out);
    must(strlen(room) == out.length, "a list's length");
    if (!tres_read(&t, words)) return false;
    must(t.gpus >= 0 && t.shards >= 0, "a count below 0");
    tres after;
    if (t.gpu_items == 1 && !out.cut)
        must(tres_read(&after, room) && !after.gpus && after.shards == t.shards + 60,
             "a list that is rewritten");
    return true;
}

static bool http_once(const char *bytes, size_t size) {
    int ends[2];
    char room[4096];
    http_answer answer;
    if (size > 60000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
        return false;
    bool sent = size == 0 || send(ends[1], bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
    shutdown(ends[1], SHUT_WR);
    http_outcome outcome =
        http_take(ends[0], room, sizeof room, http_now() + INT64_C(10000000000), &answer);
    close(ends[0]);
    close(ends[1]);
    must(outcome != HTTP_LATE || !sent, "an answer that ended is late");
    if (outcome != HTTP_ANSWERED) return false;
    must(answer.length < sizeof room && answer.body[answer.length] == 0, "a body's length");
    must(answer.status >= 0 && answer.status <= 999, "a status");
    return true;
}

static bool conf_once(const char *bytes, size_t size) {
    static int fd = -1;
    settings s;
    char path[64], wrong[512];
    text say = text_in(wrong, sizeof wrong);
    if (fd < 0) fd = memfd_create("conf", 0);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!settings_read(&s, path, &say)) {
        must(wrong[0], "a refusal without a word");
        return false;
    }
    must(s.count >= 1 && s.count <= SETTINGS_CARDS && s.deadline_ms > 0, "settings");
    return true;
}

static bool once(const unsigned char *bytes, size_t size) {
    if (!size) return false;
    char kind = (char)bytes[0], wrong[640];
    /* Slurm's own texts end with a 0; a copy of its own for each. */
    char *words = malloc(size);
    if (!words) return false;
    memcpy(words, bytes + 1, size - 1);
    words[size - 1] = 0;
    size_t length = size - 1;
    const char *at, *end;
    bool good = true;
    text say = text_in(wrong, sizeof wrong);
    http_answer answer = {.status = 400, .body = words, .length = length};
    switch (kind) {
    case 'E': good = estimate_once(words, length); break;
    case 'X': judge_pick(&answer, &say); break;
    case 'P': judge_problem(&answer, &say); break;
    case 'R': good = request_once(words, length); break;
    case 'T': good = tres_once(words); break;
    case 'S':
        good = request_of_script(words, &at, &end) && at <= end &&
               request_once(at, (size_t)(end - at));
        request_of_comment(words, &at, &end);
        break;
    case 'C': good = conf_once(words, length); break;
    case 'H': good = http_once(words, length); break;
    default: good = false;
    }
    must(say.length == strlen(wrong), "a text's length");
    free(words);
    return good;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

static const char *const tokens[] = {"-1",
                                     "0",
                                     "1e300",
                                     "9223372036854775807",
                                     "null",
                                     "true",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     ",",
                                     ":",
                                     "=",
                                     "\\u0000",
                                     "\\",
                                     "\xff",
                                     "gres:",
                                     "gres/",
                                     "gpu",
                                     "shard:",
                                     "\n",
                                     "\r\n\r\n",
                                     "Content-Length: ",
                                     "99999999999999999999",
                                     "model=",
                                     "GiB",
                                     "card = ",
                                     "#",
                                     " "};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "texts of Slurm's plugins", once, damage);
}
#endif
