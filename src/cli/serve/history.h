/*
 * The power of each GPU over the last minute, a value per second. Threads: one at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_HISTORY_H
#define LULL_CLI_SERVE_HISTORY_H

#include <math.h>
#include <stdint.h>

#include <jansson.h>

#include "device/device.h"

enum { LULL_SERVE_SECONDS = 60 };

/* Read a GPU's values from `next`, the oldest, around. NAN: it was not known. */
struct lull_serve_history {
    uint32_t next;
    float power_w[LULL_DEVICE_MAX_GPUS][LULL_SERVE_SECONDS];
};

static inline void lull_serve_history_init(struct lull_serve_history *history)
{
    history->next = 0;
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        for (uint32_t i = 0; i < LULL_SERVE_SECONDS; i++)
            history->power_w[gpu][i] = NAN;
}

/* Adds a second: the power of the GPUs of a document. */
static inline void lull_serve_history_add(struct lull_serve_history *history, const json_t *gpus)
{
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++) {
        const json_t *const power = json_object_get(json_array_get(gpus, gpu), "power_w");

        history->power_w[gpu][history->next] =
            json_is_number(power) ? (float)json_number_value(power) : NAN;
    }
    history->next = (history->next + 1) % LULL_SERVE_SECONDS;
}

#endif
