/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/round.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_string.h"
#include "base/log.h"

enum { MAX_GROUPS = 1 + LULL_BUDGET_MAX_RACKS + LULL_BUDGET_MAX_NODES };

/* Assumed power of a GPU without readings: the power limit of most GPUs for training. */
static const double unknown_w = 400.0;

/* Location of a GPU of the steering. */
struct gpu_place {
    uint32_t node;
    uint32_t gpu;
};

struct lull_budget_round {
    const struct lull_budget_settings *settings;
    struct lull_budget_nodes *nodes;
    struct lull_power_steer *steer; /* NULL: there is no GPU yet */
    uint32_t gpu_count;
    struct gpu_place *places; /* [gpu] and so on */
    struct lull_steer_update *update;
    struct lull_steer_order *orders;
    struct lull_steered_job *jobs; /* [gpu_count + LULL_BUDGET_MAX_JOBS] */
    uint32_t job_count;
    struct lull_power_group groups[MAX_GROUPS];
    uint32_t group_count;
    double target_w; /* INFINITY: none */
    double cap_w;    /* of everything, GPUs and other consumers; INFINITY: none */
    double besides_w;
    double excess_w;
    bool was_exceeded;
};

int lull_budget_round_create(const struct lull_budget_settings *settings,
                             struct lull_budget_nodes *nodes, struct lull_budget_round **round_out)
{
    struct lull_budget_round *round = calloc(1, sizeof(*round));

    if (round == NULL)
        return -ENOMEM;
    round->settings = settings;
    round->nodes = nodes;
    round->target_w = round->cap_w = INFINITY;
    *round_out = round;
    return 0;
}

static void forget_gpus(struct lull_budget_round *round)
{
    lull_power_steer_destroy(round->steer);
    free(round->places);
    free(round->update);
    free(round->orders);
    free(round->jobs);
    round->steer = NULL;
    round->places = NULL;
    round->update = NULL;
    round->orders = NULL;
    round->jobs = NULL;
    round->gpu_count = 0;
}

void lull_budget_round_destroy(struct lull_budget_round *round)
{
    if (round == NULL)
        return;
    forget_gpus(round);
    free(round);
}

/* --- groups --- */

static uint32_t group_of_node(const struct lull_budget_round *round, uint32_t node)
{
    return 1 + round->settings->rack_count + node;
}

static double cap_of(const struct lull_budget_cap *cap, double besides_w)
{
    return cap->limit_w > 0.0 ? fmax(cap->limit_w - besides_w, 0.0) : INFINITY;
}

/* Makes the groups of the caps, minus the power of other consumers in them. */
static void describe_groups(struct lull_budget_round *round)
{
    const struct lull_budget_settings *s = round->settings;
    double besides_w[MAX_GROUPS] = {s->cap.besides_w};
    struct lull_budget_cap all = s->cap;

    round->group_count = 1 + s->rack_count + s->node_count;
    for (uint32_t r = 0; r < s->rack_count; r++) {
        besides_w[1 + r] = s->racks[r].cap.besides_w;
        besides_w[0] += s->racks[r].cap.besides_w;
    }
    for (uint32_t n = 0; n < s->node_count; n++) {
        const struct lull_budget_node *node = &s->nodes[n];
        const uint32_t parent = node->rack < 0 ? 0 : 1 + (uint32_t)node->rack;

        besides_w[0] += node->cap.besides_w;
        if (parent != 0)
            besides_w[parent] += node->cap.besides_w;
        round->groups[group_of_node(round, n)] =
            (struct lull_power_group){cap_of(&node->cap, node->cap.besides_w), parent};
    }
    for (uint32_t r = 0; r < s->rack_count; r++)
        round->groups[1 + r] =
            (struct lull_power_group){cap_of(&s->racks[r].cap, besides_w[1 + r]), 0};
    round->cap_w = fmin(all.limit_w > 0.0 ? all.limit_w : INFINITY, round->target_w);
    round->besides_w = besides_w[0];
    round->groups[0] =
        (struct lull_power_group){fmax(round->cap_w - besides_w[0], 0.0), LULL_POWER_NO_GROUP};
}

/* --- GPUs --- */

