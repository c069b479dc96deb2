/*
 * Measures the cost of switching SM clocks on this node's GPUs, through the same actuator that
 * manages jobs: GPUs are leased, clocks are read back, and restored even after a crash.
 *
 * An idle GPU does not show when a clock has settled, so the GPUs must be busy: with a job that
 * runs already, or with a command that is started for the measurement and ended afterwards.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_CALIBRATE_H
#define LULL_GOVERNOR_CONTROL_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "governor/control/calibration_file.h"

struct lull_calibrate_options {
    const char *runtime_dir;
    bool no_daemon;
    const uint32_t *gpus; /* the GPUs to measure, as devices numbers them */
    uint32_t gpu_count;   /* from 1 to LULL_DEVICE_MAX_GPUS */
    uint32_t rounds;      /* number of switches to each target and back: from 1 to
                           * LULL_CALIBRATION_SWITCHES */
    char *const *command; /* keeps the GPUs busy, its output goes to standard error; NULL: none */
    bool (*is_stopped)(void *context); /* called often; true ends the measurement */
    void (*progress)(void *context, uint32_t done, uint32_t total); /* called after each round */
    void *context;
};

/* The outcome for one GPU. */
struct lull_calibrate_outcome {
    uint32_t rounds;          /* number of switches in the record; 0: none */
    struct lull_error reason; /* the reason why it was skipped; code 0: it was not */
};

/*
 * Fills one record and one outcome for each GPU of options. A GPU that is leased by another
 * program, that is idle or becomes so, or whose driver refuses, is skipped; the others are
 * measured. The targets are the lowest clock and those at a quarter, a half and three quarters of
 * the way down. A round of one target takes about 0.1 s on each GPU. Errors, after which the
 * outcomes show the partial results: the reason of the first GPU if every GPU is skipped; -EAGAIN
 * the command has ended; -EINTR stopped; those of the actuator.
 */
int lull_calibrate(struct lull_devices *devices, const struct lull_calibrate_options *options,
                   struct lull_calibration_record *records_out,
                   struct lull_calibrate_outcome *outcomes_out, struct lull_error *err);

#endif
