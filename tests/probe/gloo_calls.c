/*
 * Loads the library named as argument locally (RTLD_LOCAL), as Python loads its modules,
 * or uses the preloaded one, and makes it call all functions that the gloo shim wraps.
 *   gloo_calls [LIBRARY]
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char *argv[])
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : RTLD_DEFAULT;
    void (*run)(void);

    *(void **)&run = argc > 1 && library == NULL ? NULL : dlsym(library, "gloo_caller_run");
    if (run == NULL) {
        fprintf(stderr, "gloo_calls: %s\n", dlerror());
        return 1;
    }
    run();
    return 0;
}
