/*
 * The readings that the driver keeps, and those over an interval: samples, PCIe traffic and GPM.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/nvml/nvml_library.h"

enum { ARCHITECTURE_HOPPER = 9 };

double nvml_read_link_bytes(const struct lull_nvml_gpu *gpu, bool is_nvlink)
{
    const struct lull_physics_activity activity =
        lull_physics_activity_of(lull_node_begin(gpu->node, gpu->index));

    lull_node_end(gpu->node, gpu->index, false);
    return is_nvlink ? activity.nvlink_bytes : activity.pcie_bytes;
}

NVML_EXPORT(nvmlDeviceGetPcieThroughput, nvmlDevice_t device, int counter, unsigned *kb_out)
{
    const int64_t sampling_ns = 20 * LULL_NS_PER_MS; /* the real call samples for this long */
    int64_t begin_ns;
    double bytes;
    double seconds;

    NVML_ENTER(nvml_enter_reading(device, kb_out, &gpu));
    if (counter < 0 || counter > 1)
        return NVML_INVALID_ARGUMENT;
    begin_ns = lull_node_now_ns(gpu->node);
    bytes = nvml_read_link_bytes(gpu, false);
    lull_sleep_until_ns(lull_now_ns() + sampling_ns);
    bytes = nvml_read_link_bytes(gpu, false) - bytes;
    seconds = (double)(lull_node_now_ns(gpu->node) - begin_ns) * 1e-9;
    *kb_out = (unsigned)(bytes / seconds / 1024.0);
    return NVML_SUCCESS;
}

/* ---- samples ---- */

enum {
    SAMPLE_POWER = 0,
    SAMPLE_UTILIZATION = 1,
    SAMPLE_MEMORY_UTILIZATION = 2,
    SAMPLE_ENCODER = 3,
    SAMPLE_DECODER = 4,
    SAMPLE_SM_MHZ = 5,
    SAMPLE_MEMORY_MHZ = 6,
    SAMPLE_JPEG = 8,
    SAMPLE_OPTICAL_FLOW = 9,
};

/* The samples that are kept: the latest has number `count` - 1 and is of the virtual time last_ns.
 */
struct sample_row {
    uint32_t count;
    int64_t last_ns;
    int64_t period_ns;
};

static struct sample_row row_of(const struct lull_physics *physics, int type)
{
    if (type == SAMPLE_POWER)
        return (struct sample_row){physics->instant.refreshes,
                                   physics->instant.next_ns - physics->instant.period_ns,
                                   physics->instant.period_ns};
    return (struct sample_row){physics->samples.count,
                               physics->utilization_ns - lull_physics_utilization_period_ns(),
                               lull_physics_utilization_period_ns()};
}

static int sample_value(const struct lull_physics *physics, int type, uint32_t number,
                        uint32_t *value_out)
{
    const struct lull_physics_samples *samples = &physics->samples;
    const uint32_t at = number % LULL_PHYSICS_SAMPLES;

    switch (type) {
    case SAMPLE_POWER:
        *value_out = samples->power_mw[at];
        return NVML_SUCCESS;
    case SAMPLE_UTILIZATION:
        *value_out = samples->busy_percent[at];
        return NVML_SUCCESS;
    case SAMPLE_MEMORY_UTILIZATION:
        *value_out = samples->memory_percent[at];
        return NVML_SUCCESS;
    case SAMPLE_SM_MHZ:
        *value_out = samples->sm_mhz[at];
        return NVML_SUCCESS;
    case SAMPLE_MEMORY_MHZ:
        *value_out = samples->memory_mhz[at];
        return NVML_SUCCESS;
    case SAMPLE_ENCODER:
    case SAMPLE_DECODER:
    case SAMPLE_JPEG:
    case SAMPLE_OPTICAL_FLOW: /* the emulated kernels do not use these units */
        *value_out = 0;
        return NVML_SUCCESS;
    default:
        return NVML_NOT_SUPPORTED;
    }
}

/* Copies what is newer than last_us, oldest first. Returns a code. */
static int list_samples(const struct lull_nvml_gpu *gpu, int type, uint64_t last_us,
                        struct nvml_sample *samples_out, uint32_t *count_out)
{
    /* Two calls convert the time of one sample alike within this time. */
    const uint64_t rounding_us = 1000;
    const struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);
    const struct sample_row row = row_of(physics, type);
    const uint32_t first = row.count > LULL_PHYSICS_SAMPLES ? row.count - LULL_PHYSICS_SAMPLES : 0;
    int code = NVML_SUCCESS;

    *count_out = 0;
    for (uint32_t number = first; number < row.count && code == NVML_SUCCESS; number++) {
        const int64_t virtual_ns = row.last_ns - (row.count - 1 - number) * row.period_ns;
        struct nvml_sample *sample = &samples_out[*count_out];

        sample->time_us = nvml_sample_time_us(gpu, virtual_ns);
        code = sample_value(physics, type, number, &sample->value.as_uint);
        if (sample->time_us > last_us + rounding_us)
            ++*count_out;
    }
    lull_node_end(gpu->node, gpu->index, false);
    return code;
}

