/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/serving/serving.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "core/energy/device_curve.h"
#include "core/serving/cadence.h"
#include "simulator/serving/gpus.h"
#include "simulator/serving/metrics.h"

enum { ENERGY_CHECKS = 256 };

static const int64_t never_ns = INT64_MAX;
static const int64_t default_period_ns = 100 * LULL_NS_PER_MS;
/* Without metrics the governor looks for steps this often, and sees by the GPU's readings after
 * these times that an engine waits, and that it works again. */
static const int64_t look_ns = 10 * LULL_NS_PER_MS;
static const int64_t idle_seen_ns = 250 * LULL_NS_PER_MS;
static const int64_t work_seen_ns = 120 * LULL_NS_PER_MS;

/* A pool while it runs. */
struct serving_site {
    const struct lull_serving_pool *pool;
    struct lull_engine *engine;
    struct lull_step_memo *costs;
    struct lull_serving_gpus *gpus;
    struct lull_serving_controller *controller; /* NULL: there is none */
    struct lull_serving_metrics *metrics;
    struct lull_cadence cadence;
    int64_t ended_ns;  /* the last step */
    int64_t energy_ns; /* the energy was read last */
    uint64_t gaps;
    uint64_t long_gaps;
    bool is_void; /* the step under way is of an engine that is gone */
    double requested_mhz;
    double passed_mhz; /* that the controller knows to be in force */
    int64_t passed_ns;
    int64_t begin_ns; /* of the step under way */
    double step_mhz;  /* the clock at its begin */
    double busy_s;
    double busy_mhz_s;  /* clock times time, of steps */
    uint64_t preempted; /* by engines that are gone */
    uint64_t steps;
};

struct serving_play {
    const struct lull_serving_run *run;
    struct serving_site sites[LULL_SERVING_POOLS];
    struct lull_serving_request *requests;
    size_t next;                /* arrival */
    struct lull_heap handovers; /* requests on their way to the second pool, by time */
    int64_t period_ns;
    int64_t tick_ns;
    int64_t fault_ns; /* the next change of the server's fate */
    bool is_down;
    bool has_reset;
    bool is_given_up;
    uint64_t missed;
    int64_t check_ns; /* the next look at the energy */
    size_t open;      /* requests that have been submitted and are not over */
    int64_t now_ns;
    int64_t last_token_ns;
    int result;
};

/* ---- life --------------------------------------------------------------------------------- */

uint32_t lull_serving_list_clocks(const struct lull_gpu_model *model,
                                  double clocks_mhz_out[LULL_SERVING_CLOCKS])
{
    const uint32_t last = lull_gpu_model_step_count(model) - 1;
    const uint32_t count = lull_min_u32(last + 1, LULL_SERVING_CLOCKS);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t below = (i * last + (count - 1) / 2) / (count - 1);

        clocks_mhz_out[i] = lull_gpu_model_step_mhz(model, last - below);
    }
    return count;
}

/* A bound for nearly all requests: the calls for all GPUs, then the slowest to settle. */
static int64_t switching_ns(const struct lull_gpu_model *model, uint32_t gpus)
{
    const double normal_99 = 2.3263;
    const double call_ms =
        fmin(model->api_ms * exp(normal_99 * model->api_sigma), model->api_max_ms);

    return lull_ns_from_ms(gpus * call_ms + model->settle_p99_ms);
}

static struct lull_serving_controller *make_controller(const struct serving_play *play,
                                                       const struct lull_serving_pool *pool)
{
    const struct lull_gpu_model *model = pool->setup.gpu;
    struct lull_serving_config config = {
        .objective = pool->objective,
        .curve = lull_device_curve_find(model->name, strlen(model->name)),
        .gpu_count = pool->setup.gpus,
        .period_ns = play->run->is_of_steps ? default_period_ns : play->period_ns,
        .latency_ns = switching_ns(model, pool->setup.gpus),
        .park_after_ns = play->run->park_after_ns,
        .wake_s = play->run->wake_s,
        .seed = play->run->seed,
    };

    config.clock_count = lull_serving_list_clocks(model, config.clocks_mhz);
    return lull_serving_controller_create(&config);
}

