/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const char *lull_cli_runtime_directory(void)
{
    const char *directory = getenv("LULL_RUNTIME_DIR");

    return directory != NULL && directory[0] != '\0' ? directory : "/run/lull";
}

enum { MAX_OPTIONS = 3 };

static const struct argp_option json_option = {"json", 'j', NULL, 0, "Print one JSON document", 0};
static const struct argp_option runtime_dir_option = {
    "runtime-dir", 'r', "DIR", 0, "Of lulld (default: $LULL_RUNTIME_DIR or /run/lull)", 0};

static error_t parse_shared(int key, char *argument, struct argp_state *state)
{
    struct lull_cli_options *options = state->input;

    switch (key) {
    case 'j':
        options->is_json = true;
        return 0;
    case 'r':
        options->runtime_dir = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: this command takes no arguments", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void lull_cli_parse(int argc, char **argv, unsigned accepted, const char *doc,
                    struct lull_cli_options *options_out)
{
    struct argp_option table[MAX_OPTIONS] = {{0}};
    const struct argp parser = {.options = table, .parser = parse_shared, .doc = doc};
    unsigned count = 0;

    if (accepted & LULL_CLI_JSON)
        table[count++] = json_option;
    if (accepted & LULL_CLI_RUNTIME_DIR)
        table[count++] = runtime_dir_option;
    *options_out = (struct lull_cli_options){.runtime_dir = lull_cli_runtime_directory()};
    argp_parse(&parser, argc, argv, 0, NULL, options_out);
}

int lull_cli_fail(const char *command, const struct lull_error *err)
{
    fprintf(stderr, "lull %s: %s\n", command, err->text);
    return (int)lull_error_exit_status(err->code);
}

int lull_cli_parse_latency(const char *text, double *first_ms_out, double *second_ms_out)
{
    const double most_ms = 10000.0;
    const char *const comma = strchr(text, ',');
    char first[32];
    double first_ms;
    double second_ms;

    if (comma == NULL || (size_t)(comma - text) >= sizeof(first))
        return -EINVAL;
    memcpy(first, text, (size_t)(comma - text));
    first[comma - text] = '\0';
    if (lull_text_parse_number(first, &first_ms) < 0 ||
        lull_text_parse_number(comma + 1, &second_ms) < 0)
        return -EINVAL;
    if (!(first_ms >= 0.0 && first_ms <= most_ms && second_ms >= 0.0 && second_ms <= most_ms))
        return -EINVAL;
    *first_ms_out = first_ms;
    *second_ms_out = second_ms;
    return 0;
}
