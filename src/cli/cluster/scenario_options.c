/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/scenario_options.h"

#include <argp.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/cluster/cluster.h"
#include "core/cluster/job.h"
#include "core/cluster/power_cap.h"

enum {
    KEY_POOLS = 256,
    KEY_NODES,
    KEY_PER_NODE,
    KEY_RUN,
    KEY_IDLE,
    KEY_PREEMPTIBLE,
    KEY_VALUE,
    KEY_GPU,
    KEY_CLOCKS,
    KEY_PIPELINES,
    KEY_ELASTIC,
    KEY_CLASS,
    KEY_SEED,
    KEY_NETWORK,
    KEY_RATES,
    KEY_KNOB,
    KEY_COMPARE,
    KEY_SWEEP,
    KEY_BOUND,
    KEY_SLOTS,
    KEY_STEPS,
    KEY_POWER_DOWN,
    KEY_TURN_ON_J,
    KEY_TURN_ON_S,
    KEY_OFF,
    KEY_CAP,
    KEY_NODE_CAP,
    KEY_PEAK,
    KEY_PRICE,
    KEY_CARBON,
    KEY_FAILURES,
    KEY_MTBF,
    KEY_REPAIR,
    KEY_FAILURE_SEED,
    KEY_CHECKPOINT,
    KEY_CONTENTION,
    KEY_RACK_NODES,
    KEY_UPLINK,
    KEY_PENALTY,
    KEY_STORAGE,
    KEY_JOBS,
    KEY_POWER,
    KEY_GANTT,
    KEY_EXPLAIN,
};

/* ---- values ------------------------------------------------------------------------------- */

/* How the text of an option becomes a field of its part. */
enum value_kind {
    VALUE_FLAG,   /* bool: it was given */
    VALUE_TEXT,   /* const char * */
    VALUE_COUNT,  /* int64_t */
    VALUE_NUMBER, /* double */
    VALUE_TIME,   /* int64_t, in ns */
};

struct value_rule {
    int key;
    enum value_kind kind;
    bool is_above_least; /* numbers and times: the least value itself is refused */
    size_t offset;       /* of the field in the part */
    double unit;         /* numbers and times: what 1 on the command line is in the field */
    int64_t least;       /* in the unit of the field, as most; 0 most: there is none */
    int64_t most;
};

static int parse_number(const struct value_rule *rule, const char *arg, double *value_out)
{
    double value;

    if (lull_text_parse_number(arg, &value) < 0)
        return -EINVAL;
    value *= rule->unit;
    if (value < (double)rule->least || (rule->is_above_least && value == (double)rule->least))
        return -EINVAL;
    if (rule->most > 0 && value > (double)rule->most)
        return -EINVAL;
    *value_out = value;
    return 0;
}

static int parse_time(const struct value_rule *rule, const char *arg, int64_t *time_ns_out)
{
    double ns;

    /* Less than a nanosecond is no time. */
    if (parse_number(rule, arg, &ns) < 0 || (rule->is_above_least && (int64_t)ns == rule->least))
        return -EINVAL;
    *time_ns_out = (int64_t)ns;
    return 0;
}

