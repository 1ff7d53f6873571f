/* plimsoll-serve: the daemon, which `plimsoll serve` starts. Signals are taken here, one at a time. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "seen.h"
#include "server.h"

static int complain(const pl_error *err) {
    char line[32] = "";
    if (err->position > 0) snprintf(line, sizeof line, "line %lld: ", (long long)err->position);
    log_say(LOG_ERROR, "%s%s%s%s", err->where, *err->where ? ": " : "", line, err->message);
    return (int)err->code;
}

static void reload(server *s) {
    pl_error err = PL_SIZED(pl_error);
    if (server_reload(s, &err) == PL_OK)
        log_say(LOG_INFO, "tokens and cards were read anew");
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
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    log_as(c->log);
    if (c->check) {
        if (server_check(c, &err) != PL_OK) return complain(&err);
        log_say(LOG_INFO, "the configuration is right");
        return 0;
    }
    if (server_open(&s, c, &err) != PL_OK) return complain(&err);
    if (*c->listen) log_say(LOG_INFO, "listening on %s (port %d)", c->listen, server_port(s));
    if (*c->socket) log_say(LOG_INFO, "listening on %s", c->socket);
    for (int signal = 0; signal != SIGTERM && signal != SIGINT;) {
        if (sigwait(&signals, &signal) != 0) continue;
        if (signal == SIGHUP) reload(s);
    }
    log_say(LOG_INFO, "ending");
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
