/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/loaded_symbol.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

/* Copies out the name of one library: nothing may be opened while libraries are gone through. */
struct search {
    unsigned left; /* libraries before the wanted one */
    char name[PATH_MAX];
};

static int loaded_symbol_visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;

    (void)size;
    if (search->left-- > 0)
        return 0;
    search->name[0] = '\0';
    if (info->dlpi_name != NULL && strlen(info->dlpi_name) < sizeof(search->name))
        memcpy(search->name, info->dlpi_name, strlen(info->dlpi_name) + 1);
    return 1;
}

static int is_of_this_library(const void *found)
{
    Dl_info its;
    Dl_info own;

    return dladdr(found, &its) != 0 && dladdr((const void *)&loaded_symbol_visit, &own) != 0 &&
           its.dli_fbase == own.dli_fbase;
}

static void *symbol_in(const char *library_name, const char *symbol)
{
    void *library = dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
    void *found;

    if (library == NULL)
        return NULL;
    found = dlsym(library, symbol);
    dlclose(library);
    if (found != NULL && is_of_this_library(found))
        return NULL;
    return found;
}

void *lull_loaded_symbol(const char *symbol)
{
    struct search search;
    void *found = NULL;

    for (unsigned i = 0; found == NULL; i++) {
        search.left = i;
        if (dl_iterate_phdr(loaded_symbol_visit, &search) == 0)
            break;
        if (search.name[0] != '\0')
            found = symbol_in(search.name, symbol);
    }
    return found;
}
