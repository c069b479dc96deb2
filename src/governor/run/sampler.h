/*
 * Sampler: reads a run's GPUs on a thread of its own, because a reading may hang in the driver for
 * seconds or permanently. In that case only samples are lost.
 *
 * The owner requests a round over the GPUs, continues, and takes the samples when they are
 * available.
 *
 * Threads: one owns it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_SAMPLER_H
#define LULL_GOVERNOR_RUN_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "governor/run/run_log.h"

struct lull_sampler;

struct lull_sampler_round {
    uint32_t wanted[LULL_DEVICE_MAX_GPUS]; /* fields to read of the Nth GPU, enum
                                            * lull_reading_field; 0: it is left out */
    bool lists;                            /* also list the processes that compute on each GPU */
};

/* Starts the thread, for the devices gpus[]; devices must live until stop. Errors: -errno. */
int lull_sampler_start(struct lull_devices *devices, const uint32_t *gpus, uint32_t gpu_count,
                       struct lull_sampler **sampler_out, struct lull_error *err);

/* Begins a round; samples that were not taken are dropped. False: the one before is not over. */
bool lull_sampler_ask(struct lull_sampler *sampler, const struct lull_sampler_round *round);

/* Takes one sample of the Nth GPU that was not taken yet, also while the round continues, with what
 * was wanted of it. False: there is none. */
bool lull_sampler_take(struct lull_sampler *sampler, uint32_t *gpu_out, uint32_t *wanted_out,
                       struct lull_sample *sample_out);

/* Takes a list of the Nth GPU's processes that was not taken yet. False: there is none. */
bool lull_sampler_take_list(struct lull_sampler *sampler, uint32_t *gpu_out,
                            struct lull_device_processes *list_out);

/* Waits until the round is over, at most until until_ns. False: it is not. */
bool lull_sampler_wait(struct lull_sampler *sampler, int64_t until_ns);

/* True if the driver has not returned from the reading of a GPU for a second; *gpu_out is its
 * number in gpus[]. */
bool lull_sampler_is_stuck(struct lull_sampler *sampler, int64_t now_ns, uint32_t *gpu_out);

/* Ends the thread and frees; NULL is allowed. Error: -EINPROGRESS it has not returned from the
 * driver at until_ns; do not close the devices in this process. */
int lull_sampler_stop(struct lull_sampler *sampler, int64_t until_ns);

#endif
