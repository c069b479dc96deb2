/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cluster/gangs_modes.h"

enum {
    KEY_GPU = 512,
    KEY_CLOCKS,
    KEY_CLASS,
    KEY_SEED,
    KEY_ELASTIC,
    KEY_NETWORK,
    KEY_RATES,
    KEY_PIPELINES
};

static const struct argp_option options[] = {
    {0, 0, NULL, 0, "What jobs run on:", 1},
    {"gpu", KEY_GPU, "MODEL[:NODES],...", 0,
     "Types of GPU; durations are those on the first. Power by their curves, not by --run-w", 1},
    {"clocks", KEY_CLOCKS, NULL, 0, "Jobs have a mode for each clock that is worth it", 1},
    {"pipelines", KEY_PIPELINES, NULL, 0,
     "Compute jobs of 16 GPUs and more are pipelines, with the planner's plans as modes (A100, "
     "H100)",
     1},
    {"elastic", KEY_ELASTIC, "FACTOR", 0,
     "And for so much fewer and more GPUs than they ask for: 2, 4, 8 or 16", 1},
    {"class", KEY_CLASS, "NAME", 0,
     "compute, vision, memory, host; or mixed (default): as the trace's model is, else drawn", 1},
    {"seed", KEY_SEED, "N", 0, "Of what is drawn (1)", 1},
    {"network", KEY_NETWORK, "NAME", 0, "Joins GPUs: nvlink (default) or ethernet", 1},
    {"rates", KEY_RATES, "FILE", 0,
     "Rates of kinds of jobs on types and numbers of GPUs (CSV, as Gavel's); needed for more than "
     "one type",
     1},
    {0},
};

void lull_gangs_modes_options_default(struct lull_gangs_modes_options *options_out)
{
    *options_out =
        (struct lull_gangs_modes_options){.job_class = LULL_JOB_CLASSES, .seed = 1, .elastic = 1};
}

static int parse_type(char *text, struct lull_gangs_modes_options *wish)
{
    const uint32_t type = wish->type_count;
    const size_t length = strcspn(text, ":");

    if (type == LULL_GANGS_MOST_TYPES)
        return -E2BIG;
    if (lull_job_type_find(text, (uint32_t)length, &wish->types[type]) < 0)
        return -ENOENT;
    if (text[length] == ':' &&
        lull_text_parse_int(text + length + 1, 1, LULL_CLUSTER_MOST_NODES, &wish->nodes[type]) < 0)
        return -EINVAL;
    wish->type_count++;
    return 0;
}

static int parse_types(char *arg, struct lull_gangs_modes_options *wish)
{
    char *rest = arg;
    int rc = 0;

    wish->type_count = 0;
    memset(wish->nodes, 0, sizeof(wish->nodes));
    for (char *text = strsep(&rest, ","); text != NULL && rc == 0; text = strsep(&rest, ","))
        rc = parse_type(text, wish);
    for (uint32_t i = 1; rc == 0 && i < wish->type_count; i++)
        if ((wish->nodes[i] == 0) != (wish->nodes[0] == 0) || wish->nodes[i] == 0)
            rc = -EINVAL;
    return rc;
}

static int parse_class(const char *arg, struct lull_gangs_modes_options *wish)
{
    wish->job_class = lull_job_class_find(arg);
    return wish->job_class == LULL_JOB_CLASSES && strcmp(arg, "mixed") != 0 ? -EINVAL : 0;
}

static int parse_elastic(const char *arg, struct lull_gangs_modes_options *wish)
{
    const int rc = lull_text_parse_int(arg, 1, LULL_GANGS_MOST_ELASTIC, &wish->elastic);

    return rc < 0 || (wish->elastic & (wish->elastic - 1)) != 0 ? -EINVAL : 0;
}

static int parse_network(const char *arg, struct lull_gangs_modes_options *wish)
{
    wish->network = strcmp(arg, "ethernet") == 0 ? LULL_JOB_ETHERNET : LULL_JOB_NVLINK;
    return wish->network == LULL_JOB_NVLINK && strcmp(arg, "nvlink") != 0 ? -EINVAL : 0;
}

static void refuse_type(struct argp_state *state)
{
    char known[512];
    size_t used = 0;

    for (uint32_t i = 0; i < lull_gpu_model_count && used < sizeof(known); i++)
        used +=
            (size_t)snprintf(known + used, sizeof(known) - used, "%s, ", lull_gpu_models[i].name);
    argp_error(state, "--gpu: no such model; known are %sP100-PCIE-16GB and K80-12GB", known);
}

static void check(const struct lull_gangs_modes_options *wish, struct argp_state *state)
{
    if (wish->has_pipelines && !wish->has_clocks)
        argp_error(state, "--pipelines goes with --clocks");
    if (wish->type_count == 0 && (wish->has_clocks || wish->elastic > 1 || wish->rates != NULL))
        argp_error(state, "say on which GPUs: --gpu MODEL");
    if (wish->type_count > 1 && wish->rates == NULL)
        argp_error(state, "more than one type of GPU needs --rates");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct lull_gangs_modes_options *const wish = state->input;
    int rc = 0;

    switch (key) {
    case KEY_GPU:
        rc = parse_types(arg, wish);
        if (rc == -ENOENT)
            refuse_type(state);
        if (rc < 0)
            argp_error(state, "--gpu: one MODEL, or up to %d of them, each with :NODES",
                       LULL_GANGS_MOST_TYPES);
        return 0;
    case KEY_CLOCKS:
        wish->has_clocks = true;
        return 0;
    case KEY_PIPELINES:
        wish->has_pipelines = true;
        return 0;
    case KEY_ELASTIC:
        rc = parse_elastic(arg, wish);
        break;
    case KEY_CLASS:
        rc = parse_class(arg, wish);
        break;
    case KEY_SEED:
        rc = lull_text_parse_int(arg, 0, INT64_MAX, &wish->seed);
        break;
    case KEY_NETWORK:
        rc = parse_network(arg, wish);
        break;
    case KEY_RATES:
        wish->rates = arg;
        return 0;
    case ARGP_KEY_END:
        check(wish, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (rc < 0)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

const struct argp lull_gangs_modes_argp = {.options = options, .parser = parse_option};
