/*
 * Reports utilisation, memory and processes of the emulated GPUs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_library.h"

static const uint64_t mib = UINT64_C(1) << 20;

/* ---- utilisation ---- */

NVML_EXPORT(nvmlDeviceGetUtilizationRates, nvmlDevice_t device, struct nvml_utilization *out)
{
    NVML_ENTER(nvml_enter_reading(device, out, &gpu));
    if (nvml_is_partitioned(gpu))
        return NVML_NOT_SUPPORTED;
    const struct lull_physics *const physics = lull_node_begin(gpu->node, gpu->index);

    *out = (struct nvml_utilization){physics->utilization_percent, physics->memory_percent};
    lull_node_end(gpu->node, gpu->index, false);
    return NVML_SUCCESS;
}

/* The emulated GPUs never encode or decode; the second output is the period in microseconds. */
NVML_GET_PAIR(nvmlDeviceGetEncoderUtilization, unsigned, true, 0, 167000)
NVML_ALIAS(nvmlDeviceGetDecoderUtilization, nvmlDeviceGetEncoderUtilization);
NVML_ALIAS(nvmlDeviceGetJpgUtilization, nvmlDeviceGetEncoderUtilization);
NVML_ALIAS(nvmlDeviceGetOfaUtilization, nvmlDeviceGetEncoderUtilization);

/* ---- processes: contexts of one process are listed once ---- */

struct processes {
    uint32_t count;
    struct nvml_process_v2 items[LULL_PHYSICS_CONTEXTS];
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
};

static void list_processes(const struct lull_nvml_gpu *gpu, struct processes *out)
{
    out->count = lull_driver_processes(gpu->node, gpu->index, out->processes);
    for (uint32_t i = 0; i < out->count; i++) {
        const struct lull_driver_process *process = &out->processes[i];

        out->items[i] = (struct nvml_process_v2){(uint32_t)process->pid,
                                                 process->contexts * LULL_DRIVER_CONTEXT_BYTES +
                                                     process->memory_mib * mib,
                                                 UINT32_MAX, UINT32_MAX};
    }
}

/* Checks the arguments, of which `required` must not be NULL, and lists the processes. */
static int enter_processes(nvmlDevice_t device, const void *required,
                           const struct lull_nvml_gpu **gpu_out, struct processes *out)
{
    const int code = nvml_enter_reading(device, required, gpu_out);

    if (code != NVML_SUCCESS)
        return code;
    if (!lull_driver_lists_processes((*gpu_out)->driver))
        return NVML_NOT_SUPPORTED;
    list_processes(*gpu_out, out);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t device, unsigned *count,
            struct nvml_process_v2 *processes)
{
    struct processes list;

    NVML_ENTER(enter_processes(device, count, &gpu, &list));
    return nvml_copy_list(list.items, list.count, sizeof(list.items[0]), count, processes);
}

NVML_ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3);

NVML_EXPORT(nvmlDeviceGetComputeRunningProcesses, nvmlDevice_t device, unsigned *count,
            struct nvml_process_v1 *processes)
{
    struct nvml_process_v1 old[LULL_PHYSICS_CONTEXTS];
    struct processes list;

    NVML_ENTER(enter_processes(device, count, &gpu, &list));
    for (uint32_t i = 0; i < list.count; i++)
        old[i] = (struct nvml_process_v1){list.items[i].pid, list.items[i].memory_bytes};
    return nvml_copy_list(old, list.count, sizeof(old[0]), count, processes);
}

/* Lists processes of graphics and of MPS, which there are none of: the emulated GPUs only compute.
 */
NVML_EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t device, unsigned *count,
            struct nvml_process_v2 *processes)
{
    NVML_ENTER(nvml_enter(device, count, &gpu));
    return nvml_copy_list(NULL, 0, sizeof(processes[0]), count, processes);
}

NVML_ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetGraphicsRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses_v3);