static int take_gpus(struct lull_budget_round *round)
{
    struct lull_steered_gpu *facts;
    uint32_t count = 0;
    int result;

    forget_gpus(round);
    for (uint32_t n = 0; n < round->nodes->count; n++)
        count += round->nodes->nodes[n].gpu_count;
    facts = calloc(count + 1, sizeof(*facts));
    round->places = calloc(count + 1, sizeof(*round->places));
    round->update = calloc(count + 1, sizeof(*round->update));
    round->orders = calloc(count + 1, sizeof(*round->orders));
    round->jobs = calloc(count + LULL_BUDGET_MAX_JOBS, sizeof(*round->jobs));
    if (facts == NULL || round->places == NULL || round->update == NULL || round->orders == NULL ||
        round->jobs == NULL) {
        free(facts);
        return -ENOMEM;
    }
    count = 0;
    for (uint32_t n = 0; n < round->nodes->count; n++)
        for (uint32_t g = 0; g < round->nodes->nodes[n].gpu_count; g++, count++) {
            const struct lull_message_state *state = &round->nodes->nodes[n].states[g];

            round->places[count] = (struct gpu_place){n, g};
            facts[count] = (struct lull_steered_gpu){
                .lowest_mhz = state->lowest_mhz,
                .highest_mhz = state->highest_mhz,
                .lowest_limit_w = state->lowest_limit_mw * 1e-3,
                .unknown_w =
                    state->default_limit_mw != 0 ? state->default_limit_mw * 1e-3 : unknown_w,
                .group = group_of_node(round, n),
                .cap_mhz = state->cap_left_ms != 0 ? state->cap_mhz : 0,
            };
        }
    result = lull_power_steer_create(facts, count, &round->steer);
    free(facts);
    if (result == 0)
        round->gpu_count = count;
    return result;
}

/* --- jobs --- */

static struct lull_steered_job budget_round_steered_job(const struct lull_budget_job *job)
{
    return (struct lull_steered_job){job->weight, job->min_ratio, job->clock_bound};
}

static const struct lull_message_state *budget_round_state_of(const struct lull_budget_round *round,
                                                              uint32_t gpu)
{
    return &round->nodes->nodes[round->places[gpu].node].states[round->places[gpu].gpu];
}

/* Returns the job section that names a GPU; job_count if there is none. */
static uint32_t find_placed(const struct lull_budget_round *round, uint32_t gpu)
{
    const struct lull_budget_settings *s = round->settings;
    const struct gpu_place *place = &round->places[gpu];

    for (uint32_t j = 0; j < s->job_count; j++)
        for (uint32_t p = 0; p < s->jobs[j].place_count; p++)
            if (strcmp(s->jobs[j].places[p].node, s->nodes[place->node].name) == 0 &&
                (s->jobs[j].places[p].gpus >> place->gpu & 1) != 0)
                return j;
    return s->job_count;
}

static const struct lull_budget_job *find_of_user(const struct lull_budget_settings *settings,
                                                  uint32_t uid)
{
    for (uint32_t j = 0; j < settings->job_count; j++)
        if (settings->jobs[j].has_user && settings->jobs[j].uid == uid)
            return &settings->jobs[j];
    return &settings->others;
}

/* Returns the job of an earlier GPU that the same process has leased; job_count: there is none. */
static uint32_t find_shared(const struct lull_budget_round *round, uint32_t gpu)
{
    const struct lull_message_state *state = budget_round_state_of(round, gpu);

    for (uint32_t i = 0; i < gpu && state->is_leased != 0 && state->owner_pid != 0; i++)
        if (round->places[i].node == round->places[gpu].node &&
            budget_round_state_of(round, i)->is_leased != 0 &&
            budget_round_state_of(round, i)->owner_pid == state->owner_pid &&
            round->update[i].job >= round->settings->job_count)
            return round->update[i].job;
    return round->job_count;
}

/* Returns whether nothing can be ordered on a node. */
static bool is_away(const struct lull_budget_connection *node)
{
    return node->client == NULL || node->is_refusing;
}

/* Sections that name GPUs are jobs of their own; besides, the GPUs that one process has leased are
 * one job, and every other GPU is one. */
static void describe_jobs(struct lull_budget_round *round)
{
    const struct lull_budget_settings *s = round->settings;

    for (uint32_t j = 0; j < s->job_count; j++)
        round->jobs[j] = budget_round_steered_job(&s->jobs[j]);
    round->job_count = s->job_count;
    for (uint32_t i = 0; i < round->gpu_count; i++) {
        const struct lull_message_state *state = budget_round_state_of(round, i);
        uint32_t job = find_placed(round, i);

        if (job == s->job_count)
            job = find_shared(round, i);
        if (job == round->job_count && job >= s->job_count)
            round->jobs[round->job_count++] = budget_round_steered_job(
                state->is_leased != 0 ? find_of_user(s, state->owner_uid) : &s->others);
        round->update[i] = (struct lull_steer_update){
            .power_w = state->power_mw * 1e-3,
            .looks = state->power_looks,
            .cap_mhz = state->power_cap_mhz,
            .clock_mhz = state->observed_mhz,
            .floor_mhz =
                state->is_leased != 0 && state->min_mhz > state->lowest_mhz ? state->min_mhz : 0,
            .job = job,
            .is_away = is_away(&round->nodes->nodes[round->places[i].node]),
        };
    }
}

