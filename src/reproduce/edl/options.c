/* SPDX-License-Identifier: Apache-2.0 */
#include "reproduce/edl/options.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"

enum {
    KEY_VARIANT = 256,
    KEY_ERROR,
    KEY_ORDER,
    KEY_PLACE,
    KEY_THETA,
    KEY_FRUGAL,
    KEY_NO_DVFS,
    KEY_RANGE,
    KEY_GPUS,
    KEY_PER_NODE,
    KEY_ONLINE,
    KEY_IDLE,
    KEY_TURN_ON,
    KEY_DRAW,
    KEY_SEED,
    KEY_FIRST,
    KEY_JOBS
};

static const struct argp_option option_rows[] = {
    {"variant", KEY_VARIANT, "NAME", 0,
     "published (the released code with its errors), repaired (no task late that need not be) or "
     "repaired-shared (nor dedicated GPUs at time 0; the default)",
     0},
    {"error", KEY_ERROR, "NAME", 0,
     "Make one more error of the released code: arrival-unchecked, readjusts-to-none, "
     "starts-in-past or "
     "dedicated-start; may be given again",
     0},
    {"order", KEY_ORDER, "edf|lpt", 0, "Earliest deadline or longest time first (edf)", 0},
    {"place", KEY_PLACE, "RULE", 0,
     "GPU: spt (free first, clocks readjusted), bf (most loaded that fits), wf (least loaded), ff "
     "(first that fits), bin (wf at time 0, then ff) or pack (ff, then spt); default spt",
     0},
    {"theta", KEY_THETA, "RATIO", 0, "A task gets at least this share of its best time (1)", 0},
    {"frugal", KEY_FRUGAL, NULL, 0,
     "Readjust a task only where that costs no more than another node would", 0},
    {"no-dvfs", KEY_NO_DVFS, NULL, 0, "Run every task at the base clocks", 0},
    {"range", KEY_RANGE, "NAME", 0,
     "Voltages and clocks to search: assumed (V 0.5 to 1.25, as published) or measured (V 0.8 to "
     "1.25, where the GTX 1080 Ti was); default assumed",
     0},
    {"gpus", KEY_GPUS, "N", 0, "GPUs of the cluster (2048); 0: no limit", 0},
    {"gpus-per-node", KEY_PER_NODE, "N", 0, "GPUs of a node (1)", 0},
    {"online", KEY_ONLINE, NULL, 0, "Tasks are known when they arrive; idle nodes are turned off",
     0},
    {"idle-w", KEY_IDLE, "W", 0, "Power of a GPU without a task in a node that is on (37)", 0},
    {"turn-on-j", KEY_TURN_ON, "J", 0, "Energy of turning a node on (90)", 0},
    {"draw", KEY_DRAW, "U", 0,
     "Instead of a file: random tasks of the published ranges, 2048 times U of them", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of the random tasks (1)", 0},
    {"first", KEY_FIRST, "N", 0, "Schedule only the first N tasks", 0},
    {"jobs-out", KEY_JOBS, "FILE", 0, "Write where, when and at which clocks each task runs (CSV)",
     0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

/* The index of a word in a list that ends with NULL; -EINVAL if it is not there. */
static int find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -EINVAL;
}

static int parse_rule(int key, const char *arg, struct lull_edl_config *config)
{
    static const char *const orders[] = {"edf", "lpt", NULL};
    static const char *const places[] = {"spt", "bf", "wf", "ff", "bin", "pack", NULL};
    const int index = find_word(key == KEY_ORDER ? orders : places, arg);

    if (index < 0)
        return index;
    if (key == KEY_ORDER)
        config->order = (enum lull_edl_order)index;
    else
        config->place = (enum lull_edl_place)index;
    return 0;
}

static int parse_error(const char *arg, unsigned *errors)
{
    const char *name;

    for (unsigned i = 0; (name = lull_edl_error_name(i)) != NULL; i++)
        if (strcmp(name, arg) == 0) {
            *errors |= 1U << i;
            return 0;
        }
    return -EINVAL;
}

static int parse_range(const char *arg, struct lull_edl_options *options)
{
    static const char *const names[] = {"assumed", "measured", NULL};
    const int index = find_word(names, arg);

    if (index < 0)
        return index;
    options->range = names[index];
    options->config.range = index == 0 ? lull_dvfs_assumed : lull_dvfs_measured;
    return 0;
}

static int parse_per_node(const char *arg, struct lull_edl_config *config)
{
    int64_t count;

    if (lull_text_parse_int(arg, 1, 1024, &count) < 0)
        return -EINVAL;
    config->gpus_per_node = (uint32_t)count;
    return 0;
}

static int parse_value(int key, char *arg, struct lull_edl_options *options, unsigned *errors)
{
    switch (key) {
    case KEY_VARIANT:
        options->variant = arg;
        return lull_edl_find_variant(arg, &options->config.errors);
    case KEY_ERROR:
        return parse_error(arg, errors);
    case KEY_ORDER:
    case KEY_PLACE:
        return parse_rule(key, arg, &options->config);
    case KEY_THETA:
        return lull_text_parse_ratio(arg, &options->config.theta_ratio);
    case KEY_RANGE:
        return parse_range(arg, options);
    case KEY_GPUS:
        return lull_text_parse_int(arg, 0, LULL_GPU_POOL_MOST, &options->gpus);
    case KEY_PER_NODE:
        return parse_per_node(arg, &options->config);
    case KEY_IDLE:
        return lull_text_parse_between(arg, 0.0, 1e6, &options->idle_w);
    case KEY_TURN_ON:
        return lull_text_parse_between(arg, 0.0, 1e9, &options->turn_on_j);
    case KEY_DRAW:
        return lull_text_parse_between(arg, 1e-3, 100.0, &options->utilisation);
    case KEY_SEED:
        return lull_text_parse_int(arg, 0, INT64_MAX, &options->seed);
    case KEY_FIRST:
        return lull_text_parse_int(arg, 1, INT64_MAX, &options->first);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct edl_parsing {
    struct lull_edl_options *options;
    unsigned errors; /* those of --error, which a --variant after them does not undo */
};

static void finish(const struct edl_parsing *parsing, struct argp_state *state)
{
    struct lull_edl_options *const options = parsing->options;

    if ((options->path == NULL) == (options->utilisation == 0.0))
        argp_error(state, "give either a file of tasks or --draw");
    if (options->gpus % options->config.gpus_per_node != 0)
        argp_error(state, "--gpus is not a multiple of --gpus-per-node");
    options->config.errors |= parsing->errors;
    if (options->is_frugal) {
        options->config.turn_on_j = options->turn_on_j;
        options->config.idle_w = options->idle_w;
    }
    options->config.node_limit = (uint32_t)options->gpus / options->config.gpus_per_node;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct edl_parsing *const parsing = state->input;
    struct lull_edl_options *const options = parsing->options;
    int result;

    switch (key) {
    case KEY_NO_DVFS:
        options->config.has_dvfs = false;
        return 0;
    case KEY_FRUGAL:
        options->is_frugal = true;
        return 0;
    case KEY_ONLINE:
        options->is_online = true;
        return 0;
    case KEY_JOBS:
        options->jobs_out = arg;
        return 0;
    case 'j':
        options->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path != NULL)
            argp_error(state, "%s is a second file of tasks; give one", arg);
        options->path = arg;
        return 0;
    case ARGP_KEY_END:
        finish(parsing, state);
        return 0;
    default:
        break;
    }
    result = parse_value(key, arg, options, &parsing->errors);
    if (result == ARGP_ERR_UNKNOWN)
        return ARGP_ERR_UNKNOWN;
    if (result < 0)
        argp_error(state, "%s is not a usable value", arg);
    return 0;
}

void lull_edl_options_parse(int argc, char **argv, struct lull_edl_options *options_out)
{
    const struct argp parser = {
        .options = option_rows,
        .parser = parse_option,
        .args_doc = "TASKS.csv",
        .doc =
            "Schedules tasks of one GPU each, with deadlines and a model of their time and power, "
            "so that energy is least: EDL with theta readjustment and nodes that are turned off.",
    };
    struct edl_parsing parsing = {.options = options_out};

    *options_out = (struct lull_edl_options){
        .variant = "repaired-shared",
        .range = "assumed",
        .seed = 1,
        .gpus = 2048,
        .idle_w = 37.0,
        .turn_on_j = 90.0,
    };
    lull_edl_config_default(&options_out->config);
    argp_parse(&parser, argc, argv, 0, NULL, &parsing);
}
