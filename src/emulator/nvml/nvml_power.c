/*
 * Reports power, energy, temperature and the reasons for limited clocks, and sets power limits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "emulator/nvml/nvml_library.h"

static unsigned nvml_power_mw_from_w(double w)
{
    return (unsigned)lround(w * 1e3);
}

/* ---- power and its limit ---- */

/* Returns whether power is that of a module, and what the rest of the module draws. */
static bool is_of_module(const struct lull_nvml_gpu *gpu, double *rest_w_out)
{
    *rest_w_out = 0.0;
    return lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_MODULE_W, rest_w_out);
}

/* The power according to the sensor: instantaneous, or averaged as in the plain call. */
static unsigned read_power_mw(const struct lull_nvml_gpu *gpu, bool is_usage)
{
    const struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);
    const unsigned mw =
        lull_physics_published_mw(physics, is_usage ? &physics->usage : &physics->instant);

    lull_node_end(gpu->node, gpu->index, false);
    return lull_driver_spoil_power_mw(gpu->driver, mw);
}

NVML_EXPORT(nvmlDeviceGetPowerUsage, nvmlDevice_t device, unsigned *mw_out)
{
    double rest_w;

    NVML_ENTER(nvml_enter_reading(device, mw_out, &gpu));
    is_of_module(gpu, &rest_w);
    *mw_out = read_power_mw(gpu, true) + nvml_power_mw_from_w(rest_w);
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

/* Reads the time for which a clock-event reason has held, by the position of its bit. */
static int read_reason_ns(const struct lull_nvml_gpu *gpu, uint32_t bit, uint64_t *ns_out)
{
    *ns_out = (uint64_t)lull_node_begin(gpu->node, gpu->index)->reason_ns[bit];
    lull_node_end(gpu->node, gpu->index, false);
    return NVML_SUCCESS;
}

enum {
    BIT_POWER_CAP = 2,
    BIT_HW_SLOWDOWN = 3,
    BIT_SYNC = 4,
    BIT_SW_THERMAL = 5,
    BIT_HW_THERMAL = 6
};

NVML_EXPORT(nvmlDeviceGetViolationStatus, nvmlDevice_t device, int policy,
            struct nvml_violation *out)
{
    static const uint32_t bits[] = {BIT_POWER_CAP, BIT_SW_THERMAL, BIT_SYNC};

    NVML_ENTER(nvml_enter_reading(device, out, &gpu));
    if (policy < 0 || policy > 2)
        return NVML_NOT_SUPPORTED;
    out->reference_us = (uint64_t)nvml_time_us();
    return read_reason_ns(gpu, bits[policy], &out->violation_ns);
}

/* ---- fields ---- */

static int give_uint(struct nvml_field *field, unsigned value)
{
    field->type = NVML_VALUE_UINT;
    field->value.as_uint = value;
    return NVML_SUCCESS;
}

static int give_ulonglong(struct nvml_field *field, uint64_t value)
{
    field->type = NVML_VALUE_ULONGLONG;
    field->value.as_ulonglong = value;
    return NVML_SUCCESS;
}

static int give_energy(const struct lull_nvml_gpu *gpu, struct nvml_field *field)
{
    if (lull_driver_has_energy(gpu->driver))
        return give_ulonglong(field, lull_driver_energy_mj(gpu->driver));
    return NVML_NOT_SUPPORTED;
}

/* Supports only one scope, that of the GPU, or of the module where power is the module's. */
static int give_power(const struct lull_nvml_gpu *gpu, struct nvml_field *field, int is_average)
{
    double rest_w;
    const unsigned scope = is_of_module(gpu, &rest_w) ? 1 : 0;

    if (field->scope != scope || (is_average && !gpu->model.power_is_average))
        return NVML_NOT_SUPPORTED;
    give_uint(field, read_power_mw(gpu, is_average != 0) + nvml_power_mw_from_w(rest_w));
    return NVML_SUCCESS;
}

static int give_limit(const struct lull_nvml_gpu *gpu, struct nvml_field *field)
{
    give_uint(field, nvml_power_mw_from_w(lull_node_begin(gpu->node, gpu->index)->limit_w));
    lull_node_end(gpu->node, gpu->index, false);
    return NVML_SUCCESS;
}

static int give_reason_ns(const struct lull_nvml_gpu *gpu, struct nvml_field *field, uint32_t bit)
{
    uint64_t ns;

    read_reason_ns(gpu, bit, &ns);
    return give_ulonglong(field, ns);
}

static int give_field(const struct lull_nvml_gpu *gpu, struct nvml_field *field)
{
    switch (field->id) {
    case 74:
        return give_reason_ns(gpu, field, BIT_POWER_CAP);
    case 75:
    case 269:
        return give_reason_ns(gpu, field, BIT_SW_THERMAL);
    case 76:
        return give_reason_ns(gpu, field, BIT_SYNC);
    case 270:
        return give_reason_ns(gpu, field, BIT_HW_THERMAL);
    case 83:
    case 191:
        return give_energy(gpu, field);
    case 91:
        return give_uint(field, gpu->model.nvlink_count);
    case 185:
        return give_power(gpu, field, 1);
    case 186:
        return give_power(gpu, field, 0);
    case 187:
        return give_uint(field, nvml_power_mw_from_w(gpu->model.limit_min_w));
    case 188:
        return give_uint(field, nvml_power_mw_from_w(gpu->model.limit_max_w));
    case 189:
        return give_uint(field, nvml_power_mw_from_w(gpu->model.limit_default_w));
    case 190:
    case 192:
        return give_limit(gpu, field);
    case 298:
        return give_uint(field, gpu->model.memory_lock == LULL_MEMORY_LOCK_DEFERRED ? 1 : 0);
    default:
        return NVML_NOT_SUPPORTED;
    }
}

NVML_EXPORT(nvmlDeviceGetFieldValues, nvmlDevice_t device, int count, struct nvml_field *fields)
{
    const struct lull_nvml_gpu *gpu;
    const int code = nvml_enter_reading(device, fields, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (count < 1)
        return NVML_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        fields[i].time_us = nvml_time_us();
        fields[i].type = NVML_VALUE_UINT;
        fields[i].value.as_ulonglong = 0;
        fields[i].code = give_field(gpu, &fields[i]);
        fields[i].latency_us = nvml_time_us() - fields[i].time_us;
    }
    return NVML_SUCCESS;
}

/* ---- samples: the emulated driver keeps one of each type ---- */

static int read_sample(const struct lull_nvml_gpu *gpu, int type, unsigned *value_out)
{
    const struct lull_physics *physics;
    int code = NVML_SUCCESS;

    if (type == 0) {
        *value_out = read_power_mw(gpu, false);
        return NVML_SUCCESS;
    }
    physics = lull_node_begin(gpu->node, gpu->index);
    switch (type) {
    case 1:
        *value_out = physics->utilization_percent;
        break;
    case 5:
        *value_out = lull_physics_published_mhz(physics);
        break;
    default:
        code = NVML_NOT_SUPPORTED;
    }
    lull_node_end(gpu->node, gpu->index, false);
    return code;
}

NVML_EXPORT(nvmlDeviceGetSamples, nvmlDevice_t device, int type, unsigned long long last_us,
            int *value_type_out, unsigned *count, struct nvml_sample *samples)
{
    const int64_t period_us = 100000;
    const uint64_t time_us = (uint64_t)(nvml_time_us() / period_us * period_us);
    const struct lull_nvml_gpu *gpu;
    int code = nvml_enter_reading(device, count, &gpu);
    unsigned value = 0;

    if (code == NVML_SUCCESS && value_type_out == NULL)
        code = NVML_INVALID_ARGUMENT;
    if (code == NVML_SUCCESS)
        code = read_sample(gpu, type, &value);
    if (code != NVML_SUCCESS)
        return code;
    *value_type_out = NVML_VALUE_UINT;
    if (samples != NULL) {
        if (time_us <= last_us)
            return NVML_NOT_FOUND;
        if (*count < 1)
            return NVML_INSUFFICIENT_SIZE;
        samples[0] = (struct nvml_sample){.time_us = time_us, .value.as_uint = value};
    }
    *count = 1;
    return NVML_SUCCESS;
}
