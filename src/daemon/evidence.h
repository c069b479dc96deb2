/*
 * Evidence: what gives a client the right to control a GPU. In this order: root; the job that has
 * the GPU, whose user and control group must be the client's; the GPU's device, really opened; the
 * policy's rules. Without evidence nothing is granted; nor is it, unless the policy allows that, on
 * a GPU that several jobs have, or on which another user computes. Pure. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_EVIDENCE_H
#define LULL_DAEMON_EVIDENCE_H

#include <stdbool.h>

#include "base/error.h"
#include "daemon/jobs.h"
#include "daemon/policy.h"

/* Evidence about a client and the GPU that it requests, as reported by the kernel and the driver.
 */
struct lull_evidence {
    struct lull_policy_person person;
    bool is_foreign;     /* of a PID namespace or of users that are not known here */
    bool has_device;     /* it has shown that it has opened the GPU's device */
    const char *cgroups; /* contents of /proc/PID/cgroup; "" unknown */
    const char *uuid;
    const char *pci;
    const uid_t *users; /* users that compute on the GPU, root left out; NULL: no user */
    uint32_t user_count;
};

/*
 * Decides whether a client may control a GPU, and returns the floors and caps that bind it. Errors,
 * whose text says why, and what would help: -EACCES; -ENOKEY its device, opened, would be evidence.
 */
int lull_evidence_judge(const struct lull_evidence *evidence, const struct lull_policy *policy,
                        const struct lull_jobs *jobs, struct lull_policy_limits *limits_out,
                        struct lull_error *err);

/*
 * Returns whether an open descriptor (fstat, F_GETFL) is that of the character device with this
 * number, really opened, for reading and writing. A process that may not open a device can
 * still get an O_PATH descriptor of it.
 */
bool lull_evidence_is_opened(mode_t mode, dev_t number, int flags, dev_t wanted);

/* Returns whether any of the control groups in the text of a /proc/PID/cgroup is this one or below
 * it. */
bool lull_evidence_is_below(const char *cgroups, const char *cgroup);

/* Returns whether a user is one that represents all who are not known here (the kernel's
 * overflowuid). */
bool lull_evidence_is_unmapped(uid_t uid);

#endif
