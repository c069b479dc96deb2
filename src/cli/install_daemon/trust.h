/*
 * Checks that only root can change the files that root executes. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_INSTALL_DAEMON_TRUST_H
#define LULL_CLI_INSTALL_DAEMON_TRUST_H

#include "base/error.h"

/*
 * Checks that a path, with all links resolved, and every directory above it belong to root and
 * cannot be written by other users. Errors: -EPERM, with the file or directory in the text; -errno.
 */
int lull_trust_check_path(const char *path, struct lull_error *err);

/* Checks the same of every library that the dynamic linker loads for a program. The program must
 * be one that root may execute. Errors: as above; -ENOEXEC it cannot be loaded. */
int lull_trust_check_libraries(const char *program, struct lull_error *err);

#endif
