/* decide: a job as Slurm has it and a request in; whether it passes, as what, and what is said about it out. docs/slurm.md has the
 * rules as a table. */
#ifndef PLIMSOLL_SLURM_DECIDE_H
#define PLIMSOLL_SLURM_DECIDE_H

#include "judge.h"
#include "tres.h"

/* What a job asks for. */
typedef struct demand {
    bool readable; /* its lists were understood */
    tres node, job, task,
        socket;     /* --gres and --gpus-per-node; --gpus; --gpus-per-task; --gpus-per-socket */
    bool one_node;  /* it can be on one node alone, with one task */
    bool exclusive; /* it wants whole nodes */
    bool per_gpu;   /* other options count in GPUs: --cpus-per-gpu, --mem-per-gpu, --gpu-bind, .. */
    bool rewritable; /* who asks can change it: not srun's, in slurmctld */
} demand;

typedef enum action { PASS, REWRITE, REFUSE } action;

typedef struct decision {
    action action;
    int64_t shards;  /* of REWRITE: in place of the one GPU */
    bool failed;     /* the daemon was of no use */
    bool denied;     /* it says that the request is wrong, in say */
    char say[1536];  /* to the user; "": nothing */
    char log[512];   /* to slurmctld's log; "": nothing */
    char note[1024]; /* for AdminComment, JSON; "": nothing was predicted */
} decision;

/* r: NULL where nothing was requested of plimsoll. a: not asked without r. */
void decide(const settings *s, const demand *d, const request *r, const asking *a, decision *out);
/* What needs no daemon: shards above one GPU. False: it is REFUSE, as *out says. */
bool decide_shards(const settings *s, const demand *d, decision *out);

#endif
