/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include "job_sim.h"

#include <math.h>
#include <string.h>

#include "core/stats/random.h"

enum { MAX_GPUS = JOB_SIM_MAX_GPUS, OPERATION = 2, ODD_OPERATION = 10 };

static const int64_t step_ns = 100000;
static const double lowest_share = 1.0 / 7.0;

enum doing { COMPUTING, COMMUNICATING };

struct request {
    bool waits;
    struct lull_command command;
    int64_t posted_ns;
};

struct gpu {
    enum doing doing;
    double left_ms;
    uint32_t point;   /* in force */
    uint32_t target;  /* under way */
    uint32_t written; /* by the last call */
    uint32_t was_written;
    int64_t effect_ns; /* time at which target takes effect; 0 none */
    double blocked_ms; /* of a call under way... */
    int64_t return_ns; /* ...which returns then; 0 none */
    int64_t asked_ns;  /* time of the oldest request without an answer; 0 none */
    struct request request;
    double call_ms; /* of the change under way, waiting included */
    double settle_ms;
    bool result_waits;
    int64_t low_since_ns;
    int64_t iteration_begin_ns;
    uint64_t settled_iterations;
};

struct world {
    const struct job_sim_config *config;
    const struct job_sim_nodes *nodes;
    uint32_t gpus_per_node;
    struct lull_random random;
    struct gpu gpus[MAX_GPUS];
    int64_t now_ns;
    int64_t driver_free_ns[JOB_SIM_MAX_NODES];
    bool waits[JOB_SIM_MAX_NODES]; /* a request had no answer when last looked */
    uint32_t iteration;
    int64_t iteration_begin_ns;
    double energy_j;
    double iteration_energy_j;
    struct job_sim_result result;
};

void job_sim_config_default(struct job_sim_config *config)
{
    *config = (struct job_sim_config){
        .gpus = 4,
        .points = 81,
        .iterations = 400,
        .compute_ms = 200.0,
        .memory_share = 0.1,
        .exposed_ms = 300.0,
        .knee_point = 80,
        .jitter = 0.002,
        .call_ms = 4.0,
        .slow_gpu = -1,
        .settle_ms = 5.0,
        .settle_spread_ms = 15.0,
        .readback_ms = 20.0,
        .seed = 1,
    };
}

/* Clock of a point as a share of the highest. */
static double clock_share(const struct job_sim_config *config, uint32_t point)
{
    return 1.0 - (1.0 - lowest_share) * (double)point / (double)(config->points - 1);
}

static double compute_rate(const struct job_sim_config *config, uint32_t point)
{
    return 1.0 / (config->memory_share + (1.0 - config->memory_share) / clock_share(config, point));
}

static double transfer_rate(const struct job_sim_config *config, uint32_t point, uint32_t knee)
{
    return fmin(1.0, clock_share(config, point) / clock_share(config, knee));
}

static double power_w(const struct job_sim_config *config, enum doing doing, uint32_t point)
{
    double share = clock_share(config, point);

    return doing == COMPUTING ? 60.0 + 240.0 * share * share * share : 55.0 + 45.0 * share * share;
}

static double jittered(struct world *world, double ms)
{
    double value = ms * (1.0 + lull_random_normal(&world->random, 0.0, world->config->jitter));

    return value > 0.0 ? value : 0.0;
}

double job_sim_ideal_energy_j(const struct job_sim_config *config, uint32_t point)
{
    double compute_j = power_w(config, COMPUTING, 0) * config->compute_ms;
    double exposed_j = power_w(config, COMMUNICATING, point) * config->exposed_ms /
                       transfer_rate(config, point, config->knee_point);

    return (compute_j + exposed_j) * 1e-3 * config->gpus;
}

/* Of the node that this GPU is in; NULL: the job is not managed. */
static struct lull_controller *controller_of(const struct world *world, uint32_t gpu)
{
    return world->nodes->controllers[gpu / world->gpus_per_node];
}

