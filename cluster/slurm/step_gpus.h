/*
 * Data that one plugin of Lull passes to another in the same slurmstepd, through the environment of
 * slurmstepd, which is not that of the job. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_STEP_GPUS_H
#define LULL_CLUSTER_SLURM_STEP_GPUS_H

/* The variable with the numbers of the step's GPUs on this node, with commas; "": it has none. */
#define LULL_STEP_GPUS "LULL_STEP_GPUS"

#endif
