/*
 * The first word of CUDA_VISIBLE_DEVICES decides whether all are numbers or UUIDs. A word that
 * names no GPU ends the list, and a GPU named twice empties it. Numbers are read as by strtoul:
 * "1x" is 1. This is what PyTorch's parser (torch/cuda/__init__.py) and the CUDA programming guide
 * state. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/cuda/cuda_devices.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/driver.h"

static struct lull_gpu_model read_model(struct lull_node *node, uint32_t gpu)
{
    const struct lull_gpu_model model = lull_node_begin(node, gpu)->model;

    lull_node_end(node, gpu, false);
    return model;
}

/* By default the fastest GPU comes first. How CUDA estimates that is not published: here it is the
 * product of cores and clock. */
static double estimate_speed(struct lull_node *node, uint32_t gpu)
{
    const struct lull_gpu_model model = read_model(node, gpu);

    return model.core_count * model.sm_max_mhz;
}

static bool has_nvidia(struct lull_node *node)
{
    for (uint32_t gpu = 0; gpu < lull_node_gpu_count(node); gpu++)
        if (read_model(node, gpu).vendor == LULL_GPU_NVIDIA)
            return true;
    return false;
}

/* Lists the GPUs of NVIDIA in the order of CUDA_DEVICE_ORDER; of a node that has none, all: there
 * the player's jobs use this library in the place of the other vendors'. */
static void list_in_order(struct lull_node *node, struct lull_cuda_devices *out)
{
    const char *const order = getenv("CUDA_DEVICE_ORDER");
    const bool is_for_others = !has_nvidia(node);
    const bool is_by_bus = order != NULL && strcmp(order, "PCI_BUS_ID") == 0;

    out->count = 0;
    for (uint32_t gpu = 0; gpu < lull_node_gpu_count(node); gpu++) {
        uint32_t at = out->count;

        if (!is_for_others && read_model(node, gpu).vendor != LULL_GPU_NVIDIA)
            continue;
        for (; !is_by_bus && at > 0; at--) {
            if (estimate_speed(node, out->gpus[at - 1]) >= estimate_speed(node, gpu))
                break;
            out->gpus[at] = out->gpus[at - 1];
        }
        out->gpus[at] = gpu;
        out->count++;
    }
}

/* Returns the place of the only GPU whose UUID begins so; -1: there is none, or there are several.
 * Partitions (MIG-) are no devices of the emulated node. */
static long find_uuid(struct lull_node *node, const struct lull_cuda_devices *all, const char *word)
{
    long place = -1;

    if (strncmp(word, "GPU-", 4) != 0)
        return -1;
    for (uint32_t i = 0; i < all->count; i++) {
        uint64_t identity[2];
        char uuid[LULL_DRIVER_UUID_BYTES];

        lull_driver_identify(node, all->gpus[i], identity);
        lull_driver_write_uuid(identity, uuid);
        if (strncmp(uuid, word, strlen(word)) != 0)
            continue;
        if (place >= 0)
            return -1;
        place = i;
    }
    return place;
}

static long find_number(const struct lull_cuda_devices *all, const char *word)
{
    char *end;
    const long number = strtol(word, &end, 10);

    return end != word && number >= 0 && number < (long)all->count ? number : -1;
}

static bool is_listed(const struct lull_cuda_devices *devices, uint32_t gpu)
{
    for (uint32_t i = 0; i < devices->count; i++)
        if (devices->gpus[i] == gpu)
            return true;
    return false;
}

static void select_visible(struct lull_node *node, const struct lull_cuda_devices *all, char *words,
                           struct lull_cuda_devices *out)
{
    const bool is_by_uuid = strncmp(words, "GPU-", 4) == 0 || strncmp(words, "MIG-", 4) == 0;
    char *rest = words;
    char *word;

    out->count = 0;
    while ((word = strsep(&rest, ",")) != NULL) {
        const long place = is_by_uuid ? find_uuid(node, all, word) : find_number(all, word);

        if (place < 0)
            return;
        if (is_listed(out, all->gpus[place])) {
            out->count = 0;
            return;
        }
        out->gpus[out->count++] = all->gpus[place];
    }
}

void lull_cuda_devices_find(struct lull_node *node, struct lull_cuda_devices *out)
{
    const char *const visible = getenv("CUDA_VISIBLE_DEVICES");
    struct lull_cuda_devices all;
    char *words;

    list_in_order(node, &all);
    *out = all;
    if (visible == NULL)
        return;
    words = strdup(visible);
    out->count = 0;
    if (words != NULL)
        select_visible(node, &all, words, out);
    free(words);
}
