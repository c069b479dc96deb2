/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/serving/oracle.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "core/energy/device_curve.h"

enum { WITH_PROMPTS, DECODE_ONLY, STEP_KINDS };
/* What may be requested of the driver: a base clock, or the highest one. */
enum { FULL = STEP_KINDS };
enum {
    LEVELS = 36,   /* parts of the range by which base clocks differ */
    FIRST_WAY = 9, /* of the search, in these parts */
    WAY_RATIO = 3,
    REPAIRS = 3, /* further runs after added misses */
};

/* A look ahead ends when all requests of its begin are over, but lasts at least and at most so
 * long.
 */
static const int64_t ahead_min_ns = 1 * LULL_NS_PER_S;
static const int64_t ahead_max_ns = 3 * LULL_NS_PER_S;
/* Share of the time that a look ahead finds to spare which steps may use before the next look. The
 * rest covers what a delay does to later batches. */
static const double spend_ratio = 0.5;
/* Beyond this share of added misses, full clocks over the requests' lives leave little to save. */
static const double many_missed_ratio = 0.02;
/* Time that does not suffice for so many steps is not used: looks are expensive. */
static const double least_steps = 2.0;

/* A time in which full clocks hold, because a request was missed. */
struct full_time {
    int64_t from_ns;
    int64_t until_ns;
};

/* A bound of a request that the reference meets. Delays between its begin and its end harm it: of
 * the time to first token from the last moment before the arrival at which no prompt waited, of the
 * time per token from the first token. */
struct oracle_bound {
    int64_t begin_ns;
    int64_t end_ns;
    double left_s; /* that may be lost in between */
};

struct oracle_play {
    const struct lull_serving_run *run;
    const struct lull_serving_outcome *reference;
    struct lull_device_clock clocks[LULL_DEVICE_CURVE_CLOCKS]; /* the highest first */
    uint32_t clock_count;
    const struct lull_device_clock *base[STEP_KINDS + 1]; /* and the highest one */
    int64_t change_ns;  /* that the driver needs between two changes; 0: it is ideal */
    uint32_t requested; /* the clock in force */
    int64_t changed_ns; /* since then */
    bool looks_ahead;
    double base_j;  /* energy of the latest run without times at full clocks */
    double limit_w; /* that the fastest clock keeps; INFINITY: the board limits the highest clock */
    struct lull_engine *ahead;
    struct lull_step_memo *costs;
    int64_t *begins_ns;          /* of each request: when its next bound begins, in a look ahead */
    struct oracle_bound *bounds; /* that begin after the last look, in that order */
    size_t bound_count;
    size_t bound_at;        /* the first one that has not begun */
    double left_s;          /* time that steps may still lose */
    int64_t critical_ns;    /* when the bound that allows no more is over */
    int64_t valid_ns;       /* when the next look is due */
    int64_t full_ns;        /* until when full clocks hold */
    struct full_time *full; /* in the order of their begin */
    size_t full_count;
    size_t full_at; /* the first one that is not over */
    int result;
};

/* ---- steps -------------------------------------------------------------------------------- */

static struct lull_device_kernel kernel_of(const struct lull_step_cost *cost)
{
    return (struct lull_device_kernel){.base_w = cost->profile.base_w,
                                       .slope_w = cost->profile.slope_w,
                                       .memory_ratio = cost->profile.memory_ratio};
}

/* Time of the step's kernels at a clock, s. */
static double kernels_s(const struct lull_device_clock *clock, const struct lull_step_cost *cost)
{
    const struct lull_device_kernel kernel = kernel_of(cost);

    return cost->gpu_s * lull_device_kernel_time(clock, &kernel);
}

static bool is_within_limit(const struct oracle_play *play, uint32_t clock,
                            const struct lull_device_kernel *kernel)
{
    return lull_device_kernel_w(&play->clocks[clock], kernel) <= play->limit_w;
}

