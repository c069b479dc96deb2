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

static int set_waiting(struct lull_plan_arguments *arguments, struct lull_error *err)
{
    double down_ms = arguments->down_ms;
    double up_ms = arguments->up_ms;

    if (arguments->waiting == NULL)
        return 0;
    if (arguments->wake_ms >= 0.0) {
        down_ms = arguments->fall_ms;
        up_ms = arguments->wake_ms;
    }
    return lull_plan_waiting_parse(arguments->waiting, down_ms, up_ms, &arguments->options.waiting,
                                   err);
}

/* Sets what the user wants of the plan; a slowdown counts from this task's highest clocks. */
static void set_options(const struct lull_plan_task *task, struct lull_plan_arguments *arguments)
{
    struct lull_plan_options *const options = &arguments->options;

    options->switching.down_ns = lull_ns_from_ms(arguments->down_ms);
    options->switching.up_ns = lull_ns_from_ms(arguments->up_ms);
    options->switching.is_fed_forward = arguments->early_ms >= 0.0;
    options->switching.early_ns =
        options->switching.is_fed_forward ? lull_ns_from_ms(arguments->early_ms) : 0;
    options->switching.call_ns = lull_ns_from_ms(arguments->driver_ms);
    options->switching.drivers = arguments->driver_ms > 0.0 ? (uint32_t)arguments->nodes : 0;
    options->switching.dwell_ns = lull_ns_from_ms(arguments->dwell_ms);
    options->straggler_ns = lull_ns_from_ms(arguments->straggler_ms);
    options->deadline_ns = lull_ns_from_ms(arguments->deadline_ms);
    if (arguments->slowdown_ratio >= 0.0)
        options->deadline_ns = task->all_max.time_ns +
                               (int64_t)((double)task->all_max.time_ns * arguments->slowdown_ratio);
    if (options->straggler_ns > 0)
        options->deadline_ns = options->straggler_ns;
}

static int write_files(const struct lull_plan_arguments *arguments,
                       const struct lull_plan_task *task, const struct lull_plan_result *result,
                       struct lull_error *err)
{
    const struct lull_plan_single *const single = result->single;
    int code = 0;

    if (arguments->output != NULL)
        code = lull_plan_write(arguments->output, task, &arguments->options, single, err);
    if (code == 0 && arguments->perseus != NULL)
        code = lull_plan_write_perseus(arguments->perseus, task, single, err);
    if (code == 0 && arguments->svg != NULL)
        code = lull_plan_write_picture(arguments->svg, task, &arguments->options, single, err);
    return code;
}

static int print(const struct lull_plan_arguments *arguments, const struct lull_plan_task *task,
                 const struct lull_plan_result *result, struct lull_error *err)
{
    struct lull_plan_point envpipe;
    const bool compares = !arguments->is_json && arguments->options.planner != LULL_PLAN_ENVPIPE &&
                          arguments->straggler_ms == 0.0 &&
                          lull_plan_compare(task, &arguments->options, &envpipe) == 0;

    if (!arguments->is_json)
        lull_plan_print_text(task, &arguments->options, result, compares ? &envpipe : NULL);
    else if (lull_plan_print_json(task, &arguments->options, result) < 0)
        return lull_error_set(err, -EIO, "cannot write to standard output");
    return 0;
}

/* Names the order of --schedule best, and the deadline at which it is the best. */
static int choose_order(struct lull_plan_arguments *arguments,
                        const struct lull_plan_profiles *profiles, struct lull_plan_orders *orders,
                        struct lull_error *err)
{
    const struct lull_plan_orders_options options = {
        .memory = arguments->memory,
        .deadline_ns = lull_ns_from_ms(arguments->deadline_ms),
        .straggler_ns = lull_ns_from_ms(arguments->straggler_ms),
        .slowdown_ratio = arguments->slowdown_ratio};
    const int code = lull_plan_orders_choose(&arguments->source, profiles, &options, orders, err);

    if (code < 0)
        return code;
    arguments->source.schedule = orders->name;
    arguments->options.orders = orders;
    return 0;
}

static int build(struct lull_plan_arguments *arguments, const struct lull_plan_profiles *profiles,
                 struct lull_plan_orders *orders, struct lull_plan_task *task,
                 struct lull_error *err)
{
    int code;

    if (lull_plan_is_best(arguments)) {
        code = choose_order(arguments, profiles, orders, err);
        if (code < 0)
            return code;
    }
    code = lull_plan_task_init(&arguments->source, profiles, task, err);
    if (code < 0)
        return code;
    set_options(task, arguments);
    if (arguments->options.orders != NULL)
        arguments->options.deadline_ns = orders->deadline_ns;
    return 0;
}

static int solve(const struct lull_plan_arguments *arguments, const struct lull_plan_task *task,
                 struct lull_error *err)
{
    struct lull_plan_result result;
    int code = lull_plan_solve(task, &arguments->options, &result, err);

    if (code < 0)
        return code;
    code = write_files(arguments, task, &result, err);
    if (code == 0)
        code = print(arguments, task, &result, err);
    lull_plan_result_fini(&result);
    return code;
}

static int plan(struct lull_plan_arguments *arguments, struct lull_error *err)
{
    struct lull_plan_profiles profiles;
    struct lull_plan_orders orders;
    struct lull_plan_task task;
    int code = set_waiting(arguments, err);

    if (code < 0)
        return code;
    code = lull_plan_profiles_read(&arguments->source, &profiles, err);
    if (code < 0)
        return code;
    code = build(arguments, &profiles, &orders, &task, err);
    if (code == 0) {
        code = solve(arguments, &task, err);
        lull_plan_task_fini(&task);
    }
    lull_plan_profiles_fini(&profiles);
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
