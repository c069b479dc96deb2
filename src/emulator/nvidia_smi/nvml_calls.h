/*
 * The NVML library as nvidia-smi uses it: loaded by name, each function looked up when it is
 * called. A function that the library lacks returns NVML_FUNCTION_NOT_FOUND, so an older driver
 * shows fewer values. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVIDIA_SMI_NVML_CALLS_H
#define LULL_EMULATOR_NVIDIA_SMI_NVML_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "emulator/nvml/nvml_abi.h"

/* Codes that the emulated library's own declarations do not need. */
enum {
    SMI_LIBRARY_NOT_FOUND = 12,
    SMI_FUNCTION_NOT_FOUND = 13,
    SMI_UNKNOWN_ERROR = 999,
};

/* Loads libnvidia-ml.so.1 and initialises NVML. Returns NVML's code, or SMI_LIBRARY_NOT_FOUND. */
int smi_nvml_start(void);
void smi_nvml_stop(void);

const char *smi_nvml_text(int code);

/* Functions without a device. */
int smi_nvml_get_system_text(const char *name, char *text_out, size_t size);
int smi_nvml_get_system_number(const char *name, unsigned *number_out);
int smi_nvml_get_handle(unsigned index, nvmlDevice_t *device_out);
int smi_nvml_get_process_name(unsigned pid, char *name_out, size_t size);

/* Functions by the shape of their arguments. */
int smi_nvml_get_text(nvmlDevice_t device, const char *name, char *text_out, size_t size);
int smi_nvml_get_text_of(nvmlDevice_t device, const char *name, int which, char *text_out,
                         size_t size);
int smi_nvml_get_number(nvmlDevice_t device, const char *name, unsigned *number_out);
int smi_nvml_get_number_of(nvmlDevice_t device, const char *name, int which, unsigned *number_out);
/* Calls a function with 1 to 4 numbers as outputs. */
int smi_nvml_get_numbers(nvmlDevice_t device, const char *name, unsigned count,
                         unsigned numbers_out[4]);
int smi_nvml_get_wide(nvmlDevice_t device, const char *name, uint64_t *number_out);
int smi_nvml_get_wide_of(nvmlDevice_t device, const char *name, int which, int other,
                         uint64_t *number_out);
int smi_nvml_get_location(nvmlDevice_t device, const char *name, int which, int other, int location,
                          uint64_t *number_out);
int smi_nvml_get_struct(nvmlDevice_t device, const char *name, void *struct_out);
int smi_nvml_get_list(nvmlDevice_t device, const char *name, unsigned *count, void *list_out);
int smi_nvml_get_list_of(nvmlDevice_t device, const char *name, unsigned which, unsigned *count,
                         void *list_out);
int smi_nvml_get_between(nvmlDevice_t one, nvmlDevice_t other, const char *name, unsigned *out);
int smi_nvml_get_struct_of(nvmlDevice_t device, const char *name, unsigned which, void *struct_out);
int smi_nvml_get_samples(nvmlDevice_t device, struct nvml_process_utilization *samples_out,
                         unsigned *count, uint64_t last_us);
int smi_nvml_get_mask(nvmlDevice_t device, const char *name, unsigned words, unsigned long *mask);
int smi_nvml_get_mask_within(nvmlDevice_t device, const char *name, unsigned words,
                             unsigned long *mask, int scope);
int smi_nvml_get_field(nvmlDevice_t device, struct nvml_field *field);
int smi_nvml_set(nvmlDevice_t device, const char *name);
int smi_nvml_set_one(nvmlDevice_t device, const char *name, unsigned value);
int smi_nvml_set_mig(nvmlDevice_t device, unsigned mode, int *activation_out);
int smi_nvml_set_two(nvmlDevice_t device, const char *name, unsigned first, unsigned second);

#endif
