/* settings: plimsoll.conf, which lies beside slurm.conf and is the same for slurmctld, submit hosts and nodes: lines
 * `name = value`, # begins a comment. docs/slurm.md has the table; the defaults stand below. */
#ifndef PLIMSOLL_SLURM_SETTINGS_H
#define PLIMSOLL_SLURM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "http.h"
#include "text.h"

enum { SETTINGS_CARDS = 16 };

/* A kind of card that the cluster has. */
typedef struct card {
    char type[64];   /* as gres.conf calls it */
    char gpu[96];    /* as plimsoll does; default: the same */
    int64_t shards;  /* that one of them is divided into; 0: none, and nothing is rewritten */
    int64_t reserve; /* bytes beside a job's upper end; -1: what the driver keeps of the card */
} card;

typedef struct settings {
    http_place daemon;   /* default: the socket /run/plimsoll/plimsoll.sock */
    int64_t deadline_ms; /* default 20: of all questions about one submission, in slurmctld */
    int64_t rest_ms;   /* default 1000: after three failures in a row nobody is asked for so long */
    int64_t submit_ms; /* default 20000: on the submit host, a model that is posted included */
    int64_t report_ms; /* default 1000: on nodes, of one report */
    int64_t sample_ms; /* default 1000: between two looks at a job's memory */
    int64_t shard_bytes; /* default 1 GiB */
    int64_t most_file;   /* default 256 MiB: of a model that is posted; the daemon's body-bytes */
    bool rewrite;        /* default yes: gpu:1 into shards */
    bool refuse;         /* default yes: what fits no card */
    bool across;    /* default no: a request of shards may span GPUs (MULTIPLE_SHARING_GRES_PJ) */
    bool tell;      /* default yes: what was predicted to the user, where it changes the request */
    bool report;    /* default yes: started and ended jobs to the daemon */
    bool protect;   /* default no: a job's share as PyTorch's limit */
    char nvml[256]; /* default libnvidia-ml.so.1: looked for where libraries are, or a path */
    card cards[SETTINGS_CARDS]; /* at least one */
    int count;
} settings;

void settings_default(settings *out);
/* False: *wrong says what and where; *out is as far as it was read. */
bool settings_read(settings *out, const char *path, text *wrong);
/* PLIMSOLL_SLURM_CONF, else plimsoll.conf beside what SLURM_CONF names, else /etc/slurm/plimsoll.conf. */
void settings_path(char *out, size_t room);
/* The card of a type; "": the only one, where there is only one. NULL: none. */
const card *settings_card(const settings *s, const char *type);
/* The most shards that one GPU of the type ("": of any) has; 0: unknown. */
int64_t settings_most_shards(const settings *s, const char *type);

#endif
