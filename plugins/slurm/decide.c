/* decide: see decide.h. */
#include "decide.h"

#include <string.h>

bool decide_shards(const settings *s, const demand *d, decision *out) {
    memset(out, 0, sizeof *out);
    if (!s->refuse || s->across || !d->readable) return true;
    const struct {
        const tres *list;
        const char *what;
    } lists[] = {
        {&d->node, "a node"}, {&d->task, "a task"}, {&d->socket, "a socket"}, {&d->job, "the job"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i].list == &d->job && !d->one_node) continue;
        int64_t most = settings_most_shards(s, lists[i].list->type);
        if (!most || lists[i].list->shards <= most) continue;
        out->action = REFUSE;
        text say = text_in(out->say, sizeof out->say);
        text_add(
            &say,
            "plimsoll: %lld shards for %s are more than the %lld of one GPU: Slurm would let the job wait for ever",
            (long long)lists[i].list->shards, lists[i].what, (long long)most);
        return false;
    }
    return true;
}

/* The GPUs of all lists in one: what kind, and how many at least. */
static tres in_all(const demand *d) {
    const tres *lists[] = {&d->node, &d->job, &d->task, &d->socket};
    tres sum = {0};
    for (int i = 0; i < 4; i++) {
        if (lists[i]->gpus > sum.gpus) sum.gpus = lists[i]->gpus;
        if (lists[i]->shards > sum.shards) sum.shards = lists[i]->shards;
        sum.gpu_items += lists[i]->gpu_items;
        sum.others |= lists[i]->others;
        if (lists[i]->type[0]) memcpy(sum.type, lists[i]->type, sizeof sum.type);
    }
    return sum;
}

/* Shards that are right on whichever card the job comes to; 0: there is no such number. */
static int64_t shards_of(const judged *cards, int count) {
    int64_t most = 0, room = 0;
    for (int i = 0; i < count; i++) {
        if (!cards[i].shards) return 0;
        if (cards[i].verdict != FITS) continue;
        if (cards[i].shards > most) most = cards[i].shards;
        if (!room || cards[i].card->shards < room) room = cards[i].card->shards;
    }
    /* So many that Slurm cannot put it on a card that it does not fit. */
    for (int i = 0; i < count; i++)
        if (cards[i].verdict != FITS && most <= cards[i].card->shards)
            most = cards[i].card->shards + 1;
    return most < room ? most : 0; /* a whole card needs no shards */
}

static void say_judged(text *say, const judged *j) {
    text_add(say, "plimsoll: %s %s: up to ", verdict_words(j->verdict), j->card->type);
    text_bytes(say, j->upper);
    text_add(say, " of ");
    text_bytes(say, j->usable);
    if (j->corrected) text_add(say, " (by this cluster's jobs)");
}

static void say_refused(const asking *a, const request *r, const judged *cards, int count,
                        const judged *best, text *say) {
    text_add(say, "plimsoll: %s: needs at least ",
             count > 1 ? "fits no GPU of this cluster" : "does not fit");
    for (int i = 0; i < count; i++) {
        text_add(say, "%s", i ? ", " : "");
        text_bytes(say, cards[i].low);
        text_add(say, " of ");
        text_bytes(say, cards[i].usable);
        text_add(say, " on %s", cards[i].card->type);
    }
    char room[768];
    text remedies = text_in(room, sizeof room);
    judge_remedies(a, r, best->card, &remedies);
    if (remedies.length) text_add(say, "\nplimsoll: what would fit: %s", room);
}

static void write_note(const request *r, const judged *j, const tres *asked, int64_t shards,
                       char *room, size_t size) {
    char settings[512];
    text all = text_in(settings, sizeof settings), note = text_in(room, size);
    request rest = *r;
    memcpy(rest.model, "-", 2); /* it has a member of its own */
    request_write(&rest, &all);
    const char *behind = strchr(settings, ',');
    text_add(&note, "{\"plimsoll\":{\"model\":");
    text_quote(&note, r->model);
    text_add(&note, ",\"settings\":");
    text_quote(&note, behind ? behind + 1 : "");
    text_add(&note, ",\"gpu\":");
    text_quote(&note, j->card->type);
    text_add(&note, ",\"peak_bytes\":%lld,\"low_bytes\":%lld,\"upper_bytes\":%lld,\"verdict\":",
             (long long)j->peak, (long long)j->low, (long long)j->upper);
    text_quote(&note, verdict_words(j->verdict));
    text_add(&note,
             ",\"asked\":{\"gpus\":%lld,\"shards\":%lld},\"shards\":", (long long)asked->gpus,
             (long long)asked->shards);
    text_add(&note, shards ? "%lld}}" : "null}}", (long long)shards);
    if (note.cut) room[0] = 0;
}

