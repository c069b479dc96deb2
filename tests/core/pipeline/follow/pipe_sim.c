/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/follow/op_tracker.h"
#include "core/pipeline/follow/plan_controller_state.h"
#include "core/pipeline/follow/device_plan.h"
#include "core/pipeline/schedule/schedule.h"
#include "core/stats/random.h"

static const int64_t step_ns = 200000;
static const double blocking_w = 85.0;
static const double memory_share = 0.1;

struct request {
    bool waits;
    struct lull_plan_controller_command command;
    int64_t posted_ns;
};

struct device {
    /* The program. */
    uint32_t first; /* operations on_device[first..end] of the graph */
    uint32_t count;
    uint32_t next; /* to begin, counted within the iteration */
    uint32_t iteration;
    bool is_running;
    double left_ms;
    int64_t begin_ns;
    int64_t end_ns; /* of the operation that ended last, or of the optimizer */
    /* The GPU. */
    uint32_t point;
    uint32_t target;
    int64_t effect_ns;
    uint32_t was_point;
    struct request request;
    double call_ms; /* since the request; the call itself: */
    double driver_ms;
    double settle_ms;
    /* Tracker of the device, and the true times. */
    struct lull_op_tracker *tracker;
    uint32_t reported; /* edges, and what they must be */
    bool is_reported;
    int64_t *begins_ns; /* of this iteration and the one before: what really happened */
    int64_t *ends_ns;
    int64_t lost_since_ns;
};

struct sent {
    int64_t end_ns;      /* of the operation, this iteration; 0 not yet */
    int64_t received_ns; /* by who waits for it */
};

struct pipe_sim {
    struct pipe_sim_config config;
    uint32_t devices_all; /* of all copies */
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    struct lull_pipeline_problem problem;
    double blocking_w[PIPE_SIM_DEVICES];
    uint32_t *highest;
    uint32_t *place; /* of every operation of the graph on its device */
    struct sent *sent;
    struct lull_random random;
    struct device devices[PIPE_SIM_DEVICES];
    struct lull_plan_controller *plan_controller;
    int64_t now_ns;
    int64_t begin_ns; /* of the first device's iteration */
    int64_t driver_free_ns;
    double energy_j;
    double told_energy_j;
    uint64_t told_number; /* of the last reported iteration */
    uint64_t plan_iterations;
    uint64_t highest_iterations;
    struct pipe_sim_result result;
};

void pipe_sim_config_default(struct pipe_sim_config *config)
{
    *config = (struct pipe_sim_config){
        .schedule = "1f1b",
        .devices = 4,
        .replicas = 1,
        .microbatches = 8,
        .forward_ms = 50,
        .backward_ms = 100,
        .last_ratio = 1.07,
        .latency_ms = 1,
        .optimizer_ms = 20,
        .jitter = 0.002,
        .call_ms = 4,
        .settle_ms = 5,
        .settle_spread_ms = 15,
        .iterations = 100,
        .seed = 1,
        .slow_factor = 1,
    };
}

/* ---- the physics ---- */

static double share_of(uint32_t point)
{
    return 1.0 - 0.5 * (double)point / (PIPE_SIM_POINTS - 1);
}

static double slowness_of(uint32_t point)
{
    return memory_share + (1.0 - memory_share) / share_of(point);
}

static double power_w(uint32_t point)
{
    return 60.0 + 300.0 * pow(share_of(point), 3);
}

static uint32_t mhz_of(uint32_t point)
{
    return (uint32_t)lround(1400 * share_of(point));
}

/* ---- the problem ---- */

