/*
 * Declarations shared by all files of the emulated libnvidia-ml: the opened node, its handles, the
 * entry check of every function, and macros that declare and define an exported function in one
 * place. Threads: any, as NVML promises. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVML_LIBRARY_H
#define LULL_EMULATOR_NVML_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#include "emulator/driver.h"
#include "emulator/nvml/nvml_abi.h"

/* One GPU; the address of this struct is the handle. All of it but the node's state is fixed after
 * nvmlInit. */
struct lull_nvml_gpu {
    const struct lull_driver_gpu *driver;
    uint32_t position; /* its index in NVML */
    uint32_t index;    /* its index in the node */
    struct lull_node *node;
    const struct lull_topology *topology; /* of the node */
    struct lull_gpu_model model;
    struct nvml_pci_info pci;
    char uuid[LULL_DRIVER_UUID_BYTES];
    char serial[24]; /* "": it has none */
};

#define NVML_EXPORT(name, ...)                                                                     \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)

/* Gives an exported function of the same file a second name. */
#define NVML_ALIAS(name, target) extern __typeof__(target) name __attribute__((alias(#target)))

#define NVML_ENTER(entry) LULL_DRIVER_ENTER(struct lull_nvml_gpu, gpu, entry)

/* Defines a function whose one output follows from the model. */
#define NVML_GET_FACT(name, type, expression)                                                      \
    NVML_EXPORT(name, nvmlDevice_t device, type *value_out)                                        \
    {                                                                                              \
        NVML_ENTER(nvml_enter(device, value_out, &gpu));                                           \
        *value_out = (type)(expression);                                                           \
        return NVML_SUCCESS;                                                                       \
    }

/* Defines a function whose two outputs follow from the model, where the GPU supports it. */
#define NVML_GET_PAIR(name, type, is_supported, first, second)                                     \
    NVML_EXPORT(name, nvmlDevice_t device, type *first_out, type *second_out)                      \
    {                                                                                              \
        NVML_ENTER(nvml_enter(device, first_out, &gpu));                                           \
        if (second_out == NULL)                                                                    \
            return NVML_INVALID_ARGUMENT;                                                          \
        if (!(is_supported))                                                                       \
            return NVML_NOT_SUPPORTED;                                                             \
        *first_out = (type)(first);                                                                \
        *second_out = (type)(second);                                                              \
        return NVML_SUCCESS;                                                                       \
    }

/* Defines a function whose one output is read from the running GPU `physics`. */
#define NVML_GET_READING(name, type, expression)                                                   \
    NVML_EXPORT(name, nvmlDevice_t device, type *value_out)                                        \
    {                                                                                              \
        const struct lull_physics *physics;                                                        \
                                                                                                   \
        NVML_ENTER(nvml_enter_reading(device, value_out, &gpu));                                   \
        physics = lull_node_begin(gpu->node, gpu->index);                                          \
        *value_out = (type)(expression);                                                           \
        lull_node_end(gpu->node, gpu->index, false);                                               \
        return NVML_SUCCESS;                                                                       \
    }

/* ---- functions that are refused ---- */

enum { NVML_REFUSAL_VERSIONS = 2 };

struct lull_nvml_refusal {
    int code;
    char checks[8]; /* a letter for each argument: `takes` of data/nvml_functions.json */
    uint32_t versions[NVML_REFUSAL_VERSIONS]; /* valid version words of its struct; 0: none */
};

/* Checks the arguments and returns the code of the first invalid one, or that of the refusal. */
int nvml_refuse(const struct lull_nvml_refusal *refusal, const uintptr_t *arguments);

/* Defines a refused function. All its arguments are integers or pointers, and at most five. */
#define NVML_REFUSE(name, code, checks, ...)                                                       \
    NVML_EXPORT(name, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e)             \
    {                                                                                              \
        static const struct lull_nvml_refusal refusal = {code, checks, {__VA_ARGS__}};             \
                                                                                                   \
        return nvml_refuse(&refusal, (const uintptr_t[]){a, b, c, d, e});                          \
    }

/* Returns NVML_SUCCESS after nvmlInit, otherwise NVML_UNINITIALIZED; while the driver is being
 * reloaded NVML_LIBRARY_MISMATCH. */
int nvml_ready(void);

/* Applies a GPU's own faults. NVML_GPU_IS_LOST: it is lost; or as nvml_ready(). */
int nvml_visit(const struct lull_nvml_gpu *gpu);

