/*
 * A library shows only GPUs of its vendor, so positions in its list and indices in the node differ.
 * The identity of a GPU follows from the node's seed and its index, so that every process and every
 * library names it alike without sharing anything more.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "emulator/noise.h"

/* LULL_EMULATED_LIBRARY_MARK: the vendors' version scripts export it. */
extern const char lull_emulated_library;
const char lull_emulated_library = 1;

/* Setting a power limit takes about 10 ms where locking clocks takes 4.5 ms. The 4.5 ms are
 * measured on a V100 (docs/research/measurements/emulated-node.md, V10); the 10 ms are from memory.
 */
static const double limit_api_factor = 2.2;

/* ---- the node ---- */

void lull_driver_identify(struct lull_node *node, uint32_t index, uint64_t identity_out[2])
{
    identity_out[0] = lull_noise_mix(lull_node_seed(node) ^ lull_noise_mix(index));
    identity_out[1] = lull_noise_mix(identity_out[0]);
}

void lull_driver_write_uuid(const uint64_t identity[2], char uuid_out[LULL_DRIVER_UUID_BYTES])
{
    const uint64_t high = identity[0];
    const uint64_t low = identity[1];

    snprintf(uuid_out, LULL_DRIVER_UUID_BYTES, "GPU-%08x-%04x-%04x-%04x-%04x%08x",
             (unsigned)(high >> 32), (unsigned)(high >> 16) & 0xffff, (unsigned)high & 0xffff,
             (unsigned)(low >> 48), (unsigned)(low >> 32) & 0xffff, (unsigned)low);
}

/* The identity of the first GPU on the same board. */
static uint64_t identify_board(struct lull_node *node, uint32_t index)
{
    const struct lull_gpu_place *const places = lull_node_topology(node)->places;
    uint64_t identity[2];
    uint32_t first = index;

    while (first > 0 && places[first].slot.module > 0 &&
           places[first - 1].slot.board == places[index].slot.board)
        first--;
    lull_driver_identify(node, first, identity);
    return identity[0];
}

static void emulated_driver_add_gpu(struct lull_driver *driver, uint32_t index)
{
    struct lull_driver_gpu *gpu = &driver->gpus[driver->gpu_count];

    *gpu = (struct lull_driver_gpu){
        .position = driver->gpu_count++,
        .index = index,
        .node = driver->node,
        .model = lull_node_begin(driver->node, index)->model,
    };
    lull_node_end(driver->node, index, false);
    lull_driver_identify(driver->node, index, gpu->identity);
    gpu->board = identify_board(driver->node, index);
}

static bool has_vendor(struct lull_node *node, uint32_t index, enum lull_gpu_vendor vendor)
{
    const bool is_ours = lull_node_begin(node, index)->model.vendor == (uint32_t)vendor;

    lull_node_end(node, index, false);
    return is_ours;
}

/* A node that was removed is gone for clients too, although this process still maps it. */
static bool is_current(const struct lull_driver *driver, const char *path)
{
    return driver->node != NULL && strcmp(lull_node_path(driver->node), path) == 0 &&
           access(path, F_OK) == 0;
}

/*
 * Nodes stay mapped after the last close, because another thread may still be in a call
 * that began before it. A node that is replaced by another one is kept and never unmapped.
 */
static void set_aside(struct lull_driver *driver)
{
    struct lull_driver_past *past;

    if (driver->node == NULL)
        return;
    past = malloc(sizeof(*past));
    if (past != NULL)
        *past = (struct lull_driver_past){driver->node, driver->past};
    driver->past = past != NULL ? past : driver->past;
    driver->node = NULL;
}

static bool emulated_driver_map_node(struct lull_driver *driver, const char *path,
                                     enum lull_gpu_vendor vendor, lull_driver_describe *describe)
{
    set_aside(driver);
    if (lull_node_open(path, &driver->node, NULL) < 0)
        return false;
    driver->gpu_count = 0;
    for (uint32_t i = 0; i < lull_node_gpu_count(driver->node); i++)
        if (has_vendor(driver->node, i, vendor))
            emulated_driver_add_gpu(driver, i);
    for (uint32_t i = 0; i < driver->gpu_count && describe != NULL; i++)
        describe(i);
    if (driver->gpu_count > 0)
        return true;
    lull_node_close(driver->node);
    driver->node = NULL;
    return false;
}

