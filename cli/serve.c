/* serve: starts the daemon, a program of its own, so that the command does not load what only that needs; history,
 * which reads what it has kept, is a part of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text.h"
#include "verbs.h"

int verb_serve(const request *r) {
    static const char *const places[] = {"/plimsoll-serve", "/../libexec/plimsoll/plimsoll-serve"};
    char folder[4000], path[4096];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    char *slash = length > 0 ? (folder[length] = '\0', strrchr(folder, '/')) : NULL;
    if (slash) *slash = '\0';
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s", folder, places[i]);
        if (access(path, X_OK) != 0) continue;
        execv(path, r->argv + 1);
        return complain(PL_MISSING, "%s: %s", path, strerror(errno));
    }
    return complain(PL_MISSING,
                    "serve: the daemon was not built: it needs libmicrohttpd and SQLite "
                    "(Debian: libmicrohttpd-dev libsqlite3-dev)");
}
