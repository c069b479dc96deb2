/*
 * Reads, lists and locks the clocks of the emulated GPUs. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "emulator/nvml/nvml_library.h"

/* These calls take 2.7 ms where locks take 4.5 ms, from memory: only locks were measured (V100). */
static const double application_api_factor = 0.6;

/* ---- reading ---- */

static int nvml_clock_read(const struct lull_physics *physics, int type, unsigned *mhz_out)
{
    switch (type) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM:
        *mhz_out = lull_physics_published_mhz(physics);
        return NVML_SUCCESS;
    case NVML_CLOCK_MEMORY:
        *mhz_out = lull_physics_memory_mhz(physics);
        return NVML_SUCCESS;
    case NVML_CLOCK_VIDEO:
        *mhz_out = (unsigned)lull_gpu_model_video_mhz(&physics->model,
                                                      lull_physics_published_mhz(physics));
        return NVML_SUCCESS;
    default:
        return NVML_INVALID_ARGUMENT;
    }
}

NVML_EXPORT(nvmlDeviceGetClockInfo, nvmlDevice_t device, int type, unsigned *mhz_out)
{
    int code;

    NVML_ENTER(nvml_enter_reading(device, mhz_out, &gpu));
    code = nvml_clock_read(lull_node_begin(gpu->node, gpu->index), type, mhz_out);
    lull_node_end(gpu->node, gpu->index, false);
    return code;
}

static int highest_clock(const struct lull_nvml_gpu *gpu, int type, unsigned *mhz_out)
{
    const unsigned sm_mhz = (unsigned)gpu->model.sm_max_mhz;
    const unsigned clocks[] = {sm_mhz, sm_mhz, gpu->model.memory_clocks_mhz[0],
                               (unsigned)gpu->model.video_max_mhz};

    if (type < 0 || type > NVML_CLOCK_VIDEO)
        return NVML_INVALID_ARGUMENT;
    *mhz_out = clocks[type];
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetMaxClockInfo, nvmlDevice_t device, int type, unsigned *mhz_out)
{
    NVML_ENTER(nvml_enter(device, mhz_out, &gpu));
    return highest_clock(gpu, type, mhz_out);
}

/* Boards for desktops have no application clocks. */
NVML_EXPORT(nvmlDeviceGetMaxCustomerBoostClock, nvmlDevice_t device, int type, unsigned *mhz_out)
{
    NVML_ENTER(nvml_enter(device, mhz_out, &gpu));
    if (nvml_is_geforce(gpu))
        return NVML_NOT_SUPPORTED;
    return highest_clock(gpu, type, mhz_out);
}

NVML_ALIAS(nvmlDeviceGetDefaultApplicationsClock, nvmlDeviceGetMaxCustomerBoostClock);

NVML_EXPORT(nvmlDeviceGetApplicationsClock, nvmlDevice_t device, int type, unsigned *mhz_out)
{
    int code;

    NVML_ENTER(nvml_enter_reading(device, mhz_out, &gpu));
    if (nvml_is_geforce(gpu))
        return NVML_NOT_SUPPORTED;
    code = highest_clock(gpu, type, mhz_out);
    if (code == NVML_SUCCESS && (type == NVML_CLOCK_GRAPHICS || type == NVML_CLOCK_SM)) {
        const struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);

        if (physics->asked.has_application_step)
            *mhz_out =
                (unsigned)lull_gpu_model_step_mhz(&gpu->model, physics->asked.application_step);
        lull_node_end(gpu->node, gpu->index, false);
    }
    return code;
}

NVML_EXPORT(nvmlDeviceGetClock, nvmlDevice_t device, int type, int id, unsigned *mhz_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    switch (id) {
    case 0:
        return nvmlDeviceGetClockInfo(device, type, mhz_out);
    case 1:
        return nvmlDeviceGetApplicationsClock(device, type, mhz_out);
    case NVML_CLOCK_ID_APPLICATION_DEFAULT:
    case 3:
        return nvmlDeviceGetMaxCustomerBoostClock(device, type, mhz_out);
    default:
        return NVML_INVALID_ARGUMENT;
    }
}