static bool open_locked(struct lull_driver *driver, enum lull_gpu_vendor vendor,
                        lull_driver_describe *describe)
{
    const char *path = getenv(LULL_EMULATED_NODE_VARIABLE);

    if (driver->references > 0)
        return true;
    if (path == NULL || *path == '\0')
        return false;
    if (!is_current(driver, path) && !emulated_driver_map_node(driver, path, vendor, describe))
        return false;
    driver->loads = lull_node_driver_loads(driver->node);
    driver->was_opened = true;
    return true;
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
    if (driver->references > 0)
        driver->references--;
    pthread_mutex_unlock(&driver->mutex);
}

static enum lull_driver_state state_locked(const struct lull_driver *driver)
{
    if (driver->references == 0)
        return LULL_DRIVER_CLOSED;
    if (!lull_node_has_driver(driver->node))
        return LULL_DRIVER_AWAY;
    if (lull_node_driver_loads(driver->node) != driver->loads)
        return LULL_DRIVER_STALE;
    return LULL_DRIVER_OPEN;
}

enum lull_driver_state lull_driver_state(struct lull_driver *driver)
{
    enum lull_driver_state state;

    pthread_mutex_lock(&driver->mutex);
    state = state_locked(driver);
    pthread_mutex_unlock(&driver->mutex);
    return state;
}

bool lull_driver_is_current(struct lull_driver *driver)
{
    const char *path = getenv(LULL_EMULATED_NODE_VARIABLE);
    bool is_same;

    pthread_mutex_lock(&driver->mutex);
    is_same = path != NULL && is_current(driver, path);
    pthread_mutex_unlock(&driver->mutex);
    return is_same;
}

bool lull_driver_is_open(struct lull_driver *driver)
{
    return lull_driver_state(driver) == LULL_DRIVER_OPEN;
}

struct lull_release lull_driver_release(void)
{
    const char *path = getenv(LULL_EMULATED_NODE_VARIABLE);
    struct lull_release release = *lull_release_newest();
    struct lull_node *node;

    if (path == NULL || *path == '\0' || lull_node_open(path, &node, NULL) < 0)
        return release;
    release = *lull_node_release(node);
    lull_node_close(node);
    return release;
}

struct lull_driver_gpu *lull_driver_gpu_at(struct lull_driver *driver, uint32_t position)
{
    if (position < driver->gpu_count)
        return &driver->gpus[position];
    return NULL;
}

uint32_t lull_driver_processes(struct lull_node *node, uint32_t gpu,
                               struct lull_driver_process *processes_out)
{
    const struct lull_physics *physics = lull_node_begin(node, gpu);
    uint32_t count = 0;

    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++) {
        const int32_t pid = (int32_t)physics->contexts[i].owner;
        uint32_t at = 0;

        /* A process of another PID namespace has no number that is valid here. */
        if (!physics->contexts[i].is_live ||
            (physics->contexts[i].owner_mark == 0 && pid != getpid()))
            continue;
        while (at < count && processes_out[at].pid != pid)
            at++;
        if (at == count)
            processes_out[count++] = (struct lull_driver_process){.pid = pid};
        processes_out[at].contexts++;
        processes_out[at].memory_mib += physics->contexts[i].memory_mib;
        processes_out[at].busy_percent += physics->contexts[i].use.busy_percent;
        processes_out[at].memory_percent += physics->contexts[i].use.memory_percent;
    }
    lull_node_end(node, gpu, false);
    return count;
}

static struct lull_gpu_model read_model(struct lull_node *node, uint32_t gpu)
{
    const struct lull_gpu_model model = lull_node_begin(node, gpu)->model;

    lull_node_end(node, gpu, false);
    return model;
}

