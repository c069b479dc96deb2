/* SPDX-License-Identifier: Apache-2.0 */
#include "device/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "device/fault.h"

int lull_library_open(const char *variable, const char *const *names, const char *what,
                      void **library_out, char *name_out, size_t name_size, struct lull_error *err)
{
    const char *const chosen[] = {getenv(variable), NULL};
    char reason[160] = "";

    if (chosen[0] != NULL && chosen[0][0] != '\0')
        names = chosen;
    for (; *names != NULL; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);

        if (library != NULL) {
            snprintf(name_out, name_size, "%s", *names);
            *library_out = library;
            return 0;
        }
        if (reason[0] == '\0') /* the error for the newest name says most */
            snprintf(reason, sizeof(reason), "%s", dlerror());
    }
    return lull_error_set(err, -ENOENT,
                          "no %s driver library (%s): install the driver, or set %s to the "
                          "library's path",
                          what, reason, variable);
}

int lull_library_open_driver(const char *variable, const char *const *names, const char *what,
                             void **library_out, char *name_out, size_t name_size,
                             struct lull_error *err)
{
    void *library = NULL;
    int result = lull_library_open(variable, names, what, &library, name_out, name_size, err);

    if (result == 0 && lull_file_is_node_emulated() &&
        dlsym(library, LULL_EMULATED_LIBRARY_MARK) == NULL) {
        dlclose(library);
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%s: drives hardware, but " LULL_EMULATED_NODE_VARIABLE
                              " says that this is an emulated node; unset it",
                              name_out);
    }
    if (result == 0)
        *library_out = library;
    return result;
}

/* A symbol is stored through memcpy, because ISO C cannot convert an object pointer to a function
 * pointer. */
void lull_library_bind(void *library, void *table, const struct lull_library_symbol *symbols,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library, symbols[i].name);

        if (address == NULL && symbols[i].older_name != NULL)
            address = dlsym(library, symbols[i].older_name);
        memcpy((char *)table + symbols[i].offset, &address, sizeof(address));
    }
}

const struct lull_library_meaning *lull_library_meaning(const struct lull_library_meaning *rows,
                                                        size_t count, int code)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].code == code)
            return &rows[i];
    return &rows[count - 1];
}

bool lull_library_may_pass(const struct lull_library_meaning *meaning)
{
    return lull_fault_may_pass(lull_fault_of(meaning->error));
}

static int compare_descending(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;

    return (a < b) - (a > b);
}

void lull_library_sort_clocks(uint32_t *clocks_mhz, uint32_t count)
{
    qsort(clocks_mhz, count, sizeof(clocks_mhz[0]), compare_descending);
}

uint32_t lull_library_min_limit_mw(uint64_t reported_mw, uint32_t highest_mw)
{
    return reported_mw > 0 && reported_mw <= highest_mw ? (uint32_t)reported_mw : highest_mw / 4;
}
