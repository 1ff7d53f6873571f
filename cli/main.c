/* plimsoll: the command. A thin face of libplimsoll: it parses, asks the library, and prints.
 *
 * Results go to stdout, everything else to stderr. Exit codes: 0 done, 2 wrong usage, 3 an input that cannot
 * be read, 4 something missing on the machine, 10 does not fit. */
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "help.h"
#include "options.h"
#include "output.h"
#include "text.h"
#include "verbs.h"

static int (*const verbs[VERBS])(const request *) = {
    [VERB_ESTIMATE] = verb_estimate, [VERB_EXPLAIN] = verb_explain,
    [VERB_CHECK] = verb_check,       [VERB_FIT] = verb_fit,
    [VERB_GPUS] = verb_gpus,         [VERB_SERVE] = verb_serve,
    [VERB_HISTORY] = verb_serve,     [VERB_ESTIMATORS] = verb_estimators,
    [VERB_CONVERT] = verb_convert,   [VERB_COLLOCATE] = verb_collocate,
    [VERB_PLACE] = verb_place,       [VERB_SIMULATE] = verb_simulate,
    [VERB_WATCH] = verb_watch,
#if PLIMSOLL_LAB
    [VERB_EVALUATE] = verb_evaluate, [VERB_TRAIN] = verb_train,
#endif
};

int64_t file_size(const char *path) {
    struct stat is;
    return stat(path, &is) == 0 && S_ISREG(is.st_mode) ? (int64_t)is.st_size : 0;
}

/* Opens the weights of --model, which count for --max-memory as large as their file is, and puts them into the request's job, with their estimator where
 * --estimator names none. Evaluate, which may name several, looks for itself which is meant. */
static int use_weights(request *r, pl_weights **weights) {
    pl_error err = PL_SIZED(pl_error);
    if (!r->model) return 0;
    size_t size = (size_t)file_size(r->model), most = r->limits.memory_bytes;
    if (most && size >= most)
        return complain(PL_LIMIT, "--model: %s has %zu bytes, --max-memory allows %zu", r->model,
                        size, most);
    if (most) r->limits.memory_bytes = most - size;
    if (pl_weights_open(weights, r->model, &err) != PL_OK) return complain_of(&err, r->model);
    const pl_weights_info *info = pl_weights_describe(*weights);
    if (r->verb != VERB_EVALUATE && r->estimator && strcmp(r->estimator, info->estimator) != 0)
        return complain(PL_USAGE, "--model: %s holds what %s has learnt, not %s", r->model,
                        info->estimator, r->estimator);
    r->job.weights = *weights;
    r->job.estimator = info->estimator;
    return 0;
}

/* The hidden verb that writes the manual and the completions, for tools/generate.sh. */
static bool wants_generated(int argc, char **argv) {
    return argc == 3 && strcmp(argv[1], "__generate") == 0;
}

/* Memory that was freed goes back at once, so that --max-memory holds as it is seen from outside:
 * glibc would keep up to 64 MiB of it. */
static void keep_no_memory(void) {
#ifdef M_TRIM_THRESHOLD
    enum { LARGE = 256 << 10 }; /* bytes */
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, LARGE);
#endif
}

int main(int argc, char **argv) {
    text_start();
    if (argc > 1 && (strcmp(argv[1], "serve") == 0 || strcmp(argv[1], "history") == 0))
        return verb_serve(&(request){.argc = argc, .argv = argv});
    signal(SIGXFSZ, SIG_IGN); /* too large a file is an error of writing, not the end */
#if PLIMSOLL_LAB
    pl_lab_register();
#endif
    request r;
    pl_weights *weights = NULL;
    int code;
    if (wants_generated(argc, argv)) {
        code = help_generate(argv[2]);
    } else {
        code = options_parse(&r, argc, argv);
        pl_limits usual;
        pl_limits_default(&usual);
        if (code == 0 && r.limits.memory_bytes < usual.memory_bytes) keep_no_memory();
        if (code == 0 && r.help)
            help_print(stdout, r.verb);
        else if (code == 0 && r.version)
            printf("plimsoll %s\n", pl_version());
        else if (code == 0 && (code = outputs_check(&r)) == 0 &&
                 (code = use_weights(&r, &weights)) == 0)
            code = verbs[r.verb](&r);
        pl_weights_close(&weights);
        options_close(&r);
    }
    /* What could not be written was not said: a full disk is a failure. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0)
        return complain(PL_MISSING, "standard output: %s", strerror(errno));
    return code;
}
