/* lull meter: the energy of GPUs for programs that ask, line by line.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/shared/command.h"
#include "governor/energy/energy_meter.h"

static int meter_command_answer(struct lull_energy_meter *meter)
{
    const double energy_j = lull_energy_meter_read(meter);

    if (isnan(energy_j))
        fputs("unknown\n", stdout);
    else
        printf("%.3f\n", energy_j);
    return fflush(stdout);
}

static int meter_command_run(void *options, const struct lull_operands *operands)
{
    struct lull_energy_meter meter;
    struct lull_error err = {0};
    char *line = NULL;
    size_t size = 0;
    int result;

    (void)options;
    (void)operands;
    result = lull_energy_meter_open(&meter, &err);
    if (result < 0)
        return lull_cli_fail("meter", &err);
    result = lull_energy_meter_begin(&meter, &err);
    while (result == 0 && getline(&line, &size, stdin) > 0)
        if (meter_command_answer(&meter) == EOF)
            result = lull_error_set(&err, -errno, "standard output cannot be written: %s",
                                    strerror(errno));
    free(line);
    lull_energy_meter_close(&meter);
    return result < 0 ? lull_cli_fail("meter", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {{0}};

const struct lull_program_command lull_meter_command = {
    .name = "meter",
    .summary = "answer each line of input with the energy that GPUs have drawn",
    .about = "Answers each line of standard input with the energy (J) that the GPUs used since the "
             "start, from their counters, or with the word unknown. CUDA_VISIBLE_DEVICES and "
             "similar variables select the GPUs. Exits at the end of input. For batch systems, "
             "whose plugins must not wait for a driver.",
    .tables = {{rows, 0}},
    .run = meter_command_run,
};
