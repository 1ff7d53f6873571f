/* job: what a caller asked, checked once. */
#ifndef PL_ESTIMATE_JOB_H
#define PL_ESTIMATE_JOB_H

#include "core/error.h"

#define PL_MOST_SIZE ((int64_t)1 << 40) /* of batch and seq */

/* The caller's job, whatever version of the header it was compiled with, checked: pl_job_check with
 * the result kept. Strings stay the caller's. */
pl_status pl_job_read(pl_job *out, const pl_job *job, pl_error *err);

#endif
