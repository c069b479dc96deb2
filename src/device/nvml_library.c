/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvml_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define SYMBOL(type, member, name, older_name)                                                     \
    {offsetof(struct lull_nvml, member), name, older_name},
static const struct lull_library_symbol symbols[] = {NVML_CALLS(SYMBOL)};

static const struct lull_library_meaning meanings[] = {
    {0, 0, "success"},
    {1, LULL_E_NO_DRIVER, "the driver library is not initialised"},
    {2, -EINVAL, "invalid argument"},
    {3, LULL_E_UNSUPPORTED, "not supported by this GPU"},
    {4, -EPERM, "not permitted: needs root or CAP_SYS_ADMIN"},
    {5, -EINVAL, "already initialised"},
    {6, LULL_E_NO_DEVICE, "not found"},
    {7, -EINVAL, "the buffer is too small"},
    {8, -EIO, "external power is missing: check the power cables"},
    {9, LULL_E_NO_DRIVER, "the kernel driver is not loaded"},
    {10, -EAGAIN, "timeout"},
    {11, -EAGAIN, "interrupt problem"},
    {12, LULL_E_NO_DRIVER, "the driver library was not found"},
    {13, LULL_E_UNSUPPORTED, "not in this driver; a newer one may do it"},
    {14, -EIO, "the infoROM is corrupted"},
    {15, LULL_E_NO_DEVICE, "the GPU is lost; the node may need a restart"},
    {16, LULL_E_NO_DEVICE, "the GPU needs a reset"},
    {17, -EAGAIN, "blocked by the operating system"},
    {18, LULL_E_NO_DRIVER, "driver and library versions differ; reload the driver"},
    {19, -EAGAIN, "in use by another client"},
    {20, -EAGAIN, "the driver has no memory"},
    {21, -EAGAIN, "no data"},
    {22, LULL_E_UNSUPPORTED, "not possible with vGPU and ECC"},
    {23, -EAGAIN, "the driver has no resources left"},
    {24, LULL_E_UNSUPPORTED, "this clock is not supported"},
    {25, LULL_E_UNSUPPORTED, "this driver expects another structure"},
    {26, LULL_E_UNSUPPORTED, "removed from this driver"},
    {27, -EAGAIN, "not ready"},
    {28, LULL_E_NO_DEVICE, "there is no such GPU"},
    {29, -EAGAIN, "not possible in the present state"},
    {30, LULL_E_UNSUPPORTED, "this kind of reset is not supported"},
    {999, LULL_E_DRIVER, "unknown error of the driver"},
};

const struct lull_library_meaning *lull_nvml_meaning(int code)
{
    return lull_library_meaning(meanings, sizeof(meanings) / sizeof(meanings[0]), code);
}

static int nvml_library_load(struct lull_nvml *nvml, struct lull_error *err)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    int result = lull_library_open_driver("LULL_NVML", names, "NVIDIA", &nvml->library,
                                          nvml->library_name, sizeof(nvml->library_name), err);

    if (result < 0)
        return result;
    lull_library_bind(nvml->library, nvml, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (nvml->init == NULL || nvml->shutdown == NULL || nvml->count == NULL ||
        nvml->handle == NULL || nvml->uuid == NULL || nvml->clock == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%s: lacks the basic NVML functions; is it the driver's library?",
                              nvml->library_name);
    return 0;
}

static int nvml_library_find(struct lull_nvml *nvml, uint32_t *count_out, struct lull_error *err)
{
    unsigned int listed = 0;
    uint32_t usable = 0;
    int status = nvml->count(&listed);
    int last_failure = NVML_SUCCESS;

    if (listed > LULL_DEVICE_MAX_GPUS)
        listed = LULL_DEVICE_MAX_GPUS;
    /* A GPU that fails keeps its number, and must not hide the others. */
    for (unsigned int i = 0; status == NVML_SUCCESS && i < listed; i++) {
        void *device = NULL;

        const int failure = nvml->handle(i, &device);

        if (failure == NVML_SUCCESS)
            nvml->devices[i] = device;
        else
            last_failure = failure;
        usable += failure == NVML_SUCCESS;
    }
    if (status == NVML_SUCCESS && usable == 0)
        status = last_failure;
    if (status != NVML_SUCCESS)
        return lull_error_set(err, lull_nvml_meaning(status)->error,
                              "%s: no usable GPU: %s (NVML %d)", nvml->library_name,
                              lull_nvml_meaning(status)->text, status);
    if (usable == 0)
        return lull_error_set(err, LULL_E_NO_DEVICE, "%s: this node has no NVIDIA GPU",
                              nvml->library_name);
    *count_out = nvml->device_count = listed;
    return 0;
}

static void nvml_library_close(void *state)
{
    struct lull_nvml *nvml = state;

    if (nvml->library != NULL)
        dlclose(nvml->library);
    free(nvml);
}

void lull_nvml_close_events(struct lull_nvml *nvml, void **events)
{
    if (*events != NULL)
        nvml->events_free(*events);
    *events = NULL;
}

void lull_nvml_close(void *state)
{
    struct lull_nvml *nvml = state;

    for (uint32_t gpu = 0; gpu < nvml->device_count; gpu++) {
        lull_nvml_close_events(nvml, &nvml->events[gpu]);
        lull_nvml_close_events(nvml, &nvml->errors[gpu]);
    }
    nvml->shutdown();
    nvml_library_close(nvml);
}

int lull_nvml_open(void **state_out, uint32_t *count_out, struct lull_error *err)
{
    struct lull_nvml *nvml = calloc(1, sizeof(*nvml));
    int result;

    if (nvml == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the driver's table");
    result = nvml_library_load(nvml, err);
    if (result == 0) {
        int status = nvml->init();

        if (status != NVML_SUCCESS)
            result = lull_error_set(err, lull_nvml_meaning(status)->error,
                                    "%s: cannot start NVML: %s (NVML %d)", nvml->library_name,
                                    lull_nvml_meaning(status)->text, status);
    }
    /* NVML is shut down only where it was started. */
    if (result < 0) {
        nvml_library_close(nvml);
        return result;
    }
    result = nvml_library_find(nvml, count_out, err);
    if (result < 0) {
        lull_nvml_close(nvml);
        return result;
    }
    if (NVML_INVOKE(nvml, driver_version, nvml->version, sizeof(nvml->version)) != NVML_SUCCESS)
        nvml->version[0] = '\0';
    *state_out = nvml;
    return 0;
}

int lull_nvml_read_field(struct lull_nvml *nvml, void *device, unsigned int field,
                         unsigned int scope, uint64_t *value_out)
{
    struct nvml_field_value value = {.field = field, .scope = scope};
    int status = NVML_INVOKE(nvml, fields, device, 1, &value);

    if (status == NVML_SUCCESS)
        status = value.status;
    if (status == NVML_SUCCESS)
        *value_out =
            value.value_type == NVML_VALUE_UNSIGNED_LONG_LONG ? value.value.u64 : value.value.u32;
    return status;
}

int lull_nvml_read_profiles(struct lull_nvml *nvml, void *device, struct nvml_profile_state *out)
{
    *out = (struct nvml_profile_state){.version = NVML_PROFILE_STATE_VERSION};
    return NVML_INVOKE(nvml, profile_state, device, out);
}
