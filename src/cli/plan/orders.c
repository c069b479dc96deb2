/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/stages.h"

/* Writes the schedule's name as --schedule takes it. Error: -E2BIG it does not fit. */
static int plan_orders_name_of(const struct lull_pipeline_schedule *schedule, char *name,
                               size_t size)
{
    const bool is_alike =
        schedule->limits > 1 && schedule->limit[0] == schedule->limit[schedule->limits - 1];
    size_t length = (size_t)snprintf(name, size, "%s", lull_pipeline_family_name(schedule->family));

    for (uint32_t i = 0; i < schedule->limits && length < size; i++) {
        if (is_alike && i > 0)
            break;
        length += (size_t)snprintf(name + length, size - length, "%c%u", i == 0 ? ':' : ',',
                                   schedule->limit[i]);
    }
    return length < size ? 0 : -E2BIG;
}

static int parse_memory(const char *text, uint32_t stages, uint32_t *in_flight,
                        struct lull_error *err)
{
    int result = 0;

    for (uint32_t stage = 0; stage < stages; stage++)
        in_flight[stage] = UINT32_MAX;
    if (text != NULL)
        result = lull_plan_stages_counts(text, stages, LULL_PIPELINE_MAX_MICROBATCHES, in_flight);
    if (result == -EINVAL)
        return lull_error_set(err, result,
                              "--memory %.60s: expected micro-batches from 1 to %d, one number or "
                              "one for each of %u stages (12 or 12,11,10)",
                              text, LULL_PIPELINE_MAX_MICROBATCHES, stages);
    return result;
}

/* The time that all orders are compared at. */
static int64_t deadline_of(const struct lull_plan_orders_options *options, int64_t all_max_ns)
{
    if (options->straggler_ns > 0)
        return options->straggler_ns;
    if (options->deadline_ns > 0)
        return options->deadline_ns;
    return all_max_ns + (int64_t)((double)all_max_ns * options->slowdown_ratio);
}

/* All orders are compared at one deadline, which a slowdown counts from 1f1b at the highest clocks.
 * */
static int plan_orders_choose(const struct lull_plan_task *task,
                              const struct lull_plan_orders_options *options, uint32_t *in_flight,
                              struct lull_plan_orders *orders, struct lull_error *err)
{
    struct lull_plan_shape shape;
    int result = parse_memory(options->memory, task->stages, in_flight, err);

    if (result < 0)
        return result;
    orders->deadline_ns = deadline_of(options, task->all_max.time_ns);
    result = lull_plan_shape_init(task, &shape, err);
    if (result == 0)
        result = lull_pipeline_choose_order(
            &(struct lull_pipeline_order_options){.shape = &shape.shape,
                                                  .measured = &task->profiles->measured,
                                                  .blocking_w = task->blocking_w,
                                                  .in_flight = in_flight,
                                                  .deadline_ns = orders->deadline_ns,
                                                  .straggler_ns = options->straggler_ns},
            &orders->choices, err);
    lull_memory_free(&shape.memory);
    return result;
}

int lull_plan_orders_choose(const struct lull_plan_source *source,
                            const struct lull_plan_profiles *profiles,
                            const struct lull_plan_orders_options *options,
                            struct lull_plan_orders *orders_out, struct lull_error *err)
{
    struct lull_plan_source first = *source;
    struct lull_plan_task task;
    uint32_t *in_flight;
    int result;

    first.schedule = "1f1b";
    result = lull_plan_task_init(&first, profiles, &task, err);
    if (result < 0)
        return result;
    in_flight = calloc(task.stages, sizeof(*in_flight));
    result = in_flight == NULL ? -ENOMEM
                               : plan_orders_choose(&task, options, in_flight, orders_out, err);
    free(in_flight);
    lull_plan_task_fini(&task);
    if (result == 0 &&
        plan_orders_name_of(&orders_out->choices.choices[orders_out->choices.best].schedule,
                            orders_out->name, sizeof(orders_out->name)) < 0)
        result = lull_error_set(err, -E2BIG,
                                "--schedule best: there are too many stages for its name, which "
                                "lists one number for each");
    return result == -ENOMEM ? lull_error_set(err, result, "no memory for orders") : result;
}

/* ---- printed ----------------------------------------------------------------------------- */

void lull_plan_orders_print(const struct lull_plan_orders *orders)
{
    const struct lull_pipeline_choice *const first = &orders->choices.choices[0];

    printf("Orders at %.6f s:\n%-32s %9s %16s %13s\n",
           (double)lull_plan_shown_ns(orders->deadline_ns) * 1e-9, "", "in flight",
           "least energy J", "against 1f1b");
    for (size_t i = 0; i < orders->choices.count; i++) {
        const struct lull_pipeline_choice *const choice = &orders->choices.choices[i];
        char name[LULL_PLAN_ORDER_NAME];

        (void)plan_orders_name_of(&choice->schedule, name, sizeof(name));
        printf("%-32s %9u", name, choice->in_flight);
        if (!choice->fits)
            printf(" %16s", "does not fit");
        else if (!choice->is_in_time)
            printf(" %16s", "too slow");
        else
            printf(" %16.3f", choice->energy_j);
        if (choice->is_in_time && first->is_in_time && i > 0)
            printf(" %+11.2f %%", 100.0 * (choice->energy_j / first->energy_j - 1.0));
        putchar('\n');
    }
    putchar('\n');
}

void lull_plan_orders_print_json(const struct lull_plan_orders *orders)
{
    printf(",\n \"schedule\": \"%s\", \"orders\": [", orders->name);
    for (size_t i = 0; i < orders->choices.count; i++) {
        const struct lull_pipeline_choice *const choice = &orders->choices.choices[i];
        char name[LULL_PLAN_ORDER_NAME];

        (void)plan_orders_name_of(&choice->schedule, name, sizeof(name));
        printf("%s\n  {\"schedule\": \"%s\", \"in_flight\": %u, \"fits\": %s, \"bound_j\": ",
               i > 0 ? "," : "", name, choice->in_flight, choice->fits ? "true" : "false");
        if (choice->is_in_time)
            printf("%.9f}", choice->energy_j);
        else
            printf("null}");
    }
    printf("]");
}
