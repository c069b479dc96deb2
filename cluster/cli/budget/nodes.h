/*
 * The nodes of a budget, by their lulld: what their GPUs draw and who has them, and the caps that
 * they are given. A node that does not answer is left out and tried again.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_NODES_H
#define LULL_CLUSTER_CLI_BUDGET_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/cli/budget/settings.h"
#include "cluster/core/power/power_steer.h"
#include "wire/client.h"

enum { LULL_BUDGET_MAX_GPUS = 64 /* of a node */ };

struct lull_budget_connection {
    const char *name;
    const char *runtime_dir;
    struct lull_client *client; /* NULL: it does not answer */
    bool was_reported;          /* that it does not */
    bool is_refusing;   /* this user may not cap its GPUs, as long as the connection lasts */
    uint32_t gpu_count; /* as in its last answer */
    struct lull_message_state states[LULL_BUDGET_MAX_GPUS];
    struct lull_message_cap sent[LULL_BUDGET_MAX_GPUS];
    int64_t sent_ns[LULL_BUDGET_MAX_GPUS]; /* 0: nothing was sent over this connection */
};

struct lull_budget_nodes {
    uint32_t count;
    struct lull_budget_connection *nodes;
};

/* Borrows the settings, which own the nodes' names, and the
 * runtime directory, which is used for nodes without one of their
 * own. -ENOMEM. */
int lull_budget_nodes_open(const struct lull_budget_settings *settings, const char *runtime_dir,
                           struct lull_budget_nodes *nodes_out);

/* Closes the connections; the caps stay until they expire. */
void lull_budget_nodes_close(struct lull_budget_nodes *nodes);

/* Requests the state of the GPUs from all nodes. Returns true if the set of GPUs has changed. */
bool lull_budget_nodes_look(struct lull_budget_nodes *nodes);

/* Sets the cap of a GPU for hold_ms, if it has another one or none, or if the cap must be renewed.
 */
void lull_budget_nodes_order(struct lull_budget_nodes *nodes, uint32_t node, uint32_t gpu,
                             const struct lull_steer_order *order, uint32_t hold_ms);

#endif
