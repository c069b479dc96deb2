/*
 * What a site insists on when jobs are submitted: lines KEY = VALUE, # begins a comment. Lines that
 * are no such settings count as if they were not there, so that a slip stops nobody's jobs.
 *
 * Threads: any. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_SUBMIT_SETTINGS_H
#define LULL_CLUSTER_SLURM_SUBMIT_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>

/* All zero: a site that insists on nothing. */
struct lull_submit_settings {
    bool is_default;        /* jobs that request nothing are managed, as plugstack.conf says too */
    bool requires_deadline; /* of jobs that are managed */
    bool refuses_frequency; /* --gpu-freq of jobs that are managed */
    bool is_scheduled;      /* batch jobs that request nothing are for lull schedule */
};

/* Describes the settings, as people read them. */
#define LULL_SUBMIT_SETTINGS                                                                       \
    "default = on|off, deadline = required|optional, gpu-freq = refused|allowed or "               \
    "schedule = on|off"

/* Takes what the file says to the settings; returns the number of the first line that says
 * something else, 0: there is none. */
unsigned lull_submit_settings_read(FILE *file, struct lull_submit_settings *settings);

#endif
