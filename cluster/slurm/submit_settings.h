/*
 * The site's settings for job submission: lines KEY = VALUE, # begins a comment. Invalid lines are
 * ignored, so that a typo does not block jobs.
 *
 * Threads: any. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_SUBMIT_SETTINGS_H
#define LULL_CLUSTER_SLURM_SUBMIT_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>

/* All zero: a site without requirements. */
struct lull_submit_settings {
    bool is_default; /* jobs that request nothing are managed, as set in plugstack.conf as well */
    bool requires_deadline; /* of jobs that are managed */
    bool refuses_frequency; /* --gpu-freq of jobs that are managed */
    bool is_scheduled;      /* batch jobs that request nothing are for lull-schedule */
};

/* Describes the settings, for messages. */
#define LULL_SUBMIT_SETTINGS                                                                       \
    "default = on|off, deadline = required|optional, gpu-freq = refused|allowed or "               \
    "schedule = on|off"

/* Reads the file into the settings; returns the number of the first invalid line, 0: there is
 * none. */
unsigned lull_submit_settings_read(FILE *file, struct lull_submit_settings *settings);

#endif
