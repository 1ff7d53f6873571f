/* catalogue: the GPUs that plimsoll knows, by name.
 *
 * The rows come from gpus.tsv, which explains its columns and gives the source of each row;
 * tools/gpus.awk makes gpu_rows.h of it. Names are taken as nvidia-smi, PyTorch, Slurm and
 * Kubernetes print them: letters and digits alone count. A name finds the one card that it means, or
 * none: what is longer than a row's name or shorter is another card ("RTX 4090 Laptop GPU", "H100
 * 64GB"), and what could be two is neither ("A100"). */
#include "device/catalogue.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/nearest.h"

static const pl_card_row rows[] = {
#include "gpu_rows.h"
};

enum { ROWS = sizeof rows / sizeof *rows, LONGEST = 96, MOST_NAMED = 6 };

const pl_gpu *pl_gpu_at(size_t index) {
    return index < ROWS ? &rows[index].gpu : NULL;
}

/* ---- names ---- */

/* A name without its marks. The parts before and behind it that may be left out are kept apart. */
typedef struct bare_name {
    char text[LONGEST]; /* lower case letters and digits */
    size_t begins[5];   /* where it may be taken to begin: behind each of the makers before it */
    int begin_count;
    char profile[16]; /* of MIG, "1g5gb", or "": cut off text */
} bare_name;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Cuts a profile off the end: "1g5gb", with "mig" before it and "me" or "gfx" behind it. */
static void cut_profile(bare_name *n) {
    static const char *const media[] = {"meall", "me", "gfx"};
    size_t end = strlen(n->text), at;
    for (size_t i = 0; i < sizeof media / sizeof *media; i++) {
        size_t length = strlen(media[i]);
        if (end > length + 2 && strcmp(n->text + end - length, media[i]) == 0 &&
            strncmp(n->text + end - length - 2, "gb", 2) == 0) {
            end -= length;
            break;
        }
    }
    if (end < 5 || strncmp(n->text + end - 2, "gb", 2) != 0) return;
    for (at = end - 2; at > 0 && is_digit(n->text[at - 1]);) at--;
    if (at == end - 2 || at < 2 || n->text[at - 1] != 'g' || !strchr("12347", n->text[at - 2]))
        return;
    at -= 2;
    if (end - at >= sizeof n->profile) return;
    memcpy(n->profile, n->text + at, end - at);
    n->profile[end - at] = 0;
    if (at >= 3 && strncmp(n->text + at - 3, "mig", 3) == 0) at -= 3;
    n->text[at] = 0;
}

/* false: too long for any. */
static bool read_name(bare_name *out, const char *text) {
    static const char *const makers[] = {"nvidia", "geforce", "tesla", "quadro"};
    size_t length = 0;
    *out = (bare_name){.begin_count = 1};
    for (; *text; text++) {
        char c = *text;
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if (!(c >= 'a' && c <= 'z') && !is_digit(c)) continue;
        if (length + 1 == LONGEST) return false;
        out->text[length++] = c;
    }
    out->text[length] = 0;
    cut_profile(out);
    length = strlen(out->text);
    if (length > 3 && strcmp(out->text + length - 3, "gpu") == 0) out->text[length - 3] = 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        size_t last = out->begins[out->begin_count - 1], maker = strlen(makers[i]);
        if (strncmp(out->text + last, makers[i], maker) == 0)
            out->begins[out->begin_count++] = last + maker;
    }
    return true;
}

/* Whether name is one of the comma-separated words of list. */
static bool in_list(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && length > 0; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (!strncmp(at, name, length) && (!at[length] || at[length] == ',')) return true;
    }
    return false;
}

/* Whether the name, or what is left of it without the makers before it, is this row's. */
static bool is_row(const bare_name *wanted, const pl_card_row *row) {
    bare_name own;
    if (!read_name(&own, row->gpu.name) || strcmp(own.profile, wanted->profile) != 0) return false;
    for (int i = 0; i < wanted->begin_count; i++) {
        const char *text = wanted->text + wanted->begins[i];
        if (*text && (strcmp(text, own.text) == 0 || in_list(row->aliases, text))) return true;
    }
    return false;
}

