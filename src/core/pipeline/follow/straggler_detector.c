/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/straggler_detector.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* None of these was measured; test_straggler_job shows their combined effect. */
/* The typical value of a quantity is the median of this many. */
enum { LATEST = 5 };
/* Iterations in a row before something is requested; doubled up to this after a stretch that lasted
 * for fewer iterations than SHORT_LIVED. */
enum { MAX_PATIENCE = 64, SHORT_LIVED = 8 };
/* Iterations after a stretch in which it may be refuted. */
enum { PROBATION = 2 };
/* The typical value falls at once, and rises by this share of the difference per iteration. */
static const double rise = 0.01;
/* Waiting that is less than this share of the margin counts as none. */
static const double over_share = 0.25;

struct typical {
    double latest[LATEST];
    uint64_t count;
    double value; /* known as soon as count is LATEST */
};

struct straggler_device {
    struct typical slowness[2]; /* at the highest clocks, at the plan */
    double least;               /* factor of slowness over the iterations in a row */
    double factor;              /* requested */
};

struct lull_straggler_detector {
    struct lull_straggler_detector_config config;
    uint32_t patience;
    bool is_stretched;
    struct typical gap;
    struct typical span; /* at the plan */
    /* Consecutive iterations that agree. */
    uint32_t streak;
    double min_late_ns;
    double length_ns; /* sum */
    double late_ns;   /* sum */
    /* The latest request, and the values before it. */
    double extra_ns;
    double step_ns; /* the latest part of it */
    double before_length_ns;
    double before_late_ns;
    uint32_t stretched; /* iterations since the first time, and since the latest */
    uint32_t stepped;
    double lost_ns;
    uint32_t refuted;
    uint32_t device_count;
    struct straggler_device devices[];
};

void lull_straggler_detector_config_default(struct lull_straggler_detector_config *config)
{
    *config = (struct lull_straggler_detector_config){.margin_ratio = 0.01, .patience = 2};
}

static void straggler_set_no_wait(struct lull_straggler_detector *straggler)
{
    straggler->streak = 0;
    straggler->extra_ns = 0.0;
    straggler->step_ns = 0.0;
    for (uint32_t i = 0; i < straggler->device_count; i++)
        straggler->devices[i].factor = 1.0;
}

static void straggler_reset(struct lull_straggler_detector *straggler)
{
    straggler->is_stretched = false;
    straggler_set_no_wait(straggler);
}

struct lull_straggler_detector *
lull_straggler_detector_create(const struct lull_straggler_detector_config *config,
                               uint32_t device_count)
{
    struct lull_straggler_detector *straggler =
        calloc(1, sizeof(*straggler) + device_count * sizeof(straggler->devices[0]));

    if (straggler == NULL)
        return NULL;
    straggler->config = *config;
    straggler->patience = config->patience;
    straggler->device_count = device_count;
    straggler_reset(straggler);
    return straggler;
}

void lull_straggler_detector_destroy(struct lull_straggler_detector *straggler)
{
    free(straggler);
}

/* ---- what is typical ----------------------------------------------------------------------- */

static bool straggler_is_known(const struct typical *typical)
{
    return typical->count >= LATEST;
}

