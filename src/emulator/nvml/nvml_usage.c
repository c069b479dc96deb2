/*
 * Utilisation, memory and processes of the emulated GPUs. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_library.h"

static const uint64_t mib = UINT64_C(1) << 20;
static const uint64_t context_mib = 512; /* what an emulated process takes */

/* ---- utilisation ---- */

NVML_EXPORT(nvmlDeviceGetUtilizationRates, nvmlDevice_t device, struct nvml_utilization *out)
{
    const struct nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, out, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    out->gpu_percent = lull_node_begin(gpu->node, gpu->index)->utilization_percent;
    lull_node_end(gpu->node, gpu->index, false);
    out->memory_percent = out->gpu_percent / 2;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetEncoderUtilization, nvmlDevice_t device, unsigned *percent_out,
            unsigned *period_us_out)
{
    const struct nvml_gpu *gpu;
    const int code = nvml_enter(device, percent_out, &gpu);

    if (code != NVML_SUCCESS || period_us_out == NULL)
        return code != NVML_SUCCESS ? code : NVML_INVALID_ARGUMENT;
    *percent_out = 0; /* the emulated GPUs never encode or decode */
    *period_us_out = 167000;
    return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetDecoderUtilization, nvmlDeviceGetEncoderUtilization);
NVML_ALIAS(nvmlDeviceGetJpgUtilization, nvmlDeviceGetEncoderUtilization);
NVML_ALIAS(nvmlDeviceGetOfaUtilization, nvmlDeviceGetEncoderUtilization);

/* ---- processes: contexts of one process are listed once ---- */

static uint32_t list_processes(const struct nvml_gpu *gpu, struct nvml_process_v2 *list,
                               uint32_t *utilization_out)
{
    const struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);
    uint32_t count = 0;

    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++) {
        const uint32_t pid = (uint32_t)physics->contexts[i].owner;
        uint32_t at = 0;

        if (!physics->contexts[i].is_live)
            continue;
        while (at < count && list[at].pid != pid)
            at++;
        if (at == count) {
            list[count] = (struct nvml_process_v2){pid, 0, UINT32_MAX, UINT32_MAX};
            count++;
        }
        list[at].memory_bytes += context_mib * mib;
    }
    *utilization_out = physics->utilization_percent;
    lull_node_end(gpu->node, gpu->index, false);
    return count;
}

NVML_EXPORT(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t device, unsigned *count,
            struct nvml_process_v2 *processes)
{
    struct nvml_process_v2 list[LULL_PHYSICS_CONTEXTS];
    const struct nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, count, &gpu);
    uint32_t utilization;

    if (code != NVML_SUCCESS)
        return code;
    return nvml_copy_list(list, list_processes(gpu, list, &utilization), sizeof(list[0]), count,
                          processes);
}

NVML_ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3);

NVML_EXPORT(nvmlDeviceGetComputeRunningProcesses, nvmlDevice_t device, unsigned *count,
            struct nvml_process_v1 *processes)
{
    struct nvml_process_v2 list[LULL_PHYSICS_CONTEXTS];
    struct nvml_process_v1 old[LULL_PHYSICS_CONTEXTS];
    const struct nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, count, &gpu);
    uint32_t utilization;
    uint32_t length;

    if (code != NVML_SUCCESS)
        return code;
    length = list_processes(gpu, list, &utilization);
    for (uint32_t i = 0; i < length; i++)
        old[i] = (struct nvml_process_v1){list[i].pid, list[i].memory_bytes};
    return nvml_copy_list(old, length, sizeof(old[0]), count, processes);
}

/* Graphics and MPS: the emulated GPUs compute only. */
NVML_EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t device, unsigned *count,
            struct nvml_process_v2 *processes)
{
    const struct nvml_gpu *gpu;
    const int code = nvml_enter(device, count, &gpu);

    return code == NVML_SUCCESS ? nvml_copy_list(NULL, 0, sizeof(processes[0]), count, processes)
                                : code;
}

NVML_ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetGraphicsRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);
NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses_v3);