/* The highest clock at which the step does not exceed the power limit: the fastest one for long,
 * because a board works less while it limits. */
static const struct lull_device_clock *oracle_find_fastest(const struct oracle_play *play,
                                                           const struct lull_step_cost *cost)
{
    const struct lull_device_kernel kernel = kernel_of(cost);
    uint32_t within = play->clock_count - 1;
    uint32_t first = 0;

    if (is_within_limit(play, 0, &kernel)) /* as nearly all steps that only decode */
        return &play->clocks[0];
    while (first < within) { /* power falls with the clock */
        const uint32_t middle = (first + within) / 2;

        if (is_within_limit(play, middle, &kernel))
            within = middle;
        else
            first = middle + 1;
    }
    return &play->clocks[within];
}

/* Requests a clock, which the driver changes in time if it is not busy with the change before. */
static void oracle_request(struct oracle_play *play, uint32_t wanted, int64_t now_ns)
{
    if (play->base[wanted] != play->base[play->requested]) {
        if (now_ns < play->changed_ns + play->change_ns)
            return;
        play->changed_ns = now_ns;
    }
    play->requested = wanted;
}

static int64_t fastest_step_ns(const struct oracle_play *play, const struct lull_step_cost *cost)
{
    return (int64_t)((cost->host_s + kernels_s(oracle_find_fastest(play, cost), cost)) * 1e9);
}

/* ---- looking ahead ------------------------------------------------------------------------ */

struct oracle_view {
    int64_t from_ns;
    size_t arrived;   /* requests that had arrived at its begin */
    uint32_t open;    /* of them: not over */
    int64_t quiet_ns; /* when no prompt waited */
    int64_t now_ns;
};

/* Takes a bound that the reference meets, and that is over now. */
static void oracle_take_bound(struct oracle_play *play, const struct oracle_view *view,
                              double slack_s, int64_t begin_ns)
{
    const double left_s = spend_ratio * slack_s;

    if (begin_ns > view->from_ns) {
        if (lull_array_grow(&play->bounds, play->bound_count, sizeof(play->bounds[0])) < 0)
            play->result = -ENOMEM;
        else
            play->bounds[play->bound_count++] =
                (struct oracle_bound){begin_ns, view->now_ns, left_s};
    } else if (left_s < play->left_s) {
        play->left_s = left_s;
        play->critical_ns = view->now_ns;
    }
}

static void oracle_take_token(struct oracle_play *play, struct oracle_view *view,
                              const struct lull_engine_token *token)
{
    const struct lull_serving_request *known = &play->reference->requests[token->request];
    const struct lull_objective *objective = &play->run->objective;
    const uint32_t tokens = play->run->arrivals->items[token->request].output_tokens;
    int64_t *begin_ns = &play->begins_ns[token->request];

    view->open -= token->is_last && token->request < view->arrived;
    if (known->fate != LULL_SERVING_DONE || known->is_missed)
        return;
    if (token->is_first) {
        oracle_take_bound(play, view, objective->ttft_s - token->ttft_s, *begin_ns);
        *begin_ns = view->now_ns;
    }
    if (!isnan(token->tpot_s))
        oracle_take_bound(play, view, (objective->tpot_s - token->tpot_s) * (tokens - 1),
                          *begin_ns);
}

/* Ends the step of the copied engine. */
static void oracle_end_ahead(struct oracle_play *play, struct oracle_view *view)
{
    const struct lull_engine_token *tokens;
    const uint32_t count = lull_engine_end_step(play->ahead, view->now_ns, &tokens);

    for (uint32_t i = 0; i < count; i++)
        oracle_take_token(play, view, &tokens[i]);
}

