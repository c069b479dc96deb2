/*
 * The power of a cluster over time, by GPU type and by consumer. The caller reports every change;
 * power is constant between changes. Its integral is energy; weighed by a tariff, it is money or
 * carbon.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_METER_H
#define LULL_CLUSTER_CORE_POWER_POWER_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum lull_power_part {
    LULL_POWER_JOBS,    /* GPUs with a job */
    LULL_POWER_IDLE,    /* GPUs of nodes that are on without a job, and nodes that are off */
    LULL_POWER_TURN_ON, /* nodes that are turning on */
    LULL_POWER_PARTS,
};

/* Power from time_ns until the next point of the type. */
struct lull_power_point {
    int64_t time_ns;
    uint32_t type; /* of GPU */
    double w[LULL_POWER_PARTS];
    double at_once_j; /* spent at time_ns itself: nodes that turn on in no time */
};

/* The cost or emission of a kilowatt-hour: value[i] from time_ns[i] until
 * the next time, value[0] before the first, and the last one forever. */
struct lull_tariff {
    const int64_t *time_ns; /* rising */
    const double *value;    /* per kWh; may be negative */
    size_t count;           /* > 0 */
};

struct lull_power_meter; /* opaque */

/*
 * At time 0 all power is 0. keeps_points: the function itself too, not only its integrals;
 * memory then grows with the changes. Borrows the tariffs; NULL: none. -ENOMEM.
 */
int lull_power_meter_create(uint32_t type_count, bool keeps_points, const struct lull_tariff *price,
                            const struct lull_tariff *carbon, struct lull_power_meter **meter_out);
void lull_power_meter_destroy(struct lull_power_meter *meter);

/*
 * Records that the part draws w watts from now on. now_ns never falls from one call of a function
 * here to the next. O(1), and as many steps as a tariff takes in between. Errors: -ENOMEM.
 */
int lull_power_meter_set(struct lull_power_meter *meter, uint32_t type, enum lull_power_part part,
                         double w, int64_t now_ns);

/* Turning a node on has taken j joules at once. -ENOMEM. */
int lull_power_meter_spend(struct lull_power_meter *meter, uint32_t type, double j, int64_t now_ns);

/* Readings are those of the last mark. O(types). */
void lull_power_meter_mark(struct lull_power_meter *meter, int64_t now_ns);

/* The energy of a part from time 0 until the mark, J. */
double lull_power_meter_j(const struct lull_power_meter *meter, uint32_t type,
                          enum lull_power_part part);

/* The cost and emissions of all energy until the mark, in the units of the tariffs; 0 without one.
 */
double lull_power_meter_price(const struct lull_power_meter *meter);
double lull_power_meter_carbon(const struct lull_power_meter *meter);

int64_t lull_power_meter_marked_ns(const struct lull_power_meter *meter);

/*
 * The function until the mark: changes in the order of time, each of one type, at most one of a
 * type at a time; the power of a type is 0 before its first change. Empty unless points are kept.
 */
const struct lull_power_point *lull_power_meter_points(const struct lull_power_meter *meter,
                                                       size_t *count_out);

#endif
