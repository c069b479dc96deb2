/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/scenario_options.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/cluster/model/cluster.h"
#include "core/cluster/model/job.h"
#include "core/cluster/power/power_cap.h"

/* ---- what an option is -------------------------------------------------------------------- */

enum option_type {
    OPTION_FLAG,   /* bool: it was given */
    OPTION_TEXT,   /* const char * */
    OPTION_WHOLE,  /* int64_t, from least to most */
    OPTION_NUMBER, /* double, from least to most */
    OPTION_ABOVE,  /* double, above least, to most */
    OPTION_TIME,   /* int64_t, ns: from least to most */
    OPTION_LASTS,  /* int64_t, ns: above least, to most */
    OPTION_OWN,    /* as parse() says */
};

/* A row without a name ends a part's table. */
struct option_row {
    const char *name;
    const char *value; /* what stands for it in --help; null: a flag */
    enum option_type type;
    size_t offset; /* of the field in the part */
    int64_t least; /* in the unit of the field, as most */
    int64_t most;  /* 0: no limit */
    double unit;   /* times: the unit of the command line, ns */
    char letter;
    bool is_value_optional;
    /* Writes to the part. text: null where the value is left out. Errors: -EINVAL; err may be left
     * alone. */
    int (*parse)(char *text, void *part, struct lull_error *err);
    const char *help;
};

/* ---- the model ---------------------------------------------------------------------------- */

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
static int parse_types(char *text, struct lull_scenario_model_options *model)
{
    model->type_count = 0;
    memset(model->type_nodes, 0, sizeof(model->type_nodes));
    for (char *type = strsep(&text, ","); type != NULL; type = strsep(&text, ",")) {
        const int rc = parse_type(type, model);

        if (rc < 0)
            return rc;
    }
    for (uint32_t i = 0; model->type_count > 1 && i < model->type_count; i++)
        if (model->type_nodes[i] == 0)
            return -EINVAL;
    return 0;
}

static int parse_gpu(char *text, void *part, struct lull_error *err)
{
    char known[sizeof(err->text)];
    size_t used = 0;
    const int rc = parse_types(text, part);

    if (rc == 0)
        return 0;
    if (rc != -ENOENT)
        return lull_error_set(err, -EINVAL,
                              "--gpu: one MODEL, or up to %d of them, each with :NODES",
                              LULL_SCENARIO_MOST_TYPES);
    for (uint32_t i = 0; i < lull_gpu_model_count && used < sizeof(known); i++)
        used +=
            (size_t)snprintf(known + used, sizeof(known) - used, "%s, ", lull_gpu_models[i].name);
    return lull_error_set(err, -EINVAL,
                          "--gpu: no such model; known are %sP100-PCIE-16GB and K80-12GB", known);
}

static int parse_class(char *text, void *part, struct lull_error *err)
{
    struct lull_scenario_model_options *const model = part;

    (void)err;
    model->job_class = lull_job_class_find(text);
    return model->job_class == LULL_JOB_CLASSES && strcmp(text, "mixed") != 0 ? -EINVAL : 0;
}

static int parse_elastic(char *text, void *part, struct lull_error *err)
{
    int64_t *const factor = &((struct lull_scenario_model_options *)part)->elastic;

    (void)err;
    if (lull_text_parse_int(text, 1, LULL_SCENARIO_MOST_ELASTIC, factor) < 0)
        return -EINVAL;
    return (*factor & (*factor - 1)) != 0 ? -EINVAL : 0;
}

static int parse_network(char *text, void *part, struct lull_error *err)
{
    struct lull_scenario_model_options *const model = part;
    const bool is_ethernet = strcmp(text, "ethernet") == 0;

    (void)err;
    if (!is_ethernet && strcmp(text, "nvlink") != 0)
        return -EINVAL;
    model->network = is_ethernet ? LULL_JOB_ETHERNET : LULL_JOB_NVLINK;
    return 0;
}

