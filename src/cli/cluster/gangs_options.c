/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/gangs_options.h"

#include <argp.h>
#include <errno.h>

#include "base/text.h"
#include "core/cluster/cluster.h"

enum {
    KEY_POOLS = 256,
    KEY_NODES,
    KEY_PER_NODE,
    KEY_RUN,
    KEY_IDLE,
    KEY_JOBS,
    KEY_POWER,
    KEY_GANTT,
    KEY_EXPLAIN,
    KEY_COMPARE,
    KEY_SWEEP,
    KEY_KNOB,
    KEY_PREEMPTIBLE,
    KEY_BOUND,
    KEY_VALUE,
    KEY_SLOTS,
    KEY_STEPS
};

/* Of a value over the energy of its job. */
#define MOST_VALUE_RATIO 1e6

static const struct argp_option options[] = {
    {"pools", KEY_POOLS, "FILE", 0,
     "Virtual clusters of their own: a table vc,nodes; jobs of others are rejected", 0},
    {"nodes", KEY_NODES, "N", 0, "Without --pools: nodes of the one cluster", 0},
    {"gpus-per-node", KEY_PER_NODE, "N", 0, "GPUs of a node (8)", 0},
    {"run-w", KEY_RUN, "W", 0, "Of a GPU that has a job (350), without --gpu", 0},
    {"idle-w", KEY_IDLE, "W", 0, "Of one of a node that is on that has none (60, or the model's)",
     0},
    {"knob", KEY_KNOB, "VALUE", 0,
     "What the policy trades time for energy by, if it has such a number: see `lull "
     "simulate cluster --help`",
     0},
    {"preemptible", KEY_PREEMPTIBLE, NULL, 0,
     "Jobs may be stopped for others; they go on after 7 to 60 s, by their GPUs", 0},
    {"value", KEY_VALUE, "FACTOR", 0,
     "Jobs are worth so many times the energy that they take at full clocks, if they end in time "
     "and the table has no value_j for them; policies may reject those that pay less",
     0},
    {"jobs-out", KEY_JOBS, "FILE", 0, "Write when and where each job ran, and why then (CSV)", 0},
    {"power-out", KEY_POWER, "FILE", 0,
     "Write what the cluster drew over time, as Batsim does (CSV)", 0},
    {"gantt", KEY_GANTT, "FILE", 0, "Draw what ran where, the power and who waited over time (SVG)",
     0},
    {"explain", KEY_EXPLAIN, "JOB", 0,
     "Why this job (its id, else its number) waited, why this place and clock", 0},
    {"compare", KEY_COMPARE, "NAMES", 0,
     "Instead of --policy: several, with commas between, or all, side by side", 0},
    {"sweep", KEY_SWEEP, "[FROM:TO:]COUNT", 0,
     "The policy with so many settings of its knob, side by side", 0},
    {"bound", KEY_BOUND, "SLOT_S", OPTION_ARG_OPTIONAL,
     "What no schedule as good needs less than, by lull-bound in slots of so many seconds (a 288th "
     "of the whole)",
     0},
    {"certificate-slots", KEY_SLOTS, "N", 0,
     "Of pd-rats and pd-rats-safe, in so many slots of time (2048; 1024 with --preemptible)", 0},
    {"certificate-steps", KEY_STEPS, "N", 0, "Searched for in so many steps (60); more prove more",
     0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

static int parse_watts(const char *arg, double *watts_out)
{
    return lull_text_parse_number(arg, watts_out) < 0 || *watts_out < 0.0 ? -EINVAL : 0;
}

static int parse_value(int key, const char *arg, struct lull_gangs_options *wish)
{
    switch (key) {
    case KEY_NODES:
        return lull_text_parse_int(arg, 1, LULL_CLUSTER_MOST_NODES, &wish->nodes);
    case KEY_PER_NODE:
        return lull_text_parse_int(arg, 1, LULL_CLUSTER_MOST_NODE_GPUS, &wish->gpus_per_node);
    case KEY_SLOTS:
        return lull_text_parse_int(arg, 1, LULL_CERTIFICATE_MOST, &wish->certificate.slots);
    case KEY_STEPS:
        return lull_text_parse_int(arg, 1, LULL_CERTIFICATE_MOST, &wish->certificate.steps);
    case KEY_RUN:
        return parse_watts(arg, &wish->run_w);
    case KEY_IDLE:
        return parse_watts(arg, &wish->idle_w);
    case KEY_VALUE:
        return lull_text_parse_number(arg, &wish->value_ratio) < 0 ||
                       !(wish->value_ratio > 0.0 && wish->value_ratio <= MOST_VALUE_RATIO)
                   ? -EINVAL
                   : 0;
    case KEY_KNOB:
        wish->has_knob = true;
        return lull_text_parse_number(arg, &wish->knob);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check(const struct lull_gangs_options *wish, struct argp_state *state)
{
    if (wish->path == NULL)
        argp_error(state, "give a file of jobs");
    if ((wish->pools != NULL) + (wish->nodes != 0) + (wish->modes.nodes[0] != 0) != 1)
        argp_error(state, "give either --pools or --nodes, or --gpu with nodes");
    if (lull_contention_is_on(&wish->conditions.contention) && wish->modes.type_count == 0)
        argp_error(state, "what jobs send and read is only known with --gpu");
    if ((wish->compare == NULL) != wish->has_policy)
        argp_error(state, "give either --policy or --compare");
    if (wish->compare != NULL && wish->sweep != NULL)
        argp_error(state, "--sweep is of one policy");
    if (wish->has_knob && (wish->compare != NULL || wish->sweep != NULL))
        argp_error(state, "--knob is of one run");
    if ((wish->compare != NULL || wish->sweep != NULL) &&
        (wish->is_bounded || wish->explain != NULL || wish->jobs_out != NULL ||
         wish->power_out != NULL || wish->gantt != NULL))
        argp_error(state, "--bound, --explain, --gantt, --jobs-out and --power-out are of one run");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct lull_gangs_options *const wish = state->input;
    int result;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &wish->modes;
        state->child_inputs[1] = &wish->conditions;
        return 0;
    case KEY_POOLS:
        wish->pools = arg;
        return 0;
    case KEY_JOBS:
        wish->jobs_out = arg;
        return 0;
    case KEY_POWER:
        wish->power_out = arg;
        return 0;
    case KEY_GANTT:
        wish->gantt = arg;
        return 0;
    case KEY_EXPLAIN:
        wish->explain = arg;
        return 0;
    case KEY_COMPARE:
        wish->compare = arg;
        return 0;
    case KEY_SWEEP:
        wish->sweep = arg;
        return 0;
    case KEY_PREEMPTIBLE:
        wish->is_preemptible = true;
        return 0;
    case KEY_BOUND:
        wish->is_bounded = true;
        if (arg != NULL &&
            (lull_text_parse_number(arg, &wish->bound_slot_s) < 0 || wish->bound_slot_s <= 0.0))
            argp_error(state, "--bound=%s: expected seconds above 0", arg);
        return 0;
    case 'j':
        wish->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (wish->path != NULL)
            argp_error(state, "%s: one file of jobs is enough", arg);
        wish->path = arg;
        return 0;
    case ARGP_KEY_END:
        check(wish, state);
        return 0;
    default:
        break;
    }
    result = parse_value(key, arg, wish);
    if (result == ARGP_ERR_UNKNOWN)
        return ARGP_ERR_UNKNOWN;
    if (result < 0)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

void lull_gangs_options_parse(int argc, char **argv, bool has_policy,
                              struct lull_gangs_options *options_out)
{
    static const struct argp_child children[] = {
        {&lull_gangs_modes_argp, 0, NULL, 0}, {&lull_conditions_argp, 0, NULL, 0}, {0}};
    const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .args_doc = "JOBS.csv",
        .doc = "Runs jobs that need their GPUs all at once, each as long as its table says, in "
               "queues: one per virtual cluster.",
        .children = children,
    };

    *options_out = (struct lull_gangs_options){
        .has_policy = has_policy, .gpus_per_node = 8, .run_w = 350.0, .idle_w = -1.0};
    lull_gangs_modes_options_default(&options_out->modes);
    argp_parse(&parser, argc, argv, 0, NULL, options_out);
    if (options_out->idle_w < 0.0 && options_out->modes.type_count == 0)
        options_out->idle_w = 60.0;
}
