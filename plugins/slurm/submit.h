/* submit: what is done where a job is submitted, in srun, sbatch and salloc: there the user's files can be read. A model is
 * posted to the daemon once, by its digest, and the request then names the digest, so that slurmctld, which can read no
 * files, asks about the same. */
#ifndef PLIMSOLL_SLURM_SUBMIT_H
#define PLIMSOLL_SLURM_SUBMIT_H

#include "decide.h"

typedef enum submitted {
    SUBMIT_READY,     /* *out names a digest that the daemon knows */
    SUBMIT_UNCHECKED, /* the daemon is of no use; the job may pass */
    SUBMIT_WRONG,     /* what the user wrote is wrong, or the file is */
} submitted;

/* wanted: --plimsoll's text. say: why not SUBMIT_READY. */
submitted submit_request(const settings *s, const char *wanted, request *out, text *say);
/* Asks what slurmctld will ask, so that the daemon has it at hand, and the remedies where nothing fits. What the daemon
 * does not take of the request is SUBMIT_WRONG. */
submitted submit_ask(const settings *s, const request *r, text *say);
/* decide, with a submit host's time. */
submitted submit_decide(const settings *s, const demand *d, const request *r, decision *out);

#endif
