/*
 * Offline problems in slots: refused with a message, or checked, bounded, and read again as they
 * were once they are written. SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "cluster/core/bound/dual_bound.h"
#include "cluster/trace/slot_file.h"

enum { FEW = 1 << 16 }; /* of slots times types: what a run has memory for */

static double bound_of(const struct lull_slot_problem *problem)
{
    double *prices = calloc((size_t)problem->slots * problem->type_count, sizeof(*prices));
    const struct lull_dual_prices some = {prices, prices};
    double bound_j = 0.0;

    require(prices != NULL);
    for (uint32_t t = 0; t < problem->slots; t += 3)
        prices[t] = 1.5 * t;
    require(lull_dual_bound(problem, &some, &bound_j, NULL) == 0);
    free(prices);
    return bound_j;
}

static void read_again(const struct lull_slot_problem *problem, double bound_j)
{
    struct lull_slot_file again;
    struct lull_error err = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    require(file != NULL);
    lull_slot_file_write(problem, 0.0, file);
    require(fclose(file) == 0);
    require(lull_slot_file_read(text_file(text, size), &again, &err) == 0);
    require(again.problem.job_count == problem->job_count && again.dropped == 0);
    require(bound_of(&again.problem) == bound_j);
    lull_slot_file_fini(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_slot_file file;
    struct lull_error err = {0};

    if (lull_slot_file_read(text_file(data, size), &file, &err) < 0) {
        require(err.text[0] != '\0' && file.jobs == NULL);
    } else {
        require(lull_slot_problem_check(&file.problem, NULL) == 0);
        if ((uint64_t)file.problem.slots * file.problem.type_count <= FEW)
            read_again(&file.problem, bound_of(&file.problem));
        lull_slot_file_fini(&file);
    }
    return 0;
}
