/* fuzz_cards: damaged tables of cards. Whatever the bytes, rows with numbers that a card can have and
 * that their names find, or PL_INPUT with the place; the names among the bytes find a card or are
 * refused. Nothing crashes, leaks or hangs.
 *
 * With clang -fsanitize=fuzzer (and -DPL_LIBFUZZER) this is a libFuzzer target (tests/meson.build).
 * Without, a program that damages files itself, from a seed, the same each time:
 *     test_fuzz_cards COUNT FILE-OR-FOLDER... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static void stop(const char *what, const pl_error *err) {
    fprintf(stderr, "not sound: %s (%d, %s: %s)\n", what, err->code, err->where, err->message);
    abort();
}

/* The bytes as a job's gpu. */
static void name_once(const unsigned char *bytes, size_t size, const pl_catalogue *own) {
    char text[200];
    pl_error err = PL_SIZED(pl_error);
    pl_gpu *gpu = NULL, *again = NULL;
    if (size >= sizeof text) size = sizeof text - 1;
    memcpy(text, bytes, size);
    text[size] = 0;
    pl_status status = pl_gpu_open(&gpu, text, own, &err);
    if (status != PL_OK && (status != PL_USAGE || gpu || !err.message[0])) stop("a name", &err);
    if (gpu && (gpu->capacity_bytes <= 0 || pl_gpu_usable(gpu) > gpu->capacity_bytes))
        stop("a card without memory", &err);
    if (gpu && pl_gpu_open(&again, gpu->name, own, &err) != PL_OK) stop("its own name", &err);
    /* An alias of one's own may be the name of one of the library's, which is then not found. */
    if (gpu && !own && strcmp(again->name, gpu->name) != 0) stop("its name is another's", &err);
    pl_gpu_close(&again);
    pl_gpu_close(&gpu);
}

static bool open_once(const unsigned char *bytes, size_t size) {
    pl_error err = PL_SIZED(pl_error);
    pl_catalogue *own = NULL;
    pl_status status = pl_catalogue_open_memory(&own, bytes, size, "cards", &err);
    name_once(bytes, size, NULL);
    if (status != PL_OK) {
        if (own || err.code != status || (status != PL_INPUT && status != PL_MISSING) ||
            !err.message[0] || strncmp(err.where, "cards", 5) != 0)
            stop("failure", &err);
        return false;
    }
    const pl_gpu *gpu;
    for (size_t i = 0; (gpu = pl_catalogue_at(own, i)); i++) {
        if (gpu->capacity_bytes <= 0 || gpu->sms <= 0 || gpu->threads <= 0 || gpu->calibrated ||
            gpu->context_bytes < 0 || !(gpu->bandwidth_gbps > 0) || !(gpu->fp32_tflops > 0))
            stop("a figure that no card has", &err);
        pl_gpu *found = NULL;
        if (pl_gpu_open(&found, gpu->name, own, &err) != PL_OK ||
            strcmp(found->name, gpu->name) != 0)
            stop("a row that its name does not find", &err);
        pl_gpu_close(&found);
        name_once((const unsigned char *)gpu->title, strlen(gpu->title), own);
    }
    pl_catalogue_close(&own);
    return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size) {
    open_once(bytes, size);
    return 0;
}

#if !defined(PL_LIBFUZZER)

#include "fuzz.h"

static const char *const tokens[] = {"\t",
                                     "\n",
                                     "\r\n",
                                     "-",
                                     "#",
                                     "1e9",
                                     "0",
                                     "nan",
                                     "8.6",
                                     "yes",
                                     "1g.5gb",
                                     "memory=",
                                     "GiB",
                                     ",",
                                     "\xff",
                                     "-1",
                                     "99999999999999999999"};

static void damage(unsigned char *bytes, size_t *size, size_t room) {
    fuzz_damage(bytes, size, room, tokens, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "tables of cards", open_once, damage);
}
#endif
