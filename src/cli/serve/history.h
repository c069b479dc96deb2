/*
 * The power of each GPU, and the energy per output token of each server, over the last minute: a
 * value per second. Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_HISTORY_H
#define LULL_CLI_SERVE_HISTORY_H

#include <math.h>
#include <stdint.h>

#include <jansson.h>

#include "device/device.h"
#include "wire/live.h"

enum { LULL_SERVE_SECONDS = 60, LULL_SERVE_SERVERS = 16 };

/* Read values from `next`, the oldest, around. NAN: it was not known. */
struct lull_serve_history {
    uint32_t next;
    float power_w[LULL_DEVICE_MAX_GPUS][LULL_SERVE_SECONDS];
    struct {
        char name[LULL_LIVE_WORD_BYTES]; /* of its run; "": the place is free */
        float j_per_token[LULL_SERVE_SECONDS];
    } servers[LULL_SERVE_SERVERS];
};

void lull_serve_history_init(struct lull_serve_history *history);

/* Adds a second: the figures of a document. */
void lull_serve_history_add(struct lull_serve_history *history, const json_t *document);

/* Returns the values of a server's run; NULL: there are none. */
const float *lull_serve_history_of(const struct lull_serve_history *history, const char *name);

#endif
