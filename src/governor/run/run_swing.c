/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_swing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "governor/run/run_statistics.h"

/* Power is read ten times a second (run_watch.c). */
static const double step_s = LULL_RUN_SWING_STEP_S;
/* Lengths of pieces. The longest length is used for which both sides have enough pieces. A piece
 * shows frequencies of at least 1 / length; 10 s cover all relevant ones. A piece shorter than 1 s
 * (ten readings) shows none. */
static const double lengths_s[] = {1.0 / LULL_SWING_LOWEST_HZ, 5.0, 2.0, 1.0};

enum { LENGTHS = sizeof(lengths_s) / sizeof(lengths_s[0]) };

enum { MAX_READINGS = 128 };

/* Iterations in a row that belong to one side. */
struct swing_stretch {
    int64_t begin_ns;
    int64_t end_ns;
};

struct stretches {
    const struct lull_control *control;
    struct swing_stretch *items;
    size_t count;
};

/* ---- iterations at the reference ------------------------------------------------------------ */

/* Marks the iterations of which a part was lowered on this GPU. */
static void mark_lowered(const struct lull_control *control, uint32_t gpu,
                         const struct lull_boundaries *boundaries, bool *is_lowered)
{
    const struct lull_spans *spans = &lull_control_log(control, gpu)->lowered;
    const struct lull_device_info *info = lull_control_info(control, gpu);
    const uint32_t pulse_mhz = info->sm_clock_count > 1 ? info->sm_clocks_mhz[1] : 0;
    size_t i = 0;

    for (size_t span = 0; span < spans->count; span++) {
        if (spans->items[span].index >= pulse_mhz)
            continue;
        while (i + 1 < boundaries->count &&
               boundaries->items[i + 1].time_ns <= spans->items[span].begin_ns)
            i++;
        for (size_t j = i;
             j + 1 < boundaries->count && boundaries->items[j].time_ns < spans->items[span].end_ns;
             j++)
            is_lowered[j] = true;
    }
}

/* Collects the stretches of one side; items has room for as many as there are boundaries. */
static void run_swing_collect(struct stretches *stretches, const struct lull_boundaries *boundaries,
                              const bool *is_lowered, bool is_managed, int64_t since_ns)
{
    bool is_open = false;

    for (size_t i = boundaries->warmup; i + 1 < boundaries->count; i++) {
        const bool is_wanted = boundaries->items[i].time_ns >= since_ns &&
                               !boundaries->items[i + 1].first && is_lowered[i] == is_managed &&
                               (!is_managed || boundaries->items[i].phase == LULL_PHASE_SETTLED);

        if (is_wanted && !is_open)
            stretches->items[stretches->count++].begin_ns = boundaries->items[i].time_ns;
        if (is_wanted)
            stretches->items[stretches->count - 1].end_ns = boundaries->items[i + 1].time_ns;
        is_open = is_wanted;
    }
}

/* Finds the stretches of one side. The caller frees items, which is NULL where there is nothing. */
static struct stretches find_stretches(const struct lull_control *control, bool is_managed,
                                       int64_t since_ns)
{
    const struct lull_boundaries *boundaries = lull_run_statistics_boundaries(control);
    struct stretches stretches = {.control = control};
    bool *is_lowered;

    if (boundaries == NULL || boundaries->count < 2)
        return stretches;
    is_lowered = calloc(boundaries->count, sizeof(*is_lowered));
    stretches.items = calloc(boundaries->count, sizeof(*stretches.items));
    if (is_lowered != NULL && stretches.items != NULL) {
        for (size_t i = 0; lull_control_wants_limits(control) && i < boundaries->count; i++)
            is_lowered[i] = boundaries->items[i].phase == LULL_PHASE_SETTLED;
        for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
            if (lull_control_gpu(control, i)->process >= 0)
                mark_lowered(control, i, boundaries, is_lowered);
        run_swing_collect(&stretches, boundaries, is_lowered, is_managed, since_ns);
    }
    free(is_lowered);
    return stretches;
}

/* Counts the pieces of a length that fit into the stretches. */
static uint64_t count_pieces(const struct stretches *stretches, double piece_s)
{
    uint64_t pieces = 0;

    for (size_t i = 0; i < stretches->count; i++)
        pieces += (uint64_t)((stretches->items[i].end_ns - stretches->items[i].begin_ns) /
                             lull_ns_from_ms(piece_s * 1e3));
    return pieces;
}

/* Chooses the length of the pieces; where nothing was lowered, the reference alone has to have
 * enough of them. */
