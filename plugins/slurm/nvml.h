/* nvml: the memory of processes on NVIDIA's cards, by a library that is loaded where it is there. The declarations are our own: of
 * nvml.h five functions and two structs. */
#ifndef PLIMSOLL_SLURM_NVML_H
#define PLIMSOLL_SLURM_NVML_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { NVML_CARDS = 64, NVML_PROCESSES = 256 };

typedef struct nvml nvml;

/* NULL: there is none, or it does not start. library: a name or a path. */
nvml *nvml_open(const char *library);
void nvml_close(nvml **n);
int nvml_cards(const nvml *n);
/* As nvidia-smi writes it; "" where it is not said. */
void nvml_name(nvml *n, int card, char *out, unsigned room);
/* Processes with memory of a card; bytes[i] -1: not said. -1: it cannot be said. */
int nvml_processes(nvml *n, int card, pid_t *pids, int64_t *bytes, int room);

#endif
