/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/clock.h"
#include "core/serving/controller_state.h"

/* Share of the objective's misses that lower clocks may cause in the long run: of 1 in 100 one in
 * 1000 with p99. Default: a fifth of what is promised, so that the promise can be proven. */
static const double earned_share = 0.2;
/* Misses that may happen at once before the clock is raised for longer. Default: one burst may cost
 * a few. */
static const double saved_misses = 4.0;
/* Time over which the clock of a time to first token is averaged. Default: most are shorter. */
static const double first_token_span_s = 0.3;
/* A histogram that is still missing after requests have run for so long is absent. Default: some
 * servers publish a histogram with its first value. */
static const int64_t absent_ns = 5 * LULL_NS_PER_S;
/* Computation that took less longer than this is not slow. */
static const double least_slowness = 1.01;
/* Steps that a first token takes beyond its prompt. Default: the step that runs when a request
 * arrives, and the one that ends its prompt. */
static const double queue_steps = 2.0;
/* Share of the time for the pending requests by which a request that arrives now may be late.
 * Default: they are half done on average, and each one's own loss is counted from its arrival. */
static const double queue_share = 0.5;
/* Lives of a request after which a lower clock is no longer blamed for its time per token. */
static const double blamed_lives = 2.0;

void lull_serving_judge_init(struct lull_serving_controller *controller)
{
    const struct lull_objective *const objective = &controller->config.objective;

    controller->ttft = (struct lull_serving_latency){.bound_s = objective->ttft_s};
    controller->tpot = (struct lull_serving_latency){.bound_s = objective->tpot_s};
    controller->slowness = 1.0;
    lull_latency_tail_init(&controller->ttft.tail);
    lull_latency_tail_init(&controller->tpot.tail);
    lull_allowance_init(&controller->allowance, earned_share * (1.0 - objective->share),
                        saved_misses, saved_misses / 2.0);
}

/* The latencies that are judged by the bound of TPOT. A server may have those of tokens only; then
 * tokens count in place of requests, unless requests are counted by their first tokens. */
static const struct lull_serving_histogram *
judge_tokens(const struct lull_serving_controller *controller,
             const struct lull_serving_reading *reading)
{
    const bool has_requests = reading->tpot.count > 0 || isfinite(controller->ttft.bound_s);

    return has_requests ? &reading->tpot : &reading->itl;
}

/* The latencies between two readings that are at most the bound of a bucket. */
static double judge_growth(const struct lull_serving_histogram *before,
                           const struct lull_serving_histogram *now, int bucket)
{
    return bucket < 0 ? 0.0 : fmax(now->total[bucket] - before->total[bucket], 0.0);
}

static bool judge_is_comparable(const struct lull_serving_histogram *before,
                                const struct lull_serving_histogram *now)
{
    return now->count > 0 && now->count <= LULL_SERVING_BUCKETS && before->count == now->count;
}

int lull_serving_bucket_within(const struct lull_serving_histogram *histogram, double time_s)
{
    int bucket = -1;

    while (bucket + 1 < (int)histogram->count && histogram->bound_s[bucket + 1] <= time_s * 1.0001)
        bucket++;
    return bucket;
}

/* Counts the misses of one latency. is_slow: lower clocks were in force within the life of requests
 * that end now. */
static struct lull_serving_misses judge_count(struct lull_serving_latency *latency,
                                              const struct lull_serving_histogram *before,
                                              const struct lull_serving_histogram *now,
                                              bool is_slow)
{
    struct lull_serving_misses misses = {0};
    const int last = (int)now->count - 1;
    int met;
    int hopeless; /* what lies above its bound would have missed at the highest clock as well */

    latency->has_histogram = judge_is_comparable(before, now);
    if (!latency->has_histogram || !isfinite(latency->bound_s))
        return misses;
    misses.requests = judge_growth(before, now, last);
    met = lull_serving_bucket_within(now, latency->bound_s);
    misses.missed = misses.requests - judge_growth(before, now, met);
    if (now->is_upper) {
        /* The true latency may be anywhere below. */
        misses.blamed = is_slow ? misses.missed : 0.0;
        return misses;
    }
    if (latency->slack_s <= 0.0 || misses.missed <= 0.0)
        return misses;
    hopeless = lull_serving_bucket_within(now, latency->bound_s + latency->slack_s);
    if (hopeless < last &&
        now->bound_s[hopeless < 0 ? 0 : hopeless] < latency->bound_s + latency->slack_s)
        hopeless++;
    misses.blamed = judge_growth(before, now, hopeless) - judge_growth(before, now, met);
    return misses;
}

