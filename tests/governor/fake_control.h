/*
 * A control of synthetic runs: a test writes the data that it reports for its GPUs. GPUS
 * is defined before this is included. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_GOVERNOR_FAKE_CONTROL_H
#define LULL_TESTS_GOVERNOR_FAKE_CONTROL_H

#include "governor/control/control.h"
#include "governor/run/run_log.h"

static struct lull_run_log logs[GPUS];
static struct lull_control_gpu states[GPUS];

static uint32_t count_fake(const struct lull_control *control)
{
    (void)control;
    return GPUS;
}

static const struct lull_control_gpu *gpu_fake(const struct lull_control *control, uint32_t gpu)
{
    (void)control;
    return &states[gpu];
}

static const struct lull_run_log *log_fake(const struct lull_control *control, uint32_t gpu)
{
    (void)control;
    return &logs[gpu];
}

#endif
