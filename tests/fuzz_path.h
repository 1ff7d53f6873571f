/* fuzz_path: bytes as a file, for readers that take a path: one in memory, written anew. Linux.
 * Included first, for memfd_create. */
#ifndef PL_TESTS_FUZZ_PATH_H
#define PL_TESTS_FUZZ_PATH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Stops the program where it cannot be written. */
static inline const char *fuzz_path_of(const unsigned char *bytes, size_t size) {
    static char path[32];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzzed", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size) abort();
    return path;
}

#endif
