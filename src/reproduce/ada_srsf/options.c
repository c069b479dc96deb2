/* SPDX-License-Identifier: Apache-2.0 */
#include "reproduce/ada_srsf/options.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"

enum {
    KEY_TRANSFERS = 256,
    KEY_PLACE,
    KEY_VARIANT,
    KEY_ERROR,
    KEY_NODES,
    KEY_PER_NODE,
    KEY_MEMORY,
    KEY_BETA,
    KEY_ETA,
    KEY_SEED,
    KEY_RUN,
    KEY_IDLE,
    KEY_JOBS
};

enum { MOST_NODES = 4096, MOST_NODE_GPUS = 64, MOST_AT_ONCE = 1000 };

static const struct argp_option option_rows[] = {
    {"transfers", KEY_TRANSFERS, "RULE", 0,
     "Which transfers may start: adadual, srsfN (while fewer than N are on each node), or ours "
     "(one at a time, which gives way to that of a shorter job); default adadual",
     0},
    {"place", KEY_PLACE, "RULE", 0,
     "GPUs: lwf-K (least workload first; gangs of up to K may spread), ff (first fit) or random; "
     "default lwf-1",
     0},
    {"variant", KEY_VARIANT, "NAME", 0,
     "published (the released code with its errors), repaired (transfers move only as fast as the "
     "network; the default) or repaired-lists (nor is a list's next entry passed over)",
     0},
    {"error", KEY_ERROR, "NAME", 0,
     "Make one more error of the released code: asking-moves-transfers or skips-after-removal; may "
     "be "
     "given again",
     0},
    {"nodes", KEY_NODES, "N", 0, "Nodes (16)", 0},
    {"gpus-per-node", KEY_PER_NODE, "N", 0, "GPUs of a node (4)", 0},
    {"memory-mb", KEY_MEMORY, "MB", 0, "Memory of a GPU (32768)", 0},
    {"beta-ms", KEY_BETA, "MS", 0, "Time that a MB takes alone on the network (0.856)", 0},
    {"eta-ms", KEY_ETA, "MS", 0, "Time that it takes more for each transfer beside it (0.235)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of random placement (1)", 0},
    {"run-w", KEY_RUN, "W", 0, "Power of a GPU that computes (350)", 0},
    {"idle-w", KEY_IDLE, "W", 0, "Power of a GPU that does not compute; nodes stay on (60)", 0},
    {"jobs-out", KEY_JOBS, "FILE", 0, "Write when and where each job ran (CSV)", 0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

/* ---- errors of the released code ---------------------------------------------------------- */

static const char *const error_names[] = {"asking-moves-transfers", "skips-after-removal", NULL};

static bool *error_of(struct lull_shared_setup *setup, unsigned error)
{
    return error == 0 ? &setup->asking_moves_transfers : &setup->skips_after_removal;
}

const char *lull_shared_error_name(unsigned error)
{
    return error_names[error];
}

bool lull_shared_makes_error(const struct lull_shared_setup *setup, unsigned error)
{
    return error == 0 ? setup->asking_moves_transfers : setup->skips_after_removal;
}

static int parse_error(const char *arg, bool *errors)
{
    for (unsigned i = 0; error_names[i] != NULL; i++)
        if (strcmp(error_names[i], arg) == 0) {
            errors[i] = true;
            return 0;
        }
    return -EINVAL;
}

static int parse_variant(const char *arg, struct lull_shared_options *options)
{
    static const struct {
        const char *name;
        bool errors[2];
    } variants[] = {{"published", {true, true}},
                    {"repaired", {false, true}},
                    {"repaired-lists", {false, false}}};

    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        if (strcmp(variants[i].name, arg) != 0)
            continue;
        options->variant = arg;
        for (unsigned k = 0; k < 2; k++)
            *error_of(&options->setup, k) = variants[i].errors[k];
        return 0;
    }
    return -EINVAL;
}

/* ---- values ------------------------------------------------------------------------------- */

static int parse_count(const char *arg, int64_t max, uint32_t *count_out)
{
    int64_t count;

    if (lull_text_parse_int(arg, 1, max, &count) < 0)
        return -EINVAL;
    *count_out = (uint32_t)count;
    return 0;
}

static int parse_transfers(const char *arg, struct lull_shared_options *options)
{
    struct lull_shared_setup *const setup = &options->setup;

    options->transfers = arg;
    setup->at_once = 1;
    if (strcmp(arg, "adadual") == 0)
        setup->rule = LULL_SHARED_ADADUAL;
    else if (strcmp(arg, "ours") == 0)
        setup->rule = LULL_SHARED_SRTF;
    else
        setup->rule = LULL_SHARED_SRSF;
    if (setup->rule != LULL_SHARED_SRSF)
        return 0;
    return strncmp(arg, "srsf", 4) == 0 ? parse_count(arg + 4, MOST_AT_ONCE, &setup->at_once)
                                        : -EINVAL;
}

static int parse_place(const char *arg, struct lull_shared_options *options)
{
    options->place = arg;
    if (strcmp(arg, "ff") == 0)
        options->setup.kappa = LULL_SHARED_FIRST_FIT;
    else if (strcmp(arg, "random") == 0)
        options->setup.kappa = LULL_SHARED_RANDOM;
    else
        return strncmp(arg, "lwf-", 4) == 0
                   ? parse_count(arg + 4, MOST_NODES * MOST_NODE_GPUS, &options->setup.kappa)
                   : -EINVAL;
    return 0;
}

static int parse_seed(const char *arg, uint64_t *seed_out)
{
    int64_t seed;

    if (lull_text_parse_int(arg, 0, INT64_MAX, &seed) < 0)
        return -EINVAL;
    *seed_out = (uint64_t)seed;
    return 0;
}

static int parse_value(int key, char *arg, struct lull_shared_options *options, bool *errors)
{
    switch (key) {
    case KEY_TRANSFERS:
        return parse_transfers(arg, options);
    case KEY_PLACE:
        return parse_place(arg, options);
    case KEY_VARIANT:
        return parse_variant(arg, options);
    case KEY_ERROR:
        return parse_error(arg, errors);
    case KEY_NODES:
        return parse_count(arg, MOST_NODES, &options->setup.nodes);
    case KEY_PER_NODE:
        return parse_count(arg, MOST_NODE_GPUS, &options->setup.gpus_per_node);
    case KEY_MEMORY:
        return lull_text_parse_between(arg, 1.0, 1e9, &options->setup.memory_mb);
    case KEY_BETA:
        return lull_text_parse_between(arg, 1e-6, 1e6, &options->setup.beta_ms);
    case KEY_ETA:
        return lull_text_parse_between(arg, 0.0, 1e6, &options->setup.eta_ms);
    case KEY_SEED:
        return parse_seed(arg, &options->setup.seed);
    case KEY_RUN:
        return lull_text_parse_between(arg, 0.0, 1e6, &options->run_w);
    case KEY_IDLE:
        return lull_text_parse_between(arg, 0.0, 1e6, &options->idle_w);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct shared_parsing {
    struct lull_shared_options *options;
    bool errors[2]; /* those of --error, which a --variant after them does not undo */
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct shared_parsing *const parsing = state->input;
    struct lull_shared_options *const options = parsing->options;
    int result;

    switch (key) {
    case KEY_JOBS:
        options->jobs_out = arg;
        return 0;
    case 'j':
        options->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path != NULL)
            argp_error(state, "%s is a second folder or file of jobs; give one", arg);
        options->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (options->path == NULL)
            argp_error(state, "give a folder or file of jobs");
        for (unsigned i = 0; i < 2; i++)
            *error_of(&options->setup, i) |= parsing->errors[i];
        return 0;
    default:
        break;
    }
    result = parse_value(key, arg, options, parsing->errors);
    if (result == ARGP_ERR_UNKNOWN)
        return ARGP_ERR_UNKNOWN;
    if (result < 0)
        argp_error(state, "%s is not a usable value", arg);
    return 0;
}

void lull_shared_options_parse(int argc, char **argv, struct lull_shared_options *options_out)
{
    const struct argp parser = {
        .options = option_rows,
        .parser = parse_option,
        .args_doc = "JOBS",
        .doc = "Runs data-parallel jobs that share GPUs in time and a network by contention: "
               "placement by least workload, transfers by AdaDUAL and others. JOBS is a folder "
               "with a file per job, or a table.",
    };
    struct shared_parsing parsing = {.options = options_out};

    *options_out = (struct lull_shared_options){
        .setup = lull_shared_published,
        .transfers = "adadual",
        .place = "lwf-1",
        .variant = "repaired",
        .run_w = 350.0,
        .idle_w = 60.0,
    };
    options_out->setup.rule = LULL_SHARED_ADADUAL;
    options_out->setup.seed = 1;
    argp_parse(&parser, argc, argv, 0, NULL, &parsing);
}
