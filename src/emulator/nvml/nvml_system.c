/*
 * The system of the emulated node: its driver, confidential computing, units, events of the driver
 * and the affinity of threads. SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/nvml/nvml_library.h"

/* ---- the driver: its version is known before nvmlInit ---- */

NVML_EXPORT(nvmlSystemGetDriverVersion, char *version, unsigned size)
{
    LULL_DRIVER_CHECK(nvml_ready());
    return nvml_copy_text(lull_driver_release().version, version, size);
}

NVML_EXPORT(nvmlSystemGetNVMLVersion, char *version, unsigned size)
{
    const struct lull_release release = lull_driver_release();
    char text[40];

    snprintf(text, sizeof(text), "%u.%s", release.cuda / 1000, release.version);
    return nvml_copy_text(text, version, size);
}

NVML_EXPORT(nvmlSystemGetCudaDriverVersion, int *version_out)
{
    if (version_out == NULL)
        return NVML_INVALID_ARGUMENT;
    *version_out = (int)lull_driver_release().cuda;
    return NVML_SUCCESS;
}

NVML_ALIAS(nvmlSystemGetCudaDriverVersion_v2, nvmlSystemGetCudaDriverVersion);

NVML_EXPORT(nvmlSystemGetDriverBranch, struct nvml_branch *out, unsigned size)
{
    char text[16];

    LULL_DRIVER_CHECK(nvml_ready());
    if (out == NULL)
        return NVML_INVALID_ARGUMENT;
    if (out->version != NVML_VERSION_WORD(struct nvml_branch, 1u))
        return NVML_VERSION_MISMATCH;
    snprintf(text, sizeof(text), "r%u_00", lull_driver_release().branch);
    return nvml_copy_text(text, out->text, size < sizeof(out->text) ? size : sizeof(out->text));
}

/* ---- devices that the node does not have ---- */

static int count_none(unsigned *count_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (count_out == NULL)
        return NVML_INVALID_ARGUMENT;
    *count_out = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlUnitGetCount, unsigned *count_out)
{
    return count_none(count_out);
}

NVML_EXPORT(nvmlGetExcludedDeviceCount, unsigned *count_out)
{
    return count_none(count_out);
}

NVML_EXPORT(nvmlSystemGetHicVersion, unsigned *count_out, void *entries)
{
    (void)entries;
    return count_none(count_out);
}

/* ---- confidential computing is off ---- */

NVML_EXPORT(nvmlSystemGetConfComputeCapabilities, struct nvml_cc_capabilities *out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (out == NULL)
        return NVML_INVALID_ARGUMENT;
    *out = (struct nvml_cc_capabilities){0};
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlSystemGetConfComputeState, struct nvml_cc_state *out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (out == NULL)
        return NVML_INVALID_ARGUMENT;
    *out = (struct nvml_cc_state){0};
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlSystemGetConfComputeSettings, struct nvml_cc_settings *out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (out == NULL)
        return NVML_INVALID_ARGUMENT;
    if (out->version != NVML_VERSION_WORD(struct nvml_cc_settings, 1u))
        return NVML_VERSION_MISMATCH;
    *out = (struct nvml_cc_settings){.version = out->version};
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlSystemGetConfComputeGpusReadyState, unsigned *ready_out)
{
    return count_none(ready_out);
}

/* ---- affinity ---- */

enum { CPU_WORDS = CPU_SETSIZE / (8 * sizeof(unsigned long)) };

static int read_affinity(nvmlDevice_t device, unsigned long *mask)
{
    return nvmlDeviceGetCpuAffinity(device, CPU_WORDS, mask);
}

NVML_EXPORT(nvmlSystemGetTopologyGpuSet, unsigned cpu, unsigned *count, nvmlDevice_t *devices)
{
    const unsigned bits = 8 * sizeof(unsigned long);
    nvmlDevice_t found[LULL_NODE_MAX_GPUS];
    uint32_t length = 0;

    LULL_DRIVER_CHECK(nvml_ready());
    if (count == NULL || cpu >= CPU_SETSIZE)
        return NVML_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_gpu_count(); i++) {
        unsigned long mask[CPU_WORDS] = {0};

        LULL_DRIVER_CHECK(read_affinity(nvml_gpu_at(i), mask));
        if ((mask[cpu / bits] >> (cpu % bits) & 1) != 0)
            found[length++] = nvml_gpu_at(i);
    }
    if (*count == 0) { /* as nvmlDeviceGetTopologyNearestGpus: success with the size */
        *count = length;
        return NVML_SUCCESS;
    }
    return nvml_copy_list(found, length, sizeof(found[0]), count, devices);
}

