/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>

#include "emulator/nvidia_smi/nvml_calls.h"

typedef void any_function(void);

static void *library;

/* Returns NULL if the library lacks the function. */
static any_function *nvml_find(const char *name)
{
    any_function *function = NULL;
    void *const symbol = dlsym(library, name);

    memcpy(&function, &symbol, sizeof(function)); /* POSIX promises that both have one size */
    return function;
}

/* Defines a function that passes its arguments to the NVML function `name`. */
#define NVML_PASS(types, ...)                                                                      \
    any_function *const found = nvml_find(name);                                                   \
                                                                                                   \
    if (found == NULL)                                                                             \
        return SMI_FUNCTION_NOT_FOUND;                                                             \
    return ((int(*) types)found)(__VA_ARGS__)

static int nvml_call(const char *name)
{
    any_function *const found = nvml_find(name);

    if (found == NULL)
        return SMI_FUNCTION_NOT_FOUND;
    return ((int (*)(void))found)();
}

int smi_nvml_start(void)
{
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return SMI_LIBRARY_NOT_FOUND;
    return nvml_call("nvmlInit_v2");
}

void smi_nvml_stop(void)
{
    nvml_call("nvmlShutdown");
}

const char *smi_nvml_text(int code)
{
    any_function *const found = nvml_find("nvmlErrorString");

    if (found == NULL)
        return "Unknown Error";
    return ((const char *(*)(int))found)(code);
}

int smi_nvml_get_system_text(const char *name, char *text_out, size_t size)
{
    NVML_PASS((char *, unsigned), text_out, (unsigned)size);
}

int smi_nvml_get_system_number(const char *name, unsigned *number_out)
{
    NVML_PASS((unsigned *), number_out);
}

static int nvml_get_handle(const char *name, unsigned index, nvmlDevice_t *device_out)
{
    NVML_PASS((unsigned, nvmlDevice_t *), index, device_out);
}

int smi_nvml_get_handle(unsigned index, nvmlDevice_t *device_out)
{
    return nvml_get_handle("nvmlDeviceGetHandleByIndex_v2", index, device_out);
}

static int nvml_get_process_name(const char *name, unsigned pid, char *name_out, size_t size)
{
    NVML_PASS((unsigned, char *, unsigned), pid, name_out, (unsigned)size);
}

int smi_nvml_get_process_name(unsigned pid, char *name_out, size_t size)
{
    return nvml_get_process_name("nvmlSystemGetProcessName", pid, name_out, size);
}

int smi_nvml_get_text(nvmlDevice_t device, const char *name, char *text_out, size_t size)
{
    NVML_PASS((nvmlDevice_t, char *, unsigned), device, text_out, (unsigned)size);
}

int smi_nvml_get_text_of(nvmlDevice_t device, const char *name, int which, char *text_out,
                         size_t size)
{
    NVML_PASS((nvmlDevice_t, int, char *, unsigned), device, which, text_out, (unsigned)size);
}

int smi_nvml_get_number(nvmlDevice_t device, const char *name, unsigned *number_out)
{
    NVML_PASS((nvmlDevice_t, unsigned *), device, number_out);
}

int smi_nvml_get_number_of(nvmlDevice_t device, const char *name, int which, unsigned *number_out)
{
    NVML_PASS((nvmlDevice_t, int, unsigned *), device, which, number_out);
}

static int nvml_get_two(nvmlDevice_t device, const char *name, unsigned *numbers)
{
    NVML_PASS((nvmlDevice_t, unsigned *, unsigned *), device, &numbers[0], &numbers[1]);
}

static int nvml_get_three(nvmlDevice_t device, const char *name, unsigned *numbers)
{
    NVML_PASS((nvmlDevice_t, unsigned *, unsigned *, unsigned *), device, &numbers[0], &numbers[1],
              &numbers[2]);
}

static int nvml_get_four(nvmlDevice_t device, const char *name, unsigned *numbers)
{
    NVML_PASS((nvmlDevice_t, unsigned *, unsigned *, unsigned *, unsigned *), device, &numbers[0],
              &numbers[1], &numbers[2], &numbers[3]);
}

int smi_nvml_get_numbers(nvmlDevice_t device, const char *name, unsigned count,
                         unsigned numbers_out[4])
{
    switch (count) {
    case 2:
        return nvml_get_two(device, name, numbers_out);
    case 3:
        return nvml_get_three(device, name, numbers_out);
    case 4:
        return nvml_get_four(device, name, numbers_out);
    default:
        return smi_nvml_get_number(device, name, numbers_out);
    }
}

