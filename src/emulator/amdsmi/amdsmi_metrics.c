/*
 * The table of all metrics, counters of activity and of errors, and the texts of codes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "emulator/amdsmi/amdsmi_library.h"

/* ---- the table of metrics ---- */

struct metrics_header {
    uint16_t size;
    uint8_t format, content;
};

#define XCP_FIELDS                                                                                 \
    uint32_t gfx_busy[8];                                                                          \
    uint16_t jpeg_busy[40], vcn_busy[4];                                                           \
    uint64_t gfx_counts[6][8];

struct xcp_26 {
    XCP_FIELDS
};

struct xcp_27 {
    XCP_FIELDS
    uint16_t temperature_xcd[8];
};

/* Version 27 has wider counters and more fields. */
#define METRICS_FIELDS(counter, xcp)                                                               \
    struct metrics_header header;                                                                  \
    uint16_t edge_c, hotspot_c, memory_c, vr_c[3];                                                 \
    uint16_t gfx_percent, umc_percent, mm_percent;                                                 \
    uint16_t average_w;                                                                            \
    uint64_t energy, clock_ns;                                                                     \
    uint16_t average_mhz[7];                                                                       \
    uint16_t gfx_mhz, soc_mhz, memory_mhz, video_mhz[4];                                           \
    uint32_t throttle;                                                                             \
    uint16_t fan, pcie_width, pcie_speed;                                                          \
    counter gfx_activity, memory_activity;                                                         \
    uint16_t hbm_c[4];                                                                             \
    uint64_t firmware_time;                                                                        \
    uint16_t voltages[3];                                                                          \
    uint64_t throttle_bits;                                                                        \
    uint16_t now_w, vcn_percent[4];                                                                \
    uint32_t is_locked;                                                                            \
    uint16_t xgmi_width, xgmi_speed;                                                               \
    uint64_t pcie_counts[5], xgmi_read[8], xgmi_write[8];                                          \
    uint16_t gfx_clocks[8], soc_clocks[4], video_clocks[8], jpeg_percent[32];                      \
    counter naks[2];                                                                               \
    uint64_t residencies[6];                                                                       \
    uint16_t partitions;                                                                           \
    struct xcp xcps[8];                                                                            \
    counter recoveries;                                                                            \
    uint64_t bandwidth_gbs;                                                                        \
    uint16_t xgmi_status[8];

struct metrics_26 {
    METRICS_FIELDS(uint32_t, xcp_26)
};

struct metrics_27 {
    METRICS_FIELDS(uint64_t, xcp_27)
    uint16_t stack_c[12], mid_c[2], aid_c[2], aid_mhz[2], mid_mhz[2];
    void *apu;
};

_Static_assert(sizeof(struct metrics_26) == 4544, "amdsmi_gpu_metrics_t of 26.0");

static struct metrics_header metrics_header(void)
{
    if (amdsmi_abi() < 27)
        return (struct metrics_header){sizeof(struct metrics_26), 1, 8};
    return (struct metrics_header){sizeof(struct metrics_27), 1, 8};
}

/* Reads the metrics in the layout of 26. A field that is not modelled is all ones. */
static struct metrics_26 read_metrics(const struct lull_driver_gpu *gpu)
{
    const uint16_t watts =
        (uint16_t)((lull_driver_spoil_power_mw(gpu, (uint32_t)amdsmi_read_drawn(gpu).power_mw) +
                    500) /
                   1000);
    const struct lull_physics *physics;
    struct metrics_26 metrics;

    memset(&metrics, 0xff, sizeof(metrics));
    metrics.header = metrics_header();
    *(gpu->model.dies_per_module == 2 ? &metrics.average_w : &metrics.now_w) = watts;
    metrics.energy = lull_driver_has_energy(gpu) ? amdsmi_energy_count(gpu) : UINT64_MAX;
    physics = lull_node_begin(gpu->node, gpu->index);
    metrics.hotspot_c = (uint16_t)llround(lull_physics_temperature_c(physics));
    metrics.gfx_percent = (uint16_t)physics->utilization_percent;
    metrics.gfx_mhz = (uint16_t)lull_physics_published_mhz(physics);
    metrics.is_locked = physics->asked.is_locked;
    lull_node_end(gpu->node, gpu->index, false);
    metrics.clock_ns = (uint64_t)lull_node_now_ns(gpu->node);
    for (uint32_t i = 0; i < 8; i++)
        metrics.gfx_clocks[i] = metrics.gfx_mhz;
    metrics.memory_mhz = (uint16_t)gpu->model.memory_clocks_mhz[0];
    metrics.partitions = 1;
    metrics.bandwidth_gbs = (uint64_t)llround(gpu->model.bandwidth_gbs);
    return metrics;
}