/* Its number on its node. */
static uint32_t number_of(const struct world *world, uint32_t gpu)
{
    return world->config->idle_gpus + gpu % world->gpus_per_node;
}

static void call(struct world *world, uint32_t gpu, uint16_t operation, bool begin)
{
    struct lull_call edge = {
        .time_ns = world->now_ns,
        .bytes = operation == OPERATION ? 48000000 : 4,
        .ranks = world->config->gpus,
        .peer = -1,
        .operation = operation,
        .begin = begin,
    };

    if (controller_of(world, gpu) != NULL)
        lull_controller_take_call(controller_of(world, gpu), number_of(world, gpu), &edge);
}

static bool changed_shape(const struct world *world)
{
    return world->config->change_at != 0 && world->iteration >= world->config->change_at;
}

static void begin_computing(struct world *world, uint32_t index)
{
    struct gpu *gpu = &world->gpus[index];

    gpu->doing = COMPUTING;
    gpu->left_ms = jittered(world, world->config->compute_ms);
    if (world->config->uneven)
        gpu->left_ms *= world->config->compute_scale[index];
    world->result.computed++;
    if (gpu->point != 0)
        world->result.computed_low++;
}

static bool is_settled(const struct world *world)
{
    for (uint32_t i = 0; i < world->nodes->node_count; i++)
        if (world->nodes->controllers[i] != NULL &&
            lull_controller_look(world->nodes->controllers[i]).phase != LULL_PHASE_SETTLED)
            return false;
    return true;
}

static void end_iteration(struct world *world)
{
    double ms = (double)(world->now_ns - world->iteration_begin_ns) * 1e-6;

    if (world->iteration > 0 && is_settled(world)) {
        world->result.settled_iterations++;
        world->result.settled_iteration_ms += ms;
        world->result.settled_energy_j += world->energy_j - world->iteration_energy_j;
    }
    world->iteration_begin_ns = world->now_ns;
    world->iteration_energy_j = world->energy_j;
    world->iteration++;
}

static void end_rank_iteration(struct world *world, uint32_t index)
{
    struct gpu *gpu = &world->gpus[index];

    if (gpu->iteration_begin_ns != 0 && is_settled(world)) {
        gpu->settled_iterations++;
        world->result.rank_iteration_ms[index] +=
            (double)(world->now_ns - gpu->iteration_begin_ns) * 1e-6;
    }
    gpu->iteration_begin_ns = world->now_ns;
}

static void leave(struct world *world, uint32_t index)
{
    const struct job_sim_config *config = world->config;

    call(world, index, OPERATION, false);
    call(world, index, OPERATION + 1, true);
    call(world, index, OPERATION + 1, false);
    if (changed_shape(world)) {
        call(world, index, OPERATION + 2, true);
        call(world, index, OPERATION + 2, false);
    }
    if (config->odd_every != 0 && world->iteration % config->odd_every == 0) {
        call(world, index, ODD_OPERATION, true);
        call(world, index, ODD_OPERATION, false);
    }
    end_rank_iteration(world, index);
    begin_computing(world, index);
}

/* All ranks leave the collective together. */
static void leave_collective(struct world *world)
{
    for (uint32_t i = 0; i < world->config->gpus; i++)
        leave(world, i);
    end_iteration(world);
}

static uint32_t knee_now(const struct world *world, uint32_t index)
{
    const struct job_sim_config *config = world->config;

    if (config->uneven)
        return config->own_knee[index];

    if (config->bound_every != 0 && world->iteration % config->bound_every == 0)
        return 0;
    if (config->knee_moves_at != 0 && world->iteration >= config->knee_moves_at)
        return config->knee_after;
    return config->knee_point;
}

