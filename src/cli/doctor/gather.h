/*
 * Collects the facts of `lull doctor`: from the driver, from lulld, and from files of the node. It
 * changes nothing, except that each GPU that is free is leased for a moment, to learn whether lulld
 * permits it. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_DOCTOR_GATHER_H
#define LULL_CLI_DOCTOR_GATHER_H

#include "cli/doctor/facts.h"

struct lull_doctor_sources {
    const char *runtime_dir; /* of lulld */
    const char *root;        /* the directory that contains /proc, /sys, /dev and /etc; "": / */
};

/* Collects all facts. Missing ones stay unknown. */
void lull_doctor_gather(const struct lull_doctor_sources *sources,
                        struct lull_doctor_facts *facts_out);

/* The part about the node's files. */
void lull_doctor_gather_node(const char *root, struct lull_doctor_facts *facts);

#endif
