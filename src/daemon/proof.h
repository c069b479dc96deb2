/*
 * Proofs: a client shows that it has opened a GPU's device by passing the descriptor (SCM_RIGHTS).
 * The pool of threads for foreign descriptors (foreign.h) takes, examines and closes it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_PROOF_H
#define LULL_DAEMON_PROOF_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/foreign.h"
#include "daemon/policy.h"
#include "device/device.h"

/* The result of a proof; the pool's thread writes it before it calls done(). */
struct lull_proof_result {
    int code; /* 0; -EACCES, or -EPROTO: nothing to be answered */
    uint32_t sequence;
    uint64_t gpus; /* a bit for each */
};

struct lull_proof {
    uid_t uid;    /* of the client */
    pid_t sender; /* whose packets count */
    uint32_t gpu_count;
    char devices[LULL_DEVICE_MAX_GPUS][LULL_POLICY_NAME_BYTES]; /* "": none gives a right */
    struct lull_proof_result *result;
    void (*done)(void *context);
    void *context;
};

/*
 * Takes the next packet of a client's socket, which has descriptors, on a thread of the pool; proof
 * is copied. done() is called there, and last. Errors, after which nothing is called: -errno.
 */
int lull_proof_start(struct lull_foreign *foreign, int fd, const struct lull_proof *proof);

#endif
