/*
 * The audit of a saving's interval in full: what it covers under every condition, with the term of
 * the readings alone and with all terms, and what each term covers alone. Exits 1 where less than
 * 90 % of the intervals hold the truth.
 * Arguments: [CASES [LENGTHS [CONDITION]]], 1 to 2000 cases at the first 1 to 3 lengths, of all
 * conditions or one. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#include "tests/core/energy/saving_case.h"

static const double least_covered = 0.9;
/* Iterations of a run. */
static const uint32_t lengths[] = {100, 600, 3000};

static void print_heads(void)
{
    printf("%-26s %10s %7s | %7s %6s | %7s %6s | half width by and covered by it alone: readings, "
           "runs, offset, level, sampling\n",
           "condition", "iterations", "saving", "before", "+-", "covered", "+-");
}

static void print_row(const char *name, uint32_t iterations, const struct saving_summary *summary)
{
    printf("%-26s %10u %5.2f %% | %5.1f %% %6.2f | %5.1f %% %6.2f |", name, iterations,
           summary->saving * 100.0, summary->covered_before * 100.0, summary->width_before * 100.0,
           summary->covered * 100.0, summary->width * 100.0);
    for (int i = 0; i < LULL_ENERGY_TERMS; i++)
        printf(" %6.2f %5.1f %%", summary->terms[i] * 100.0, summary->covered_alone[i] * 100.0);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 3 ? argv[3] : NULL;
    int64_t cases = 1000;
    int64_t count = sizeof(lengths) / sizeof(lengths[0]);
    int status = EXIT_SUCCESS;

    if ((argc > 1 && lull_text_parse_int(argv[1], 1, SAVING_CASE_MOST, &cases) < 0) ||
        (argc > 2 && lull_text_parse_int(argv[2], 1, count, &count) < 0)) {
        fprintf(stderr, "usage: bench_saving [CASES [LENGTHS [CONDITION]]]\n");
        return 2;
    }
    print_heads();
    for (uint32_t i = 0; i < saving_condition_count; i++) {
        const char *name = saving_conditions[i].name;

        for (int64_t j = 0; j < count; j++) {
            struct saving_summary summary;

            if (wanted != NULL && strcmp(name, wanted) != 0)
                continue;
            saving_case_summarize(&saving_conditions[i], lengths[j], (uint32_t)cases, &summary);
            print_row(name, lengths[j], &summary);
            if (summary.covered < least_covered)
                status = EXIT_FAILURE;
        }
    }
    return status;
}
