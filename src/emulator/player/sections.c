/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/sections.h"

#include <dlfcn.h>
#include <limits.h>

#include "base/file.h"

void lull_play_sections_open(struct lull_play_sections *sections)
{
    char path[PATH_MAX];
    const bool is_built =
        lull_file_find_own("probe/liblull.so.0", "liblull.so.0", path, sizeof(path), NULL) == 0;
    void *library = dlopen(is_built ? path : "liblull.so.0", RTLD_NOW);

    if (library == NULL)
        return;
    *(void **)&sections->begin = dlsym(library, "lull_section_begin");
    *(void **)&sections->end = dlsym(library, "lull_section_end");
}

void lull_play_sections_tell(const struct lull_play_sections *sections, const char *name,
                             bool is_end)
{
    void (*const tell)(const char *) = is_end ? sections->end : sections->begin;

    if (name != NULL && tell != NULL)
        tell(name);
}
