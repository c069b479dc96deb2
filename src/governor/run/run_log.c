/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Makes room for one more item of a bounded array. NULL: it is full, or out of memory. */
static void *run_log_grow(void **items, size_t *count, size_t *capacity, size_t item_size)
{
    if (*count == LULL_RUN_LOG_LIMIT)
        return NULL;
    if (*count == *capacity) {
        size_t wanted = *capacity == 0 ? 1024 : *capacity * 2;
        void *grown = realloc(*items, wanted * item_size);

        if (grown == NULL)
            return NULL;
        *items = grown;
        *capacity = wanted;
    }
    return (char *)*items + (*count)++ * item_size;
}

static void run_log_add(struct lull_run_log *log, void **items, size_t *count, size_t *capacity,
                        size_t item_size, const void *item)
{
    void *place = run_log_grow(items, count, capacity, item_size);

    if (place == NULL)
        log->dropped++;
    else
        memcpy(place, item, item_size);
}

#define ADD(log, list, item)                                                                       \
    run_log_add(log, (void **)&(log)->list.items, &(log)->list.count, &(log)->list.capacity,       \
                sizeof(*(item)), item)

void lull_run_log_init(struct lull_run_log *log, const struct lull_energy_source *source)
{
    *log = (struct lull_run_log){0};
    lull_energy_account_init(&log->energy, source);
}

void lull_run_log_fini(struct lull_run_log *log)
{
    free(log->boundaries.items);
    free(log->reactions.items);
    free(log->sections.items);
    free(log->lowered.items);
    free(log->samples.items);
    memset(log, 0, sizeof(*log));
}

void lull_run_log_add_boundary(struct lull_run_log *log, const struct lull_boundary *boundary)
{
    struct lull_boundaries *known = &log->boundaries;

    if (boundary->first && known->count > known->warmup) {
        const struct lull_boundary *last = &known->items[known->count - 1];

        if (last->phase != LULL_PHASE_SETTLED &&
            last->time_ns - known->items[known->warmup].time_ns < boundary->time_ns - last->time_ns)
            known->warmup = known->count;
    }
    ADD(log, boundaries, boundary);
}

void lull_run_log_add_section(struct lull_run_log *log, const struct lull_span *span)
{
    ADD(log, sections, span);
}

void lull_run_log_add_lowered(struct lull_run_log *log, const struct lull_span *span)
{
    ADD(log, lowered, span);
}

void lull_run_log_add_reaction(struct lull_run_log *log, int64_t reaction_ns)
{
    ADD(log, reactions, &reaction_ns);
}

static int run_log_compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

bool lull_run_log_reaction_us(const struct lull_run_log *log, double p, double *reaction_out)
{
    const struct lull_reactions *reactions = &log->reactions;
    size_t size = reactions->count * sizeof(*reactions->items);
    int64_t *sorted = size == 0 ? NULL : malloc(size);

    if (sorted == NULL)
        return false;
    memcpy(sorted, reactions->items, size);
    qsort(sorted, reactions->count, sizeof(*sorted), run_log_compare_times);
    *reaction_out = (double)sorted[(size_t)(p * (double)(reactions->count - 1))] * 1e-3;
    free(sorted);
    return true;
}

static bool run_log_has(const struct lull_sample *sample, uint32_t field)
{
    return (sample->reading.valid & field) != 0;
}

/* The difference of two readings is wrong if the counter was reset or hangs. The log therefore
 * stores the energy of its account. */
void lull_run_log_add_sample(struct lull_run_log *log, const struct lull_sample *sample)
{
    const struct lull_energy_reading reading = lull_sample_energy_reading(sample);
    struct lull_sample kept = *sample;
    double energy_j;

    lull_energy_account_take(&log->energy, &reading);
    if (log->energy.has_counter) {
        kept.reading.valid &= ~(uint32_t)LULL_READING_ENERGY;
        if (lull_energy_account_last(&log->energy, sample->time_ns, &energy_j)) {
            kept.reading.valid |= LULL_READING_ENERGY;
            kept.reading.energy_mj = (uint64_t)llround(energy_j * 1e3);
        }
    }
    ADD(log, samples, &kept);
}

/* Index of the first sample with an energy reading at or after from; count if there is none. */
static size_t next_energy(const struct lull_samples *samples, size_t from)
{
    while (from < samples->count && !run_log_has(&samples->items[from], LULL_READING_ENERGY))
        from++;
    return from;
}

/* Integral of the power readings between two times inside [first, last], in arbitrary units. Where
 * a power is missing, the one before holds; where none was read, the energy lies evenly. */
static double power_integral(const struct lull_samples *samples, size_t first, size_t last,
                             int64_t until_ns)
{
    double sum = 0.0;
    double power = 1.0;

    for (size_t i = first; i <= last; i++)
        if (run_log_has(&samples->items[i], LULL_READING_POWER)) {
            power = (double)samples->items[i].reading.power_mw;
            break;
        }
    for (size_t i = first; i < last && samples->items[i].time_ns < until_ns; i++) {
        int64_t end_ns = samples->items[i + 1].time_ns;

        if (run_log_has(&samples->items[i + 1], LULL_READING_POWER))
            power = (double)samples->items[i + 1].reading.power_mw;
        if (end_ns > until_ns)
            end_ns = until_ns;
        sum += power * (double)(end_ns - samples->items[i].time_ns);
    }
    return sum;
}

