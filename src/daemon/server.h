/*
 * The server of lulld: connections, leases and their ends, on one event loop that never calls the
 * driver. Threads: one; the device writer runs beside it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_SERVER_H
#define LULL_DAEMON_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "daemon/policy.h"
#include "device/device.h"
#include "device/journal.h"
#include "device/keeper.h"

enum { LULL_SERVER_OPEN_MODE = 0666 }; /* of the socket: every user may connect */

struct lull_server_options {
    const char *runtime_dir;
    mode_t socket_mode;      /* permissions: the users that may connect */
    bool opens_with_policy;  /* a policy that is loaded later sets LULL_SERVER_OPEN_MODE */
    gid_t socket_group;      /* (gid_t)-1: the one that the socket is created with */
    const char *policy_path; /* the file that lull reload reads */
    struct lull_policy policy;
    struct lull_keeper *keeper; /* gets the device writer's heartbeats; NULL: none runs */
    bool is_resetting;          /* also reset GPUs whose driver comes later */
    int ready_fd;               /* is written to and closed once clients can connect; -1: none */
};

/*
 * Listens and serves until SIGTERM or SIGINT, then raises and restores every GPU. Errors: -errno
 * could not listen; -ETIMEDOUT not every GPU could be restored within 5 s; -EINPROGRESS a thread is
 * stuck in the driver and still uses devices and journal.
 */
int lull_server_run(struct lull_devices *devices, struct lull_journal *journal,
                    const struct lull_server_options *options, struct lull_error *err);

#endif
