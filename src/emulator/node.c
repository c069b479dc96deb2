/*
 * Mutexes are robust and shared between processes, because a test may kill any process at any time,
 * and a killed owner must not block the node. They guard against simultaneous work only: what
 * protects the state is that every change is made in the other slot. Sleepers wait on a futex
 * instead of a condition variable, which a killed process could leave in an undefined state.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "emulator/node_shared.h"
#include "emulator/noise.h"

/* Interval at which a GPU is searched for contexts of dead processes. */
#define REAP_PERIOD_NS (50 * LULL_NS_PER_MS)
/* A process that is killed between changing a GPU and waking the sleepers wakes none of them.
 * Sleepers therefore check again after this time. */
#define LONGEST_SLEEP_NS (50 * LULL_NS_PER_MS)

/* ---- locks that outlive their owners ---- */

static void init_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* ---- creating and opening ---- */

static int emulated_node_map(struct lull_node *node, int fd, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return -errno;
    node->shared = memory;
    node->size = size;
    return 0;
}

static void init_shared(struct lull_node_shared *shared, size_t size,
                        const struct lull_node_spec *spec)
{
    shared->size = size;
    shared->seed = spec->seed;
    shared->time_scale = spec->time_scale;
    shared->origin_ns = lull_now_ns();
    shared->pid_space = lull_process_pid_space();
    shared->gpu_count = spec->gpu_count;
    shared->release = spec->release != NULL ? *spec->release : *lull_release_newest();
    lull_topology_build(spec, &shared->topology);
    init_mutex(&shared->driver);
    init_mutex(&shared->clients_mutex);
    for (uint32_t i = 0; i < spec->gpu_count; i++) {
        struct lull_node_shared_gpu *gpu = &shared->gpus[i];
        const uint64_t unit_seed = spec->seed == 0 ? 0 : lull_noise_mix(spec->seed + i);

        init_mutex(&gpu->mutex);
        gpu->settings[LULL_NODE_PERSISTENCE] = 1;
        lull_physics_init(&gpu->slots[0], spec->models[i], unit_seed, 0);
        if (spec->warm_w > 0.0)
            lull_physics_warm(&gpu->slots[0], spec->warm_w);
        gpu->slots[0].random = lull_noise_mix(spec->seed ^ lull_noise_mix(i));
    }
    shared->magic = NODE_MAGIC; /* comes last: a file without it is not a node yet */
}

int lull_node_create(const struct lull_node_spec *spec, struct lull_node **node_out,
                     struct lull_error *err)
{
    const size_t size =
        sizeof(struct lull_node_shared) + spec->gpu_count * sizeof(struct lull_node_shared_gpu);
    struct lull_node *node = calloc(1, sizeof(*node));
    int result;
    int fd;

    if (node == NULL)
        return lull_error_set(err, -ENOMEM, "emulated node: no memory");
    snprintf(node->path, sizeof(node->path), "/dev/shm/lull-node-XXXXXX");
    fd = mkostemp(node->path, O_CLOEXEC);
    if (fd < 0) {
        result = -errno;
        goto free_node;
    }
    /* Every reading advances a GPU and every job puts work on it, so all users must be able to
     * write; the libraries enforce that only root sets clocks, as the real driver does. */
    if (fchmod(fd, 0666) < 0 || ftruncate(fd, (off_t)size) < 0)
        result = -errno;
    else
        result = emulated_node_map(node, fd, size);
    close(fd);
    if (result < 0)
        goto unlink_file;
    init_shared(node->shared, size, spec);
    *node_out = node;
    return 0;

unlink_file:
    unlink(node->path);
free_node:
    lull_error_set(err, result, "%s: cannot create the emulated node: %s", node->path,
                   strerror(-result));
    free(node);
    return result;
}

static int check_shared(const struct lull_node *node, struct lull_error *err)
{
    const struct lull_node_shared *shared = node->shared;

    if (node->size < sizeof(*shared) || shared->magic != NODE_MAGIC || shared->size != node->size ||
        shared->gpu_count > LULL_NODE_MAX_GPUS ||
        shared->size != sizeof(*shared) + shared->gpu_count * sizeof(shared->gpus[0]))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: not an emulated node of this version of Lull", node->path);
    return 0;
}

