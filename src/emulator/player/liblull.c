/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/liblull.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>

#include "base/file.h"

void lull_play_find_liblull(const char *name, void *function_out)
{
    char path[PATH_MAX];
    const bool is_built =
        lull_file_find_own("probe/liblull.so.0", "liblull.so.0", path, sizeof(path), NULL) == 0;
    void *const library = dlopen(is_built ? path : "liblull.so.0", RTLD_NOW);

    *(void **)function_out = library != NULL ? dlsym(library, name) : NULL;
}
