/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/visible_gpus.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * The variables that narrow the list of GPUs, by vendor. The first pair narrows the whole list, the
 * second one what the first has left; of a pair only the first variable that is set counts. That is
 * how the vendors' own libraries read them, and how the job will number its GPUs.
 */
static const struct narrowing {
    const char *vendor;
    const char *variables[2][2];
} narrowings[] = {
    {"nvidia", {{"CUDA_VISIBLE_DEVICES", NULL}, {NULL, NULL}}},
    {"amd", {{"ROCR_VISIBLE_DEVICES", NULL}, {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}}},
    {"intel", {{"ZE_AFFINITY_MASK", NULL}, {NULL, NULL}}},
};

/* Finds the place of the GPU whose UUID begins so. -1: none or several do, or it is a slice (MIG-),
 * whose clock is that of a whole GPU and not the job's alone. */
static long find_uuid(const struct lull_devices *devices, const char *begin, const uint32_t *gpus,
                      uint32_t count)
{
    uint32_t found = 0;
    long place = -1;

    for (uint32_t i = 0; i < count; i++) {
        const char *const uuid = lull_device_info(devices, gpus[i])->uuid;

        if (strcmp(uuid, begin) == 0)
            return (long)i;
        if (strncmp(begin, "GPU-", 4) != 0 || strncmp(uuid, begin, strlen(begin)) != 0)
            continue;
        found++;
        place = (long)i;
    }
    return found == 1 ? place : -1;
}

/* Finds the place in the list that a word means: an index, one with a stack (0.1), or a UUID or its
 * begin. -1: there is none. */
static long find_word(const struct lull_devices *devices, const char *word, const uint32_t *gpus,
                      uint32_t count)
{
    char *end;
    const long index = strtol(word, &end, 10);

    if (end != word && (*end == '\0' || *end == '.'))
        return index < (long)count ? index : -1;
    return find_uuid(devices, word, gpus, count);
}

static bool holds(const uint32_t *gpus, uint32_t count, uint32_t gpu)
{
    for (uint32_t i = 0; i < count; i++)
        if (gpus[i] == gpu)
            return true;
    return false;
}

/* Keeps of the list what the text names, in the text's order; returns how many. */
static uint32_t narrow(const struct lull_devices *devices, const char *text, uint32_t *gpus,
                       uint32_t count)
{
    uint32_t kept[LULL_DEVICE_MAX_GPUS];
    uint32_t kept_count = 0;
    char *copy = strdup(text);
    char *rest = NULL;

    for (char *word = copy == NULL ? NULL : strtok_r(copy, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        const long place = find_word(devices, word, gpus, count);

        /* Like CUDA: the first entry that does not exist ends the list. */
        if (place < 0 || kept_count == LULL_DEVICE_MAX_GPUS)
            break;
        if (!holds(kept, kept_count, gpus[place])) /* two stacks of one card count as one GPU */
            kept[kept_count++] = gpus[place];
    }
    free(copy);
    memcpy(gpus, kept, kept_count * sizeof(kept[0]));
    return kept_count;
}

/* Returns the variable of a pair that counts; NULL: neither is set. */
static const char *first_set(const char *const variables[2])
{
    for (size_t i = 0; i < 2 && variables[i] != NULL; i++)
        if (getenv(variables[i]) != NULL)
            return variables[i];
    return NULL;
}

static const struct narrowing *narrowing_of(const struct lull_devices *devices)
{
    for (size_t i = 0; i < sizeof(narrowings) / sizeof(narrowings[0]); i++)
        if (strcmp(narrowings[i].vendor, lull_devices_vendor(devices)) == 0)
            return &narrowings[i];
    return NULL;
}

uint32_t lull_visible_gpus(const struct lull_devices *devices, uint32_t *gpus_out,
                           uint32_t capacity)
{
    const struct narrowing *const narrowing = narrowing_of(devices);
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    uint32_t count = lull_devices_count(devices);

    for (uint32_t i = 0; i < count; i++)
        gpus[i] = i;
    for (size_t step = 0; narrowing != NULL && step < 2; step++) {
        const char *const variable = first_set(narrowing->variables[step]);
        const char *const text = variable != NULL ? getenv(variable) : NULL;

        if (text != NULL)
            count = narrow(devices, text, gpus, count);
    }
    if (count > capacity)
        count = capacity;
    memcpy(gpus_out, gpus, count * sizeof(gpus[0]));
    return count;
}

const char *lull_visible_gpus_variable(const struct lull_devices *devices)
{
    const struct narrowing *const narrowing = narrowing_of(devices);
    const char *variable = NULL;

    for (size_t step = 0; narrowing != NULL && variable == NULL && step < 2; step++)
        variable = first_set(narrowing->variables[step]);
    return variable != NULL ? variable : "no variable";
}