static void note_middle(struct world *world, double before_ms, double after_ms)
{
    double middle_ms = world->config->exposed_ms / 2.0;

    if (before_ms < middle_ms || after_ms >= middle_ms)
        return;
    world->result.last_ran_at = world->gpus[0].point;
    world->result.ran_at[world->gpus[0].point]++;
}

/* Ranks that have nothing to do with each other; rank 0's iterations count. */
static void advance_alone(struct world *world)
{
    const struct job_sim_config *config = world->config;
    const double step_ms = (double)step_ns * 1e-6;

    for (uint32_t i = 0; i < config->gpus; i++) {
        struct gpu *gpu = &world->gpus[i];

        if (gpu->doing == COMPUTING)
            gpu->left_ms -= step_ms * compute_rate(config, gpu->point);
        else
            gpu->left_ms -= step_ms * transfer_rate(config, gpu->point, knee_now(world, i));
        if (gpu->left_ms > 0.0)
            continue;
        if (gpu->doing == COMPUTING) {
            gpu->doing = COMMUNICATING;
            gpu->left_ms = jittered(world, config->exposed_ms);
            call(world, i, OPERATION, true);
            continue;
        }
        leave(world, i);
        if (i == 0)
            end_iteration(world);
    }
}

static void advance_work(struct world *world)
{
    const struct job_sim_config *config = world->config;
    const double step_ms = (double)step_ns * 1e-6;
    bool all_there = true;
    double slowest = 1.0;
    double left_ms;

    if (config->uncoupled) {
        advance_alone(world);
        return;
    }
    for (uint32_t i = 0; i < config->gpus; i++) {
        struct gpu *gpu = &world->gpus[i];

        if (gpu->doing == COMPUTING) {
            gpu->left_ms -= step_ms * compute_rate(config, gpu->point);
            if (gpu->left_ms <= 0.0) {
                gpu->doing = COMMUNICATING;
                call(world, i, OPERATION, true);
                gpu->left_ms = i == 0 ? jittered(world, config->exposed_ms) : 0.0;
            }
        }
        if (gpu->doing == COMPUTING)
            all_there = false;
        slowest = fmin(slowest, transfer_rate(config, gpu->point, knee_now(world, i)));
    }
    if (!all_there)
        return;
    left_ms = world->gpus[0].left_ms - step_ms * slowest;
    note_middle(world, world->gpus[0].left_ms, left_ms);
    world->gpus[0].left_ms = left_ms;
    if (left_ms <= 0.0)
        leave_collective(world);
}

/* ---- the driver -------------------------------------------------------------------------- */

static void come_into_force(struct world *world, struct gpu *gpu)
{
    if (gpu->point == 0 && gpu->target != 0)
        gpu->low_since_ns = world->now_ns;
    if (gpu->target == 0 && gpu->point != 0)
        world->result.longest_low_ms =
            fmax(world->result.longest_low_ms, (double)(world->now_ns - gpu->low_since_ns) * 1e-6);
    gpu->point = gpu->target;
    gpu->effect_ns = 0;
}

static double blocks_ms(struct world *world, uint32_t index)
{
    const struct job_sim_config *config = world->config;

    world->result.calls++;
    if (config->slow_every == 0 || (double)world->now_ns * 1e-6 < config->slow_from_ms ||
        (config->slow_gpu >= 0 && (uint32_t)config->slow_gpu != index) ||
        (config->slow_most != 0 && world->result.slow_calls == config->slow_most) ||
        world->result.calls % config->slow_every != 0)
        return config->call_ms;
    world->result.slow_calls++;
    return config->slow_call_ms;
}

