/* options: see options.h. The syntax is the one GNU programs share: --name VALUE, --name=VALUE, -n
 * VALUE, -nVALUE, options and operand in any order, -- ends the options. Left out: abbreviated
 * names, which break scripts when an option is added, and several letters behind one dash. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text.h"

#define IN(v)     (1u << VERB_##v)
#define MODEL     (IN(ESTIMATE) | IN(EXPLAIN) | IN(CHECK) | IN(FIT))
#define ALL_VERBS ((1u << VERBS) - 1)
#define PLACE(f)  offsetof(request, f)

const verb_row verb_table[VERBS] = {
    [VERB_ESTIMATE] =
        {"estimate", "FILE", "peak GPU memory of training a model, and where it goes",
         "Simulates three training steps of the model in FILE (a .pt2 archive of "
         "torch.export.save, or the model.json inside one) and prints the peak that "
         "nvidia-smi would show, its interval, what it is made of, and whether it fits. "
         "Dynamic dimensions other than batch and sequence length are taken at the size they "
         "were exported with."},
    [VERB_EXPLAIN] =
        {"explain", "FILE", "what is alive at the peak, and what would change it",
         "Prints what is alive at the peak by module and by kind, the largest tensors, and "
         "what checkpointing, another optimizer, another precision or another batch would "
         "change, each of them simulated."},
    [VERB_CHECK] =
        {"check", "FILE", "a gate: exit code 0 when the job fits, 10 when it does not",
         "Prints one line. The job fits when the upper end of its interval does not exceed "
         "what the card holds."},
    [VERB_FIT] =
        {"fit", "FILE", "the largest batch for a GPU, and the GPUs a job fits on",
         "Finds the largest batch that fits the card (the model has to be exported with a "
         "dynamic batch), verified at the answer and one above it; then simulates the job as "
         "given on every card of the catalogue."},
    [VERB_EVALUATE] =
        {"evaluate", "JOBS", "an estimator against measured jobs",
         "Runs every job of JOBS (JSON lines, plain or .xz) through an estimator and "
         "compares with what was measured. The graph of a job is ID.pt2 or ID.json in the "
         "folder of --graphs."},
    [VERB_GPUS] =
        {"gpus", NULL, "the catalogue of GPUs",
         "Lists the cards that --gpu knows: memory as nvidia-smi reports it, compute "
         "capability, multiprocessors, bandwidth, peak rates, and whether they were measured."},
};

const char *gpu_name(size_t index) {
    const pl_gpu *gpu = pl_gpu_at(index);
    return gpu ? gpu->name : NULL;
}

const char *loss_name(size_t index) {
    static const char *const names[] = {"auto", "ce", "mse", "own", "none"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

/* In the order they are shown. */
const option_row option_table[] = {
    {MODEL, "batch", 'b', "N", OPTION_COUNT, PLACE(job.batch), NULL, "as exported",
     "samples a step, for models exported with a dynamic batch"},
    {MODEL, "seq", 's', "N", OPTION_COUNT, PLACE(job.seq), NULL, "as exported",
     "sequence length, for models exported with a dynamic one"},
    {MODEL, "precision", 'p', "P", OPTION_PRECISION, PLACE(job.precision), pl_precision_name,
     "as exported", "type of weights and arithmetic; amp- is autocast over fp32 weights"},
    {MODEL, "optimizer", 'o', "O", OPTION_NAME, PLACE(job.optimizer), pl_optimizer_name, "adamw",
     "one of torch.optim's optimizers, or lion, with its defaults; none: no training"},
    {MODEL, "loss", 'l', "L", OPTION_LOSS, PLACE(job.loss), loss_name, "auto",
     "loss put on the model's output; own: the model returns it; auto: own for a scalar, else ce"},
    {MODEL, "checkpoint", 'c', NULL, OPTION_SWITCH, PLACE(job.checkpoint), NULL, NULL,
     "activation checkpointing of the repeated blocks"},
    {MODEL, "accumulate", 'a', "N", OPTION_PASSES, PLACE(job.accumulate), NULL, "1",
     "backward passes before each optimizer step, 1 to 4096"},
    {MODEL, "channels-last", 0, NULL, OPTION_SWITCH, PLACE(job.channels_last), NULL, NULL,
     "model and images in channels_last memory format"},
    {MODEL, "cudnn-benchmark", 0, NULL, OPTION_SWITCH, PLACE(job.cudnn_benchmark), NULL, NULL,
     "torch.backends.cudnn.benchmark is on"},
    {MODEL, "alloc-conf", 0, "S", OPTION_TEXT, PLACE(job.alloc_conf), NULL, NULL,
     "PYTORCH_CUDA_ALLOC_CONF of the job"},
    {MODEL, "parallel", 0, "KIND:N", OPTION_PARALLEL, 0, NULL, NULL,
     "one rank of N: ddp:N, or fsdp2:N[:STAGE[:mp]] with stage 2 or 3, mp for bf16 parameters"},
    {MODEL | IN(EVALUATE), "gpu", 'g', "G", OPTION_GPU, PLACE(job.gpu), gpu_name, "h200",
     "the card; plimsoll gpus lists them"},
    {MODEL | IN(EVALUATE), "estimator", 'e', "E", OPTION_NAME, PLACE(job.estimator),
     pl_estimator_name, "sim", "how the peak is found"},
    {IN(ESTIMATE) | IN(EXPLAIN), "timeline", 't', "FILE", OPTION_FILE, PLACE(timeline), NULL, NULL,
     "write the memory of the three steps to FILE, a picture (.svg) or numbers (.csv)"},
    {IN(FIT), "most", 'm', "N", OPTION_COUNT, PLACE(most), NULL, "65536", "largest batch to try"},
    {IN(EVALUATE), "graphs", 'G', "DIR", OPTION_FOLDER, PLACE(graphs), NULL, NULL,
     "folder of the jobs' graphs (needed)"},
    {IN(EVALUATE), "threads", 0, "N", OPTION_THREADS, PLACE(threads), NULL, "one a core",
     "jobs estimated at a time, 1 to 256"},
    {IN(EVALUATE), "csv", 0, "FILE", OPTION_FILE, PLACE(csv), NULL, NULL,
     "write one line a job to FILE"},
    {IN(EVALUATE), "scatter", 0, "FILE", OPTION_FILE, PLACE(scatter), NULL, NULL,
     "write a picture of predicted against measured peaks to FILE (.svg)"},
    {ALL_VERBS, "json", 'j', NULL, OPTION_SWITCH, PLACE(json), NULL, NULL,
     "print one JSON object instead of text"},
    {ALL_VERBS | 1u << VERB_NONE, "help", 'h', NULL, OPTION_SWITCH, PLACE(help), NULL, NULL,
     "print this help"},
    {ALL_VERBS | 1u << VERB_NONE, "version", 'V', NULL, OPTION_SWITCH, PLACE(version), NULL, NULL,
     "print the version"},
};
const size_t option_count = sizeof option_table / sizeof *option_table;

