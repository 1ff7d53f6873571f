/* who: whose a process is, from /proc: its command, its user, the job of the scheduler that it belongs to, and
 * whether it descends from another. */
#ifndef CLI_WHO_H
#define CLI_WHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct who {
    int64_t pid;
    uint64_t
        started;    /* clock ticks since the machine's start: with the pid, one process for good */
    int64_t parent; /* when it was looked at first */
    bool there;     /* false: not here, or of another namespace; the rest is empty */
    char user[33];
    char name[64]; /* of the program, as the kernel cuts it: another one where exec made it so */
    char command[512]; /* its words, blanks between them */
    char job[128];     /* "slurm:CLUSTER:ID"; "": of none, or not to be read */
    int looks;         /* at its command */
    uint64_t seen;     /* the sample that it was in last */
    bool asked, mine;  /* the caller's: whether it is one of those that are followed */
} who;

/* Processes that were looked at. Those of no recent sample are forgotten. */
typedef struct who_cache {
    who **rows;
    size_t count, room;
    uint64_t sample;
} who_cache;

void who_begin(who_cache *cache); /* a new sample */
/* Valid until the next sample. */
who *who_of(who_cache *cache, int64_t pid);
void who_free(who_cache *cache);

/* Whether pid is `ancestor` or descends from it. A process whose parent has ended descends from who took it
 * over: `ancestor`, where it is a subreaper. */
bool who_descends(int64_t pid, int64_t ancestor);
/* "slurm:CLUSTER:ID" from this process's own environment; false: no such job. */
bool who_own_job(char *out, size_t room);
/* Whether this process sees the machine's own process ids, as the driver has them. */
bool who_sees_all(void);

#endif