/* Submits what has arrived by now. Returns the next arrival's number. */
static size_t oracle_submit_ahead(struct oracle_play *play, size_t next,
                                  const struct oracle_view *view)
{
    const struct lull_server_arrivals *arrivals = play->run->arrivals;

    for (; next < arrivals->count && arrivals->items[next].time_ns <= view->now_ns; next++) {
        const struct lull_server_arrival *arrival = &arrivals->items[next];

        play->begins_ns[next] = view->quiet_ns;
        if (lull_engine_submit(play->ahead, next, arrival->prompt_tokens, arrival->output_tokens,
                               arrival->time_ns) == -ENOMEM)
            play->result = -ENOMEM;
    }
    return next;
}

/* Simulates a step of the copied engine. False: it has nothing to do. */
static bool oracle_step_ahead(struct oracle_play *play, struct oracle_view *view)
{
    struct lull_step_batch batch;
    struct lull_step_cost cost;

    if (!lull_engine_begin_step(play->ahead, view->now_ns, &batch))
        return false;
    if (batch.prefill_tokens == 0 && lull_engine_statistics(play->ahead)->waiting == 0)
        view->quiet_ns = view->now_ns;
    lull_step_memo_cost(play->costs, &batch, &cost);
    view->now_ns += fastest_step_ns(play, &cost);
    oracle_end_ahead(play, view);
    return true;
}

