/* SPDX-License-Identifier: Apache-2.0 */
#include "base/minmax.h"
#include "governor/plan/plan_runner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "governor/plan/plan_runner_state.h"

/* ---- plans of files ----------------------------------------------------------------------- */

int lull_pipeline_plans_load(struct lull_pipeline_plans *plans, const char *const *paths,
                             uint32_t count, struct lull_error *err)
{
    if (count > LULL_PLAN_RUNNER_MAX_PLANS)
        return lull_error_set(err, -E2BIG, "%u plans: at most %d are tried; give fewer --plan",
                              count, LULL_PLAN_RUNNER_MAX_PLANS);
    for (uint32_t i = 0; i < count; i++) {
        const int result = lull_plan_file_read(paths[i], &plans->files[i], err);

        if (result < 0) {
            lull_pipeline_plans_fini(plans);
            return result;
        }
        plans->count++;
    }
    return 0;
}

void lull_pipeline_plans_fini(struct lull_pipeline_plans *plans)
{
    for (uint32_t i = 0; i < plans->count; i++)
        lull_plan_file_fini(&plans->files[i]);
    plans->count = 0;
}

/* ---- devices of the ranks ---------------------------------------------------------------- */

static uint32_t plan_runner_device_of(const struct lull_plan_runner *runner, uint32_t rank,
                                      uint32_t world)
{
    const uint32_t devices = runner->plans[0].graph.device_count;
    const uint32_t replicas = devices / runner->stages;
    const uint32_t tensor = world / devices;
    const uint32_t stage = rank / (tensor * replicas);

    return rank / tensor % replicas * runner->stages + stage;
}

/* ---- creating ---------------------------------------------------------------------------- */

/* Plans may differ in their clocks, but not in the operations of a device: one tracker follows all
 * of them. */
static bool is_same_pipeline(const struct lull_plan_file *a, const struct lull_plan_file *b)
{
    const struct lull_pipeline_problem of_a = lull_plan_runner_problem(a);
    const struct lull_pipeline_problem of_b = lull_plan_runner_problem(b);

    if (a->graph.device_count != b->graph.device_count)
        return false;
    for (uint32_t i = 0; i < a->graph.device_count; i++)
        if (lull_device_plan_count(&of_a, i) != lull_device_plan_count(&of_b, i))
            return false;
    return true;
}

/* The GPU of a device without operations cannot be followed. */
static bool has_empty_device(const struct lull_plan_file *plan)
{
    const struct lull_pipeline_problem problem = lull_plan_runner_problem(plan);

    for (uint32_t i = 0; i < plan->graph.device_count; i++)
        if (lull_device_plan_count(&problem, i) == 0)
            return true;
    return false;
}

static int check_plans(const struct lull_plan_file *plans, uint32_t count, struct lull_error *err)
{
    if (has_empty_device(&plans[0]))
        return lull_error_set(
            err, -EINVAL,
            "%s: a device of the plan has no operations; create the plan again with lull plan",
            plans[0].title);
    for (uint32_t i = 1; i < count; i++)
        if (!is_same_pipeline(&plans[0], &plans[i]))
            return lull_error_set(err, -EINVAL, "%s and %s are plans of different pipelines",
                                  plans[0].title, plans[i].title);
    return 0;
}

int lull_plan_runner_create(const struct lull_plan_runner_setup *setup,
                            struct lull_plan_runner **runner_out, struct lull_error *err)
{
    const struct lull_pipeline_problem first = lull_plan_runner_problem(&setup->plans[0]);
    const int result = check_plans(setup->plans, setup->plan_count, err);
    struct lull_plan_runner *runner;

