/*
 * Reads Slurm's queue through libslurm. Nothing but this and slurm_release.h knows libslurm.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_SLURM_QUEUE_H
#define LULL_CLUSTER_SLURM_SCHEDULE_SLURM_QUEUE_H

#include "base/error.h"
#include "cluster/slurm/schedule/schedule.h"

struct lull_slurm; /* opaque */

/* partition: NULL: the default one. No request is sent to slurmctld yet. -ENOMEM. */
int lull_slurm_open(const char *partition, struct lull_slurm **slurm_out, struct lull_error *err);
void lull_slurm_close(struct lull_slurm *slurm);

/*
 * Reads the queue. *has_changed_out: slurmctld reports a change. The queue is valid until the next
 * call. Errors: -EAGAIN slurmctld does not answer; -EINVAL there is no such partition; -ENOMEM.
 * Jobs of other users are not scheduled if this process has no permission to change them.
 */
int lull_slurm_read(struct lull_slurm *slurm, bool *has_changed_out,
                    const struct lull_queue **queue_out, struct lull_error *err);

/* The partition's name, once the queue was read. */
const char *lull_slurm_partition(const struct lull_slurm *slurm);

/* The clock that the client has chosen for a job, MHz; 0: full clocks, or it is not one of its
 * jobs. Errors: -EAGAIN; -ENOENT. */
int lull_slurm_clock(uint32_t id, uint32_t *sm_mhz_out, struct lull_error *err);

#endif