static int set_affinity(const unsigned long *mask)
{
    cpu_set_t set;

    memcpy(&set, mask, sizeof(set));
    return sched_setaffinity(0, sizeof(set), &set) == 0 ? NVML_SUCCESS : NVML_UNKNOWN;
}

NVML_EXPORT(nvmlDeviceSetCpuAffinity, nvmlDevice_t device)
{
    unsigned long mask[CPU_WORDS] = {0};

    LULL_DRIVER_CHECK(read_affinity(device, mask));
    return set_affinity(mask);
}

NVML_EXPORT(nvmlDeviceClearCpuAffinity, nvmlDevice_t device)
{
    unsigned long mask[CPU_WORDS];

    NVML_ENTER(nvml_enter(device, device, &gpu));
    (void)gpu;
    memset(mask, 0xff, sizeof(mask));
    return set_affinity(mask);
}

/* ---- events of the driver: it is neither bound nor unbound while a node exists ---- */

enum { KNOWN_SYSTEM_EVENTS = 0x3, LOOK_PERIOD_MS = 10 };

struct nvml_system_set {
    struct nvml_system_set *next;
};

static pthread_mutex_t system_sets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvml_system_set *system_sets;

static struct nvml_system_set **find_system_set(const struct nvml_system_set *set)
{
    struct nvml_system_set **at = &system_sets;

    while (*at != NULL && *at != set)
        at = &(*at)->next;
    return at;
}

static bool is_system_set(const struct nvml_system_set *set)
{
    bool is_known;

    pthread_mutex_lock(&system_sets_lock);
    is_known = set != NULL && *find_system_set(set) != NULL;
    pthread_mutex_unlock(&system_sets_lock);
    return is_known;
}

/* Checks a request, which begins with its version word. */
static int enter_request(const void *request, uint32_t version)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (request == NULL)
        return NVML_INVALID_ARGUMENT;
    return *(const uint32_t *)request == version ? NVML_SUCCESS : NVML_VERSION_MISMATCH;
}

NVML_EXPORT(nvmlSystemEventSetCreate, struct nvml_system_set_request *request)
{
    struct nvml_system_set *set;

    LULL_DRIVER_CHECK(
        enter_request(request, NVML_VERSION_WORD(struct nvml_system_set_request, 1u)));
    set = calloc(1, sizeof(*set));
    if (set == NULL)
        return NVML_MEMORY;
    pthread_mutex_lock(&system_sets_lock);
    set->next = system_sets;
    system_sets = set;
    pthread_mutex_unlock(&system_sets_lock);
    request->set = set;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlSystemEventSetFree, struct nvml_system_set_request *request)
{
    struct nvml_system_set **at;
    struct nvml_system_set *found;

    LULL_DRIVER_CHECK(
        enter_request(request, NVML_VERSION_WORD(struct nvml_system_set_request, 1u)));
    pthread_mutex_lock(&system_sets_lock);
    at = find_system_set(request->set);
    found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&system_sets_lock);
    free(found);
    return found != NULL ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

NVML_EXPORT(nvmlSystemRegisterEvents, struct nvml_system_register *request)
{
    LULL_DRIVER_CHECK(enter_request(request, NVML_VERSION_WORD(struct nvml_system_register, 1u)));
    if (!is_system_set(request->set) || (request->types & ~(uint64_t)KNOWN_SYSTEM_EVENTS) != 0)
        return NVML_INVALID_ARGUMENT;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlSystemEventSetWait, struct nvml_system_wait *request)
{
    int64_t until_ns;

    LULL_DRIVER_CHECK(enter_request(request, NVML_VERSION_WORD(struct nvml_system_wait, 1u)));
    if (request->data == NULL)
        return NVML_INVALID_ARGUMENT;
    until_ns = lull_now_ns() + request->timeout_ms * LULL_NS_PER_MS;
    for (;;) {
        LULL_DRIVER_CHECK(nvml_ready());
        if (!is_system_set(request->set))
            return NVML_INVALID_ARGUMENT;
        if (lull_now_ns() >= until_ns)
            break;
        lull_sleep_until_ns(
            lull_earlier_ns(until_ns, lull_now_ns() + LOOK_PERIOD_MS * LULL_NS_PER_MS));
    }
    request->event_count = 0;
    return NVML_TIMEOUT;
}
