/*
 * A library shows only GPUs of its vendor, so positions in its list and indices in the node differ.
 * The identity of a GPU follows from the node's seed and its index, so that every process and every
 * library names it alike without sharing anything more.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/driver.h"

#include <stdlib.h>
#include <unistd.h>

#include "emulator/noise.h"

/* Setting a power limit takes about 10 ms where locking clocks takes 4.5 ms. The 4.5 ms are
 * measured on a V100 (docs/measurements.md, V10); the 10 ms are from memory. */
static const double limit_api_factor = 2.2;

/* ---- the node ---- */

static void add_gpu(struct lull_driver *driver, uint32_t index)
{
    struct lull_driver_gpu *gpu = &driver->gpus[driver->gpu_count];

    *gpu = (struct lull_driver_gpu){
        .position = driver->gpu_count++,
        .index = index,
        .node = driver->node,
        .model = lull_node_begin(driver->node, index)->model,
    };
    lull_node_end(driver->node, index, false);
    gpu->identity[0] = lull_noise_mix(lull_node_seed(driver->node) ^ lull_noise_mix(index));
    gpu->identity[1] = lull_noise_mix(gpu->identity[0]);
}

static bool has_vendor(struct lull_node *node, uint32_t index, enum lull_gpu_vendor vendor)
{
    const bool is_ours = lull_node_begin(node, index)->model.vendor == (uint32_t)vendor;

    lull_node_end(node, index, false);
    return is_ours;
}

static bool open_locked(struct lull_driver *driver, enum lull_gpu_vendor vendor,
                        lull_driver_describe *describe)
{
    const char *path = getenv(LULL_NODE_VARIABLE);

    if (driver->node != NULL)
        return true;
    if (path == NULL || *path == '\0' || lull_node_open(path, &driver->node, NULL) < 0)
        return false;
    driver->gpu_count = 0;
    for (uint32_t i = 0; i < lull_node_gpu_count(driver->node); i++)
        if (has_vendor(driver->node, i, vendor))
            add_gpu(driver, i);
    for (uint32_t i = 0; i < driver->gpu_count && describe != NULL; i++)
        describe(i);
    if (driver->gpu_count > 0) {
        driver->was_opened = true;
        return true;
    }
    lull_node_close(driver->node);
    driver->node = NULL;
    return false;
}

bool lull_driver_open(struct lull_driver *driver, enum lull_gpu_vendor vendor,
                      lull_driver_describe *describe)
{
    bool is_open;

    pthread_mutex_lock(&driver->mutex);
    is_open = open_locked(driver, vendor, describe);
    if (is_open)
        driver->references++;
    pthread_mutex_unlock(&driver->mutex);
    return is_open;
}

void lull_driver_close(struct lull_driver *driver)
{
    pthread_mutex_lock(&driver->mutex);
    if (driver->references > 0 && --driver->references == 0) {
        lull_node_close(driver->node);
        driver->node = NULL;
    }
    pthread_mutex_unlock(&driver->mutex);
}

bool lull_driver_is_open(struct lull_driver *driver)
{
    bool is_open;

    pthread_mutex_lock(&driver->mutex);
    is_open = driver->references > 0;
    pthread_mutex_unlock(&driver->mutex);
    return is_open;
}

struct lull_driver_gpu *lull_driver_gpu_at(struct lull_driver *driver, uint32_t position)
{
    if (position < driver->gpu_count)
        return &driver->gpus[position];
    return NULL;
}

/* ---- faults and rights ---- */

static bool take(const struct lull_driver_gpu *gpu, enum lull_fault_kind kind)
{
    double ignored;

    return lull_node_take_fault(gpu->node, gpu->index, kind, &ignored);
}

bool lull_driver_has_get_fault(const struct lull_driver_gpu *gpu, int *code_out)
{
    double code;

    lull_node_hang(gpu->node, gpu->index, LULL_FAULT_READ_HANG_MS);
    if (!lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_GET_CODE, &code))
        return false;
    *code_out = (int)code;
    return true;
}

bool lull_driver_may_set(const struct lull_driver_gpu *gpu)
{
    if (take(gpu, LULL_FAULT_NO_PERMISSION))
        return false;
    return geteuid() == 0 || take(gpu, LULL_FAULT_ANY_USER);
}

bool lull_driver_has_energy(const struct lull_driver_gpu *gpu)
{
    return !take(gpu, LULL_FAULT_NO_ENERGY);
}

bool lull_driver_accepts_limit(const struct lull_driver_gpu *gpu, double limit_w)
{
    return limit_w >= gpu->model.limit_min_w && limit_w <= gpu->model.limit_max_w;
}

/* ---- set calls ---- */

static void apply_lock(struct lull_physics *physics, double settle_factor, const void *data)
{
    const struct lull_clock_setting *lock = data;
    struct lull_clock_setting setting = physics->asked;

    setting.is_locked = lock->is_locked;
    setting.min_step = lock->min_step;
    setting.max_step = lock->max_step;
    lull_physics_ask_clocks(physics, &setting, settle_factor);
}

static void apply_limit(struct lull_physics *physics, double settle_factor, const void *data)
{
    const double *limit_w = data;

    (void)settle_factor; /* a limit holds at once; what takes time is the limiter's own loop */
    lull_physics_set_limit(physics, *limit_w);
}

int lull_driver_lock(const struct lull_driver_gpu *gpu, uint32_t min_step, uint32_t max_step)
{
    const struct lull_clock_setting lock = {
        .is_locked = true, .min_step = min_step, .max_step = max_step};

    return lull_node_call(gpu->node, gpu->index, 1.0, apply_lock, &lock);
}

int lull_driver_unlock(const struct lull_driver_gpu *gpu)
{
    const struct lull_clock_setting unlocked = {.is_locked = false};

    return lull_node_call(gpu->node, gpu->index, 1.0, apply_lock, &unlocked);
}

int lull_driver_set_limit(const struct lull_driver_gpu *gpu, double limit_w)
{
    return lull_node_call(gpu->node, gpu->index, limit_api_factor, apply_limit, &limit_w);
}