/* Faults of the power sensor hold for its samples. */
static void spoil_samples(const struct lull_nvml_gpu *gpu, struct nvml_sample *samples,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        samples[i].value.as_uint =
            lull_driver_spoil_power_mw(gpu->driver, samples[i].value.as_uint);
}

NVML_EXPORT(nvmlDeviceGetSamples, nvmlDevice_t device, int type, unsigned long long last_us,
            int *value_type_out, unsigned *count, struct nvml_sample *samples)
{
    struct nvml_sample kept[LULL_PHYSICS_SAMPLES];
    uint32_t length;

    NVML_ENTER(nvml_enter_reading(device, count, &gpu));
    if (value_type_out == NULL || (samples != NULL && *count == 0))
        return NVML_INVALID_ARGUMENT;
    if (nvml_is_partitioned(gpu) && type != SAMPLE_POWER && type != SAMPLE_SM_MHZ &&
        type != SAMPLE_MEMORY_MHZ)
        return NVML_NOT_SUPPORTED;
    LULL_DRIVER_CHECK(list_samples(gpu, type, last_us, kept, &length));
    *value_type_out = NVML_VALUE_UINT;
    if (samples == NULL) {
        *count = LULL_PHYSICS_SAMPLES;
        return NVML_SUCCESS;
    }
    if (length == 0)
        return NVML_NOT_FOUND;
    if (type == SAMPLE_POWER)
        spoil_samples(gpu, kept, length);
    *count = length < *count ? length : *count;
    for (uint32_t i = 0; i < *count; i++)
        samples[i] = kept[i];
    return NVML_SUCCESS;
}

/* ---- GPM: metrics between two samples, since Hopper ---- */

struct nvml_gpm_sample {
    struct lull_physics_activity activity;
    double busy_s;
    double time_s;
    uint32_t link_count;
    struct nvml_gpm_sample *next;
};

/* The samples of the process, so that any other pointer is refused. */
static pthread_mutex_t gpm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvml_gpm_sample *gpm_samples;

static struct nvml_gpm_sample **gpm_find(const struct nvml_gpm_sample *sample)
{
    struct nvml_gpm_sample **at = &gpm_samples;

    while (*at != NULL && *at != sample)
        at = &(*at)->next;
    return at;
}

NVML_EXPORT(nvmlGpmSampleAlloc, struct nvml_gpm_sample **sample_out)
{
    struct nvml_gpm_sample *sample;

    LULL_DRIVER_CHECK(nvml_ready());
    if (sample_out == NULL)
        return NVML_INVALID_ARGUMENT;
    sample = calloc(1, sizeof(*sample));
    if (sample == NULL)
        return NVML_MEMORY;
    pthread_mutex_lock(&gpm_lock);
    sample->next = gpm_samples;
    gpm_samples = sample;
    pthread_mutex_unlock(&gpm_lock);
    *sample_out = sample;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlGpmSampleFree, struct nvml_gpm_sample *sample)
{
    struct nvml_gpm_sample **at;
    struct nvml_gpm_sample *found;

    LULL_DRIVER_CHECK(nvml_ready());
    pthread_mutex_lock(&gpm_lock);
    at = gpm_find(sample);
    found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&gpm_lock);
    if (found == NULL)
        return NVML_INVALID_ARGUMENT;
    free(found);
    return NVML_SUCCESS;
}

static bool has_gpm(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.architecture >= ARCHITECTURE_HOPPER;
}

NVML_EXPORT(nvmlGpmQueryDeviceSupport, nvmlDevice_t device, struct nvml_gpm_support *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != 1)
        return NVML_VERSION_MISMATCH;
    out->is_supported = has_gpm(gpu);
    return NVML_SUCCESS;
}

static void take_gpm_sample(const struct lull_nvml_gpu *gpu, struct nvml_gpm_sample *sample)
{
    const struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);

    sample->activity = lull_physics_activity_of(physics);
    sample->time_s = (double)physics->now_ns * 1e-9;
    sample->busy_s = (double)physics->busy_ns * 1e-9;
    if (lull_physics_is_busy(physics))
        sample->busy_s += (double)(physics->now_ns - physics->folded_ns) * 1e-9;
    sample->link_count = gpu->model.nvlink_count;
    lull_node_end(gpu->node, gpu->index, false);
}

