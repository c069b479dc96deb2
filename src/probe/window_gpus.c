/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/window_gpus.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { MAX_PROCESSES = 64, NVML_SUCCESS = 0 };

/* The slowest refresh of a counter that is known: 100 ms, measured on an A100. */
static const double counter_refresh_s = 0.1;

struct process_info { /* nvmlProcessInfo_t, versions 2 and 3 */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct metered_gpu {
    struct gpu *gpu;
    struct lull_energy_account account;
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
    int (*limits)(struct gpu *gpu, unsigned *min_mw, unsigned *max_mw);
} nvml;

static struct metered_gpu metered[LULL_WINDOW_MAX_GPUS];
static uint32_t metered_count;
static struct lull_window_gpus own;

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
    *(void **)&nvml.limits = dlsym(library, "nvmlDeviceGetPowerManagementLimitConstraints");
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

/* Finds all GPUs of a list, or none: the energy of some would look like that of all. */
static uint32_t visible_gpus(const char *list, struct gpu **gpus)
{
    char copy[1024] = "";
    char *rest = NULL;
    uint32_t count = 0;

    if (strlen(list) >= sizeof(copy))
        return 0;
    memcpy(copy, list, strlen(list) + 1);
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        if (count == LULL_WINDOW_MAX_GPUS || gpu_of_word(word, &gpus[count]) != NVML_SUCCESS)
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
    for (unsigned i = 0; i < total && count < LULL_WINDOW_MAX_GPUS; i++)
        if (nvml.by_index(i, &gpu) == NVML_SUCCESS && runs_this_process(gpu))
            gpus[count++] = gpu;
    if (count > 0)
        return count;
    if (visible != NULL)
        return visible_gpus(visible, gpus);
    if (total == 1 && nvml.by_index(0, &gpus[0]) == NVML_SUCCESS)
        return 1;
    return 0;
}

/* ---- accounts ---------------------------------------------------------------------------- */

static struct lull_power_range power_range(struct gpu *gpu)
{
    unsigned min_mw = 0;
    unsigned max_mw = 0;

    if (nvml.limits == NULL || nvml.limits(gpu, &min_mw, &max_mw) != NVML_SUCCESS)
        max_mw = 0;
    return lull_power_range_of_gpu(1e-3 * (double)max_mw);
}

/* The place of a GPU that has a number, else the first free one, LULL_WINDOW_MAX_GPUS at last. */
static uint32_t window_gpu_place_of(const struct gpu *gpu)
{
    uint32_t place = 0;

    while (place < metered_count && metered[place].gpu != gpu)
        place++;
    return place;
}

static struct lull_window_counter window_gpu_read_counter(struct gpu *gpu)
{
    struct lull_window_counter counter = {.gpu = gpu};
    unsigned long long energy_mj = 0;

    if (window_gpu_place_of(gpu) == metered_count)
        counter.range = power_range(gpu);
    counter.is_valid = nvml.energy(gpu, &energy_mj) == NVML_SUCCESS;
    counter.time_ns = lull_now_ns();
    counter.energy_j = (double)energy_mj * 1e-3;
    return counter;
}

void lull_window_gpus_read(struct lull_window_reading *reading_out)
{
    struct gpu *gpus[LULL_WINDOW_MAX_GPUS];

    reading_out->count = own_gpus(gpus);
    for (uint32_t i = 0; i < reading_out->count; i++)
        reading_out->counters[i] = window_gpu_read_counter(gpus[i]);
}

/* A GPU that is met for the first time gets a number here. There are as many places as GPUs that
 * are looked for. */
static void window_gpu_take_counter(const struct lull_window_counter *counter)
{
    const uint32_t place = window_gpu_place_of(counter->gpu);

    if (place == LULL_WINDOW_MAX_GPUS)
        return;
    if (place == metered_count) {
        const struct lull_energy_source source = {.counter_refresh_s = counter_refresh_s,
                                                  .highest_w = counter->range.highest_w,
                                                  .lowest_w = counter->range.lowest_w};

        metered[place].gpu = counter->gpu;
        lull_energy_account_init(&metered[place].account, &source);
        metered_count++;
    }
    if (counter->is_valid)
        lull_energy_account_take(&metered[place].account,
                                 &(struct lull_energy_reading){.time_ns = counter->time_ns,
                                                               .has_counter = true,
                                                               .counter_j = counter->energy_j});
    own.numbers[own.count++] = (uint8_t)place;
}

void lull_window_gpus_take(const struct lull_window_reading *reading)
{
    own.count = 0;
    for (uint32_t i = 0; i < reading->count; i++)
        window_gpu_take_counter(&reading->counters[i]);
}

void lull_window_gpus_own(struct lull_window_gpus *gpus_out)
{
    *gpus_out = own;
}

const struct lull_energy_account *lull_window_gpus_account(uint32_t number)
{
    return &metered[number].account;
}
