/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/zeus/recurrence.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "core/tuning/cost.h"
#include "core/stats/random.h"

static double epoch_energy_j(const struct lull_batch_trace_limit *limit)
{
    return limit->time_s * limit->power_w;
}

double lull_recurrence_epoch_cost(const struct lull_batch_trace_size *size,
                                  const struct lull_batch_trace_limit *limit, double eta_ratio)
{
    const struct lull_job_price price = {eta_ratio, size->limits[0].limit_w, 1};

    return lull_job_cost(&price, epoch_energy_j(limit), limit->time_s);
}

const struct lull_batch_trace_limit *
lull_recurrence_choose_limit(const struct lull_batch_trace_size *size, double eta_ratio)
{
    const struct lull_batch_trace_limit *best = &size->limits[0];

    for (uint32_t i = 1; i < size->limit_count; i++)
        if (lull_recurrence_epoch_cost(size, &size->limits[i], eta_ratio) <
            lull_recurrence_epoch_cost(size, best, eta_ratio))
            best = &size->limits[i];
    return best;
}

/* Counts a whole epoch even if rounding makes an integer quotient slightly too small. */
static uint32_t epochs_below(double bound, double epoch_cost, uint32_t max_epochs)
{
    const double margin = 1e-9;
    const double epochs = floor(bound / epoch_cost + margin);

    return epochs < max_epochs ? (uint32_t)epochs : max_epochs;
}

static void profile_first_epoch(struct lull_recurrence_run *run, double epochs)
{
    const struct lull_batch_trace_size *size = run->size;
    double energy_j = 0.0;
    double time_s = 0.0;

    for (uint32_t i = 0; i < size->limit_count; i++) {
        energy_j += epoch_energy_j(&size->limits[i]);
        time_s += size->limits[i].time_s;
    }
    run->energy_j = energy_j / size->limit_count + (epochs - 1.0) * epoch_energy_j(run->limit);
    run->time_s = time_s / size->limit_count + (epochs - 1.0) * run->limit->time_s;
}

void lull_recurrence_execute(struct lull_recurrence_run *run, double eta_ratio, uint32_t max_epochs)
{
    double epochs;

    run->max_epochs = epochs_below(
        run->bound, lull_recurrence_epoch_cost(run->size, run->limit, eta_ratio), max_epochs);
    run->has_reached = run->epochs <= run->max_epochs;
    epochs = run->has_reached ? run->epochs : run->max_epochs;
    run->energy_j = epochs * epoch_energy_j(run->limit);
    run->time_s = epochs * run->limit->time_s;
    if (run->is_profiling && epochs > 0.0)
        profile_first_epoch(run, epochs);
}

uint32_t lull_recurrence_count(const struct lull_batch_trace *trace)
{
    double limits[LULL_BATCH_TRACE_LIMITS * LULL_BATCH_TRACE_SIZES];
    uint32_t limit_count = 0;
    uint32_t size_count = 0;

    for (uint32_t i = 0; i < trace->size_count; i++) {
        const struct lull_batch_trace_size *size = &trace->sizes[i];

        size_count += size->path_count > 0;
        for (uint32_t k = 0; k < size->limit_count && size->path_count > 0; k++) {
            uint32_t known = 0;

            while (known < limit_count && limits[known] != size->limits[k].limit_w)
                known++;
            if (known == limit_count)
                limits[limit_count++] = size->limits[k].limit_w;
        }
    }
    return 2 * size_count * limit_count;
}

/* ---- series ------------------------------------------------------------------------------- */

struct recurrence_player {
    const struct lull_recurrence_series *series;
    struct lull_zeus *search;
    double eta_ratio;
    double max_power_w;
    uint64_t run;
    bool has_run[LULL_BATCH_TRACE_SIZES];
};

/* Draws which repetition a run meets: the same for the same seed, recurrence, attempt and size. */
static double draw_epochs(const struct recurrence_player *player,
                          const struct lull_batch_trace_size *size,
                          const struct lull_recurrence_step *step)
{
    const uint64_t place = ((uint64_t)step->recurrence << 40) ^ ((uint64_t)step->attempt << 32);
    struct lull_random random;

    if (size->path_count == 0)
        return NAN;
    lull_random_init(&random, player->series->seed);
    lull_random_init(&random, lull_random_next(&random) ^ place ^ size->size);
    return size->paths[lull_random_below(&random, size->path_count)].epochs;
}

