/* judge: see judge.h. */
#include "judge.h"

#include <string.h>

#include "json.h"

static const char *const words[] = {
    [FITS] = "fits", [MAY_NOT_FIT] = "may not fit", [DOES_NOT_FIT] = "does not fit"};

const char *verdict_words(verdict v) {
    return words[v];
}

static bool read_verdict(json value, verdict *out) {
    char said[16];
    if (!json_text(value, said, sizeof said)) return false;
    for (int i = FITS; i <= DOES_NOT_FIT; i++)
        if (strcmp(said, words[i]) == 0) {
            *out = (verdict)i;
            return true;
        }
    return false;
}

/* The first of the members that is a number. */
static bool read_bytes(json from, const char *const *names, int64_t *out) {
    for (; *names; names++)
        if (json_whole(json_member(from, *names), out)) return true;
    return false;
}

static const int64_t most_bytes = INT64_C(1) << 50; /* 1 PiB, which no card has for long */

bool judge_estimate(const char *body, size_t length, const card *c, int64_t shard_bytes,
                    judged *out) {
    *out = (judged){.card = c};
    json all = {body, body + length};
    if (!json_check(all)) return false;
    json memory = json_member(all, "memory"), fleet = json_member(all, "fleet");
    json verdict = json_member(all, "verdict");
    /* Where the fleet's own jobs correct an estimate, theirs counts. */
    if (fleet.at && *fleet.at == '{') {
        out->corrected = true;
        memory = fleet;
        verdict = json_member(fleet, "verdict");
    }
    static const char *const peak[] = {"peak_bytes", NULL},
                             *const low[] = {"low_bytes", "peak_bytes", NULL},
                             *const upper[] = {"upper_bytes", "high_bytes", "peak_bytes", NULL};
    if (!read_bytes(memory, peak, &out->peak) || !read_bytes(memory, low, &out->low) ||
        !read_bytes(memory, upper, &out->upper) || !read_verdict(verdict, &out->verdict) ||
        !json_whole(json_member(all, "usable_bytes"), &out->usable) ||
        !json_whole(json_member(all, "gpu.capacity_bytes"), &out->capacity))
        return false;
    /* An interval at another risk than 2.5 % may leave the peak out. */
    if (out->low > out->peak) out->low = out->peak;
    if (out->peak <= 0 || out->low < 0 || out->peak > most_bytes || out->upper > most_bytes ||
        out->upper <= 0 || out->usable <= 0 || out->usable > out->capacity ||
        out->capacity > most_bytes)
        return false;
    if (out->upper < out->peak) out->upper = out->peak;
    /* What is said must be what the figures say. */
    if (out->verdict == FITS && out->upper > out->usable) return false;
    if (out->verdict == DOES_NOT_FIT && out->upper <= out->usable) return false;
    if (!json_text(json_member(all, "utilization.family"), out->family, sizeof out->family))
        out->family[0] = 0;
    if (c->shards) {
        int64_t reserve = c->reserve >= 0 ? c->reserve : out->capacity - out->usable;
        int64_t bytes = out->upper + (reserve < most_bytes ? reserve : most_bytes);
        out->shards = (bytes + shard_bytes - 1) / shard_bytes;
        if (out->shards > c->shards) out->shards = c->shards;
    }
    return true;
}

void judge_problem(const http_answer *answer, text *wrong) {
    json all = {answer->body, answer->body + answer->length};
    char detail[512], where[64];
    if (!json_check(all) || !json_text(json_member(all, "detail"), detail, sizeof detail)) {
        text_add(wrong, "status %d", answer->status);
        return;
    }
    if (json_text(json_member(all, "where"), where, sizeof where) && where[0])
        text_add(wrong, "%s: ", where);
    for (char *c = detail; *c; c++) /* it goes to logs and terminals */
        if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
    text_add(wrong, "%s", detail);
}

