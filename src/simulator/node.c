/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/node.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/section/gaps/gap_map.h"
#include "emulator/player/sim.h"
#include "simulator/driver.h"
#include "simulator/nodes.h"

static const int64_t reading_ns = INT64_C(100000000);
/* A play without an event for this long is stuck, which must be detected. */
static const int64_t standstill_ns = INT64_C(60000000000);

enum { READINGS = 10 }; /* of a piece */

struct node_rank {
    struct lull_gap_map *gaps;
    uint32_t *orders;     /* for each operation: how many communications precede it in a period */
    int64_t gaps_wake_ns; /* when the gap map must be called next */
    uint32_t computing;   /* number of compute operations under way */
    int64_t compute_from_ns; /* when the first of them began */
    bool is_measured;        /* the present period is measured... */
    bool reads_swings;       /* ...and swings of power are read in it */
    int64_t from_ns;         /* when the measured periods began */
    int64_t until_ns;        /* when the period after them began */
    double from_j;
    double until_j;
    bool step_is_low;
    uint64_t steps; /* number of iterations that began in the measured periods */
    uint64_t low_steps;
};

/* The power of all GPUs together, read as often as `lull run` reads it. */
struct node_power {
    int64_t next_ns; /* when it is read next */
    double piece_w[READINGS];
    uint32_t count;
    struct lull_swing swing;
};

/* A node of the job, with the ranks that follow each other. */
struct node_site {
    uint32_t first; /* rank */
    uint32_t count;
    struct lull_controller *controller;
    struct lull_virtual_driver *driver;
    double energy_j; /* until the reading before */
};

struct simulation {
    const struct lull_simulation_options *options;
    struct lull_play_sim *sim;
    bool is_managed;
    uint32_t site_count;
    struct node_site sites[LULL_SIMULATION_NODES];
    struct lull_virtual_nodes *nodes; /* NULL: there is one */
    uint32_t *clocks_mhz;             /* of each GPU, from the highest; NULL: there is one node */
    struct node_rank ranks[LULL_PLAY_RANKS];
    uint64_t settled_in; /* period of rank 0, counted from 1 */
    struct node_power power;
    int64_t event_ns; /* of the last event */
};

static uint32_t virtual_node_popcount(uint32_t bits)
{
    return (uint32_t)__builtin_popcount(bits);
}

/* The node on which a rank is. */
static struct node_site *site_of(struct simulation *simulation, uint32_t rank)
{
    return &simulation
                ->sites[rank * simulation->site_count / simulation->options->play->rank_count];
}

/* The track of a rank's calls. */
static const struct lull_track *virtual_node_track_of(struct simulation *simulation, uint32_t rank)
{
    const struct node_site *site = site_of(simulation, rank);

    return lull_controller_look_gpu(site->controller, rank - site->first).track;
}

/* ---- events of the GPUs ------------------------------------------------------------------- */

/* Passes the controller what the trials so far say of the profile's energy. */
static void measure_profile(const struct simulation *simulation)
{
    struct lull_controller *controller = simulation->sites[0].controller;
    const uint64_t others = lull_controller_look(controller).profile_others;
    struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];
    uint32_t count = 0;

    if (others != 0)
        count = lull_job_frontier_list(simulation->options->frontier,
                                       simulation->options->play->rank_count, tried);
    for (uint32_t i = 0; i < count; i++)
        if (tried[i].point == 0 && tried[i].others == others)
            lull_controller_take_profile_saving(
                controller, &(struct lull_profile_saving){tried[i].saving_ratio, tried[i].low_ratio,
                                                          tried[i].high_ratio});
}

/* Records the points at which the iteration runs that the first rank begins. */
static void mark_iteration(struct simulation *simulation, int64_t now_ns)
{
    struct lull_job_frontier_mark mark = {
        .time_ns = now_ns,
        .is_first = lull_track_iteration(virtual_node_track_of(simulation, 0)) == 0,
        .visit = lull_controller_visit(simulation->sites[0].controller, 0),
    };

    for (uint32_t i = 0; i < simulation->options->play->rank_count; i++)
        mark.energy_j += lull_physics_energy_j(lull_play_sim_gpu(simulation->sim, i));
    lull_job_frontier_take(simulation->options->frontier, &mark);
    if (simulation->options->offers_profile)
        measure_profile(simulation);
}

/* Returns whether this call of the rank begins an iteration. */
static bool begins_iteration(struct simulation *simulation, uint32_t index,
                             const struct lull_call *call)
{
    return call->begin &&
           lull_track_boundary_ns(virtual_node_track_of(simulation, index)) == call->time_ns;
}

