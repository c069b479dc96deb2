/*
 * The file of the policy. Threads: any that may wait for the name service.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_POLICY_FILE_H
#define LULL_DAEMON_POLICY_FILE_H

#include "daemon/policy.h"

#define LULL_POLICY_FILE "/etc/lull/policy.conf"

/*
 * Reads a policy, whose file must belong to root or to the user of this process, and be writable by
 * no other user. With a listener (NULL: none), all errors in its text are reported to it.
 * Errors: -ENOENT no file; -EPERM another program could have written it; -EINVAL as
 * lull_policy_read() says; -errno.
 */
int lull_policy_load(const char *path, const struct lull_policy_listener *listener,
                     struct lull_policy *policy_out, struct lull_error *err);

/* The policy where there is no file: a group, or every user, may control all GPUs. */
void lull_policy_without_file(gid_t group, bool is_for_all, struct lull_policy *policy_out);

#endif
