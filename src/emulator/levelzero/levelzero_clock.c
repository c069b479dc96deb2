/*
 * The clock domains of a card: one for each of the two stacks and one for the memory.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "emulator/levelzero/levelzero_library.h"

enum {
    TYPE_PROPERTIES = 9,
    TYPE_STATE = 0x1b,
    DOMAIN_GPU = 0,
    DOMAIN_MEMORY = 1,
    MAX_CLOCKS = 512
};

ZES_EXPORT(zesDeviceEnumFrequencyDomains, const void *device, uint32_t *count, const void **domains)
{
    return zes_list_parts(device, ZES_STACK_CLOCK_0, ZES_MEMORY_CLOCK, count, domains);
}

static bool is_stack(const struct zes_handle *handle)
{
    return handle->part != ZES_MEMORY_CLOCK;
}

ZES_EXPORT(zesFrequencyGetProperties, const void *domain, struct zes_freq_facts *out)
{
    ZES_ENTER(zes_enter_struct(domain, ZES_STACK_CLOCK_0, ZES_MEMORY_CLOCK, out, TYPE_PROPERTIES,
                               &handle));
    if (is_stack(handle)) {
        out->type = DOMAIN_GPU;
        out->on_subdevice = 1;
        out->subdevice = (uint32_t)handle->part - ZES_STACK_CLOCK_0;
        out->can_control = 1;
        out->min = handle->gpu->model.sm_min_mhz;
        out->max = handle->gpu->model.sm_max_mhz;
    } else {
        out->type = DOMAIN_MEMORY;
        out->on_subdevice = 0;
        out->subdevice = 0;
        out->can_control = 0;
        out->min = handle->gpu->model.memory_clocks_mhz[0];
        out->max = handle->gpu->model.memory_clocks_mhz[0];
    }
    return ZE_SUCCESS;
}

ZES_EXPORT(zesFrequencyGetAvailableClocks, const void *domain, uint32_t *count, double *mhz)
{
    uint32_t there;

    ZES_ENTER(zes_enter(domain, ZES_STACK_CLOCK_0, ZES_MEMORY_CLOCK, count, &handle));
    there = is_stack(handle) ? lull_gpu_model_step_count(&handle->gpu->model) : 1;
    for (uint32_t i = 0; mhz != NULL && i < *count && i < there; i++)
        mhz[i] = is_stack(handle) ? lull_gpu_model_step_mhz(&handle->gpu->model, i)
                                  : handle->gpu->model.memory_clocks_mhz[0];
    zes_give_count(count, there);
    return ZE_SUCCESS;
}

/* ---- ranges: a stack's is kept as (highest + 1) << 16 | (lowest + 1); 0 is the default ---- */

static enum lull_node_setting levelzero_clock_setting_of(enum zes_part part)
{
    if (part == ZES_STACK_CLOCK_0)
        return LULL_NODE_STACK_RANGE_0;
    return LULL_NODE_STACK_RANGE_1;
}

static void levelzero_clock_unpack(const struct lull_gpu_model *model, uint32_t packed,
                                   uint32_t *min_out, uint32_t *max_out)
{
    *min_out = packed == 0 ? 0 : (packed & 0xffff) - 1;
    *max_out = packed == 0 ? lull_gpu_model_step_count(model) - 1 : (packed >> 16) - 1;
}

/* The physics has one clock for both stacks, so it is limited to the union of their ranges. */
static int apply_ranges(const struct lull_driver_gpu *gpu, uint32_t own, uint32_t other)
{
    uint32_t min[2];
    uint32_t max[2];

    if (own == 0 && other == 0)
        return lull_driver_unlock(gpu);
    levelzero_clock_unpack(&gpu->model, own, &min[0], &max[0]);
    levelzero_clock_unpack(&gpu->model, other, &min[1], &max[1]);
    return lull_driver_lock(gpu, min[0] < min[1] ? min[0] : min[1],
                            max[0] > max[1] ? max[0] : max[1]);
}