/* ---- nearest spelling ---- */

/* Insertions, deletions, changes and swaps of neighbours that turn a into b (optimal string
 * alignment). Words of 32 letters or more are far from everything. */
static size_t distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    size_t rows = strlen(a), columns = strlen(b);
    if (rows >= LONGEST || columns >= LONGEST) return LONGEST;
    size_t cost[LONGEST][LONGEST];
    for (size_t i = 0; i <= rows; i++) cost[i][0] = i;
    for (size_t k = 0; k <= columns; k++) cost[0][k] = k;
    for (size_t i = 1; i <= rows; i++)
        for (size_t k = 1; k <= columns; k++) {
            size_t best = cost[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            if (cost[i - 1][k] + 1 < best) best = cost[i - 1][k] + 1;
            if (cost[i][k - 1] + 1 < best) best = cost[i][k - 1] + 1;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                cost[i - 2][k - 2] + 1 < best)
                best = cost[i - 2][k - 2] + 1;
            cost[i][k] = best;
        }
    return cost[rows][columns];
}

const char *nearest_name(const char *word, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t least =
        1 + (strlen(word) + 1) / 3; /* one slip in three letters is still the same word */
    for (size_t i = 0; i < count; i++) {
        size_t far = distance(word, candidates[i]);
        if (far < least) {
            least = far;
            best = candidates[i];
        }
    }
    return best;
}

/* ---- complaints of usage ---- */

static const char *see_help(verb v) {
    static char text[64];
    snprintf(text, sizeof text, "see plimsoll %s%s--help", v < VERBS ? verb_table[v].name : "",
             v < VERBS ? " " : "");
    return text;
}