/* Over NVLink, or over PCIe between boards of one model that allow it. */
enum lull_gpu_peers lull_driver_peers(struct lull_node *node, uint32_t one, uint32_t other)
{
    const struct lull_gpu_model a = read_model(node, one);
    const struct lull_gpu_model b = read_model(node, other);

    if (one == other)
        return LULL_PEERS_SELF;
    if (lull_topology_links_between(lull_node_topology(node), one, other) > 0)
        return LULL_PEERS_OK;
    if (strcmp(a.name, b.name) != 0)
        return LULL_PEERS_UNSUPPORTED;
    return (enum lull_gpu_peers)a.peers;
}

struct lull_driver_memory lull_driver_read_memory(struct lull_node *node, uint32_t gpu)
{
    const struct lull_physics *const physics = lull_node_begin(node, gpu);
    struct lull_driver_memory memory = {
        .total_bytes = (uint64_t)physics->model.memory_mib << 20,
        .reserved_bytes = (uint64_t)physics->model.reserved_mib << 20,
    };

    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++)
        if (physics->contexts[i].is_live)
            memory.used_bytes +=
                LULL_DRIVER_CONTEXT_BYTES + ((uint64_t)physics->contexts[i].memory_mib << 20);
    lull_node_end(node, gpu, false);
    memory.free_bytes = memory.total_bytes - memory.reserved_bytes;
    memory.free_bytes -=
        memory.used_bytes < memory.free_bytes ? memory.used_bytes : memory.free_bytes;
    return memory;
}

/* ---- faults and permissions ---- */

/* The first branch with the WPPS capability (NVML's change log). */
enum { WPPS_BRANCH = 615 };

static bool emulated_driver_take(const struct lull_driver_gpu *gpu, enum lull_fault_kind kind)
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

/* Root of a plain container lacks CAP_SYS_ADMIN permanently. On a real node it may not set clocks;
 * the emulated one lets it, so that it can be tried in a container. */
static bool is_administrator(uint32_t vendor)
{
    if (vendor == LULL_GPU_NVIDIA && lull_process_may_have_admin())
        return lull_process_has_admin();
    return geteuid() == 0;
}

bool lull_driver_may_set(const struct lull_driver_gpu *gpu)
{
    if (emulated_driver_take(gpu, LULL_FAULT_NO_PERMISSION))
        return false;
    return is_administrator(gpu->model.vendor) || emulated_driver_take(gpu, LULL_FAULT_ANY_USER);
}

bool lull_driver_opens_profiles(const struct lull_driver_gpu *gpu)
{
    return lull_node_release(gpu->node)->branch >= WPPS_BRANCH &&
           emulated_driver_take(gpu, LULL_FAULT_WPPS);
}

bool lull_driver_may_profile(const struct lull_driver_gpu *gpu)
{
    return is_administrator(gpu->model.vendor) ||
           !emulated_driver_take(gpu, LULL_FAULT_RESTRICTED_PROFILING);
}

bool lull_driver_has_energy(const struct lull_driver_gpu *gpu)
{
    return !emulated_driver_take(gpu, LULL_FAULT_NO_ENERGY);
}

bool lull_driver_lists_processes(const struct lull_driver_gpu *gpu)
{
    return !emulated_driver_take(gpu, LULL_FAULT_NO_PROCESSES);
}

uint64_t lull_driver_spoil_energy_mj(const struct lull_driver_gpu *gpu, uint64_t mj)
{
    double value;

    if (lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_ENERGY_FACTOR, &value))
        mj = (uint64_t)((double)mj * value);
    if (lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_ENERGY_WRAP_J, &value) &&
        value >= 1e-3)
        mj %= (uint64_t)(value * 1e3);
    if (lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_ENERGY_STUCK_J, &value))
        mj = (uint64_t)(value * 1e3);
    return mj;
}

uint32_t lull_driver_spoil_power_mw(const struct lull_driver_gpu *gpu, uint32_t mw)
{
    double value;
    double spoilt_mw = mw;

    if (lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_POWER_FACTOR, &value))
        spoilt_mw *= value;
    if (lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_POWER_W, &value))
        spoilt_mw = value * 1e3;
    return spoilt_mw < UINT32_MAX ? (uint32_t)spoilt_mw : UINT32_MAX;
}

