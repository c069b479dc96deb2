/*
 * Names the pod and the container of a process from its control groups, as docker, containerd,
 * cri-o, podman and kubelet write them. A process may choose the names of control groups below its
 * own, so the result is for messages only and proves nothing.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_POD_H
#define LULL_BASE_POD_H

#include <stdbool.h>

enum {
    LULL_POD_UID_BYTES = 37,       /* 8-4-4-4-12 digits, or the 32 of a static pod */
    LULL_POD_CONTAINER_BYTES = 65, /* 64 digits */
};

struct lull_pod {
    char uid[LULL_POD_UID_BYTES];             /* as metadata.uid; "": in no pod */
    char container[LULL_POD_CONTAINER_BYTES]; /* "": not known */
};

/*
 * Finds the pod and the container in the text of a /proc/PID/cgroup, of version 1 or 2. The first
 * line that names a pod counts, otherwise the first that names a container. In a line the outermost
 * pod counts, and the outermost container in it: the names that the host's own kubelet and runtime
 * use. Returns false, and two empty names, where no line has either.
 */
bool lull_pod_find(const char *cgroups, struct lull_pod *pod_out);

#endif
