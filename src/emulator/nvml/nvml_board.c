/*
 * Parts of emulated boards: firmware, inforom, sensors, clocks by performance state, encoders and
 * fans. Values without a source are those that nvidia-smi shows on such boards, from memory.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "emulator/nvml/nvml_library.h"

enum {
    ARCHITECTURE_VOLTA = 5,
    ARCHITECTURE_AMPERE = 7,
    ARCHITECTURE_ADA = 8,
    LEAST_HBM_BITS = 1024,
    ADDRESSING_NONE = 0,
    ADDRESSING_ATS = 2
};

/* ---- firmware ---- */

/* Volta has no GPU system processor; since Ampere it is on by default. */
NVML_EXPORT(nvmlDeviceGetGspFirmwareVersion, nvmlDevice_t device, char *version)
{
    enum { LEAST_SIZE = 64 };

    NVML_ENTER(nvml_enter(device, version, &gpu));
    if (gpu->model.architecture <= ARCHITECTURE_VOLTA)
        return NVML_NOT_SUPPORTED;
    return nvml_copy_text(lull_driver_release().version, version, LEAST_SIZE);
}

NVML_GET_PAIR(nvmlDeviceGetGspFirmwareMode, unsigned, gpu->model.architecture > ARCHITECTURE_VOLTA,
              gpu->model.architecture >= ARCHITECTURE_AMPERE,
              gpu->model.architecture >= ARCHITECTURE_AMPERE)

NVML_EXPORT(nvmlDeviceGetInforomImageVersion, nvmlDevice_t device, char *text, unsigned size)
{
    NVML_ENTER(nvml_enter(device, text, &gpu));
    return nvml_copy_text(gpu->model.inforom[0], text, size);
}

NVML_EXPORT(nvmlDeviceGetInforomVersion, nvmlDevice_t device, int object, char *text, unsigned size)
{
    enum { OBJECTS = 4, KNOWN_OBJECTS = LULL_GPU_INFOROM_TEXTS - 1 };

    NVML_ENTER(nvml_enter(device, text, &gpu));
    if (object < 0 || object >= OBJECTS)
        return NVML_INVALID_ARGUMENT;
    if (object >= KNOWN_OBJECTS || *gpu->model.inforom[object + 1] == '\0')
        return NVML_NOT_SUPPORTED;
    return nvml_copy_text(gpu->model.inforom[object + 1], text, size);
}

NVML_GET_FACT(nvmlDeviceGetInforomConfigurationChecksum, unsigned, gpu->driver->identity[0])

NVML_EXPORT(nvmlDeviceValidateInforom, nvmlDevice_t device)
{
    NVML_ENTER(nvml_enter(device, device, &gpu));
    (void)gpu;
    return NVML_SUCCESS;
}

/* ---- identity ---- */

NVML_GET_FACT(nvmlDeviceGetIrqNum, unsigned, 128 + gpu->position)
NVML_GET_FACT(nvmlDeviceGetAdaptiveClockInfoStatus, unsigned, 1)

/* Defines a function whose one number lies behind the version word of a struct. */
#define NVML_GET_VERSIONED(name, type, is_supported, expression)                                   \
    NVML_EXPORT(name, nvmlDevice_t device, type *out)                                              \
    {                                                                                              \
        NVML_ENTER(nvml_enter(device, out, &gpu));                                                 \
        if (out->version != NVML_VERSION_WORD(type, 1u))                                           \
            return NVML_VERSION_MISMATCH;                                                          \
        if (!(is_supported))                                                                       \
            return NVML_NOT_SUPPORTED;                                                             \
        out->value = (__typeof__(out->value))(expression);                                         \
        return NVML_SUCCESS;                                                                       \
    }

NVML_GET_VERSIONED(nvmlDeviceGetPdi, struct nvml_pdi, true, gpu->driver->identity[1])
NVML_GET_VERSIONED(nvmlDeviceGetAddressingMode, struct nvml_number,
                   gpu->model.architecture > ARCHITECTURE_VOLTA,
                   nvml_has_memory_node(gpu) ? ADDRESSING_ATS : ADDRESSING_NONE)