/* Sorts by insertion: there are only five values. */
static double straggler_median(const struct typical *typical)
{
    double sorted[LATEST];

    for (int i = 0; i < LATEST; i++) {
        int k = i;

        for (; k > 0 && sorted[k - 1] > typical->latest[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = typical->latest[i];
    }
    return sorted[LATEST / 2];
}

/* A typical value falls at once, because a shorter time is never an accident, and rises slowly,
 * because a longer one may be a straggler. */
static void straggler_learn(struct typical *typical, double value, bool is_quiet)
{
    double middle;

    typical->latest[typical->count++ % LATEST] = value;
    if (!straggler_is_known(typical))
        return;
    middle = straggler_median(typical);
    if (typical->count == LATEST || middle < typical->value)
        typical->value = middle;
    else if (is_quiet)
        typical->value += rise * (middle - typical->value);
}

static void straggler_adopt(struct typical *typical, double value)
{
    *typical = (struct typical){.count = LATEST, .value = value};
    for (int i = 0; i < LATEST; i++)
        typical->latest[i] = value;
}

static double margin_ns(const struct lull_straggler_detector *straggler)
{
    return straggler->config.margin_ratio * (straggler->span.value + straggler->gap.value);
}

static double factor_of(const struct lull_straggler_detector *straggler,
                        const struct lull_straggler_detector_sample *sample, uint32_t device)
{
    const struct typical *typical =
        &straggler->devices[device].slowness[sample->kind != LULL_STRAGGLER_REFERENCE];

    return straggler_is_known(typical) ? sample->slowness[device] / typical->value : 1.0;
}

static double largest_factor(const struct lull_straggler_detector *straggler,
                             const struct lull_straggler_detector_sample *sample)
{
    double largest = 1.0;

    for (uint32_t i = 0; i < straggler->device_count; i++)
        largest = fmax(largest, factor_of(straggler, sample, i));
    return largest;
}

/* Waiting beyond the typical. A reference iteration is faster than the plan, so the plan would have
 * waited for less, by the difference; that is not known while a device is slow. */
static double late_ns(const struct lull_straggler_detector *straggler,
                      const struct lull_straggler_detector_sample *sample)
{
    const double late = (double)sample->gap_ns - straggler->gap.value;

    if (sample->kind != LULL_STRAGGLER_REFERENCE)
        return late;
    if (largest_factor(straggler, sample) > 1.0 + 2.0 * straggler->config.margin_ratio)
        return fmin(late, 0.0);
    return late + (double)sample->span_ns - straggler->span.value;
}

static void straggler_learn_all(struct lull_straggler_detector *straggler,
                                const struct lull_straggler_detector_sample *sample, bool is_quiet)
{
    straggler_learn(&straggler->gap, (double)sample->gap_ns, is_quiet);
    if (sample->kind == LULL_STRAGGLER_PLANNED)
        straggler_learn(&straggler->span, (double)sample->span_ns, is_quiet);
    for (uint32_t i = 0; i < straggler->device_count; i++)
        straggler_learn(&straggler->devices[i].slowness[sample->kind != LULL_STRAGGLER_REFERENCE],
                        sample->slowness[i], is_quiet);
}

/* ---- iterations in a row ----------------------------------------------------------------- */

static void begin_streak(struct lull_straggler_detector *straggler)
{
    straggler->min_late_ns = INFINITY;
    straggler->length_ns = 0.0;
    straggler->late_ns = 0.0;
    for (uint32_t i = 0; i < straggler->device_count; i++)
        straggler->devices[i].least = INFINITY;
}

/* All iterations in a row must agree, so the smallest of their values is used. */
static void extend_streak(struct lull_straggler_detector *straggler,
                          const struct lull_straggler_detector_sample *sample)
{
    const double late = late_ns(straggler, sample);

    if (straggler->streak == 0)
        begin_streak(straggler);
    straggler->min_late_ns = fmin(straggler->min_late_ns, late);
    straggler->length_ns += (double)(sample->span_ns + sample->gap_ns);
    straggler->late_ns += late;
    for (uint32_t i = 0; i < straggler->device_count; i++)
        straggler->devices[i].least =
            fmin(straggler->devices[i].least, factor_of(straggler, sample, i));
    straggler->streak++;
}

/* Requests the waiting that all iterations in a row show, less the margin. */
static enum lull_straggler_detector_verdict
straggler_set_wait(struct lull_straggler_detector *straggler)
{
    const double margin = margin_ns(straggler);
    const double had_ns = straggler->extra_ns;
    double more_ns = straggler->min_late_ns - margin;

    /* The waiting that is left is within the margin already. */
    assert(straggler->streak > 0);
    if (fabs(more_ns) < margin)
        more_ns = 0.0;
    straggler->extra_ns = fmax(had_ns + more_ns, 0.0);
    straggler->step_ns = straggler->extra_ns - had_ns;
    straggler->before_length_ns = straggler->length_ns / straggler->streak;
    straggler->before_late_ns = straggler->late_ns / straggler->streak;
    for (uint32_t i = 0; i < straggler->device_count; i++) {
        straggler->devices[i].factor = 1.0;
        if (straggler->devices[i].least > 1.0 + straggler->config.margin_ratio)
            straggler->devices[i].factor = straggler->devices[i].least;
    }
    straggler->streak = 0;
    straggler->stepped = 0;
    return LULL_STRAGGLER_STRETCH;
}

/* A difference of twice the margin counts as a straggler: a margin of waiting remains when the
 * iteration is stretched, so a smaller difference would gain nothing. */
static enum lull_straggler_detector_verdict
take_default(struct lull_straggler_detector *straggler,
             const struct lull_straggler_detector_sample *sample)
{
    const double ratio = straggler->config.margin_ratio;
    bool is_odd = false;

    if (straggler_is_known(&straggler->gap) && straggler_is_known(&straggler->span))
        is_odd = late_ns(straggler, sample) > 2.0 * margin_ns(straggler) ||
                 largest_factor(straggler, sample) > 1.0 + 2.0 * ratio;
    if (is_odd)
        extend_streak(straggler, sample);
    else
        straggler->streak = 0;
    straggler_learn_all(straggler, sample, !is_odd);
    if (is_odd && straggler->streak >= straggler->patience)
        return straggler_set_wait(straggler);
    return LULL_STRAGGLER_GO_ON;
}

/* ---- stretched --------------------------------------------------------------------------- */

/* After a straggler that was over within a few iterations the next one needs more evidence, so that
 * flickering does not make the job stretch again and again. */
static enum lull_straggler_detector_verdict
straggler_end_late(struct lull_straggler_detector *straggler)
{
    if (straggler->stretched >= SHORT_LIVED)
        straggler->patience = straggler->config.patience;
    else if (2 * straggler->patience < MAX_PATIENCE)
        straggler->patience *= 2;
    else
        straggler->patience = MAX_PATIENCE;
    straggler_reset(straggler);
    return LULL_STRAGGLER_RETURN;
}

/* The straggler has become faster. */
static bool straggler_is_over(const struct lull_straggler_detector *straggler,
                              const struct lull_straggler_detector_sample *sample)
{
    if (straggler->extra_ns > 0.0 && late_ns(straggler, sample) < over_share * margin_ns(straggler))
        return true;
    for (uint32_t i = 0; i < straggler->device_count; i++) {
        const double asked = straggler->devices[i].factor;

        if (asked > 1.0 && factor_of(straggler, sample, i) < 1.0 + 0.5 * (asked - 1.0))
            return true;
    }
    return false;
}

/* The stretch is refuted if the iteration became longer by what was just requested but waits
 * as long as before, or if a copy with a slow device takes longer than without the stretch. */
static bool is_refuted(const struct lull_straggler_detector *straggler,
                       const struct lull_straggler_detector_sample *sample)
{
    const double grown_ns =
        (double)(sample->span_ns + sample->gap_ns) - straggler->before_length_ns;
    const double unshrunk_ns =
        late_ns(straggler, sample) - (straggler->before_late_ns - straggler->step_ns);

    if (straggler->step_ns > 0.0)
        return straggler->stepped <= PROBATION &&
               fabs(grown_ns - straggler->step_ns) < 0.5 * straggler->step_ns &&
               unshrunk_ns > 0.5 * straggler->step_ns;
    return grown_ns > margin_ns(straggler) && unshrunk_ns < 0.5 * grown_ns;
}

/* The suspected straggler was a longer iteration of the job itself. Its values become the typical
 * ones, so that it is never acted on again. */
static enum lull_straggler_detector_verdict
straggler_refute(struct lull_straggler_detector *straggler,
                 const struct lull_straggler_detector_sample *sample)
{
    straggler->refuted++;
    straggler->lost_ns +=
        fmax((double)(sample->span_ns + sample->gap_ns) - straggler->before_length_ns, 0.0);
    if (straggler->extra_ns > 0.0)
        straggler_adopt(&straggler->gap, (double)sample->gap_ns);
    for (uint32_t i = 0; i < straggler->device_count; i++)
        for (int kind = 0; kind < 2 && straggler->devices[i].factor > 1.0; kind++)
            straggler_adopt(&straggler->devices[i].slowness[kind], sample->slowness[i]);
    return straggler_end_late(straggler);
}

/* The stretch ends as soon as the straggler is over or is refuted. It
 * grows only if the iteration still waits clearly longer than the margin. */
static enum lull_straggler_detector_verdict
take_stretched(struct lull_straggler_detector *straggler,
               const struct lull_straggler_detector_sample *sample)
{
    const double typical_ns = straggler->span.value + straggler->gap.value;
    bool is_more;

    straggler->stretched++;
    straggler->stepped++;
    if (straggler_is_over(straggler, sample)) {
        straggler->lost_ns += fmax((double)(sample->span_ns + sample->gap_ns) - typical_ns, 0.0);
        return straggler_end_late(straggler);
    }
    if (is_refuted(straggler, sample))
        return straggler_refute(straggler, sample);
    is_more = late_ns(straggler, sample) > 3.0 * margin_ns(straggler);
    for (uint32_t i = 0; i < straggler->device_count; i++)
        is_more |= factor_of(straggler, sample, i) >
                   straggler->devices[i].factor + 3.0 * straggler->config.margin_ratio;
    if (!is_more) {
        straggler->streak = 0;
        return LULL_STRAGGLER_GO_ON;
    }
    extend_streak(straggler, sample);
    if (straggler->streak >= straggler->patience)
        return straggler_set_wait(straggler);
    return LULL_STRAGGLER_GO_ON;
}

/* ---- iterations ------------------------------------------------------------------------ */

enum lull_straggler_detector_verdict
lull_straggler_detector_take(struct lull_straggler_detector *straggler,
                             const struct lull_straggler_detector_sample *sample)
{
    if (sample->kind == LULL_STRAGGLER_MIXED) {
        straggler->lost_ns += fmax((double)(sample->span_ns + sample->gap_ns) -
                                       (straggler->span.value + straggler->gap.value),
                                   0.0);
        return LULL_STRAGGLER_GO_ON;
    }
    /* Iterations that had started before the last answer took effect are no evidence. */
    if (straggler->is_stretched != (sample->kind == LULL_STRAGGLER_STRETCHED))
        return LULL_STRAGGLER_GO_ON;
    if (straggler->is_stretched)
        return take_stretched(straggler, sample);
    return take_default(straggler, sample);
}

int64_t lull_straggler_detector_request(const struct lull_straggler_detector *straggler,
                                        double *factor_out)
{
    assert(straggler->extra_ns >= 0.0);
    for (uint32_t i = 0; i < straggler->device_count; i++)
        factor_out[i] = straggler->devices[i].factor;
    return llround(straggler->extra_ns);
}

void lull_straggler_detector_answer(struct lull_straggler_detector *straggler, bool is_stretched)
{
    if (!is_stretched || !straggler->is_stretched)
        straggler->stretched = 0;
    straggler->is_stretched = is_stretched;
    if (!is_stretched)
        straggler_end_late(straggler);
}

bool lull_straggler_detector_is_stretched(const struct lull_straggler_detector *straggler)
{
    return straggler->is_stretched;
}

bool lull_straggler_detector_is_suspicious(const struct lull_straggler_detector *straggler)
{
    return straggler->streak > 0;
}

int64_t lull_straggler_detector_lost_ns(const struct lull_straggler_detector *straggler)
{
    return llround(straggler->lost_ns);
}

uint32_t lull_straggler_detector_refuted(const struct lull_straggler_detector *straggler)
{
    return straggler->refuted;
}
