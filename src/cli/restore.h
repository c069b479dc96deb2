/*
 * Undoing what Lull has changed on this node, for `lull restore` and for the key of `lull top`.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_RESTORE_H
#define LULL_CLI_RESTORE_H

#include <stdbool.h>

#include "base/error.h"

enum { LULL_CLI_RESTORED_BYTES = 480 };

/*
 * Restores the GPUs of this node through lulld, or, where none answers, from this process as root,
 * and writes what has been done. It waits for the driver, and for lulld at most 6 s. Errors: -EPERM
 * there is no lulld and this is not root; -EACCES lulld refuses; -EBUSY; -errno.
 */
int lull_cli_restore(const char *runtime_dir, bool is_forced,
                     char said_out[LULL_CLI_RESTORED_BYTES], struct lull_error *err);

#endif
