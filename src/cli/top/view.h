/*
 * View: the data of this node that `lull top` shows at one moment. It has the active runs, from the
 * state published by their governors (wire/live.h); the GPUs, read from their driver without
 * privileges; and the owners of leases, from lulld. Each of the three may be missing; a text then
 * has the reason.
 *
 * Threads: one; the driver is read on another (governor/run/sampler.h), because it may hang.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_TOP_VIEW_H
#define LULL_CLI_TOP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "wire/live.h"
#include "wire/message.h"

enum { LULL_TOP_MAX_RUNS = 32 };

struct lull_top_gpu {
    uint32_t index;
    const struct lull_device_info *info; /* NULL: its driver is not read here */
    struct lull_device_reading reading;
    bool is_stuck; /* the driver does not return from a reading */
    bool has_state;
    struct lull_message_state state; /* its state in lulld; only with has_state */
    bool has_run;                    /* a rank of a run uses it */
};

struct lull_top_view {
    char host[64];
    int64_t now_ns; /* CLOCK_MONOTONIC */
    struct lull_live_entry entries[LULL_TOP_MAX_RUNS];
    struct lull_live_run *runs[LULL_TOP_MAX_RUNS];
    uint32_t run_count;
    uint32_t gpu_count;
    struct lull_top_gpu gpus[LULL_DEVICE_MAX_GPUS];
    bool has_driver;
    struct lull_error no_driver; /* why there is none */
    bool has_daemon;
    struct lull_error no_daemon;
};

struct lull_top; /* source of the view */

/* Options of the view. pid_count 0 selects all runs. */
struct lull_top_options {
    const char *directory; /* directory that lists the runs */
    const char *runtime_dir;
    const int64_t *pids; /* only the runs of these governors */
    uint32_t pid_count;
};

/* Opens the available sources. options must live until close. Errors: -ENOMEM. */
int lull_top_open(const struct lull_top_options *options, struct lull_top **top_out,
                  struct lull_error *err);
void lull_top_close(struct lull_top *top);

/* Looks at everything again, waiting at most wait_ms for the driver; returns the view, which stays
 * valid until the next call. */
const struct lull_top_view *lull_top_look(struct lull_top *top, int wait_ms);

/* Returns the run's GPU that is this one, as the run sees it; NULL: no rank of it uses that. */
const struct lull_live_gpu *lull_top_gpu_of(const struct lull_live_run *run, const char *uuid);

#endif