NVML_EXPORT(nvmlDeviceGetMinMaxClockOfPState, nvmlDevice_t device, int type, int pstate,
            unsigned *min_out, unsigned *max_out)
{
    int code;

    NVML_ENTER(nvml_enter(device, min_out, &gpu));
    if (max_out == NULL || pstate != 0)
        return max_out == NULL ? NVML_INVALID_ARGUMENT : NVML_NOT_SUPPORTED;
    code = highest_clock(gpu, type, max_out);
    if (code == NVML_SUCCESS)
        *min_out = type == NVML_CLOCK_MEMORY ? *max_out : (unsigned)gpu->model.sm_min_mhz;
    return code;
}

/* ---- performance states: P8 only on boards that lower their memory clock when idle ---- */

static int performance_state(const struct lull_physics *physics)
{
    if (physics->context_count == 0 && physics->model.memory_clock_count > 1)
        return 8;
    return 0;
}

NVML_GET_READING(nvmlDeviceGetPerformanceState, int, performance_state(physics))
NVML_GET_READING(nvmlDeviceGetPowerState, int, performance_state(physics))

NVML_EXPORT(nvmlDeviceGetSupportedPerformanceStates, nvmlDevice_t device, int *states,
            unsigned size_bytes)
{
    int known[] = {0, NVML_PSTATE_UNKNOWN};

    NVML_ENTER(nvml_enter(device, states, &gpu));
    if (size_bytes < sizeof(known))
        return NVML_INSUFFICIENT_SIZE;
    if (gpu->model.memory_clock_count > 1)
        known[1] = 8;
    for (unsigned i = 0; i < size_bytes / sizeof(int); i++)
        states[i] = i < 2 ? known[i] : NVML_PSTATE_UNKNOWN;
    return NVML_SUCCESS;
}

/* ---- lists ---- */

NVML_EXPORT(nvmlDeviceGetSupportedMemoryClocks, nvmlDevice_t device, unsigned *count,
            unsigned *clocks)
{
    NVML_ENTER(nvml_enter(device, count, &gpu));
    return nvml_copy_list(gpu->model.memory_clocks_mhz, gpu->model.memory_clock_count,
                          sizeof(unsigned), count, clocks);
}

static int is_memory_clock(const struct lull_gpu_model *model, unsigned mhz)
{
    for (uint32_t i = 0; i < model->memory_clock_count; i++)
        if (model->memory_clocks_mhz[i] == mhz)
            return 1;
    return 0;
}

NVML_EXPORT(nvmlDeviceGetSupportedGraphicsClocks, nvmlDevice_t device, unsigned memory_clock,
            unsigned *count, unsigned *clocks)
{
    enum { max_clocks = 512 };
    unsigned list[max_clocks];
    uint32_t steps;

    NVML_ENTER(nvml_enter(device, count, &gpu));
    if (!is_memory_clock(&gpu->model, memory_clock))
        return NVML_NOT_FOUND;
    steps = lull_gpu_model_step_count(&gpu->model);
    if (steps > max_clocks)
        steps = max_clocks;
    for (uint32_t i = 0; i < steps; i++)
        list[i] = (unsigned)floor(lull_gpu_model_step_mhz(&gpu->model, steps - 1 - i));
    return nvml_copy_list(list, steps, sizeof(list[0]), count, clocks);
}

/* ---- locking ---- */

static void apply_application(struct lull_physics *physics, double settle_factor, const void *data)
{
    const struct lull_clock_setting *application = data;
    struct lull_clock_setting setting = physics->asked;

    setting.has_application_step = application->has_application_step;
    setting.application_step = application->application_step;
    lull_physics_ask_clocks(physics, &setting, settle_factor);
}

static int is_symbolic(unsigned mhz)
{
    return mhz == NVML_CLOCK_LIMIT_TDP || mhz == NVML_CLOCK_LIMIT_UNLIMITED;
}

/* Reads a pair of symbolic values. These GPUs do not boost beyond the TDP clock, so it is the
 * highest. */