static int unknown_option(verb v, const char *given) {
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < option_count && count < 64; i++)
        if (option_table[i].verbs >> v & 1) names[count++] = option_table[i].name;
    const char *near =
        given[0] == '-' && given[1] == '-' ? nearest_name(given + 2, names, count) : NULL;
    if (near)
        return complain(PL_USAGE, "unknown option %s; did you mean --%s? (%s)", given, near,
                        see_help(v));
    return complain(PL_USAGE, "unknown option %s; %s", given, see_help(v));
}

static int unknown_verb(const char *given) {
    const char *names[VERBS];
    for (size_t i = 0; i < VERBS; i++) names[i] = verb_table[i].name;
    const char *near = nearest_name(given, names, VERBS);
    if (near) return complain(PL_USAGE, "unknown verb %s; did you mean plimsoll %s?", given, near);
    return complain(PL_USAGE, "unknown verb %s; %s", given, see_help(VERB_NONE));
}

static char folded(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static const char *skip_marks(const char *text) {
    return text + strspn(text, " -_");
}

/* Whether name begins with given, whatever its case and its hyphens: a100-40gb with A100. */
static bool begins_with(const char *name, const char *given) {
    for (given = skip_marks(given); *given; given = skip_marks(given + 1), name++) {
        name = skip_marks(name);
        if (*name != folded(*given)) return false;
    }
    return true;
}

/* "did you mean a100-40gb or a100-80gb? ", of the names that begin so, else of the nearest; ""
 * where there is none, or so many that the list says it better. */
static void suggest(char *out, size_t size, const char *given, const char *const *names,
                    size_t count) {
    enum { MOST = 6, FEWEST_LETTERS = 2 };
    const char *found[MOST];
    size_t begin = 0, used = 0;
    for (size_t i = 0; i < count && strlen(given) >= FEWEST_LETTERS; i++)
        if (begins_with(names[i], given) && ++begin <= MOST) found[begin - 1] = names[i];
    const char *near = nearest_name(given, names, count);
    if (begin == 0 && near) found[begin++] = near;
    out[0] = '\0';
    if (begin == 0 || begin > MOST) return;
    for (size_t i = 0; i < begin && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s%s",
                                 i == 0           ? "did you mean "
                                 : i + 1 == begin ? " or "
                                                  : ", ",
                                 found[i], i + 1 == begin ? "? " : "");
}

/* Says which values there are, the likeliest first of all. */
static int unknown_value(const option_row *row, const char *given) {
    char list[1024] = "", likely[256];
    const char *names[128];
    size_t count = 0, used = 0;
    for (const char *name; count < 128 && (name = row->names(count)); count++) {
        names[count] = name;
        if (used < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", count ? ", " : "", name);
    }
    suggest(likely, sizeof likely, given, names, count);
    return complain(PL_USAGE, "--%s: no %s called %s; %sthere are %s", row->name, row->name, given,
                    likely, list);
}

/* ---- values ---- */

/* The start of a request as type; place comes from offsetof of a member of that type. */
#define AT(type) (*(type *)(void *)((char *)out + row->place))

static int set_count(const option_row *row, const char *value, int64_t most, int64_t *number) {
    char *end;
    errno = 0;
    long long got = strtoll(value, &end, 10);
    if (errno || end == value || *end || value[0] == ' ' || got < 1 || got > most)
        return complain(PL_USAGE, "--%s: %s is not a whole number from 1 to %" PRId64, row->name,
                        value, most);
    *number = got;
    return 0;
}

/* The row's name that value means, whatever its case; NULL: none, or one of several. */
static const char *listed_name(const option_row *row, const char *value) {
    const char *name, *found = NULL;
    const pl_gpu *gpu = row->type == OPTION_GPU ? pl_gpu_find(value) : NULL;
    if (gpu) return gpu->name;
    for (size_t i = 0; (name = row->names(i)); i++) {
        if (strcmp(name, value) == 0) return name;
        if (strcasecmp(name, value) != 0) continue;
        if (found) return NULL;
        found = name;
    }
    return found;
}

static int set_value(request *out, const option_row *row, const char *value) {
    enum { MOST_COUNT = 1 << 30 };
    int64_t number = 0;
    int failed = 0;
    const char *name = row->names ? listed_name(row, value) : NULL;
    switch (row->type) {
    case OPTION_SWITCH: AT(bool) = true; return 0;
    case OPTION_COUNT: return set_count(row, value, MOST_COUNT, &AT(int64_t));
    case OPTION_THREADS: return set_count(row, value, MOST_THREADS, &AT(int64_t));
    case OPTION_PASSES:
        failed = set_count(row, value, MOST_PASSES, &number);
        if (!failed) AT(int) = (int)number;
        return failed;
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_FOLDER: AT(const char *) = value; return 0;
    case OPTION_NAME:
    case OPTION_GPU:
        if (!name) return unknown_value(row, value);
        AT(const char *) = name;
        return 0;
    case OPTION_PRECISION:
        return name && pl_precision_parse(name, &AT(pl_precision)) ? 0 : unknown_value(row, value);
    case OPTION_LOSS:
        return name && pl_loss_parse(name, &AT(pl_loss)) ? 0 : unknown_value(row, value);
    case OPTION_PARALLEL:
        if (pl_parallel_parse(value, &out->job)) return 0;
        if (strchr(value, ':') && strtoll(strchr(value, ':') + 1, NULL, 10) > MOST_RANKS)
            return complain(PL_USAGE, "--parallel: %s: N is too large, there are at most %d ranks",
                            value, MOST_RANKS);
        return complain(PL_USAGE,
                        "--parallel: %s is none of ddp:N, fsdp2:N, fsdp2:N:2, fsdp2:N:3:mp", value);
    }
    return complain(PL_USAGE, "--%s cannot be set", row->name);
}

/* ---- parsing ---- */

static const option_row *find_option(verb v, const char *name, size_t length, char letter) {
    for (size_t i = 0; i < option_count; i++) {
        const option_row *row = &option_table[i];
        if (!(row->verbs >> v & 1)) continue;
        if (name ? strlen(row->name) == length && strncmp(row->name, name, length) == 0
                 : row->letter && row->letter == letter)
            return row;
    }
    return NULL;
}

/* Reads the option at argv[*at]; moves *at to its last word. */
static int parse_option(request *out, int argc, char **argv, int *at) {
    const char *word = argv[*at], *value = NULL;
    const option_row *row;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        row = find_option(out->verb, word + 2,
                          equals ? (size_t)(equals - word - 2) : strlen(word + 2), 0);
        if (equals) value = equals + 1;
    } else {
        row = find_option(out->verb, NULL, 0, word[1]);
        if (word[2]) value = word + 2;
    }
    if (!row) return unknown_option(out->verb, word);
    if (!row->argument && value)
        return complain(PL_USAGE, "--%s takes no value, but was given %s", row->name, value);
    if (row->argument && !value) {
        if (*at + 1 >= argc)
            return complain(PL_USAGE, "--%s needs a value %s; %s", row->name, row->argument,
                            see_help(out->verb));
        value = argv[++*at];
    }
    return set_value(out, row, value);
}

int options_parse(request *out, int argc, char **argv) {
    *out = (request){.verb = VERB_NONE, .most = 65536};
    pl_job_default(&out->job);
    int at = 1;
    if (at < argc && strcmp(argv[at], "help") == 0) { /* help VERB is VERB --help */
        out->help = true;
        at++;
    }
    if (at < argc && argv[at][0] != '-') {
        verb v = 0;
        while (v < VERBS && strcmp(argv[at], verb_table[v].name) != 0) v++;
        if (v == VERBS) return unknown_verb(argv[at]);
        out->verb = v;
        at++;
    }
    bool options_over = false;
    for (; at < argc; at++) {
        const char *word = argv[at];
        if (!options_over && strcmp(word, "--") == 0) {
            options_over = true;
        } else if (!options_over && word[0] == '-' && word[1]) {
            int failed = parse_option(out, argc, argv, &at);
            if (failed) return failed;
        } else if (out->verb == VERB_NONE) {
            return complain(PL_USAGE, "%s: the verb comes first; %s", word, see_help(VERB_NONE));
        } else if (!verb_table[out->verb].operand || out->file) {
            return complain(PL_USAGE, "%s: one %s too many; %s", word,
                            verb_table[out->verb].operand ? verb_table[out->verb].operand : "word",
                            see_help(out->verb));
        } else {
            out->file = word;
        }
    }
    if (out->help || out->version) return 0;
    if (out->verb == VERB_NONE)
        return complain(PL_USAGE, "a verb is needed; %s", see_help(VERB_NONE));
    if (verb_table[out->verb].operand && !out->file)
        return complain(PL_USAGE, "%s needs a %s; %s", verb_table[out->verb].name,
                        verb_table[out->verb].operand, see_help(out->verb));
    return 0;
}
