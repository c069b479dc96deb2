/*
 * What a refused function returns: the code of an invalid argument first, then its refusal. The
 * functions are generated from data/nvml_functions.json. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_library.h"

/* Every versioned struct begins with its version word. */
static int refusal_check_version(const struct lull_nvml_refusal *refusal, const uint32_t *version)
{
    if (version == NULL)
        return NVML_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < NVML_REFUSAL_VERSIONS; i++)
        if (refusal->versions[i] != 0 && *version == refusal->versions[i])
            return NVML_SUCCESS;
    return NVML_VERSION_MISMATCH;
}

static int refusal_check(const struct lull_nvml_refusal *refusal, char check, uintptr_t argument)
{
    const struct lull_nvml_gpu *gpu;

    switch (check) {
    case 'd':
        return nvml_enter((nvmlDevice_t)argument, refusal, &gpu);
    case 's':
        return nvml_is_event_set((const void *)argument) ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
    case 'v':
        return refusal_check_version(refusal, (const uint32_t *)argument);
    case 'h':
        return NVML_INVALID_ARGUMENT;
    case 'p':
    case 'i':
        return argument != 0 ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
    default:
        return NVML_SUCCESS;
    }
}

int nvml_refuse(const struct lull_nvml_refusal *refusal, const uintptr_t *arguments)
{
    LULL_DRIVER_CHECK(nvml_ready());
    for (uint32_t i = 0; refusal->checks[i] != '\0'; i++)
        LULL_DRIVER_CHECK(refusal_check(refusal, refusal->checks[i], arguments[i]));
    return refusal->code;
}
