/*
 * lull energy: joules from power logs. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/energy/report.h"
#include "trace/power_log.h"

struct energy_arguments {
    bool is_json;
    int64_t interval_ns; /* 0: not reported */
    int64_t from_ns;
    int64_t to_ns;
};

static int energy_command_parse_time(const char *text, void *place, struct lull_error *err)
{
    (void)err;
    return lull_power_log_time(text, place);
}

static const struct lull_option rows[] = {
    LULL_VALUE("every", "S", TIME, struct energy_arguments, interval_ns,
               "The time between two rows of a GPU, for logs without times.", .least = 0.001,
               .most = 86400.0, .otherwise = "logs without times are refused"),
    LULL_VALUE("from", "TIME", OWN, struct energy_arguments, from_ns,
               "Count from here: a time as the log has it.", .parse = energy_command_parse_time,
               .expected = "a date with a time, or a number of seconds",
               .otherwise = "the first reading"),
    LULL_VALUE("to", "TIME", OWN, struct energy_arguments, to_ns, "Count up to here.",
               .parse = energy_command_parse_time,
               .expected = "a date with a time, or a number of seconds",
               .otherwise = "the last reading"),
    LULL_JSON_ROW(struct energy_arguments, is_json),
    {0},
};

static void energy_command_prepare(void *options)
{
    struct energy_arguments *const arguments = options;

    arguments->from_ns = INT64_MIN;
    arguments->to_ns = INT64_MAX;
}

static int energy_command_check(void *options, const struct lull_operands *operands,
                                struct lull_error *err)
{
    const struct energy_arguments *const arguments = options;

    (void)operands;
    if (arguments->from_ns >= arguments->to_ns)
        return lull_error_set(err, -EINVAL, "--to must be later than --from");
    return 0;
}

/* Reads and integrates one file. */
static int energy_command_read_file(const struct energy_arguments *arguments, const char *path,
                                    struct lull_energy_file *file, struct lull_error *err)
{
    int rc = lull_power_log_read(path, arguments->interval_ns, &file->log, err);

    if (rc < 0)
        return rc;
    file->path = path;
    rc = lull_energy_file_integrate(file, arguments->from_ns, arguments->to_ns);
    return rc < 0 ? lull_error_set(err, rc, "%s: not enough memory for its energy", path) : 0;
}

static int energy_command_run(void *options, const struct lull_operands *operands)
{
    const struct energy_arguments *const arguments = options;
    struct lull_energy_file *const files = calloc(operands->count, sizeof(*files));
    struct lull_error err = {0};
    size_t count = 0;
    int status = LULL_EXIT_OK;

    if (files == NULL) {
        lull_error_set(&err, -ENOMEM, "not enough memory for %u files", operands->count);
        return lull_cli_fail("energy", &err);
    }
    /* A file that cannot be read must not cost the others. */
    for (uint32_t i = 0; i < operands->count; i++) {
        if (energy_command_read_file(arguments, operands->words[i], &files[count], &err) == 0)
            count++;
        else
            status = lull_cli_fail("energy", &err);
    }
    if (arguments->is_json && lull_energy_print_json(files, count) < 0)
        status = LULL_EXIT_FAILED;
    else if (!arguments->is_json)
        lull_energy_print(files, count);
    if (status == LULL_EXIT_OK && !lull_energy_is_known(files, count))
        status = LULL_EXIT_FAILED;
    for (size_t i = 0; i < count; i++)
        lull_energy_file_fini(&files[i]);
    free(files);
    return status;
}

const struct lull_program_command lull_energy_command = {
    .name = "energy",
    .summary = "energy from power logs, with its uncertainty",
    .arguments = "LOG...",
    .about =
        "Integrates logs of GPU power, or reads their energy counters: joules per GPU and window, "
        "with half of the 95 % interval. LOG is what nvidia-smi (--query-gpu --format=csv, dmon), "
        "dcgmi dmon, Zeus or CodeCarbon write, or a table with the columns time, gpu and power_w, "
        "plain or gzip; - is standard input. Readings that are missing or that a board cannot have "
        "are dropped and counted; gaps are not filled. The gain of a board's own sensor (up to 5 "
        "%) "
        "is not part of the interval.",
    .tables = {{rows, 0}},
    .operands = {.least = 1, .most = UINT32_MAX, .missing = "give one power log or more"},
    .size = sizeof(struct energy_arguments),
    .prepare = energy_command_prepare,
    .check = energy_command_check,
    .run = energy_command_run,
};