/* Errors: -EINVAL the text is no such value; ARGP_ERR_UNKNOWN no rule has the key. */
static int parse_value(const struct value_rule *rules, int key, char *arg, void *part)
{
    void *field;

    while (rules->key != 0 && rules->key != key)
        rules++;
    field = (char *)part + rules->offset;
    switch (rules->key != 0 ? (int)rules->kind : -1) {
    case VALUE_FLAG:
        *(bool *)field = true;
        return 0;
    case VALUE_TEXT:
        *(const char **)field = arg;
        return 0;
    case VALUE_COUNT:
        return lull_text_parse_int(arg, rules->least, rules->most, field);
    case VALUE_NUMBER:
        return parse_number(rules, arg, field);
    case VALUE_TIME:
        return parse_time(rules, arg, field);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t take_value(const struct value_rule *rules, int key, char *arg,
                          struct argp_state *state)
{
    const int rc = parse_value(rules, key, arg, state->input);

    if (rc == -EINVAL)
        argp_error(state, "%s: not a usable value", arg);
    return rc;
}

/* ---- the model ---------------------------------------------------------------------------- */

static const struct argp_option model_options[] = {
    {"pools", KEY_POOLS, "FILE", 0,
     "A table vc,nodes: each virtual cluster has nodes of its own; jobs of others are rejected", 0},
    {"nodes", KEY_NODES, "N", 0, "Nodes of the one cluster, without --pools", 0},
    {"gpus-per-node", KEY_PER_NODE, "N", 0, "GPUs of a node (8)", 0},
    {"run-w", KEY_RUN, "W", 0, "Power of a GPU with a job (350), without --gpu", 0},
    {"idle-w", KEY_IDLE, "W", 0,
     "Power of a GPU without a job in a node that is on (60, or what the model of --gpu tells)", 0},
    {"preemptible", KEY_PREEMPTIBLE, NULL, 0,
     "Jobs may be stopped for others; they go on after 7 to 60 s, by their number of GPUs", 0},
    {"value", KEY_VALUE, "FACTOR", 0,
     "A job that ends in time is worth FACTOR times the energy that it takes at full clocks, where "
     "the table has no value_j for it; policies may reject jobs that are worth less than they cost",
     0},
    {"gpu", KEY_GPU, "MODEL[:NODES],...", 0,
     "Types of GPU, whose curves tell the power of jobs; the table's durations are those on the "
     "first",
     0},
    {"clocks", KEY_CLOCKS, NULL, 0, "Jobs may run at each clock that is worth it", 0},
    {"pipelines", KEY_PIPELINES, NULL, 0,
     "Compute jobs of 16 GPUs and more are pipelines, which may run by the planner's plans (A100, "
     "H100)",
     0},
    {"elastic", KEY_ELASTIC, "FACTOR", 0,
     "Jobs may have up to FACTOR times fewer or more GPUs than they ask for: 2, 4, 8 or 16", 0},
    {"class", KEY_CLASS, "NAME", 0,
     "What jobs are: compute, vision, memory, host; or mixed (default): known from the model that "
     "the table names, else drawn",
     0},
    {"seed", KEY_SEED, "N", 0, "Seed of drawn classes (1)", 0},
    {"network", KEY_NETWORK, "NAME", 0,
     "What joins the GPUs of a job: nvlink (default) or ethernet", 0},
    {"rates", KEY_RATES, "FILE", 0,
     "How fast kinds of jobs are on types and numbers of GPUs (CSV, as Gavel's); needed for more "
     "than one type",
     0},
    {0},
};

#define FIELD(name) offsetof(struct lull_scenario_model_options, name)
static const struct value_rule model_rules[] = {
    {KEY_POOLS, VALUE_TEXT, false, FIELD(pools), 0.0, 0, 0},
    {KEY_NODES, VALUE_COUNT, false, FIELD(nodes), 0.0, 1, LULL_CLUSTER_MOST_NODES},
    {KEY_PER_NODE, VALUE_COUNT, false, FIELD(gpus_per_node), 0.0, 1, LULL_CLUSTER_MOST_NODE_GPUS},
    {KEY_RUN, VALUE_NUMBER, false, FIELD(run_w), 1.0, 0, 0},
    {KEY_IDLE, VALUE_NUMBER, false, FIELD(idle_w), 1.0, 0, 0},
    {KEY_PREEMPTIBLE, VALUE_FLAG, false, FIELD(is_preemptible), 0.0, 0, 0},
    {KEY_VALUE, VALUE_NUMBER, true, FIELD(value_ratio), 1.0, 0, 1000000},
    {KEY_CLOCKS, VALUE_FLAG, false, FIELD(has_clocks), 0.0, 0, 0},
    {KEY_PIPELINES, VALUE_FLAG, false, FIELD(has_pipelines), 0.0, 0, 0},
    {KEY_SEED, VALUE_COUNT, false, FIELD(seed), 0.0, 0, INT64_MAX},
    {KEY_RATES, VALUE_TEXT, false, FIELD(rates), 0.0, 0, 0},
    {0},
};
#undef FIELD

static int parse_type(const char *text, struct lull_scenario_model_options *model)
{
    const uint32_t type = model->type_count;
    const size_t length = strcspn(text, ":");

    if (type == LULL_SCENARIO_MOST_TYPES)
        return -E2BIG;
    if (lull_job_type_find(text, (uint32_t)length, &model->types[type]) < 0)
        return -ENOENT;
    if (text[length] == ':' && lull_text_parse_int(text + length + 1, 1, LULL_CLUSTER_MOST_NODES,
                                                   &model->type_nodes[type]) < 0)
        return -EINVAL;
    model->type_count++;
    return 0;
}

/* One type may go without a number of nodes, several need one each. */
static int parse_types(char *arg, struct lull_scenario_model_options *model)
{
    char *rest = arg;

    model->type_count = 0;
    memset(model->type_nodes, 0, sizeof(model->type_nodes));
    for (char *text = strsep(&rest, ","); text != NULL; text = strsep(&rest, ",")) {
        const int rc = parse_type(text, model);

        if (rc < 0)
            return rc;
    }
    for (uint32_t i = 0; model->type_count > 1 && i < model->type_count; i++)
        if (model->type_nodes[i] == 0)
            return -EINVAL;
    return 0;
}

static void take_types(char *arg, struct argp_state *state)
{
    char known[512];
    size_t used = 0;
    const int rc = parse_types(arg, state->input);

    if (rc == -ENOENT) {
        for (uint32_t i = 0; i < lull_gpu_model_count && used < sizeof(known); i++)
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s, ",
                                     lull_gpu_models[i].name);
        argp_error(state, "--gpu: no such model; known are %sP100-PCIE-16GB and K80-12GB", known);
    } else if (rc < 0) {
        argp_error(state, "--gpu: one MODEL, or up to %d of them, each with :NODES",
                   LULL_SCENARIO_MOST_TYPES);
    }
}

static int parse_class(const char *arg, uint32_t *job_class_out)
{
    *job_class_out = lull_job_class_find(arg);
    return *job_class_out == LULL_JOB_CLASSES && strcmp(arg, "mixed") != 0 ? -EINVAL : 0;
}

static int parse_elastic(const char *arg, int64_t *elastic_out)
{
    if (lull_text_parse_int(arg, 1, LULL_SCENARIO_MOST_ELASTIC, elastic_out) < 0)
        return -EINVAL;
    return (*elastic_out & (*elastic_out - 1)) != 0 ? -EINVAL : 0;
}

static int parse_network(const char *arg, enum lull_job_network *network_out)
{
    *network_out = strcmp(arg, "ethernet") == 0 ? LULL_JOB_ETHERNET : LULL_JOB_NVLINK;
    return *network_out == LULL_JOB_NVLINK && strcmp(arg, "nvlink") != 0 ? -EINVAL : 0;
}

static void check_model(struct lull_scenario_model_options *model, struct argp_state *state)
{
    if (model->has_pipelines && !model->has_clocks)
        argp_error(state, "--pipelines goes with --clocks");
    if (model->type_count == 0 && (model->has_clocks || model->elastic > 1 || model->rates != NULL))
        argp_error(state, "say on which GPUs: --gpu MODEL");
    if (model->type_count > 1 && model->rates == NULL)
        argp_error(state, "more than one type of GPU needs --rates");
    if (model->idle_w < 0.0 && model->type_count == 0)
        model->idle_w = 60.0;
}

static error_t parse_model(int key, char *arg, struct argp_state *state)
{
    struct lull_scenario_model_options *const model = state->input;
    int rc;

    switch (key) {
    case ARGP_KEY_INIT:
        *model = (struct lull_scenario_model_options){
            .gpus_per_node = 8,
            .run_w = 350.0,
            .idle_w = -1.0,
            .job_class = LULL_JOB_CLASSES,
            .seed = 1,
            .elastic = 1,
        };
        return 0;
    case KEY_GPU:
        take_types(arg, state);
        return 0;
    case KEY_CLASS:
        rc = parse_class(arg, &model->job_class);
        break;
    case KEY_ELASTIC:
        rc = parse_elastic(arg, &model->elastic);
        break;
    case KEY_NETWORK:
        rc = parse_network(arg, &model->network);
        break;
    case ARGP_KEY_END:
        check_model(model, state);
        return 0;
    default:
        return take_value(model_rules, key, arg, state);
    }
    if (rc < 0)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

/* ---- the policy --------------------------------------------------------------------------- */

static const struct argp_option policy_options[] = {
    {"knob", KEY_KNOB, "VALUE", 0,
     "The number by which the policy trades time for energy, if it has one: see `lull simulate "
     "cluster --help`",
     0},
    {"compare", KEY_COMPARE, "NAMES", 0,
     "Instead of --policy: several policies side by side, with commas between, or all", 0},
    {"sweep", KEY_SWEEP, "[FROM:TO:]COUNT", 0,
     "The policy with COUNT values of its knob, side by side", 0},
    {"bound", KEY_BOUND, "SLOT_S", OPTION_ARG_OPTIONAL,
     "Tell the energy that any schedule as good as this one needs at least: lull-bound finds it, "
     "in slots of SLOT_S seconds (a 288th of the run)",
     0},
    {"certificate-slots", KEY_SLOTS, "N", 0,
     "Slots of time in which the certificate of pd-rats and pd-rats-safe is searched for (2048; "
     "1024 with --preemptible)",
     0},
    {"certificate-steps", KEY_STEPS, "N", 0,
     "Steps of that search (60); more of them may prove more", 0},
    {0},
};

#define FIELD(name) offsetof(struct lull_scenario_policy_options, name)
static const struct value_rule policy_rules[] = {
    {KEY_COMPARE, VALUE_TEXT, false, FIELD(compare), 0.0, 0, 0},
    {KEY_SWEEP, VALUE_TEXT, false, FIELD(sweep), 0.0, 0, 0},
    {KEY_SLOTS, VALUE_COUNT, false, FIELD(certificate.slots), 0.0, 1, LULL_CERTIFICATE_MOST},
    {KEY_STEPS, VALUE_COUNT, false, FIELD(certificate.steps), 0.0, 1, LULL_CERTIFICATE_MOST},
    {0},
};
#undef FIELD

static error_t parse_policy(int key, char *arg, struct argp_state *state)
{
    struct lull_scenario_policy_options *const policy = state->input;

    switch (key) {
    case KEY_KNOB:
        policy->has_knob = true;
        if (lull_text_parse_number(arg, &policy->knob) < 0)
            argp_error(state, "%s: not a usable value", arg);
        return 0;
    case KEY_BOUND:
        policy->is_bounded = true;
        if (arg != NULL &&
            (lull_text_parse_number(arg, &policy->bound_slot_s) < 0 || policy->bound_slot_s <= 0.0))
            argp_error(state, "--bound=%s: expected seconds above 0", arg);
        return 0;
    default:
        return take_value(policy_rules, key, arg, state);
    }
}

/* ---- power -------------------------------------------------------------------------------- */

static const struct argp_option power_options[] = {
    {"power-down", KEY_POWER_DOWN, NULL, 0,
     "Turn a node off when it has idled for as much energy as turning it on takes", 0},
    {"turn-on-j", KEY_TURN_ON_J, "J", 0, "Energy of turning a node on (100000)", 0},
    {"turn-on-s", KEY_TURN_ON_S, "S", 0, "How long turning a node on takes (180)", 0},
    {"off-w", KEY_OFF, "W", 0, "Power of a node that is off (0)", 0},
    {"power-cap", KEY_CAP, "W", 0, "The cluster never draws more, with all jobs at their peaks", 0},
    {"node-cap", KEY_NODE_CAP, "W", 0, "No node ever draws more", 0},
    {"peak-ratio", KEY_PEAK, "R", 0, "Peak power of a job over its mean, for caps (1.05)", 0},
    {"price", KEY_PRICE, "FILE", 0, "What energy costs: a table time_s,price_per_kwh", 0},
    {"carbon", KEY_CARBON, "FILE", 0, "What energy emits: a table time_s,g_per_kwh", 0},
    {0},
};

#define FIELD(name) offsetof(struct lull_scenario_power_options, name)
static const struct value_rule power_rules[] = {
    {KEY_POWER_DOWN, VALUE_FLAG, false, FIELD(turns_nodes_off), 0.0, 0, 0},
    {KEY_TURN_ON_J, VALUE_NUMBER, false, FIELD(turn_on_j), 1.0, 0, INT64_C(1000000000000000)},
    {KEY_TURN_ON_S, VALUE_TIME, false, FIELD(turn_on_ns), 1e9, 0, LULL_CLUSTER_MOST_TURN_ON_NS},
    {KEY_OFF, VALUE_NUMBER, false, FIELD(off_w), 1.0, 0, 1000000000},
    {KEY_CAP, VALUE_NUMBER, true, FIELD(cap_w), 1.0, 0, INT64_C(1000000000000000)},
    {KEY_NODE_CAP, VALUE_NUMBER, true, FIELD(node_cap_w), 1.0, 0, INT64_C(1000000000000000)},
    {KEY_PEAK, VALUE_NUMBER, false, FIELD(peak_ratio), 1.0, 1, 1000},
    {KEY_PRICE, VALUE_TEXT, false, FIELD(price), 0.0, 0, 0},
    {KEY_CARBON, VALUE_TEXT, false, FIELD(carbon), 0.0, 0, 0},
    {0},
};
#undef FIELD

static error_t parse_power(int key, char *arg, struct argp_state *state)
{
    if (key != ARGP_KEY_INIT)
        return take_value(power_rules, key, arg, state);
    *(struct lull_scenario_power_options *)state->input = (struct lull_scenario_power_options){
        .turn_on_j = 1e5,
        .turn_on_ns = INT64_C(180000000000),
        .peak_ratio = LULL_POWER_CAP_PEAK_RATIO,
    };
    return 0;
}

/* ---- failures ----------------------------------------------------------------------------- */

static const struct argp_option failure_options[] = {
    {"failures", KEY_FAILURES, "FILE", 0, "When nodes are down: a table node,from_s,to_s", 0},
    {"mtbf-h", KEY_MTBF, "H", 0, "Nodes fail at random, each after H hours on average", 0},
    {"repair-minutes", KEY_REPAIR, "MIN", 0, "How long a node is down after a random failure (60)",
     0},
    {"failure-seed", KEY_FAILURE_SEED, "N", 0, "Seed of random failures (1)", 0},
    {"checkpoint-minutes", KEY_CHECKPOINT, "MIN", 0,
     "Jobs save their progress after each MIN minutes that they ran (else they begin anew)", 0},
    {0},
};

#define FIELD(name) offsetof(struct lull_scenario_failure_options, name)
static const struct value_rule failure_rules[] = {
    {KEY_FAILURES, VALUE_TEXT, false, FIELD(table), 0.0, 0, 0},
    {KEY_MTBF, VALUE_TIME, true, FIELD(mtbf_ns), 3.6e12, 0, LULL_CLUSTER_MOST_NS},
    {KEY_REPAIR, VALUE_TIME, true, FIELD(repair_ns), 6e10, 0, LULL_CLUSTER_MOST_NS},
    {KEY_FAILURE_SEED, VALUE_COUNT, false, FIELD(seed), 0.0, 0, INT64_MAX},
    {KEY_CHECKPOINT, VALUE_TIME, false, FIELD(checkpoint_ns), 6e10, 0, LULL_CLUSTER_MOST_NS},
    {0},
};
#undef FIELD

static error_t parse_failures(int key, char *arg, struct argp_state *state)
{
    struct lull_scenario_failure_options *const failures = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        *failures = (struct lull_scenario_failure_options){
            .repair_ns = INT64_C(3600000000000),
            .seed = 1,
        };
        return 0;
    case ARGP_KEY_END:
        if (failures->table != NULL && failures->mtbf_ns > 0)
            argp_error(state, "give either --failures or --mtbf-h");
        return 0;
    default:
        return take_value(failure_rules, key, arg, state);
    }
}

/* ---- the network -------------------------------------------------------------------------- */

static const struct argp_option network_options[] = {
    {"contention", KEY_CONTENTION, NULL, 0,
     "Jobs on several nodes share the links of these: their communication takes longer beside "
     "others",
     0},
    {"rack-nodes", KEY_RACK_NODES, "N", 0, "Nodes of a rack, with --rack-uplink", 0},
    {"rack-uplink", KEY_UPLINK, "R", 0,
     "What can leave or enter a rack at once, in links of a node; implies --contention", 0},
    {"contention-penalty", KEY_PENALTY, "R", 0,
     "What each further transfer on a link costs beyond its part, over the time alone (0)", 0},
    {"storage-mb-s", KEY_STORAGE, "MB/S", 0,
     "What all jobs together can read of their training data", 0},
    {0},
};

#define FIELD(name) offsetof(struct lull_scenario_network_options, name)
static const struct value_rule network_rules[] = {
    {KEY_CONTENTION, VALUE_FLAG, false, FIELD(contention.shares_links), 0.0, 0, 0},
    {KEY_RACK_NODES, VALUE_COUNT, false, FIELD(rack_nodes), 0.0, 1, LULL_CLUSTER_MOST_NODES},
    {KEY_UPLINK, VALUE_NUMBER, true, FIELD(contention.uplink_links), 1.0, 0, 1000000000},
    {KEY_PENALTY, VALUE_NUMBER, false, FIELD(contention.penalty_ratio), 1.0, 0, 1000},
    {KEY_STORAGE, VALUE_NUMBER, true, FIELD(contention.storage_mb_s), 1.0, 0,
     INT64_C(1000000000000000)},
    {0},
};
#undef FIELD

static error_t parse_links(int key, char *arg, struct argp_state *state)
{
    struct lull_scenario_network_options *const network = state->input;

    if (key == KEY_UPLINK || key == KEY_PENALTY)
        network->contention.shares_links = true;
    if (key == ARGP_KEY_END &&
        (network->rack_nodes > 0) != (network->contention.uplink_links > 0.0))
        argp_error(state, "give --rack-nodes and --rack-uplink, or neither");
    return take_value(network_rules, key, arg, state);
}

/* ---- the output --------------------------------------------------------------------------- */

static const struct argp_option output_options[] = {
    {"jobs-out", KEY_JOBS, "FILE", 0, "Write when and where each job ran, and why then (CSV)", 0},
    {"power-out", KEY_POWER, "FILE", 0,
     "Write what the cluster drew over time, as Batsim does (CSV)", 0},
    {"gantt", KEY_GANTT, "FILE", 0, "Draw what ran where, the power and who waited over time (SVG)",
     0},
    {"explain", KEY_EXPLAIN, "JOB", 0,
     "Tell why this job (its id, else its number) waited, and why it had its place and clock", 0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

#define FIELD(name) offsetof(struct lull_scenario_output_options, name)
static const struct value_rule output_rules[] = {
    {KEY_JOBS, VALUE_TEXT, false, FIELD(jobs_out), 0.0, 0, 0},
    {KEY_POWER, VALUE_TEXT, false, FIELD(power_out), 0.0, 0, 0},
    {KEY_GANTT, VALUE_TEXT, false, FIELD(gantt), 0.0, 0, 0},
    {KEY_EXPLAIN, VALUE_TEXT, false, FIELD(explain), 0.0, 0, 0},
    {'j', VALUE_FLAG, false, FIELD(is_json), 0.0, 0, 0},
    {0},
};
#undef FIELD

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
    return take_value(output_rules, key, arg, state);
}

/* ---- all of them -------------------------------------------------------------------------- */

struct parsing {
    struct lull_scenario_options *options;
    bool has_policy;
};

/* What no part can check by itself. */
static void check(const struct parsing *parsing, struct argp_state *state)
{
    const struct lull_scenario_model_options *model = &parsing->options->model;
    const struct lull_scenario_policy_options *policy = &parsing->options->policy;
    const struct lull_scenario_output_options *output = &parsing->options->output;
    const bool has_several = policy->compare != NULL || policy->sweep != NULL;

    if (model->path == NULL)
        argp_error(state, "give a file of jobs");
    if ((model->pools != NULL) + (model->nodes != 0) + (model->type_nodes[0] != 0) != 1)
        argp_error(state, "give either --pools or --nodes, or --gpu with nodes");
    if (lull_contention_is_on(&parsing->options->network.contention) && model->type_count == 0)
        argp_error(state, "what jobs send and read is only known with --gpu");
    if ((policy->compare == NULL) != parsing->has_policy)
        argp_error(state, "give either --policy or --compare");
    if (policy->compare != NULL && policy->sweep != NULL)
        argp_error(state, "--sweep is of one policy");
    if (policy->has_knob && has_several)
        argp_error(state, "--knob is of one run");
    if (has_several && (policy->is_bounded || output->explain != NULL || output->jobs_out != NULL ||
                        output->power_out != NULL || output->gantt != NULL))
        argp_error(state, "--bound, --explain, --gantt, --jobs-out and --power-out are of one run");
}

static error_t parse_all(int key, char *arg, struct argp_state *state)
{
    struct parsing *const parsing = state->input;
    struct lull_scenario_options *const options = parsing->options;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->model;
        state->child_inputs[1] = &options->policy;
        state->child_inputs[2] = &options->power;
        state->child_inputs[3] = &options->failures;
        state->child_inputs[4] = &options->network;
        state->child_inputs[5] = &options->output;
        return 0;
    case ARGP_KEY_ARG:
        if (options->model.path != NULL)
            argp_error(state, "%s: one file of jobs is enough", arg);
        options->model.path = arg;
        return 0;
    case ARGP_KEY_END:
        check(parsing, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void lull_scenario_options_parse(int argc, char **argv, bool has_policy,
                                 struct lull_scenario_options *options_out)
{
    static const struct argp model = {.options = model_options, .parser = parse_model};
    static const struct argp policy = {.options = policy_options, .parser = parse_policy};
    static const struct argp power = {.options = power_options, .parser = parse_power};
    static const struct argp failures = {.options = failure_options, .parser = parse_failures};
    static const struct argp network = {.options = network_options, .parser = parse_links};
    static const struct argp output = {.options = output_options, .parser = parse_output};
    static const struct argp_child children[] = {
        {&model, 0, "The jobs, the cluster and its GPUs:", 1},
        {&policy, 0, "The policy and how its run is judged:", 2},
        {&power, 0, "Power, and nodes that are turned off:", 3},
        {&failures, 0, "Nodes that fail:", 4},
        {&network, 0, "What jobs share, with --gpu:", 5},
        {&output, 0, "Output:", 6},
        {0},
    };
    const struct argp parser = {
        .parser = parse_all,
        .args_doc = "JOBS.csv",
        .doc = "Runs jobs that need their GPUs all at once, each as long as its table says, in "
               "queues: one per virtual cluster.",
        .children = children,
    };
    struct parsing parsing = {options_out, has_policy};

    *options_out = (struct lull_scenario_options){0};
    argp_parse(&parser, argc, argv, 0, NULL, &parsing);
}
