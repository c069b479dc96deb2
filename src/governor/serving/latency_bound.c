/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/latency_bound.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* The bounds of the histograms, s: those of vLLM, and more where objectives lie. */
static const double tpot_bounds_s[] = {0.005, 0.01,  0.015, 0.02,  0.025, 0.03, 0.04, 0.05,
                                       0.06,  0.075, 0.1,   0.125, 0.15,  0.2,  0.25, 0.3,
                                       0.4,   0.5,   0.75,  1.0,   2.5,   5.0,  10.0, INFINITY};
static const double ttft_bounds_s[] = {0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.15,    0.2, 0.25,
                                       0.3,  0.4,  0.5,  0.75, 1.0,  1.5,  2.0,     2.5, 3.0,
                                       4.0,  5.0,  7.5,  10.0, 20.0, 40.0, INFINITY};

/* Of more requests that end between two pages, all count as missed. */
enum { MOST_ENDS = 64 };

/* Counts above this are no counts. */
static const double most_count = 1e15;

/* Tokens of a short answer, whose TPOT differs most from the mean. Default: in virtual time the
 * controller adds as few misses with it as with a histogram of TPOT; with 20 tokens twice as many.
 */
static const double short_answer = 5.0;

/* Sums are rounded. */
static const double margin = 1e-6;

enum { TOKENS, ENDS };

/* ---- growth -------------------------------------------------------------------------------- */

static double growth_up_to(const struct lull_serving_histogram *before,
                           const struct lull_serving_histogram *now, int bucket)
{
    if (bucket < 0)
        return 0.0;
    return fmin(fmax(now->total[bucket] - before->total[bucket], 0.0), most_count);
}

static double growth_of(const struct lull_serving_histogram *before,
                        const struct lull_serving_histogram *now)
{
    return growth_up_to(before, now, (int)now->count - 1);
}

/* Returns whether a histogram continues the one before. */
static bool is_continued(const struct lull_serving_histogram *before,
                         const struct lull_serving_histogram *now)
{
    if (before->count != now->count)
        return false;
    for (uint32_t i = 0; i < now->count; i++)
        if (before->bound_s[i] != now->bound_s[i] || now->total[i] < before->total[i])
            return false;
    return true;
}

static bool page_continues(const struct lull_request_times *before,
                           const struct lull_request_times *now)
{
    return !(now->finished < before->finished) && is_continued(&before->between, &now->between) &&
           is_continued(&before->decode, &now->decode) &&
           is_continued(&before->answer, &now->answer) &&
           is_continued(&before->queue, &now->queue) &&
           is_continued(&before->prefill, &now->prefill);
}

/* ---- the values of requests that ended ----------------------------------------------------- */

/* Values in rising order, each known to lie between two bounds. */
struct values {
    uint32_t count;
    double sum;
    double low[MOST_ENDS];
    double high[MOST_ENDS];
};

static double sum_without(const double *values, uint32_t count, uint32_t left_out)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < count; i++)
        sum += i != left_out ? values[i] : 0.0;
    return sum;
}

/* Narrows each value by the sum of all: it is what the others leave. */
static void values_narrow(struct values *values)
{
    double low[MOST_ENDS];
    double high[MOST_ENDS];

    for (uint32_t i = 0; i < values->count; i++) {
        low[i] = values->sum - sum_without(values->high, values->count, i) - margin;
        high[i] = values->sum - sum_without(values->low, values->count, i) + margin;
    }
    for (uint32_t i = 0; i < values->count; i++) {
        values->low[i] = fmax(values->low[i], low[i]);
        values->high[i] = fmax(fmin(values->high[i], high[i]), values->low[i]);
    }
}

/* Finds the values between two pages. False: they are too many. */
static bool values_find(const struct lull_serving_histogram *before,
                        const struct lull_serving_histogram *now, struct values *values)
{
    values->count = 0;
    values->sum = now->sum_s - before->sum_s;
    if (growth_of(before, now) > MOST_ENDS)
        return false;
    for (int i = 0; i < (int)now->count; i++) {
        const double inside = growth_up_to(before, now, i) - growth_up_to(before, now, i - 1);

        for (double n = 0.5; n < inside && values->count < MOST_ENDS; n += 1.0) {
            values->low[values->count] = i > 0 ? now->bound_s[i - 1] : 0.0;
            values->high[values->count++] = now->bound_s[i];
        }
    }
    if (values->sum > 0.0)
        values_narrow(values);
    return true;
}

/* The most requests that can have a time above the bound for each of their tokens. The shortest
 * answer that a time suffices for is paired with it, from the shortest time on. */
static double pair_tokens(const struct values *decode, const struct values *answer, double bound_s)
{
    uint32_t missed = 0;
    double gaps;

    for (uint32_t i = 0; i < decode->count; i++) {
        gaps = fmax(answer->low[missed] - 1.0, 1.0);
        if (decode->high[i] > bound_s * gaps)
            missed++;
    }
    gaps = answer->sum - answer->count;
    if (missed > 0 && missed == decode->count && decode->sum > 0.0 && decode->sum <= bound_s * gaps)
        missed--;
    return missed;
}

