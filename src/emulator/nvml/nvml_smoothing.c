/*
 * Power smoothing: its presets, which one is in use, and whether it is on. Its effect is in
 * physics.c, its readings are fields. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_library.h"

enum { PARAMETER_FLOOR, PARAMETER_RAMP_UP, PARAMETER_RAMP_DOWN, PARAMETER_HYSTERESIS };

/* Checks a request and copies the present settings, which the caller changes and sets. */
static int enter_smoothing(nvmlDevice_t device, const uint32_t *version, uint32_t wanted,
                           const struct lull_nvml_gpu **gpu_out,
                           struct lull_physics_smoothing *smoothing_out)
{
    const struct lull_nvml_gpu *gpu;

    LULL_DRIVER_CHECK(nvml_enter(device, version, &gpu));
    if (*version != wanted)
        return NVML_VERSION_MISMATCH;
    if (gpu->model.smoothing_floor_ratio <= 0)
        return NVML_NOT_SUPPORTED;
    LULL_DRIVER_CHECK(nvml_enter_root(device, gpu_out));
    *smoothing_out = lull_node_begin(gpu->node, gpu->index)->smoothing;
    lull_node_end(gpu->node, gpu->index, false);
    return NVML_SUCCESS;
}

static int set_parameter(const struct lull_gpu_model *model,
                         const struct nvml_smoothing_preset *request,
                         struct lull_physics_preset *preset)
{
    const double value = request->value;

    if (!(value >= 0) || value > 1e9)
        return NVML_INVALID_ARGUMENT;
    switch (request->parameter) {
    case PARAMETER_FLOOR:
        if (value > model->smoothing_floor_ratio * 100)
            return NVML_INVALID_ARGUMENT;
        preset->floor_ratio = value / 100;
        return NVML_SUCCESS;
    case PARAMETER_RAMP_UP:
        preset->ramp_up_w = value;
        return NVML_SUCCESS;
    case PARAMETER_RAMP_DOWN:
        preset->ramp_down_w = value;
        return NVML_SUCCESS;
    case PARAMETER_HYSTERESIS:
        preset->hysteresis_s = value * 1e-3;
        return NVML_SUCCESS;
    default: /* of delayed power smoothing */
        return NVML_INVALID_ARGUMENT;
    }
}

NVML_EXPORT(nvmlDevicePowerSmoothingActivatePresetProfile, nvmlDevice_t device,
            const struct nvml_smoothing_preset *request)
{
    struct lull_physics_smoothing smoothing;

    NVML_ENTER(enter_smoothing(device, (const uint32_t *)request, NVML_VERSION_WORD(*request, 1u),
                               &gpu, &smoothing));
    if (request->preset >= LULL_PHYSICS_PRESETS)
        return NVML_INVALID_ARGUMENT;
    smoothing.active = request->preset;
    return lull_driver_set_smoothing(gpu->driver, &smoothing);
}

NVML_EXPORT(nvmlDevicePowerSmoothingUpdatePresetProfileParam, nvmlDevice_t device,
            const struct nvml_smoothing_preset *request)
{
    struct lull_physics_smoothing smoothing;

    NVML_ENTER(enter_smoothing(device, (const uint32_t *)request, NVML_VERSION_WORD(*request, 1u),
                               &gpu, &smoothing));
    if (request->preset >= LULL_PHYSICS_PRESETS)
        return NVML_INVALID_ARGUMENT;
    LULL_DRIVER_CHECK(set_parameter(&gpu->model, request, &smoothing.presets[request->preset]));
    return lull_driver_set_smoothing(gpu->driver, &smoothing);
}

NVML_EXPORT(nvmlDevicePowerSmoothingSetState, nvmlDevice_t device,
            const struct nvml_smoothing_state *request)
{
    struct lull_physics_smoothing smoothing;

    NVML_ENTER(enter_smoothing(device, (const uint32_t *)request, NVML_VERSION_WORD(*request, 1u),
                               &gpu, &smoothing));
    if (request->is_enabled != 0 && request->is_enabled != 1)
        return NVML_INVALID_ARGUMENT;
    smoothing.is_enabled = request->is_enabled != 0;
    return lull_driver_set_smoothing(gpu->driver, &smoothing);
}