/* One call, unless it is late or there is nothing to do. */
static void serve(struct world *world, uint32_t index)
{
    const struct job_sim_config *config = world->config;
    struct gpu *gpu = &world->gpus[index];
    const uint32_t point = gpu->request.command.point;
    const bool obeyed =
        config->stop_obeying == 0 || world->iteration < config->stop_obeying || point == 0;

    gpu->request.waits = false;
    if (point == gpu->written ||
        (point > gpu->written && world->now_ns > gpu->request.command.deadline_ns)) {
        gpu->asked_ns = 0;
        return;
    }
    gpu->was_written = gpu->written;
    gpu->written = point;
    gpu->blocked_ms = blocks_ms(world, index);
    gpu->return_ns = world->now_ns + (int64_t)(gpu->blocked_ms * 1e6);
    world->driver_free_ns[index / world->gpus_per_node] = gpu->return_ns;
    gpu->call_ms = (double)(gpu->return_ns - gpu->request.posted_ns) * 1e-6;
    gpu->settle_ms =
        config->settle_ms + config->settle_spread_ms * lull_random_uniform(&world->random);
    if (gpu->effect_ns != 0) /* the call before still settles: it does so while this one blocks */
        come_into_force(world, gpu);
    gpu->target = obeyed ? point : gpu->point;
    gpu->effect_ns = gpu->return_ns + (int64_t)(gpu->settle_ms * 1e6);
    gpu->result_waits = true;
}

/* Raisings first, as the device writer does. */
static void serve_requests(struct world *world)
{
    bool is_any = false;

    for (uint32_t i = 0; i < world->config->gpus; i++)
        is_any |= world->gpus[i].request.waits;
    for (int lowering = 0; is_any && lowering < 2; lowering++)
        for (uint32_t i = 0; i < world->config->gpus; i++) {
            const struct gpu *gpu = &world->gpus[i];

            if (gpu->request.waits &&
                (gpu->request.command.point > gpu->written) == (lowering == 1) &&
                world->driver_free_ns[i / world->gpus_per_node] <= world->now_ns)
                serve(world, i);
        }
}

/* Passes the state of the driver to the governor: calls that have returned, and requests that wait.
 */
static void hear_driver(struct world *world, uint32_t node)
{
    int64_t since_ns = world->now_ns;

    for (uint32_t i = 0; i < world->gpus_per_node; i++) {
        struct gpu *gpu = &world->gpus[node * world->gpus_per_node + i];

        if (gpu->return_ns != 0 && gpu->return_ns <= world->now_ns) {
            gpu->return_ns = 0;
            gpu->asked_ns = gpu->request.waits ? gpu->request.posted_ns : 0;
            lull_controller_take_blocked(world->nodes->controllers[node], number_of(world, i),
                                         gpu->blocked_ms);
        }
        if (gpu->asked_ns != 0 && gpu->asked_ns < since_ns)
            since_ns = gpu->asked_ns;
    }
    if (since_ns != world->now_ns || world->waits[node])
        lull_controller_take_waiting(world->nodes->controllers[node],
                                     (double)(world->now_ns - since_ns) * 1e-6);
    world->waits[node] = since_ns != world->now_ns;
}

static void settle_clocks(struct world *world)
{
    const struct job_sim_config *config = world->config;

    for (uint32_t i = 0; i < config->gpus; i++) {
        struct gpu *gpu = &world->gpus[i];

        if (gpu->effect_ns == 0 || world->now_ns < gpu->effect_ns)
            continue;
        come_into_force(world, gpu);
        if (gpu->result_waits)
            lull_controller_take_switch(
                controller_of(world, i), number_of(world, i),
                &(struct lull_switch_outcome){
                    .was_point = gpu->was_written,
                    .point = gpu->written,
                    .call_ms = gpu->call_ms,
                    .driver_ms = config->call_ms,
                    .settle_ms =
                        gpu->settle_ms + config->readback_ms * lull_random_uniform(&world->random),
                    .effect_ns = world->now_ns});
        gpu->result_waits = false;
    }
}

