/*
 * Reads and limits clocks, and sets the performance level, which undoes limits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "emulator/amdsmi/amdsmi_library.h"

enum {
    CLOCK_GFX = 0,
    CLOCK_MEMORY = 4,
    LIMIT_MIN = 0,
    LIMIT_MAX = 1,
    LEVEL_AUTO = 0,
    LEVEL_MANUAL = 3,
};

/* The range of steps that is allowed at present. */
static void read_limits(const struct lull_physics *physics, uint32_t *min_out, uint32_t *max_out)
{
    const bool is_locked = physics->asked.is_locked;

    *min_out = is_locked ? physics->asked.min_step : 0;
    *max_out = is_locked ? physics->asked.max_step : lull_gpu_model_step_count(&physics->model) - 1;
}

/* AMD SMI reports the allowed range of the graphics clock, not the possible range. */
static struct amdsmi_clk read_graphics(const struct lull_physics *physics)
{
    uint32_t min;
    uint32_t max;

    read_limits(physics, &min, &max);
    return (struct amdsmi_clk){
        .clk = lull_physics_published_mhz(physics),
        .min_clk = (uint32_t)lull_gpu_model_step_mhz(&physics->model, min),
        .max_clk = (uint32_t)lull_gpu_model_step_mhz(&physics->model, max),
        .locked = physics->asked.is_locked,
    };
}

/* The limit of the memory clock is reported, but does not affect the physics. */
static struct amdsmi_clk amdsmi_clock_read_memory(const struct lull_driver_gpu *gpu)
{
    const uint32_t limit_mhz = lull_node_setting(gpu->node, gpu->index, LULL_NODE_MEMORY_LIMIT_MHZ);
    const uint32_t mhz = limit_mhz != 0 ? limit_mhz : gpu->model.memory_clocks_mhz[0];

    return (struct amdsmi_clk){.clk = mhz, .min_clk = mhz, .max_clk = mhz};
}

AMDSMI_EXPORT(amdsmi_get_clock_info, void *handle, int clock, struct amdsmi_clk *info)
{
    AMDSMI_ENTER(amdsmi_enter(handle, info, &gpu));
    if (clock != CLOCK_GFX && clock != CLOCK_MEMORY)
        return AMDSMI_UNSUPPORTED;
    *info = amdsmi_clock_read_memory(gpu);
    if (clock == CLOCK_GFX) {
        *info = read_graphics(lull_node_begin(gpu->node, gpu->index));
        lull_node_end(gpu->node, gpu->index, false);
    }
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_gpu_od_volt_info, void *handle, void *info)
{
    struct amdsmi_freq_range range;

    AMDSMI_ENTER(amdsmi_enter(handle, info, &gpu));
    range = (struct amdsmi_freq_range){
        (uint64_t)gpu->model.sm_min_mhz * 1000000, (uint64_t)gpu->model.sm_max_mhz * 1000000, {0}};
    if (amdsmi_abi() < 27)
        memcpy(info, &(struct amdsmi_od){.current_sclk = range}, sizeof(struct amdsmi_od));
    else /* the data fabric has a wider range, which a client must not mistake for the clock's */
        memcpy(info,
               &(struct amdsmi_od_27){.current_sclk = range,
                                      .current_fclk = {1, 9000000000, {0}},
                                      .sclk_limits = range},
               sizeof(struct amdsmi_od_27));
    return AMDSMI_OK;
}

/* A list of clocks as the driver's files have it: the two ends of the range and the present clock.
 */
struct frequencies {
    bool has_deep_sleep;
    uint32_t count;
    uint32_t current;
    uint64_t hz[33];
};

