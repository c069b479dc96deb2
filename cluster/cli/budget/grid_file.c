/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/grid_file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "base/path.h"

/* Timeout of a round for reading the file. */
enum { WAIT_MS = 200 };

/* In a process of its own. An invalid file is read once, so its stamp is kept as well. */
static int grid_file_poll(void *context, struct lull_error *err)
{
    struct lull_grid_file *const file = context;
    struct stat unused;
    char *text;
    size_t size;
    int result;

    if (stat(file->path, &unused) < 0 && errno == ENOENT) {
        file->grid.count = 0;
        file->stamp = (struct lull_file_stamp){0};
        return 0;
    }
    if (!lull_file_has_changed(file->path, &file->stamp))
        return 0;
    result = lull_file_read(file->path, LULL_GRID_MAX_BYTES, &text, &size, err);
    if (result < 0)
        return result;
    result = lull_grid_read(file->path, text, size, (int64_t)time(NULL), &file->grid, err);
    free(text);
    return result;
}

const struct lull_grid_events *lull_grid_file_read(struct lull_grid_file *file)
{
    struct lull_error error = {0};
    int result;

    if (file->path[0] == '\0')
        return &file->grid;
    result = lull_path_do(file->path, WAIT_MS, grid_file_poll, file, sizeof(*file), &error);
    if (result < 0 && !(result == -ETIMEDOUT && file->is_late))
        lull_log(LULL_LOG_WARNING, "budget", "%s; the previous limits stay in force", error.text);
    file->is_late = result == -ETIMEDOUT;
    return &file->grid;
}