static void take_commands(struct world *world, uint32_t node)
{
    struct lull_command commands[MAX_GPUS];
    uint32_t count =
        lull_controller_poll(world->nodes->controllers[node], world->now_ns, commands, MAX_GPUS);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t idle = world->config->idle_gpus;
        struct gpu *gpu;

        /* Of a GPU without a rank no clock may be lowered. */
        if (commands[i].gpu < idle) {
            assert(commands[i].point == 0);
            continue;
        }
        gpu = &world->gpus[node * world->gpus_per_node + commands[i].gpu - idle];
        gpu->request = (struct request){true, commands[i], world->now_ns};
        if (gpu->asked_ns == 0)
            gpu->asked_ns = world->now_ns;
        world->result.commands++;
    }
}

static void sample_power(struct world *world)
{
    if (world->now_ns % 100000000 >= step_ns)
        return;
    for (uint32_t i = 0; i < world->config->gpus; i++)
        lull_controller_take_power(
            controller_of(world, i), number_of(world, i),
            power_w(world->config, world->gpus[i].doing, world->gpus[i].point));
}

struct lull_controller *job_sim_create_controller(const struct job_sim_config *config,
                                                  const struct lull_controller_config *control)
{
    const uint32_t gpus = config->idle_gpus + config->gpus;
    uint32_t points[JOB_SIM_MAX_GPUS];

    for (uint32_t i = 0; i < gpus; i++)
        points[i] = config->points;
    return lull_controller_create(control, gpus, points);
}

double job_sim_saving(const struct job_sim_result *unmanaged, const struct job_sim_result *managed)
{
    return 1.0 - managed->settled_energy_j / unmanaged->settled_energy_j;
}

double job_sim_slowdown(const struct job_sim_result *unmanaged,
                        const struct job_sim_result *managed)
{
    return managed->settled_iteration_ms / unmanaged->settled_iteration_ms - 1.0;
}

/* Ten times a second: what a sampler and the network would do. */
static void tick(struct world *world)
{
    sample_power(world);
    if (world->nodes->exchange != NULL && world->now_ns % 100000000 < step_ns)
        world->nodes->exchange(world->nodes->context, world->now_ns);
}

void job_sim_run(const struct job_sim_config *config, struct lull_controller *controller,
                 struct job_sim_result *result_out)
{
    const struct job_sim_nodes nodes = {.node_count = 1, .controllers = {controller}};

    job_sim_run_nodes(config, &nodes, result_out);
}

void job_sim_run_nodes(const struct job_sim_config *config, const struct job_sim_nodes *nodes,
                       struct job_sim_result *result_out)
{
    struct world world = {
        .config = config,
        .nodes = nodes,
        .gpus_per_node = config->gpus / nodes->node_count,
        .now_ns = step_ns,
    };

    lull_random_init(&world.random, config->seed);
    for (uint32_t i = 0; i < config->gpus; i++)
        begin_computing(&world, i);
    while (world.iteration < config->iterations) {
        if (nodes->controllers[0] != NULL) {
            for (uint32_t i = 0; i < nodes->node_count; i++)
                take_commands(&world, i);
            for (uint32_t i = 0; i < nodes->node_count; i++)
                hear_driver(&world, i);
            serve_requests(&world);
            settle_clocks(&world);
            tick(&world);
        }
        for (uint32_t i = 0; i < config->gpus; i++)
            world.energy_j +=
                power_w(config, world.gpus[i].doing, world.gpus[i].point) * (double)step_ns * 1e-9;
        advance_work(&world);
        world.now_ns += step_ns;
    }
    world.result.total_ms = (double)world.now_ns * 1e-6;
    if (world.result.settled_iterations > 0) {
        world.result.settled_iteration_ms /= (double)world.result.settled_iterations;
        world.result.settled_energy_j /= (double)world.result.settled_iterations;
    }
    for (uint32_t i = 0; i < config->gpus; i++)
        if (world.gpus[i].settled_iterations > 0)
            world.result.rank_iteration_ms[i] /= (double)world.gpus[i].settled_iterations;
    *result_out = world.result;
}