static judge_outcome ask(const asking *a, const request *r, const card *c, const char *path,
                         http_answer *answer, text *wrong) {
    char body[REQUEST_BODY];
    text question = text_in(body, sizeof body);
    request_body(r, c->gpu, "", &question);
    http_outcome outcome = HTTP_WRONG;
    if (!question.cut)
        outcome = http_ask(&a->settings->daemon, "POST", path, "application/json", body,
                           question.length, a->until, a->room, a->size, answer);
    if (outcome != HTTP_ANSWERED) {
        text_add(wrong, "%s", question.cut ? "the question is too large" : answer->why);
        return JUDGE_AWAY;
    }
    if (answer->status == 200) return JUDGED;
    judge_problem(answer, wrong);
    /* 429, 503 and their like: not the request's fault. */
    return answer->status == 404                            ? JUDGE_UNKNOWN
           : answer->status == 400 || answer->status == 422 ? JUDGE_DENIED
                                                            : JUDGE_AWAY;
}

judge_outcome judge_cards(const asking *a, const request *r, const char *type, judged *out,
                          int *count, text *wrong) {
    *count = 0;
    for (int i = 0; i < a->settings->count; i++) {
        const card *c = &a->settings->cards[i];
        if (*type && strcmp(c->type, type) != 0) continue;
        http_answer answer;
        judge_outcome outcome = ask(a, r, c, "/v1/estimate", &answer, wrong);
        if (outcome != JUDGED) return outcome;
        if (!judge_estimate(answer.body, answer.length, c, a->settings->shard_bytes,
                            &out[*count])) {
            text_add(wrong, "what it answered is not an estimate");
            return JUDGE_AWAY;
        }
        ++*count;
    }
    return JUDGED;
}

/* One remedy's settings as a request has them. */
static void write_remedy(json remedy, text *out) {
    json inside = {0}, value, changed = json_member(remedy, "settings");
    char name[32], said[64];
    for (bool first = true; json_next(changed, &inside, name, sizeof name, &value); first = false)
        if (json_text(value, said, sizeof said))
            text_add(out, "%s%s=%s", first ? "" : ",", name, said);
    int64_t upper;
    if (json_whole(json_member(remedy, "upper_bytes"), &upper) && upper > 0 && upper < most_bytes) {
        text_add(out, " (");
        text_bytes(out, upper);
        text_add(out, ")");
    }
}

void judge_pick(const http_answer *explained, text *out) {
    json all = {explained->body, explained->body + explained->length};
    if (!json_check(all)) return;
    /* The smallest change, the first with checkpointing, the first on another card. */
    static const char *const having[] = {"settings", "settings.checkpoint", "settings.gpu"};
    const char *said[3] = {0};
    json remedies = json_member(all, "remedies");
    for (int i = 0; i < 3; i++) {
        json inside = {0}, one;
        while (json_element(remedies, &inside, &one)) {
            char verdict[16] = "";
            json_text(json_member(one, "verdict"), verdict, sizeof verdict);
            if (!json_member(one, having[i]).at || strcmp(verdict, words[FITS]) != 0) continue;
            if (one.at != said[0] && one.at != said[1]) {
                text_add(out, "%s", out->length ? "; " : "");
                write_remedy(one, out);
                said[i] = one.at;
            }
            break;
        }
    }
}

void judge_remedies(const asking *a, const request *r, const card *c, text *out) {
    char unsaid[640];
    text wrong = text_in(unsaid, sizeof unsaid);
    http_answer answer;
    if (ask(a, r, c, "/v1/explain", &answer, &wrong) == JUDGED) judge_pick(&answer, out);
}

const judged *judge_best(const judged *cards, int count) {
    const judged *best = cards;
    for (int i = 1; i < count; i++)
        if (cards[i].verdict < best->verdict ||
            (cards[i].verdict == best->verdict &&
             (best->verdict == FITS ? cards[i].upper > best->upper
                                    : cards[i].usable > best->usable)))
            best = &cards[i];
    return best;
}