static void not_checked(decision *out, const char *why) {
    text log = text_in(out->log, sizeof out->log), say = text_in(out->say, sizeof out->say);
    text_add(&log, "plimsoll: the job passes unchecked: %s", why);
    text_add(&say, "plimsoll: the job was not checked: %s", why);
}

void decide(const settings *s, const demand *d, const request *r, const asking *a, decision *out) {
    if (!decide_shards(s, d, out) || !r) return;
    text say = text_in(out->say, sizeof out->say);
    if (!d->readable) {
        not_checked(out, "its GPUs are asked for in words that are not understood");
        return;
    }
    tres asked = in_all(d);
    const card *typed = settings_card(s, asked.type);
    if (asked.type[0] && !typed) {
        char why[160];
        text words = text_in(why, sizeof why);
        text_add(&words, "plimsoll.conf has no card of type %s", asked.type);
        not_checked(out, why);
        return;
    }
    char wrong[640];
    text words = text_in(wrong, sizeof wrong);
    judged cards[SETTINGS_CARDS];
    int count;
    switch (judge_cards(a, r, asked.type, cards, &count, &words)) {
    case JUDGED: break;
    case JUDGE_AWAY:
        out->failed = true;
        not_checked(out, wrong);
        return;
    case JUDGE_DENIED:
        out->denied = true;
        not_checked(out, wrong);
        say = text_in(out->say, sizeof out->say);
        text_add(&say, "plimsoll: %s", wrong);
        return;
    case JUDGE_UNKNOWN: not_checked(out, wrong); return;
    }
    const judged *best = judge_best(cards, count);
    bool many = asked.gpus > 1;
    static const char parallel[] = "parallel";
    bool spread = false; /* how it is spread over its GPUs was said */
    for (size_t i = 0; request_setting(i); i++)
        if (strcmp(request_setting(i), parallel) == 0) spread = r->values[i][0];
    if (best->verdict == DOES_NOT_FIT) {
        if (!s->refuse || (many && !spread)) {
            say_judged(&say, best);
            if (many && !spread)
                text_add(&say, " on one GPU alone; %s=fsdp2:%lld, or ddp, says how it is spread",
                         parallel, (long long)asked.gpus);
        } else {
            out->action = REFUSE;
            say_refused(a, r, cards, count, best, &say);
        }
        write_note(r, best, &asked, 0, out->note, sizeof out->note);
        return;
    }
    if (best->verdict == MAY_NOT_FIT) {
        say_judged(&say, best);
        write_note(r, best, &asked, 0, out->note, sizeof out->note);
        return;
    }
    int64_t shards = shards_of(cards, count);
    const tres *where = d->node.gpus ? &d->node : &d->job;
    bool one = asked.gpus == 1 && asked.gpu_items == 1 && where->gpus == 1 && !asked.shards &&
               !asked.others;
    /* Slurm takes no type with shards: a type stays where it says something. */
    bool any = !asked.type[0] || s->count == 1;
    if (s->rewrite && shards && one && any && d->one_node && !d->exclusive && !d->per_gpu &&
        d->rewritable) {
        out->action = REWRITE;
        out->shards = shards;
        if (s->tell) {
            say_judged(&say, best);
            text_add(&say, ": shard:%lld in place of %s:1", (long long)shards, "gpu");
        }
    } else if (asked.shards && shards && asked.shards < shards) {
        say_judged(&say, best);
        text_add(&say, ", which is %lld shards; shard:%lld stays as it was asked for",
                 (long long)shards, (long long)asked.shards);
    }
    write_note(r, best, &asked, out->action == REWRITE ? shards : asked.shards, out->note,
               sizeof out->note);
}
