/*
 * The privileges that lulld drops before any client can connect: capabilities, new privileges, and
 * every system call that neither it nor a vendor's library needs once the driver is open.
 *
 * Threads: the caller's thread and all others get the filter; the capabilities are those of the
 * caller's thread and of the threads that it starts later.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_SANDBOX_H
#define LULL_DAEMON_SANDBOX_H

#include <sys/types.h>

#include "base/error.h"

/*
 * Enters the sandbox, permanently. socket_group: the group that the socket will be given, which
 * must be one of this process's own afterwards; (gid_t)-1: none. What is in the sandbox can still
 * reload a driver's library and start a keeper, which stays in the sandbox as well. Errors, after
 * which some of it may be in force: -errno of the kernel; the text says what it refused.
 */
int lull_sandbox_enter(gid_t socket_group, struct lull_error *err);

#endif
