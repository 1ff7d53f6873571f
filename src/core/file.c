/* file: see file.h. POSIX: open, fstat, mmap. Left out: files that grow or shrink while they are
 * read. */
#define _POSIX_C_SOURCE 200809L
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What has no size beforehand, into memory that doubles. */
static pl_status read_all(pl_file *file, int fd, const char *path, size_t limit, pl_error *err) {
    size_t room = 1 << 16, size = 0;
    char *bytes = malloc(room);
    while (bytes) {
        ssize_t got = read(fd, bytes + size, room - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            pl_status status =
                pl_fail(err, PL_INPUT, path, (int64_t)size, "cannot read: %s", strerror(errno));
            free(bytes);
            return status;
        }
        if (got == 0) {
            *file = (pl_file){bytes, size, false};
            return PL_OK;
        }
        size += (size_t)got;
        if (size < room) continue;
        if (room >= limit / 2) {
            free(bytes);
            return pl_fail(err, PL_INPUT, path, (int64_t)size,
                           "expected less than %zu bytes (the memory limit)", limit);
        }
        room *= 2;
        char *grown = realloc(bytes, room);
        if (!grown) free(bytes);
        bytes = grown;
    }
    return pl_fail(err, PL_MISSING, path, -1, "out of memory");
}

pl_status pl_file_open(pl_file *file, const char *path, size_t limit, pl_error *err) {
    *file = (pl_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return pl_fail(err, PL_INPUT, path, -1, "cannot open: %s", strerror(errno));
    struct stat info;
    pl_status status = PL_OK;
    if (fstat(fd, &info) != 0) {
        status = pl_fail(err, PL_INPUT, path, -1, "cannot open: %s", strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        status = pl_fail(err, PL_INPUT, path, -1, "expected a file, not a folder");
    } else if (S_ISREG(info.st_mode) && info.st_size > 0) {
        void *bytes = (uint64_t)info.st_size <= SIZE_MAX
                          ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                          : MAP_FAILED;
        if (bytes == MAP_FAILED)
            status = pl_fail(err, PL_INPUT, path, -1, "cannot map: %s", strerror(errno));
        else
            *file = (pl_file){bytes, (size_t)info.st_size, true};
    } else {
        status = read_all(file, fd, path, limit, err);
    }
    close(fd);
    return status;
}

void pl_file_close(pl_file *file) {
    if (!file || !file->bytes) return;
    if (file->mapped)
        munmap((void *)(uintptr_t)file->bytes, file->size);
    else
        free((void *)(uintptr_t)file->bytes);
    *file = (pl_file){0};
}