static struct lull_engine *make_engine(const struct serving_play *play, uint32_t index)
{
    const struct lull_serving_pool *pool = &play->run->pools[index];
    struct lull_engine_config config = {
        .role = LULL_ENGINE_BOTH,
        .max_sequences = pool->max_sequences,
        .max_batched_tokens = pool->max_batched_tokens,
        .cache_tokens = lull_step_cache_tokens(&pool->setup),
        .ends_only = true,
        .no_histograms = play->run->policy != LULL_SERVING_UNDER_LULL, /* no reader */
    };

    if (play->run->pool_count == 2)
        config.role = index == 0 ? LULL_ENGINE_PREFILL : LULL_ENGINE_DECODE;
    return lull_engine_create(&config);
}

/* Sets the clock or limit that holds from the beginning. */
static void set_policy(const struct lull_serving_run *run, struct serving_site *site)
{
    if (run->policy == LULL_SERVING_AT_CLOCK)
        lull_serving_gpus_set(site->gpus, run->clock_mhz, 0);
    if (run->policy == LULL_SERVING_AT_LIMIT)
        lull_serving_gpus_limit(site->gpus, run->limit_w);
}

static int open_site(struct serving_play *play, uint32_t index, struct lull_error *err)
{
    const struct lull_serving_run *run = play->run;
    struct serving_site *site = &play->sites[index];
    const struct lull_step_setup *setup = &run->pools[index].setup;
    const uint64_t seed = run->seed + index;

    if (!(lull_step_cache_tokens(setup) > 0.0))
        return lull_error_set(err, -EINVAL,
                              "%s does not fit into the memory of %u x %s. Use more GPUs, or GPUs "
                              "with more memory.",
                              setup->llm->name, setup->gpus, setup->gpu->name);
    *site = (struct serving_site){
        .pool = &run->pools[index],
        .engine = make_engine(play, index),
        .costs = lull_step_memo_create(setup, run->pools[index].max_batched_tokens),
        .gpus = lull_serving_gpus_create(setup->gpu, setup->gpus, seed),
        .requested_mhz = setup->gpu->sm_max_mhz,
        .passed_mhz = NAN,
    };
    lull_cadence_init(&site->cadence, site->pool->objective.tpot_s);
    if (run->policy == LULL_SERVING_UNDER_LULL) {
        site->controller = make_controller(play, site->pool);
        site->metrics = lull_serving_metrics_create(&run->faults, play->period_ns, seed);
    }
    if (site->engine == NULL || site->costs == NULL || site->gpus == NULL ||
        (run->policy == LULL_SERVING_UNDER_LULL &&
         (site->controller == NULL || site->metrics == NULL)))
        return lull_error_set(err, -ENOMEM, "simulation: no memory");
    set_policy(run, site);
    return 0;
}

static void close_sites(struct serving_play *play)
{
    for (uint32_t i = 0; i < LULL_SERVING_POOLS; i++) {
        lull_engine_destroy(play->sites[i].engine);
        lull_step_memo_destroy(play->sites[i].costs);
        lull_serving_gpus_destroy(play->sites[i].gpus);
        lull_serving_controller_destroy(play->sites[i].controller);
        lull_serving_metrics_destroy(play->sites[i].metrics);
    }
    lull_heap_fini(&play->handovers);
}

/* ---- requests ----------------------------------------------------------------------------- */

static void serving_end_request(struct serving_play *play, size_t number,
                                enum lull_serving_fate fate)
{
    play->requests[number].fate = fate;
    play->open--;
}

static void serving_submit(struct serving_play *play, uint32_t index, size_t number)
{
    const struct lull_server_arrival *arrival = &play->run->arrivals->items[number];
    const int result = lull_engine_submit(play->sites[index].engine, number, arrival->prompt_tokens,
                                          arrival->output_tokens, play->now_ns);

    if (result == -ENOMEM)
        play->result = result;
    else if (result < 0)
        serving_end_request(play, number, LULL_SERVING_REFUSED);
}