NVML_EXPORT(nvmlGpmSampleGet, nvmlDevice_t device, struct nvml_gpm_sample *sample)
{
    int code = NVML_INVALID_ARGUMENT;

    NVML_ENTER(nvml_enter_reading(device, sample, &gpu));
    if (!has_gpm(gpu))
        return NVML_NOT_SUPPORTED;
    if (!lull_driver_may_profile(gpu->driver))
        return NVML_NO_PERMISSION;
    pthread_mutex_lock(&gpm_lock);
    if (*gpm_find(sample) != NULL) {
        take_gpm_sample(gpu, sample);
        code = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&gpm_lock);
    return code;
}

enum {
    GPM_GRAPHICS = 1,
    GPM_SM = 2,
    GPM_TENSOR = 5,
    GPM_MEMORY = 10,
    GPM_PCIE_TX = 20,
    GPM_PCIE_RX = 21,
    GPM_NVLINK_RX = 60,
    GPM_NVLINK_TX = 61,
    GPM_LINK_FIRST = 62, /* two ids for each link */
    GPM_LINK_LAST = 97,
};

/* What happened between two samples. */
struct gpm_difference {
    double seconds;
    double busy_s;
    struct lull_physics_activity activity;
    uint32_t link_count;
};

static double gpm_mib_per_s(const struct gpm_difference *difference, double bytes)
{
    return bytes / difference->seconds / (1 << 20);
}

static int gpm_nvlink(const struct gpm_difference *difference, uint32_t id, double *value_out)
{
    const double mib_per_s = gpm_mib_per_s(difference, difference->activity.nvlink_bytes);
    const uint32_t link = (id - GPM_LINK_FIRST) / 2;

    if (difference->link_count == 0 || (id >= GPM_LINK_FIRST && link >= difference->link_count))
        return NVML_NOT_SUPPORTED;
    *value_out = id >= GPM_LINK_FIRST ? mib_per_s / difference->link_count : mib_per_s;
    return NVML_SUCCESS;
}

static int gpm_metric(const struct gpm_difference *difference, uint32_t id, double *value_out)
{
    const double percent = 100.0 / difference->seconds;

    switch (id) {
    case GPM_GRAPHICS:
        *value_out = difference->busy_s * percent;
        return NVML_SUCCESS;
    case GPM_SM:
        *value_out = difference->activity.sm * percent;
        return NVML_SUCCESS;
    case GPM_TENSOR:
        *value_out = difference->activity.tensor * percent;
        return NVML_SUCCESS;
    case GPM_MEMORY:
        *value_out = difference->activity.memory * percent;
        return NVML_SUCCESS;
    case GPM_PCIE_TX:
    case GPM_PCIE_RX:
        *value_out = gpm_mib_per_s(difference, difference->activity.pcie_bytes);
        return NVML_SUCCESS;
    default:
        if (id < GPM_NVLINK_RX || id > GPM_LINK_LAST)
            return NVML_NOT_SUPPORTED; /* the emulation does not know this */
        return gpm_nvlink(difference, id, value_out);
    }
}

static struct gpm_difference gpm_subtract(const struct nvml_gpm_sample *from,
                                          const struct nvml_gpm_sample *to)
{
    return (struct gpm_difference){
        .seconds = to->time_s - from->time_s,
        .busy_s = to->busy_s - from->busy_s,
        .activity = {.sm = to->activity.sm - from->activity.sm,
                     .tensor = to->activity.tensor - from->activity.tensor,
                     .memory = to->activity.memory - from->activity.memory,
                     .nvlink_bytes = to->activity.nvlink_bytes - from->activity.nvlink_bytes,
                     .pcie_bytes = to->activity.pcie_bytes - from->activity.pcie_bytes},
        .link_count = to->link_count,
    };
}

NVML_EXPORT(nvmlGpmMetricsGet, struct nvml_gpm_request *request)
{
    struct gpm_difference difference = {0};

    LULL_DRIVER_CHECK(nvml_ready());
    if (request == NULL || request->samples[0] == NULL || request->samples[1] == NULL)
        return NVML_INVALID_ARGUMENT;
    if (request->version != 1)
        return NVML_VERSION_MISMATCH;
    pthread_mutex_lock(&gpm_lock);
    if (*gpm_find(request->samples[0]) != NULL && *gpm_find(request->samples[1]) != NULL)
        difference = gpm_subtract(request->samples[0], request->samples[1]);
    pthread_mutex_unlock(&gpm_lock);
    if (!(difference.seconds > 0))
        return NVML_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < request->count; i++)
        request->metrics[i].code =
            gpm_metric(&difference, request->metrics[i].id, &request->metrics[i].value);
    return NVML_SUCCESS;
}