#define INTO(field) offsetof(struct lull_scenario_model_options, field)
static const struct option_row model_rows[] = {
    {"pools", "FILE", OPTION_TEXT, INTO(pools),
     .help = "A table vc,nodes: each virtual cluster has nodes of its own; jobs of others are "
             "rejected"},
    {"nodes", "N", OPTION_WHOLE, INTO(nodes), 1, LULL_CLUSTER_MOST_NODES,
     .help = "Nodes of the one cluster, without --pools"},
    {"gpus-per-node", "N", OPTION_WHOLE, INTO(gpus_per_node), 1, LULL_CLUSTER_MOST_NODE_GPUS,
     .help = "GPUs of a node (8)"},
    {"run-w", "W", OPTION_NUMBER, INTO(run_w),
     .help = "Power of a GPU with a job (350), without --gpu"},
    {"idle-w", "W", OPTION_NUMBER, INTO(idle_w),
     .help = "Power of a GPU without a job in a node that is on (60, or what the model of --gpu "
             "tells)"},
    {"preemptible", NULL, OPTION_FLAG, INTO(is_preemptible),
     .help = "Jobs may be stopped for others; they go on after 7 to 60 s, by their number of GPUs"},
    {"value", "FACTOR", OPTION_ABOVE, INTO(value_ratio), 0, 1000000,
     .help = "A job that ends in time is worth FACTOR times the energy that it takes at full "
             "clocks, where the table has no value_j for it; policies may reject jobs that are "
             "worth less than they cost"},
    {"gpu", "MODEL[:NODES],...", OPTION_OWN, .parse = parse_gpu,
     .help = "Types of GPU, whose curves tell the power of jobs; the table's durations are those "
             "on the first"},
    {"clocks", NULL, OPTION_FLAG, INTO(has_clocks),
     .help = "Jobs may run at each clock that is worth it"},
    {"pipelines", NULL, OPTION_FLAG, INTO(has_pipelines),
     .help = "Compute jobs of 16 GPUs and more are pipelines, which may run by the planner's plans "
             "(A100, H100)"},
    {"elastic", "FACTOR", OPTION_OWN, .parse = parse_elastic,
     .help = "Jobs may have up to FACTOR times fewer or more GPUs than they ask for: 2, 4, 8 or "
             "16"},
    {"class", "NAME", OPTION_OWN, .parse = parse_class,
     .help = "What jobs are: compute, vision, memory, host; or mixed (default): known from the "
             "model that the table names, else drawn"},
    {"seed", "N", OPTION_WHOLE, INTO(seed), 0, INT64_MAX, .help = "Seed of drawn classes (1)"},
    {"network", "NAME", OPTION_OWN, .parse = parse_network,
     .help = "What joins the GPUs of a job: nvlink (default) or ethernet"},
    {"rates", "FILE", OPTION_TEXT, INTO(rates),
     .help = "How fast kinds of jobs are on types and numbers of GPUs (CSV, as Gavel's); needed "
             "for more than one type"},
    {0},
};
#undef INTO

static void check_model(struct lull_scenario_model_options *model, struct argp_state *state)
{
    if (model->has_pipelines && !model->has_clocks)
        argp_error(state, "--pipelines goes with --clocks");
    if (model->type_count == 0 && (model->has_clocks || model->elastic > 1 || model->rates != NULL))
        argp_error(state, "say on which GPUs: --gpu MODEL");
    if (model->type_count > 1 && model->rates == NULL)
        argp_error(state, "more than one type of GPU needs --rates");
    if (model->path == NULL)
        argp_error(state, "give a file of jobs");
    if ((model->pools != NULL) + (model->nodes != 0) + (model->type_nodes[0] != 0) != 1)
        argp_error(state, "give either --pools or --nodes, or --gpu with nodes");
    if (model->idle_w < 0.0 && model->type_count == 0)
        model->idle_w = 60.0;
}

/* ---- the policy --------------------------------------------------------------------------- */

static int parse_parameter(char *text, void *part, struct lull_error *err)
{
    struct lull_scenario_policy_options *const policy = part;

    (void)err;
    policy->has_parameter = true;
    return lull_text_parse_number(text, &policy->parameter);
}

static int parse_bound(char *text, void *part, struct lull_error *err)
{
    struct lull_scenario_policy_options *const policy = part;

    policy->is_bounded = true;
    if (text != NULL &&
        (lull_text_parse_number(text, &policy->bound_slot_s) < 0 || policy->bound_slot_s <= 0.0))
        return lull_error_set(err, -EINVAL, "--bound=%s: expected seconds above 0", text);
    return 0;
}

