/*
 * Reports power, energy, temperature and the reasons for limited clocks, and sets power limits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "emulator/nvml/nvml_library.h"

unsigned nvml_power_mw_from_w(double w)
{
    return (unsigned)lround(w * 1e3);
}

/* ---- power and its limit ---- */

uint32_t nvml_read_power_mw(const struct lull_nvml_gpu *gpu, bool is_usage, bool *is_of_module_out)
{
    const struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);
    const unsigned mw =
        lull_physics_published_mw(physics, is_usage ? &physics->usage : &physics->instant);
    double rest_w = 0;

    lull_node_end(gpu->node, gpu->index, false);
    *is_of_module_out = lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_MODULE_W, &rest_w);
    return lull_driver_spoil_power_mw(gpu->driver, mw) + nvml_power_mw_from_w(rest_w);
}

NVML_EXPORT(nvmlDeviceGetPowerUsage, nvmlDevice_t device, unsigned *mw_out)
{
    bool is_of_module;

    NVML_ENTER(nvml_enter_reading(device, mw_out, &gpu));
    *mw_out = nvml_read_power_mw(gpu, true, &is_of_module);
    return NVML_SUCCESS;
}

NVML_GET_READING(nvmlDeviceGetPowerManagementLimit, unsigned,
                 nvml_power_mw_from_w(physics->limit_w))
NVML_GET_READING(nvmlDeviceGetEnforcedPowerLimit, unsigned, nvml_power_mw_from_w(physics->limit_w))
NVML_GET_FACT(nvmlDeviceGetPowerManagementDefaultLimit, unsigned,
              nvml_power_mw_from_w(gpu->model.limit_default_w))
NVML_GET_FACT(nvmlDeviceGetPowerManagementMode, int, 1)
NVML_GET_FACT(nvmlDeviceGetPowerSource, unsigned, 0)

NVML_GET_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, unsigned, true,
              nvml_power_mw_from_w(gpu->model.limit_min_w),
              nvml_power_mw_from_w(gpu->model.limit_max_w))

NVML_EXPORT(nvmlDeviceSetPowerManagementLimit, nvmlDevice_t device, unsigned mw)
{
    const double limit_w = mw * 1e-3;

    NVML_ENTER(nvml_enter_root(device, &gpu));
    if (!lull_driver_accepts_limit(gpu->driver, limit_w))
        return NVML_INVALID_ARGUMENT;
    return lull_driver_set_limit(gpu->driver, limit_w);
}

NVML_EXPORT(nvmlDeviceSetPowerManagementLimit_v2, nvmlDevice_t device,
            const struct nvml_power_value *value)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (value == NULL)
        return NVML_INVALID_ARGUMENT;
    if (value->version != NVML_VERSION_WORD(struct nvml_power_value, 2u))
        return NVML_VERSION_MISMATCH;
    if (value->scope != 0)
        return NVML_NOT_SUPPORTED;
    return nvmlDeviceSetPowerManagementLimit(device, value->mw);
}

/* ---- energy ---- */

NVML_EXPORT(nvmlDeviceGetTotalEnergyConsumption, nvmlDevice_t device, unsigned long long *mj_out)
{
    NVML_ENTER(nvml_enter_reading(device, mj_out, &gpu));
    if (!lull_driver_has_energy(gpu->driver))
        return NVML_NOT_SUPPORTED;
    *mj_out = lull_driver_energy_mj(gpu->driver);
    return NVML_SUCCESS;
}

/* ---- temperature ---- */