static int emulated_node_open_file(struct lull_node *node, struct lull_error *err)
{
    struct stat info;
    int result = 0;
    int fd = open(node->path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return lull_error_set(err, -errno, "%s: cannot open the emulated node: %s", node->path,
                              strerror(errno));
    if (fstat(fd, &info) < 0)
        result = -errno;
    else if (info.st_size < (off_t)sizeof(struct lull_node_shared))
        result = LULL_E_FORMAT;
    else
        result = emulated_node_map(node, fd, (size_t)info.st_size);
    close(fd);
    if (result < 0)
        return lull_error_set(err, result, "%s: cannot map the emulated node", node->path);
    result = check_shared(node, err);
    if (result < 0)
        munmap(node->shared, node->size);
    return result;
}

int lull_node_open(const char *path, struct lull_node **node_out, struct lull_error *err)
{
    struct lull_node *node = calloc(1, sizeof(*node));
    int result;

    if (node == NULL)
        return lull_error_set(err, -ENOMEM, "emulated node: no memory");
    if ((size_t)snprintf(node->path, sizeof(node->path), "%s", path) >= sizeof(node->path))
        result = lull_error_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", path);
    else
        result = emulated_node_open_file(node, err);
    if (result < 0) {
        free(node);
        return result;
    }
    *node_out = node;
    return 0;
}

void lull_node_close(struct lull_node *node)
{
    if (node == NULL)
        return;
    munmap(node->shared, node->size);
    free(node);
}

void lull_node_remove(struct lull_node *node)
{
    if (node == NULL)
        return;
    unlink(node->path);
    lull_node_close(node);
}

const char *lull_node_path(const struct lull_node *node)
{
    return node->path;
}

uint32_t lull_node_gpu_count(const struct lull_node *node)
{
    return node->shared->gpu_count;
}

uint64_t lull_node_seed(const struct lull_node *node)
{
    return node->shared->seed;
}

const struct lull_release *lull_node_release(const struct lull_node *node)
{
    return &node->shared->release;
}

const struct lull_topology *lull_node_topology(const struct lull_node *node)
{
    return &node->shared->topology;
}

/* ---- time ---- */

int64_t lull_node_now_ns(const struct lull_node *node)
{
    const struct lull_node_shared *shared = node->shared;

    return (int64_t)((double)(lull_now_ns() - shared->origin_ns) * shared->time_scale);
}

int64_t lull_node_real_ns(const struct lull_node *node, int64_t virtual_ns)
{
    const struct lull_node_shared *shared = node->shared;
    const double real_ns = (double)virtual_ns / shared->time_scale;

    if (real_ns < 9e18 - (double)shared->origin_ns)
        return shared->origin_ns + (int64_t)real_ns + 1;
    return INT64_MAX;
}

/* ---- contexts and the processes that own them ---- */

/*
 * Returns the start time of a living process in kernel ticks; 0: there is none, or it is a zombie.
 * Number and start time together identify a process
 * permanently, whereas the number alone may be reused.
 */
static uint64_t start_mark(pid_t pid)
{
    const int64_t ticks = lull_process_start_ticks(pid);

    if (ticks > 0)
        return (uint64_t)ticks;
    return 0;
}

/* A start time of 0 was recorded without /proc, or in another
 * PID namespace; then every process counts as alive. */
static bool emulated_node_is_alive(pid_t pid, uint64_t mark)
{
    if (mark == 0)
        return true;
    return start_mark(pid) == mark;
}

/* Closes the contexts of dead processes. Reading /proc is slow, so it is done only at intervals. */
static void emulated_node_reap(struct lull_node_shared_gpu *shared, struct lull_physics *gpu)
{
    const int64_t now_ns = lull_now_ns();

    if (gpu->context_count == 0 || now_ns - shared->reaped_ns < REAP_PERIOD_NS)
        return;
    shared->reaped_ns = now_ns;
    for (int i = 0; i < LULL_PHYSICS_CONTEXTS; i++)
        if (gpu->contexts[i].is_live &&
            !emulated_node_is_alive((pid_t)gpu->contexts[i].owner, gpu->contexts[i].owner_mark))
            lull_physics_close(gpu, i);
}

int lull_node_open_context(struct lull_node *node, uint32_t gpu)
{
    const pid_t pid = getpid();
    const bool is_outside = lull_process_pid_space() != node->shared->pid_space;
    const uint64_t mark = is_outside ? 0 : start_mark(pid);
    const int context = lull_physics_open(lull_node_begin(node, gpu), pid, mark);

    lull_node_end(node, gpu, true);
    return context;
}

/* ---- one GPU ---- */

struct lull_physics *lull_node_begin(struct lull_node *node, uint32_t gpu)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];
    struct lull_physics *work;
    uint32_t active;

    lull_node_lock(&shared->mutex);
    active = atomic_load(&shared->active) & 1;
    work = &shared->slots[1 - active];
    lull_physics_copy(work, &shared->slots[active]);
    lull_physics_advance(work, lull_node_now_ns(node));
    emulated_node_reap(shared, work);
    return work;
}