static void serving_take_arrivals(struct serving_play *play)
{
    const struct lull_server_arrivals *arrivals = play->run->arrivals;

    while (play->next < arrivals->count && arrivals->items[play->next].time_ns <= play->now_ns) {
        const size_t number = play->next++;

        play->open++;
        if (play->is_down)
            serving_end_request(play, number, LULL_SERVING_LOST);
        else
            serving_submit(play, 0, number);
    }
}

/* Sends keys and values of a prompt to the second pool. */
static void serving_hand_over(struct serving_play *play, size_t number)
{
    const struct lull_serving_run *run = play->run;
    const double handover_s = lull_step_handover_s(
        run->pools[0].setup.llm, run->arrivals->items[number].prompt_tokens, run->handover_gbs);
    const int64_t due_ns = play->now_ns + (int64_t)(handover_s * 1e9);

    if (lull_heap_add(&play->handovers, due_ns, number) < 0)
        play->result = -ENOMEM;
}

static void serving_take_handovers(struct serving_play *play)
{
    struct lull_heap_entry entry;

    while (lull_heap_take(&play->handovers, play->now_ns, &entry))
        if (play->requests[entry.number].fate == LULL_SERVING_OPEN)
            serving_submit(play, 1, (size_t)entry.number);
}

static bool is_late(const struct lull_objective *objective,
                    const struct lull_serving_request *request)
{
    return request->ttft_s > objective->ttft_s;
}

static bool is_slow(const struct lull_objective *objective,
                    const struct lull_serving_request *request)
{
    return request->tpot_s > objective->tpot_s; /* NAN is not */
}

/* Counts a request that is missed, and gives the run up if these are too many. */
static void serving_count_missed(struct serving_play *play,
                                 const struct lull_serving_request *request)
{
    const struct lull_objective *objective = &play->run->objective;

    play->missed += is_late(objective, request) || is_slow(objective, request);
    if (play->run->bar != NULL && play->missed > play->run->bar->most_missed)
        play->is_given_up = true;
}

/* Takes a token that a client receives. */
static void serving_take_token(struct serving_play *play, const struct lull_engine_token *token)
{
    struct lull_serving_request *request = &play->requests[token->request];
    const int64_t arrival_ns = play->run->arrivals->items[token->request].time_ns;

    if (token->is_first)
        request->ttft_s = (double)(play->now_ns - arrival_ns) * 1e-9;
    if (!token->is_last)
        return;
    request->tpot_s = token->tpot_s;
    play->last_token_ns = play->now_ns;
    serving_end_request(play, (size_t)token->request, LULL_SERVING_DONE);
    serving_count_missed(play, request);
}

/* Each running request gets a token in each step. */
static void serving_count_gap(const struct serving_play *play, struct serving_site *site,
                              const struct lull_engine_token *token)
{
    const double gap_s = (double)(play->now_ns - site->ended_ns) * 1e-9;

    if (token->is_first)
        return;
    site->gaps++;
    site->long_gaps += gap_s > play->run->objective.tpot_s;
}

static void serving_end_step(struct serving_play *play, uint32_t index)
{
    struct serving_site *site = &play->sites[index];
    const bool hands_over = play->run->pool_count == 2 && index == 0;
    const double step_s = (double)(play->now_ns - site->begin_ns) * 1e-9;
    const struct lull_engine_token *tokens;
    uint32_t count;

    site->busy_s += step_s;
    site->busy_mhz_s += step_s * site->step_mhz;
    if (site->is_void) {
        site->is_void = false;
        return;
    }
    count = lull_engine_end_step(site->engine, play->now_ns, &tokens);
    lull_cadence_take_step(&site->cadence, 0, play->now_ns);
    for (uint32_t i = 0; i < count; i++) {
        serving_count_gap(play, site, &tokens[i]);
        if (hands_over)
            serving_hand_over(play, (size_t)tokens[i].request);
        else
            serving_take_token(play, &tokens[i]);
    }
    site->ended_ns = play->now_ns;
}

