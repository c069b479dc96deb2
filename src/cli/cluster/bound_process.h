/*
 * lull-bound as a process: CLP and CBC must never share a program with what GPL libraries are
 * linked to. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_BOUND_PROCESS_H
#define LULL_CLI_CLUSTER_BOUND_PROCESS_H

#include "base/error.h"
#include "core/cluster/slots.h"

/* The proven bound of a checked problem, J. slot_s > 0 is told. Errors: as lull_cluster_bound. */
int lull_bound_process(const struct lull_slot_problem *problem, double slot_s, double *bound_j_out,
                       struct lull_error *err);

#endif