/* The time that low clocks cost within the last seconds. */
static double judge_lost_s(const struct lull_serving_lost *lost, int64_t now_ns, double seconds)
{
    const int64_t since_ns = now_ns - (int64_t)(fmin(seconds, 1e6) * 1e9);
    double lost_s = lost->now_s;

    for (uint64_t i = lost->count; i > 0 && i + LULL_SERVING_LOST_KEPT > lost->count; i--) {
        const uint64_t at = (i - 1) % LULL_SERVING_LOST_KEPT;

        lost_s = lost->kept[at].lost_s;
        if (lost->kept[at].time_ns <= since_ns)
            break;
    }
    return lost->now_s - lost_s;
}

/* The least and the most that latencies of one bucket can be. Few of them are known better from the
 * sum of all: the slowest one is what the others leave of it. */
struct judge_range {
    double low_s;
    double high_s;
};

static struct judge_range judge_narrow(const struct lull_serving_histogram *before,
                                       const struct lull_serving_histogram *now, int bucket)
{
    const double count = judge_growth(before, now, bucket) - judge_growth(before, now, bucket - 1);
    const double all = judge_growth(before, now, (int)now->count - 1);
    const double sum_s = now->sum_s - before->sum_s;
    struct judge_range range = {bucket > 0 ? now->bound_s[bucket - 1] : 0.0, now->bound_s[bucket]};
    double least_s = 0.0; /* of the faster ones */
    double most_s = 0.0;

    if (!(sum_s > 0.0) || judge_growth(before, now, bucket) < all)
        return range;
    for (int i = 0; i < bucket; i++) {
        const double others = judge_growth(before, now, i) - judge_growth(before, now, i - 1);

        least_s += i > 0 ? others * now->bound_s[i - 1] : 0.0;
        most_s += others * now->bound_s[i];
    }
    range.low_s = fmin(fmax(range.low_s, (sum_s - most_s) / count), range.high_s);
    range.high_s = fmax(fmin(range.high_s, (sum_s - least_s) / count), range.low_s);
    return range;
}

/* What a latency would have been at the highest clock. life_s: 0: it has just passed; else it is
 * the mean of parts of such a life. */
static double judge_at_highest(const struct lull_serving_lost *lost, int64_t now_ns,
                               double latency_s, double life_s)
{
    if (!isfinite(latency_s))
        return latency_s;
    if (life_s > 0.0)
        return latency_s * fmax(1.0 - judge_lost_s(lost, now_ns, life_s) / life_s, 0.0);
    return fmax(latency_s - judge_lost_s(lost, now_ns, latency_s), 0.0);
}

/* The number of misses between two readings that the highest clock would have avoided, as far as
 * the model knows. */
static double judge_caused(const struct lull_serving_latency *latency,
                           const struct lull_serving_histogram *before,
                           const struct lull_serving_histogram *now,
                           const struct lull_serving_lost *lost, int64_t now_ns, double life_s)
{
    const double bound_s = latency->bound_s;
    double caused = 0.0;

    if (!judge_is_comparable(before, now) || !isfinite(bound_s) || latency->slack_s <= 0.0)
        return 0.0;
    for (int i = 0; i < (int)now->count; i++) {
        const double count = judge_growth(before, now, i) - judge_growth(before, now, i - 1);
        struct judge_range range;
        double least_s;
        double most_s;
        double missed = 1.0;

        if (count <= 0.0 || now->bound_s[i] <= bound_s)
            continue;
        range = judge_narrow(before, now, i);
        range.high_s = fmin(range.high_s, bound_s + 2.0 * latency->slack_s);
        if (range.low_s < bound_s)
            missed = fmax(range.high_s - bound_s, 0.0) / (range.high_s - range.low_s);
        range.low_s = fmax(range.low_s, bound_s);
        least_s = judge_at_highest(lost, now_ns, range.low_s, life_s);
        most_s = judge_at_highest(lost, now_ns, fmax(range.high_s, range.low_s), life_s);
        if (least_s < bound_s && most_s > bound_s)
            missed *= (bound_s - least_s) / (most_s - least_s);
        if (least_s < bound_s)
            caused += missed * count;
    }
    return caused;
}

