/*
 * The node as it is now, as one JSON document: readings of its GPUs from the drivers, their state
 * in lulld, and the state published by the governors of running jobs. An unknown value is null, and
 * the object "unknown" next to it has the reason.
 *
 * Looking never waits long: a driver that hangs holds up a thread of its own
 * (governor/run/sampler.h), and its readings are forgotten after three seconds.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_NODE_H
#define LULL_CLI_SERVE_NODE_H

#include <stdbool.h>

#include <jansson.h>

struct lull_serve_node;

/* Begins; runtime_dir of lulld, borrowed. is_for_all: runs of other users are shown as well, where
 * this user may read them. NULL: out of memory. */
struct lull_serve_node *lull_serve_node_create(const char *runtime_dir, bool is_for_all);

/* Frees it; NULL is allowed. A driver that hangs keeps its thread. */
void lull_serve_node_destroy(struct lull_serve_node *node);

/* Looks at everything and returns a new document; NULL: out of memory. */
json_t *lull_serve_node_look(struct lull_serve_node *node);

#endif
