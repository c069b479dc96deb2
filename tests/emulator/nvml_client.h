/*
 * A client of the emulated libnvidia-ml.so.1 on a node of its own, for tests of that library.
 * Threads: any, between start and stop. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_EMULATOR_NVML_CLIENT_H
#define LULL_TESTS_EMULATOR_NVML_CLIENT_H

#include "check.h"

#include <dlfcn.h>
#include <unistd.h>

#include "emulator/node.h"
#include "emulator/nvml/nvml_abi.h"

static struct lull_node *node;
static void *library;
static nvmlDevice_t device; /* GPU 0 */

static inline void *find(const char *name)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        fail_msg("missing symbol %s", name);
    return symbol;
}

/* Calls an NVML function by its name and argument types. */
#define NVML(name, types, ...) (((int(*) types)find("nvml" #name))(__VA_ARGS__))

static inline int start_nvml(const char *spec_text)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};

    if (lull_node_spec_parse(spec_text, &spec, NULL) < 0 ||
        lull_node_create(&spec, &node, NULL) < 0)
        return -1;
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    library = dlopen(LULL_EMULATED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    if (NVML(InitWithFlags, (unsigned), 0) != 0)
        return -1;
    return NVML(DeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *), 0, &device);
}

static inline int stop_nvml(void **state)
{
    (void)state;
    NVML(Shutdown, (void));
    dlclose(library);
    lull_node_remove(node);
    return 0;
}

static inline nvmlDevice_t handle(unsigned index)
{
    nvmlDevice_t found = NULL;

    assert_int_equal(NVML(DeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *), index, &found), 0);
    return found;
}

static inline int lock_clocks(nvmlDevice_t gpu, unsigned min, unsigned max)
{
    return NVML(DeviceSetGpuLockedClocks, (nvmlDevice_t, unsigned, unsigned), gpu, min, max);
}

#endif