static double choose_length_s(const struct stretches *reference, const struct stretches *lowered)
{
    uint32_t i = 0;

    while (i + 1 < LENGTHS &&
           (count_pieces(reference, lengths_s[i]) < LULL_SWING_MIN_PIECES ||
            (lowered->count > 0 && count_pieces(lowered, lengths_s[i]) < LULL_SWING_MIN_PIECES)))
        i++;
    return lengths_s[i];
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* Adds a GPU's power at each time of a piece, from the readings on both sides of it; NAN without
 * readings. *at is the sample to begin at, and advances. */
static void add_powers(const struct lull_samples *samples, size_t *at, int64_t begin_ns,
                       uint32_t count, double *powers_w)
{
    for (uint32_t i = 0; i < count; i++) {
        const int64_t time_ns = begin_ns + lull_ns_from_ms(i * step_s * 1e3);
        const struct lull_sample *before;
        const struct lull_sample *behind;
        double share;

        while (*at + 1 < samples->count && samples->items[*at + 1].time_ns <= time_ns)
            (*at)++;
        if (*at + 1 >= samples->count || samples->items[*at].time_ns > time_ns) {
            powers_w[i] = NAN;
            continue;
        }
        before = &samples->items[*at];
        behind = before + 1;
        if (((before->reading.valid & behind->reading.valid) & LULL_READING_POWER) == 0) {
            powers_w[i] = NAN;
            continue;
        }
        share = (double)(time_ns - before->time_ns) / (double)(behind->time_ns - before->time_ns);
        powers_w[i] +=
            1e-3 * ((1.0 - share) * before->reading.power_mw + share * behind->reading.power_mw);
    }
}

void lull_run_swing_powers(const struct lull_run_log *log, int64_t begin_ns, uint32_t count,
                           double *powers_w)
{
    size_t at = 0;

    add_powers(&log->samples, &at, begin_ns, count, powers_w);
}

static void add_pieces(const struct stretches *stretches, double piece_s, struct lull_swing *swing)
{
    const uint32_t count = (uint32_t)(piece_s / step_s + 0.5);
    const int64_t piece_ns = lull_ns_from_ms(count * step_s * 1e3);
    size_t at[LULL_CONTROLLER_MAX_GPUS] = {0};

    for (size_t i = 0; i < stretches->count; i++)
        for (int64_t begin_ns = stretches->items[i].begin_ns;
             begin_ns + piece_ns <= stretches->items[i].end_ns; begin_ns += piece_ns) {
            double powers_w[MAX_READINGS] = {0};

            for (uint32_t gpu = 0; gpu < lull_control_gpu_count(stretches->control); gpu++)
                if (lull_control_gpu(stretches->control, gpu)->process >= 0)
                    add_powers(&lull_control_log(stretches->control, gpu)->samples, &at[gpu],
                               begin_ns, count, powers_w);
            lull_swing_add(swing, powers_w, count, step_s);
        }
}

/* Returns what is missing; NULL: nothing is. */
static const char *run_swing_find_reason(const struct lull_run_swing *swing)
{
    if (swing->reference.mean_w.count == 0)
        return "no full second at the reference was measured; use --compare";
    if (swing->managed.mean_w.count == 0)
        return "nothing was lowered for a full second after settling";
    if (swing->managed.mean_w.count < LULL_SWING_MIN_PIECES ||
        swing->reference.mean_w.count < LULL_SWING_MIN_PIECES)
        return "fewer than three measurements of a kind, too few for their spread";
    return NULL;
}

void lull_run_swing_compute(const struct lull_control *managed,
                            const struct lull_control *unmanaged, double allowed_ratio,
                            int64_t since_ns, struct lull_run_swing *swing_out)
{
    struct stretches reference = unmanaged != NULL ? find_stretches(unmanaged, false, 0)
                                                   : find_stretches(managed, false, since_ns);
    struct stretches lowered = find_stretches(managed, true, since_ns);
    const double piece_s = choose_length_s(&reference, &lowered);

    *swing_out = (struct lull_run_swing){
        .piece_s = piece_s,
        .lowest_hz = fmax(LULL_SWING_LOWEST_HZ, 1.0 / piece_s),
        .highest_hz = fmin(LULL_SWING_HIGHEST_HZ, 0.5 / step_s),
    };
    add_pieces(&reference, piece_s, &swing_out->reference);
    add_pieces(&lowered, piece_s, &swing_out->managed);
    swing_out->reason = run_swing_find_reason(swing_out);
    swing_out->is_wider =
        lull_swing_is_wider(&swing_out->managed, &swing_out->reference, allowed_ratio);
    free(reference.items);
    free(lowered.items);
}

/* ---- given-up levers ------------------------------------------------------------------------ */

/* Names the levers that are given up now, or were. */
static const char *subject_of(const struct lull_swing_limit *limit)
{
    const bool has_sections = limit->cut.halvings > 0;

    if (limit->cut.gaps && has_sections)
        return "gaps are not lowered, and fewer sections are lowered,";
    if (has_sections)
        return "fewer sections are lowered";
    if (limit->cut.gaps)
        return "gaps are not lowered";
    return "fewer gaps or sections were lowered for some time, until it had passed or other clocks "
           "were accepted,";
}

const char *lull_run_swing_given_up(const struct lull_swing_limit *limit, char *text)
{
    const struct lull_swing_finding *finding = &limit->finding;

    if (finding->length_s == 0.0)
        return NULL;
    snprintf(text, LULL_RUN_SWING_TEXT,
             "%s because that made the power of the job's GPUs fluctuate by %.0f instead of %.0f W "
             "peak to peak, and by %.0f instead of %.0f W in the band, within %.0f s (%u pieces "
             "with and %u without it), which is more than --swing permits (%.3g %%); if the power "
             "supply permits more, use a larger --swing",
             subject_of(limit), finding->managed.peak_to_peak_w.mean,
             finding->reference.peak_to_peak_w.mean, finding->managed.band_w.mean,
             finding->reference.band_w.mean, finding->length_s,
             (unsigned)finding->managed.mean_w.count, (unsigned)finding->reference.mean_w.count,
             100.0 * limit->allowed_ratio);
    return text;
}
