/*
 * A webhook: POST /grid with Lull's own JSON (grid.h) replaces the events of the grid's file, if
 * the request has the secret: Authorization: Bearer SECRET. The requests are stored in the file, so
 * they survive a restart of this program.
 *
 * Threads: start and stop belong to one thread; requests are served on one inside.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_WEBHOOK_H
#define LULL_CLUSTER_CLI_BUDGET_WEBHOOK_H

#include "cluster/cli/budget/settings.h"

struct lull_webhook; /* opaque */

/* Listens at the address in the settings, which must live until stop. Errors: -EINVAL no address,
 * or no secret of 16 to 4095 characters; those of lull_file_read(); -EADDRNOTAVAIL the address
 * cannot be bound; -ENOMEM. */
int lull_webhook_start(const struct lull_budget_settings *settings,
                       struct lull_webhook **webhook_out, struct lull_error *err);

/* NULL is allowed. */
void lull_webhook_stop(struct lull_webhook *webhook);

#endif