#define INTO(field) offsetof(struct lull_scenario_policy_options, field)
static const struct option_row policy_rows[] = {
    {"knob", "VALUE", OPTION_OWN, .parse = parse_parameter,
     .help = "The number by which the policy trades time for energy, if it has one: see `lull "
             "simulate cluster --help`"},
    {"compare", "NAMES", OPTION_TEXT, INTO(compare),
     .help = "Instead of --policy: several policies side by side, with commas between, or all"},
    {"sweep", "[FROM:TO:]COUNT", OPTION_TEXT, INTO(sweep),
     .help = "The policy with COUNT values of its knob, side by side"},
    {"bound", "SLOT_S", OPTION_OWN, .is_value_optional = true, .parse = parse_bound,
     .help = "Tell the energy that any schedule as good as this one needs at least: lull-bound "
             "finds it, in slots of SLOT_S seconds (a 288th of the run)"},
    {"certificate-slots", "N", OPTION_WHOLE, INTO(certificate.slots), 1, LULL_CERTIFICATE_MOST,
     .help = "Slots of time in which the certificate of pd-rats and pd-rats-safe is searched for "
             "(2048; 1024 with --preemptible)"},
    {"certificate-steps", "N", OPTION_WHOLE, INTO(certificate.steps), 1, LULL_CERTIFICATE_MOST,
     .help = "Steps of that search (60); more of them may prove more"},
    {0},
};
#undef INTO

static void check_policy(const struct lull_scenario_policy_options *policy, bool has_policy,
                         const struct lull_scenario_output_options *output,
                         struct argp_state *state)
{
    const bool has_several = policy->compare != NULL || policy->sweep != NULL;

    if ((policy->compare == NULL) != has_policy)
        argp_error(state, "give either --policy or --compare");
    if (policy->compare != NULL && policy->sweep != NULL)
        argp_error(state, "--sweep goes with --policy, not with --compare");
    if (policy->has_parameter && has_several)
        argp_error(state, "--knob sets one run: it does not go with --compare or --sweep");
    if (has_several && (policy->is_bounded || output->explain != NULL || output->jobs_out != NULL ||
                        output->power_out != NULL || output->gantt != NULL))
        argp_error(
            state,
            "--bound, --explain, --gantt, --jobs-out and --power-out tell of one run: they do "
            "not go with --compare or --sweep");
}

/* ---- power, failures, the network and the output ------------------------------------------ */

/* More joules or watts are a mistake of the user. */
#define MOST_AMOUNT INT64_C(1000000000000000)

#define INTO(field) offsetof(struct lull_scenario_power_options, field)
static const struct option_row power_rows[] = {
    {"power-down", NULL, OPTION_FLAG, INTO(turns_nodes_off),
     .help = "Turn a node off when it has idled for as much energy as turning it on takes"},
    {"turn-on-j", "J", OPTION_NUMBER, INTO(turn_on_j), 0, MOST_AMOUNT,
     .help = "Energy of turning a node on (100000)"},
    {"turn-on-s", "S", OPTION_TIME, INTO(turn_on_ns), 0, LULL_CLUSTER_MOST_TURN_ON_NS, 1e9,
     .help = "How long turning a node on takes (180)"},
    {"off-w", "W", OPTION_NUMBER, INTO(off_w), 0, 1000000000,
     .help = "Power of a node that is off (0)"},
    {"power-cap", "W", OPTION_ABOVE, INTO(cap_w), 0, MOST_AMOUNT,
     .help = "The cluster never draws more, with all jobs at their peaks"},
    {"node-cap", "W", OPTION_ABOVE, INTO(node_cap_w), 0, MOST_AMOUNT,
     .help = "No node ever draws more"},
    {"peak-ratio", "R", OPTION_NUMBER, INTO(peak_ratio), 1, 1000,
     .help = "Peak power of a job over its mean, for caps (1.05)"},
    {"price", "FILE", OPTION_TEXT, INTO(price),
     .help = "What energy costs: a table time_s,price_per_kwh"},
    {"carbon", "FILE", OPTION_TEXT, INTO(carbon),
     .help = "What energy emits: a table time_s,g_per_kwh"},
    {0},
};
#undef INTO

#define INTO(field) offsetof(struct lull_scenario_failure_options, field)
static const struct option_row failure_rows[] = {
    {"failures", "FILE", OPTION_TEXT, INTO(table),
     .help = "When nodes are down: a table node,from_s,to_s"},
    {"mtbf-h", "H", OPTION_LASTS, INTO(mtbf_ns), 0, LULL_CLUSTER_MOST_NS, 3.6e12,
     .help = "Nodes fail at random, each after H hours on average"},
    {"repair-minutes", "MIN", OPTION_LASTS, INTO(repair_ns), 0, LULL_CLUSTER_MOST_NS, 6e10,
     .help = "How long a node is down after a random failure (60)"},
    {"failure-seed", "N", OPTION_WHOLE, INTO(seed), 0, INT64_MAX,
     .help = "Seed of random failures (1)"},
    {"checkpoint-minutes", "MIN", OPTION_TIME, INTO(checkpoint_ns), 0, LULL_CLUSTER_MOST_NS, 6e10,
     .help = "Jobs save their progress after each MIN minutes that they ran (else they begin "
             "anew)"},
    {0},
};
#undef INTO

