/* plimsoll-serve: the daemon, which `plimsoll serve` starts. Signals are taken here, one at a time. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "seen.h"
#include "server.h"

static int complain(const pl_error *err) {
    fprintf(stderr, "plimsoll serve: %s%s", err->where, *err->where ? ": " : "");
    if (err->position > 0) fprintf(stderr, "line %lld: ", (long long)err->position);
    fprintf(stderr, "%s\n", err->message);
    return (int)err->code;
}

static void reload(server *s) {
    pl_error err = PL_SIZED(pl_error);
    if (server_reload(s, &err) == PL_OK)
        fputs("plimsoll serve: tokens and cards were read anew\n", stderr);
    else
        complain(&err);
}

static int run(const config *c) {
    pl_error err = PL_SIZED(pl_error);
    server *s = NULL;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (server_open(&s, c, &err) != PL_OK) return complain(&err);
    if (c->check) {
        server_close(&s);
        fputs("plimsoll serve: the configuration is right\n", stderr);
        return 0;
    }
    if (*c->listen)
        fprintf(stderr, "plimsoll serve: listening on %s (port %d)\n", c->listen, server_port(s));
    if (*c->socket) fprintf(stderr, "plimsoll serve: listening on %s\n", c->socket);
    for (int signal = 0; signal != SIGTERM && signal != SIGINT;) {
        if (sigwait(&signals, &signal) != 0) continue;
        if (signal == SIGHUP) reload(s);
    }
    fputs("plimsoll serve: ending\n", stderr);
    server_drain(s);
    server_close(&s);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 0 && strcmp(argv[0], "history") == 0) return seen_main(argc, argv);
    pl_error err = PL_SIZED(pl_error);
    config c;
    bool help;
    if (!config_read(&c, argc, argv, &help, &err)) {
        config_close(&c);
        return complain(&err);
    }
    int code = help ? 0 : run(&c);
    config_close(&c);
    return code;
}