static int oracle_compare_bounds(const void *a, const void *b)
{
    const struct oracle_bound *x = a;
    const struct oracle_bound *y = b;

    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/* Simulates the server at full clocks from a step on, to learn what time it has to spare. */
static void oracle_look_ahead(struct oracle_play *play, const struct lull_serving_step *step)
{
    const struct lull_server_arrivals *arrivals = play->run->arrivals;
    const struct lull_engine_statistics *statistics = lull_engine_statistics(step->engine);
    struct oracle_view view = {
        .from_ns = step->now_ns,
        .arrived = step->arrived,
        .open = statistics->running + statistics->waiting,
        .quiet_ns = step->now_ns,
        .now_ns = step->now_ns + fastest_step_ns(play, step->cost),
    };
    size_t next = step->arrived;

    play->left_s = INFINITY;
    play->bound_count = 0;
    play->bound_at = 0;
    if (lull_engine_copy(play->ahead, step->engine) < 0)
        play->result = -ENOMEM;
    oracle_end_ahead(play, &view);
    while ((view.open > 0 || view.now_ns < view.from_ns + ahead_min_ns) &&
           view.now_ns < view.from_ns + ahead_max_ns && play->result == 0) {
        next = oracle_submit_ahead(play, next, &view);
        if (oracle_step_ahead(play, &view))
            continue;
        if (next == arrivals->count)
            break;
        view.now_ns = arrivals->items[next].time_ns;
        view.quiet_ns = view.now_ns;
    }
    if (play->bound_count > 0)
        qsort(play->bounds, play->bound_count, sizeof(play->bounds[0]), oracle_compare_bounds);
    play->valid_ns = step->now_ns + (view.now_ns - step->now_ns) / 2;
}

/* ---- choosing ----------------------------------------------------------------------------- */

static bool oracle_is_full_time(struct oracle_play *play, int64_t now_ns)
{
    while (play->full_at < play->full_count && play->full[play->full_at].until_ns < now_ns)
        play->full_at++;
    return play->full_at < play->full_count && play->full[play->full_at].from_ns <= now_ns;
}

/* Heeds the bounds that have begun by now. */
static void oracle_begin_bounds(struct oracle_play *play, int64_t now_ns)
{
    for (; play->bound_at < play->bound_count && play->bounds[play->bound_at].begin_ns <= now_ns;
         play->bound_at++) {
        const struct oracle_bound *bound = &play->bounds[play->bound_at];

        if (bound->left_s >= play->left_s)
            continue;
        play->left_s = bound->left_s;
        play->critical_ns = bound->end_ns;
    }
}

/* Returns whether full clocks must hold for a step that would lose so much time. */
static bool oracle_needs_full(struct oracle_play *play, const struct lull_serving_step *step,
                              double loss_s)
{
    if (oracle_is_full_time(play, step->now_ns) || step->now_ns < play->full_ns)
        return true;
    if (!play->looks_ahead)
        return false;
    oracle_begin_bounds(play, step->now_ns);
    if (loss_s > play->left_s || step->now_ns >= play->valid_ns)
        oracle_look_ahead(play, step);
    if (least_steps * loss_s <= play->left_s)
        return false;
    play->full_ns = play->critical_ns;
    play->valid_ns = play->critical_ns;
    return true;
}

/* The clock in force, unless the board's limit is reached at a lower one. */
static const struct lull_device_clock *oracle_find_clock(const struct oracle_play *play,
                                                         uint32_t requested,
                                                         const struct lull_device_clock *fastest)
{
    const struct lull_device_clock *clock = play->base[requested];

    return clock > fastest ? clock : fastest; /* the highest clock comes first */
}

/* Returns the clock of a step. */
static double oracle_choose(void *context, const struct lull_serving_step *step)
{
    struct oracle_play *play = context;
    const struct lull_device_clock *fastest = oracle_find_fastest(play, step->cost);
    const double fastest_s = kernels_s(fastest, step->cost);
    const uint32_t kind = step->batch->prefill_tokens > 0 ? WITH_PROMPTS : DECODE_ONLY;
    const struct lull_device_clock *clock = oracle_find_clock(play, kind, fastest);

    if (oracle_needs_full(play, step, kernels_s(clock, step->cost) - fastest_s))
        oracle_request(play, FULL, step->now_ns);
    else
        oracle_request(play, kind, step->now_ns);
    clock = oracle_find_clock(play, play->requested, fastest);
    play->left_s -= kernels_s(clock, step->cost) - fastest_s;
    return clock->mhz;
}

/* ---- runs --------------------------------------------------------------------------------- */

static int oracle_compare_times(const void *a, const void *b)
{
    const struct full_time *x = a;
    const struct full_time *y = b;

    return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* Joins times that overlap; they are in the order of their begin. */
static void oracle_join_times(struct oracle_play *play)
{
    size_t kept = 0;

    for (size_t i = 1; i < play->full_count; i++) {
        if (play->full[i].from_ns <= play->full[kept].until_ns)
            play->full[kept].until_ns =
                lull_later_ns(play->full[kept].until_ns, play->full[i].until_ns);
        else
            play->full[++kept] = play->full[i];
    }
    if (play->full_count > 0)
        play->full_count = kept + 1;
}

static bool is_added_miss(const struct lull_serving_request *request,
                          const struct lull_serving_request *known)
{
    return request->fate == LULL_SERVING_DONE && request->is_missed &&
           known->fate == LULL_SERVING_DONE && !known->is_missed;
}

/* Keeps full clocks over the life of requests that were missed and need not have been. Returns
 * their number, or -ENOMEM. */
static int64_t oracle_add_full_times(struct oracle_play *play,
                                     const struct lull_serving_outcome *outcome, double before_s)
{
    const struct lull_server_arrivals *arrivals = play->run->arrivals;
    int64_t added = 0;

    for (size_t i = 0; i < arrivals->count; i++) {
        const struct lull_serving_request *request = &outcome->requests[i];
        double life_s;

        if (!is_added_miss(request, &play->reference->requests[i]))
            continue;
        life_s = request->ttft_s;
        if (!isnan(request->tpot_s))
            life_s += request->tpot_s * (arrivals->items[i].output_tokens - 1);
        if (lull_array_grow(&play->full, play->full_count, sizeof(play->full[0])) < 0)
            return -ENOMEM;
        play->full[play->full_count++] = (struct full_time){
            .from_ns = arrivals->items[i].time_ns - (int64_t)(before_s * 1e9),
            .until_ns = arrivals->items[i].time_ns + (int64_t)(life_s * 1e9),
        };
        added++;
    }
    if (play->full_count > 0)
        qsort(play->full, play->full_count, sizeof(play->full[0]), oracle_compare_times);
    oracle_join_times(play);
    return added;
}

static int oracle_run_once(struct oracle_play *play, double rival_j,
                           struct lull_serving_outcome *outcome_out, struct lull_error *err)
{
    const struct lull_serving_bar bar = {.most_missed = UINT64_MAX, .energy_j = rival_j};
    struct lull_serving_run run = *play->run;
    int result;

    run.policy = LULL_SERVING_BY_STEP;
    run.bar = &bar;
    run.no_quantiles = true;
    run.choose = oracle_choose;
    run.choose_context = play;
    play->left_s = INFINITY;
    play->bound_count = 0;
    play->bound_at = 0;
    play->valid_ns = 0;
    play->full_ns = 0;
    play->full_at = 0;
    play->requested = FULL;
    play->changed_ns = -play->change_ns;
    result = lull_serving_simulate(&run, outcome_out, err);
    if (result == 0 && play->result < 0) {
        free(outcome_out->requests);
        return lull_error_set(err, play->result, "oracle: no memory");
    }
    return result;
}

/* Returns whether the base clocks are the highest one, so that full clocks change nothing. */
static bool is_always_full(const struct oracle_play *play)
{
    return play->base[WITH_PROMPTS] == play->base[FULL] &&
           play->base[DECODE_ONLY] == play->base[FULL];
}

/* Runs at the base clocks, and again with more full clocks while requests are missed. Gives up when
 * that cannot be better than the rival any more, or so many are missed that looks ahead are better.
 */
static int oracle_run_repaired(struct oracle_play *play, double rival_j,
                               struct lull_serving_outcome *outcome_out, uint64_t *added_out,
                               struct lull_error *err)
{
    const uint32_t repairs = is_always_full(play) && !play->looks_ahead ? 0 : REPAIRS;
    double before_s = 1.0;
    int64_t added = 1;

    play->full_count = 0;
    free(play->full);
    play->full = NULL;
    for (uint32_t repair = 0; added > 0 && repair <= repairs; repair++) {
        int result;

        if (repair > 0 && outcome_out->energy_j >= rival_j)
            break;
        if (repair > 0)
            free(outcome_out->requests);
        result = oracle_run_once(play, rival_j, outcome_out, err);
        if (result < 0)
            return result;
        if (outcome_out->is_given_up) {
            *added_out = UINT64_MAX;
            return 0;
        }
        if (repair == 0)
            play->base_j = outcome_out->energy_j;
        added = oracle_add_full_times(play, outcome_out, before_s);
        before_s *= 4.0;
        if (!play->looks_ahead && (double)added > many_missed_ratio * (double)outcome_out->done)
            break;
    }
    if (added < 0) {
        free(outcome_out->requests);
        return lull_error_set(err, -ENOMEM, "oracle: no memory");
    }
    *added_out = (uint64_t)added;
    return 0;
}

/* Returns whether an outcome is better: without added misses first, then of less energy. */
static bool oracle_is_better(const struct lull_serving_outcome *outcome, uint64_t added,
                             const struct lull_serving_outcome *than, uint64_t than_added)
{
    return added < than_added || (added == than_added && outcome->energy_j < than->energy_j);
}

/* Runs at the base clocks: without looks ahead, which is best where few requests are in danger,
 * and with them if requests had to be given full clocks. Keeps the better one. Full clocks cost
 * energy: if the base clocks alone need as much as the rival, the latter is not tried. */
static int oracle_run(struct oracle_play *play, double rival_j,
                      struct lull_serving_outcome *outcome_out, uint64_t *added_out,
                      struct lull_error *err)
{
    struct lull_serving_outcome careful;
    uint64_t careful_added;
    int result;

    play->looks_ahead = false;
    result = oracle_run_repaired(play, rival_j, outcome_out, added_out, err);
    if (result < 0 || play->full_count == 0 || play->base_j >= rival_j)
        return result;
    if (*added_out == 0)
        rival_j = fmin(rival_j, outcome_out->energy_j);
    play->looks_ahead = true;
    result = oracle_run_repaired(play, rival_j, &careful, &careful_added, err);
    if (result < 0) {
        free(outcome_out->requests);
        return result;
    }
    if (!oracle_is_better(&careful, careful_added, outcome_out, *added_out)) {
        free(careful.requests);
        return 0;
    }
    free(outcome_out->requests);
    *outcome_out = careful;
    *added_out = careful_added;
    return 0;
}

/* ---- the search for base clocks ----------------------------------------------------------- */

/* Base clocks by step kind in levels below the highest one, and the best outcome so far. */
struct oracle_search {
    struct oracle_play *play;
    bool is_known[LEVELS + 1][LEVELS + 1];
    int32_t levels[STEP_KINDS]; /* of the best */
    struct lull_serving_outcome best;
    struct lull_serving_oracle of;
};

static const struct lull_device_clock *level_clock(const struct oracle_play *play, int32_t level)
{
    return &play->clocks[(uint32_t)level * (play->clock_count - 1) / LEVELS];
}

/* Tries two base clocks, unless they are known. */
static int search_try(struct oracle_search *search, const int32_t levels[STEP_KINDS],
                      struct lull_error *err)
{
    struct oracle_play *play = search->play;
    double rival_j = INFINITY;
    struct lull_serving_outcome outcome;
    uint64_t added;
    int result;

    for (int kind = 0; kind < STEP_KINDS; kind++) {
        if (levels[kind] < 0 || levels[kind] > LEVELS)
            return 0;
        play->base[kind] = level_clock(play, levels[kind]);
    }
    if (search->is_known[levels[0]][levels[1]])
        return 0;
    search->is_known[levels[0]][levels[1]] = true;
    if (search->best.requests != NULL && search->of.added == 0)
        rival_j = search->best.energy_j;
    result = oracle_run(play, rival_j, &outcome, &added, err);
    if (result < 0)
        return result;
    if (search->best.requests != NULL &&
        !oracle_is_better(&outcome, added, &search->best, search->of.added)) {
        free(outcome.requests);
        return 0;
    }
    free(search->best.requests);
    search->best = outcome;
    search->of = (struct lull_serving_oracle){.prefill_mhz = play->base[WITH_PROMPTS]->mhz,
                                              .decode_mhz = play->base[DECODE_ONLY]->mhz,
                                              .added = added};
    memcpy(search->levels, levels, sizeof(search->levels));
    return 0;
}

/* Tries the neighbours of the best at a distance; *has_moved_out: one is better. */
static int search_around(struct oracle_search *search, int32_t way, bool *has_moved_out,
                         struct lull_error *err)
{
    static const int32_t moves[][STEP_KINDS] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}};
    int32_t middle[STEP_KINDS];
    int result = 0;

    memcpy(middle, search->levels, sizeof(middle));
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]) && result == 0; i++) {
        const int32_t levels[STEP_KINDS] = {middle[0] + way * moves[i][0],
                                            middle[1] + way * moves[i][1]};

        result = search_try(search, levels, err);
    }
    *has_moved_out = memcmp(middle, search->levels, sizeof(middle)) != 0;
    return result;
}