#define INTO(field) offsetof(struct lull_scenario_network_options, field)
static const struct option_row network_rows[] = {
    {"contention", NULL, OPTION_FLAG, INTO(contention.shares_links),
     .help = "Jobs on several nodes share the links of these: their communication takes longer "
             "beside others"},
    {"rack-nodes", "N", OPTION_WHOLE, INTO(rack_nodes), 1, LULL_CLUSTER_MOST_NODES,
     .help = "Nodes of a rack, with --rack-uplink"},
    {"rack-uplink", "R", OPTION_ABOVE, INTO(contention.uplink_links), 0, 1000000000,
     .help = "What can leave or enter a rack at once, in links of a node; implies --contention"},
    {"contention-penalty", "R", OPTION_NUMBER, INTO(contention.penalty_ratio), 0, 1000,
     .help = "What each further transfer on a link costs beyond its part, over the time alone "
             "(0); implies --contention"},
    {"storage-mb-s", "MB/S", OPTION_ABOVE, INTO(contention.storage_mb_s), 0, MOST_AMOUNT,
     .help = "What all jobs together can read of their training data"},
    {0},
};
#undef INTO

#define INTO(field) offsetof(struct lull_scenario_output_options, field)
static const struct option_row output_rows[] = {
    {"jobs-out", "FILE", OPTION_TEXT, INTO(jobs_out),
     .help = "Write when and where each job ran, and why then (CSV)"},
    {"power-out", "FILE", OPTION_TEXT, INTO(power_out),
     .help = "Write what the cluster drew over time, as Batsim does (CSV)"},
    {"gantt", "FILE", OPTION_TEXT, INTO(gantt),
     .help = "Draw what ran where, the power and who waited over time (SVG)"},
    {"explain", "JOB", OPTION_TEXT, INTO(explain),
     .help = "Tell why this job (its id, else its number) waited, and why it had its place and "
             "clock"},
    {"json", NULL, OPTION_FLAG, INTO(is_json), .letter = 'j', .help = "Print one JSON document"},
    {0},
};
#undef INTO

/* ---- parsing ------------------------------------------------------------------------------ */

enum { FIRST_KEY = 256, MOST_PART_ROWS = 20 };

struct option_part {
    const char *heading;
    const struct option_row *rows;
    void *into;
};

/* Of numbers and times, the value of a text in the unit of the field. */
static int parse_number(const struct option_row *row, const char *text, double *value_out)
{
    const bool is_time = row->type == OPTION_TIME || row->type == OPTION_LASTS;
    const bool is_open = row->type == OPTION_ABOVE || row->type == OPTION_LASTS;
    double value;

    if (lull_text_parse_number(text, &value) < 0)
        return -EINVAL;
    if (is_time)
        value *= row->unit;
    if (value < (double)row->least || (row->most > 0 && value > (double)row->most))
        return -EINVAL;
    if (is_time)
        value = trunc(value);
    if (is_open && value == (double)row->least)
        return -EINVAL;
    *value_out = value;
    return 0;
}

static int parse_value(const struct option_row *row, char *text, void *part, struct lull_error *err)
{
    void *const field = (char *)part + row->offset;
    double value;

    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)field = text;
        return 0;
    case OPTION_WHOLE:
        return lull_text_parse_int(text, row->least, row->most, field);
    case OPTION_NUMBER:
    case OPTION_ABOVE:
        return parse_number(row, text, field);
    case OPTION_TIME:
    case OPTION_LASTS:
        if (parse_number(row, text, &value) < 0)
            return -EINVAL;
        *(int64_t *)field = (int64_t)value;
        return 0;
    default:
        return row->parse(text, part, err);
    }
}