/* The most requests whose two times can exceed the bound together. */
static double pair_times(const struct values *first, const struct values *second, double bound_s)
{
    const bool has_sums = first->sum > 0.0 && second->sum > 0.0;
    const double sum_s = first->sum + second->sum + margin;
    uint32_t missed = 0;

    for (uint32_t i = 0; i < first->count; i++)
        if (first->high[i] + second->high[second->count - 1 - missed] > bound_s)
            missed++;
    while (missed > 0 && has_sums && missed * bound_s >= sum_s)
        missed--;
    return missed;
}

typedef double pair_fn(const struct values *a, const struct values *b, double bound_s);

/* Adds the misses of requests that ended. */
static void add_ends(double *above, const double *bounds_s, size_t bounds,
                     const struct lull_serving_histogram *const before[2],
                     const struct lull_serving_histogram *const now[2], pair_fn *pair)
{
    struct values values[2];
    const double ended = fmax(growth_of(before[0], now[0]), growth_of(before[1], now[1]));
    const bool is_known = values_find(before[0], now[0], &values[0]) &&
                          values_find(before[1], now[1], &values[1]) &&
                          values[0].count == values[1].count;

    if (ended <= 0.0)
        return;
    for (size_t i = 0; i + 1 < bounds; i++)
        above[i] += is_known ? pair(&values[0], &values[1], bounds_s[i]) : ended;
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* A slow token makes at most one more request miss, which is counted when a request ends. */
static void add_tokens(struct lull_latency_bound *bound, const double *bounds_s, size_t bounds,
                       const struct lull_request_times *now, double ended)
{
    const struct lull_serving_histogram *const before = &bound->before.between;

    for (size_t i = 0; i + 1 < bounds; i++) {
        const int within = lull_serving_bucket_within(&now->between, bounds_s[i]);
        const double slow =
            growth_of(before, &now->between) - growth_up_to(before, &now->between, within);
        const double owed = fmin(bound->slow_tokens[i] + slow, ended + now->alive);
        const double missed = fmin(owed, ended);

        bound->above[TOKENS][i] += missed;
        bound->slow_tokens[i] = owed - missed;
    }
}

/* ---- estimates ----------------------------------------------------------------------------- */

/* Adds times between tokens, and forgets those of more than so many before. */
static void mean_add(struct lull_token_mean *mean, double sum_s, double count, double most)
{
    const double share = exp(-count / fmax(most, 1.0));

    mean->sum_s = mean->sum_s * share + sum_s;
    mean->count = mean->count * share + count;
}

static double mean_of(const struct lull_token_mean *mean)
{
    return mean->count > 0.0 ? mean->sum_s / mean->count : 0.0;
}

/* Takes the times between tokens. Returns the likely TPOT of the requests that end now, s. */
static double take_tokens(struct lull_latency_bound *bound, const struct lull_request_times *now)
{
    const double tokens = growth_of(&bound->before.between, &now->between);
    const double sum_s = fmax(now->between.sum_s - bound->before.between.sum_s, 0.0);
    double life;

    bound->tokens += tokens;
    life = bound->tokens / fmax(bound->requests, 1.0) * fmax(now->alive, 1.0);
    mean_add(&bound->life, sum_s, tokens, life);
    mean_add(&bound->latest, sum_s, tokens, short_answer * fmax(now->alive, 1.0));
    return fmax(mean_of(&bound->life), mean_of(&bound->latest));
}

/* The mean TPOT of the requests that ended, s. */
static double find_mean_s(const struct lull_request_times *before,
                          const struct lull_request_times *now, double ended)
{
    const double tokens = now->answer.sum_s - before->answer.sum_s - ended;

    return fmax(now->decode.sum_s - before->decode.sum_s, 0.0) / fmax(tokens, 1.0);
}

static void add_likely(struct lull_latency_bound *bound, double tpot_s, double ended)
{
    bound->likely_sum_s += ended * tpot_s;
    for (size_t i = 0; i < sizeof(tpot_bounds_s) / sizeof(tpot_bounds_s[0]); i++)
        bound->likely[i] += tpot_s <= tpot_bounds_s[i] ? ended : 0.0;
}

static void write_likely(const struct lull_latency_bound *bound,
                         struct lull_serving_histogram *likely_out)
{
    *likely_out = (struct lull_serving_histogram){.sum_s = bound->likely_sum_s};
    if (bound->sources == 0)
        return;
    likely_out->count = sizeof(tpot_bounds_s) / sizeof(tpot_bounds_s[0]);
    memcpy(likely_out->bound_s, tpot_bounds_s, sizeof(tpot_bounds_s));
    memcpy(likely_out->total, bound->likely, sizeof(tpot_bounds_s));
}

/* ---- pages --------------------------------------------------------------------------------- */

static void bound_begin(struct lull_latency_bound *bound, uint32_t sources,
                        const struct lull_request_times *page)
{
    *bound = (struct lull_latency_bound){.sources = sources, .before = *page};
    for (size_t i = 0; i < LULL_SERVING_BUCKETS && isfinite(page->alive); i++)
        bound->slow_tokens[i] = page->alive;
}

static void bound_write(const struct lull_latency_bound *bound, const double *bounds_s,
                        size_t bounds, struct lull_serving_histogram *histogram_out)
{
    *histogram_out = (struct lull_serving_histogram){.is_upper = true};
    if (bound->sources == 0)
        return;
    histogram_out->count = (uint32_t)bounds;
    for (size_t i = 0; i < bounds; i++) {
        double above = INFINITY;

        for (int source = TOKENS; source <= ENDS; source++)
            if ((bound->sources & (1U << source)) != 0)
                above = fmin(above, bound->above[source][i]);
        histogram_out->bound_s[i] = bounds_s[i];
        histogram_out->total[i] = fmax(bound->requests - above, 0.0);
    }
}

/* Begins again if the page does not continue the last one. Returns whether that is so. */
static bool bound_follow(struct lull_latency_bound *bound, uint32_t sources,
                         const struct lull_request_times *page)
{
    if (sources == bound->sources && page_continues(&bound->before, page))
        return false;
    bound_begin(bound, sources, page);
    return true;
}

/* Adds what has happened since the last page. */
static void tpot_take(struct lull_latency_bound *bound, const struct lull_request_times *page)
{
    const size_t bounds = sizeof(tpot_bounds_s) / sizeof(tpot_bounds_s[0]);
    const struct lull_request_times *const before = &bound->before;
    const struct lull_serving_histogram *const last[] = {&before->decode, &before->answer};
    const struct lull_serving_histogram *const now[] = {&page->decode, &page->answer};
    double ended = page->finished - before->finished;
    double likely_s = 0.0;

    if ((bound->sources & LULL_LATENCY_FROM_ENDS) != 0)
        ended = fmax(growth_of(last[0], now[0]), growth_of(last[1], now[1]));
    bound->requests += ended;
    if ((bound->sources & LULL_LATENCY_FROM_TOKENS) != 0) {
        likely_s = take_tokens(bound, page);
        add_tokens(bound, tpot_bounds_s, bounds, page, ended);
    }
    if ((bound->sources & LULL_LATENCY_FROM_ENDS) != 0) {
        /* The mean of several hides the slowest one. */
        if (ended <= 1.0)
            likely_s = 0.0;
        likely_s = fmax(likely_s, find_mean_s(before, page, ended));
        add_ends(bound->above[ENDS], tpot_bounds_s, bounds, last, now, pair_tokens);
    }
    add_likely(bound, likely_s, ended);
    bound->before = *page;
}

bool lull_latency_bound_tpot(struct lull_latency_bound *bound,
                             const struct lull_request_times *page,
                             struct lull_serving_histogram *histogram_out,
                             struct lull_serving_histogram *likely_out)
{
    uint32_t sources = 0;
    bool has_begun;

    if (page->between.count > 0 && page->finished < most_count && page->alive < most_count)
        sources |= LULL_LATENCY_FROM_TOKENS;
    if (page->decode.count > 0 && page->answer.count > 0)
        sources |= LULL_LATENCY_FROM_ENDS;
    has_begun = bound_follow(bound, sources, page);
    if (!has_begun && sources != 0)
        tpot_take(bound, page);
    bound_write(bound, tpot_bounds_s, sizeof(tpot_bounds_s) / sizeof(tpot_bounds_s[0]),
                histogram_out);
    write_likely(bound, likely_out);
    return has_begun;
}

bool lull_latency_bound_ttft(struct lull_latency_bound *bound,
                             const struct lull_request_times *page,
                             struct lull_serving_histogram *histogram_out)
{
    const size_t bounds = sizeof(ttft_bounds_s) / sizeof(ttft_bounds_s[0]);
    const struct lull_request_times *const before = &bound->before;
    const struct lull_serving_histogram *const last[] = {&before->queue, &before->prefill};
    const struct lull_serving_histogram *const now[] = {&page->queue, &page->prefill};
    const bool has_source = page->queue.count > 0 && page->prefill.count > 0;
    const bool has_begun = bound_follow(bound, has_source ? LULL_LATENCY_FROM_ENDS : 0, page);

    if (!has_begun && has_source) {
        bound->requests += fmax(growth_of(last[0], now[0]), growth_of(last[1], now[1]));
        add_ends(bound->above[ENDS], ttft_bounds_s, bounds, last, now, pair_times);
        bound->before = *page;
    }
    bound_write(bound, ttft_bounds_s, bounds, histogram_out);
    return has_begun;
}