/* Finds out what full clocks are: the highest clock within the power limit, unless requests are
 * missed then, because the board lets short steps exceed its limit; else the highest clock. */
static int oracle_choose_full(struct oracle_search *search, struct lull_error *err)
{
    const int32_t highest[STEP_KINDS] = {0, 0};
    int result = search_try(search, highest, err);

    if (result < 0 || search->of.added == 0)
        return result;
    free(search->best.requests);
    search->best.requests = NULL;
    search->is_known[0][0] = false;
    search->play->limit_w = INFINITY;
    return search_try(search, highest, err);
}

/* The level whose base clock is the closest one to a clock. */
static int32_t search_find_level(const struct oracle_play *play, double mhz)
{
    int32_t level = 0;

    for (int32_t other = 1; other <= LEVELS; other++)
        if (fabs(level_clock(play, other)->mhz - mhz) < fabs(level_clock(play, level)->mhz - mhz))
            level = other;
    return level;
}

/* Searches from the middle of the range with wide steps, or close to the base clocks of another
 * oracle. */
static int oracle_search_bases(struct oracle_search *search, const struct lull_serving_oracle *near,
                               struct lull_error *err)
{
    int32_t begin[STEP_KINDS] = {[WITH_PROMPTS] = LEVELS / 2, [DECODE_ONLY] = LEVELS * 2 / 3};
    int result = oracle_choose_full(search, err);