static void fill_profile(struct pipe_sim *sim, struct lull_pipeline_profile *profile)
{
    lull_pipeline_profile_init(profile);
    for (uint32_t stage = 0; stage < sim->config.devices; stage++)
        for (int backward = 0; backward < 2; backward++)
            for (uint32_t point = 0; point < PIPE_SIM_POINTS; point++) {
                const double ratio = stage + 1 == sim->config.devices ? sim->config.last_ratio : 1;
                const double ms = ratio * slowness_of(point) *
                                  (backward ? sim->config.backward_ms : sim->config.forward_ms);
                const struct lull_pipeline_point option = {
                    (int64_t)(ms * 1e6), (int64_t)(ms * 1e6 * power_w(point)), mhz_of(point)};

                lull_pipeline_profile_add(profile, 0, stage,
                                          backward ? LULL_PIPELINE_BACKWARD : LULL_PIPELINE_FORWARD,
                                          0, &option, NULL);
            }
}

static int build(struct pipe_sim *sim)
{
    const int64_t latency_ns = (int64_t)(sim->config.latency_ms * 1e6);
    const struct lull_pipeline_shape shape = {
        .devices = sim->config.devices,
        .microbatches = sim->config.microbatches,
        .links = {&latency_ns, 1},
        .replicas = {.count = sim->config.replicas},
    };
    struct lull_pipeline_schedule *schedule = calloc(1, sizeof(*schedule));
    struct lull_pipeline_profile measured;
    int result;

    fill_profile(sim, &measured);
    result = lull_pipeline_schedule_parse(sim->config.schedule, schedule, NULL);
    if (result == 0)
        result = lull_pipeline_schedule_build(schedule, &shape, &measured, &sim->profile,
                                              &sim->graph, NULL);
    lull_pipeline_profile_fini(&measured);
    free(schedule);
    return result;
}

static void prepare_device(struct pipe_sim *sim, uint32_t index)
{
    struct device *device = &sim->devices[index];
    struct lull_op_tracker_op *ops;

    device->first = sim->graph.first_on[index];
    device->count = sim->graph.first_on[index + 1] - device->first;
    device->begins_ns = calloc(2 * device->count, sizeof(int64_t));
    device->ends_ns = calloc(2 * device->count, sizeof(int64_t));
    for (uint32_t i = 0; i < device->count; i++)
        sim->place[sim->graph.on_device[device->first + i]] = i;
    ops = calloc(device->count, sizeof(ops[0]));
    lull_device_plan_track(&sim->problem, sim->highest, index, ops);
    device->tracker = lull_op_tracker_create(ops, device->count);
    free(ops);
}

struct pipe_sim *pipe_sim_create(const struct pipe_sim_config *config)
{
    struct pipe_sim *sim = calloc(1, sizeof(*sim));

    sim->config = *config;
    if (build(sim) < 0) {
        free(sim);
        return NULL;
    }
    sim->devices_all = config->devices * config->replicas;
    for (uint32_t i = 0; i < sim->devices_all; i++)
        sim->blocking_w[i] = blocking_w;
    sim->problem = (struct lull_pipeline_problem){&sim->profile, &sim->graph, sim->blocking_w};
    sim->highest = calloc(sim->graph.op_count, sizeof(uint32_t));
    sim->place = calloc(sim->graph.op_count, sizeof(uint32_t));
    sim->sent = calloc(sim->graph.op_count, sizeof(sim->sent[0]));
    lull_pipeline_plan_highest(&sim->problem, sim->highest);
    for (uint32_t i = 0; i < sim->devices_all; i++)
        prepare_device(sim, i);
    lull_random_init(&sim->random, config->seed);
    return sim;
}

void pipe_sim_destroy(struct pipe_sim *sim)
{
    for (uint32_t i = 0; i < sim->devices_all; i++) {
        lull_op_tracker_destroy(sim->devices[i].tracker);
        free(sim->devices[i].begins_ns);
        free(sim->devices[i].ends_ns);
    }
    lull_pipeline_graph_fini(&sim->graph);
    lull_pipeline_profile_fini(&sim->profile);
    free(sim->highest);
    free(sim->place);
    free(sim->sent);
    free(sim);
}

const struct lull_pipeline_problem *pipe_sim_problem(const struct pipe_sim *sim)
{
    return &sim->problem;
}

