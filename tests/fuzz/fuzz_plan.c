/*
 * Plan files: refused with a message, or a plan that can be
 * replayed and is the same after writing and reading it again. SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "trace/plan_file.h"

static void write_plan(const struct lull_plan_file *plan, char **text_out, size_t *size_out)
{
    FILE *const file = open_memstream(text_out, size_out);

    require(file != NULL && lull_plan_file_write(plan, file) == 0 && fclose(file) == 0);
}

static void replay(const struct lull_plan_file *plan)
{
    const struct lull_pipeline_problem problem = {&plan->profile, &plan->graph, plan->blocking_w};
    struct lull_error err = {0};

    require(lull_pipeline_plan_cost(&problem, plan->option, plan->period_ns).time_ns > 0);
    if (lull_certificate_check(&plan->certificate, &plan->graph, &err) == 0)
        (void)lull_certificate_bound(&plan->certificate, &problem, plan->time_ns);
    else
        require(err.text[0] != '\0');
}

static void check_again(const struct lull_plan_file *plan)
{
    struct lull_plan_file again;
    struct lull_error err = {0};
    char *text;
    char *second;
    size_t size;
    size_t second_size;

    write_plan(plan, &text, &size);
    if (lull_plan_file_read(text_file(text, size), &again, &err) < 0) {
        fprintf(stderr, "%s\n%.2000s\n", err.text, text);
        abort();
    }
    write_plan(&again, &second, &second_size);
    require(size == second_size && memcmp(text, second, size) == 0);
    lull_plan_file_fini(&again);
    free(text);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_error err = {0};
    struct lull_plan_file plan;

    if (lull_plan_file_read(text_file(data, size), &plan, &err) < 0) {
        require(err.text[0] != '\0');
        return 0;
    }
    replay(&plan);
    check_again(&plan);
    lull_plan_file_fini(&plan);
    return 0;
}