ZES_EXPORT(zesFrequencySetRange, const void *domain, const struct zes_freq_range *range)
{
    int code;
    enum zes_part part;
    uint32_t own = 0;

    ZES_ENTER(zes_enter_root(domain, ZES_STACK_CLOCK_0, ZES_MEMORY_CLOCK, range, &handle));
    if (!is_stack(handle))
        return ZE_UNSUPPORTED;
    if (range->min != -1.0 || range->max != -1.0) {
        if (!(range->min <= range->max) || range->min < 0.0)
            return ZE_INVALID_ARGUMENT;
        own = (lull_gpu_model_nearest_step(&handle->gpu->model, range->max) + 1) << 16 |
              (lull_gpu_model_nearest_step(&handle->gpu->model, range->min) + 1);
    }
    part = handle->part == ZES_STACK_CLOCK_0 ? ZES_STACK_CLOCK_1 : ZES_STACK_CLOCK_0;
    code = apply_ranges(
        handle->gpu, own,
        lull_node_setting(handle->gpu->node, handle->gpu->index, levelzero_clock_setting_of(part)));
    if (code == ZE_SUCCESS)
        lull_node_set_setting(handle->gpu->node, handle->gpu->index,
                              levelzero_clock_setting_of(handle->part), own);
    return code;
}

ZES_EXPORT(zesFrequencyGetRange, const void *domain, struct zes_freq_range *out)
{
    uint32_t min;
    uint32_t max;

    ZES_ENTER(zes_enter(domain, ZES_STACK_CLOCK_0, ZES_MEMORY_CLOCK, out, &handle));
    if (!is_stack(handle))
        return ZE_UNSUPPORTED;
    levelzero_clock_unpack(&handle->gpu->model,
                           lull_node_setting(handle->gpu->node, handle->gpu->index,
                                             levelzero_clock_setting_of(handle->part)),
                           &min, &max);
    out->min = lull_gpu_model_step_mhz(&handle->gpu->model, min);
    out->max = lull_gpu_model_step_mhz(&handle->gpu->model, max);
    return ZE_SUCCESS;
}

/* ---- state ---- */

static uint32_t as_throttle_reasons(const struct lull_physics *physics)
{
    uint32_t reasons = 0;

    if (physics->reasons & LULL_REASON_POWER_CAP)
        reasons |= 0x1;
    if (physics->reasons & LULL_REASON_HW_SLOWDOWN)
        reasons |= 0x4;
    if (physics->reasons & (LULL_REASON_SW_THERMAL | LULL_REASON_HW_THERMAL))
        reasons |= 0x8;
    if (physics->asked.is_locked)
        reasons |= 0x20;
    return reasons;
}

/* A stack without work sleeps; its clock then reads 0. */
ZES_EXPORT(zesFrequencyGetState, const void *domain, struct zes_freq_now *out)
{
    const struct lull_physics *physics;

    ZES_ENTER(
        zes_enter_struct(domain, ZES_STACK_CLOCK_0, ZES_MEMORY_CLOCK, out, TYPE_STATE, &handle));
    physics = lull_node_begin(handle->gpu->node, handle->gpu->index);
    out->voltage = -1.0;
    out->tdp = handle->gpu->model.sm_max_mhz;
    out->efficient = -1.0;
    out->request = lull_gpu_model_step_mhz(
        &physics->model, lull_physics_setting_step(&physics->model, &physics->asked));
    out->actual = physics->context_count > 0 ? lull_physics_published_mhz(physics) : 0.0;
    out->throttle_reasons = as_throttle_reasons(physics);
    if (!is_stack(handle)) {
        out->actual = handle->gpu->model.memory_clocks_mhz[0];
        out->throttle_reasons = 0;
    }
    lull_node_end(handle->gpu->node, handle->gpu->index, false);
    return ZE_SUCCESS;
}
