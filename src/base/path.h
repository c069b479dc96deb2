/*
 * Whether the file system of a path answers. A call that waits for one that does not (NFS, FUSE)
 * may last for ever, and a process with a thread in such a call does not even end when it is
 * killed.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PATH_H
#define LULL_BASE_PATH_H

#include "base/error.h"

/*
 * Looks at a path, relative to the working directory, in a process of its own: it is opened for
 * reading, and so is the directory above it, where a file would be created. Any answer of the file
 * system will do: 0 as well where the path does not exist or may not be read. Errors: -ETIMEDOUT
 * there was none within 2 s, with the path in the text; that process is left behind. -errno no
 * process could be started.
 */
int lull_path_check(const char *path, struct lull_error *err);

#endif
