/*
 * Energy windows of liblull. NVML is loaded at the first window and never unloaded. Declared from
 * its documented ABI, so that the build needs no vendor SDK.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lull/lull.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define SHORTEST_NS (200 * LULL_NS_PER_MS)

enum { MAX_WINDOWS = 16, MAX_GPUS = 32, NAME_BYTES = 64, MAX_PROCESSES = 64, NVML_SUCCESS = 0 };

struct gpu; /* nvmlDevice_st */

struct process_info { /* nvmlProcessInfo_t, versions 2 and 3 */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct window {
    int is_open;
    pid_t pid; /* a child does not inherit its parent's windows */
    char name[NAME_BYTES];
    int64_t begin_ns;
    uint32_t gpu_count;
    struct gpu *gpus[MAX_GPUS];
    unsigned long long begin_mj[MAX_GPUS];
    int has_energy;
};

static struct {
    int was_opened;
    int is_usable;
    int (*init)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, struct gpu **gpu);
    int (*by_uuid)(const char *uuid, struct gpu **gpu);
    int (*processes)(struct gpu *gpu, unsigned *count, struct process_info *processes);
    int (*energy)(struct gpu *gpu, unsigned long long *millijoules);
} nvml;

static struct window windows[MAX_WINDOWS];
static pthread_mutex_t windows_lock = PTHREAD_MUTEX_INITIALIZER; /* guards windows and nvml */

static void before_fork(void)
{
    pthread_mutex_lock(&windows_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&windows_lock);
}

__attribute__((constructor)) static void prepare(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void open_nvml(void)
{
    void *library;

    if (nvml.was_opened)
        return;
    nvml.was_opened = 1;
    library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        return;
    *(void **)&nvml.init = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml.count = dlsym(library, "nvmlDeviceGetCount_v2");
    *(void **)&nvml.by_index = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&nvml.by_uuid = dlsym(library, "nvmlDeviceGetHandleByUUID");
    *(void **)&nvml.processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&nvml.energy = dlsym(library, "nvmlDeviceGetTotalEnergyConsumption");
    nvml.is_usable = nvml.init != NULL && nvml.count != NULL && nvml.by_index != NULL &&
                     nvml.energy != NULL && nvml.init() == NVML_SUCCESS;
}

static int runs_this_process(struct gpu *gpu)
{
    struct process_info processes[MAX_PROCESSES];
    unsigned count = MAX_PROCESSES;

    if (nvml.processes == NULL || nvml.processes(gpu, &count, processes) != NVML_SUCCESS)
        return 0;
    for (unsigned i = 0; i < count && i < MAX_PROCESSES; i++)
        if (processes[i].pid == (unsigned)getpid())
            return 1;
    return 0;
}

static int gpu_of_word(const char *word, struct gpu **gpu_out)
{
    char *end;
    const unsigned long index = strtoul(word, &end, 10);

    if (word[0] >= '0' && word[0] <= '9' && *end == '\0' && index < 1024)
        return nvml.by_index((unsigned)index, gpu_out);
    if (strncmp(word, "GPU-", 4) == 0 && nvml.by_uuid != NULL)
        return nvml.by_uuid(word, gpu_out);
    return -1;
}

/* All of the list or nothing: energy of some of the GPUs would look like that of all. */
static uint32_t visible_gpus(const char *list, struct gpu **gpus)
{
    char copy[1024] = "";
    char *rest = NULL;
    uint32_t count = 0;

    if (strlen(list) >= sizeof(copy))
        return 0;
    memcpy(copy, list, strlen(list));
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        if (count == MAX_GPUS || gpu_of_word(word, &gpus[count]) != NVML_SUCCESS)
            return 0;
        count++;
    }
    return count;
}

static uint32_t own_gpus(struct gpu **gpus)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct gpu *gpu = NULL;
    unsigned total = 0;
    uint32_t count = 0;

    open_nvml();
    if (!nvml.is_usable || nvml.count(&total) != NVML_SUCCESS)
        return 0;
    for (unsigned i = 0; i < total && count < MAX_GPUS; i++)
        if (nvml.by_index(i, &gpu) == NVML_SUCCESS && runs_this_process(gpu))
            gpus[count++] = gpu;
    if (count > 0)
        return count;
    if (visible != NULL)
        return visible_gpus(visible, gpus);
    return total == 1 && nvml.by_index(0, &gpus[0]) == NVML_SUCCESS ? 1 : 0;
}

static struct window *find_open(const char *name)
{
    for (struct window *window = windows; window < windows + MAX_WINDOWS; window++)
        if (window->is_open && window->pid == getpid() &&
            strncmp(window->name, name, NAME_BYTES - 1) == 0)
            return window;
    return NULL;
}

static struct window *find_free(void)
{
    for (struct window *window = windows; window < windows + MAX_WINDOWS; window++)
        if (!window->is_open || window->pid != getpid())
            return window;
    return NULL;
}

static void begin(struct window *window, const char *name)
{
    *window = (struct window){.is_open = 1, .pid = getpid()};
    memcpy(window->name, name, strnlen(name, NAME_BYTES - 1));
    window->gpu_count = own_gpus(window->gpus);
    window->has_energy = window->gpu_count > 0;
    window->begin_ns = lull_now_ns();
    for (uint32_t i = 0; i < window->gpu_count; i++)
        if (nvml.energy(window->gpus[i], &window->begin_mj[i]) != NVML_SUCCESS)
            window->has_energy = 0;
}

static void end(struct window *window, struct lull_window *out)
{
    const int64_t now_ns = lull_now_ns();
    double joules = 0.0;

    for (uint32_t i = 0; i < window->gpu_count && window->has_energy; i++) {
        unsigned long long now_mj = 0;

        if (nvml.energy(window->gpus[i], &now_mj) != NVML_SUCCESS || now_mj < window->begin_mj[i])
            window->has_energy = 0;
        else
            joules += (double)(now_mj - window->begin_mj[i]) * 1e-3;
    }
    *out = (struct lull_window){
        .seconds = (double)(now_ns - window->begin_ns) * 1e-9,
        .gpus = window->gpu_count,
    };
    if (window->has_energy && now_ns - window->begin_ns >= SHORTEST_NS) {
        out->joules = joules;
        out->flags = LULL_WINDOW_JOULES_VALID;
    }
    window->is_open = 0;
}

int lull_window_begin(const char *name)
{
    const int saved_errno = errno;
    struct window *window;

    if (name == NULL)
        return -EINVAL;
    pthread_mutex_lock(&windows_lock);
    window = find_open(name);
    if (window == NULL)
        window = find_free();
    if (window != NULL)
        begin(window, name);
    pthread_mutex_unlock(&windows_lock);
    errno = saved_errno;
    return window != NULL ? 0 : -ENOSPC;
}

int lull_window_end(const char *name, struct lull_window *out)
{
    const int saved_errno = errno;
    struct window *window;

    if (name == NULL || out == NULL)
        return -EINVAL;
    pthread_mutex_lock(&windows_lock);
    window = find_open(name);
    if (window != NULL)
        end(window, out);
    pthread_mutex_unlock(&windows_lock);
    errno = saved_errno;
    return window != NULL ? 0 : -ENOENT;
}