/* Passes the controller the calls that the gap map has found by now. */
static void take_gaps(struct simulation *simulation, uint32_t index, int64_t now_ns)
{
    const struct node_site *site = site_of(simulation, index);
    const uint32_t gpu = index - site->first;
    struct lull_call call;

    if (lull_gap_map_fold(simulation->ranks[index].gaps) > 0)
        lull_controller_take_fold(site->controller, gpu,
                                  lull_gap_map_fold(simulation->ranks[index].gaps));
    while (lull_gap_map_poll(simulation->ranks[index].gaps, now_ns, &call)) {
        lull_controller_take_call(site->controller, gpu, &call);
        if (index == 0 && simulation->options->frontier != NULL &&
            begins_iteration(simulation, index, &call))
            mark_iteration(simulation, now_ns);
        lull_gap_map_set_steady(simulation->ranks[index].gaps,
                                lull_controller_look_gpu(site->controller, gpu).steady_point);
    }
    simulation->ranks[index].gaps_wake_ns = lull_gap_map_wake_ns(simulation->ranks[index].gaps);
}

/* The number of a communicator in its process, which counts from 0 as the probes do. */
static uint32_t virtual_node_number_of(const struct lull_play *play, uint32_t rank,
                                       uint32_t communicator)
{
    uint32_t number = 0;

    for (uint32_t i = 0; i < communicator; i++)
        number += play->communicators[i].members >> rank & 1;
    return number;
}

/* The number of a communication kernel among those that the rank has enqueued. */
static uint32_t order_of(const struct simulation *simulation, uint32_t index, uint64_t number)
{
    const uint32_t count = simulation->options->play->ranks[index].count;
    const uint32_t *orders = simulation->ranks[index].orders;

    return (uint32_t)(number / count) * orders[count] + orders[number % count];
}

/* Reports the start or end of a communication to the gap map, in the order of a probe. */
static void take_communication(struct simulation *simulation, uint32_t index,
                               const struct lull_play_event *event)
{
    const struct lull_play_op *op = event->op;
    const struct node_site *site = site_of(simulation, index);
    struct node_rank *rank = &simulation->ranks[index];
    const struct lull_call edge = {
        .time_ns = event->is_end ? event->end_ns : event->begin_ns,
        .bytes = op->bytes,
        .communicator = virtual_node_number_of(simulation->options->play, index, op->communicator),
        .ranks = virtual_node_popcount(
            simulation->options->play->communicators[op->communicator].members),
        .peer = op->function >= LULL_PLAY_SEND ? (int32_t)op->peer : -1,
        .order = order_of(simulation, index, event->number),
        .operation = (uint16_t)(op->function + 1), /* 0 would mean idle */
        .begin = !event->is_end,
    };

    take_gaps(simulation, index, edge.time_ns);
    lull_controller_take_collective(site->controller, index - site->first, &edge);
    lull_gap_map_take_communication(rank->gaps, &edge);
    lull_gap_map_take_complete(rank->gaps,
                               rank->computing > 0 ? rank->compute_from_ns : edge.time_ns);
    take_gaps(simulation, index, edge.time_ns);
}

static void virtual_node_take_compute(struct simulation *simulation, struct node_rank *rank,
                                      const struct lull_play_event *event)
{
    if (!event->is_end) {
        if (rank->computing++ == 0)
            rank->compute_from_ns = event->begin_ns;
        return;
    }
    if (--rank->computing == 0 && simulation->is_managed)
        lull_gap_map_take_compute(rank->gaps, rank->compute_from_ns, event->end_ns);
    if (event->is_low && rank->steps > 0 && rank->is_measured && !rank->step_is_low) {
        rank->step_is_low = true;
        rank->low_steps++;
    }
}

/* Records when the search ended. A proven point stays in force while others are tried, so the
 * search counts as ended. It has not ended while no point is proven, or after its result was
 * withdrawn. */
static void note_settling(struct simulation *simulation, uint64_t period)
{
    const struct lull_controller *controller = simulation->sites[0].controller;
    bool has_settled = lull_controller_look_gpu(controller, 0).phase == LULL_PHASE_SETTLED;
    struct lull_controller_view now;

    if (!has_settled) {
        now = lull_controller_look(controller);
        has_settled = now.has_settled && now.is_proven;
    }
    if (!has_settled)
        simulation->settled_in = 0;
    else if (simulation->settled_in == 0)
        simulation->settled_in = period + 1;
}

