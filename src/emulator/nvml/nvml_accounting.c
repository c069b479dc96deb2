/*
 * Accounting of processes, their utilisation in the newer shape, and the restriction of calls to
 * root. Statistics exist while a process runs. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_library.h"

enum { BUFFER_SIZE = 4000 }; /* the number of processes that a real driver keeps, from memory */

/* ---- mode ---- */

static bool is_accounting(const struct lull_nvml_gpu *gpu)
{
    return lull_node_setting(gpu->node, gpu->index, LULL_NODE_ACCOUNTING) != 0;
}

NVML_GET_FACT(nvmlDeviceGetAccountingMode, int, is_accounting(gpu))
NVML_GET_FACT(nvmlDeviceGetAccountingBufferSize, unsigned, BUFFER_SIZE)

NVML_EXPORT(nvmlDeviceSetAccountingMode, nvmlDevice_t device, int mode)
{
    NVML_ENTER(nvml_enter(device, device, &gpu));
    if (mode < 0 || mode > 1)
        return NVML_INVALID_ARGUMENT;
    LULL_DRIVER_CHECK(nvml_enter_root(device, &gpu));
    lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_ACCOUNTING, (uint32_t)mode);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceClearAccountingPids, nvmlDevice_t device)
{
    NVML_ENTER(nvml_enter_root(device, &gpu));
    (void)gpu;
    return NVML_SUCCESS;
}

/* ---- processes ---- */

NVML_EXPORT(nvmlDeviceGetAccountingPids, nvmlDevice_t device, unsigned *count, unsigned *pids)
{
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
    unsigned found[LULL_PHYSICS_CONTEXTS];
    uint32_t length = 0;

    NVML_ENTER(nvml_enter(device, count, &gpu));
    if (is_accounting(gpu))
        length = lull_driver_processes(gpu->node, gpu->index, processes);
    for (uint32_t i = 0; i < length; i++)
        found[i] = (unsigned)processes[i].pid;
    return nvml_copy_list(found, length, sizeof(found[0]), count, pids);
}

/* The time is 0 while a process runs. */
static int read_stats(nvmlDevice_t device, const struct lull_nvml_gpu *gpu, unsigned pid,
                      struct nvml_accounting *out)
{
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
    struct nvml_utilization utilization;
    uint32_t length;

    if (!is_accounting(gpu))
        return NVML_NOT_SUPPORTED;
    LULL_DRIVER_CHECK(nvmlDeviceGetUtilizationRates(device, &utilization));
    length = lull_driver_processes(gpu->node, gpu->index, processes);
    for (uint32_t i = 0; i < length; i++) {
        if ((unsigned)processes[i].pid != pid)
            continue;
        *out = (struct nvml_accounting){
            .gpu_percent = utilization.gpu_percent,
            .memory_percent = utilization.memory_percent,
            .most_memory_bytes = processes[i].contexts * LULL_DRIVER_CONTEXT_BYTES +
                                 ((uint64_t)processes[i].memory_mib << 20),
            .is_running = 1,
        };
        return NVML_SUCCESS;
    }
    return NVML_NOT_FOUND;
}

NVML_EXPORT(nvmlDeviceGetAccountingStats, nvmlDevice_t device, unsigned pid,
            struct nvml_accounting *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    return read_stats(device, gpu, pid, out);
}

NVML_EXPORT(nvmlDeviceGetAccountingStats_v2, nvmlDevice_t device, struct nvml_accounting_v2 *out)
{
    struct nvml_accounting stats;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    LULL_DRIVER_CHECK(read_stats(device, gpu, out->pid, &stats));
    *out = (struct nvml_accounting_v2){
        .pid = out->pid,
        .is_running = stats.is_running,
        .gpu_percent = stats.gpu_percent,
        .memory_percent = stats.memory_percent,
        .most_memory_bytes = stats.most_memory_bytes,
    };
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetProcessesUtilizationInfo, nvmlDevice_t device,
            struct nvml_utilization_list *out)
{
    struct nvml_process_utilization samples[LULL_PHYSICS_CONTEXTS];
    struct nvml_process_sample all[LULL_PHYSICS_CONTEXTS];
    unsigned count = LULL_PHYSICS_CONTEXTS;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    (void)gpu;
    if (out->version != NVML_VERSION_WORD(struct nvml_utilization_list, 1u))
        return NVML_VERSION_MISMATCH;
    LULL_DRIVER_CHECK(nvmlDeviceGetProcessUtilization(device, samples, &count, out->last_us));
    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct nvml_process_sample){.time_us = samples[i].time_us,
                                              .pid = samples[i].pid,
                                              .sm_percent = samples[i].sm_percent,
                                              .memory_percent = samples[i].memory_percent};
    return nvml_copy_list(all, count, sizeof(all[0]), &out->count, out->samples);
}

/* ---- calls that root may open to all users, until the driver is reloaded ---- */

static uint32_t open_calls(const struct lull_nvml_gpu *gpu)
{
    return lull_node_setting(gpu->node, gpu->index, LULL_NODE_OPEN_CALLS);
}

bool nvml_is_call_open(const struct lull_nvml_gpu *gpu, int api)
{
    return (open_calls(gpu) >> api & 1) != 0;
}

NVML_EXPORT(nvmlDeviceGetAPIRestriction, nvmlDevice_t device, int api, int *restricted_out)
{
    NVML_ENTER(nvml_enter(device, restricted_out, &gpu));
    if (api < 0 || api > 1)
        return NVML_INVALID_ARGUMENT;
    if (api != NVML_API_APPLICATION_CLOCKS)
        return NVML_NOT_SUPPORTED;
    *restricted_out = !nvml_is_call_open(gpu, api);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceSetAPIRestriction, nvmlDevice_t device, int api, int is_restricted)
{
    NVML_ENTER(nvml_enter(device, device, &gpu));
    if (api < 0 || api > 1 || is_restricted < 0 || is_restricted > 1)
        return NVML_INVALID_ARGUMENT;
    if (api != NVML_API_APPLICATION_CLOCKS)
        return NVML_NOT_SUPPORTED;
    LULL_DRIVER_CHECK(nvml_enter_root(device, &gpu));
    lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_OPEN_CALLS,
                          is_restricted ? 0 : 1u << api);
    return NVML_SUCCESS;
}