/* Whether the row's name begins with the name: the row is one of those that it could be. */
static bool could_be(const bare_name *wanted, const pl_card_row *row) {
    bare_name own;
    if (!read_name(&own, row->gpu.name) || strcmp(own.profile, wanted->profile) != 0) return false;
    for (int i = 0; i < wanted->begin_count; i++) {
        const char *text = wanted->text + wanted->begins[i];
        for (int k = 0; k < own.begin_count; k++)
            if ((*text || (*own.profile && !wanted->text[0])) &&
                strncmp(own.text + own.begins[k], text, strlen(text)) == 0)
                return true;
    }
    return false;
}

const pl_card_row *pl_card_rows(const pl_catalogue *own, size_t *count) {
    if (own) return pl_catalogue_rows(own, count);
    *count = ROWS;
    return rows;
}

/* In one table: the row that it is. Of an instance of MIG whose card is not told fully ("a100 1g.5gb")
 * the one row that it could be. */
static const pl_gpu *find_in(const bare_name *wanted, const pl_card_row *table, size_t count) {
    const pl_gpu *one = NULL, *card = NULL;
    int several = 0;
    for (size_t i = 0; i < count; i++)
        if (is_row(wanted, &table[i])) return &table[i].gpu;
    if (!wanted->profile[0] || !wanted->text[0]) return NULL;
    bare_name whole = *wanted;
    whole.profile[0] = 0;
    for (size_t i = 0; i < count && !card; i++)
        if (is_row(&whole, &table[i])) card = &table[i].gpu;
    for (size_t i = 0; i < count; i++) {
        const pl_card_row *row = &table[i];
        bare_name own;
        if (!row->gpu.part_of || !read_name(&own, row->gpu.name) ||
            strcmp(own.profile, wanted->profile) != 0)
            continue;
        if (card && strcmp(row->gpu.part_of, card->name) == 0) return &row->gpu;
        if (!card && could_be(wanted, row)) {
            one = &row->gpu;
            several++;
        }
    }
    return several == 1 ? one : NULL;
}

const pl_gpu *pl_card_find(const char *name, const pl_catalogue *own) {
    bare_name wanted;
    if (!name || !read_name(&wanted, name)) return NULL;
    const pl_gpu *found = NULL;
    size_t count;
    if (own) {
        const pl_card_row *table = pl_card_rows(own, &count);
        found = find_in(&wanted, table, count);
    }
    return found ? found : find_in(&wanted, rows, ROWS);
}

const pl_gpu *pl_gpu_find(const char *name) {
    return pl_card_find(name, NULL);
}

/* ---- names that are none ---- */

typedef struct named_cards {
    const char *names[MOST_NAMED];
    size_t far[MOST_NAMED]; /* letters apart, the fewest first */
    size_t count, seen;
} named_cards;

static void add_named(named_cards *to, const char *name, size_t far) {
    to->seen++;
    size_t at = to->count < MOST_NAMED ? to->count++ : MOST_NAMED;
    while (at > 0 && to->far[at - 1] > far) {
        if (at < MOST_NAMED) {
            to->names[at] = to->names[at - 1];
            to->far[at] = to->far[at - 1];
        }
        at--;
    }
    if (at < MOST_NAMED) {
        to->names[at] = name;
        to->far[at] = far;
    }
}

/* "a100-40gb, a100-64gb or a100-80gb" */
static void list_cards(char *out, size_t size, const named_cards *cards) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < cards->count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0                 ? ""
                                 : i + 1 < cards->count ? ", "
                                                        : " or ",
                                 cards->names[i]);
}

static size_t common_letters(const char *a, const char *b) {
    size_t length = 0;
    while (a[length] && a[length] == b[length]) length++;
    return length;
}

/* The rows that the name could be; those that begin as it does (rtx4..., h100...) or hold it ("4090");
 * those that are near to it in spelling, two letters of five apart at the most. */