/* Begins a period of a rank. Each rank is measured over its own periods, since ranks that do not
 * wait for each other may be far apart. */
static void virtual_node_begin_period(struct simulation *simulation, uint32_t index,
                                      uint64_t period, int64_t now_ns)
{
    const struct lull_simulation_options *options = simulation->options;
    struct node_rank *rank = &simulation->ranks[index];
    const double now_j = lull_physics_energy_j(lull_play_sim_gpu(simulation->sim, index));

    if (options->watch != NULL)
        options->watch(options->watch_context, index, period,
                       lull_play_sim_gpu(simulation->sim, index)->mhz);
    rank->is_measured = period >= options->periods - options->measured && period < options->periods;
    rank->reads_swings =
        rank->is_measured && (options->swings == 0 || period >= options->periods - options->swings);
    if (period == options->periods - options->measured) {
        rank->from_ns = now_ns;
        rank->from_j = now_j;
    }
    if (period == options->periods) {
        rank->until_ns = now_ns;
        rank->until_j = now_j;
    }
    if (options->course != NULL && period <= options->periods)
        lull_simulation_course_note(options->course, index, period, now_ns, now_j);
    if (index == 0 && simulation->is_managed)
        note_settling(simulation, period);
}

static void on_event(void *context, uint32_t index, const struct lull_play_event *event)
{
    struct simulation *simulation = context;
    const uint32_t count = simulation->options->play->ranks[index].count;
    struct node_rank *rank = &simulation->ranks[index];

    simulation->event_ns = event->is_end ? event->end_ns : event->begin_ns;
    if (!event->is_end && event->number % count == 0)
        virtual_node_begin_period(simulation, index, event->number / count, event->begin_ns);
    if (!event->is_end && event->op->begins_step && rank->is_measured) {
        rank->steps++;
        rank->step_is_low = false;
    }
    if (event->op->kind == LULL_PLAY_COMPUTE)
        virtual_node_take_compute(simulation, rank, event);
    else if (simulation->is_managed)
        take_communication(simulation, index, event);
}

/* ---- power ------------------------------------------------------------------------------- */

static void add_measured(struct simulation *simulation, double power_w)
{
    struct node_power *power = &simulation->power;
    bool is_read = true;

    for (uint32_t i = 0; i < simulation->options->play->rank_count; i++)
        is_read = is_read && simulation->ranks[i].reads_swings;
    if (!is_read) {
        power->count = 0;
        return;
    }
    power->piece_w[power->count++] = power_w;
    if (power->count < READINGS)
        return;
    lull_swing_add(&power->swing, power->piece_w, READINGS, (double)reading_ns * 1e-9);
    power->count = 0;
}

/* Returns the power of a node's GPUs since the reading before, W. */
static double site_power(struct simulation *simulation, struct node_site *site)
{
    const double before_j = site->energy_j;

    site->energy_j = 0.0;
    for (uint32_t i = 0; i < site->count; i++)
        site->energy_j +=
            lull_physics_energy_j(lull_play_sim_gpu(simulation->sim, site->first + i));
    return (site->energy_j - before_j) / ((double)reading_ns * 1e-9);
}

/* Reads the power, averaged since the reading before as sensors do. Returns when to do so next. */
static int64_t virtual_node_read_power(struct simulation *simulation, int64_t now_ns)
{
    struct node_power *power = &simulation->power;
    double power_w = 0.0;

    if (now_ns - simulation->event_ns > standstill_ns)
        return LULL_PHYSICS_NEVER;
    if (now_ns < power->next_ns)
        return power->next_ns;
    power->next_ns = now_ns + reading_ns;
    for (uint32_t i = 0; i < simulation->site_count; i++) {
        struct node_site *site = &simulation->sites[i];
        const double site_w = site_power(simulation, site);

        power_w += site_w;
        if (simulation->is_managed && now_ns > 0)
            lull_controller_take_node_power(site->controller, now_ns, site_w);
    }
    if (now_ns > 0)
        add_measured(simulation, power_w);
    return power->next_ns;
}

/* ---- decisions --------------------------------------------------------------------------- */

static void on_driven(void *context, uint32_t gpu, const struct lull_switch_outcome *outcome)
{
    const struct node_site *site = context;

    lull_controller_take_switch(site->controller, gpu, outcome);
}