static int play_run(struct recurrence_player *player, uint64_t retry_of,
                    struct lull_recurrence_step *step, struct lull_error *err)
{
    const struct lull_batch_trace *trace = step->trace;
    const struct lull_job_price price = {player->eta_ratio, player->max_power_w, 1};
    struct lull_batch_record record = {LULL_BATCH_SUBMITTED, ++player->run, .retry_of = retry_of};
    uint32_t arm = 0;
    int rc;

    lull_zeus_choose(player->search, retry_of, &step->choice);
    while (trace->sizes[arm].size != step->choice.size)
        arm++;
    record.size = step->choice.size;
    record.bound = step->choice.bound;
    rc = lull_zeus_apply(player->search, &record, err);
    if (rc < 0)
        return rc;
    step->run = (struct lull_recurrence_run){
        .size = &trace->sizes[arm],
        .limit = lull_recurrence_choose_limit(&trace->sizes[arm], player->eta_ratio),
        .epochs = draw_epochs(player, &trace->sizes[arm], step),
        .bound = step->choice.bound,
        .is_profiling = !player->has_run[arm],
    };
    lull_recurrence_execute(&step->run, player->eta_ratio, trace->job.max_epochs);
    player->has_run[arm] = player->has_run[arm] || step->run.max_epochs > 0;
    step->cost = lull_job_cost(&price, step->run.energy_j, step->run.time_s);
    record.event = step->run.has_reached ? LULL_BATCH_REACHED : LULL_BATCH_MISSED;
    record.energy_j = step->run.energy_j;
    record.time_s = step->run.time_s;
    return lull_zeus_apply(player->search, &record, err);
}

static int play_recurrence(struct recurrence_player *player, const struct lull_batch_trace *trace,
                           uint32_t recurrence, struct lull_error *err)
{
    enum { MAX_ATTEMPTS = 200 };
    const struct lull_recurrence_series *series = player->series;

    for (uint32_t attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
        struct lull_recurrence_step step = {
            .recurrence = recurrence, .attempt = attempt, .trace = trace};
        const int rc = play_run(player, attempt == 1 ? 0 : player->run, &step, err);

        if (rc < 0)
            return rc;
        series->observe(series->context, &step);
        if (step.run.has_reached)
            return 0;
    }
    return lull_error_set(err, -ENODATA, "recurrence %u misses the target %d times in a row",
                          recurrence, MAX_ATTEMPTS);
}

static bool is_same_job(const struct lull_recurrence_series *series)
{
    const struct lull_batch_trace *first = series->phases[0].trace;

    for (uint32_t i = 1; i < series->phase_count; i++) {
        const struct lull_batch_trace *other = series->phases[i].trace;

        if (other->size_count != first->size_count)
            return false;
        for (uint32_t k = 0; k < first->size_count; k++)
            if (other->sizes[k].size != first->sizes[k].size)
                return false;
    }
    return true;
}