/* --- rounds --- */

static void budget_round_log(struct lull_budget_round *round, double before_w)
{
    const bool is_exceeded = round->excess_w > 0.0;

    if (round->cap_w != before_w && isfinite(round->cap_w))
        lull_log(LULL_LOG_INFO, "budget", "%.0f W are to be held from now on", round->cap_w);
    else if (round->cap_w != before_w)
        lull_log(LULL_LOG_INFO, "budget", "there is no cap any more");
    if (is_exceeded && !round->was_exceeded)
        lull_log(LULL_LOG_WARNING, "budget",
                 "the cap is exceeded by %.0f W: the jobs are at their minimum clocks, and no "
                 "power limit can be lowered",
                 round->excess_w);
    if (!is_exceeded && round->was_exceeded)
        lull_log(LULL_LOG_INFO, "budget", "all caps can be held again");
    round->was_exceeded = is_exceeded;
}

int lull_budget_round_run(struct lull_budget_round *round, double target_w, struct lull_error *err)
{
    const double before_w = round->cap_w;
    int result = 0;

    round->target_w = target_w;
    if (lull_budget_nodes_look(round->nodes) || round->steer == NULL)
        result = take_gpus(round);
    if (result == 0) {
        describe_groups(round);
        describe_jobs(round);
        result = lull_power_steer_decide(round->steer,
                                         &(struct lull_steer_view){round->update, round->groups,
                                                                   round->group_count, round->jobs,
                                                                   round->job_count},
                                         round->orders, &round->excess_w);
    }
    if (result < 0)
        return lull_error_set(err, result, "out of memory");
    for (uint32_t i = 0; i < round->gpu_count; i++)
        lull_budget_nodes_order(round->nodes, round->places[i].node, round->places[i].gpu,
                                &round->orders[i], (uint32_t)(round->settings->hold_s * 1e3));
    budget_round_log(round, before_w);
    return 0;
}

void lull_budget_round_lift(struct lull_budget_round *round)
{
    for (uint32_t i = 0; i < round->gpu_count; i++)
        lull_budget_nodes_order(round->nodes, round->places[i].node, round->places[i].gpu,
                                &(struct lull_steer_order){0}, 0);
}

/* --- reports --- */

static json_t *budget_round_number_or_null(double value, bool is_known)
{
    return is_known ? json_real(value) : json_null();
}

static json_t *budget_round_gpu_as_json(const struct lull_budget_round *round, uint32_t gpu)
{
    const struct lull_message_state *state = budget_round_state_of(round, gpu);
    const struct lull_steer_order *order = &round->orders[gpu];

    return json_pack(
        "{s:o, s:I, s:I, s:b, s:o, s:o, s:o}", "node",
        lull_json_string(round->settings->nodes[round->places[gpu].node].name), "gpu",
        (json_int_t)round->places[gpu].gpu, "job", (json_int_t)round->update[gpu].job, "answers",
        !round->update[gpu].is_away, "power_w",
        budget_round_number_or_null(state->power_mw * 1e-3, state->power_mw != 0), "cap_sm_mhz",
        order->max_mhz != 0 ? json_integer((json_int_t)order->max_mhz) : json_null(),
        "cap_power_limit_w", budget_round_number_or_null(order->limit_w, order->limit_w > 0.0));
}

char *lull_budget_round_print(const struct lull_budget_round *round)
{
    json_t *gpus = json_array();
    double draw_w = round->besides_w;
    uint32_t unknown = 0;
    json_t *root;
    char *text;

    for (uint32_t i = 0; i < round->gpu_count; i++) {
        draw_w += budget_round_state_of(round, i)->power_mw * 1e-3;
        unknown += budget_round_state_of(round, i)->power_mw == 0 || round->update[i].is_away;
        json_array_append_new(gpus, budget_round_gpu_as_json(round, i));
    }
    root = json_pack(
        "{s:I, s:o, s:o, s:f, s:I, s:f, s:o}", "time_s", (json_int_t)time(NULL), "cap_w",
        budget_round_number_or_null(round->cap_w, isfinite(round->cap_w)), "grid_target_w",
        budget_round_number_or_null(round->target_w, isfinite(round->target_w)), "power_w", draw_w,
        "gpus_unknown", (json_int_t)unknown, "excess_w", round->excess_w, "gpus", gpus);
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return text;
}