AMDSMI_EXPORT(amdsmi_get_clk_freq, void *handle, int clock, void *frequencies_out)
{
    struct frequencies frequencies = {.count = 3, .current = 1};

    AMDSMI_ENTER(amdsmi_enter(handle, frequencies_out, &gpu));
    if (clock == CLOCK_GFX) {
        const uint32_t now_mhz = lull_physics_published_mhz(lull_node_begin(gpu->node, gpu->index));

        lull_node_end(gpu->node, gpu->index, false);
        frequencies.hz[0] = (uint64_t)gpu->model.sm_min_mhz * 1000000;
        frequencies.hz[1] = (uint64_t)now_mhz * 1000000;
        frequencies.hz[2] = (uint64_t)gpu->model.sm_max_mhz * 1000000;
    } else if (clock == CLOCK_MEMORY) {
        frequencies.count = 1;
        frequencies.current = 0;
        frequencies.hz[0] = (uint64_t)amdsmi_clock_read_memory(gpu).clk * 1000000;
    } else {
        return AMDSMI_UNSUPPORTED;
    }
    memcpy(frequencies_out, &frequencies, sizeof(frequencies));
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_gpu_perf_level, void *handle, int *level_out)
{
    AMDSMI_ENTER(amdsmi_enter(handle, level_out, &gpu));
    *level_out =
        lull_node_begin(gpu->node, gpu->index)->asked.is_locked ? LEVEL_MANUAL : LEVEL_AUTO;
    lull_node_end(gpu->node, gpu->index, false);
    return AMDSMI_OK;
}

static int limit_memory(const struct lull_driver_gpu *gpu, uint64_t mhz)
{
    if (mhz == 0 || mhz > gpu->model.memory_clocks_mhz[0])
        return AMDSMI_INVAL;
    return lull_driver_limit_memory(gpu, (uint32_t)mhz);
}

AMDSMI_EXPORT(amdsmi_set_gpu_clk_limit, void *handle, int clock, int limit, uint64_t mhz)
{
    uint32_t min;
    uint32_t max;

    AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));
    if (clock == CLOCK_MEMORY && limit == LIMIT_MAX)
        return limit_memory(gpu, mhz);
    if (clock != CLOCK_GFX || (limit != LIMIT_MIN && limit != LIMIT_MAX))
        return AMDSMI_UNSUPPORTED;
    if ((double)mhz < gpu->model.sm_min_mhz || (double)mhz > gpu->model.sm_max_mhz)
        return AMDSMI_INVAL;
    read_limits(lull_node_begin(gpu->node, gpu->index), &min, &max);
    lull_node_end(gpu->node, gpu->index, false);
    *(limit == LIMIT_MIN ? &min : &max) = lull_gpu_model_nearest_step(&gpu->model, (double)mhz);
    if (min > max)
        return AMDSMI_INVAL;
    return lull_driver_lock(gpu, min, max);
}

AMDSMI_EXPORT(amdsmi_set_gpu_perf_level, void *handle, int level)
{
    AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));
    if (level == LEVEL_MANUAL)
        return AMDSMI_OK;
    if (level == LEVEL_AUTO) {
        const int code = lull_driver_unlock(gpu);

        if (code == AMDSMI_OK)
            lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_MEMORY_LIMIT_MHZ, 0);
        return code;
    }
    return AMDSMI_UNSUPPORTED;
}

/* Limits the upper end of the range and leaves the lower end free. */
AMDSMI_EXPORT(amdsmi_set_gpu_perf_determinism_mode, void *handle, uint64_t mhz)
{
    AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));
    if ((double)mhz < gpu->model.sm_min_mhz || (double)mhz > gpu->model.sm_max_mhz)
        return AMDSMI_INVAL;
    return lull_driver_lock(gpu, 0, lull_gpu_model_nearest_step(&gpu->model, (double)mhz));
}

#if LULL_AMDSMI_MAJOR < 27 /* version 27 removed it */
AMDSMI_EXPORT(amdsmi_set_gpu_clk_range, void *handle, uint64_t low_mhz, uint64_t high_mhz,
              int clock)
{
    AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));
    if (clock != CLOCK_GFX)
        return AMDSMI_UNSUPPORTED;
    if (low_mhz > high_mhz || (double)low_mhz < gpu->model.sm_min_mhz ||
        (double)high_mhz > gpu->model.sm_max_mhz)
        return AMDSMI_INVAL;
    return lull_driver_lock(gpu, lull_gpu_model_nearest_step(&gpu->model, (double)low_mhz),
                            lull_gpu_model_nearest_step(&gpu->model, (double)high_mhz));
}
#endif