bool lull_run_log_energy_j(const struct lull_run_log *log, int64_t time_ns, double *energy_out)
{
    const struct lull_samples *samples = &log->samples;
    const size_t start = next_energy(samples, 0);
    size_t first = start;
    size_t last = start;
    double whole;
    double share;
    double first_j;
    double last_j;

    if (lull_energy_account_doubt(&log->energy) != LULL_ENERGY_CREDIBLE)
        return false;
    while (last < samples->count && samples->items[last].time_ns < time_ns) {
        first = last;
        last = next_energy(samples, last + 1);
    }
    if (last >= samples->count || samples->items[first].time_ns > time_ns)
        return false;
    first_j = (double)samples->items[first].reading.energy_mj * 1e-3;
    last_j = (double)samples->items[last].reading.energy_mj * 1e-3;
    whole = power_integral(samples, first, last, INT64_MAX);
    share = whole > 0.0 ? power_integral(samples, first, last, time_ns) / whole : 0.0;
    *energy_out = first_j + share * (last_j - first_j) -
                  (double)samples->items[start].reading.energy_mj * 1e-3;
    return true;
}

bool lull_run_log_energy_between(const struct lull_run_log *log, int64_t begin_ns, int64_t end_ns,
                                 double *energy_out)
{
    double begin_j;
    double end_j;

    if (!lull_run_log_energy_j(log, begin_ns, &begin_j) ||
        !lull_run_log_energy_j(log, end_ns, &end_j))
        return false;
    *energy_out = end_j - begin_j;
    return true;
}

struct lull_energy_reading lull_sample_energy_reading(const struct lull_sample *sample)
{
    return (struct lull_energy_reading){
        .time_ns = sample->time_ns,
        .has_counter = run_log_has(sample, LULL_READING_ENERGY),
        .has_power = run_log_has(sample, LULL_READING_POWER),
        .counter_j = (double)sample->reading.energy_mj * 1e-3,
        .power_w = (double)sample->reading.power_mw * 1e-3,
        .is_refused = (sample->reading.refused & LULL_READING_POWER) != 0,
    };
}

/* Energy is read once a second, so this long after a time a reading has settled it. */
static const int64_t settled_after_ns = 1500 * LULL_NS_PER_MS;

/* Index of the first sample at or after a time; count if there is none. */
static size_t first_behind(const struct lull_samples *samples, int64_t time_ns)
{
    size_t low = 0;
    size_t high = samples->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (samples->items[middle].time_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void lull_run_log_powers(const struct lull_run_log *log, int64_t begin_ns, int64_t end_ns,
                         struct lull_moments *powers_w)
{
    const struct lull_samples *samples = &log->samples;

    for (size_t i = first_behind(samples, begin_ns);
         i < samples->count && samples->items[i].time_ns < end_ns; i++)
        if (run_log_has(&samples->items[i], LULL_READING_POWER))
            lull_moments_add(powers_w, (double)samples->items[i].reading.power_mw * 1e-3);
}

bool lull_run_log_edge(const struct lull_run_log *log, const struct lull_energy_source *source,
                       int64_t time_ns, struct lull_energy_edge *edge_out)
{
    const struct lull_samples *samples = &log->samples;
    const size_t last = first_behind(samples, time_ns + settled_after_ns);
    struct lull_energy_account account;
    size_t i = next_energy(samples, last > LULL_ENERGY_KEPT ? last - LULL_ENERGY_KEPT : 0);

    lull_energy_account_init(&account, source);
    for (; i < samples->count && i <= last; i++) {
        const struct lull_energy_reading reading = lull_sample_energy_reading(&samples->items[i]);

        lull_energy_account_take(&account, &reading);
    }
    return lull_energy_account_at(&account, time_ns, edge_out);
}

/* ---- limits on a GPU's clock --------------------------------------------------------------- */

/* A reason that limits the clock in this share of the readings matters; fewer readings than these
 * are no evidence. Both are defaults. */
static const double held_share = 0.1;
enum { MIN_HELD_READINGS = 10 };

struct lull_run_log_limits lull_run_log_limits(const struct lull_run_log *log)
{
    struct lull_run_log_limits limits = {0};

    for (size_t i = 0; i < log->samples.count; i++) {
        const struct lull_sample *const sample = &log->samples.items[i];

        if (!run_log_has(sample, LULL_READING_POWER_LIMIT))
            continue;
        if (limits.first_mw == 0)
            limits.first_mw = sample->reading.power_limit_mw;
        limits.last_mw = sample->reading.power_limit_mw;
    }
    return limits;
}

double lull_run_log_held_ratio(const struct lull_run_log *log, uint64_t reasons,
                               uint64_t *found_out)
{
    size_t readings = 0;
    size_t held = 0;

    *found_out = 0;
    for (size_t i = 0; i < log->samples.count; i++) {
        const struct lull_device_reading *const reading = &log->samples.items[i].reading;

        if ((reading->valid & LULL_READING_REASONS) == 0 ||
            (reading->reasons & LULL_CLOCK_REASON_IDLE) != 0)
            continue;
        readings++;
        held += (reading->reasons & reasons) != 0;
        *found_out |= reading->reasons & reasons;
    }
    return readings < MIN_HELD_READINGS ? 0.0 : (double)held / (double)readings;
}

bool lull_run_log_is_held(const struct lull_run_log *log, uint64_t reasons)
{
    uint64_t found;

    return lull_run_log_held_ratio(log, reasons, &found) >= held_share;
}
