/*
 * The users whose processes compute on each GPU, by the driver's reports and /proc. Root's are left
 * out: services that watch GPUs run as root, and so do jobs in containers, whichever user has
 * started them. A process that this PID namespace does not see, or whose user /proc hides, is left
 * out as well.
 *
 * Threads: one notes, any read. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_USERS_H
#define LULL_DAEMON_USERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/device.h"

/* Each GPU's users, without repetition, in ascending order. */
struct lull_users {
    bool is_hidden_logged; /* the noting thread has logged that /proc hides users */
    pthread_mutex_t lock;
    uint32_t counts[LULL_DEVICE_MAX_GPUS];
    uid_t uids[LULL_DEVICE_MAX_GPUS][LULL_DEVICE_MAX_PROCESSES];
};

void lull_users_init(struct lull_users *users);

/* Replaces the users of a GPU by those of these processes, at most LULL_DEVICE_MAX_PROCESSES.
 * True: they are others than before. */
bool lull_users_note(struct lull_users *users, uint32_t gpu, const pid_t *pids, uint32_t count);

/* Copies the users of a GPU; returns how many they are. */
uint32_t lull_users_of(struct lull_users *users, uint32_t gpu,
                       uid_t uids_out[LULL_DEVICE_MAX_PROCESSES]);

#endif