static double serving_energy_j(const struct serving_play *play)
{
    double energy_j = 0.0;

    for (uint32_t i = 0; i < play->run->pool_count; i++)
        energy_j += lull_serving_gpus_energy_j(play->sites[i].gpus);
    return energy_j;
}

/* Gives the run up if it has used too much energy. Looks at it once in a while only. */
static void serving_check_energy(struct serving_play *play)
{
    const struct lull_serving_bar *bar = play->run->bar;

    if (bar == NULL || play->now_ns < play->check_ns)
        return;
    play->check_ns = play->now_ns + play->run->arrivals->period_ns / ENERGY_CHECKS;
    if (serving_energy_j(play) >= bar->energy_j)
        play->is_given_up = true;
}

static void serving_begin_step(struct serving_play *play, uint32_t index)
{
    struct serving_site *site = &play->sites[index];
    const struct lull_gpu_model *model = site->pool->setup.gpu;
    const bool is_by_step = play->run->policy == LULL_SERVING_BY_STEP;
    struct lull_step_batch batch;
    struct lull_step_cost cost;
    int64_t since_ns;

    if (lull_serving_gpus_is_busy(site->gpus) || play->is_down)
        return;
    if (!lull_engine_begin_step(site->engine, play->now_ns, &batch)) {
        if (is_by_step)
            lull_serving_gpus_set(site->gpus, model->sm_min_mhz, play->now_ns);
        return;
    }
    lull_step_memo_cost(site->costs, &batch, &cost);
    if (is_by_step)
        lull_serving_gpus_set(
            site->gpus,
            play->run->choose(
                play->run->choose_context,
                &(struct lull_serving_step){play->now_ns, site->engine, &batch, &cost, play->next}),
            play->now_ns);
    serving_check_energy(play);
    site->begin_ns = play->now_ns;
    site->step_mhz = lull_serving_gpus_mhz(site->gpus, &since_ns);
    if (isnan(site->step_mhz)) /* a change is under way */
        site->step_mhz = site->requested_mhz;
    lull_serving_gpus_begin(site->gpus, &cost, play->now_ns);
}

/* ---- control ------------------------------------------------------------------------------ */

static void serving_watch(const struct serving_play *play, uint32_t index, int64_t time_ns,
                          double mhz, bool is_effect)
{
    if (play->run->watch != NULL)
        play->run->watch(play->run->watch_context, index, time_ns, mhz, is_effect);
}

/* Lets the controller know the clock that is in force, if it has changed. */
static void serving_pass_clock(struct serving_play *play, uint32_t index)
{
    struct serving_site *site = &play->sites[index];
    int64_t since_ns;
    const double mhz = lull_serving_gpus_mhz(site->gpus, &since_ns);

    if (site->controller == NULL || isnan(mhz) ||
        (mhz == site->passed_mhz && since_ns == site->passed_ns))
        return;
    site->passed_mhz = mhz;
    site->passed_ns = since_ns;
    lull_serving_controller_take_clock(site->controller, since_ns, mhz);
    serving_watch(play, index, since_ns, mhz, true);
}

/* Passes the cadence of steps to the controller. */
static void serving_read_cadence(const struct serving_play *play, struct serving_site *site)
{
    const bool is_busy = lull_serving_gpus_is_busy(site->gpus);
    struct lull_serving_reading reading = {0};

    if (!is_busy && play->now_ns - site->ended_ns >= idle_seen_ns)
        lull_cadence_take_idle(&site->cadence, 0);
    if (is_busy && site->cadence.running == 0 && play->now_ns - site->begin_ns >= work_seen_ns)
        lull_cadence_take_work(&site->cadence, 0, play->now_ns);
    if (lull_cadence_read(&site->cadence, play->now_ns, &reading))
        lull_serving_controller_take(site->controller, &reading);
}

