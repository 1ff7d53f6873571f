/* watch_child: the command that is watched, as a process of its own that shares this one's standard input and output, its
 * terminal and its process group. It is made before the driver is opened and waits at a pipe, so that it inherits
 * nothing of that. What it leaves behind (a process whose parent has ended) comes to this one, a subreaper. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, MOST_REAPED = 1 << 16 };

static bool make_pipe(int ends[2]) {
    if (pipe(ends) != 0) return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

/* In the new process: the command, once it may. */
static void run(char *const *command, int go, int failed) {
    char byte;
    ssize_t got;
    while ((got = read(go, &byte, 1)) < 0 && errno == EINTR) continue;
    if (got != 1) _exit(NOT_FOUND); /* the watcher is gone */
    signal(SIGXFSZ, SIG_DFL);       /* main has it ignored */
    execvp(command[0], command);
    int reason = errno;
    ssize_t put = write(failed, &reason, sizeof reason);
    (void)put;
    _exit(reason == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

bool watch_child_make(watch_child *child, char *const *command) {
    int go[2], failed[2];
    *child = (watch_child){.pid = -1, .go = -1, .failed = -1};
    signal(SIGCHLD, SIG_DFL); /* ignored, ends would not be told */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (!make_pipe(go)) return false;
    if (!make_pipe(failed)) {
        close(go[0]);
        close(go[1]);
        return false;
    }
    child->pid = fork();
    if (child->pid == 0) {
        close(go[1]);
        close(failed[0]);
        run(command, go[0], failed[1]);
    }
    close(go[0]);
    close(failed[1]);
    child->go = go[1];
    child->failed = failed[0];
    return child->pid > 0;
}

int watch_child_start(watch_child *child, int *why) {
    char byte = 1;
    int reason = 0;
    ssize_t put = write(child->go, &byte, 1), got;
    (void)put;
    close(child->go);
    child->go = -1;
    while ((got = read(child->failed, &reason, sizeof reason)) < 0 && errno == EINTR) continue;
    close(child->failed);
    child->failed = -1;
    if (got != sizeof reason) return 0; /* the pipe was closed by exec */
    *why = reason;
    return reason == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

void watch_child_reap(watch_child *child) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == child->pid) {
            child->ended = true;
            child->status = status;
        }
        if (child->reaped_count == MOST_REAPED) continue;
        if ((child->reaped_count & (child->reaped_count - 1)) == 0) {
            size_t room = child->reaped_count ? 2 * child->reaped_count : 1;
            int64_t *larger = realloc(child->reaped, room * sizeof *larger);
            if (!larger) continue;
            child->reaped = larger;
        }
        child->reaped[child->reaped_count++] = pid;
    }
}

int watch_child_code(const watch_child *child) {
    if (WIFSIGNALED(child->status)) return 128 + WTERMSIG(child->status);
    return WEXITSTATUS(child->status);
}

void watch_child_free(watch_child *child) {
    if (child->go >= 0) close(child->go);
    if (child->failed >= 0) close(child->failed);
    free(child->reaped);
    child->reaped = NULL;
}
