/* handed: the names under which a request goes from one plugin to the next. */
#ifndef PLIMSOLL_SLURM_HANDED_H
#define PLIMSOLL_SLURM_HANDED_H

/* Read by all, where the user has it. */
#define HANDED_USER "PLIMSOLL_JOB"
/* --plimsoll's argument, from the SPANK plugin to cli_filter in the same process. */
#define HANDED_OPTION "_PLIMSOLL_OPTION"
/* The request with its digest, from cli_filter to the SPANK plugin in the same process; HANDED_NONE: there is none to hand on,
 * and why was said. */
#define HANDED_REQUEST "_PLIMSOLL_REQUEST"
#define HANDED_NONE    "-"
/* The same in SPANK's environment of the job, which job_submit reads, and which Slurm puts into a batch job's own environment
 * with SLURM_SPANK_ before its name. */
#define HANDED_CONTROL "PLIMSOLL"
#define HANDED_JOB     "SLURM_SPANK_PLIMSOLL"

#endif