static void serving_control(struct serving_play *play, uint32_t index)
{
    struct serving_site *site = &play->sites[index];
    const struct lull_engine_statistics *statistics = NULL;
    double mhz;

    if (!play->is_down)
        statistics = lull_engine_statistics(site->engine);
    if (play->run->is_of_steps)
        serving_read_cadence(play, site);
    else
        lull_serving_metrics_poll(site->metrics, statistics, play->now_ns, site->controller);
    if (!play->run->is_of_steps || play->now_ns - site->energy_ns >= default_period_ns) {
        site->energy_ns = play->now_ns;
        lull_serving_controller_take_energy(site->controller, play->now_ns,
                                            lull_serving_gpus_counted_j(site->gpus));
    }
    mhz = lull_serving_controller_poll(site->controller, play->now_ns);
    if (mhz == site->requested_mhz)
        return;
    site->requested_mhz = mhz;
    lull_serving_gpus_ask(site->gpus, mhz, play->now_ns);
    serving_watch(play, index, play->now_ns, mhz, false);
}

/* ---- faults ------------------------------------------------------------------------------- */

static void serving_stop_server(struct serving_play *play)
{
    play->is_down = true;
    for (size_t i = 0; i < play->next; i++)
        if (play->requests[i].fate == LULL_SERVING_OPEN)
            serving_end_request(play, i, LULL_SERVING_LOST);
    for (uint32_t i = 0; i < play->run->pool_count; i++) {
        struct serving_site *site = &play->sites[i];
        struct lull_engine *fresh = make_engine(play, i);

        if (fresh == NULL) {
            play->result = -ENOMEM;
            return;
        }
        site->preempted += lull_engine_statistics(site->engine)->preempted;
        site->steps += lull_engine_statistics(site->engine)->steps;
        lull_engine_destroy(site->engine);
        site->engine = fresh;
        site->is_void = lull_serving_gpus_is_busy(site->gpus);
        if (site->metrics != NULL)
            lull_serving_metrics_restart(site->metrics);
    }
}

static void serving_reset_counters(struct serving_play *play)
{
    play->has_reset = true;
    for (uint32_t i = 0; i < play->run->pool_count; i++)
        if (play->sites[i].metrics != NULL)
            lull_serving_metrics_reset(play->sites[i].metrics,
                                       lull_engine_statistics(play->sites[i].engine));
}

static void serving_apply_faults(struct serving_play *play)
{
    const struct lull_serving_faults *faults = &play->run->faults;
    const bool is_down = play->now_ns >= faults->restart_ns && play->now_ns < faults->restarted_ns;

    if (is_down && !play->is_down)
        serving_stop_server(play);
    play->is_down = is_down;
    if (faults->reset_ns > 0 && play->now_ns >= faults->reset_ns && !play->has_reset)
        serving_reset_counters(play);
    play->fault_ns = never_ns;
    if (play->now_ns < faults->restart_ns)
        play->fault_ns = faults->restart_ns;
    else if (play->now_ns < faults->restarted_ns)
        play->fault_ns = faults->restarted_ns;
    if (faults->reset_ns > 0 && !play->has_reset)
        play->fault_ns = lull_earlier_ns(play->fault_ns, faults->reset_ns);
}

/* ---- time --------------------------------------------------------------------------------- */

static bool serving_is_over(const struct serving_play *play)
{
    return play->next == play->run->arrivals->count && play->open == 0 &&
           play->now_ns >= play->run->arrivals->period_ns;
}

static int64_t serving_next_ns(const struct serving_play *play)
{
    int64_t next_ns = lull_earlier_ns(play->tick_ns, play->fault_ns);

    if (play->next < play->run->arrivals->count)
        next_ns = lull_earlier_ns(next_ns, play->run->arrivals->items[play->next].time_ns);
    if (play->handovers.count > 0)
        next_ns = lull_earlier_ns(next_ns, play->handovers.entries[0].key);
    for (uint32_t i = 0; i < play->run->pool_count; i++)
        next_ns = lull_earlier_ns(next_ns, lull_serving_gpus_next_ns(play->sites[i].gpus));
    if (play->now_ns < play->run->arrivals->period_ns)
        next_ns = lull_earlier_ns(next_ns, play->run->arrivals->period_ns);
    return next_ns;
}

