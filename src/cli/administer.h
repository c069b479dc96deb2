/* Shared by the commands of administrators. Threads: one. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_ADMINISTER_H
#define LULL_CLI_ADMINISTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/client.h"

/* Requests something and waits until it is done. Errors: those of lull_client_call(). */
int lull_cli_query_lulld(struct lull_client *client, struct lull_message *message,
                         struct lull_error *err);

/* Finds a user by name or number. Errors: -EINVAL. */
int lull_cli_find_user(const char *text, uint32_t *uid_out, struct lull_error *err);

/* Turns what an administrator calls a GPU into a UUID or PCI address: lulld knows no indices, but
 * batch systems do. Errors: -EINVAL; those of lull_client_call(). */
int lull_cli_name_gpu(struct lull_client *client, const char *text, char *name_out, size_t size,
                      struct lull_error *err);

#endif