NVML_EXPORT(nvmlDeviceGetRunningProcessDetailList, nvmlDevice_t device,
            struct nvml_process_list *out)
{
    struct nvml_process_detail details[LULL_PHYSICS_CONTEXTS];
    struct processes list;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_process_list, 1u))
        return NVML_VERSION_MISMATCH;
    if (gpu->model.architecture < 9)
        return NVML_NOT_SUPPORTED;
    LULL_DRIVER_CHECK(enter_processes(device, out, &gpu, &list));
    if (out->mode != 0) /* the other modes are graphics and MPS */
        list.count = 0;
    for (uint32_t i = 0; i < list.count; i++)
        details[i] = (struct nvml_process_detail){list.items[i], 0};
    return nvml_copy_list(details, list.count, sizeof(details[0]), &out->count, out->processes);
}

NVML_EXPORT(nvmlDeviceGetProcessUtilization, nvmlDevice_t device,
            struct nvml_process_utilization *samples, unsigned *count, unsigned long long last_us)
{
    struct nvml_process_utilization all[LULL_PHYSICS_CONTEXTS];
    const uint64_t now_us = (uint64_t)nvml_time_us();
    struct processes list;

    NVML_ENTER(enter_processes(device, count, &gpu, &list));
    if (list.count == 0 || last_us >= now_us)
        return NVML_NOT_FOUND;
    for (uint32_t i = 0; i < list.count; i++)
        all[i] =
            (struct nvml_process_utilization){.pid = list.items[i].pid,
                                              .time_us = now_us,
                                              .sm_percent = list.processes[i].busy_percent,
                                              .memory_percent = list.processes[i].memory_percent};
    return nvml_copy_list(all, list.count, sizeof(all[0]), count, samples);
}

/* ---- memory ---- */

static struct nvml_memory_v2 nvml_usage_read_memory(const struct lull_nvml_gpu *gpu)
{
    const struct lull_driver_memory memory = lull_driver_read_memory(gpu->node, gpu->index);

    return (struct nvml_memory_v2){.total = memory.total_bytes,
                                   .reserved = memory.reserved_bytes,
                                   .available = memory.free_bytes,
                                   .used = memory.used_bytes};
}

NVML_EXPORT(nvmlDeviceGetMemoryInfo, nvmlDevice_t device, struct nvml_memory *out)
{
    NVML_ENTER(nvml_enter_reading(device, out, &gpu));
    const struct nvml_memory_v2 memory = nvml_usage_read_memory(gpu);

    *out = (struct nvml_memory){memory.total, memory.available, memory.used + memory.reserved};
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t device, struct nvml_memory_v2 *out)
{
    const uint32_t version = NVML_VERSION_WORD(struct nvml_memory_v2, 2u);

    NVML_ENTER(nvml_enter_reading(device, out, &gpu));
    if (out->version != version)
        return NVML_VERSION_MISMATCH;
    *out = nvml_usage_read_memory(gpu);
    out->version = version;
    return NVML_SUCCESS;
}

/* Beside Grace some drivers report none, because the CPU reaches all memory without it. */
NVML_EXPORT(nvmlDeviceGetBAR1MemoryInfo, nvmlDevice_t device, struct nvml_memory *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (gpu->model.bar1_mib == 0)
        return NVML_NOT_SUPPORTED;
    *out = (struct nvml_memory){gpu->model.bar1_mib * mib, (gpu->model.bar1_mib - 1) * mib, mib};
    return NVML_SUCCESS;
}

/* Confidential computing is off: all boards report 0 then. */
NVML_EXPORT(nvmlDeviceGetConfComputeProtectedMemoryUsage, nvmlDevice_t device,
            struct nvml_memory *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    (void)gpu;
    *out = (struct nvml_memory){0};
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetConfComputeMemSizeInfo, nvmlDevice_t device, struct nvml_memory_size *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    *out = (struct nvml_memory_size){0, gpu->model.memory_mib * UINT64_C(1024)};
    return NVML_SUCCESS;
}
