/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state_directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* The directory in which root keeps what is learnt. */
#define NODE_STATE_DIRECTORY "/var/lib/lull"

/* Writes the path of the state directory; state of an emulated node has a folder of its own. */
static int state_directory_write(const char *base, const char *below, char *path_out, size_t size,
                                 struct lull_error *err)
{
    const char *const apart = lull_file_is_node_emulated() ? "/emulated" : "";

    if (strlen(base) + strlen(below) + strlen(apart) >= size)
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", base);
    snprintf(path_out, size, "%s%s%s", base, below, apart);
    return 0;
}

int lull_state_directory_find(const char *chosen, char *path_out, size_t size,
                              struct lull_error *err)
{
    static const struct {
        const char *variable;
        const char *below;
    } places[] = {{"XDG_STATE_HOME", "/lull"}, {"HOME", "/.local/state/lull"}};
    const char *base = chosen != NULL ? chosen : getenv("LULL_STATE_DIR");
    const char *below = "";

    if ((base == NULL || *base == '\0') && geteuid() == 0)
        base = NODE_STATE_DIRECTORY;
    for (size_t i = 0; (base == NULL || *base == '\0') && i < 2; i++) {
        base = getenv(places[i].variable);
        below = places[i].below;
    }
    if (base == NULL || *base == '\0')
        return lull_error_set(err, -ENOENT, "no state directory: set HOME or LULL_STATE_DIR");
    return state_directory_write(base, below, path_out, size, err);
}

int lull_state_directory_find_node(char *path_out, size_t size, struct lull_error *err)
{
    const char *const base = getenv("LULL_STATE_DIR");

    return state_directory_write(base != NULL && *base != '\0' ? base : NODE_STATE_DIRECTORY, "",
                                 path_out, size, err);
}