/* Requests the profiles that the controller wants. How long they take to act is not published. */
static void follow_profiles(const struct simulation *simulation, const struct node_site *site)
{
    for (uint32_t i = 0; i < site->count; i++) {
        struct lull_physics *gpu = lull_play_sim_gpu(simulation->sim, site->first + i);
        const bool is_wanted = lull_controller_look_gpu(site->controller, i).uses_profile;
        const uint32_t profiles = is_wanted ? 1u << LULL_PROFILE_MAX_Q : 0;

        if (gpu->profiles_requested != profiles)
            lull_physics_request_profiles(gpu, profiles);
    }
}

/* Processes the clock requests of a node. Returns the time of the next call. */
static int64_t virtual_node_drive(const struct simulation *simulation, const struct node_site *site,
                                  int64_t now_ns)
{
    struct lull_command commands[LULL_CONTROLLER_MAX_GPUS];
    const uint32_t count =
        lull_controller_poll(site->controller, now_ns, commands, LULL_CONTROLLER_MAX_GPUS);
    int64_t driver_ns;

    follow_profiles(simulation, site);
    for (uint32_t i = 0; i < count; i++)
        lull_virtual_driver_ask(site->driver, &commands[i], now_ns);
    driver_ns = lull_virtual_driver_advance(site->driver, now_ns);
    return lull_earlier_ns(driver_ns, lull_controller_wake_ns(site->controller));
}

static int64_t on_timer(void *context, int64_t now_ns)
{
    struct simulation *simulation = context;
    int64_t wake_ns = virtual_node_read_power(simulation, now_ns);

    if (!simulation->is_managed)
        return wake_ns;
    for (uint32_t i = 0; i < simulation->options->play->rank_count; i++) {
        const struct node_rank *rank = &simulation->ranks[i];

        if (rank->gaps_wake_ns <= now_ns)
            take_gaps(simulation, i, now_ns);
        wake_ns = lull_earlier_ns(wake_ns, rank->gaps_wake_ns);
    }
    /* As for readings of power: a play that hangs must be noticed. */
    if (simulation->nodes != NULL && wake_ns != LULL_PHYSICS_NEVER)
        wake_ns = lull_earlier_ns(wake_ns, lull_virtual_nodes_advance(simulation->nodes, now_ns));
    for (uint32_t i = 0; i < simulation->site_count; i++)
        wake_ns =
            lull_earlier_ns(wake_ns, virtual_node_drive(simulation, &simulation->sites[i], now_ns));
    return wake_ns;
}

/* ---- beginning and end ------------------------------------------------------------------- */

/* Counts, for each operation, the communications before it in a period. NULL: out of memory.
 */
static uint32_t *number_communication(const struct lull_play_rank *rank)
{
    uint32_t *orders = calloc(rank->count + 1, sizeof(*orders));

    for (uint32_t i = 0; orders != NULL && i < rank->count; i++)
        orders[i + 1] = orders[i] + (rank->ops[i].kind == LULL_PLAY_COMMUNICATION);
    return orders;
}

/* Values of the whole run. */
static void set_up_gpus(struct simulation *simulation)
{
    const struct lull_simulation_options *options = simulation->options;
    const uint32_t top = lull_gpu_model_step_count(options->model) - 1;

    for (uint32_t i = 0; i < options->play->rank_count; i++) {
        struct lull_physics *gpu = lull_play_sim_gpu(simulation->sim, i);

        if (options->limit_w > 0.0)
            lull_physics_set_limit(gpu, options->limit_w);
        if (options->steps_below > 0)
            lull_physics_lock(gpu, top - lull_min_u32(options->steps_below, top), 0);
        lull_physics_advance(gpu, 0);
    }
}

/* Makes a node's controller and driver. */
static bool make_site(struct simulation *simulation, struct node_site *site)
{
    const struct lull_simulation_options *options = simulation->options;
    struct lull_controller_config control = options->control;
    struct lull_physics *gpus[LULL_PLAY_RANKS];
    uint32_t points[LULL_PLAY_RANKS] = {0};

    for (uint32_t i = 0; i < site->count; i++) {
        gpus[i] = lull_play_sim_gpu(simulation->sim, site->first + i);
        points[i] = lull_gpu_model_step_count(options->model);
    }
    control.together = simulation->site_count > 1;
    site->controller = lull_controller_create(&control, site->count, points);
    site->driver = lull_virtual_driver_create(gpus, site->count, options->look_ns,
                                              options->seed + site->first, on_driven, site);
    for (uint32_t i = 0; i < site->count && site->controller != NULL; i++) {
        lull_controller_set_model(site->controller, i, 0);
        if (options->offers_profile &&
            (options->model->workload_profiles >> LULL_PROFILE_MAX_Q & 1) != 0)
            lull_controller_offer_profile(site->controller, i);
        lull_controller_set_lowest(site->controller, i,
                                   lull_gpu_model_step_mhz(options->model, 0) /
                                       lull_gpu_model_step_mhz(options->model, points[i] - 1));
    }
    return site->controller != NULL && site->driver != NULL;
}