static error_t parse_part(int key, char *arg, struct argp_state *state)
{
    const struct option_part *part = state->input;
    struct lull_error err = {0};

    for (int i = 0; part->rows[i].name != NULL; i++) {
        const struct option_row *row = &part->rows[i];

        if (key != FIRST_KEY + i && (row->letter == 0 || key != row->letter))
            continue;
        if (parse_value(row, arg, part->into, &err) == 0)
            return 0;
        if (err.code != 0)
            argp_error(state, "%s", err.text);
        argp_error(state, "--%s %s: not a usable value", row->name, arg);
    }
    return ARGP_ERR_UNKNOWN;
}

/* options_out: room for MOST_PART_ROWS and the zeros that end them. */
static void make_options(const struct option_row *rows, struct argp_option *options_out)
{
    for (int i = 0; rows[i].name != NULL && i < MOST_PART_ROWS; i++)
        options_out[i] = (struct argp_option){
            .name = rows[i].name,
            .key = rows[i].letter != 0 ? rows[i].letter : FIRST_KEY + i,
            .arg = rows[i].value,
            .flags = rows[i].is_value_optional ? OPTION_ARG_OPTIONAL : 0,
            .doc = rows[i].help,
        };
}

enum { PARTS = 6 };

struct scenario_parsing {
    struct lull_scenario_options *options;
    bool has_policy;
    struct option_part parts[PARTS];
};

static void check(const struct scenario_parsing *parsing, struct argp_state *state)
{
    struct lull_scenario_options *const options = parsing->options;
    struct lull_contention_rules *const contention = &options->network.contention;

    check_model(&options->model, state);
    if (options->failures.table != NULL && options->failures.mtbf_ns > 0)
        argp_error(state, "give either --failures or --mtbf-h");
    if ((options->network.rack_nodes > 0) != (contention->uplink_links > 0.0))
        argp_error(state, "give --rack-nodes and --rack-uplink, or neither");
    if (contention->uplink_links > 0.0 || contention->penalty_ratio >= 0.0)
        contention->shares_links = true;
    if (contention->penalty_ratio < 0.0)
        contention->penalty_ratio = 0.0;
    if (lull_contention_is_on(contention) && options->model.type_count == 0)
        argp_error(state, "what jobs send and read is only known with --gpu");
    check_policy(&options->policy, parsing->has_policy, &options->output, state);
}

static error_t parse_all(int key, char *arg, struct argp_state *state)
{
    struct scenario_parsing *const parsing = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        for (int i = 0; i < PARTS; i++)
            state->child_inputs[i] = &parsing->parts[i];
        return 0;
    case ARGP_KEY_ARG:
        if (parsing->options->model.path != NULL)
            argp_error(state, "%s: one file of jobs is enough", arg);
        parsing->options->model.path = arg;
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
    struct scenario_parsing parsing = {
        options_out,
        has_policy,
        {{"The jobs, the cluster and its GPUs:", model_rows, &options_out->model},
         {"The policy and how its run is judged:", policy_rows, &options_out->policy},
         {"Power, and nodes that are turned off:", power_rows, &options_out->power},
         {"Nodes that fail:", failure_rows, &options_out->failures},
         {"What jobs share, with --gpu:", network_rows, &options_out->network},
         {"Output:", output_rows, &options_out->output}},
    };
    struct argp_option options[PARTS][MOST_PART_ROWS + 1] = {0};
    struct argp argps[PARTS] = {0};
    struct argp_child children[PARTS + 1] = {0};
    const struct argp parser = {
        .parser = parse_all,
        .args_doc = "JOBS.csv",
        .doc = "Runs jobs that need their GPUs all at once, each as long as its table says, in "
               "queues: one per virtual cluster.",
        .children = children,
    };

    for (int i = 0; i < PARTS; i++) {
        make_options(parsing.parts[i].rows, options[i]);
        argps[i] = (struct argp){.options = options[i], .parser = parse_part};
        children[i] = (struct argp_child){&argps[i], 0, parsing.parts[i].heading, i + 1};
    }
    *options_out = (struct lull_scenario_options){
        .model = {.gpus_per_node = 8,
                  .run_w = 350.0,
                  .idle_w = -1.0,
                  .job_class = LULL_JOB_CLASSES,
                  .seed = 1,
                  .elastic = 1},
        .power = {.turn_on_j = 1e5,
                  .turn_on_ns = INT64_C(180000000000),
                  .peak_ratio = LULL_POWER_CAP_PEAK_RATIO},
        .failures = {.repair_ns = INT64_C(3600000000000), .seed = 1},
        .network = {.contention = {.penalty_ratio = -1.0}}, /* it was not given */
    };
    argp_parse(&parser, argc, argv, 0, NULL, &parsing);
}
