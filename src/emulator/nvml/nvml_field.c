/*
 * Reads field values. A field that has a getter has its value and its code.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_field.h"

#include <math.h>

enum {
    ARCHITECTURE_VOLTA = 5,
    ARCHITECTURE_AMPERE = 7,
    ARCHITECTURE_ADA = 8,
    ARCHITECTURE_HOPPER = 9,
    ARCHITECTURE_BLACKWELL = 10
};

/* ---- values ---- */

static int field_set_uint(struct nvml_field *field, unsigned value)
{
    field->type = NVML_VALUE_UINT;
    field->value.as_uint = value;
    return NVML_SUCCESS;
}

static int field_set_count(struct nvml_field *field, uint64_t value)
{
    field->type = NVML_VALUE_ULONGLONG;
    field->value.as_ulonglong = value;
    return NVML_SUCCESS;
}

static int field_set_double(struct nvml_field *field, double value)
{
    field->type = NVML_VALUE_DOUBLE;
    field->value.as_double = value;
    return NVML_SUCCESS;
}

/* ---- health ---- */

int nvml_field_ecc_mode(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    int modes[2];

    LULL_DRIVER_CHECK(nvmlDeviceGetEccMode(gpu, &modes[0], &modes[1]));
    return field_set_uint(field, (unsigned)modes[arguments[0]]);
}

int nvml_field_ecc_total(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    unsigned long long count;

    LULL_DRIVER_CHECK(nvmlDeviceGetTotalEccErrors(gpu, arguments[0], arguments[1], &count));
    return field_set_count(field, count);
}

static int read_location(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments,
                         int counter)
{
    unsigned long long count;

    LULL_DRIVER_CHECK(
        nvmlDeviceGetMemoryErrorCounter(gpu, arguments[0], counter, arguments[1], &count));
    return field_set_count(field, count);
}

int nvml_field_ecc_volatile(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    return read_location(gpu, field, arguments, 0);
}

int nvml_field_ecc_aggregate(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    return read_location(gpu, field, arguments, 1);
}

int nvml_field_retired_pages(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    unsigned count = 0;

    LULL_DRIVER_CHECK(nvmlDeviceGetRetiredPages(gpu, arguments[0], &count, NULL));
    return field_set_uint(field, count);
}

int nvml_field_retired_pending(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    int is_pending;

    (void)arguments;
    LULL_DRIVER_CHECK(nvmlDeviceGetRetiredPagesPendingStatus(gpu, &is_pending));
    return field_set_uint(field, (unsigned)is_pending);
}

int nvml_field_remapped_rows(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    unsigned rows[4];

    LULL_DRIVER_CHECK(nvmlDeviceGetRemappedRows(gpu, &rows[0], &rows[1], &rows[2], &rows[3]));
    return field_set_uint(field, rows[arguments[0]]);
}

int nvml_field_inactive_rows(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    struct nvml_remapped_rows rows;

    (void)arguments;
    LULL_DRIVER_CHECK(nvmlDeviceGetRemappedRows_v2(gpu, &rows));
    return field_set_uint(field, 0);
}

/* A reset of the GPU activates a remapped row. */
int nvml_field_recovery(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    enum { RECOVERY_NONE = 0, RECOVERY_RESET = 1 };
    const bool is_pending = lull_node_setting(gpu->node, gpu->index, LULL_NODE_ROW_PENDING) != 0;

    (void)arguments;
    return field_set_uint(field, is_pending ? RECOVERY_RESET : RECOVERY_NONE);
}

/* ---- NVLink ---- */

int nvml_field_link_errors(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    const unsigned link = field->id - (unsigned)arguments[1];
    unsigned long long count;

    LULL_DRIVER_CHECK(nvmlDeviceGetNvLinkErrorCounter(gpu, link, arguments[0], &count));
    return field_set_count(field, count);
}