NVML_EXPORT(nvmlDeviceGetRunningProcessDetailList, nvmlDevice_t device,
            struct nvml_process_list *out)
{
    struct nvml_process_v2 list[LULL_PHYSICS_CONTEXTS];
    struct nvml_process_detail details[LULL_PHYSICS_CONTEXTS];
    const struct nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, out, &gpu);
    uint32_t utilization;
    uint32_t length;

    if (code != NVML_SUCCESS)
        return code;
    if (gpu->model.architecture < 9)
        return NVML_NOT_SUPPORTED;
    if (out->version != NVML_VERSION_WORD(struct nvml_process_list, 1u))
        return NVML_VERSION_MISMATCH;
    length = out->mode == 0 ? list_processes(gpu, list, &utilization) : 0;
    for (uint32_t i = 0; i < length; i++)
        details[i] = (struct nvml_process_detail){list[i], NVML_NOT_AVAILABLE};
    return nvml_copy_list(details, length, sizeof(details[0]), &out->count, out->processes);
}

NVML_EXPORT(nvmlDeviceGetProcessUtilization, nvmlDevice_t device,
            struct nvml_process_utilization *samples, unsigned *count, unsigned long long last_us)
{
    struct nvml_process_v2 list[LULL_PHYSICS_CONTEXTS];
    struct nvml_process_utilization all[LULL_PHYSICS_CONTEXTS];
    const uint64_t now_us = (uint64_t)nvml_time_us();
    const struct nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, count, &gpu);
    uint32_t utilization;
    uint32_t length;

    if (code != NVML_SUCCESS)
        return code;
    length = list_processes(gpu, list, &utilization);
    if (length == 0 || last_us >= now_us)
        return NVML_NOT_FOUND;
    for (uint32_t i = 0; i < length; i++)
        all[i] = (struct nvml_process_utilization){.pid = list[i].pid,
                                                   .time_us = now_us,
                                                   .sm_percent = utilization / length,
                                                   .memory_percent = utilization / length / 2};
    return nvml_copy_list(all, length, sizeof(all[0]), count, samples);
}

/* ---- memory ---- */

static struct nvml_memory_v2 read_memory(const struct nvml_gpu *gpu)
{
    const uint32_t contexts = lull_node_begin(gpu->node, gpu->index)->context_count;
    struct nvml_memory_v2 memory = {.total = gpu->model.memory_mib * mib};

    lull_node_end(gpu->node, gpu->index, false);
    memory.reserved = memory.total / 100 / mib * mib;
    memory.used = contexts * context_mib * mib;
    memory.available = memory.total - memory.reserved - memory.used;
    return memory;
}

NVML_EXPORT(nvmlDeviceGetMemoryInfo, nvmlDevice_t device, struct nvml_memory *out)
{
    const struct nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, out, &gpu);

    if (code == NVML_SUCCESS) {
        const struct nvml_memory_v2 memory = read_memory(gpu);

        *out = (struct nvml_memory){memory.total, memory.available, memory.used + memory.reserved};
    }
    return code;
}

NVML_EXPORT(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t device, struct nvml_memory_v2 *out)
{
    const struct nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, out, &gpu);
    const uint32_t version = NVML_VERSION_WORD(struct nvml_memory_v2, 2u);

    if (code != NVML_SUCCESS)
        return code;
    if (out->version != version)
        return NVML_VERSION_MISMATCH;
    *out = read_memory(gpu);
    out->version = version;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetBAR1MemoryInfo, nvmlDevice_t device, struct nvml_memory *out)
{
    const struct nvml_gpu *gpu;
    const int code = nvml_enter(device, out, &gpu);

    if (code == NVML_SUCCESS)
        *out = (struct nvml_memory){65536 * mib, 65535 * mib, mib};
    return code;
}

NVML_EXPORT(nvmlDeviceGetConfComputeMemSizeInfo, nvmlDevice_t device, struct nvml_memory_size *out)
{
    const struct nvml_gpu *gpu;
    const int code = nvml_enter(device, out, &gpu);

    if (code == NVML_SUCCESS)
        *out = (struct nvml_memory_size){0, gpu->model.memory_mib * UINT64_C(1024)};
    return code;
}
