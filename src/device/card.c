/* card: one card as it was asked for: a row of a catalogue, with the memory that was given for it
 * ("a100-80gb,memory=40GiB"). Memory changes what fits, not what a job takes: the row's context,
 * rates and calibration stay. Left out: other columns; who wants those writes a row (card_file.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "device/catalogue.h"

static const double least_memory = 1048576, most_memory = 17592186044416.0; /* 1 MiB, 16 TiB */

static bool same_word(const char *text, size_t length, const char *word) {
    if (strlen(word) != length) return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        if (c != word[i]) return false;
    }
    return true;
}

/* "40GiB", "40g", "40960MiB", "42949672960". GB and MB are refused: of cards they are sold as either. */
static pl_status read_memory(int64_t *out, const char *text, size_t length, pl_error *err) {
    static const struct {
        const char *name;
        double size;
    } units[] = {{"gib", 1073741824},      {"g", 1073741824}, {"mib", 1048576}, {"m", 1048576},
                 {"tib", 1099511627776.0}, {"b", 1},          {"", 1}};
    size_t digits = 0, space;
    while (digits < length && strchr("0123456789.", text[digits])) digits++;
    for (space = digits; space < length && text[space] == ' ';) space++;
    double number;
    if (!pl_number_read(text, digits, &number)) number = -1;
    if (number > 0 && (same_word(text + space, length - space, "gb") ||
                       same_word(text + space, length - space, "mb")))
        return pl_fail(
            err, PL_USAGE, "gpu", -1,
            "memory=%.*s: GB and MB mean one size to some and another to others; say GiB "
            "(2^30 bytes) or MiB, as nvidia-smi does",
            (int)(length < 40 ? length : 40), text);
    for (size_t i = 0; number > 0 && i < sizeof units / sizeof *units; i++) {
        if (!same_word(text + space, length - space, units[i].name)) continue;
        double bytes = number * units[i].size;
        if (!(bytes >= least_memory && bytes <= most_memory)) break;
        *out = (int64_t)bytes;
        return PL_OK;
    }
    return pl_fail(err, PL_USAGE, "gpu", -1,
                   "memory=%.*s is not a size from 1 MiB to 16 TiB, such as 40GiB or 23028MiB",
                   (int)(length < 40 ? length : 40), text);
}

/* 40GiB, 23028MiB, or bytes: in the largest unit that says it exactly. */
static void write_memory(char *out, size_t size, const char *space, int64_t bytes) {
    static const struct {
        const char *name;
        int64_t size;
    } units[] = {{"GiB", 1073741824}, {"MiB", 1048576}, {"B", 1}};
    size_t i = 0;
    while (bytes % units[i].size) i++;
    snprintf(out, size, "%lld%s%s", (long long)(bytes / units[i].size), space, units[i].name);
}

static void take_row(pl_card *out, const pl_gpu *row) {
    out->gpu = *row;
    snprintf(out->name, sizeof out->name, "%s", row->name);
    snprintf(out->title, sizeof out->title, "%s", row->title);
    snprintf(out->source, sizeof out->source, "%s", row->source);
    snprintf(out->part_of, sizeof out->part_of, "%s", row->part_of ? row->part_of : "");
    out->gpu.name = out->name;
    out->gpu.title = out->title;
    out->gpu.source = out->source;
    out->gpu.part_of = row->part_of ? out->part_of : NULL;
}

static void give_memory(pl_card *out, const pl_gpu *row, int64_t bytes) {
    char memory[32];
    out->gpu.capacity_bytes = bytes;
    write_memory(memory, sizeof memory, "", bytes);
    snprintf(out->name, sizeof out->name, "%s,memory=%s", row->name, memory);
    write_memory(memory, sizeof memory, " ", bytes);
    snprintf(out->title, sizeof out->title, "%s with %s of memory, as given", row->title, memory);
    snprintf(out->source, sizeof out->source, "memory: as given; %s", row->source);
}

pl_status pl_card_read(pl_card *out, const char *text, const pl_catalogue *own, pl_error *err) {
    enum { LONGEST = 256 };
    char name[LONGEST];
    if (!text) return pl_card_unknown(NULL, own, err);
    size_t length = strcspn(text, ",");
    if (length >= sizeof name) return pl_card_unknown(text, own, err);
    memcpy(name, text, length);
    name[length] = 0;
    const pl_gpu *row = pl_card_find(name, own);
    if (!row) return pl_card_unknown(name, own, err);
    take_row(out, row);
    for (const char *at = text + length; *at;) {
        at += 1 + strspn(at + 1, " ");
        length = strcspn(at, ",");
        static const char key[] = "memory=";
        if (strncmp(at, key, sizeof key - 1) != 0)
            return pl_fail(err, PL_USAGE, "gpu", -1,
                           "\"%.*s\" behind the card's name: only memory can be given there, "
                           "memory=40GiB; a card that differs otherwise is a row of one's own",
                           (int)(length < 60 ? length : 60), at);
        int64_t bytes = 0;
        pl_status status = read_memory(&bytes, at + sizeof key - 1, length - (sizeof key - 1), err);
        if (status != PL_OK) return status;
        give_memory(out, row, bytes);
        at += length;
    }
    return PL_OK;
}

pl_status pl_gpu_open(pl_gpu **out, const char *text, const pl_catalogue *own, pl_error *err) {
    *out = NULL;
    pl_card *card = malloc(sizeof *card);
    if (!card) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_status status = pl_card_read(card, text, own, err);
    if (status == PL_OK)
        *out = &card->gpu;
    else
        free(card);
    return status;
}

void pl_gpu_close(pl_gpu **gpu) {
    if (!gpu || !*gpu) return;
    free(*gpu); /* the first member of a pl_card */
    *gpu = NULL;
}