/* Adds the latencies between two readings to the tail, less what low clocks have added. */
static void judge_learn(struct lull_serving_latency *latency,
                        const struct lull_serving_histogram *before,
                        const struct lull_serving_histogram *now,
                        const struct lull_serving_lost *lost, int64_t now_ns, double life_s)
{
    if (!judge_is_comparable(before, now) || latency->predicted_s <= 0.0)
        return;
    for (int i = 0; i < (int)now->count; i++) {
        const double count = judge_growth(before, now, i) - judge_growth(before, now, i - 1);
        struct judge_range range;

        if (count <= 0.0)
            continue;
        range = judge_narrow(before, now, i);
        range.low_s = judge_at_highest(lost, now_ns, range.low_s, life_s);
        range.high_s = judge_at_highest(lost, now_ns, range.high_s, life_s);
        range.high_s = fmax(range.high_s, range.low_s);
        lull_latency_tail_add(&latency->tail, range.low_s / latency->predicted_s,
                              range.high_s / latency->predicted_s, count);
    }
}

/* How much longer lower clocks may have made latencies that end now. A first token: no more than
 * the work that low clocks have left undone since no request was pending. A token: no more than by
 * the ratio of clocks. */
static void judge_slack(struct lull_serving_controller *controller, double pending_before)
{
    const double seconds = controller->load.change.seconds;
    const double slowness = controller->in_force.compute;
    const double lives_s = blamed_lives * fmax(controller->load.life_s, first_token_span_s);
    const double ratio =
        fmax(slowness + (controller->slowness - slowness) * exp(-seconds / lives_s), slowness);

    controller->slowness = ratio;
    if (pending_before <= 0.0)
        controller->ttft.slack_s = 0.0;
    controller->ttft.slack_s += seconds * (1.0 - 1.0 / slowness);
    controller->tpot.slack_s = 0.0;
    if (ratio > least_slowness && isfinite(controller->tpot.bound_s))
        controller->tpot.slack_s = controller->tpot.bound_s * (ratio - 1.0);
}

double lull_serving_queue_s(const struct lull_serving_controller *controller,
                            const struct lull_server_outlook *highest)
{
    const struct lull_server_load *const load = &controller->load;

    return (load->pending + sqrt(load->pending)) * load->prompt_tokens * highest->prefill_s +
           queue_steps * highest->step_s;
}

double lull_serving_pending_lost_s(const struct lull_serving_controller *controller)
{
    const struct lull_serving_lost *const lost = &controller->lost;
    const double earlier = lost->arrived - controller->load.pending;
    double caught_up_s = lost->caught_up_s;

    for (uint64_t i = lost->count; i > 0 && i + LULL_SERVING_LOST_KEPT > lost->count; i--) {
        const uint64_t at = (i - 1) % LULL_SERVING_LOST_KEPT;

        caught_up_s = lost->kept[at].caught_up_s;
        if (lost->kept[at].arrived <= earlier)
            break;
    }
    return lost->now_s - caught_up_s;
}

/* Adds the time that the present clock costs a request that is served. A request that arrives now
 * waits longer by that time, but no longer than the queue before it takes. */
static void judge_lose(struct lull_serving_controller *controller,
                       const struct lull_server_outlook *highest)
{
    struct lull_serving_lost *const lost = &controller->lost;
    const uint64_t at = lost->count++ % LULL_SERVING_LOST_KEPT;
    const double slowness =
        fmax(controller->outlook.first_token_s / fmax(highest->first_token_s, 1e-9), 1.0);

    lost->now_s += controller->load.change.seconds * (1.0 - 1.0 / slowness);
    lost->arrived += controller->load.change.arrived;
    lost->caught_up_s = fmax(lost->caught_up_s,
                             lost->now_s - queue_share * lull_serving_queue_s(controller, highest));
    if (controller->load.pending <= 0.0)
        lost->caught_up_s = lost->now_s;
    lost->kept[at].caught_up_s = lost->caught_up_s;
    lost->kept[at].arrived = lost->arrived;
    lost->kept[at].time_ns = controller->load.last.time_ns;
    lost->kept[at].lost_s = lost->now_s;
}

/* The TPOT of a reading for the model: upper bounds would keep clocks higher than needed. */
static const struct lull_serving_histogram *
judge_likely_tpot(const struct lull_serving_controller *controller,
                  const struct lull_serving_reading *reading)
{
    if (reading->likely_tpot.count > 0)
        return &reading->likely_tpot;
    return judge_tokens(controller, reading);
}