int nvml_field_link_errors_total(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    unsigned long long sum = 0;

    if (gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    for (uint32_t link = 0; link < gpu->model.nvlink_count; link++) {
        unsigned long long count;

        LULL_DRIVER_CHECK(nvmlDeviceGetNvLinkErrorCounter(gpu, link, arguments[0], &count));
        sum += count;
    }
    return field_set_count(field, sum);
}

int nvml_field_scoped_link_errors(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    unsigned long long count;

    LULL_DRIVER_CHECK(nvmlDeviceGetNvLinkErrorCounter(gpu, field->scope, arguments[0], &count));
    return field_set_count(field, count);
}

/* The speed of a link in each direction, as nvidia-smi nvlink -s reports it. */
static unsigned link_mbps(const struct lull_gpu_model *model)
{
    switch (model->architecture) {
    case ARCHITECTURE_VOLTA:
        return 25781;
    case ARCHITECTURE_AMPERE:
        return 25000;
    case ARCHITECTURE_HOPPER:
        return 26562;
    default:
        return 53125;
    }
}

static int set_link_speed(nvmlDevice_t gpu, struct nvml_field *field, unsigned link)
{
    struct lull_link_end end;

    LULL_DRIVER_CHECK(nvml_enter_link_up(gpu, link, gpu, &end));
    return field_set_uint(field, link_mbps(&gpu->model));
}

int nvml_field_link_speed(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    return set_link_speed(gpu, field, field->id - (unsigned)arguments[1]);
}

int nvml_field_scoped_link_speed(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    return set_link_speed(gpu, field, field->scope);
}

int nvml_field_link_count(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    return field_set_uint(field, gpu->model.nvlink_count);
}

int nvml_field_switch_links(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    uint32_t count = 0;

    (void)arguments;
    if (gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    for (uint32_t link = 0; link < gpu->model.nvlink_count; link++)
        count += lull_topology_link(gpu->topology, gpu->index, link).kind == LULL_LINK_SWITCH;
    return field_set_uint(field, count);
}

int nvml_field_link_state(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    int state;

    (void)arguments;
    LULL_DRIVER_CHECK(nvmlDeviceGetNvLinkState(gpu, field->scope, &state));
    return field_set_uint(field, (unsigned)state);
}

int nvml_field_link_version(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    unsigned version;

    (void)arguments;
    LULL_DRIVER_CHECK(nvmlDeviceGetNvLinkVersion(gpu, field->scope, &version));
    return field_set_uint(field, version);
}

/* Bytes in one direction over the link that the scope names, or over all links. Those that are up
 * share them. */
static int read_scope_bytes(nvmlDevice_t gpu, const struct nvml_field *field, double *bytes_out)
{
    struct lull_link_end end;

    if (gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    *bytes_out = nvml_read_link_bytes(gpu, true);
    if (field->scope == UINT32_MAX)
        return NVML_SUCCESS;
    LULL_DRIVER_CHECK(nvml_enter_link_up(gpu, field->scope, gpu, &end));
    *bytes_out /= lull_topology_active_links(gpu->topology, gpu->index);
    return NVML_SUCCESS;
}

/* A packet of NVLink carries up to 256 bytes and has a header of 16 (from memory). */
enum { PACKET_BYTES = 256, HEADER_BYTES = 16 };

int nvml_field_link_kib(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    const double overhead = arguments[0] != 0 ? 1.0 + (double)HEADER_BYTES / PACKET_BYTES : 1.0;
    double bytes;

    LULL_DRIVER_CHECK(read_scope_bytes(gpu, field, &bytes));
    return field_set_count(field, (uint64_t)(bytes * overhead / 1024.0));
}

static int read_link_5_bytes(nvmlDevice_t gpu, const struct nvml_field *field, double *bytes_out)
{
    if (gpu->model.architecture < ARCHITECTURE_BLACKWELL)
        return NVML_NOT_SUPPORTED;
    return read_scope_bytes(gpu, field, bytes_out);
}

int nvml_field_link_bytes(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    double bytes;

    (void)arguments;
    LULL_DRIVER_CHECK(read_link_5_bytes(gpu, field, &bytes));
    return field_set_count(field, (uint64_t)bytes);
}

int nvml_field_link_packets(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    double bytes;

    (void)arguments;
    LULL_DRIVER_CHECK(read_link_5_bytes(gpu, field, &bytes));
    return field_set_count(field, (uint64_t)(bytes / PACKET_BYTES));
}

/* No link of the emulated node has errors. */
int nvml_field_link_5_errors(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    double bytes;

    (void)arguments;
    LULL_DRIVER_CHECK(read_link_5_bytes(gpu, field, &bytes));
    return field_set_count(field, 0);
}

int nvml_field_no_low_power(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    if (gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    return field_set_uint(field, 0);
}

/* Grace has 10 links to a GPU (from memory, of GH200). */
int nvml_field_c2c_links(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    return field_set_uint(field, nvml_has_memory_node(gpu) ? 10 : 0);
}

/* ---- PCIe: it has no errors ---- */

int nvml_field_pcie_replays(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    unsigned count;

    (void)arguments;
    LULL_DRIVER_CHECK(nvmlDeviceGetPcieReplayCounter(gpu, &count));
    return field_set_uint(field, count);
}

int nvml_field_none_on_pcie(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)gpu;
    (void)arguments;
    return field_set_uint(field, 0);
}

int nvml_field_pcie_bytes(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    return field_set_count(field, (uint64_t)nvml_read_link_bytes(gpu, false));
}

/* ---- partitions ---- */

int nvml_field_partitions(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    const bool needs_hopper = arguments[0] != 0;

    return field_set_uint(field,
                          nvml_has_partitions(gpu) &&
                              (!needs_hopper || gpu->model.architecture >= ARCHITECTURE_HOPPER));
}

/* ---- power and energy ---- */

static bool has_hbm(const struct lull_gpu_model *model)
{
    enum { LEAST_HBM_BITS = 1024 };

    return model->bus_bits >= LEAST_HBM_BITS;
}

/* Power of the memory is known on boards with HBM since Hopper. */
static int read_memory_power(nvmlDevice_t gpu, struct nvml_field *field)
{
    double memory_w;

    if (!has_hbm(&gpu->model) || gpu->model.architecture < ARCHITECTURE_HOPPER)
        return NVML_NOT_SUPPORTED;
    memory_w = lull_physics_memory_w(lull_node_begin(gpu->node, gpu->index));
    lull_node_end(gpu->node, gpu->index, false);
    return field_set_uint(field, nvml_power_mw_from_w(memory_w));
}

/* A reading of power covers one of these scopes. */
enum { SCOPE_GPU = 0, SCOPE_MODULE = 1, SCOPE_MEMORY = 2 };

/* Where power is that of the module, that of the GPU is unknown. */
int nvml_field_power(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    const bool is_average = arguments[0] != 0;
    bool is_of_module;
    unsigned mw;

    if (is_average && !gpu->model.power_is_average)
        return NVML_NOT_SUPPORTED;
    if (field->scope == SCOPE_MEMORY && !is_average)
        return NVML_NOT_SUPPORTED; /* as on all captured boards */
    if (field->scope == SCOPE_MEMORY)
        return read_memory_power(gpu, field);
    mw = nvml_read_power_mw(gpu, is_average, &is_of_module);
    if (field->scope != (is_of_module ? SCOPE_MODULE : SCOPE_GPU))
        return NVML_NOT_SUPPORTED;
    return field_set_uint(field, mw);
}

/* Only the GPU's limit is emulated; that of a module is N/A on real boards without a CPU too. */
int nvml_field_limit_range(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    if (field->scope != SCOPE_GPU)
        return NVML_NOT_SUPPORTED;
    return field_set_uint(field, nvml_power_mw_from_w(arguments[0] == 0 ? gpu->model.limit_min_w
                                                                        : gpu->model.limit_max_w));
}

int nvml_field_limit_default(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    if (field->scope != SCOPE_GPU)
        return NVML_NOT_SUPPORTED;
    return field_set_uint(field, nvml_power_mw_from_w(gpu->model.limit_default_w));
}

int nvml_field_limit(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    double limit_w;

    (void)arguments;
    if (field->scope != SCOPE_GPU)
        return NVML_NOT_SUPPORTED;
    limit_w = lull_node_begin(gpu->node, gpu->index)->limit_w;
    lull_node_end(gpu->node, gpu->index, false);
    return field_set_uint(field, nvml_power_mw_from_w(limit_w));
}

int nvml_field_energy(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    if (!lull_driver_has_energy(gpu->driver))
        return NVML_NOT_SUPPORTED;
    return field_set_count(field, lull_driver_energy_mj(gpu->driver));
}

/* ---- temperature ---- */

int nvml_field_temperature(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    const double celsius = lull_physics_temperature_c(lull_node_begin(gpu->node, gpu->index));

    (void)arguments;
    lull_node_end(gpu->node, gpu->index, false);
    return field_set_double(field, celsius);
}

int nvml_field_memory_temperature(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    double celsius;

    (void)arguments;
    if (!has_hbm(&gpu->model))
        return NVML_NOT_SUPPORTED;
    celsius = lull_physics_memory_temperature_c(lull_node_begin(gpu->node, gpu->index));
    lull_node_end(gpu->node, gpu->index, false);
    return field_set_uint(field, (unsigned)lround(celsius));
}

/* A threshold as the margin that is left there to the slowdown. */
int nvml_field_margin(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    enum { THRESHOLD_SLOWDOWN = 3 };
    unsigned threshold;
    unsigned slowdown;

    if (gpu->model.architecture < ARCHITECTURE_ADA)
        return NVML_NOT_SUPPORTED;
    LULL_DRIVER_CHECK(nvmlDeviceGetTemperatureThreshold(gpu, arguments[0], &threshold));
    LULL_DRIVER_CHECK(nvmlDeviceGetTemperatureThreshold(gpu, THRESHOLD_SLOWDOWN, &slowdown));
    field->type = NVML_VALUE_INT;
    field->value.as_int = (int32_t)slowdown - (int32_t)threshold;
    return NVML_SUCCESS;
}

/* HBM's margin is 0 on all captured boards. */
int nvml_field_memory_margin(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    if (gpu->model.architecture < ARCHITECTURE_ADA || !has_hbm(&gpu->model))
        return NVML_NOT_SUPPORTED;
    field->type = NVML_VALUE_INT;
    field->value.as_int = 0;
    return NVML_SUCCESS;
}

/* ---- reasons for a lowered clock ---- */

int nvml_field_violation(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    uint64_t ns;

    LULL_DRIVER_CHECK(nvml_read_violation(gpu, arguments[0], &ns));
    return field_set_count(field, ns);
}

int nvml_field_reason_ns(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    return field_set_count(field, nvml_reason_ns(gpu, (uint32_t)arguments[0]));
}

int nvml_field_memory_switch(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    (void)arguments;
    return field_set_uint(field, gpu->model.memory_lock == LULL_MEMORY_LOCK_DEFERRED ? 1 : 0);
}

/* ---- power smoothing ---- */

enum {
    SMOOTHING_ENABLED = 251,
    SMOOTHING_FLOOR_W = 255,
    SMOOTHING_MAX_FLOOR_PERCENT = 256,
    SMOOTHING_MIN_FLOOR_PERCENT = 257,
    SMOOTHING_PRESETS = 259,
    PRESET_FLOOR_PERCENT = 260,
    PRESET_RAMP_UP = 261,
    PRESET_RAMP_DOWN = 262,
    PRESET_HYSTERESIS = 263,
    SMOOTHING_ACTIVE_PRESET = 264,
};

static int set_preset_field(struct nvml_field *field,
                            const struct lull_physics_smoothing *smoothing)
{
    const struct lull_physics_preset *preset = &smoothing->presets[field->scope];

    switch (field->id) {
    case PRESET_FLOOR_PERCENT:
        return field_set_uint(field, (unsigned)lround(preset->floor_ratio * 100));
    case PRESET_RAMP_UP:
        return field_set_uint(field, (unsigned)lround(preset->ramp_up_w * 1e3));
    case PRESET_RAMP_DOWN:
        return field_set_uint(field, (unsigned)lround(preset->ramp_down_w * 1e3));
    default:
        return field_set_uint(field, (unsigned)lround(preset->hysteresis_s * 1e3));
    }
}

int nvml_field_smoothing(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments)
{
    const unsigned not_set = 0xffffffff;
    const struct lull_physics *physics;
    struct lull_physics_smoothing smoothing;
    double floor_w;

    (void)arguments;
    if (gpu->model.smoothing_floor_ratio <= 0)
        return NVML_NOT_SUPPORTED;
    physics = lull_node_begin(gpu->node, gpu->index);
    smoothing = physics->smoothing;
    floor_w = lull_physics_floor_w(physics);
    lull_node_end(gpu->node, gpu->index, false);
    switch (field->id) {
    case SMOOTHING_ENABLED:
        return field_set_uint(field, smoothing.is_enabled);
    case SMOOTHING_FLOOR_W:
        return field_set_uint(field, (unsigned)lround(floor_w));
    case SMOOTHING_MAX_FLOOR_PERCENT:
        return field_set_uint(field, (unsigned)lround(gpu->model.smoothing_floor_ratio * 100));
    case SMOOTHING_MIN_FLOOR_PERCENT:
        return field_set_uint(field, 0);
    case SMOOTHING_PRESETS:
        return field_set_uint(field, LULL_PHYSICS_PRESETS);
    case SMOOTHING_ACTIVE_PRESET:
        return field_set_uint(field, smoothing.active);
    case PRESET_FLOOR_PERCENT:
    case PRESET_RAMP_UP:
    case PRESET_RAMP_DOWN:
    case PRESET_HYSTERESIS:
        if (field->scope >= LULL_PHYSICS_PRESETS)
            return NVML_INVALID_ARGUMENT;
        return set_preset_field(field, &smoothing);
    default: /* what an administrator has overridden; no program can here */
        return field_set_uint(field, not_set);
    }
}

/* ---- all together ---- */

static int read_field(nvmlDevice_t gpu, struct nvml_field *field)
{
    for (uint32_t i = 0; i < lull_nvml_field_row_count; i++) {
        const struct lull_nvml_field_row *row = &lull_nvml_field_rows[i];

        if (field->id < row->first || field->id > row->last)
            continue;
        if (lull_node_release(gpu->node)->branch < row->branch)
            return NVML_NOT_SUPPORTED;
        return row->read(gpu, field, row->arguments);
    }
    return NVML_NOT_SUPPORTED;
}

NVML_EXPORT(nvmlDeviceGetFieldValues, nvmlDevice_t device, int count, struct nvml_field *fields)
{
    NVML_ENTER(nvml_enter_reading(device, fields, &gpu));
    (void)gpu;
    if (count < 1)
        return NVML_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        fields[i].time_us = nvml_time_us();
        fields[i].type = NVML_VALUE_UINT;
        fields[i].value.as_ulonglong = 0;
        fields[i].code = read_field(device, &fields[i]);
        fields[i].latency_us = nvml_time_us() - fields[i].time_us;
    }
    return NVML_SUCCESS;
}
