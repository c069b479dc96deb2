/*
 * The power domains of the stacks and of the card, temperature, activity, processes and memory.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "base/clock.h"
#include "emulator/levelzero/levelzero_library.h"

enum {
    TYPE_POWER = 0xd,
    TYPE_LIMIT = 0x27,
    TYPE_TEMPERATURE = 0x14,
    TYPE_ENGINE = 5,
    TYPE_PROCESS = 0x16,
    TYPE_MEMORY = 0xb,
    TYPE_MEMORY_STATE = 0x1e,
    ENGINE_COMPUTE = 1 << 1,
    LEVEL_SUSTAINED = 1,
    LEVEL_PEAK = 3,
    UNIT_POWER = 2,
    LIMITS = 2,
    STACKS = 2,
};

static int32_t levelzero_power_mw_from_w(double w)
{
    return (int32_t)lround(w * 1e3);
}

/* ---- power ---- */

ZES_EXPORT(zesDeviceEnumPowerDomains, const void *device, uint32_t *count, const void **domains)
{
    return zes_list_parts(device, ZES_STACK_POWER_0, ZES_CARD_POWER, count, domains);
}

/* Intel's driver does not report the lowest limit. */
ZES_EXPORT(zesPowerGetProperties, const void *domain, struct zes_power_facts *out)
{
    const struct zes_handle *handle;
    const int code =
        zes_enter_struct(domain, ZES_STACK_POWER_0, ZES_CARD_POWER, out, TYPE_POWER, &handle);
    const bool is_card = code == ZE_SUCCESS && handle->part == ZES_CARD_POWER;

    if (code != ZE_SUCCESS)
        return code;
    out->on_subdevice = !is_card;
    out->subdevice = is_card ? 0 : (uint32_t)handle->part - ZES_STACK_POWER_0;
    out->can_control = is_card;
    out->threshold = 0;
    out->default_mw = is_card ? levelzero_power_mw_from_w(handle->gpu->model.limit_default_w) : -1;
    out->min_mw = -1;
    out->max_mw = is_card ? levelzero_power_mw_from_w(handle->gpu->model.limit_max_w) : -1;
    return ZE_SUCCESS;
}

/* The time that goes with the counter is that of its latest refresh and not that of the call. */
ZES_EXPORT(zesPowerGetEnergyCounter, const void *domain, struct zes_snapshot *out)
{
    const struct lull_physics *physics;

    ZES_ENTER(zes_enter(domain, ZES_STACK_POWER_0, ZES_CARD_POWER, out, &handle));
    if (!lull_driver_has_energy(handle->gpu))
        return ZE_UNSUPPORTED;
    physics = lull_node_begin(handle->gpu->node, handle->gpu->index);
    out->value = lull_physics_published_mj(physics) * 1000;
    out->time_us = (uint64_t)(physics->energy_ns - /* when the next refresh is due */
                              lull_ns_from_ms(physics->model.energy_period_ms)) /
                   1000;
    lull_node_end(handle->gpu->node, handle->gpu->index, false);
    out->value = lull_driver_spoil_energy_mj(handle->gpu, out->value / 1000) * 1000;
    if (handle->part != ZES_CARD_POWER)
        out->value /= STACKS;
    return ZE_SUCCESS;
}

ZES_EXPORT(zesPowerGetLimitsExt, const void *domain, uint32_t *count, struct zes_limit *limits)
{
    const struct lull_driver_gpu *gpu;
    double watts[LIMITS];

    ZES_ENTER(zes_enter(domain, ZES_STACK_POWER_0, ZES_CARD_POWER, count, &handle));
    if (handle->part != ZES_CARD_POWER)
        return ZE_UNSUPPORTED;
    gpu = handle->gpu;
    watts[0] = 1.5 * gpu->model.limit_max_w; /* the peak limit, which cannot be set */
    watts[1] = lull_node_begin(gpu->node, gpu->index)->limit_w;
    lull_node_end(gpu->node, gpu->index, false);
    for (uint32_t i = 0; limits != NULL && i < *count && i < LIMITS; i++) {
        if (limits[i].base.stype != TYPE_LIMIT)
            return ZE_INVALID_ARGUMENT;
        limits[i] = (struct zes_limit){.base = limits[i].base,
                                       .level = i == 0 ? LEVEL_PEAK : LEVEL_SUSTAINED,
                                       .unit = UNIT_POWER,
                                       .enabled = 1,
                                       .interval_locked = 1,
                                       .limit_locked = i == 0,
                                       .limit_mw = levelzero_power_mw_from_w(watts[i])};
    }
    zes_give_count(count, LIMITS);
    return ZE_SUCCESS;
}

ZES_EXPORT(zesPowerSetLimitsExt, const void *domain, const uint32_t *count,
           const struct zes_limit *limits)
{
    int code = ZE_SUCCESS;

    ZES_ENTER(zes_enter_root(domain, ZES_STACK_POWER_0, ZES_CARD_POWER, count, &handle));
    if (handle->part != ZES_CARD_POWER || limits == NULL)
        return ZE_UNSUPPORTED;
    for (uint32_t i = 0; code == ZE_SUCCESS && i < *count; i++) {
        const double limit_w = limits[i].limit_mw * 1e-3;

        if (limits[i].base.stype != TYPE_LIMIT)
            return ZE_INVALID_ARGUMENT;
        if (limits[i].level != LEVEL_SUSTAINED)
            continue;
        if (!lull_driver_accepts_limit(handle->gpu, limit_w))
            return ZE_INVALID_ARGUMENT;
        code = lull_driver_set_limit(handle->gpu, limit_w);
    }
    return code;
}