static void serving_advance(struct serving_play *play)
{
    const bool is_tick = play->tick_ns <= play->now_ns;

    for (uint32_t i = 0; i < play->run->pool_count; i++) {
        struct lull_serving_gpus *gpus = play->sites[i].gpus;

        if ((is_tick || lull_serving_gpus_next_ns(gpus) <= play->now_ns) &&
            lull_serving_gpus_advance(gpus, play->now_ns))
            serving_end_step(play, i);
        serving_pass_clock(play, i);
    }
    if (play->fault_ns <= play->now_ns)
        serving_apply_faults(play);
    serving_take_handovers(play);
    serving_take_arrivals(play);
    if (is_tick) {
        play->tick_ns += play->period_ns;
        for (uint32_t i = 0; i < play->run->pool_count; i++)
            serving_control(play, i);
    }
    for (uint32_t i = 0; i < play->run->pool_count; i++)
        serving_begin_step(play, i);
}

static int serving_run(struct serving_play *play, struct lull_error *err)
{
    serving_apply_faults(play);
    for (uint32_t i = 0; i < play->run->pool_count; i++)
        serving_begin_step(play, i); /* nothing to do yet: a choice by step begins parked */
    for (;;) {
        const int64_t next_ns = serving_next_ns(play);

        if (serving_is_over(play) || play->is_given_up || play->result < 0)
            break;
        assert(next_ns != never_ns && next_ns >= play->now_ns);
        play->now_ns = next_ns;
        serving_advance(play);
    }
    for (uint32_t i = 0; i < play->run->pool_count; i++)
        (void)lull_serving_gpus_advance(play->sites[i].gpus, play->now_ns);
    if (play->result < 0)
        return lull_error_set(err, play->result, "simulation: no memory");
    return 0;
}

/* ---- results ------------------------------------------------------------------------------ */

static int serving_compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The p-th quantile of sorted values; NAN: there are none. */
static double serving_quantile(const double *values, size_t count, double p)
{
    if (count == 0)
        return NAN;
    return values[(size_t)(p * (double)(count - 1) + 0.5)];
}

/* Judges a request and counts it. */
static void outcome_count(struct lull_serving_outcome *outcome,
                          const struct lull_objective *objective,
                          const struct lull_server_arrival *arrival,
                          struct lull_serving_request *request)
{
    outcome->refused += request->fate == LULL_SERVING_REFUSED;
    outcome->lost += request->fate == LULL_SERVING_LOST;
    if (request->fate != LULL_SERVING_DONE)
        return;
    request->is_missed = is_late(objective, request) || is_slow(objective, request);
    outcome->done++;
    outcome->missed += request->is_missed;
    outcome->missed_ttft += is_late(objective, request);
    outcome->missed_tpot += is_slow(objective, request);
    outcome->prompt_tokens += arrival->prompt_tokens;
    outcome->output_tokens += arrival->output_tokens;
}

int lull_serving_find_quantiles(struct lull_serving_outcome *outcome, size_t count,
                                struct lull_error *err)
{
    double *values = malloc((count + 1) * sizeof(values[0]));
    size_t found = 0;

    if (values == NULL)
        return lull_error_set(err, -ENOMEM, "simulation: no memory");
    for (size_t i = 0; i < count; i++)
        if (outcome->requests[i].fate == LULL_SERVING_DONE)
            values[found++] = outcome->requests[i].ttft_s;
    qsort(values, found, sizeof(values[0]), serving_compare);
    outcome->ttft_p50_s = serving_quantile(values, found, 0.5);
    outcome->ttft_p99_s = serving_quantile(values, found, 0.99);
    found = 0;
    for (size_t i = 0; i < count; i++)
        if (outcome->requests[i].fate == LULL_SERVING_DONE && !isnan(outcome->requests[i].tpot_s))
            values[found++] = outcome->requests[i].tpot_s;
    qsort(values, found, sizeof(values[0]), serving_compare);
    outcome->tpot_p50_s = serving_quantile(values, found, 0.5);
    outcome->tpot_p99_s = serving_quantile(values, found, 0.99);
    free(values);
    return 0;
}