AMDSMI_EXPORT(amdsmi_get_gpu_metrics_info, void *handle, void *out)
{
    struct metrics_26 metrics;
    struct metrics_27 wide;

    AMDSMI_ENTER(amdsmi_enter(handle, out, &gpu));
    if (amdsmi_abi() < 26)
        return AMDSMI_UNSUPPORTED;
    metrics = read_metrics(gpu);
    if (amdsmi_abi() == 26) {
        memcpy(out, &metrics, sizeof(metrics));
        return AMDSMI_OK;
    }
    memset(&wide, 0xff, sizeof(wide));
    /* The layouts are the same up to the first of the wider counters. */
    memcpy(&wide, &metrics, offsetof(struct metrics_26, gfx_activity));
    wide.now_w = metrics.now_w;
    wide.is_locked = metrics.is_locked;
    memcpy(wide.gfx_clocks, metrics.gfx_clocks, sizeof(wide.gfx_clocks));
    wide.partitions = metrics.partitions;
    wide.bandwidth_gbs = metrics.bandwidth_gbs;
    wide.apu = NULL;
    memcpy(out, &wide, sizeof(wide));
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_gpu_metrics_header_info, void *handle, struct metrics_header *header)
{
    AMDSMI_ENTER(amdsmi_enter(handle, header, &gpu));
    *header = metrics_header();
    return AMDSMI_OK;
}

/* ---- counters ---- */

AMDSMI_EXPORT(amdsmi_get_gpu_busy_percent, void *handle, uint32_t *percent_out)
{
    AMDSMI_ENTER(amdsmi_enter(handle, percent_out, &gpu));
    *percent_out = lull_node_begin(gpu->node, gpu->index)->utilization_percent;
    lull_node_end(gpu->node, gpu->index, false);
    return AMDSMI_OK;
}

struct ecc_counts {
    uint64_t correctable, uncorrectable, deferred, reserved[5];
};

/* The emulated memory has no errors. */
AMDSMI_EXPORT(amdsmi_get_gpu_total_ecc_count, void *handle, struct ecc_counts *counts)
{
    AMDSMI_ENTER(amdsmi_enter(handle, counts, &gpu));
    *counts = (struct ecc_counts){0};
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_gpu_ecc_count, void *handle, uint64_t block, struct ecc_counts *counts)
{
    const uint64_t memory = 1;

    AMDSMI_ENTER(amdsmi_enter(handle, counts, &gpu));
    if (block != memory)
        return AMDSMI_UNSUPPORTED;
    *counts = (struct ecc_counts){0};
    return AMDSMI_OK;
}

/* ---- texts ---- */

AMDSMI_EXPORT(amdsmi_status_code_to_string, int code, const char **text_out)
{
    static const struct {
        int code;
        const char *text;
    } texts[] = {
        {AMDSMI_OK, "AMDSMI_STATUS_SUCCESS - Call succeeded"},
        {AMDSMI_INVAL, "AMDSMI_STATUS_INVAL - Invalid parameters"},
        {AMDSMI_UNSUPPORTED, "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"},
        {AMDSMI_NO_PERM, "AMDSMI_STATUS_NO_PERM - Permission denied"},
        {AMDSMI_OUT_OF_BOUNDS, "AMDSMI_STATUS_INPUT_OUT_OF_BOUNDS - Input out of bounds"},
        {AMDSMI_BUSY, "AMDSMI_STATUS_BUSY - Device busy"},
        {AMDSMI_NOT_FOUND, "AMDSMI_STATUS_NOT_FOUND - Device not found"},
        {AMDSMI_NOT_INIT, "AMDSMI_STATUS_NOT_INIT - Device not initialized"},
        {AMDSMI_NOT_LOADED, "AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded"},
        {AMDSMI_SMALL, "AMDSMI_STATUS_INSUFFICIENT_SIZE - Insufficient size for operation"},
    };

    if (text_out == NULL)
        return AMDSMI_INVAL;
    *text_out = "AMDSMI_STATUS_UNKNOWN_ERROR - An unknown error occurred";
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].code == code)
            *text_out = texts[i].text;
    return AMDSMI_OK;
}
