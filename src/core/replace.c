/* replace: see replace.h. */
#include "core/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MOST = 40 };

/* Where the file's name begins, behind its folder. */
static size_t base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The folder of `path`, then `name`; malloc'ed. */
static char *in_folder_of(const char *path, const char *name) {
    size_t folder = base_of(path), length = strlen(name) + 1;
    char *joined = malloc(folder + length);
    if (!joined) return NULL;
    memcpy(joined, path, folder);
    memcpy(joined + folder, name, length);
    return joined;
}

/* What a link at `path` holds, as a path; malloc'ed. */
static char *link_target(const char *path) {
    char target[4096];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return NULL;
    target[length] = 0;
    return target[0] == '/' ? strdup(target) : in_folder_of(path, target);
}

/* Names of open files rather than of files: what they lead to belongs to someone else. */
static bool is_special(const char *path) {
    return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
}

/* The plain file that `path` means, there or not yet, links followed; malloc'ed. *straight: it is
 * something else. */
static char *plain_name(const char *path, struct stat *info, bool *there, bool *straight) {
    char *name = strdup(path);
    for (int n = 0; name; n++) {
        *there = lstat(name, info) == 0;
        *straight = is_special(name);
        if (*straight || !*there || !S_ISLNK(info->st_mode)) break;
        char *next = n < LINKS_MOST ? link_target(name) : NULL;
        if (n == LINKS_MOST) errno = ELOOP;
        free(name);
        name = next;
    }
    if (name && *there && !S_ISREG(info->st_mode)) *straight = true;
    return name;
}

/* Opens a file beside `name` with a name that no other has. */
static int open_beside(const char *name, char **beside) {
    char own[64];
    int fd = -1;
    for (int n = 0; fd < 0 && n < 100; n++) {
        snprintf(own, sizeof own, ".plimsoll-%ld-%d.tmp", (long)getpid(), n);
        *beside = in_folder_of(name, own);
        if (!*beside) return -1;
        fd = open(*beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) break;
        free(*beside);
        *beside = NULL;
        if (errno != EEXIST) break;
    }
    return fd;
}

/* The new bytes over the old ones, in the file itself: where its name cannot be given to another
 * file (it is mounted, or has several names). What is written was written in full before. */
static bool copy_over(const char *from, const char *to) {
    char bytes[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in >= 0 ? open(to, O_WRONLY | O_TRUNC | O_CLOEXEC) : -1;
    bool good = out >= 0;
    for (ssize_t got = 1; good && got != 0;) {
        got = read(in, bytes, sizeof bytes);
        if (got < 0 && errno != EINTR) good = false;
        for (ssize_t at = 0; good && at < got;) {
            ssize_t put = write(out, bytes + at, (size_t)(got - at));
            if (put > 0) at += put;
            if (put < 0 && errno != EINTR) good = false;
        }
    }
    if (good) good = fsync(out) == 0;
    int reason = errno;
    if (in >= 0) close(in);
    if (out >= 0 && close(out) != 0 && good) good = false, reason = errno;
    errno = reason;
    return good;
}

/* The file that was written takes the other's name. */
static bool put_in_place(const pl_replace *r) {
    struct stat info;
    if (stat(r->name, &info) == 0 && info.st_nlink > 1)
        return copy_over(r->beside, r->name) && unlink(r->beside) == 0;
    if (rename(r->beside, r->name) == 0) return true;
    return errno == EBUSY && copy_over(r->beside, r->name) && unlink(r->beside) == 0;
}

bool pl_replace_open(pl_replace *r, const char *path) {
    struct stat info;
    bool there = false, straight = false;
    *r = (pl_replace){0};
    r->name = plain_name(path, &info, &there, &straight);
    if (!r->name) return false;
    if (straight) {
        free(r->name);
        r->name = NULL;
        r->out = fopen(path, "w");
        return r->out != NULL;
    }
    int fd = -1;
    /* what may not be written to is not to be replaced either */
    if (!there || access(r->name, W_OK) == 0) fd = open_beside(r->name, &r->beside);
    if (fd < 0 && there && errno == EACCES && access(r->name, W_OK) == 0) {
        /* a folder where no file can be made: there is no way but to write over the old one */
        r->out = fopen(r->name, "w");
        free(r->name);
        r->name = NULL;
        return r->out != NULL;
    }
    /* a file of another's stays theirs, where that may be done */
    if (fd >= 0 && there && info.st_uid != geteuid() && fchown(fd, info.st_uid, info.st_gid) != 0)
        errno = 0;
    if (fd >= 0 && (!there || fchmod(fd, info.st_mode & 07777) == 0)) r->out = fdopen(fd, "w");
    if (r->out) return true;
    int reason = errno;
    if (fd >= 0) {
        close(fd);
        unlink(r->beside);
    }
    free(r->name);
    free(r->beside);
    *r = (pl_replace){0};
    errno = reason;
    return false;
}

bool pl_replace_close(pl_replace *r, bool keep) {
    if (!r->out) return false;
    errno = 0;
    bool good = fflush(r->out) == 0 && !ferror(r->out);
    if (good && keep && r->name) good = fsync(fileno(r->out)) == 0;
    int reason = errno;
    if (fclose(r->out) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (r->name && good && keep && !put_in_place(r)) {
        good = false;
        reason = errno;
    }
    if (r->name && !(good && keep)) unlink(r->beside);
    free(r->name);
    free(r->beside);
    *r = (pl_replace){0};
    errno = reason ? reason : EIO; /* a failure whose reason an earlier write took along */
    return good || !keep;
}