NVML_GET_VERSIONED(nvmlDeviceGetCapabilities, struct nvml_number, true, 0)

NVML_EXPORT(nvmlDeviceGetGpuUptime_v1, nvmlDevice_t device, unsigned *seconds_out)
{
    NVML_ENTER(nvml_enter(device, seconds_out, &gpu));
    *seconds_out = (unsigned)(lull_node_now_ns(gpu->node) / INT64_C(1000000000));
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetGridLicensableFeatures_v4, nvmlDevice_t device, struct nvml_licences *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    (void)gpu;
    *out = (struct nvml_licences){0};
    return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetGridLicensableFeatures_v3, nvmlDeviceGetGridLicensableFeatures_v4);
NVML_ALIAS(nvmlDeviceGetGridLicensableFeatures_v2, nvmlDeviceGetGridLicensableFeatures_v4);
NVML_ALIAS(nvmlDeviceGetGridLicensableFeatures, nvmlDeviceGetGridLicensableFeatures_v4);

NVML_EXPORT(nvmlDeviceQueryDrainState, const struct nvml_pci_info *pci, int *state_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (pci == NULL || state_out == NULL)
        return NVML_INVALID_ARGUMENT;
    *state_out = 0;
    return NVML_SUCCESS;
}

/* ---- temperature ---- */

static int read_temperature_c(const struct lull_nvml_gpu *gpu)
{
    const double celsius = lull_physics_temperature_c(lull_node_begin(gpu->node, gpu->index));

    lull_node_end(gpu->node, gpu->index, false);
    return (int)lround(celsius);
}

/* The margin is that to the slowdown. */
NVML_GET_VERSIONED(nvmlDeviceGetMarginTemperature, struct nvml_margin,
                   gpu->model.architecture >= ARCHITECTURE_ADA,
                   (int)gpu->model.slowdown_c - read_temperature_c(gpu))

NVML_EXPORT(nvmlDeviceGetThermalSettings, nvmlDevice_t device, unsigned sensor,
            struct nvml_thermal_settings *out)
{
    enum { CONTROLLER_INTERNAL = 1, TARGET_GPU = 1, TARGET_ALL = 15, HIGHEST_C = 127 };

    NVML_ENTER(nvml_enter_reading(device, out, &gpu));
    if (sensor != 0 && sensor != TARGET_ALL)
        return NVML_INVALID_ARGUMENT;
    *out = (struct nvml_thermal_settings){.count = 1};
    out->sensors[0].controller = CONTROLLER_INTERNAL;
    out->sensors[0].max_c = HIGHEST_C;
    out->sensors[0].now_c = read_temperature_c(gpu);
    out->sensors[0].target = TARGET_GPU;
    return NVML_SUCCESS;
}

/* ---- performance states and their clocks ---- */

NVML_EXPORT(nvmlDeviceGetDynamicPstatesInfo, nvmlDevice_t device, struct nvml_dynamic_states *out)
{
    struct nvml_utilization utilization;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    (void)gpu;
    LULL_DRIVER_CHECK(nvmlDeviceGetUtilizationRates(device, &utilization));
    *out = (struct nvml_dynamic_states){.flags = 1};
    out->domains[0] = (struct nvml_domain_state){1, utilization.gpu_percent, 0, 0};
    out->domains[1] = (struct nvml_domain_state){1, utilization.memory_percent, 0, 0};
    return NVML_SUCCESS;
}

static int print_clocks(char *text, size_t size, unsigned sm_mhz, unsigned sm_min_mhz,
                        unsigned sm_max_mhz, unsigned memory)
{
    return snprintf(text, size,
                    "nvclock=%u, nvclockmin=%u, nvclockmax=%u, nvclockeditable=0, memclock=%u, "
                    "memclockmin=%u, memclockmax=%u, memclockeditable=0, memtransferrate=%u, "
                    "memtransferratemin=%u, memtransferratemax=%u, memtransferrateeditable=0",
                    sm_mhz, sm_min_mhz, sm_max_mhz, memory, memory, memory, 2 * memory, 2 * memory,
                    2 * memory);
}