/* Checks initialisation, the handle and the output pointer; _reading also suffers get faults. */
int nvml_enter(nvmlDevice_t device, const void *output, const struct lull_nvml_gpu **gpu_out);
int nvml_enter_reading(nvmlDevice_t device, const void *output,
                       const struct lull_nvml_gpu **gpu_out);

/* Checks, for a set call, initialisation, the handle and the permission. */
int nvml_enter_root(nvmlDevice_t device, const struct lull_nvml_gpu **gpu_out);

/* Returns whether root has opened a call (NVML_API_...) to all users. */
bool nvml_is_call_open(const struct lull_nvml_gpu *gpu, int api);

/* Returns whether the board is one for desktops, which lack some features. */
bool nvml_is_geforce(const struct lull_nvml_gpu *gpu);

/* Returns whether the GPU's memory is a NUMA node of the host, as beside Grace. */
bool nvml_has_memory_node(const struct lull_nvml_gpu *gpu);

/* Returns whether the GPU could be partitioned (MIG). */
int nvml_has_partitions(const struct lull_nvml_gpu *gpu);

/* Returns whether MIG is on; a fault switches it. */
int nvml_is_partitioned(const struct lull_nvml_gpu *gpu);

/* Returns whether a pointer is an event set of this process. */
bool nvml_is_event_set(const void *set);

/* Writes the texts of a PCI address from its numbers. */
void nvml_write_bus(struct nvml_pci_info *pci);

uint32_t nvml_gpu_count(void);
nvmlDevice_t nvml_gpu_at(uint32_t position);

/* The power of the sensor: instantaneous, or averaged as in the plain call; of the GPU or module.
 */
uint32_t nvml_read_power_mw(const struct lull_nvml_gpu *gpu, bool is_usage, bool *is_of_module_out);
unsigned nvml_power_mw_from_w(double w);

/* The time for which a clock-event reason has held, by the number of its bit, and that of a policy.
 * NVML_NOT_SUPPORTED: the policy is unknown. */
uint64_t nvml_reason_ns(const struct lull_nvml_gpu *gpu, uint32_t bit);
int nvml_read_violation(const struct lull_nvml_gpu *gpu, int policy, uint64_t *ns_out);

/* The bytes that a GPU has sent and received, each, over NVLink or PCIe. */
double nvml_read_link_bytes(const struct lull_nvml_gpu *gpu, bool is_nvlink);

/* The entry check of a function about one NVLink; _up also requires that it leads to a device. */
int nvml_enter_link(nvmlDevice_t device, unsigned link, const void *output);
int nvml_enter_link_up(nvmlDevice_t device, unsigned link, const void *output,
                       struct lull_link_end *end_out);

/* Exported functions on which others rest. */
int nvmlDeviceGetEccMode(nvmlDevice_t device, int *current_out, int *pending_out);
int nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, int type, int counter, int location,
                                    unsigned long long *count_out);
int nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter,
                                    unsigned long long *count_out);
int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *value_out);
int nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *value_out);
int nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *value_out);
int nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *is_pending, unsigned *has_failed);
int nvmlDeviceGetRemappedRows_v2(nvmlDevice_t device, struct nvml_remapped_rows *out);
int nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned *count,
                              unsigned long long *addresses);
int nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int *pending_out);
int nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int kind, unsigned *celsius_out);
int nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter,
                                unsigned long long *count_out);
int nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *mhz_out);
int nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned length, unsigned long *mask);
int nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct nvml_process_utilization *samples,
                                    unsigned *count, unsigned long long last_us);
int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct nvml_utilization *out);

/* Copies a text with its NUL. NVML_INSUFFICIENT_SIZE: it does not fit. */
int nvml_copy_text(const char *text, char *out, uint32_t size);

/*
 * The size-query idiom of lists: too small a count (0 with NULL included) sets the count needed
 * and gives NVML_INSUFFICIENT_SIZE; an empty list is a success.
 */
int nvml_copy_list(const void *items, uint32_t item_count, size_t item_size, uint32_t *count,
                   void *out);

/* The time in microseconds since 1970, as NVML stamps its readings. */
int64_t nvml_time_us(void);

/* The same time for a past virtual time of the GPU's node. */
uint64_t nvml_sample_time_us(const struct lull_nvml_gpu *gpu, int64_t virtual_ns);

#endif
