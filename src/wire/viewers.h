/*
 * The group that may see the live states of all users' runs (wire/live.h), as set in the
 * administrator's policy. lulld writes its number into a file of its runtime directory, and
 * governors grant it read access to their runs. Without the file only its user and root can see a
 * run.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_VIEWERS_H
#define LULL_WIRE_VIEWERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Writes the group's id, or removes the file if there is no group. Errors: -errno with the
 * path. */
int lull_viewers_write(const char *runtime_dir, bool has_group, gid_t group,
                       struct lull_error *err);

/* Returns whether there is such a group. A file that neither root nor this user owns, or that
 * others may write, is ignored. */
bool lull_viewers_read(const char *runtime_dir, gid_t *group_out);

#endif