struct lull_plan_controller *
pipe_sim_plan_controller(const struct pipe_sim *sim,
                         const struct lull_plan_controller_config *config)
{
    uint32_t counts[PIPE_SIM_DEVICES];

    for (uint32_t i = 0; i < sim->devices_all; i++)
        counts[i] = sim->devices[i].count;
    return lull_plan_controller_create(config, sim->devices_all, counts);
}

static int give_plan(const struct pipe_sim *sim, struct lull_plan_controller *plan_controller,
                     const uint32_t *option, double slowdown_ratio, bool is_detour)
{
    const struct lull_plan_controller_op *ops[PIPE_SIM_DEVICES];
    struct lull_plan_controller_op *room = calloc(sim->graph.op_count, sizeof(*room));
    int64_t *duration_ns = calloc(sim->graph.op_count, sizeof(int64_t));
    int64_t *begin_ns = calloc(sim->graph.op_count, sizeof(int64_t));
    uint32_t clocks[PIPE_SIM_POINTS];
    int result;

    for (uint32_t i = 0; i < PIPE_SIM_POINTS; i++)
        clocks[i] = mhz_of(i);
    for (size_t i = 0; i < sim->graph.op_count; i++)
        duration_ns[i] =
            sim->profile.classes[sim->graph.ops[i].class_index].points[option[i]].time_ns;
    lull_pipeline_earliest(&sim->graph, duration_ns, begin_ns);
    for (uint32_t i = 0; i < sim->devices_all; i++) {
        lull_device_plan_control(&sim->problem, option, begin_ns, i, clocks, PIPE_SIM_POINTS,
                                 room + sim->devices[i].first);
        ops[i] = room + sim->devices[i].first;
    }
    result = is_detour ? lull_plan_controller_detour(plan_controller, ops)
                       : lull_plan_controller_add_plan(plan_controller, ops, slowdown_ratio);
    free(room);
    free(duration_ns);
    free(begin_ns);
    return result;
}

int pipe_sim_add_plan(const struct pipe_sim *sim, struct lull_plan_controller *plan_controller,
                      const uint32_t *option, double slowdown_ratio)
{
    return give_plan(sim, plan_controller, option, slowdown_ratio, false);
}

int pipe_sim_detour(const struct pipe_sim *sim, struct lull_plan_controller *plan_controller,
                    const uint32_t *option)
{
    return give_plan(sim, plan_controller, option, 0, true);
}

/* ---- what is seen ---- */

static void see_section(struct pipe_sim *sim, struct device *device, bool is_backward, bool is_end)
{
    if (!sim->config.sees_transfers && (double)sim->now_ns * 1e-6 >= sim->config.joins_ms)
        lull_op_tracker_take_section(device->tracker, is_backward, is_end, sim->now_ns);
}

static void see_transfer(struct pipe_sim *sim, struct device *device, uint32_t peer, bool is_send,
                         bool is_end)
{
    if (sim->config.sees_transfers && (double)sim->now_ns * 1e-6 >= sim->config.joins_ms)
        lull_op_tracker_take_transfer(device->tracker, peer, is_send, is_end, sim->now_ns);
}

/* Compares the tracker's reports with the simulated events. */
static void check_edge(struct pipe_sim *sim, struct device *device,
                       const struct lull_op_tracker_edge *edge)
{
    const int64_t *really = edge->is_end ? device->ends_ns : device->begins_ns;
    double min_ms = INFINITY;

    /* Its inputs are there; it begins in a moment. */
    if (!edge->is_end && !device->is_running && device->next == edge->op)
        min_ms = fabs((double)(edge->time_ns - sim->now_ns) * 1e-6);
    /* An expected end came a little early; it ends in a moment. */
    if (device->is_running &&
        edge->op == (edge->is_end ? device->next : (device->next + 1) % device->count))
        min_ms = device->left_ms;
    for (uint32_t half = 0; half < 2; half++)
        if (really[half * device->count + edge->op] != 0)
            min_ms = fmin(
                min_ms,
                fabs((double)(edge->time_ns - really[half * device->count + edge->op]) * 1e-6));
    sim->result.edges++;
    sim->result.wrong += min_ms > 0.2 * sim->config.backward_ms;
    if (isfinite(min_ms))
        sim->result.worst_edge_ms = fmax(sim->result.worst_edge_ms, min_ms);
}