void lull_node_end(struct lull_node *node, uint32_t gpu, bool is_change)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];

    /* This store alone turns the work copy into the state, so a process that is killed before or
     * after it leaves a whole state. */
    atomic_fetch_xor(&shared->active, 1);
    pthread_mutex_unlock(&shared->mutex);
    if (is_change)
        lull_node_wake(node, gpu);
}

void lull_node_wake(struct lull_node *node, uint32_t gpu)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];

    atomic_fetch_add(&shared->generation, 1);
    syscall(SYS_futex, &shared->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t lull_node_generation(struct lull_node *node, uint32_t gpu)
{
    return atomic_load(&node->shared->gpus[gpu].generation);
}

void lull_node_sleep(struct lull_node *node, uint32_t gpu, uint32_t generation,
                     int64_t until_virtual_ns)
{
    const int64_t wanted_ns = lull_node_real_ns(node, until_virtual_ns);
    const int64_t longest_ns = lull_now_ns() + LONGEST_SLEEP_NS;
    const struct timespec until =
        lull_timespec_from_ns(wanted_ns < longest_ns ? wanted_ns : longest_ns);

    syscall(SYS_futex, &node->shared->gpus[gpu].generation, FUTEX_WAIT_BITSET, generation, &until,
            NULL, FUTEX_BITSET_MATCH_ANY);
}

/* ---- settings and true values ---- */

uint32_t lull_node_setting(struct lull_node *node, uint32_t gpu, enum lull_node_setting setting)
{
    return atomic_load(&node->shared->gpus[gpu].settings[setting]);
}

void lull_node_set_setting(struct lull_node *node, uint32_t gpu, enum lull_node_setting setting,
                           uint32_t value)
{
    atomic_store(&node->shared->gpus[gpu].settings[setting], value);
}

void lull_node_read_truth(struct lull_node *node, uint32_t gpu, struct lull_node_truth *truth_out)
{
    const struct lull_physics *physics = lull_node_begin(node, gpu);
    const uint32_t step = lull_physics_setting_step(&physics->model, &physics->asked);

    *truth_out = (struct lull_node_truth){
        .now_ns = physics->now_ns,
        .energy_j = lull_physics_energy_j(physics),
        .power_w = lull_physics_power_w(physics),
        .gain_ratio = physics->gain_ratio,
        .temperature_c = lull_physics_temperature_c(physics),
        .sm_mhz = physics->mhz,
        .is_locked = physics->asked.is_locked,
        .asked_mhz = lull_gpu_model_step_mhz(&physics->model, step),
        .requests_low = physics->requests_low,
        .contexts = physics->context_count,
        .kernels_started = physics->kernels_started,
        .kernels_started_low = physics->kernels_started_low,
        .kernel_low_ns = physics->kernel_low_ns,
    };
    lull_node_end(node, gpu, false);
}
