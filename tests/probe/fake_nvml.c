/*
 * Stands in for libnvidia-ml.so.1 in test_lull: two GPUs whose counters grow by 100 J and 200 J
 * per second; no processes. FAKE_NVML_FAILS: no energy counter.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, GPUS = 2 };

static int gpus[GPUS];

int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu);
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules);

int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = GPUS;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu)
{
    if (index >= GPUS)
        return INVALID_ARGUMENT;
    *gpu = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu)
{
    return nvmlDeviceGetHandleByIndex_v2(strcmp(uuid, "GPU-b") == 0 ? 1 : GPUS, gpu);
}

int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules)
{
    struct timespec now;

    if (getenv("FAKE_NVML_FAILS") != NULL)
        return NOT_SUPPORTED;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules =
        ((unsigned long long)now.tv_sec * 1000ULL + (unsigned long long)now.tv_nsec / 1000000ULL) *
        (gpu == &gpus[0] ? 100ULL : 200ULL);
    return SUCCESS;
}
