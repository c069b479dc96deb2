/*
 * Which node of a job this is, and how many there are, where one `lull run` has been started on
 * each: told by the user, or by the launcher (Slurm, Open MPI, MPICH and others that speak PMI)
 * through the environment.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PEERS_NODES_H
#define LULL_GOVERNOR_PEERS_NODES_H

#include <stdint.h>

#include "base/error.h"

struct lull_nodes {
    uint32_t self; /* from 0 */
    uint32_t count;
};

/* "I/N", as in 0/2. Errors: -EINVAL. */
int lull_nodes_parse(const char *text, struct lull_nodes *nodes_out);

/* Reads the launcher's variables. Errors: -ENOENT there are none; the text says what to do. */
int lull_nodes_find(struct lull_nodes *nodes_out, struct lull_error *err);

#endif
