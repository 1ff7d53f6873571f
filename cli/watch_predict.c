/* watch_predict: what was predicted of the command: a number that the user has, what `plimsoll estimate` says of a model
 * and a job, the JSON of such an estimate, or what a Python script does under `python -m plimsoll`. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs.h"
#include "watch.h"

enum { MOST_WORDS = 128 };

/* Words as a shell would split them: quotes and backslashes, nothing else. In place; -1: a quote is open, or too many. */
static int split(char *text, char **words) {
    int count = 0;
    char *to = text;
    while (*text) {
        char quote = 0;
        while (isspace((unsigned char)*text)) text++;
        if (!*text) break;
        if (count == MOST_WORDS) return -1;
        words[count++] = to;
        for (; *text && (quote || !isspace((unsigned char)*text)); text++) {
            if (quote ? *text == quote : *text == '\'' || *text == '"')
                quote = quote ? 0 : *text;
            else if (*text == '\\' && quote != '\'' && text[1])
                *to++ = *++text;
            else
                *to++ = *text;
        }
        if (quote) return -1;
        bool more = *text != '\0';
        *to++ = '\0';
        text += more;
        if (!more) break;
    }
    return count;
}

static bool names_card(char *const *words, int count) {
    for (int i = 0; i < count; i++)
        if (strncmp(words[i], "--gpu=", 6) == 0 || strcmp(words[i], "--gpu") == 0 ||
            (words[i][0] == '-' && words[i][1] == 'g'))
            return true;
    return false;
}

/* The catalogue's name of the card that is there; NULL after complaining. */
static const char *live_card(const char *option, const char *gpu) {
    const pl_gpu *known = gpu[0] ? pl_gpu_find(gpu) : NULL;
    if (known) return known->name;
    if (gpu[0])
        complain(0, "%s: %s is not in the catalogue, and no --gpu is given: no prediction", option,
                 gpu);
    else
        complain(0, "%s: there is no card, and no --gpu is given: no prediction", option);
    return NULL;
}

static void open_estimate(watch_prediction *out, const char *option, const char *path) {
    pl_error err = PL_SIZED(pl_error);
    pl_demand demand = PL_SIZED(pl_demand);
    if (pl_demand_open(&demand, path, &err) == PL_OK)
        out->peak_bytes = demand.peak_bytes;
    else
        complain_of(&err, option);
}

/* The words behind `plimsoll estimate`. */
static int estimate(watch_prediction *out, char **words, int count, const char *gpu) {
    char *argv[MOST_WORDS + 8] = {"plimsoll", "estimate"};
    int argc = 2;
    for (int i = 0; i < count; i++) argv[argc++] = words[i];
    if (!names_card(words, count)) {
        const char *name = live_card("--predict", gpu);
        if (!name) return 0;
        argv[argc++] = "--gpu";
        argv[argc++] = (char *)name;
    }
    request q;
    pl_model *model = NULL;
    pl_report *report = NULL;
    int code = options_parse(&q, argc, argv);
    if (code == 0 && q.model) code = complain(PL_USAGE, "--predict takes no --model");
    if (code == 0 && open_model(&model, &q) == 0 && simulate(&report, model, &q, &q.job) == 0)
        out->peak_bytes = report->peak_bytes;
    pl_report_close(&report);
    pl_model_close(&model);
    options_close(&q);
    return code == PL_USAGE ? code : 0;
}

/* Of the interpreter's own options, whether it is one, and whether the next word is its value. */
static bool is_flag(const char *word, bool *value) {
    *value = strcmp(word, "-W") == 0 || strcmp(word, "-X") == 0;
    return word[0] == '-' && strcmp(word, "-m") != 0 && strcmp(word, "-c") != 0 && word[1];
}

/* python [FLAGS] SCRIPT ARGS as python [FLAGS] -m plimsoll --json --gpu G SCRIPT ARGS; NULL: it is no such command. */
static char **asking(char *const *command, const char *gpu) {
    size_t count = 0, at = 1;
    while (command[count]) count++;
    const char *slash = strrchr(command[0], '/');
    if (strncmp(slash ? slash + 1 : command[0], "python", 6) != 0) return NULL;
    for (bool value; command[at] && is_flag(command[at], &value); at++)
        if (value && command[at + 1]) at++;
    if (!command[at] || strcmp(command[at], "-c") == 0 || strcmp(command[at], "-") == 0)
        return NULL;
    static char *const own[] = {"-m", "plimsoll", "--json", "--gpu"};
    char **words = need(count + 8, sizeof *words);
    size_t n = 0;
    for (size_t i = 0; i < at; i++) words[n++] = command[i];
    for (size_t i = 0; i < 4; i++) words[n++] = own[i];
    words[n++] = (char *)gpu;
    for (size_t i = at; i < count; i++) words[n++] = command[i];
    return words;
}

static void ask(watch_prediction *out, char *const *command, const char *gpu) {
    static const char option[] = "--predict-script";
    char path[] = "/tmp/plimsoll-watch-XXXXXX";
    const char *name = live_card(option, gpu);
    char **words = name ? asking(command, name) : NULL;
    if (!words) {
        if (name) complain(0, "%s: the command is no python SCRIPT: no prediction", option);
        return;
    }
    int fd = mkstemp(path), status = 0;
    pid_t child = fd >= 0 ? fork() : -1;
    if (child == 0) {
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, STDIN_FILENO);
        dup2(fd, STDOUT_FILENO);
        execvp(words[0], words);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (child < 0)
        complain(0, "%s: %s: no prediction", option, strerror(errno));
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        complain(0, "%s: the script could not be asked: no prediction", option);
    else
        open_estimate(out, option, path);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    free(words);
}

int watch_predict(watch_prediction *out, const request *r, const char *gpu) {
    *out = (watch_prediction){.peak_bytes = r->predicted > 0 ? r->predicted : PL_UNKNOWN};
    int code = 0;
    if (r->predict) {
        char *text = need_string(r->predict), *words[MOST_WORDS];
        int count = split(text, words);
        if (count <= 0)
            code = complain(PL_USAGE,
                            "--predict: %s: a model and options of estimate, or what "
                            "estimate --json printed",
                            r->predict);
        else if (count == 1 && looks_like_estimate(words[0]))
            open_estimate(out, "--predict", words[0]);
        else
            code = estimate(out, words, count, gpu);
        free(text);
    } else if (r->predict_script) {
        ask(out, r->command, gpu);
    }
    return code;
}
