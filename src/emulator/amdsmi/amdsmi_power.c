/*
 * Reads power, energy, temperature, activity and processes, and sets the power cap.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "emulator/amdsmi/amdsmi_library.h"

struct lull_amdsmi_drawn amdsmi_read_drawn(const struct lull_driver_gpu *gpu)
{
    const struct lull_driver_gpu *dies[2];
    const uint32_t count = amdsmi_module(gpu, dies);
    struct lull_amdsmi_drawn drawn = {0};

    for (uint32_t i = 0; i < count; i++) {
        const struct lull_driver_gpu *die = dies[i];
        const struct lull_physics *physics = lull_node_begin(die->node, die->index);

        drawn.power_mw += lull_physics_published_mw(physics, &physics->instant);
        drawn.energy_mj += lull_physics_published_mj(physics);
        drawn.limit_w += physics->limit_w;
        drawn.highest_w += die->model.limit_max_w;
        drawn.default_w += die->model.limit_default_w;
        lull_node_end(die->node, die->index, false);
    }
    return drawn;
}

/* Boards with one die per module report the present power. Older boards, with two dies, report an
 * average. */
AMDSMI_EXPORT(amdsmi_get_power_info, void *handle, void *info)
{
    uint32_t values[2] = {AMDSMI_NOT_REPORTED, AMDSMI_NOT_REPORTED};

    AMDSMI_ENTER(amdsmi_enter(handle, info, &gpu));
    values[gpu->model.dies_per_module == 2 ? 1 : 0] =
        (lull_driver_spoil_power_mw(gpu, (uint32_t)amdsmi_read_drawn(gpu).power_mw) + 500) / 1000;
    if (amdsmi_abi() == 24) {
        const struct amdsmi_power_24 power = {.current_socket_power = values[0],
                                              .average_socket_power = values[1]};

        memcpy(info, &power, sizeof(power));
    } else {
        const struct amdsmi_power_25 power = {.socket_power = UINT64_MAX,
                                              .current_socket_power = values[0],
                                              .average_socket_power = values[1]};

        memcpy(info, &power,
               amdsmi_abi() == 25 ? sizeof(power) - sizeof(power.reserved) : sizeof(power));
    }
    return AMDSMI_OK;
}

uint64_t amdsmi_energy_count(const struct lull_driver_gpu *gpu)
{
    const uint64_t mj = lull_driver_spoil_energy_mj(gpu, amdsmi_read_drawn(gpu).energy_mj);

    return (uint64_t)((double)mj * 1e3 / AMDSMI_RESOLUTION_UJ);
}

AMDSMI_EXPORT(amdsmi_get_energy_count, void *handle, uint64_t *count_out, float *resolution_out,
              uint64_t *time_out)
{
    AMDSMI_ENTER(amdsmi_enter(handle, count_out, &gpu));
    if (time_out == NULL)
        return AMDSMI_INVAL;
    if (!lull_driver_has_energy(gpu))
        return AMDSMI_UNSUPPORTED;
    *count_out = amdsmi_energy_count(gpu);
    if (resolution_out != NULL)
        *resolution_out = (float)AMDSMI_RESOLUTION_UJ;
    *time_out = (uint64_t)lull_node_now_ns(gpu->node);
    return AMDSMI_OK;
}

/* The lowest cap is given as 0, as kernels before 6.7 do. */
AMDSMI_EXPORT(amdsmi_get_power_cap_info, void *handle, uint32_t sensor, struct amdsmi_cap *info)
{
    struct lull_amdsmi_drawn drawn;

    AMDSMI_ENTER(amdsmi_enter(handle, info, &gpu));
    if (sensor != 0)
        return AMDSMI_INVAL;
    drawn = amdsmi_read_drawn(gpu);
    *info = (struct amdsmi_cap){
        .power_cap = (uint64_t)llround(drawn.limit_w * 1e6),
        .default_power_cap = (uint64_t)llround(drawn.default_w * 1e6),
        .max_power_cap = (uint64_t)llround(drawn.highest_w * 1e6),
    };
    return AMDSMI_OK;
}

/* Divides the cap among the dies of a module. */
AMDSMI_EXPORT(amdsmi_set_power_cap, void *handle, uint32_t sensor, uint64_t uw)
{
    const struct lull_driver_gpu *dies[2];
    int code = AMDSMI_OK;
    uint32_t count;

    AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));
    if (sensor != 0)
        return AMDSMI_INVAL;
    count = amdsmi_module(gpu, dies);
    if (count == 0 || !lull_driver_accepts_limit(gpu, (double)uw * 1e-6 / count))
        return AMDSMI_INVAL;
    for (uint32_t i = 0; code == AMDSMI_OK && i < count; i++)
        code = lull_driver_set_limit(dies[i], (double)uw * 1e-6 / count);
    return code;
}

AMDSMI_EXPORT(amdsmi_get_temp_metric, void *handle, int sensor, int metric, int64_t *celsius_out)
{
    const int hotspot = 1;

    AMDSMI_ENTER(amdsmi_enter(handle, celsius_out, &gpu));
    if (sensor != hotspot || metric != 0) /* boards for data centres have no other sensor */
        return AMDSMI_UNSUPPORTED;
    *celsius_out = llround(lull_physics_temperature_c(lull_node_begin(gpu->node, gpu->index)));
    lull_node_end(gpu->node, gpu->index, false);
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_gpu_activity, void *handle, struct amdsmi_usage *usage)
{
    AMDSMI_ENTER(amdsmi_enter(handle, usage, &gpu));
    *usage = (struct amdsmi_usage){
        .gfx = lull_node_begin(gpu->node, gpu->index)->utilization_percent,
        .umc = AMDSMI_NOT_REPORTED,
        .mm = AMDSMI_NOT_REPORTED,
    };
    lull_node_end(gpu->node, gpu->index, false);
    return AMDSMI_OK;
}

/* ---- processes ---- */

static const uint64_t context_bytes = UINT64_C(512) << 20;

uint64_t amdsmi_used_bytes(const struct lull_driver_gpu *gpu)
{
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
    const uint32_t count = lull_driver_processes(gpu->node, gpu->index, processes);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += processes[i].contexts * context_bytes;
    return bytes;
}

AMDSMI_EXPORT(amdsmi_get_gpu_process_list, void *handle, uint32_t *count, void *list)
{
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
    uint32_t there;

    AMDSMI_ENTER(amdsmi_enter(handle, count, &gpu));
    if (!lull_driver_lists_processes(gpu))
        return AMDSMI_UNSUPPORTED;
    there = lull_driver_processes(gpu->node, gpu->index, processes);
    for (uint32_t i = 0; list != NULL && i < there && i < *count; i++) {
        const uint64_t bytes = processes[i].contexts * context_bytes;
        const struct amdsmi_proc_24 old = {.pid = (uint32_t)processes[i].pid, .mem = bytes};
        const struct amdsmi_proc_25 new = {.pid = (uint32_t)processes[i].pid, .mem = bytes};

        if (amdsmi_abi() == 24)
            memcpy((struct amdsmi_proc_24 *)list + i, &old, sizeof(old));
        else
            memcpy((struct amdsmi_proc_25 *)list + i, &new, sizeof(new));
    }
    *count = there;
    return AMDSMI_OK;
}
