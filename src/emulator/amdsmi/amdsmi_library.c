/*
 * Opens the library, lists its GPUs and names them. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/amdsmi/amdsmi_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AMD SMI's interface has one state per process, hence this global. */
static struct lull_driver driver = {.mutex = PTHREAD_MUTEX_INITIALIZER};

uint32_t amdsmi_abi(void)
{
    const char *wanted = getenv("LULL_EMULATED_AMD_SMI");
    const long abi = wanted != NULL ? strtol(wanted, NULL, 10) : 0;

    if (abi >= 24 && abi <= 27)
        return (uint32_t)abi;
    return LULL_AMDSMI_MAJOR;
}

AMDSMI_EXPORT(amdsmi_init, uint64_t flags)
{
    const uint64_t gpus = 2;

    if ((flags & gpus) == 0)
        return AMDSMI_INVAL;
    if (lull_driver_open(&driver, LULL_GPU_AMD, NULL))
        return AMDSMI_OK;
    return AMDSMI_NOT_LOADED;
}

AMDSMI_EXPORT(amdsmi_shut_down, void)
{
    lull_driver_close(&driver);
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_lib_version, struct amdsmi_version *version_out)
{
    const uint32_t abi = amdsmi_abi();
    struct amdsmi_version version = {{abi, 0, 0, 0}, "emulated"};

    if (version_out == NULL)
        return AMDSMI_INVAL;
    if (abi < 26) /* the year comes first */
        version.numbers[1] = 7;
    *version_out = version;
    return AMDSMI_OK;
}

int amdsmi_enter_library(void)
{
    return lull_driver_is_open(&driver) ? AMDSMI_OK : AMDSMI_NOT_INIT;
}

struct lull_driver_gpu *amdsmi_gpu_at(uint32_t position)
{
    return lull_driver_gpu_at(&driver, position);
}

uint32_t amdsmi_gpu_count(void)
{
    return driver.gpu_count;
}

/* ---- handles ---- */

/* Lists the sockets by bus address, which runs against HIP's order here, as it may on a real node:
 * a client that mistakes one for the other sets the wrong GPU. */
AMDSMI_EXPORT(amdsmi_get_socket_handles, uint32_t *count, void **sockets)
{
    if (!lull_driver_is_open(&driver))
        return AMDSMI_NOT_INIT;
    if (count == NULL)
        return AMDSMI_INVAL;
    if (sockets != NULL && *count < driver.gpu_count)
        return AMDSMI_SMALL;
    for (uint32_t i = 0; sockets != NULL && i < driver.gpu_count; i++)
        sockets[i] = lull_driver_gpu_at(&driver, driver.gpu_count - 1 - i);
    *count = driver.gpu_count;
    return AMDSMI_OK;
}

static int amdsmi_handle_find_gpu(const void *handle, const struct lull_driver_gpu **gpu_out)
{
    if (!lull_driver_is_open(&driver))
        return AMDSMI_NOT_INIT;
    if (handle == NULL)
        return AMDSMI_INVAL;
    for (uint32_t i = 0; i < driver.gpu_count; i++) {
        *gpu_out = lull_driver_gpu_at(&driver, i);
        if (*gpu_out == handle)
            return lull_node_visit((*gpu_out)->node, (*gpu_out)->index) ? AMDSMI_OK
                                                                        : AMDSMI_NOT_FOUND;
    }
    return AMDSMI_NOT_FOUND;
}

AMDSMI_EXPORT(amdsmi_get_processor_handles, void *socket, uint32_t *count, void **processors)
{
    AMDSMI_ENTER(amdsmi_handle_find_gpu(socket, &gpu));
    if (count == NULL)
        return AMDSMI_INVAL;
    if (processors != NULL && *count < 1)
        return AMDSMI_SMALL;
    if (processors != NULL)
        processors[0] = socket;
    *count = 1;
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_processor_type, void *handle, int *type_out)
{
    const int amd_gpu = 1;

    AMDSMI_ENTER(amdsmi_enter(handle, type_out, &gpu));
    *type_out = amd_gpu;
    return AMDSMI_OK;
}

int amdsmi_enter(void *handle, const void *output, const struct lull_driver_gpu **gpu_out)
{
    int code = amdsmi_handle_find_gpu(handle, gpu_out);

    if (code == AMDSMI_OK && output == NULL)
        return AMDSMI_INVAL;
    if (code == AMDSMI_OK)
        lull_driver_has_get_fault(*gpu_out, &code);
    return code;
}

int amdsmi_enter_root(void *handle, const struct lull_driver_gpu **gpu_out)
{
    const int code = amdsmi_handle_find_gpu(handle, gpu_out);

    if (code == AMDSMI_OK && !lull_driver_may_set(*gpu_out))
        return AMDSMI_NO_PERM;
    return code;
}

static bool is_next_die(const struct lull_driver_gpu *gpu, const struct lull_driver_gpu *next)
{
    return next != NULL && next->index == gpu->index + 1 &&
           strcmp(gpu->model.name, next->model.name) == 0;
}

uint32_t amdsmi_module(const struct lull_driver_gpu *gpu, const struct lull_driver_gpu *dies[2])
{
    uint32_t before = 0;

    dies[0] = gpu;
    if (gpu->model.dies_per_module != 2)
        return 1;
    while (gpu->position > before &&
           is_next_die(lull_driver_gpu_at(&driver, gpu->position - before - 1),
                       lull_driver_gpu_at(&driver, gpu->position - before)))
        before++;
    if (before % 2 == 1)
        return 0;
    dies[1] = lull_driver_gpu_at(&driver, gpu->position + 1);
    if (is_next_die(gpu, dies[1]))
        return 2;
    return 1;
}
