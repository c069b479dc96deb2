/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/swing_limit.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"

/* Time from reading to reading, s, and how far from it one may come (run_watch.c). */
static const double step_s = 0.1;
static const double step_spread_s = 0.05;
/* The number of readings of a piece, shortest first. */
static const uint32_t lengths[LULL_SWING_LENGTHS] = {10, 20, 50, 100};
/* Times for which a lever stays given up: the first one and the longest one. */
static const int64_t first_spacing_ns = 60 * LULL_NS_PER_S;
static const int64_t longest_spacing_ns = 3600 * LULL_NS_PER_S;

void lull_swing_limit_init(struct lull_swing_limit *limit, double allowed_ratio)
{
    assert(allowed_ratio >= 0.0);
    *limit = (struct lull_swing_limit){
        .allowed_ratio = allowed_ratio,
        .next_look = LULL_SWING_LIMIT_PIECES,
        .spacing_ns = first_spacing_ns,
    };
}

/* ---- giving up levers -------------------------------------------------------------------- */

bool lull_swing_cut_deepen(struct lull_swing_cut *cut, const struct lull_swing_levers *levers)
{
    if (levers->gaps && !cut->gaps) {
        cut->gaps = true;
        return true;
    }
    if (levers->deepest >> cut->halvings == 0)
        return false;
    cut->halvings++;
    return true;
}

bool lull_swing_cut_undo(struct lull_swing_cut *cut)
{
    if (cut->halvings > 0) {
        cut->halvings--;
        return true;
    }
    if (!cut->gaps)
        return false;
    cut->gaps = false;
    return true;
}

uint32_t lull_swing_cut_point(const struct lull_swing_cut *cut, bool is_gap, uint32_t steady,
                              uint32_t point)
{
    if (point <= steady)
        return point;
    if (is_gap)
        return cut->gaps ? steady : point;
    return steady + ((point - steady) >> cut->halvings);
}

/* ---- pieces ------------------------------------------------------------------------------ */

static void add_reading(struct lull_swing_pieces *pieces, uint32_t length,
                        enum lull_swing_side side, double power_w)
{
    pieces->powers_w[pieces->count++] = power_w;
    if (pieces->count < length)
        return;
    if (side == LULL_SWING_REFERENCE)
        lull_swing_add(&pieces->reference, pieces->powers_w, length, step_s);
    else
        lull_swing_add(&pieces->managed, pieces->powers_w, length, step_s);
    pieces->count = 0;
}

/* Ends the pieces under way: they would mix both sides. */
static void break_off(struct lull_swing_limit *limit)
{
    for (uint32_t i = 0; i < LULL_SWING_LENGTHS; i++)
        limit->pieces[i].count = 0;
}

/* Forgets the swings of the points accepted so far: they say nothing about those accepted from now
 * on. */
static void forget_managed(struct lull_swing_limit *limit)
{
    for (uint32_t i = 0; i < LULL_SWING_LENGTHS; i++)
        limit->pieces[i].managed = (struct lull_swing){0};
    break_off(limit);
    limit->next_look = LULL_SWING_LIMIT_PIECES;
}

const struct lull_swing_pieces *lull_swing_limit_known(const struct lull_swing_limit *limit,
                                                       double *length_s_out)
{
    for (uint32_t i = LULL_SWING_LENGTHS; i-- > 0;) {
        const struct lull_swing_pieces *pieces = &limit->pieces[i];

        if (pieces->reference.mean_w.count < LULL_SWING_LIMIT_PIECES ||
            pieces->managed.mean_w.count < LULL_SWING_LIMIT_PIECES)
            continue;
        *length_s_out = lengths[i] * step_s;
        return pieces;
    }
    return NULL;
}

/* ---- decisions --------------------------------------------------------------------------- */

/* Judges the readings if there are twice as many as at the last judgement. */
static bool looks_wider(struct lull_swing_limit *limit)
{
    double length_s;
    const struct lull_swing_pieces *pieces = lull_swing_limit_known(limit, &length_s);

    /* The shortest pieces are the most frequent, so their number measures how much has been read.
     */
    if (pieces == NULL || limit->pieces[0].managed.mean_w.count < limit->next_look)
        return false;
    limit->next_look = 2 * limit->pieces[0].managed.mean_w.count;
    if (!lull_swing_is_wider(&pieces->managed, &pieces->reference, limit->allowed_ratio))
        return false;
    limit->finding = (struct lull_swing_finding){length_s, pieces->reference, pieces->managed};
    return true;
}

static bool swing_limit_abandon(struct lull_swing_limit *limit,
                                const struct lull_swing_levers *levers)
{
    struct lull_swing_cut deeper = limit->cut;

    if (!lull_swing_cut_deepen(&deeper, levers) || !looks_wider(limit))
        return false;
    limit->cut = deeper;
    limit->retry_ns = limit->last_ns + limit->spacing_ns;
    if (limit->spacing_ns < longest_spacing_ns)
        limit->spacing_ns *= 2;
    return true;
}

static bool swing_limit_admit(struct lull_swing_limit *limit)
{
    if (limit->last_ns < limit->retry_ns || !lull_swing_cut_undo(&limit->cut))
        return false;
    limit->retry_ns = limit->last_ns + limit->spacing_ns;
    return true;
}

bool lull_swing_limit_take(struct lull_swing_limit *limit, enum lull_swing_side side,
                           int64_t time_ns, double power_w, const struct lull_swing_levers *levers)
{
    const double late_s = lull_ms_from_ns(time_ns - limit->last_ns) * 1e-3 - step_s;
    /* A sensor averages over the time before its reading, so the first reading after a change mixes
     * both sides. */
    const bool goes_on = side == limit->side && late_s >= -step_spread_s && late_s <= step_spread_s;

    limit->side = side;
    limit->last_ns = time_ns;
    if (!goes_on)
        break_off(limit);
    if (!goes_on || side == LULL_SWING_NEITHER)
        return false;
    for (uint32_t i = 0; i < LULL_SWING_LENGTHS; i++)
        add_reading(&limit->pieces[i], lengths[i], side, power_w);
    if (side != LULL_SWING_MANAGED ||
        (!swing_limit_abandon(limit, levers) && !swing_limit_admit(limit)))
        return false;
    forget_managed(limit);
    return true;
}

void lull_swing_limit_renew(struct lull_swing_limit *limit)
{
    limit->cut = (struct lull_swing_cut){0};
    limit->retry_ns = 0;
    limit->spacing_ns = first_spacing_ns;
    forget_managed(limit);
}