/* Exchanges messages between the nodes. */
static bool join_sites(struct simulation *simulation)
{
    const struct lull_simulation_options *options = simulation->options;
    const uint32_t steps = lull_gpu_model_step_count(options->model);
    struct lull_job_node_view views[LULL_SIMULATION_NODES] = {0};

    if (simulation->site_count == 1)
        return true;
    simulation->clocks_mhz = calloc(steps, sizeof(simulation->clocks_mhz[0]));
    if (simulation->clocks_mhz == NULL)
        return false;
    for (uint32_t i = 0; i < steps; i++)
        simulation->clocks_mhz[i] =
            (uint32_t)lround(lull_gpu_model_step_mhz(options->model, steps - 1 - i));
    for (uint32_t i = 0; i < simulation->site_count; i++) {
        const struct node_site *site = &simulation->sites[i];

        views[i].controller = site->controller;
        views[i].gpu_count = site->count;
        views[i].present = UINT64_MAX >> (64 - site->count);
        for (uint32_t gpu = 0; gpu < site->count; gpu++)
            views[i].clocks_mhz[gpu] = simulation->clocks_mhz;
    }
    simulation->nodes = lull_virtual_nodes_create(views, simulation->site_count, options->way_ns,
                                                  options->lost_every, options->seed);
    return simulation->nodes != NULL;
}

/* Creates the gap maps, controllers and drivers. */
static int make_managed(struct simulation *simulation, struct lull_error *err)
{
    const struct lull_simulation_options *options = simulation->options;
    bool is_made = true;

    for (uint32_t i = 0; i < options->play->rank_count; i++) {
        struct node_rank *rank = &simulation->ranks[i];

        rank->gaps = lull_gap_map_create(!options->exposure);
        rank->orders = number_communication(&options->play->ranks[i]);
        is_made = is_made && rank->gaps != NULL && rank->orders != NULL;
    }
    for (uint32_t i = 0; i < simulation->site_count; i++)
        is_made = make_site(simulation, &simulation->sites[i]) && is_made;
    if (!is_made || !join_sites(simulation))
        return lull_error_set(err, -ENOMEM, "simulation: no memory");
    simulation->is_managed = true;
    return 0;
}

static void virtual_node_destroy(struct simulation *simulation)
{
    for (uint32_t i = 0; i < LULL_PLAY_RANKS; i++) {
        lull_gap_map_destroy(simulation->ranks[i].gaps);
        free(simulation->ranks[i].orders);
    }
    lull_virtual_nodes_destroy(simulation->nodes);
    free(simulation->clocks_mhz);
    for (uint32_t i = 0; i < simulation->site_count; i++) {
        lull_virtual_driver_destroy(simulation->sites[i].driver);
        lull_controller_destroy(simulation->sites[i].controller);
    }
    lull_play_sim_destroy(simulation->sim);
    free(simulation);
}

static void describe_target(const struct simulation *simulation,
                            struct lull_simulation_outcome *outcome)
{
    const struct lull_gpu_model *model = simulation->options->model;
    const uint32_t top = lull_gpu_model_step_count(model) - 1;
    const struct lull_controller *controller = simulation->sites[0].controller;
    struct lull_controller_view now;
    uint32_t lowest = 0;
    uint32_t count;

