/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/plan.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/plan/options.h"
#include "cli/plan/output.h"
#include "cli/plan/report.h"
#include "cli/plan/solve.h"
#include "cli/plan/task.h"
#include "cli/plan/verify.h"
#include "trace/pipeline_profile.h"

static int set_waiting(struct lull_plan_arguments *arguments, struct lull_error *err)
{
    const bool is_given = arguments->wake_ms >= 0.0;

    return arguments->waiting == NULL
               ? 0
               : lull_plan_waiting_parse(arguments->waiting,
                                         is_given ? arguments->fall_ms : arguments->down_ms,
                                         is_given ? arguments->wake_ms : arguments->up_ms,
                                         &arguments->wish.waiting, err);
}

/* What is wanted, in nanoseconds of this task. */
static void set_wish(const struct lull_plan_task *task, struct lull_plan_arguments *arguments)
{
    struct lull_plan_wish *const wish = &arguments->wish;

    wish->switching.down_ns = lull_ns_from_ms(arguments->down_ms);
    wish->switching.up_ns = lull_ns_from_ms(arguments->up_ms);
    wish->switching.is_fed_forward = arguments->early_ms >= 0.0;
    wish->switching.early_ns =
        wish->switching.is_fed_forward ? lull_ns_from_ms(arguments->early_ms) : 0;
    wish->switching.call_ns = lull_ns_from_ms(arguments->driver_ms);
    wish->switching.drivers = arguments->driver_ms > 0.0 ? (uint32_t)arguments->nodes : 0;
    wish->switching.dwell_ns = lull_ns_from_ms(arguments->dwell_ms);
    wish->straggler_ns = lull_ns_from_ms(arguments->straggler_ms);
    wish->deadline_ns = lull_ns_from_ms(arguments->deadline_ms);
    if (arguments->slowdown_ratio >= 0.0)
        wish->deadline_ns = task->all_max.time_ns +
                            (int64_t)((double)task->all_max.time_ns * arguments->slowdown_ratio);
    if (wish->straggler_ns > 0)
        wish->deadline_ns = wish->straggler_ns;
}

static int write_files(const struct lull_plan_arguments *arguments,
                       const struct lull_plan_task *task, const struct lull_plan_result *result,
                       struct lull_error *err)
{
    int code = 0;

    if (arguments->output != NULL)
        code = lull_plan_write(arguments->output, task, &arguments->wish, result->single, err);
    if (code == 0 && arguments->perseus != NULL)
        code = lull_plan_write_perseus(arguments->perseus, task, result->single, err);
    if (code == 0 && arguments->svg != NULL)
        code = lull_plan_write_picture(arguments->svg, task, &arguments->wish, result->single, err);
    return code;
}

static int print(const struct lull_plan_arguments *arguments, const struct lull_plan_task *task,
                 const struct lull_plan_result *result, struct lull_error *err)
{
    struct lull_plan_point envpipe;
    const bool compares = !arguments->is_json && arguments->wish.planner != LULL_PLAN_ENVPIPE &&
                          arguments->straggler_ms == 0.0 &&
                          lull_plan_compare(task, &arguments->wish, &envpipe) == 0;

    if (!arguments->is_json)
        lull_plan_print_text(task, &arguments->wish, result, compares ? &envpipe : NULL);
    else if (lull_plan_print_json(task, &arguments->wish, result) < 0)
        return lull_error_set(err, -EIO, "cannot write to standard output");
    return 0;
}

/* Names the order of --schedule best, and the deadline at which it is the best. */
static int choose_order(struct lull_plan_arguments *arguments,
                        const struct lull_pipeline_profile *measured,
                        struct lull_plan_orders *orders, struct lull_error *err)
{
    const struct lull_plan_orders_wish wish = {
        .memory = arguments->memory,
        .deadline_ns = lull_ns_from_ms(arguments->deadline_ms),
        .straggler_ns = lull_ns_from_ms(arguments->straggler_ms),
        .slowdown_ratio = arguments->slowdown_ratio};
    const int code = lull_plan_orders_choose(&arguments->source, measured, &wish, orders, err);

    if (code == 0) {
        arguments->source.schedule = orders->name;
        arguments->wish.orders = orders;
    }
    return code;
}

static int build(struct lull_plan_arguments *arguments, struct lull_plan_orders *orders,
                 struct lull_plan_task *task, struct lull_error *err)
{
    struct lull_pipeline_profile measured;
    int code = lull_pipeline_profile_read(arguments->source.profile, &measured, err);

    if (code < 0)
        return code;
    if (lull_plan_is_best(arguments))
        code = choose_order(arguments, &measured, orders, err);
    if (code == 0)
        code = lull_plan_task_build(&arguments->source, &measured, task, err);
    lull_pipeline_profile_fini(&measured);
    if (code == 0) {
        set_wish(task, arguments);
        if (arguments->wish.orders != NULL)
            arguments->wish.deadline_ns = orders->deadline_ns;
    }
    return code;
}

static int plan(struct lull_plan_arguments *arguments, struct lull_error *err)
{
    struct lull_plan_orders orders;
    struct lull_plan_task task;
    struct lull_plan_result result;
    int code = set_waiting(arguments, err);

    if (code == 0)
        code = build(arguments, &orders, &task, err);
    if (code < 0)
        return code;
    code = lull_plan_solve(&task, &arguments->wish, &result, err);
    if (code == 0) {
        code = write_files(arguments, &task, &result, err);
        if (code == 0)
            code = print(arguments, &task, &result, err);
        lull_plan_result_fini(&result);
    }
    lull_plan_task_fini(&task);
    return code;
}

int lull_plan_main(int argc, char **argv)
{
    struct lull_plan_arguments arguments;
    struct lull_error err = {0};
    int result;

    lull_plan_parse(argc, argv, &arguments);
    result = arguments.verify != NULL ? lull_plan_verify(arguments.verify, arguments.source.profile,
                                                         arguments.is_json, &err)
                                      : plan(&arguments, &err);
    if (result >= 0)
        return result;
    result = lull_cli_fail("plan", &err);
    return err.code == LULL_E_FORMAT ? LULL_EXIT_FAILED : result; /* a file, not the usage */
}
