/*
 * The audit of a saving's interval in full: every condition at 100, 600 and 3000 iterations. Exits
 * 1 where less than 90 % of the intervals hold the truth. Arguments: [CASES, of 2000 at most
 * [LENGTHS, of 3]]. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/core/energy/saving_case.h"

static const double least_covered = 0.9;

int main(int argc, char **argv)
{
    static const uint32_t lengths[] = {100, 600, 3000};
    const uint32_t cases = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000;
    const uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 3;
    int status = EXIT_SUCCESS;

    printf(
        "%-32s %10s %7s | %7s %6s | %7s %6s | half width by, covered by it alone: readings, runs, "
        "offset, level, sampling\n",
        "condition", "iterations", "saving", "before", "+-", "covered", "+-");
    for (uint32_t i = 0; i < saving_condition_count; i++) {
        if (argc > 3 && strcmp(saving_conditions[i].name, argv[3]) != 0)
            continue;
        for (uint32_t j = 0; j < count; j++) {
            struct saving_summary summary;

            saving_case_summarize(&saving_conditions[i], lengths[j], cases, &summary);
            printf("%-32s %10u %5.2f %% | %5.1f %% %6.2f | %5.1f %% %6.2f |",
                   saving_conditions[i].name, lengths[j], summary.saving * 100.0,
                   summary.covered_before * 100.0, summary.width_before * 100.0,
                   summary.covered * 100.0, summary.width * 100.0);
            for (int k = 0; k < LULL_ENERGY_TERMS; k++)
                printf(" %6.2f %5.1f %%", summary.terms[k] * 100.0,
                       summary.covered_alone[k] * 100.0);
            printf("\n");
            fflush(stdout);
            if (summary.covered < least_covered)
                status = EXIT_FAILURE;
        }
    }
    return status;
}