    outcome->steady_mhz =
        lull_gpu_model_step_mhz(model, top - lull_min_u32(simulation->options->steps_below, top));
    outcome->point_mhz = outcome->steady_mhz;
    outcome->profile_saving = (struct lull_profile_saving){NAN, NAN, NAN};
    if (!simulation->is_managed)
        return;
    now = lull_controller_look(controller);
    outcome->given_up = now.swings->cut;
    if (now.steady != NULL) {
        outcome->steady_mhz = lull_gpu_model_step_mhz(model, top - now.steady->proven.common);
        outcome->below_ratio = lull_target_below_ratio(now.steady);
    }
    outcome->unevenness_ratio = lull_controller_unevenness(controller, 0);
    outcome->kept_others = now.kept_others;
    outcome->keeps = now.is_proven || outcome->kept_others != 0;
    if (now.profile != NULL) {
        outcome->has_profile = true;
        outcome->keeps_profile = lull_target_is_kept_low(now.profile);
        outcome->profile_reason = now.profile->reason;
        outcome->profile_saving = now.profile->saving;
    }
    for (uint32_t i = 0; i < now.target_count; i++)
        if (&now.targets[i] != now.profile)
            lowest = lull_max_u32(lowest, now.targets[i].proven.common);
    outcome->point_mhz = lull_gpu_model_step_mhz(model, top - lowest);
    lull_track_sections(lull_controller_look_gpu(controller, 0).track, &count);
    for (uint32_t i = 0; i < count; i++)
        outcome->switched += lull_controller_target_of(controller, 0, i) != NULL;
}

/* Computes the means of the measured periods. */
static void virtual_node_conclude(const struct simulation *simulation,
                                  struct lull_simulation_outcome *outcome_out)
{
    const struct lull_simulation_options *options = simulation->options;
    const uint32_t ranks = options->play->rank_count;
    struct lull_simulation_outcome outcome = {
        .settled_in = simulation->settled_in,
        .swing = simulation->power.swing,
    };
    uint64_t steps = 0;
    uint64_t low_steps = 0;

    for (uint32_t i = 0; i < simulation->site_count && simulation->is_managed; i++)
        outcome.calls += lull_virtual_driver_calls(simulation->sites[i].driver);
    for (uint32_t i = 0; i < ranks; i++) {
        const struct node_rank *rank = &simulation->ranks[i];

        outcome.rank_period_ms[i] =
            (double)(rank->until_ns - rank->from_ns) * 1e-6 / (double)options->measured;
        outcome.period_ms += outcome.rank_period_ms[i] / ranks;
        outcome.energy_j += (rank->until_j - rank->from_j) / (double)options->measured;
        steps += rank->steps;
        low_steps += rank->low_steps;
    }
    outcome.late_ratio = steps == 0 ? 0.0 : (double)low_steps / (double)steps;
    *outcome_out = outcome;
    describe_target(simulation, outcome_out);
}

/* Each node has as many ranks as any other, or one more. */
static void virtual_node_place_ranks(struct simulation *simulation)
{
    const uint32_t ranks = simulation->options->play->rank_count;

    simulation->site_count = lull_min_u32(lull_max_u32(simulation->options->nodes, 1),
                                          lull_min_u32(ranks, LULL_SIMULATION_NODES));
    for (uint32_t i = ranks; i-- > 0;) {
        site_of(simulation, i)->first = i;
        site_of(simulation, i)->count++;
    }
}

int lull_simulate_node(const struct lull_simulation_options *options,
                       struct lull_simulation_outcome *outcome_out, struct lull_error *err)
{
    struct simulation *simulation = calloc(1, sizeof(*simulation));
    struct lull_play_observer observer = {on_event, on_timer, simulation};
    int result;

    if (simulation == NULL)
        return lull_error_set(err, -ENOMEM, "simulation: no memory");
    simulation->options = options;
    virtual_node_place_ranks(simulation);
    if (options->measured == 0 || options->measured > options->periods) {
        result = lull_error_set(err, -EINVAL,
                                "simulation: %llu of %llu periods cannot be measured; measure one "
                                "at least and all at most",
                                (unsigned long long)options->measured,
                                (unsigned long long)options->periods);
        goto destroy;
    }
    result = lull_play_sim_create(options->play, options->model, options->periods + 1,
                                  &simulation->sim, err);
    if (result < 0)
        goto destroy;
    set_up_gpus(simulation);
    if (options->managed)
        result = make_managed(simulation, err);
    if (result < 0)
        goto destroy;
    result = lull_play_sim_run(simulation->sim, &observer, err);
    if (result < 0)
        goto destroy;
    virtual_node_conclude(simulation, outcome_out);

destroy:
    virtual_node_destroy(simulation);
    return result;
}

double lull_simulation_slowdown(const struct lull_simulation_outcome *outcome,
                                const struct lull_simulation_outcome *reference)
{
    double most = -INFINITY;

    for (uint32_t i = 0; i < LULL_PLAY_RANKS && reference->rank_period_ms[i] > 0.0; i++)
        most = fmax(most, outcome->rank_period_ms[i] / reference->rank_period_ms[i] - 1.0);
    return most;
}
