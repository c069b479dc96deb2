/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/visible_gpus.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/*
 * The variables that narrow the list of GPUs, by vendor. The first pair narrows the whole list, and
 * the second one the result. Of a pair only the first variable that is set counts. The vendors'
 * libraries read them in this way, and the job numbers its GPUs
 * accordingly.
 */
static const struct narrowing {
    const char *vendor;
    bool is_cuda;
    const char *variables[2][2];
} narrowings[] = {
    {"nvidia", true, {{"CUDA_VISIBLE_DEVICES", NULL}, {NULL, NULL}}},
    {"amd",
     false,
     {{"ROCR_VISIBLE_DEVICES", NULL}, {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}}},
    {"intel", false, {{"ZE_AFFINITY_MASK", NULL}, {NULL, NULL}}},
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

/* By default CUDA numbers GPUs from the fastest to the slowest. It can be configured to number them
 * by their addresses, as NVML does. The other vendors' libraries do not guarantee an order. */
static bool has_bus_order(const struct lull_devices *devices)
{
    const char *const order = getenv("CUDA_DEVICE_ORDER");

    return lull_devices_count(devices) == 1 ||
           (strcmp(lull_devices_vendor(devices), "nvidia") == 0 && order != NULL &&
            strcmp(order, "PCI_BUS_ID") == 0);
}

/* GPUs of one model have the same numbers in all libraries, as far as is known. */
static bool has_one_model(const struct lull_devices *devices)
{
    for (uint32_t i = 1; i < lull_devices_count(devices); i++)
        if (strcmp(lull_device_info(devices, i)->name, lull_device_info(devices, 0)->name) != 0)
            return false;
    return true;
}

/* What a list of words selects. CUDA has rules of its own: the first word decides whether all are
 * UUIDs or numbers, "1x" is 1, and a GPU that is named twice hides all. */
struct visible_gpu_selection {
    bool is_cuda;
    bool is_numbered; /* the numbers are those of this list of devices */
    bool has_uuids;   /* the first word is a UUID */
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    uint32_t count;
};

/* Returns whether a word is an index. Other libraries than CUDA may add a stack of it: 0.1. */
static bool visible_gpu_is_number(const struct visible_gpu_selection *selection, const char *word)
{
    char *end;

    strtol(word, &end, 10);
    if (selection->is_cuda)
        return end != word && !selection->has_uuids;
    return end != word && (*end == '\0' || *end == '.');
}

/* Finds the place in the list that a word denotes. -1: there is none. */
static long visible_gpu_find_word(const struct lull_devices *devices,
                                  const struct visible_gpu_selection *selection, const char *word,
                                  const struct lull_visible_gpus *visible)
{
    const long index = strtol(word, NULL, 10);

    if (visible_gpu_is_number(selection, word))
        return index < (long)visible->count ? index : -1;
    if (selection->is_cuda && !selection->has_uuids)
        return -1;
    return find_uuid(devices, word, visible->gpus, visible->count);
}

static bool visible_gpu_holds(const uint32_t *gpus, uint32_t count, uint32_t gpu)
{
    for (uint32_t i = 0; i < count; i++)
        if (gpus[i] == gpu)
            return true;
    return false;
}

/* Takes a word. Returns false where it ends the list. */
static bool visible_gpu_select(const struct lull_devices *devices, const char *word,
                               struct lull_visible_gpus *visible,
                               struct visible_gpu_selection *selection)
{
    const long place = visible_gpu_find_word(devices, selection, word, visible);

    visible->has_slice = visible->has_slice || strncmp(word, "MIG-", 4) == 0;
    /* In each library the first entry that does not exist ends the list. */
    if (place < 0 || selection->count == LULL_DEVICE_MAX_GPUS)
        return false;
    if (!visible_gpu_holds(selection->gpus, selection->count, visible->gpus[place])) {
        selection->gpus[selection->count++] = visible->gpus[place];
        visible->is_by_number = visible->is_by_number ||
                                (!selection->is_numbered && visible_gpu_is_number(selection, word));
        return true;
    }
    if (!selection->is_cuda)
        return true; /* two stacks of one card are one GPU */
    selection->count = 0;
    visible->is_by_number = false;
    return false;
}

/* Reduces the list to the GPUs named in the text, in the text's order. */
static void visible_gpu_narrow(const struct lull_devices *devices, const char *text,
                               struct visible_gpu_selection selection,
                               struct lull_visible_gpus *visible)
{
    char *const copy = strdup(text);
    char *rest = copy;
    char *word;

    selection.has_uuids = strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0;
    while ((word = strsep(&rest, ",")) != NULL)
        if (!visible_gpu_select(devices, word, visible, &selection))
            break;
    free(copy);
    if (visible->is_by_number)
        return; /* a number may mean any of them */
    memcpy(visible->gpus, selection.gpus, selection.count * sizeof(selection.gpus[0]));
    visible->count = selection.count;
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

void lull_visible_gpus(const struct lull_devices *devices, struct lull_visible_gpus *visible_out)
{
    const struct narrowing *const narrowing = narrowing_of(devices);

    *visible_out = (struct lull_visible_gpus){.count = lull_devices_count(devices)};
    for (uint32_t i = 0; i < visible_out->count; i++)
        visible_out->gpus[i] = i;
    for (size_t step = 0; narrowing != NULL && step < 2; step++) {
        const struct visible_gpu_selection none = {.is_cuda = narrowing->is_cuda,
                                                   .is_numbered = has_bus_order(devices) ||
                                                                  has_one_model(devices)};
        const char *const variable = first_set(narrowing->variables[step]);
        const char *const text = variable != NULL ? getenv(variable) : NULL;

        if (text != NULL)
            visible_gpu_narrow(devices, text, none, visible_out);
    }
    visible_out->is_certain = visible_out->count == 1 && lull_devices_count(devices) == 1;
}

const char *lull_visible_gpus_variable(const struct lull_devices *devices)
{
    const struct narrowing *const narrowing = narrowing_of(devices);
    const char *variable = NULL;

    for (size_t step = 0; narrowing != NULL && variable == NULL && step < 2; step++)
        variable = first_set(narrowing->variables[step]);
    return variable != NULL ? variable : "no variable";
}

/* Appends the GPUs of the number or range at *at, and moves *at past it. Returns false where it is
 * none, or names a GPU that is not visible. */
static bool take_range(const char **at, const struct lull_visible_gpus *visible,
                       uint32_t gpus_out[LULL_DEVICE_MAX_GPUS], uint32_t *count)
{
    uint32_t first;
    uint32_t last;

    if (lull_text_take_digits(at, visible->count, &first) < 0)
        return false;
    last = first;
    if (**at == '-') {
        (*at)++;
        if (lull_text_take_digits(at, visible->count, &last) < 0 || last < first)
            return false;
    }
    for (uint32_t i = first; i <= last; i++) {
        if (*count == LULL_DEVICE_MAX_GPUS)
            return false;
        gpus_out[(*count)++] = visible->gpus[i];
    }
    return true;
}

static bool has_repeated(const uint32_t *gpus, uint32_t count)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < count; i++) {
        if ((seen & UINT64_C(1) << gpus[i]) != 0)
            return true;
        seen |= UINT64_C(1) << gpus[i];
    }
    return false;
}

int lull_visible_gpus_choose(const struct lull_devices *devices, const char *list,
                             uint32_t gpus_out[LULL_DEVICE_MAX_GPUS], uint32_t *count_out,
                             struct lull_error *err)
{
    struct lull_visible_gpus visible;
    const char *at = list;
    uint32_t count = 0;
    bool is_right = true;

    lull_visible_gpus(devices, &visible);
    if (visible.count == 0)
        return lull_error_set(err, LULL_E_NO_DEVICE, "no GPU is visible; check %s",
                              lull_visible_gpus_variable(devices));
    if (list == NULL) {
        memcpy(gpus_out, visible.gpus, visible.count * sizeof(visible.gpus[0]));
        *count_out = visible.count;
        return 0;
    }
    do {
        is_right = take_range(&at, &visible, gpus_out, &count) && (*at == ',' || *at == '\0');
        at += *at == ',';
    } while (is_right && *at != '\0');
    if (!is_right || has_repeated(gpus_out, count))
        return lull_error_set(err, -EINVAL,
                              "--gpus %.60s: must be different numbers below %u, which is how many "
                              "GPUs are visible, with commas, or ranges such as 0-3",
                              list, visible.count);
    *count_out = count;
    return 0;
}
