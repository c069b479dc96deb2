/*
 * The claims that the figures of a run prove: a saving of energy with its interval, and a slowdown
 * with its upper bound against the permitted one. Every sentence, table, page and document about a
 * run takes its claim from here, so that none of them contradicts the figures.
 *
 * Ratios: 0.01 is 1 %. NAN: the figure is not known. An infinite bound, or one that is NAN, is no
 * bound. Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_GAIN_H
#define LULL_CORE_ENERGY_GAIN_H

enum lull_gain_saving {
    LULL_GAIN_SAVING_UNKNOWN,
    LULL_GAIN_SAVING_PROVEN,    /* the whole interval is above 0 */
    LULL_GAIN_SAVING_ESTIMATED, /* above 0, and no interval is known */
    LULL_GAIN_SAVING_UNPROVEN,  /* 0 lies within the interval, or no bound excludes it */
    LULL_GAIN_SAVING_NEGATIVE,  /* the whole interval is below 0: more energy */
};

enum lull_gain_slowdown {
    LULL_GAIN_SLOWDOWN_UNKNOWN,
    LULL_GAIN_SLOWDOWN_WITHIN,    /* the upper bound is at most the permitted slowdown */
    LULL_GAIN_SLOWDOWN_UNBOUNDED, /* the estimate is at most that, without a bound */
    LULL_GAIN_SLOWDOWN_UNPROVEN,  /* the estimate is at most that, the bound is above it */
    LULL_GAIN_SLOWDOWN_ABOVE,     /* the estimate is above the permitted slowdown */
};

/* Judges a saving and its interval, low_ratio <= saving_ratio <= high_ratio. */
enum lull_gain_saving lull_gain_judge_saving(double saving_ratio, double low_ratio,
                                             double high_ratio);

/* Judges a slowdown. allowed_ratio: INFINITY, or NAN, where no limit was promised. */
enum lull_gain_slowdown lull_gain_judge_slowdown(double slowdown_ratio, double upper_ratio,
                                                 double allowed_ratio);

#endif