    if (near != NULL) {
        begin[WITH_PROMPTS] = search_find_level(search->play, near->prefill_mhz);
        begin[DECODE_ONLY] = search_find_level(search->play, near->decode_mhz);
    }
    if (result == 0)
        result = search_try(search, begin, err);
    for (int32_t way = near != NULL ? 1 : FIRST_WAY; way > 0 && result == 0;) {
        bool has_moved;

        result = search_around(search, way, &has_moved, err);
        if (!has_moved)
            way /= WAY_RATIO;
    }
    return result;
}

static int oracle_prepare(struct oracle_play *play, struct lull_error *err)
{
    const struct lull_serving_pool *pool = &play->run->pools[0];
    const struct lull_gpu_model *model = pool->setup.gpu;
    const struct lull_device_curve *curve =
        lull_device_curve_find(model->name, strlen(model->name));
    const struct lull_engine_config config = {
        .max_sequences = pool->max_sequences,
        .max_batched_tokens = pool->max_batched_tokens,
        .cache_tokens = lull_step_cache_tokens(&pool->setup),
        .ends_only = true,
        .no_histograms = true,
    };

    assert(curve != NULL); /* both tables are generated from one file */
    play->clock_count = lull_device_clocks(curve, play->clocks);
    play->base[FULL] = &play->clocks[0];
    play->limit_w = model->limit_default_w * model->limit_settle_ratio;
    play->begins_ns = calloc(play->run->arrivals->count + 1, sizeof(play->begins_ns[0]));
    play->ahead = lull_engine_create(&config);
    play->costs = lull_step_memo_create(&pool->setup, pool->max_batched_tokens);
    if (play->ahead == NULL || play->costs == NULL || play->begins_ns == NULL)
        return lull_error_set(err, -ENOMEM, "oracle: no memory");
    return 0;
}

