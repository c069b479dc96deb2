/* The command line of policies for gangs. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_CLUSTER_GANGS_OPTIONS_H
#define LULL_CLI_CLUSTER_GANGS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cluster/certificate.h"
#include "cli/cluster/gangs_modes.h"
#include "cli/cluster/conditions.h"

struct lull_gangs_options {
    bool has_policy;   /* else compare */
    const char *path;  /* of the jobs */
    const char *pools; /* NULL: one pool of all nodes */
    int64_t nodes;     /* without pools */
    int64_t gpus_per_node;
    double run_w;  /* of a GPU with a job, where no model is told */
    double idle_w; /* of one without; below 0: as the models' */
    struct lull_gangs_modes_options modes;
    struct lull_conditions_options conditions;
    bool has_knob;
    double knob; /* of the policy */
    bool is_preemptible;
    double value_ratio; /* of the energy of jobs whose value the table does not tell; 0: none */
    bool is_json;
    const char *jobs_out;  /* NULL: none */
    const char *power_out; /* NULL: none */
    const char *gantt;     /* NULL: none */
    const char *explain;   /* a job; NULL: none */
    const char *compare;   /* policies; NULL: not */
    const char *sweep;     /* settings of the policy's knob; NULL: not */
    bool is_bounded;       /* by lull-bound */
    double bound_slot_s;   /* 0: its own choice */
    struct lull_certificate_effort certificate;
};

/* has_policy: --policy was given, else --compare. Prints --help and usage errors itself, as argp
 * does, and then exits. Texts are those of argv. */
void lull_gangs_options_parse(int argc, char **argv, bool has_policy,
                              struct lull_gangs_options *options_out);

#endif
