/*
 * The command line of `lull simulate cluster` for jobs in queues, in parts: what is simulated, and
 * how the run is judged and shown. Each part is one group of options and is handed only to the
 * files that need it. Texts are those of argv. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_SCENARIO_OPTIONS_H
#define LULL_CLUSTER_CLI_SIMULATE_SCENARIO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "cluster/cli/simulate/certificate.h"
#include "cluster/core/network/contention.h"
#include "cluster/core/policy/policy.h"
#include "cluster/simulator/job_classes.h"

enum { LULL_SCENARIO_MAX_TYPES = 4, LULL_SCENARIO_MAX_ELASTIC = 16 };

/* The jobs, the nodes, and the operating points that jobs have on the GPUs. */
struct lull_scenario_model_options {
    const char *path;  /* of the table of jobs, an operand */
    const char *pools; /* a table of virtual clusters; null: all nodes are one pool */
    int64_t nodes;     /* of the one pool; 0: given by --pools or --gpu-types */
    int64_t gpus_per_node;
    double run_w;        /* power of a GPU with a job if type_count is 0 */
    double idle_w;       /* power of a GPU without a job; below 0: that of its model */
    double value_ratio;  /* value over energy of jobs whose value the table lacks; 0: no value */
    bool is_preemptible; /* whether jobs may be stopped if the table does not specify it */
    /* The types of GPU in the cluster. The table's durations are those on the first type. */
    struct lull_job_type types[LULL_SCENARIO_MAX_TYPES];
    int64_t type_nodes[LULL_SCENARIO_MAX_TYPES]; /* 0: given by --nodes or --pools */
    uint32_t type_count; /* 0: no model is named, and each job has one operating point */
    bool has_clocks;     /* jobs have operating points at lower clocks */
    bool has_pipelines;  /* large compute jobs are pipelines, with the planner's plans */
    uint32_t job_class;  /* of all jobs; LULL_JOB_CLASSES: known from the table, else drawn */
    int64_t seed;        /* of drawn classes */
    int64_t elastic;     /* jobs may have this many times fewer or more GPUs: a power of two */
    enum lull_job_network network; /* the network between the GPUs of a job */
    const char *rates;             /* a table of speeds by type of GPU; null: none */
    const char *models;            /* a document of `lull model fit`; null: none */
    const char *points;            /* a table of operating points by job_type; null: none */
};

/* The policy's parameter, the comparison, and the evaluation of the run. */
struct lull_scenario_policy_options {
    const struct lull_cluster_policy_ops *ops; /* null: several are compared */
    bool has_knob;
    double knob;
    const char *compare; /* names of policies to compare; null: one policy runs */
    const char *sweep;   /* a range of values of the policy's knob; null: one value */
    bool is_bounded;     /* --bound was given */
    double bound_slot_s; /* the length of its slots; 0: a 288th of the run */
    struct lull_certificate_effort certificate;
};

/* Nodes that are turned off, power caps, and what energy costs. */
struct lull_scenario_power_options {
    bool turns_nodes_off;
    double turn_on_j;   /* of a node */
    int64_t turn_on_ns; /* of a node */
    double off_w;       /* of a node that is off */
    double cap_w;       /* of the cluster; 0: none */
    double node_cap_w;  /* of a node; 0: none */
    double peak_ratio;  /* peak power of a job over its mean */
    const char *price;  /* a tariff; null: none */
    const char *carbon; /* a tariff; null: none */
};

/* Failures of nodes, and checkpoints of jobs. */
struct lull_scenario_failure_options {
    const char *table;     /* null: none */
    int64_t mtbf_ns;       /* mean time between random failures of a node; 0: none */
    int64_t repair_ns;     /* duration of a random failure */
    int64_t seed;          /* of random failures */
    int64_t checkpoint_ns; /* interval between checkpoints of a job; 0: none */
};

/* Links and a storage that jobs share. */
struct lull_scenario_network_options {
    struct lull_contention_rules contention;
    int64_t rack_nodes; /* nodes of a rack; 0: there are no racks */
};

/* The outputs that the user requests: printed, written and drawn; a null name: no output of that
 * kind. */
struct lull_scenario_output_options {
    bool is_json;
    const char *jobs_out;  /* a table of when and where each job ran */
    const char *power_out; /* a table of the cluster's power */
    const char *gantt;     /* a picture */
    const char *explain;   /* the name or number of a job */
};

struct lull_scenario_options {
    struct lull_scenario_model_options model;
    struct lull_scenario_policy_options policy;
    struct lull_scenario_power_options power;
    struct lull_scenario_failure_options failures;
    struct lull_scenario_network_options network;
    struct lull_scenario_output_options output;
};

/* The rows of all parts, whose struct is lull_scenario_options. */
extern const struct lull_option lull_scenario_rows[];

/* Sets the defaults that no row has. options: a struct lull_scenario_options. */
void lull_scenario_options_prepare(void *options);

/* Checks combinations of options, which the rows cannot express. -EINVAL: invalid combination. */
int lull_scenario_options_check(struct lull_scenario_options *options, struct lull_error *err);

#endif
