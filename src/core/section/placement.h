/*
 * Placement: decides from observations of a process on which GPU it may be managed. A GPU
 * is chosen only if the process uses it for certain: the clock of any other belongs to another
 * program.
 *
 * Sets of GPUs are masks of the numbers that the driver library gives them (0 to 63). The GPUs of a
 * set are certain, but a set may be incomplete: a GPU that is missing in it may be used
 * nevertheless.
 *
 * Pure; threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_PLACEMENT_H
#define LULL_CORE_SECTION_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct lull_placement_evidence {
    uint64_t communicating; /* GPUs that its probes report a communicator on */
    uint64_t contexts;      /* GPUs that its probes report a context on */
    uint64_t listed;        /* GPUs whose driver lists the process */
    uint64_t blind;         /* GPUs whose driver could not list this process */
    uint64_t visible;       /* the only GPU that the process can use; 0: there are several */
    bool is_elsewhere;      /* its probes report a GPU that the driver library does not list */
};

enum lull_placement {
    LULL_PLACEMENT_UNSEEN,    /* no GPU known yet */
    LULL_PLACEMENT_ON,        /* it uses this GPU */
    LULL_PLACEMENT_SEVERAL,   /* it uses several GPUs, none more than the others */
    LULL_PLACEMENT_ELSEWHERE, /* it uses a GPU that cannot be named here */
};

/*
 * Decides. *gpu_out is written for LULL_PLACEMENT_ON alone. A communicator outweighs contexts: a
 * process often has a context on a GPU that it does not compute on. If nothing was observed and the
 * driver cannot list the process, its only GPU is chosen. This assumes that the process uses a GPU
 * at all.
 */
enum lull_placement lull_placement_decide(const struct lull_placement_evidence *evidence,
                                          uint32_t *gpu_out);

#endif