int smi_nvml_get_wide(nvmlDevice_t device, const char *name, uint64_t *number_out)
{
    NVML_PASS((nvmlDevice_t, uint64_t *), device, number_out);
}

int smi_nvml_get_wide_of(nvmlDevice_t device, const char *name, int which, int other,
                         uint64_t *number_out)
{
    NVML_PASS((nvmlDevice_t, int, int, uint64_t *), device, which, other, number_out);
}

int smi_nvml_get_location(nvmlDevice_t device, const char *name, int which, int other, int location,
                          uint64_t *number_out)
{
    NVML_PASS((nvmlDevice_t, int, int, int, uint64_t *), device, which, other, location,
              number_out);
}

int smi_nvml_get_struct(nvmlDevice_t device, const char *name, void *struct_out)
{
    NVML_PASS((nvmlDevice_t, void *), device, struct_out);
}

int smi_nvml_get_list(nvmlDevice_t device, const char *name, unsigned *count, void *list_out)
{
    NVML_PASS((nvmlDevice_t, unsigned *, void *), device, count, list_out);
}

int smi_nvml_get_list_of(nvmlDevice_t device, const char *name, unsigned which, unsigned *count,
                         void *list_out)
{
    NVML_PASS((nvmlDevice_t, unsigned, unsigned *, void *), device, which, count, list_out);
}

int smi_nvml_get_between(nvmlDevice_t one, nvmlDevice_t other, const char *name, unsigned *out)
{
    NVML_PASS((nvmlDevice_t, nvmlDevice_t, unsigned *), one, other, out);
}

int smi_nvml_get_struct_of(nvmlDevice_t device, const char *name, unsigned which, void *struct_out)
{
    NVML_PASS((nvmlDevice_t, unsigned, void *), device, which, struct_out);
}

static int nvml_get_samples(const char *name, nvmlDevice_t device,
                            struct nvml_process_utilization *samples_out, unsigned *count,
                            uint64_t last_us)
{
    NVML_PASS((nvmlDevice_t, struct nvml_process_utilization *, unsigned *, uint64_t), device,
              samples_out, count, last_us);
}

int smi_nvml_get_samples(nvmlDevice_t device, struct nvml_process_utilization *samples_out,
                         unsigned *count, uint64_t last_us)
{
    return nvml_get_samples("nvmlDeviceGetProcessUtilization", device, samples_out, count, last_us);
}

int smi_nvml_get_mask(nvmlDevice_t device, const char *name, unsigned words, unsigned long *mask)
{
    NVML_PASS((nvmlDevice_t, unsigned, unsigned long *), device, words, mask);
}

int smi_nvml_get_mask_within(nvmlDevice_t device, const char *name, unsigned words,
                             unsigned long *mask, int scope)
{
    NVML_PASS((nvmlDevice_t, unsigned, unsigned long *, int), device, words, mask, scope);
}

static int nvml_get_fields(const char *name, nvmlDevice_t device, int count,
                           struct nvml_field *fields)
{
    NVML_PASS((nvmlDevice_t, int, struct nvml_field *), device, count, fields);
}

int smi_nvml_get_field(nvmlDevice_t device, struct nvml_field *field)
{
    const int code = nvml_get_fields("nvmlDeviceGetFieldValues", device, 1, field);

    return code != NVML_SUCCESS ? code : field->code;
}

int smi_nvml_set(nvmlDevice_t device, const char *name)
{
    NVML_PASS((nvmlDevice_t), device);
}

int smi_nvml_set_one(nvmlDevice_t device, const char *name, unsigned value)
{
    NVML_PASS((nvmlDevice_t, unsigned), device, value);
}

int smi_nvml_set_two(nvmlDevice_t device, const char *name, unsigned first, unsigned second)
{
    NVML_PASS((nvmlDevice_t, unsigned, unsigned), device, first, second);
}

static int nvml_set_mig(const char *name, nvmlDevice_t device, unsigned mode, int *activation_out)
{
    NVML_PASS((nvmlDevice_t, unsigned, int *), device, mode, activation_out);
}

int smi_nvml_set_mig(nvmlDevice_t device, unsigned mode, int *activation_out)
{
    return nvml_set_mig("nvmlDeviceSetMigMode", device, mode, activation_out);
}
