/* exported: what Slurm looks up by name in a plugin; all else is hidden, since slurmctld's, srun's and other plugins' names
 * are in the same process. */
#ifndef PLIMSOLL_SLURM_EXPORTED_H
#define PLIMSOLL_SLURM_EXPORTED_H

#define EXPORTED __attribute__((visibility("default")))

#endif