static int play_phases(struct recurrence_player *player, struct lull_error *err)
{
    uint32_t recurrence = 0;

    for (uint32_t i = 0; i < player->series->phase_count; i++) {
        const struct lull_recurrence_phase *phase = &player->series->phases[i];

        for (uint32_t k = 0; k < phase->recurrences; k++) {
            const int rc = play_recurrence(player, phase->trace, recurrence++, err);

            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

int lull_recurrence_play(const struct lull_recurrence_series *series,
                         const struct lull_zeus_config *policy, uint32_t *change_count_out,
                         struct lull_error *err)
{
    const struct lull_batch_trace *trace = series->phases[0].trace;
    struct lull_zeus_config config = *policy;
    struct recurrence_player player = {.series = series,
                                       .eta_ratio = policy->batch.price.eta_ratio,
                                       .max_power_w = trace->max_power_w};
    uint32_t sizes[LULL_BATCH_TRACE_SIZES];
    int rc;

    if (!is_same_job(series))
        return lull_error_set(err, -EINVAL, "%s: the phases have different batch sizes",
                              trace->job.dataset);
    for (uint32_t i = 0; i < trace->size_count; i++)
        sizes[i] = trace->sizes[i].size;
    config.batch.sizes = sizes;
    config.batch.size_count = trace->size_count;
    config.batch.default_size = trace->job.default_size;
    config.batch.price.max_power_w = player.max_power_w;
    config.batch.price.gpu_count = 1;
    config.batch.seed = series->seed;
    rc = lull_zeus_create(&config, &player.search, err);
    if (rc == 0)
        rc = play_phases(&player, err);
    if (rc == 0 && change_count_out != NULL)
        *change_count_out = lull_batch_change_count(lull_zeus_history(player.search));
    lull_zeus_destroy(player.search);
    return rc;
}

/* ---- largest possible saving of a recurring job ---------------------------------------------- */

/* The mean over the repetitions that reach the target in time. NAN: none does. */
static double mean_epochs(const struct lull_batch_trace_size *size, uint32_t max_epochs)
{
    double sum = 0.0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < size->path_count; i++)
        if (size->paths[i].epochs <= max_epochs) {
            sum += size->paths[i].epochs;
            count++;
        }
    return count == 0 ? NAN : sum / count;
}

static void take_if(struct lull_recurrence_knobs *best, double best_value,
                    const struct lull_recurrence_knobs *knobs, double value)
{
    if (best->size == 0 || value < best_value)
        *best = *knobs;
}

static void zeus_recur_consider(struct lull_recurrence_potential *potential,
                                const struct lull_recurrence_knobs *knobs, uint32_t default_size,
                                bool is_highest)
{
    struct lull_recurrence_potential *const p = potential;

    take_if(&p->min_energy, p->min_energy.energy_j, knobs, knobs->energy_j);
    take_if(&p->min_time, p->min_time.time_s, knobs, knobs->time_s);
    take_if(&p->min_cost, p->min_cost.cost, knobs, knobs->cost);
    if (is_highest)
        take_if(&p->best_size, p->best_size.energy_j, knobs, knobs->energy_j);
    if (knobs->size == default_size)
        take_if(&p->best_limit, p->best_limit.energy_j, knobs, knobs->energy_j);
    if (is_highest && knobs->size == default_size)
        p->base = *knobs;
}

int lull_recurrence_search(const struct lull_batch_trace *trace, double eta_ratio,
                           struct lull_recurrence_potential *potential_out, struct lull_error *err)
{
    const struct lull_job_price price = {eta_ratio, trace->max_power_w, 1};
    struct lull_recurrence_potential potential = {0};

    for (uint32_t i = 0; i < trace->size_count; i++) {
        const struct lull_batch_trace_size *size = &trace->sizes[i];
        const double epochs = mean_epochs(size, trace->job.max_epochs);

        for (uint32_t k = 0; k < size->limit_count && !isnan(epochs); k++) {
            const struct lull_batch_trace_limit *limit = &size->limits[k];
            struct lull_recurrence_knobs knobs = {
                .size = size->size,
                .limit_w = limit->limit_w,
                .energy_j = epochs * limit->time_s * limit->power_w,
                .time_s = epochs * limit->time_s,
            };

            knobs.cost = lull_job_cost(&price, knobs.energy_j, knobs.time_s);
            zeus_recur_consider(&potential, &knobs, trace->job.default_size,
                                limit->limit_w == trace->max_power_w);
        }
    }
    if (potential.base.size == 0)
        return lull_error_set(
            err, -ENODATA, "%s: batch size %u at %g W never reaches the target %g",
            trace->job.dataset, trace->job.default_size, trace->max_power_w, trace->job.target);
    *potential_out = potential;
    return 0;
}

double lull_recurrence_min_cost(const struct lull_batch_trace *trace, double eta_ratio)
{
    const struct lull_job_price price = {eta_ratio, trace->max_power_w, 1};
    double least = INFINITY;

    for (uint32_t i = 0; i < trace->size_count; i++) {
        const struct lull_batch_trace_size *size = &trace->sizes[i];
        const struct lull_batch_trace_limit *limit = lull_recurrence_choose_limit(size, eta_ratio);
        double epochs = 0.0;
        uint32_t reached = 0;

        for (uint32_t k = 0; k < size->path_count; k++) {
            const bool has_reached = size->paths[k].epochs <= trace->job.max_epochs;

            epochs += has_reached ? size->paths[k].epochs : trace->job.max_epochs;
            reached += has_reached;
        }
        if (reached > 0)
            least = fmin(least,
                         epochs / reached *
                             lull_job_cost(&price, limit->time_s * limit->power_w, limit->time_s));
    }
    return least;
}