uint64_t lull_driver_energy_mj(const struct lull_driver_gpu *gpu)
{
    const uint64_t mj = lull_physics_published_mj(lull_node_begin(gpu->node, gpu->index));

    lull_node_end(gpu->node, gpu->index, false);
    return lull_driver_spoil_energy_mj(gpu, mj);
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

static void apply_nothing(struct lull_physics *physics, double settle_factor, const void *data)
{
    (void)physics;
    (void)settle_factor;
    (void)data;
}

static void apply_limit(struct lull_physics *physics, double settle_factor, const void *data)
{
    const double *limit_w = data;

    (void)settle_factor; /* a limit holds at once; what takes time is the limiter's own loop */
    lull_physics_set_limit(physics, *limit_w);
}

static void apply_smoothing(struct lull_physics *physics, double settle_factor, const void *data)
{
    (void)settle_factor; /* how long it takes to act is not published */
    lull_physics_set_smoothing(physics, data);
}

struct profile_change {
    uint32_t removed;
    uint32_t added;
};

static void apply_profiles(struct lull_physics *physics, double settle_factor, const void *data)
{
    const struct profile_change *change = data;

    (void)settle_factor; /* how long a profile takes to act is not published */
    lull_physics_request_profiles(physics,
                                  (physics->profiles_requested & ~change->removed) | change->added);
}

static int emulated_driver_set_clock(const struct lull_driver_gpu *gpu,
                                     const struct lull_clock_setting *lock)
{
    const int code = lull_node_call(gpu->node, gpu->index, 1.0, apply_lock, lock);

    if (code == 0 && emulated_driver_take(gpu, LULL_FAULT_SM_RESETS_MEMORY))
        lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_MEMORY_LIMIT_MHZ, 0);
    return code;
}

static bool emulated_driver_is_idle(const struct lull_driver_gpu *gpu)
{
    const bool is_busy = lull_physics_is_busy(lull_node_begin(gpu->node, gpu->index));

    lull_node_end(gpu->node, gpu->index, false);
    return !is_busy;
}

int lull_driver_lock(const struct lull_driver_gpu *gpu, uint32_t min_step, uint32_t max_step)
{
    const struct lull_clock_setting lock = {
        .is_locked = true, .min_step = min_step, .max_step = max_step};

    return emulated_driver_set_clock(gpu, &lock);
}

int lull_driver_unlock(const struct lull_driver_gpu *gpu)
{
    const struct lull_clock_setting unlocked = {.is_locked = false};
    double code;

    if (lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_RESET_CODE, &code))
        return (int)code;
    if (emulated_driver_is_idle(gpu) && emulated_driver_take(gpu, LULL_FAULT_IDLE_RESET))
        return lull_node_call(gpu->node, gpu->index, 1.0, apply_nothing, NULL);
    return emulated_driver_set_clock(gpu, &unlocked);
}

int lull_driver_limit_memory(const struct lull_driver_gpu *gpu, uint32_t mhz)
{
    const int code = lull_node_call(gpu->node, gpu->index, 1.0, apply_nothing, NULL);

    if (code == 0)
        lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_MEMORY_LIMIT_MHZ, mhz);
    return code;
}

int lull_driver_set_limit(const struct lull_driver_gpu *gpu, double limit_w)
{
    return lull_node_call(gpu->node, gpu->index, limit_api_factor, apply_limit, &limit_w);
}

int lull_driver_change_profiles(const struct lull_driver_gpu *gpu, uint32_t removed, uint32_t added)
{
    const struct profile_change change = {removed, added};

    return lull_node_call(gpu->node, gpu->index, 1.0, apply_profiles, &change);
}

int lull_driver_set_smoothing(const struct lull_driver_gpu *gpu,
                              const struct lull_physics_smoothing *smoothing)
{
    return lull_node_call(gpu->node, gpu->index, 1.0, apply_smoothing, smoothing);
}