NVML_EXPORT(nvmlDeviceGetCurrentClockFreqs, nvmlDevice_t device, struct nvml_modes_text *out)
{
    unsigned sm_mhz = 0;
    unsigned memory = 0;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_modes_text, 1u))
        return NVML_VERSION_MISMATCH;
    LULL_DRIVER_CHECK(nvmlDeviceGetClockInfo(device, NVML_CLOCK_GRAPHICS, &sm_mhz));
    LULL_DRIVER_CHECK(nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEMORY, &memory));
    print_clocks(out->text, sizeof(out->text), sm_mhz, (unsigned)gpu->model.sm_min_mhz,
                 (unsigned)gpu->model.sm_max_mhz, memory);
    return NVML_SUCCESS;
}

/* One mode for each memory clock, that of the lowest performance first. */
NVML_EXPORT(nvmlDeviceGetPerformanceModes, nvmlDevice_t device, struct nvml_modes_text *out)
{
    size_t used = 0;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_modes_text, 1u))
        return NVML_VERSION_MISMATCH;
    for (uint32_t i = 0; i < gpu->model.memory_clock_count; i++) {
        const unsigned memory = gpu->model.memory_clocks_mhz[gpu->model.memory_clock_count - 1 - i];
        const unsigned most = (unsigned)gpu->model.sm_max_mhz;

        used += (size_t)snprintf(out->text + used, sizeof(out->text) - used, "perf=%u, ", i);
        used += (size_t)print_clocks(out->text + used, sizeof(out->text) - used, most,
                                     (unsigned)gpu->model.sm_min_mhz, most, memory);
        used += (size_t)snprintf(out->text + used, sizeof(out->text) - used, " ; ");
    }
    return NVML_SUCCESS;
}

/* ---- encoders: boards with HBM since Ampere have none; no program here encodes or captures
 * frames ---- */

static bool has_encoder(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.architecture < ARCHITECTURE_AMPERE || gpu->model.bus_bits < LEAST_HBM_BITS;
}

NVML_EXPORT(nvmlDeviceGetEncoderCapacity, nvmlDevice_t device, int codec, unsigned *percent_out)
{
    enum { CODECS = 3 };

    NVML_ENTER(nvml_enter(device, percent_out, &gpu));
    if (codec < 0 || codec >= CODECS)
        return NVML_INVALID_ARGUMENT;
    if (!has_encoder(gpu))
        return NVML_NOT_SUPPORTED;
    *percent_out = 100;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetEncoderStats, nvmlDevice_t device, unsigned *sessions, unsigned *fps,
            unsigned *latency_us)
{
    NVML_ENTER(nvml_enter(device, sessions, &gpu));
    (void)gpu;
    if (fps == NULL || latency_us == NULL)
        return NVML_INVALID_ARGUMENT;
    *sessions = *fps = *latency_us = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetEncoderSessions, nvmlDevice_t device, unsigned *count, void *sessions)
{
    NVML_ENTER(nvml_enter(device, count, &gpu));
    (void)gpu;
    return nvml_copy_list(NULL, 0, 1, count, sessions);
}

NVML_ALIAS(nvmlDeviceGetFBCSessions, nvmlDeviceGetEncoderSessions);

NVML_EXPORT(nvmlDeviceGetFBCStats, nvmlDevice_t device, struct nvml_capture_stats *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    (void)gpu;
    *out = (struct nvml_capture_stats){{0}};
    return NVML_SUCCESS;
}

/* ---- fans: a board has one or none ---- */

enum { FAN_AUTOMATIC_PERCENT = 40, FAN_LEAST_PERCENT = 30, FAN_RPM_PER_PERCENT = 30 };

