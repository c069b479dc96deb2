/*
 * A client of an OpenADR 3 server (VTN): polls its events on a separate thread through curl(1),
 * which handles TLS, proxies and certificates. While the server does not answer, the last valid
 * response applies until its events end.
 *
 * Threads: start and stop belong to one thread, read may be called by any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_OPENADR_H
#define LULL_CLUSTER_CLI_BUDGET_OPENADR_H

#include "cluster/cli/budget/grid.h"
#include "cluster/cli/budget/settings.h"

struct lull_openadr; /* opaque */

/*
 * Starts polling. The settings must live until stop. Errors: -EINVAL an invalid address, program or
 * token: a token is sent only over https, or to this host; those of lull_file_read() for the
 * token's file; -ENOMEM; -errno.
 */
int lull_openadr_start(const struct lull_budget_settings *settings,
                       struct lull_openadr **openadr_out, struct lull_error *err);

/* Stops polling at once, even during a request. NULL is allowed. */
void lull_openadr_stop(struct lull_openadr *openadr);

/* Copies the events that are known; none before the first answer. NULL: none. */
void lull_openadr_read(struct lull_openadr *openadr, struct lull_grid_events *grid_out);

#endif