/* Notes since when requests run without the histogram of a latency. */
static void judge_watch_absence(struct lull_serving_latency *latency,
                                const struct lull_serving_reading *now)
{
    if (latency->has_histogram || !isfinite(latency->bound_s))
        latency->absent_ns = 0;
    else if (latency->absent_ns == 0 && now->running > 0.0)
        latency->absent_ns = now->time_ns;
}

static bool judge_is_absent(const struct lull_serving_latency *latency, int64_t now_ns)
{
    return latency->absent_ns != 0 && now_ns - latency->absent_ns >= absent_ns;
}

bool lull_serving_is_judged(const struct lull_serving_controller *controller)
{
    const struct lull_serving_latency *const ttft = &controller->ttft;
    const struct lull_serving_latency *const tpot = &controller->tpot;

    return (ttft->has_histogram || !isfinite(ttft->bound_s)) &&
           (tpot->has_histogram || !isfinite(tpot->bound_s));
}

const char *lull_serving_find_unjudged(const struct lull_serving_controller *controller)
{
    const int64_t now_ns = controller->load.last.time_ns;

    if (judge_is_absent(&controller->ttft, now_ns))
        return "The server publishes no histogram of TTFT, so misses of its bound cannot be "
               "counted: the clock stays the highest while requests run.";
    if (judge_is_absent(&controller->tpot, now_ns))
        return "The server publishes no histogram of TPOT, so misses of its bound cannot be "
               "counted: the clock stays the highest while requests run.";
    return NULL;
}

static void judge_spend(struct lull_serving_controller *controller, double requests, double caused)
{
    lull_allowance_earn(&controller->allowance, requests);
    controller->blamed_part += caused;
    while (controller->blamed_part >= 1.0) {
        lull_allowance_spend(&controller->allowance);
        controller->blamed_part -= 1.0;
    }
}

void lull_serving_judge(struct lull_serving_controller *controller,
                        const struct lull_serving_reading *before)
{
    const struct lull_serving_reading *const now = &controller->load.last;
    const struct lull_serving_histogram *const tokens_before = judge_tokens(controller, before);
    const struct lull_serving_histogram *const tokens_now = judge_tokens(controller, now);
    struct lull_serving_misses first;
    struct lull_serving_misses token;
    double requests;
    const double life_s = fmax(controller->load.life_s, first_token_span_s);
    const double first_s = now->ttft.is_upper ? life_s : 0.0;
    const struct lull_serving_histogram *const likely_before =
        judge_likely_tpot(controller, before);
    const struct lull_serving_histogram *const likely_now = judge_likely_tpot(controller, now);
    double caused;
    bool is_slow;
    struct lull_server_outlook highest;

    judge_slack(controller,
                before->waiting + before->running > 0.0 ? controller->load.pending : 0.0);
    is_slow = controller->slowness > least_slowness;
    first = judge_count(&controller->ttft, &before->ttft, &now->ttft, is_slow);
    token = judge_count(&controller->tpot, tokens_before, tokens_now, is_slow);
    judge_watch_absence(&controller->ttft, now);
    judge_watch_absence(&controller->tpot, now);
    requests = isfinite(controller->ttft.bound_s) ? first.requests : token.requests;
    controller->misses.requests += requests;
    controller->misses.missed += first.missed + token.missed;
    controller->misses.blamed += first.blamed + token.blamed;
    lull_miss_bound_add(&controller->bound, requests, first.blamed + token.blamed);
    caused = judge_caused(&controller->ttft, &before->ttft, &now->ttft, &controller->lost,
                          now->time_ns, first_s) +
             judge_caused(&controller->tpot, likely_before, likely_now, &controller->lost,
                          now->time_ns, life_s);
    judge_spend(controller, requests, caused);
    if (controller->model.windows < 1.0)
        return;
    highest =
        lull_server_model_predict(&controller->model, &controller->clocks[0], &controller->demand);
    judge_lose(controller, &highest);
    controller->ttft.predicted_s = highest.first_token_s;
    controller->tpot.predicted_s = highest.decode_s;
    judge_learn(&controller->ttft, &before->ttft, &now->ttft, &controller->lost, now->time_ns,
                first_s);
    judge_learn(&controller->tpot, likely_before, likely_now, &controller->lost, now->time_ns,
                life_s);
}
