/*
 * A decider chooses the clocks of a job's GPUs. It is the section controller (section_decider.c),
 * or a runner of pipeline plans (plan/plan_decider.c). The control loop reads the probes' events
 * and the driver's answers, passes them to the active decider, and posts its commands.
 *
 * GPUs are numbered as in the control. All functions run under the control's lock, on its thread
 * unless they say otherwise. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_DECIDER_H
#define LULL_GOVERNOR_CONTROL_DECIDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/switching/switch_cost.h"
#include "core/section/controller/controller.h"
#include "device/device.h"
#include "governor/run/run_log.h"
#include "wire/event.h"

/* The reasons for holding all GPUs at the reference, as bits. */
enum lull_hold {
    LULL_HOLD_LEASES = 1 << 0, /* there are no leases, so no command reaches a GPU */
    LULL_HOLD_NODES = 1 << 1,  /* the job's nodes have not agreed */
    LULL_HOLD_CAP = 1 << 2, /* a GPU is capped, so the reference point is lower than normal: results
                               found there would not hold afterwards */
    LULL_HOLD_SMOOTHING = 1 << 3, /* a floor of power smoothing is being tested */
};

struct lull_decider {
    /* Text in reports for a GPU that it manages. NULL: reports have a text for each of its
     * states. */
    const char *gpu_text;

    /*
     * A rank starts on the GPU; has_predecessor: after another one. Returns false if the GPU cannot
     * be managed; then no event of the rank must be passed. On the main thread.
     */
    bool (*take_start)(void *state, uint32_t gpu, const struct lull_process_info *info,
                       bool has_predecessor);

    /* The rank on the GPU has left, or shares the GPU from now on. On either thread. */
    void (*take_exit)(void *state, uint32_t gpu);

    /* The GPU's rank has reported an event other than EXIT and those of energy windows. */
    void (*take_event)(void *state, uint32_t gpu, const struct lull_event *event);

    /* A command has been executed, or refused. */
    void (*take_switch)(void *state, uint32_t gpu, const struct lull_switch_outcome *outcome);

    /* A driver call for the GPU has returned, blocked_ms after it began. */
    void (*take_blocked)(void *state, uint32_t gpu, int64_t now_ns, double blocked_ms);

    /* The waiting time of the oldest unanswered request to any GPU; 0: none. */
    void (*take_waiting)(void *state, int64_t now_ns, double waiting_ms);

    /* The GPU's power was read at a time. On the main thread. NULL: it needs none. */
    void (*take_power)(void *state, uint32_t gpu, int64_t time_ns, double power_w);

    /* Something other than clocks may have slowed the job since the last reading of the GPU: heat,
     * or an error reported by its driver. On the main thread. */
    void (*take_disturbance)(void *state, uint32_t gpu);

    /* The reasons to stay at the reference have changed: enum lull_hold, 0 without one. On either
     * thread. */
    void (*hold)(void *state, uint32_t reasons);

    /* Writes the commands that are due, at most max; returns how many. */
    uint32_t (*poll)(void *state, int64_t now_ns, struct lull_command *commands_out, uint32_t max);

    /* Enters ended sections and iterations into the run logs, once the commands are posted. NULL:
     * nothing to do. */
    void (*record)(void *state);

    /* Returns the latest time of the next poll; INT64_MAX: only after the next event. */
    int64_t (*wake_ns)(const void *state);

    /* Returns whether it has finished. On either thread. */
    bool (*has_settled)(const void *state);
};

#endif