static void take_edges(struct pipe_sim *sim, uint32_t index)
{
    struct device *device = &sim->devices[index];
    struct lull_op_tracker_edge edge;

    while (lull_op_tracker_poll(device->tracker, sim->now_ns, &edge)) {
        if (edge.is_lost) {
            device->lost_since_ns = sim->now_ns;
            if (sim->plan_controller != NULL)
                lull_plan_controller_take_lost(sim->plan_controller, index);
            continue;
        }
        device->lost_since_ns = 0;
        if (sim->result.edges == 0)
            sim->result.first_told = device->iteration;
        check_edge(sim, device, &edge);
        if (sim->plan_controller != NULL)
            lull_plan_controller_take_edge(sim->plan_controller, index, edge.op, edge.is_end,
                                           edge.time_ns);
    }
}

/* ---- the program ---- */

static struct lull_pipeline_class *class_of(struct pipe_sim *sim, uint32_t op)
{
    return &sim->profile.classes[sim->graph.ops[op].class_index];
}

static bool is_backward(struct pipe_sim *sim, uint32_t op)
{
    return class_of(sim, op)->kind != LULL_PIPELINE_FORWARD;
}

/* Receives are posted when the operation before begins; they take the latency from then on. */
static bool is_received(struct pipe_sim *sim, struct device *device, uint32_t op)
{
    const struct lull_pipeline_graph *graph = &sim->graph;
    const int64_t latency_ns = (int64_t)(sim->config.latency_ms * 1e6);

    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
        const struct lull_pipeline_edge *edge = &graph->edges[graph->in_edges[i]];
        const int64_t posted_ns =
            device->is_running ? device->begin_ns + latency_ns : device->end_ns;
        struct sent *sent = &sim->sent[edge->from];

        if (graph->ops[edge->from].device == graph->ops[op].device)
            continue;
        if (sent->end_ns == 0 || sim->now_ns < sent->end_ns + latency_ns || sim->now_ns < posted_ns)
            return false;
        if (sent->received_ns == 0) {
            sent->received_ns = sim->now_ns;
            see_transfer(sim, device, graph->ops[edge->from].device, false, true);
        }
    }
    return true;
}

static void send_on(struct pipe_sim *sim, struct device *device, uint32_t op)
{
    const struct lull_pipeline_graph *graph = &sim->graph;

    sim->sent[op] = (struct sent){.end_ns = sim->now_ns};
    for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++) {
        const uint32_t to = graph->ops[graph->edges[graph->out_edges[i]].to].device;

        if (to != graph->ops[op].device)
            see_transfer(sim, device, to, true, false);
    }
}

static bool is_straggling(const struct pipe_sim *sim, uint32_t iteration)
{
    return iteration >= sim->config.straggle_from && iteration < sim->config.straggle_to;
}

static void begin_op(struct pipe_sim *sim, struct device *device, uint32_t op)
{
    const bool is_slow =
        is_straggling(sim, device->iteration) && device == &sim->devices[sim->config.slow_device];
    double ms = (double)class_of(sim, op)->points[0].time_ns * 1e-6 *
                (is_slow ? sim->config.slow_factor : 1.0) *
                fmax(0.5, 1.0 + lull_random_normal(&sim->random, 0.0, sim->config.jitter));

    if (sim->config.stall_share > 0.0 &&
        lull_random_uniform(&sim->random) < sim->config.stall_share)
        ms += sim->config.stall_ms * lull_random_uniform(&sim->random);
    if (device == &sim->devices[0] && device->next == 0)
        sim->begin_ns = sim->now_ns;
    device->is_running = true;
    device->left_ms = ms;
    device->begin_ns = sim->now_ns;
    device->begins_ns[(device->iteration % 2) * device->count + device->next] = sim->now_ns;
    if (device == &sim->devices[0] && device->next == 1 && sim->config.odd_at != 0 &&
        device->iteration == sim->config.odd_at) {
        see_section(sim, device, true, false); /* something else for once */
        see_section(sim, device, true, true);
    }
    see_section(sim, device, is_backward(sim, op), false);
}