    if (result < 0)
        return result;
    runner = calloc(1, sizeof(*runner));
    if (runner == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory to execute a plan");
    runner->plans = setup->plans;
    runner->plan_count = setup->plan_count;
    runner->stages = lull_pipeline_stages(&first);
    lull_plan_controller_config_default(&runner->config);
    runner->config.tolerance_ratio = setup->config->tolerance_ratio;
    runner->config.confidence = setup->config->confidence;
    runner->config.observe_only = setup->config->observe_only;
    runner->config.seed = setup->config->seed;
    runner->shared_seed = setup->shared_seed;
    runner->node_gpu_count = lull_min_u32(setup->gpu_count, LULL_PLAN_CONTROLLER_MAX_GPUS);
    for (uint32_t i = 0; i < runner->node_gpu_count; i++)
        runner->gpus[i].info = lull_device_info(setup->devices, setup->gpus[i]);
    for (uint32_t i = 0; i < LULL_PLAN_CONTROLLER_MAX_GPUS; i++)
        runner->gpus[i].device = -1;
    *runner_out = runner;
    return 0;
}

void lull_plan_runner_destroy(struct lull_plan_runner *runner)
{
    if (runner == NULL)
        return;
    for (uint32_t i = 0; i < LULL_PLAN_CONTROLLER_MAX_GPUS; i++) {
        lull_op_tracker_destroy(runner->gpus[i].tracker);
        free(runner->gpus[i].ops);
        free(runner->gpus[i].ends_ns);
    }
    lull_plan_controller_destroy(runner->plan_controller);
    free(runner->recorded);
    free(runner);
}

/* ---- binding ----------------------------------------------------------------------------- */

static int create_tracker(struct lull_plan_runner *runner, struct lull_runner_gpu *gpu)
{
    const struct lull_plan_file *plan = &runner->plans[0];
    const struct lull_pipeline_problem problem = lull_plan_runner_problem(plan);
    const uint32_t count = lull_device_plan_count(&problem, (uint32_t)gpu->device);
    struct lull_op_tracker_op *ops = calloc(count, sizeof(ops[0]));

    if (ops == NULL)
        return -ENOMEM;
    lull_device_plan_track(&problem, plan->option, (uint32_t)gpu->device, ops);
    gpu->tracker = lull_op_tracker_create(ops, count);
    gpu->ops = ops;
    gpu->op_count = count;
    gpu->ends_ns = calloc((size_t)ENDS * count, sizeof(gpu->ends_ns[0]));
    return gpu->tracker == NULL || gpu->ends_ns == NULL ? -ENOMEM : 0;
}

static int create_plan_controller(struct lull_plan_runner *runner)
{
    const struct lull_pipeline_problem problem = lull_plan_runner_problem(&runner->plans[0]);
    uint32_t counts[LULL_PLAN_CONTROLLER_MAX_GPUS];
    int result = 0;

    for (uint32_t i = 0; i < runner->gpu_count; i++)
        counts[i] = lull_device_plan_count(&problem, (uint32_t)runner->gpus[i].device);
    if (runner->gpu_count < runner->world)
        runner->config.seed = runner->shared_seed;
    runner->plan_controller =
        lull_plan_controller_create(&runner->config, runner->gpu_count, counts);
    if (runner->plan_controller == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        *lull_plan_controller_switch_cost(runner->plan_controller, i) = runner->gpus[i].known;
    for (uint32_t i = 0; i < runner->plan_count && result == 0; i++)
        result = lull_plan_runner_add_plan(runner, &runner->plans[i]);
    return result;
}

/* Finds where every rank of this node stands, from the one that came first. */
static int plan_runner_place_ranks(struct lull_plan_runner *runner, uint32_t gpu,
                                   const struct lull_process_info *info, struct lull_error *err)
{
    const uint32_t devices = runner->plans[0].graph.device_count;
    const uint32_t first = (uint32_t)info->world_rank - gpu;
    const uint32_t world = (uint32_t)info->world_size;
    int result = 0;

    if (info->world_rank < 0 || info->world_size < 1 || (uint32_t)info->world_rank < gpu)
        return lull_error_set(
            err, -EINVAL,
            "the plan is not executed: RANK and WORLD_SIZE are not set in the job's environment");
    if (world % devices != 0)
        return lull_error_set(
            err, -EINVAL, "the plan is not executed: it is for %u devices, the job has %u ranks",
            devices, world);
    runner->first = first;
    runner->copies = world / devices;
    runner->world = world;
    for (uint32_t i = 0; i < runner->node_gpu_count && first + i < world && result == 0; i++) {
        runner->gpus[i].copy = (first + i) % runner->copies;
        runner->gpus[i].device = (int32_t)plan_runner_device_of(runner, first + i, world);
        runner->gpu_count = i + 1;
        result = create_tracker(runner, &runner->gpus[i]);
    }
    if (result == 0)
        result = create_plan_controller(runner);
    if (result < 0)
        return lull_error_set(err, result, "not enough memory to execute the plan");
    return 0;
}

/* The other ranks were assumed to use the GPUs in their order. */
static int plan_runner_check_rank(struct lull_plan_runner *runner, uint32_t gpu,
                                  const struct lull_process_info *info, struct lull_error *err)
{
    const uint32_t expected = runner->first + gpu;

    if (info->world_rank >= 0 && (uint32_t)info->world_rank == expected)
        return 0;
    return lull_error_set(err, -EINVAL,
                          "the plan is not executed: rank %d runs on the GPU of rank %u; have each "
                          "rank use the GPU with the number of its LOCAL_RANK",
                          info->world_rank, expected);
}

int lull_plan_runner_bind(struct lull_plan_runner *runner, uint32_t gpu,
                          const struct lull_process_info *info, struct lull_error *err)
{
    if (runner->is_refused)
        return 0;
    if (runner->gpu_count > 0)
        return plan_runner_check_rank(runner, gpu, info, err);
    return plan_runner_place_ranks(runner, gpu, info, err);
}

/* ---- looking ----------------------------------------------------------------------------- */

const struct lull_plan_controller *
lull_plan_runner_plan_controller(const struct lull_plan_runner *runner)
{
    return runner->plan_controller;
}

int32_t lull_plan_runner_device(const struct lull_plan_runner *runner, uint32_t gpu)
{
    return gpu < runner->gpu_count ? runner->gpus[gpu].device : -1;
}

const struct lull_plan_controller_iteration *
lull_plan_runner_recorded(const struct lull_plan_runner *runner, size_t *count_out)
{
    *count_out = runner->recorded_count;
    return runner->recorded;
}