static void collect(named_cards *likely, named_cards *alike, named_cards *near,
                    const bare_name *wanted, const pl_catalogue *own) {
    enum { SAME_LETTERS = 4, HELD_LETTERS = 3 };
    for (int library = own ? 0 : 1; library < 2; library++) {
        size_t count;
        const pl_card_row *table = pl_card_rows(library ? NULL : own, &count);
        for (size_t i = 0; i < count; i++) {
            bare_name row;
            const char *text = wanted->text + wanted->begins[wanted->begin_count - 1];
            if (!read_name(&row, table[i].gpu.name)) continue;
            if (could_be(wanted, &table[i])) add_named(likely, table[i].gpu.name, 0);
            if (row.profile[0]) continue;
            const char *bare = row.text + row.begins[row.begin_count - 1];
            size_t far = pl_spelling_distance(text, bare), length = strlen(text);
            if (5 * far <= 2 * length) add_named(near, table[i].gpu.name, far);
            if (common_letters(text, bare) >= SAME_LETTERS ||
                (length >= HELD_LETTERS && strstr(bare, text)))
                add_named(alike, table[i].gpu.name, far);
        }
    }
}

/* AMD's, Intel's, Google's and Apple's names; "#": a digit. */
static bool is_of_another_maker(const bare_name *wanted) {
    static const char *const begins[] = {"amd",   "instinct", "radeon", "mi#", "rx#",   "gfx#",
                                         "intel", "gaudi",    "habana", "tpu", "apple", "mps"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t same = common_letters(wanted->text, begins[i]);
        if (!begins[i][same] || (begins[i][same] == '#' && is_digit(wanted->text[same])))
            return true;
    }
    return false;
}

pl_status pl_card_unknown(const char *name, const pl_catalogue *own, pl_error *err) {
    static const char other[] =
        "a card that is not there is a near one with its memory (\"a100-80gb,memory=40GiB\") or a "
        "row of one's own";
    bare_name wanted;
    named_cards likely = {.count = 0}, alike = {.count = 0}, near = {.count = 0};
    char list[256];
    if (!name) return pl_fail(err, PL_USAGE, "gpu", -1, "expected the name of a card");
    if (read_name(&wanted, name)) collect(&likely, &alike, &near, &wanted, own);
    bool tells = strlen(wanted.text) > 1 || wanted.profile[0];
    if (tells && likely.count > 1 && likely.seen <= MOST_NAMED) {
        list_cards(list, sizeof list, &likely);
        return pl_fail(err, PL_USAGE, "gpu", -1, "\"%.100s\" could be %s", name, list);
    }
    named_cards *shown = tells && likely.count ? &likely : alike.count ? &alike : &near;
    list_cards(list, sizeof list, shown);
    return pl_fail(err, PL_USAGE, "gpu", -1, "no card \"%.100s\" in the catalogue%s%s; %s", name,
                   shown->count                   ? "; the nearest names are "
                   : is_of_another_maker(&wanted) ? ", which holds NVIDIA's cards alone"
                                                  : "",
                   list, other);
}

/* ---- what a card gives ---- */

size_t pl_card_profile(const char *name) {
    const char *at = strrchr(name, '-');
    if (!at || at == name || at[1] < '1' || at[1] > '7' || strncmp(at + 2, "g.", 2) != 0) return 0;
    size_t digits = strspn(at + 4, "0123456789");
    return digits && strcmp(at + 4 + digits, "gb") == 0 ? (size_t)(at - name) : 0;
}

/* The rules of gpus.tsv's context, in whole MiB. */
bool pl_card_context(const char *rule, int64_t threads, int64_t *bytes) {
    static const struct {
        const char *name;
        double each; /* MiB for each 1,024 threads */
    } rules[] = {{"hopper", 2.2197}, {"general", 1.889}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rule, rules[i].name) == 0) {
            *bytes = (int64_t)(24 + rules[i].each * (double)threads / 1024 + 0.5) * 1048576;
            return true;
        }
    return false;
}

/* PyTorch's out-of-memory messages name 39.4 to 39.6 GiB of an A100's 40, 79.2 of the larger one's
 * 80, 23.6 of an RTX 4090's 23.99, 139.8 of an H200's 140.4: about 1.5 %, and no more than 0.9 GiB.
 */
int64_t pl_gpu_usable(const pl_gpu *gpu) {
    int64_t share = gpu->capacity_bytes / 200 * 3, most = (int64_t)896 << 20;
    return gpu->capacity_bytes - (share < most ? share : most);
}
