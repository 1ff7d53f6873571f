/* limited SECONDS MIB COMMAND...: runs it and measures it from outside: processor time (user and
 * system, so that a busy machine does not count) and the most memory it held (wait4's rusage). Ends
 * with the command's exit code; with 99 where it took more than it was given or was killed. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    double most_seconds = atof(argv[1]), most_mib = atof(argv[2]);
    pid_t child = fork();
    if (child < 0) return 4;
    if (child == 0) {
        struct rlimit limit = {60, 60}; /* seconds: an end to what has none */
        setrlimit(RLIMIT_CPU, &limit);
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    struct rusage use;
    int status;
    if (wait4(child, &status, 0, &use) != child) return 4;
    double seconds = seconds_of(use.ru_utime) + seconds_of(use.ru_stime),
           mib = (double)use.ru_maxrss / 1024;
    fprintf(stderr, "# %.2f s of the processor, %.0f MiB\n", seconds, mib);
    if (!WIFEXITED(status)) {
        fprintf(stderr, "killed by signal %d\n", WTERMSIG(status));
        return 99;
    }
    if (seconds > most_seconds || mib > most_mib) {
        fprintf(stderr, "more than %.2f s or %.0f MiB\n", most_seconds, most_mib);
        return 99;
    }
    return WEXITSTATUS(status);
}
