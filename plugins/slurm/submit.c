/* submit: see submit.h. */
#include "submit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"

enum { MOST_ANSWER = 8 << 20 };

static int64_t end_of(const settings *s) {
    return http_now() + s->submit_ms * 1000000;
}

/* A file whole, of at most `most` bytes; NULL: say has why. The caller frees it. */
static char *read_file(const char *path, int64_t most, size_t *size, text *say) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        text_add(say, "%s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return NULL;
    }
    char *bytes = NULL;
    size_t have = 0;
    if (!S_ISREG(about.st_mode)) {
        text_add(say, "%s: not a file", path);
    } else if (about.st_size > most) {
        text_add(say, "%s: ", path);
        text_bytes(say, about.st_size);
        text_add(say, " are more than the ");
        text_bytes(say, most);
        text_add(say, " that are posted; `plimsoll convert` makes a small one of it");
    } else if (!(bytes = malloc((size_t)about.st_size + 1))) {
        text_add(say, "%s: no memory for it", path);
    } else {
        while (have < (size_t)about.st_size) {
            ssize_t got = read(fd, bytes + have, (size_t)about.st_size - have);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) {
                text_add(say, "%s: %s", path,
                         got ? strerror(errno) : "cut short while it was read");
                free(bytes);
                bytes = NULL;
                break;
            }
            have += (size_t)got;
        }
    }
    close(fd);
    *size = have;
    return bytes;
}

/* "?name=" and the file's name, by percent signs where a letter is not plain. */
static void write_path(const char *file, text *out) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    text_add(out, "/v1/models?name=");
    for (; *name && out->length < 200; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain =
            (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || strchr("._-", c);
        text_add(out, plain ? "%c" : "%%%02X", c);
    }
}

/* What an answer other than 200 and 201 means here. */
static submitted judge_status(http_outcome outcome, const http_answer *answer, text *say) {
    if (outcome != HTTP_ANSWERED) {
        text_add(say, "%s", answer->why);
        return SUBMIT_UNCHECKED;
    }
    if (answer->status == 200 || answer->status == 201) return SUBMIT_READY;
    judge_problem(answer, say);
    return answer->status == 400 || answer->status == 422 ? SUBMIT_WRONG : SUBMIT_UNCHECKED;
}

/* Posts the bytes; digest: [REQUEST_MODEL], as the daemon knows them by. It is posted each time: to know its digest first would take
 * as long. */
static submitted post(const settings *s, const char *file, const char *bytes, size_t size,
                      char *digest, text *say) {
    char room[4096], way[512];
    http_answer answer;
    text path = text_in(way, sizeof way);
    write_path(file, &path);
    http_outcome outcome = http_ask(&s->daemon, "POST", way, "application/octet-stream", bytes,
                                    size, end_of(s), room, sizeof room, &answer);
    submitted judged = judge_status(outcome, &answer, say);
    json all = {answer.body, answer.body ? answer.body + answer.length : NULL};
    if (judged == SUBMIT_READY &&
        (!json_check(all) || !json_text(json_member(all, "model"), digest, REQUEST_MODEL) ||
         !request_is_digest(digest))) {
        text_add(say, "what it answered is not a model's digest");
        return SUBMIT_UNCHECKED;
    }
    return judged;
}

submitted submit_request(const settings *s, const char *wanted, request *out, text *say) {
    if (!request_read(out, wanted, wanted + strlen(wanted), say)) return SUBMIT_WRONG;
    if (request_is_digest(out->model)) return SUBMIT_READY;
    char file[REQUEST_MODEL + 16];
    text path = text_in(file, sizeof file);
    struct stat about;
    bool folder = stat(out->model, &about) == 0 && S_ISDIR(about.st_mode);
    text_add(&path, folder ? "%s/config.json" : "%s", out->model);
    size_t size = 0;
    char *bytes = read_file(file, s->most_file, &size, say);
    if (!bytes) return SUBMIT_WRONG;
    char why[640];
    text reason = text_in(why, sizeof why);
    submitted outcome = post(s, file, bytes, size, out->model, &reason);
    free(bytes);
    if (outcome == SUBMIT_WRONG) text_add(say, "%s: ", file);
    if (outcome != SUBMIT_READY) text_add(say, "%s", why);
    return outcome;
}

/* An asking of its own, whose room is freed by the caller; false: no memory. */
static bool open_asking(const settings *s, asking *a) {
    *a = (asking){s, end_of(s), malloc(MOST_ANSWER), MOST_ANSWER};
    return a->room;
}

submitted submit_ask(const settings *s, const request *r, text *say) {
    asking a;
    judged cards[SETTINGS_CARDS];
    int count;
    if (!open_asking(s, &a)) return SUBMIT_UNCHECKED;
    submitted outcome = SUBMIT_UNCHECKED;
    switch (judge_cards(&a, r, "", cards, &count, say)) {
    case JUDGED: outcome = SUBMIT_READY; break;
    case JUDGE_DENIED: outcome = SUBMIT_WRONG; break;
    case JUDGE_AWAY:
    case JUDGE_UNKNOWN: break;
    }
    const judged *best = outcome == SUBMIT_READY && count ? judge_best(cards, count) : NULL;
    if (best && best->verdict == DOES_NOT_FIT) {
        char unsaid[768];
        text remedies = text_in(unsaid, sizeof unsaid);
        judge_remedies(&a, r, best->card, &remedies);
    }
    free(a.room);
    return outcome;
}

submitted submit_decide(const settings *s, const demand *d, const request *r, decision *out) {
    asking a;
    if (!open_asking(s, &a)) return SUBMIT_UNCHECKED;
    decide(s, d, r, &a, out);
    free(a.room);
    return out->denied ? SUBMIT_WRONG : out->failed ? SUBMIT_UNCHECKED : SUBMIT_READY;
}
