/* file: see file.h. POSIX: open, fstat, pread, poll, mmap. Left out: sockets; that a file is
 * changed within what was read, where neither its size nor its time says so. */
#define _POSIX_C_SOURCE 200809L
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"

static _Thread_local int writer_patience_ms = 1000;
enum { SLICE_MS = 50 }; /* from one look at the budget to the next */

void pl_file_patience(int writer_ms) {
    writer_patience_ms = writer_ms;
}

static pl_status changed(const pl_file *file, int64_t at, pl_error *err) {
    return pl_fail(err, PL_INPUT, file->path, at, "changed while it was read");
}

static pl_status cannot_read(const pl_file *file, int64_t at, pl_error *err) {
    return pl_fail(err, PL_INPUT, file->path, at, "cannot read: %s", strerror(errno));
}

static pl_status over_limit(const pl_file *file, int64_t at, size_t limit, pl_error *err) {
    return pl_fail(err, PL_LIMIT, file->path, at, "expected less than %zu bytes (the memory limit)",
                   limit);
}

/* ---- without a size: pipes, and what the kernel makes up (/proc) ---- */

/* Waits until there is something to read or the end (*ended). got: what read just said: 0, nobody
 * has the pipe open for writing; below 0, somebody has, and is silent. */
static pl_status wait_for_data(const pl_file *file, size_t size, ssize_t got, int64_t since_us,
                               bool *ended, pl_error *err) {
    int64_t waited_ms = (pl_now_us() - since_us) / 1000;
    struct pollfd wanted = {.fd = file->fd, .events = POLLIN};
    int ready = poll(&wanted, 1, SLICE_MS);
    if (ready < 0 && errno != EINTR) return cannot_read(file, (int64_t)size, err);
    if (ready > 0) *ended = !(wanted.revents & POLLIN); /* all writers have gone */
    if (ready != 0 || got < 0 || waited_ms < writer_patience_ms) return PL_OK;
    return pl_fail(err, PL_INPUT, file->path, 0,
                   "expected a pipe that somebody writes to; nobody came within %d ms",
                   writer_patience_ms);
}

/* Into memory that doubles, up to the limit. */
static pl_status read_stream(pl_file *file, bool pipe, size_t limit, pl_error *err) {
    size_t room = limit < 1 << 16 ? limit : 1 << 16, size = 0;
    char *bytes = malloc(room ? room : 1);
    int64_t since_us = pl_now_us();
    pl_status status = bytes ? PL_OK : pl_fail(err, PL_MISSING, file->path, -1, "out of memory");
    bool seen = false, ended = false; /* seen: there is or was a writer */
    while (status == PL_OK && !ended) {
        if (!pl_budget_poll(file->budget)) {
            status = pl_budget_fail(err, file->budget, file->path);
            break;
        }
        if (size == limit) {
            status = over_limit(file, (int64_t)size, limit, err);
            break;
        }
        if (size == room) {
            room = room > limit / 2 ? limit : room * 2;
            char *grown = realloc(bytes, room);
            if (grown) bytes = grown;
            if (!grown) status = pl_fail(err, PL_MISSING, file->path, -1, "out of memory");
            continue;
        }
        ssize_t got = read(file->fd, bytes + size, room - size);
        if (got > 0) {
            size += (size_t)got;
            since_us = pl_now_us();
            seen = true;
        } else if (got == 0 && (!pipe || seen)) {
            ended = true;
        } else if (got == 0 || errno == EAGAIN || errno == EWOULDBLOCK) {
            seen |= got < 0;
            status = wait_for_data(file, size, got, since_us, &ended, err);
        } else if (errno != EINTR) {
            status = cannot_read(file, (int64_t)size, err);
        }
    }
    if (status == PL_OK) {
        file->bytes = bytes;
        file->size = size;
    } else {
        free(bytes);
    }
    return status;
}

/* ---- plain files ---- */

pl_status pl_file_piece(const pl_file *file, uint64_t offset, void *to, size_t size,
                        pl_error *err) {
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file->fd, (char *)to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cannot_read(file, (int64_t)(offset + done), err);
        if (got == 0) return changed(file, (int64_t)(offset + done), err);
        done += (size_t)got;
    }
    return PL_OK;
}

static pl_status read_plain(pl_file *file, size_t limit, pl_error *err) {
    if (file->size >= limit) return over_limit(file, (int64_t)file->size, limit, err);
    void *bytes = malloc(file->size);
    if (!bytes) return pl_fail(err, PL_MISSING, file->path, -1, "out of memory");
    pl_status status = pl_file_piece(file, 0, bytes, file->size, err);
    struct stat now;
    if (status == PL_OK &&
        (fstat(file->fd, &now) != 0 || (size_t)now.st_size != file->size ||
         now.st_mtim.tv_sec != file->changed_s || now.st_mtim.tv_nsec != file->changed_ns))
        status = changed(file, -1, err);
    if (status == PL_OK)
        file->bytes = bytes;
    else
        free(bytes);
    return status;
}

pl_status pl_file_map(pl_file *file, pl_error *err) {
    void *bytes = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (bytes == MAP_FAILED)
        return pl_fail(err, PL_INPUT, file->path, -1, "cannot map: %s", strerror(errno));
    file->bytes = bytes;
    file->mapped = true;
    return PL_OK;
}

/* ---- any ---- */

pl_status pl_file_begin(pl_file *file, const char *path, pl_error *err) {
    *file = (pl_file){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), .path = path};
    struct stat info;
    if (file->fd < 0 || fstat(file->fd, &info) != 0) {
        pl_status status = pl_fail(err, PL_INPUT, path, -1, "cannot open: %s", strerror(errno));
        pl_file_close(file);
        return status;
    }
    if (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode)) {
        file->plain = S_ISREG(info.st_mode) && info.st_size > 0;
        file->size = file->plain ? (size_t)info.st_size : 0;
        file->changed_s = info.st_mtim.tv_sec;
        file->changed_ns = info.st_mtim.tv_nsec;
        return PL_OK;
    }
    pl_file_close(file);
    return pl_fail(err, PL_INPUT, path, -1, "expected a file or a pipe, not a %s",
                   S_ISDIR(info.st_mode) ? "folder" : "device");
}

pl_status pl_file_load(pl_file *file, size_t limit, pl_error *err) {
    struct stat info;
    if (file->plain) return read_plain(file, limit, err);
    bool pipe = fstat(file->fd, &info) == 0 && S_ISFIFO(info.st_mode);
    return read_stream(file, pipe, limit, err);
}

pl_status pl_file_open(pl_file *file, const char *path, size_t limit, pl_error *err) {
    pl_status status = pl_file_begin(file, path, err);
    if (status == PL_OK) status = pl_file_load(file, limit, err);
    if (status != PL_OK) pl_file_close(file);
    return status;
}

void pl_file_close(pl_file *file) {
    if (!file || (!file->bytes && !file->path)) return;
    if (file->mapped)
        munmap((void *)(uintptr_t)file->bytes, file->size);
    else
        free((void *)(uintptr_t)file->bytes);
    if (file->fd >= 0) close(file->fd);
    *file = (pl_file){.fd = -1};
}

void *pl_file_take(pl_file *file) {
    void *bytes = (void *)(uintptr_t)file->bytes;
    file->bytes = NULL;
    pl_file_close(file);
    return bytes;
}