static void end_op(struct pipe_sim *sim, struct device *device, uint32_t op)
{
    device->is_running = false;
    device->end_ns = sim->now_ns;
    device->ends_ns[(device->iteration % 2) * device->count + device->next] = sim->now_ns;
    see_section(sim, device, is_backward(sim, op), true);
    send_on(sim, device, op);
    if (++device->next < device->count)
        return;
    device->next = 0;
    if (is_straggling(sim, device->iteration) &&
        device->end_ns < sim->begin_ns + (int64_t)(sim->config.peer_ms * 1e6))
        device->end_ns = sim->begin_ns + (int64_t)(sim->config.peer_ms * 1e6);
    device->iteration++;
    device->end_ns += (int64_t)(sim->config.optimizer_ms * 1e6);
}

/* All copies of the device's stage have ended the iteration before: they meet there. */
static bool has_met(const struct pipe_sim *sim, const struct device *device)
{
    const uint32_t stage = (uint32_t)(device - sim->devices) % sim->config.devices;

    for (uint32_t i = stage; i < sim->devices_all; i += sim->config.devices)
        if (sim->devices[i].iteration < device->iteration)
            return false;
    return true;
}

/* Consumes the inputs of the operation. They arrive again in the next iteration. */
static void use_up(struct pipe_sim *sim, uint32_t op)
{
    const struct lull_pipeline_graph *graph = &sim->graph;

    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
        const uint32_t from = graph->edges[graph->in_edges[i]].from;

        if (graph->ops[from].device != graph->ops[op].device)
            sim->sent[from] = (struct sent){0};
    }
}

static void run_device(struct pipe_sim *sim, struct device *device)
{
    const double step_ms = (double)step_ns * 1e-6;
    const uint32_t op = sim->graph.on_device[device->first + device->next];

    if (device->is_running) {
        device->left_ms -= step_ms / slowness_of(device->point);
        if (device->left_ms <= 0)
            end_op(sim, device, op);
        return;
    }
    if (sim->now_ns < device->end_ns || (device->next == 0 && !has_met(sim, device)) ||
        !is_received(sim, device, op))
        return;
    use_up(sim, op);
    begin_op(sim, device, op);
}

/* The receive of the operation behind the one that runs. */
static void receive_early(struct pipe_sim *sim, struct device *device)
{
    if (device->is_running && device->next + 1 < device->count)
        is_received(sim, device, sim->graph.on_device[device->first + device->next + 1]);
}

/* ---- the driver ---- */

static bool is_raising(const struct device *device)
{
    return device->request.command.point < device->target;
}

/* As the device writer chooses: raisings as they came, then the most urgent lowering. */
static struct device *next_request(struct pipe_sim *sim)
{
    struct device *best = NULL;

    for (uint32_t i = 0; i < sim->devices_all; i++) {
        struct device *device = &sim->devices[i];
        struct request *request = &device->request;

        if (request->waits && (request->command.point == device->target ||
                               (!is_raising(device) && sim->now_ns > request->command.deadline_ns)))
            request->waits = false;
        if (!request->waits)
            continue;
        if (best == NULL || is_raising(device) > is_raising(best) ||
            (is_raising(device) == is_raising(best) &&
             (is_raising(device)
                  ? request->posted_ns < best->request.posted_ns
                  : request->command.deadline_ns < best->request.command.deadline_ns)))
            best = device;
    }
    return best;
}

static double draw_call_ms(struct pipe_sim *sim)
{
    const double share = exp(lull_random_normal(&sim->random, 0.0, sim->config.call_spread));

    return sim->config.call_ms * fmin(fmax(share, 0.5), 4.0);
}

