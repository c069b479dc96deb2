/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/log_energy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Both are defaults: loggers skip a reading or two when a driver is slow. */
static const double gap_steps = 5.0;
static const int64_t shortest_gap_ns = INT64_C(3000000000);

/* Readings between which an account begins: enough for its first edge to settle, and few enough for
 * it to be kept. */
enum { SETTLED = LULL_ENERGY_KEPT / 2 };

static double log_energy_seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/* Finds the shortest distance that is a gap. Errors: -ENOMEM. */
static int find_gap_ns(const struct lull_energy_reading *readings, size_t count, int64_t *gap_out)
{
    int64_t *const steps = malloc(count * sizeof(*steps));
    const size_t middle = (count - 1) / 2;
    double typical_ns;

    if (steps == NULL)
        return -ENOMEM;
    for (size_t i = 1; i < count; i++)
        steps[i - 1] = readings[i].time_ns - readings[i - 1].time_ns;
    qsort(steps, count - 1, sizeof(*steps), by_value);
    typical_ns = (double)steps[middle];
    free(steps);
    *gap_out = INT64_MAX;
    if (gap_steps * typical_ns < (double)INT64_MAX / 2)
        *gap_out = (int64_t)(gap_steps * typical_ns);
    if (*gap_out < shortest_gap_ns)
        *gap_out = shortest_gap_ns;
    return 0;
}

/* Adds the energy between the first and the last of count readings, which have no gap. */
static void log_energy_add_stretch(const struct lull_energy_source *source,
                                   const struct lull_energy_reading *readings, size_t count,
                                   struct lull_energy_sum *sum, struct lull_log_energy *out)
{
    struct lull_energy_account account;
    struct lull_energy_edge begin = {0};
    struct lull_energy_edge end = {0};
    struct lull_energy_figure figure;
    bool has_begin = false;

    if (count < 2)
        return;
    lull_energy_account_init(&account, source);
    for (size_t i = 0; i < count; i++) {
        lull_energy_account_take(&account, &readings[i]);
        if (i + 1 == SETTLED || (i + 1 == count && i + 1 < SETTLED))
            has_begin = lull_energy_account_at(&account, readings[0].time_ns, &begin);
    }
    if (!has_begin || !lull_energy_account_at(&account, readings[count - 1].time_ns, &end))
        return;
    figure = lull_energy_between(&account, &begin, &end);
    lull_energy_sum_add(sum, &figure);
    out->covered_s += log_energy_seconds(readings[0].time_ns, readings[count - 1].time_ns);
    out->resets += account.resets;
    out->estimated_s += account.has_counter ? account.estimated_s : 0.0;
}

/* Finds the readings of the window, of which the first has the counter if it decides. */
static size_t find_window(const struct lull_energy_reading *readings, size_t count, int64_t from_ns,
                          int64_t to_ns, size_t *first_out, struct lull_log_energy *out)
{
    size_t first = 0;
    size_t counted = 0;
    size_t end = count;

    while (first < count && readings[first].time_ns < from_ns)
        first++;
    while (end > first && readings[end - 1].time_ns > to_ns)
        end--;
    for (size_t i = first; i < end; i++)
        counted += readings[i].has_counter;
    out->has_counter = counted >= 2;
    while (out->has_counter && !readings[first].has_counter)
        first++;
    *first_out = first;
    return end - first;
}

static void log_energy_refuse(struct lull_log_energy *out, const char *reason)
{
    out->reason = reason;
    out->joules = NAN;
    out->uncertainty_j = NAN;
}

static int log_energy_integrate(const struct lull_energy_source *source,
                                const struct lull_energy_reading *readings, size_t count,
                                struct lull_log_energy *out)
{
    struct lull_energy_sum sum = {0};
    int64_t gap_ns = INT64_MAX;
    size_t begin = 0;
    int rc = 0;

    if (!out->has_counter)
        rc = find_gap_ns(readings, count, &gap_ns);
    if (rc < 0)
        return rc;
    for (size_t i = 1; i <= count; i++) {
        if (i < count && readings[i].time_ns - readings[i - 1].time_ns <= gap_ns)
            continue;
        log_energy_add_stretch(source, &readings[begin], i - begin, &sum, out);
        out->gaps += i < count;
        begin = i;
    }
    out->gap_s = fmax(0.0, log_energy_seconds(out->begin_ns, out->end_ns) - out->covered_s);
    out->joules = sum.joules;
    out->uncertainty_j = lull_energy_sum_uncertainty_j(&sum);
    if (sum.count == 0)
        log_energy_refuse(out, "its readings are too far apart: there is a gap after each");
    else if (!(sum.joules > 0.0))
        log_energy_refuse(out, "its readings are all 0 W, which is impossible");
    return 0;
}

int lull_log_energy(const struct lull_energy_source *source,
                    const struct lull_energy_reading *readings, size_t count, int64_t from_ns,
                    int64_t to_ns, struct lull_log_energy *out)
{
    size_t first = 0;

    *out = (struct lull_log_energy){.reason = NULL};
    count = find_window(readings, count, from_ns, to_ns, &first, out);
    if (count < 2) {
        log_energy_refuse(out, count == 0 ? "it has no reading" : "it has a single reading");
        return 0;
    }
    out->begin_ns = readings[first].time_ns;
    out->end_ns = readings[first + count - 1].time_ns;
    return log_energy_integrate(source, &readings[first], count, out);
}
