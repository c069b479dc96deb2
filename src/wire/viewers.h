/*
 * Who may see the live states of all users' runs (wire/live.h): a group that the administrator's
 * policy names. lulld writes its number into a file of its runtime directory, and governors open
 * their runs to it. Without the file a run is private: its user and root see it.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_VIEWERS_H
#define LULL_WIRE_VIEWERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Writes the group's number, or removes the file where there is none. Errors: -errno with the
 * path. */
int lull_viewers_write(const char *runtime_dir, bool has_group, gid_t group,
                       struct lull_error *err);

/* Returns whether there is such a group. A file that neither root nor this user has written, or
 * that others may write, names none. */
bool lull_viewers_read(const char *runtime_dir, gid_t *group_out);

#endif