/* Checks a call about a fan; the board has fan 0 alone. */
static int enter_fan(nvmlDevice_t device, unsigned fan, const void *output,
                     const struct lull_nvml_gpu **gpu_out)
{
    LULL_DRIVER_CHECK(nvml_enter(device, output, gpu_out));
    if (!(*gpu_out)->model.has_fan)
        return NVML_NOT_SUPPORTED;
    return fan == 0 ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

static bool is_fan_manual(const struct lull_nvml_gpu *gpu)
{
    return lull_node_setting(gpu->node, gpu->index, LULL_NODE_FAN_PERCENT) != 0;
}

static unsigned fan_percent(const struct lull_nvml_gpu *gpu)
{
    if (is_fan_manual(gpu))
        return lull_node_setting(gpu->node, gpu->index, LULL_NODE_FAN_PERCENT);
    return FAN_AUTOMATIC_PERCENT;
}

NVML_EXPORT(nvmlDeviceGetFanSpeed_v2, nvmlDevice_t device, unsigned fan, unsigned *percent_out)
{
    NVML_ENTER(enter_fan(device, fan, percent_out, &gpu));
    *percent_out = fan_percent(gpu);
    return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetTargetFanSpeed, nvmlDeviceGetFanSpeed_v2);

NVML_EXPORT(nvmlDeviceGetFanSpeed, nvmlDevice_t device, unsigned *percent_out)
{
    return nvmlDeviceGetFanSpeed_v2(device, 0, percent_out);
}

NVML_GET_PAIR(nvmlDeviceGetMinMaxFanSpeed, unsigned, gpu->model.has_fan, FAN_LEAST_PERCENT, 100)

NVML_EXPORT(nvmlDeviceGetNumFans, nvmlDevice_t device, unsigned *count_out)
{
    NVML_ENTER(enter_fan(device, 0, count_out, &gpu));
    (void)gpu;
    *count_out = 1;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetFanSpeedRPM, nvmlDevice_t device, struct nvml_fan_speed *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_fan_speed, 1u))
        return NVML_VERSION_MISMATCH;
    LULL_DRIVER_CHECK(enter_fan(device, out->fan, out, &gpu));
    out->rpm = fan_percent(gpu) * FAN_RPM_PER_PERCENT;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetCoolerInfo, nvmlDevice_t device, struct nvml_cooler *out)
{
    enum { SIGNAL_VARIABLE = 2, TARGET_ALL = 14 };

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_cooler, 1u))
        return NVML_VERSION_MISMATCH;
    LULL_DRIVER_CHECK(enter_fan(device, out->fan, out, &gpu));
    out->signal = SIGNAL_VARIABLE;
    out->target = TARGET_ALL;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetFanControlPolicy_v2, nvmlDevice_t device, unsigned fan, int *policy_out)
{
    NVML_ENTER(enter_fan(device, fan, policy_out, &gpu));
    *policy_out = is_fan_manual(gpu);
    return NVML_SUCCESS;
}

/* Sets the speed of a fan; 0: automatic. */
static int set_fan(nvmlDevice_t device, unsigned fan, unsigned percent)
{
    NVML_ENTER(enter_fan(device, fan, device, &gpu));
    LULL_DRIVER_CHECK(nvml_enter_root(device, &gpu));
    lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_FAN_PERCENT, percent);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceSetFanSpeed_v2, nvmlDevice_t device, unsigned fan, unsigned percent)
{
    NVML_ENTER(enter_fan(device, fan, device, &gpu));
    (void)gpu;
    if (percent < FAN_LEAST_PERCENT || percent > 100)
        return NVML_INVALID_ARGUMENT;
    return set_fan(device, fan, percent);
}

NVML_EXPORT(nvmlDeviceSetDefaultFanSpeed_v2, nvmlDevice_t device, unsigned fan)
{
    return set_fan(device, fan, 0);
}

NVML_EXPORT(nvmlDeviceSetFanControlPolicy, nvmlDevice_t device, unsigned fan, unsigned policy)
{
    NVML_ENTER(enter_fan(device, fan, device, &gpu));
    if (policy > 1)
        return NVML_INVALID_ARGUMENT;
    return set_fan(device, fan, policy == 0 ? 0 : fan_percent(gpu));
}
