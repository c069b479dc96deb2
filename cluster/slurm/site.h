/*
 * The site's settings: the arguments after the plugin's path in plugstack.conf.
 *
 * Threads: one. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_SITE_H
#define LULL_CLUSTER_SLURM_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/slurm/together.h"

enum { LULL_SITE_NAME = 512 };

struct lull_site {
    char program[LULL_SITE_NAME];
    char runtime_dir[LULL_SITE_NAME];
    char scheduler[LULL_SITE_NAME]; /* "": the program's name followed by -schedule */
    bool is_default;                /* jobs that request nothing are managed as well */
    bool is_scheduled;              /* and may have been placed by lull-schedule */
    int64_t start_ms;
    struct lull_together_ports ports; /* for steps of several nodes */
};

/* The default settings, once LULL_PROGRAM is defined as the program's path. The ports lie below
 * those that Linux gives to connections, and away from those that Slurm's manuals suggest. */
#define LULL_SITE_DEFAULT                                                                          \
    {                                                                                              \
        .program = LULL_PROGRAM, .runtime_dir = "/run/lull", .start_ms = 2000,                     \
        .ports = {28000, 29999},                                                                   \
    }

/* Describes the settings, for messages. */
#define LULL_SITE_SETTINGS                                                                         \
    "lull=PATH, runtime_dir=DIR, scheduler=PATH, start_ms=N, together_ports=FIRST-LAST, "          \
    "together_ports=off, default=on, default=off, schedule=on or schedule=off"

/* Applies one argument, NAME=VALUE, to the settings; false: it is none of the above. */
bool lull_site_take(struct lull_site *site, const char *word);

#endif