int64_t lull_serving_change_ns(const struct lull_serving_pool *pool)
{
    const struct lull_gpu_model *model = pool->setup.gpu;

    return (int64_t)((pool->setup.gpus * model->api_ms + model->settle_ms) * 1e6);
}

int lull_serving_ask_oracle(const struct lull_serving_run *run,
                            const struct lull_serving_outcome *reference, int64_t change_ns,
                            const struct lull_serving_oracle *near,
                            struct lull_serving_outcome *outcome_out,
                            struct lull_serving_oracle *oracle_out, struct lull_error *err)
{
    struct oracle_play play = {.run = run, .reference = reference, .change_ns = change_ns};
    struct oracle_search search = {.play = &play};
    int result;

    assert(run->pool_count == 1);
    result = oracle_prepare(&play, err);
    if (result == 0)
        result = oracle_search_bases(&search, near, err);
    if (result == 0)
        result = lull_serving_find_quantiles(&search.best, run->arrivals->count, err);
    lull_engine_destroy(play.ahead);
    lull_step_memo_destroy(play.costs);
    free(play.full);
    free(play.bounds);
    free(play.begins_ns);
    if (result < 0) {
        free(search.best.requests);
        return result;
    }
    *outcome_out = search.best;
    *oracle_out = search.of;
    return 0;
}