static int serving_conclude(struct serving_play *play, struct lull_serving_outcome *outcome,
                            struct lull_error *err)
{
    const struct lull_server_arrivals *arrivals = play->run->arrivals;

    outcome->requests = play->requests;
    outcome->is_given_up = play->is_given_up;
    for (size_t i = 0; i < arrivals->count; i++)
        outcome_count(outcome, &play->run->objective, &arrivals->items[i], &play->requests[i]);
    outcome->ttft_p50_s = outcome->ttft_p99_s = NAN;
    outcome->tpot_p50_s = outcome->tpot_p99_s = NAN;
    if (!play->run->no_quantiles && lull_serving_find_quantiles(outcome, arrivals->count, err) < 0)
        return -ENOMEM;
    outcome->span_s = (double)play->now_ns * 1e-9;
    for (uint32_t i = 0; i < play->run->pool_count; i++) {
        const struct serving_site *site = &play->sites[i];
        const struct lull_engine_statistics *statistics = lull_engine_statistics(site->engine);

        outcome->pools[i] = (struct lull_serving_pool_outcome){
            .energy_j = lull_serving_gpus_energy_j(site->gpus),
            .busy_s = site->busy_s,
            .mean_mhz = site->busy_s > 0.0 ? site->busy_mhz_s / site->busy_s : NAN,
            .calls = lull_serving_gpus_calls(site->gpus),
        };
        outcome->energy_j += outcome->pools[i].energy_j;
        outcome->calls += outcome->pools[i].calls;
        outcome->steps += site->steps + statistics->steps;
        outcome->gaps += site->gaps;
        outcome->long_gaps += site->long_gaps;
        outcome->preempted += site->preempted + statistics->preempted;
        if (site->controller != NULL)
            lull_serving_controller_state(site->controller, &outcome->states[i]);
    }
    return 0;
}

static int64_t choose_period_ns(const struct lull_serving_run *run)
{
    if (run->is_of_steps)
        return look_ns;
    return run->period_ns > 0 ? run->period_ns : default_period_ns;
}

int lull_serving_simulate(const struct lull_serving_run *run,
                          struct lull_serving_outcome *outcome_out, struct lull_error *err)
{
    struct serving_play play = {
        .run = run,
        .period_ns = choose_period_ns(run),
        .tick_ns = run->policy == LULL_SERVING_UNDER_LULL ? 0 : never_ns,
        .requests = calloc(run->arrivals->count + 1, sizeof(*play.requests)),
    };
    struct lull_serving_outcome outcome = {0};
    int result = 0;

    assert(run->pool_count >= 1 && run->pool_count <= LULL_SERVING_POOLS);
    if (play.requests == NULL)
        return lull_error_set(err, -ENOMEM, "simulation: no memory");
    for (size_t i = 0; i < run->arrivals->count; i++)
        play.requests[i] = (struct lull_serving_request){.ttft_s = NAN, .tpot_s = NAN};
    for (uint32_t i = 0; i < run->pool_count && result == 0; i++)
        result = open_site(&play, i, err);
    if (result == 0)
        result = serving_run(&play, err);
    if (result == 0)
        result = serving_conclude(&play, &outcome, err);
    close_sites(&play);
    if (result < 0)
        free(play.requests);
    else
        *outcome_out = outcome;
    return result;
}

double lull_serving_missed_ratio(const struct lull_serving_outcome *outcome)
{
    if (outcome->done == 0)
        return NAN;
    return (double)outcome->missed / (double)outcome->done;
}