static void read_symbolic(const struct lull_nvml_gpu *gpu, unsigned min, unsigned max,
                          struct lull_clock_setting *lock)
{
    const uint32_t top = lull_gpu_model_step_count(&gpu->model) - 1;

    lock->is_locked = min == NVML_CLOCK_LIMIT_TDP || max == NVML_CLOCK_LIMIT_TDP;
    lock->min_step = min == NVML_CLOCK_LIMIT_TDP ? top : 0;
    lock->max_step = top;
}

NVML_EXPORT(nvmlDeviceSetGpuLockedClocks, nvmlDevice_t device, unsigned min_mhz, unsigned max_mhz)
{
    struct lull_clock_setting lock = {.is_locked = true};

    NVML_ENTER(nvml_enter_root(device, &gpu));
    if (is_symbolic(min_mhz) != is_symbolic(max_mhz) ||
        (!is_symbolic(min_mhz) && min_mhz > max_mhz))
        return NVML_INVALID_ARGUMENT;
    if (is_symbolic(min_mhz)) {
        read_symbolic(gpu, min_mhz, max_mhz, &lock);
    } else {
        lock.min_step = lull_gpu_model_nearest_step(&gpu->model, min_mhz);
        lock.max_step = lull_gpu_model_nearest_step(&gpu->model, max_mhz);
    }
    if (lock.is_locked)
        return lull_driver_lock(gpu->driver, lock.min_step, lock.max_step);
    return lull_driver_unlock(gpu->driver);
}

NVML_EXPORT(nvmlDeviceResetGpuLockedClocks, nvmlDevice_t device)
{
    NVML_ENTER(nvml_enter_root(device, &gpu));
    return lull_driver_unlock(gpu->driver);
}

/* Root can open these two calls to all users. */
static int enter_application(nvmlDevice_t device, const struct lull_nvml_gpu **gpu_out)
{
    LULL_DRIVER_CHECK(nvml_enter(device, device, gpu_out));
    if (nvml_is_geforce(*gpu_out))
        return NVML_NOT_SUPPORTED;
    if (nvml_is_call_open(*gpu_out, NVML_API_APPLICATION_CLOCKS))
        return NVML_SUCCESS;
    return nvml_enter_root(device, gpu_out);
}

NVML_EXPORT(nvmlDeviceSetApplicationsClocks, nvmlDevice_t device, unsigned memory_clock,
            unsigned graphics_clock)
{
    struct lull_clock_setting application = {.has_application_step = true};

    NVML_ENTER(enter_application(device, &gpu));
    application.application_step = lull_gpu_model_nearest_step(&gpu->model, graphics_clock);
    if (!is_memory_clock(&gpu->model, memory_clock) ||
        floor(lull_gpu_model_step_mhz(&gpu->model, application.application_step)) != graphics_clock)
        return NVML_INVALID_ARGUMENT;
    return lull_node_call(gpu->node, gpu->index, application_api_factor, apply_application,
                          &application);
}

NVML_EXPORT(nvmlDeviceResetApplicationsClocks, nvmlDevice_t device)
{
    const struct lull_clock_setting none = {.has_application_step = false};

    NVML_ENTER(enter_application(device, &gpu));
    return lull_node_call(gpu->node, gpu->index, application_api_factor, apply_application, &none);
}

/* ---- memory clocks: locks have no effect, because none has been measured ---- */

/* A deferred lock succeeds and would take effect at a driver reload; live ones are not emulated. */
NVML_EXPORT(nvmlDeviceSetMemoryLockedClocks, nvmlDevice_t device, unsigned min_mhz,
            unsigned max_mhz)
{
    NVML_ENTER(nvml_enter_root(device, &gpu));
    if (gpu->model.memory_lock != LULL_MEMORY_LOCK_DEFERRED)
        return NVML_NOT_SUPPORTED;
    if (min_mhz > max_mhz)
        return NVML_INVALID_ARGUMENT;
    return lull_driver_limit_memory(gpu->driver, max_mhz);
}

NVML_EXPORT(nvmlDeviceResetMemoryLockedClocks, nvmlDevice_t device)
{
    return nvmlDeviceSetMemoryLockedClocks(device, 0, 0);
}
