/*
 * Why a job of a run waited, why it ran where it did, and why at its clock: for people, on one
 * screen, or for programs. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_EXPLAIN_H
#define LULL_CLI_CLUSTER_EXPLAIN_H

#include <jansson.h>

#include "base/error.h"
#include "cli/cluster/gangs.h"
#include "cli/printable.h"
#include "simulator/cluster/waiting.h"

struct lull_explained {
    const struct lull_gangs *gangs;
    uint32_t job;
    const struct lull_cluster_job *asked;
    const struct lull_cluster_outcome *outcome;
    struct lull_cluster_wait wait; /* zero: it was rejected */
};

/*
 * wish->explain names a job: as the trace does, else by its number in the order of arrival, from 0.
 * Errors: -EINVAL no such job; -ENOMEM.
 */
int lull_explain_job(const struct lull_gangs *gangs, struct lull_explained *explained_out,
                     struct lull_error *err);
void lull_explain_print(const struct lull_explained *explained, FILE *out);

/* NULL: no memory. */
json_t *lull_explain_json(const struct lull_explained *explained);

/* What the trace calls a job; its number where it has no name. */
struct lull_printable lull_explain_name(const struct lull_gangs *gangs, uint32_t job);

/* The mode that needs the fewest GPUs. */
const struct lull_cluster_mode *lull_explain_smallest(const struct lull_cluster_job *job);

/* GPUs of a type in a pool. O(nodes). */
uint64_t lull_explain_gpus(const struct lull_cluster *cluster, uint32_t pool, uint32_t type);

#endif