static double draw_settle_ms(struct pipe_sim *sim)
{
    if (sim->config.slow_settle_ms > 0.0 && lull_random_uniform(&sim->random) < 0.01)
        return sim->config.slow_settle_ms;
    return sim->config.settle_ms + sim->config.settle_spread_ms * lull_random_uniform(&sim->random);
}

static void tell_switch(struct pipe_sim *sim, struct device *device, double settle_ms)
{
    lull_plan_controller_take_switch(sim->plan_controller, (uint32_t)(device - sim->devices),
                                     &(struct lull_switch_outcome){.was_point = device->was_point,
                                                                   .point = device->target,
                                                                   .call_ms = device->call_ms,
                                                                   .driver_ms = device->driver_ms,
                                                                   .settle_ms = settle_ms,
                                                                   .effect_ns = sim->now_ns});
    device->effect_ns = 0;
}

static void serve(struct pipe_sim *sim)
{
    struct device *device = sim->driver_free_ns > sim->now_ns ? NULL : next_request(sim);

    if (device == NULL)
        return;
    if (device->effect_ns != 0)
        tell_switch(sim, device, 0.0); /* overtaken */
    device->request.waits = false;
    device->driver_ms = draw_call_ms(sim);
    sim->driver_free_ns = sim->now_ns + (int64_t)(device->driver_ms * 1e6);
    device->was_point = device->target;
    device->call_ms = (double)(sim->driver_free_ns - device->request.posted_ns) * 1e-6;
    device->settle_ms = draw_settle_ms(sim);
    device->target = device->request.command.point;
    device->effect_ns = sim->driver_free_ns + (int64_t)(device->settle_ms * 1e6);
}

static void settle(struct pipe_sim *sim, uint32_t index)
{
    struct device *device = &sim->devices[index];

    if (device->effect_ns == 0 || sim->now_ns < device->effect_ns)
        return;
    if (!sim->config.ignores_lowering || device->target < device->point)
        device->point = device->target;
    tell_switch(sim, device, device->settle_ms);
}

static void take_commands(struct pipe_sim *sim)
{
    struct lull_plan_controller_command commands[PIPE_SIM_DEVICES];
    const uint32_t count =
        lull_plan_controller_poll(sim->plan_controller, sim->now_ns, commands, PIPE_SIM_DEVICES);

    for (uint32_t i = 0; i < count; i++) {
        sim->devices[commands[i].gpu].request = (struct request){true, commands[i], sim->now_ns};
        sim->result.commands++;
    }
}

/* ---- all of it ---- */

/* The iteration before that of the first device: no other device is further. */
static void tell_times(struct pipe_sim *sim, const struct lull_plan_controller_iteration *iteration,
                       double energy_j)
{
    int64_t *begin_ns;
    int64_t *end_ns;

    if (sim->config.on_iteration == NULL || sim->devices[0].iteration == 0)
        return;
    begin_ns = calloc(sim->graph.op_count, sizeof(*begin_ns));
    end_ns = calloc(sim->graph.op_count, sizeof(*end_ns));
    for (uint32_t i = 0; i < sim->devices_all; i++) {
        const struct device *device = &sim->devices[i];
        const uint32_t half = (sim->devices[0].iteration - 1) % 2;

        for (uint32_t k = 0; k < device->count; k++) {
            const uint32_t op = sim->graph.on_device[device->first + k];

            begin_ns[op] = device->begins_ns[half * device->count + k];
            end_ns[op] = device->ends_ns[half * device->count + k];
        }
    }
    sim->config.on_iteration(sim->config.context, iteration, begin_ns, end_ns, energy_j);
    free(begin_ns);
    free(end_ns);
}