NVML_EXPORT(nvmlDeviceGetTemperature, nvmlDevice_t device, int sensor, unsigned *celsius_out)
{
    NVML_ENTER(nvml_enter_reading(device, celsius_out, &gpu));
    if (sensor != 0)
        return NVML_INVALID_ARGUMENT;
    *celsius_out =
        (unsigned)lround(lull_physics_temperature_c(lull_node_begin(gpu->node, gpu->index)));
    lull_node_end(gpu->node, gpu->index, false);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetTemperatureV, nvmlDevice_t device, struct nvml_temperature *out)
{
    unsigned celsius;
    int code;

    LULL_DRIVER_CHECK(nvml_ready());
    if (out == NULL)
        return NVML_INVALID_ARGUMENT;
    if (out->version != NVML_VERSION_WORD(struct nvml_temperature, 1u))
        return NVML_VERSION_MISMATCH;
    code = nvmlDeviceGetTemperature(device, out->sensor, &celsius);
    if (code == NVML_SUCCESS)
        out->celsius = (int32_t)celsius;
    return code;
}

NVML_EXPORT(nvmlDeviceGetTemperatureThreshold, nvmlDevice_t device, int kind, unsigned *celsius_out)
{
    NVML_ENTER(nvml_enter(device, celsius_out, &gpu));
    switch (kind) {
    case 0:
        *celsius_out = (unsigned)gpu->model.shutdown_c;
        return NVML_SUCCESS;
    case 1:
        *celsius_out = (unsigned)gpu->model.hw_slowdown_c;
        return NVML_SUCCESS;
    case 2:
        if (gpu->model.memory_limit_c == 0)
            return NVML_NOT_SUPPORTED;
        *celsius_out = (unsigned)gpu->model.memory_limit_c;
        return NVML_SUCCESS;
    case 3:
        *celsius_out = (unsigned)gpu->model.slowdown_c;
        return NVML_SUCCESS;
    default:
        return NVML_NOT_SUPPORTED;
    }
}

/* ---- reasons ---- */

NVML_GET_READING(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, physics->reasons)
NVML_ALIAS(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetCurrentClocksEventReasons);
NVML_GET_FACT(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, 0x1ff)
NVML_ALIAS(nvmlDeviceGetSupportedClocksThrottleReasons, nvmlDeviceGetSupportedClocksEventReasons);

uint64_t nvml_reason_ns(const struct lull_nvml_gpu *gpu, uint32_t bit)
{
    const uint64_t ns = (uint64_t)lull_node_begin(gpu->node, gpu->index)->reason_ns[bit];

    lull_node_end(gpu->node, gpu->index, false);
    return ns;
}

static uint64_t limited_ns(const struct lull_nvml_gpu *gpu)
{
    const uint64_t ns = (uint64_t)lull_node_begin(gpu->node, gpu->index)->limited_ns;

    lull_node_end(gpu->node, gpu->index, false);
    return ns;
}

int nvml_read_violation(const struct lull_nvml_gpu *gpu, int policy, uint64_t *ns_out)
{
    enum { BIT_POWER_CAP = 2, BIT_HW_SLOWDOWN = 3, BIT_SYNC = 4, BIT_SW_THERMAL = 5 };
    enum { LOW_UTILIZATION = 4, RELIABILITY = 5, TOTAL_APP_CLOCKS = 10 };
    static const uint32_t bits[] = {BIT_POWER_CAP, BIT_SW_THERMAL, BIT_SYNC, BIT_HW_SLOWDOWN};

    switch (policy) {
    case LOW_UTILIZATION:
    case RELIABILITY: /* nothing lowers the clock of an emulated board for these */
        *ns_out = 0;
        return NVML_SUCCESS;
    case TOTAL_APP_CLOCKS:
        *ns_out = limited_ns(gpu);
        return NVML_SUCCESS;
    default:
        if (policy < 0 || policy > LOW_UTILIZATION)
            return NVML_NOT_SUPPORTED;
        *ns_out = nvml_reason_ns(gpu, bits[policy]);
        return NVML_SUCCESS;
    }
}

NVML_EXPORT(nvmlDeviceGetViolationStatus, nvmlDevice_t device, int policy,
            struct nvml_violation *out)
{
    NVML_ENTER(nvml_enter_reading(device, out, &gpu));
    out->reference_us = (uint64_t)nvml_time_us();
    return nvml_read_violation(gpu, policy, &out->violation_ns);
}
