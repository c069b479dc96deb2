/* SPDX-License-Identifier: Apache-2.0 */
#include "bound/options.h"

#include <argp.h>

#include "base/error.h"
#include "base/text.h"

enum { KEY_ILP = 256, KEY_FAST, KEY_GAP, KEY_TIME_LIMIT, KEY_PRICES, KEY_SCHEDULE };

static const struct argp_option option_rows[] = {
    {"ilp", KEY_ILP, NULL, 0, "Look for a whole schedule too (integer program)", 0},
    {"fast", KEY_FAST, NULL, 0,
     "No linear program: the best bound that an ascent of prices finds, as where the program is "
     "too "
     "large to be written down",
     0},
    {"gap", KEY_GAP, "R", 0, "With --ilp: be content within this of the best, e.g. 0.5% (0)", 0},
    {"time-limit", KEY_TIME_LIMIT, "S", 0, "Stop each solver after so many seconds (600)", 0},
    {"prices", KEY_PRICES, "FILE", 0, "Write what a GPU of each type is worth in each slot (CSV)",
     0},
    {"schedule", KEY_SCHEDULE, "FILE", 0, "With --ilp: write the schedule (CSV)", 0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct lull_bound_options *const options = state->input;

    switch (key) {
    case KEY_ILP:
        options->is_integer = true;
        break;
    case KEY_FAST:
        options->is_by_prices = true;
        break;
    case KEY_GAP:
        if (lull_text_parse_ratio(arg, &options->gap_ratio) < 0)
            argp_error(state, "--gap %s: expected a ratio, e.g. 0.005 or 0.5%%", arg);
        break;
    case KEY_TIME_LIMIT:
        if (lull_text_parse_number(arg, &options->time_limit_s) < 0 || options->time_limit_s <= 0.0)
            argp_error(state, "--time-limit %s: expected seconds above 0", arg);
        break;
    case KEY_PRICES:
        options->prices_out = arg;
        break;
    case KEY_SCHEDULE:
        options->schedule_out = arg;
        break;
    case 'j':
        options->is_json = true;
        break;
    case ARGP_KEY_ARG:
        if (options->path != NULL)
            argp_error(state, "%s: one instance is enough", arg);
        options->path = arg;
        break;
    case ARGP_KEY_END:
        if (options->path == NULL)
            argp_error(state, "give a file of an instance, or - for standard input");
        if (options->is_by_prices && options->is_integer)
            argp_error(state, "--fast does not go with --ilp");
        if (options->schedule_out != NULL && !options->is_integer)
            argp_error(state, "--schedule goes with --ilp");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void lull_bound_options_parse(int argc, char **argv, struct lull_bound_options *options_out)
{
    const struct argp parser = {
        .options = option_rows,
        .parser = parse_option,
        .args_doc = "INSTANCE",
        .doc = "Bounds what any schedule of jobs on a cluster costs, with everything known in "
               "advance: the time-indexed linear program, whose bound is proven anew from its "
               "prices, and the integer program.\v"
               "INSTANCE is JSON lines, plain or gzip: lull-bound(1).",
    };

    argp_err_exit_status = LULL_EXIT_USAGE;
    *options_out = (struct lull_bound_options){.time_limit_s = 600.0};
    argp_parse(&parser, argc, argv, 0, NULL, options_out);
}
