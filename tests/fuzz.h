/* fuzz: what the fuzz drivers share: random numbers from a seed, the same each time; ways to damage
 * bytes; a loop over files and damaged variants of each. A driver includes it where it is not
 * libFuzzer's (PL_LIBFUZZER). */
#ifndef PL_TESTS_FUZZ_H
#define PL_TESTS_FUZZ_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/file.h"

static uint64_t fuzz_state = 88172645463325252u; /* xorshift64 (G. Marsaglia, 2003) */

static inline size_t below(size_t limit) {
    fuzz_state ^= fuzz_state << 13;
    fuzz_state ^= fuzz_state >> 7;
    fuzz_state ^= fuzz_state << 17;
    return limit ? (size_t)(fuzz_state % limit) : 0;
}

/* Damages bytes[0 .. *size) in place, one to four times; room: what fits. tokens: what readers of
 * this format tend to stumble over. */
static inline void fuzz_damage(unsigned char *bytes, size_t *size, size_t room,
                               const char *const *tokens, size_t token_count) {
    size_t times = 1 + below(4);
    while (times-- && *size) {
        size_t at = below(*size), length = 1 + below(below(8) ? 16 : 256);
        if (length > *size - at) length = *size - at;
        switch (below(8)) {
        case 0: bytes[at] ^= (unsigned char)(1u << below(8)); break;
        case 1: bytes[at] = (unsigned char)(below(2) ? ' ' + below(96) : below(256)); break;
        case 2: /* leave a piece out */
            memmove(bytes + at, bytes + at + length, *size - at - length);
            *size -= length;
            break;
        case 3: /* double a piece */
            if (*size + length > room) break;
            memmove(bytes + at + length, bytes + at, *size - at);
            *size += length;
            break;
        case 4: /* a piece from elsewhere over this one */
            memmove(bytes + at, bytes + below(*size - length + 1), length);
            break;
        case 5:
        case 6: { /* a token, over what is there or in between */
            const char *token = tokens[below(token_count)];
            size_t n = strlen(token);
            bool between = below(2);
            if (between && *size + n <= room) {
                memmove(bytes + at + n, bytes + at, *size - at);
                *size += n;
            }
            memcpy(bytes + at, token, n < *size - at ? n : *size - at);
            break;
        }
        default:
            if (below(4) == 0) *size = at;
        }
    }
}

/* Counts over all files. */
typedef struct fuzz_tally {
    long tried, good;
    int64_t slowest_us;
} fuzz_tally;

/* `count` damaged variants of a text, each in a block of its exact size, so that a sanitizer sees
 * the first byte read past the end. once: whether it is still readable; it stops the program itself
 * where something is wrong. kept: the text itself need not be readable. 0, or an exit code. */
static inline int fuzz_variants(fuzz_tally *tally, const void *text, size_t text_size, bool kept,
                                long count, bool (*once)(const unsigned char *bytes, size_t size),
                                void (*damage)(unsigned char *bytes, size_t *size, size_t room)) {
    size_t room = text_size + 4096;
    unsigned char *bytes = malloc(room);
    if (!bytes) return 4;
    int code = once(text, text_size) || kept ? 0 : 3;
    for (long i = 0; i < count && code == 0; i++) {
        size_t size = text_size;
        memcpy(bytes, text, size);
        damage(bytes, &size, room);
        unsigned char *exact = malloc(size ? size : 1);
        if (!exact) {
            code = 4;
            break;
        }
        memcpy(exact, bytes, size);
        int64_t begin = pl_now_us();
        tally->good += once(exact, size);
        int64_t took = pl_now_us() - begin;
        if (took > tally->slowest_us) tally->slowest_us = took;
        tally->tried++;
        free(exact);
    }
    free(bytes);
    return code;
}

static inline void fuzz_report(const fuzz_tally *tally, const char *noun) {
    printf("# %ld damaged %s, %ld of them still readable, the slowest %.1f ms\n", tally->tried,
           noun, tally->good, (double)tally->slowest_us / 1e3);
}

/* The files of a folder, by name: what fuzzers found once, and seeds. */
static inline int fuzz_folder(fuzz_tally *tally, const char *folder, long count,
                              bool (*once)(const unsigned char *bytes, size_t size),
                              void (*damage)(unsigned char *bytes, size_t *size, size_t room)) {
    struct dirent **names;
    int found = scandir(folder, &names, NULL, alphasort), code = found < 0 ? 3 : 0, files = 0;
    for (int i = 0; i < found; i++) files += names[i]->d_name[0] != '.';
    for (int i = 0; i < found; i++) {
        char path[4096];
        pl_file file;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (code == 0 && names[i]->d_name[0] != '.') {
            code =
                pl_file_open(&file, path, SIZE_MAX, NULL) == PL_OK
                    ? fuzz_variants(tally, file.bytes, file.size, true, count / files, once, damage)
                    : 3;
            if (code == 0) pl_file_close(&file);
        }
        free(names[i]);
    }
    if (found >= 0) free(names);
    return code;
}

/* main of a driver: COUNT FILE-OR-FOLDER... */
static inline int fuzz_files(int argc, char **argv, const char *noun,
                             bool (*once)(const unsigned char *bytes, size_t size),
                             void (*damage)(unsigned char *bytes, size_t *size, size_t room)) {
    if (argc < 3) return 2;
    long count = atol(argv[1]) / (argc - 2);
    fuzz_tally tally = {0};
    int code = 0;
    for (int f = 2; f < argc && code == 0; f++) {
        pl_file file;
        if (pl_file_open(&file, argv[f], SIZE_MAX, NULL) != PL_OK) {
            code = fuzz_folder(&tally, argv[f], count, once, damage);
            continue;
        }
        code = fuzz_variants(&tally, file.bytes, file.size, false, count, once, damage);
        pl_file_close(&file);
    }
    fuzz_report(&tally, noun);
    return code;
}

#endif