static void take_iterations(struct pipe_sim *sim)
{
    struct lull_plan_controller_iteration iteration;

    while (lull_plan_controller_next_iteration(sim->plan_controller, &iteration)) {
        const double ms = (double)(iteration.end_ns - iteration.begin_ns) * 1e-6;
        const double j = sim->energy_j - sim->told_energy_j;
        bool is_known;

        if (sim->result.iterations_told < PIPE_SIM_ITERATIONS)
            sim->result.iteration_plan[sim->result.iterations_told++] = iteration.plan;
        sim->told_energy_j = sim->energy_j;
        is_known = iteration.number == sim->told_number + 1; /* the energy is of it alone */
        sim->told_number = iteration.number;
        tell_times(sim, &iteration, j);
        if (!iteration.is_measured || !is_known)
            continue;
        if (iteration.plan < 0) {
            sim->highest_iterations++;
            sim->result.highest_ms += ms;
            sim->result.highest_j += j;
        } else {
            sim->plan_iterations++;
            sim->result.plan_ms += ms;
            sim->result.longest_plan_ms = fmax(sim->result.longest_plan_ms, ms);
            sim->result.plan_j += j;
        }
    }
}

/* The point that the plan has for the GPU's present operation; 0 where it holds no plan. */
static uint32_t planned(const struct lull_plan_controller *controller, uint32_t gpu)
{
    const struct lull_plan_controller_gpu *of = &controller->gpus[gpu];

    return of->is_lost ? 0 : lull_plan_controller_point_of(controller, of, of->op);
}

/* No operation may run below the plan's point, except for late raisings. */
static void check_points(struct pipe_sim *sim)
{
    for (uint32_t i = 0; i < sim->devices_all; i++) {
        const struct device *device = &sim->devices[i];
        const bool is_below = device->point > planned(sim->plan_controller, i);

        if (!device->is_running)
            continue;
        sim->result.begins += device->begin_ns == sim->now_ns;
        sim->result.below += device->begin_ns == sim->now_ns && is_below;
        sim->result.below_ms += is_below ? (double)step_ns * 1e-6 : 0;
    }
}

static void use_energy(struct pipe_sim *sim)
{
    for (uint32_t i = 0; i < sim->devices_all; i++)
        sim->energy_j +=
            (sim->devices[i].is_running ? power_w(sim->devices[i].point) : blocking_w) *
            (double)step_ns * 1e-9;
}

static void watch_lost(struct pipe_sim *sim)
{
    for (uint32_t i = 0; i < sim->devices_all; i++) {
        const struct device *device = &sim->devices[i];

        if (device->lost_since_ns != 0 && device->point != 0)
            sim->result.low_while_lost_ms =
                fmax(sim->result.low_while_lost_ms,
                     (double)(sim->now_ns - device->lost_since_ns) * 1e-6);
    }
}

void pipe_sim_run(struct pipe_sim *sim, struct lull_plan_controller *plan_controller,
                  struct pipe_sim_result *result_out)
{
    sim->plan_controller = plan_controller;
    sim->told_number = UINT64_MAX - 1;
    while (sim->devices[0].iteration < sim->config.iterations) {
        sim->now_ns += step_ns;
        for (uint32_t i = 0; i < sim->devices_all; i++) {
            receive_early(sim, &sim->devices[i]);
            run_device(sim, &sim->devices[i]);
        }
        for (uint32_t i = 0; i < sim->devices_all; i++)
            take_edges(sim, i);
        use_energy(sim);
        if (plan_controller == NULL)
            continue;
        check_points(sim);
        take_commands(sim);
        serve(sim);
        for (uint32_t i = 0; i < sim->devices_all; i++)
            settle(sim, i);
        take_iterations(sim);
        watch_lost(sim);
    }
    if (sim->plan_iterations > 0) {
        sim->result.plan_ms /= (double)sim->plan_iterations;
        sim->result.plan_j /= (double)sim->plan_iterations;
    }
    if (sim->highest_iterations > 0) {
        sim->result.highest_ms /= (double)sim->highest_iterations;
        sim->result.highest_j /= (double)sim->highest_iterations;
    }
    *result_out = sim->result;
}