/* ---- temperature ---- */

ZES_EXPORT(zesDeviceEnumTemperatureSensors, const void *device, uint32_t *count,
           const void **sensors)
{
    return zes_list_parts(device, ZES_SENSOR, ZES_SENSOR, count, sensors);
}

ZES_EXPORT(zesTemperatureGetProperties, const void *sensor, struct zes_temp_facts *out)
{
    ZES_ENTER(zes_enter_struct(sensor, ZES_SENSOR, ZES_SENSOR, out, TYPE_TEMPERATURE, &handle));
    out->type = 0; /* the hottest place of the device */
    out->on_subdevice = 0;
    out->max = handle->gpu->model.shutdown_c;
    return ZE_SUCCESS;
}

ZES_EXPORT(zesTemperatureGetState, const void *sensor, double *celsius_out)
{
    ZES_ENTER(zes_enter(sensor, ZES_SENSOR, ZES_SENSOR, celsius_out, &handle));
    *celsius_out =
        lull_physics_temperature_c(lull_node_begin(handle->gpu->node, handle->gpu->index));
    lull_node_end(handle->gpu->node, handle->gpu->index, false);
    return ZE_SUCCESS;
}

/* ---- activity ---- */

ZES_EXPORT(zesDeviceEnumEngineGroups, const void *device, uint32_t *count, const void **groups)
{
    return zes_list_parts(device, ZES_ENGINES, ZES_ENGINES, count, groups);
}

ZES_EXPORT(zesEngineGetProperties, const void *group, struct zes_engine_facts *out)
{
    ZES_ENTER(zes_enter_struct(group, ZES_ENGINES, ZES_ENGINES, out, TYPE_ENGINE, &handle));
    out->type = 1; /* the group of all compute engines */
    out->on_subdevice = 0;
    return ZE_SUCCESS;
}

ZES_EXPORT(zesEngineGetActivity, const void *group, struct zes_snapshot *out)
{
    const struct lull_physics *physics;

    ZES_ENTER(zes_enter(group, ZES_ENGINES, ZES_ENGINES, out, &handle));
    physics = lull_node_begin(handle->gpu->node, handle->gpu->index);
    out->value = (uint64_t)physics->busy_ns / 1000;
    out->time_us = (uint64_t)physics->now_ns / 1000;
    lull_node_end(handle->gpu->node, handle->gpu->index, false);
    return ZE_SUCCESS;
}

/* ---- processes ---- */

static const uint64_t context_bytes = UINT64_C(512) << 20;

ZES_EXPORT(zesDeviceProcessesGetState, const void *device, uint32_t *count,
           struct zes_process_now *list)
{
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
    uint32_t there;

    ZES_ENTER(zes_enter(device, ZES_DEVICE, ZES_DEVICE, count, &handle));
    if (!lull_driver_lists_processes(handle->gpu))
        return ZE_UNSUPPORTED;
    there = lull_driver_processes(handle->gpu->node, handle->gpu->index, processes);
    for (uint32_t i = 0; list != NULL && i < there && i < *count; i++) {
        if (list[i].base.stype != TYPE_PROCESS)
            return ZE_INVALID_ARGUMENT;
        list[i] = (struct zes_process_now){.base = list[i].base,
                                           .pid = (uint32_t)processes[i].pid,
                                           .memory = processes[i].contexts * context_bytes,
                                           .engines = ENGINE_COMPUTE};
    }
    zes_give_count(count, there);
    return ZE_SUCCESS;
}

/* ---- memory: one module for the whole card ---- */

ZES_EXPORT(zesDeviceEnumMemoryModules, const void *device, uint32_t *count, const void **modules)
{
    return zes_list_parts(device, ZES_MEMORY, ZES_MEMORY, count, modules);
}

ZES_EXPORT(zesMemoryGetProperties, const void *module, struct zes_memory_facts *out)
{
    const int32_t hbm = 0;
    const int32_t on_device = 1;

    ZES_ENTER(zes_enter_struct(module, ZES_MEMORY, ZES_MEMORY, out, TYPE_MEMORY, &handle));
    *out = (struct zes_memory_facts){.base = out->base,
                                     .type = hbm,
                                     .location = on_device,
                                     .bytes = (uint64_t)handle->gpu->model.memory_mib << 20,
                                     .bus_bits = (int32_t)handle->gpu->model.bus_bits,
                                     .channels = -1};
    return ZE_SUCCESS;
}

ZES_EXPORT(zesMemoryGetState, const void *module, struct zes_memory_now *out)
{
    const int32_t healthy = 1;
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
    uint32_t count;

    ZES_ENTER(zes_enter_struct(module, ZES_MEMORY, ZES_MEMORY, out, TYPE_MEMORY_STATE, &handle));
    *out = (struct zes_memory_now){.base = out->base,
                                   .health = healthy,
                                   .bytes = (uint64_t)handle->gpu->model.memory_mib << 20};
    out->free_bytes = out->bytes;
    count = lull_driver_processes(handle->gpu->node, handle->gpu->index, processes);
    for (uint32_t i = 0; i < count; i++)
        out->free_bytes -= processes[i].contexts * context_bytes;
    return ZE_SUCCESS;
}
