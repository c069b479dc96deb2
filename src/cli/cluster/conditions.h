/*
 * What happens to a simulated cluster beside its jobs, on the command line: nodes that are turned
 * off or fail, prices, power caps, links and a storage that jobs share. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_CONDITIONS_H
#define LULL_CLI_CLUSTER_CONDITIONS_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "simulator/cluster/engine.h"
#include "trace/tariff.h"

struct lull_conditions_options {
    bool turns_nodes_off;
    double turn_on_j;     /* of a node */
    int64_t turn_on_ns;   /* of a node */
    double off_w;         /* of a node */
    const char *failures; /* NULL: none */
    int64_t mtbf_ns;      /* of a node; 0: none at random */
    int64_t repair_ns;
    int64_t checkpoint_ns; /* of all jobs; 0: never */
    int64_t seed;
    double cap_w; /* 0: none */
    double node_cap_w;
    double peak_ratio;
    const char *price; /* NULL: none */
    const char *carbon;
    struct lull_contention_rules contention;
    int64_t rack_nodes; /* 0: no racks */
};

/* A child parser: its input is a struct lull_conditions_options, which it sets to defaults. */
extern const struct argp lull_conditions_argp;

struct lull_conditions {
    struct lull_cluster_conditions all;
    struct lull_cluster_failure *failures;
    struct lull_tariff_table price;
    struct lull_tariff_table carbon;
};

/* What it says of nodes, into types of GPU. */
void lull_conditions_apply_types(const struct lull_conditions_options *wish,
                                 struct lull_cluster_type *types, uint32_t count);

/* What it says of racks, into nodes. */
void lull_conditions_apply_racks(const struct lull_conditions_options *wish,
                                 struct lull_cluster_node *nodes, uint32_t count);

/*
 * Reads and draws what is wished for. Failures at random go on until the
 * longest job could have run after the last arrival. Errors: those of the readers,
 * lull_cluster_failures_draw.
 */
int lull_conditions_make(const struct lull_conditions_options *wish,
                         const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         struct lull_conditions *conditions_out, struct lull_error *err);
void lull_conditions_fini(struct lull_conditions *conditions);

/* What came of them, in lines for people; nothing where nothing was wished. */
void lull_conditions_print(const struct lull_conditions_options *wish,
                           const struct lull_cluster_run *run, size_t job_count, FILE *out);

/*
 * The same as fields: turn_ons turn_offs node_failures job_failures lost_s price carbon_g
 * power_cap_w node_cap_w shared_s sharing_jobs; null where not asked. -ENOMEM.
 */
int lull_conditions_json(const struct lull_conditions_options *wish,
                         const struct lull_cluster_run *run, size_t job_count, json_t *into);

#endif
