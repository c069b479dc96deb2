/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_meter.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define J_PER_KWH 3.6e6

/* A compensated sum (Neumaier 1974), because millions of small terms are added up. */
struct power_meter_sum {
    double high;
    double low;
};

/* The total of all parts under a tariff. */
struct bill {
    const struct lull_tariff *tariff; /* NULL: none */
    size_t at;                        /* the step that holds now */
    struct power_meter_sum sum;
    double marked;
};

struct dial {
    double w[LULL_POWER_PARTS];
    struct power_meter_sum j[LULL_POWER_PARTS];
    double marked_j[LULL_POWER_PARTS];
    int64_t since_ns[LULL_POWER_PARTS]; /* j holds until here */
    size_t last;                        /* its last point; SIZE_MAX: none */
};

struct lull_power_meter {
    uint32_t type_count;
    struct dial *dials; /* [type] */
    double total_w;
    struct bill price, carbon;
    int64_t now_ns; /* the bills hold until here */
    int64_t marked_ns;
    bool keeps_points;
    struct lull_power_point *points;
    size_t count, room;
    size_t marked_count;
};

static void power_meter_add(struct power_meter_sum *sum, double value)
{
    const double total = sum->high + value;

    sum->low +=
        fabs(sum->high) >= fabs(value) ? (sum->high - total) + value : (value - total) + sum->high;
    sum->high = total;
}

static double power_meter_value_of(const struct power_meter_sum *sum)
{
    return sum->high + sum->low;
}

/* ---- tariffs ------------------------------------------------------------------------------ */

/* Charges w watts from one time to another. */
static void power_meter_charge(struct bill *bill, double w, int64_t from_ns, int64_t to_ns)
{
    const struct lull_tariff *tariff = bill->tariff;

    if (tariff == NULL)
        return;
    while (bill->at + 1 < tariff->count && tariff->time_ns[bill->at + 1] < to_ns) {
        const int64_t step_ns = tariff->time_ns[bill->at + 1];

        if (step_ns > from_ns) {
            power_meter_add(&bill->sum,
                            w * (double)(step_ns - from_ns) * 1e-9 * tariff->value[bill->at]);
            from_ns = step_ns;
        }
        bill->at++;
    }
    power_meter_add(&bill->sum, w * (double)(to_ns - from_ns) * 1e-9 * tariff->value[bill->at]);
}

/* Charges energy that is spent in no time, at the step that holds now. */
static void charge_at_once(struct bill *bill, double j, int64_t now_ns)
{
    const struct lull_tariff *tariff = bill->tariff;

    if (tariff == NULL)
        return;
    while (bill->at + 1 < tariff->count && tariff->time_ns[bill->at + 1] <= now_ns)
        bill->at++;
    power_meter_add(&bill->sum, j * tariff->value[bill->at]);
}

/* Charges the energy of all parts since the last call. */
static void power_meter_advance(struct lull_power_meter *meter, int64_t now_ns)
{
    assert(now_ns >= meter->now_ns);
    if (now_ns == meter->now_ns)
        return;
    power_meter_charge(&meter->price, meter->total_w, meter->now_ns, now_ns);
    power_meter_charge(&meter->carbon, meter->total_w, meter->now_ns, now_ns);
    meter->now_ns = now_ns;
}

/* ---- points ------------------------------------------------------------------------------- */

/* The type's point at this time, made if there is none yet; NULL: out of memory. */
static struct lull_power_point *power_meter_point_at(struct lull_power_meter *meter, uint32_t type,
                                                     int64_t now_ns)
{
    struct dial *const dial = &meter->dials[type];
    struct lull_power_point *point;

    if (dial->last != SIZE_MAX && meter->points[dial->last].time_ns == now_ns)
        return &meter->points[dial->last];
    if (lull_array_reserve(&meter->points, &meter->room, meter->count, sizeof(*point)) < 0)
        return NULL;
    dial->last = meter->count++;
    point = &meter->points[dial->last];
    *point = (struct lull_power_point){.time_ns = now_ns, .type = type};
    memcpy(point->w, dial->w, sizeof(point->w));
    return point;
}

/* ---- the meter ---------------------------------------------------------------------------- */

int lull_power_meter_create(uint32_t type_count, bool keeps_points, const struct lull_tariff *price,
                            const struct lull_tariff *carbon, struct lull_power_meter **meter_out)
{
    struct lull_power_meter *meter = calloc(1, sizeof(*meter));
    struct dial *dials = calloc(type_count > 0 ? type_count : 1, sizeof(*dials));

    if (meter == NULL || dials == NULL) {
        free(meter);
        free(dials);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < type_count; i++)
        dials[i].last = SIZE_MAX;
    *meter = (struct lull_power_meter){.type_count = type_count,
                                       .dials = dials,
                                       .price = {.tariff = price},
                                       .carbon = {.tariff = carbon},
                                       .keeps_points = keeps_points};
    *meter_out = meter;
    return 0;
}

void lull_power_meter_destroy(struct lull_power_meter *meter)
{
    if (meter == NULL)
        return;
    free(meter->dials);
    free(meter->points);
    free(meter);
}

/* Adds what a part drew since it last changed to its energy. */
static void power_meter_settle(struct dial *dial, enum lull_power_part part, int64_t now_ns)
{
    assert(now_ns >= dial->since_ns[part]);
    power_meter_add(&dial->j[part], dial->w[part] * (double)(now_ns - dial->since_ns[part]) * 1e-9);
    dial->since_ns[part] = now_ns;
}

int lull_power_meter_set(struct lull_power_meter *meter, uint32_t type, enum lull_power_part part,
                         double w, int64_t now_ns)
{
    struct dial *const dial = &meter->dials[type];

    if (w == dial->w[part])
        return 0;
    if (meter->keeps_points) {
        struct lull_power_point *const point = power_meter_point_at(meter, type, now_ns);

        if (point == NULL)
            return -ENOMEM;
        point->w[part] = w;
    }
    power_meter_advance(meter, now_ns);
    power_meter_settle(dial, part, now_ns);
    dial->w[part] = w;
    meter->total_w = 0.0;
    for (uint32_t i = 0; i < meter->type_count; i++)
        for (int each = 0; each < LULL_POWER_PARTS; each++)
            meter->total_w += meter->dials[i].w[each];
    return 0;
}

int lull_power_meter_spend(struct lull_power_meter *meter, uint32_t type, double j, int64_t now_ns)
{
    if (meter->keeps_points) {
        struct lull_power_point *const point = power_meter_point_at(meter, type, now_ns);

        if (point == NULL)
            return -ENOMEM;
        point->at_once_j += j;
    }
    power_meter_advance(meter, now_ns);
    power_meter_add(&meter->dials[type].j[LULL_POWER_TURN_ON], j);
    charge_at_once(&meter->price, j, now_ns);
    charge_at_once(&meter->carbon, j, now_ns);
    return 0;
}

void lull_power_meter_mark(struct lull_power_meter *meter, int64_t now_ns)
{
    power_meter_advance(meter, now_ns);
    for (uint32_t type = 0; type < meter->type_count; type++)
        for (int part = 0; part < LULL_POWER_PARTS; part++) {
            struct dial *const dial = &meter->dials[type];

            power_meter_settle(dial, (enum lull_power_part)part, now_ns);
            dial->marked_j[part] = power_meter_value_of(&dial->j[part]);
        }
    meter->price.marked = power_meter_value_of(&meter->price.sum);
    meter->carbon.marked = power_meter_value_of(&meter->carbon.sum);
    meter->marked_ns = now_ns;
    meter->marked_count = meter->count;
}

double lull_power_meter_j(const struct lull_power_meter *meter, uint32_t type,
                          enum lull_power_part part)
{
    return meter->dials[type].marked_j[part];
}

double lull_power_meter_price(const struct lull_power_meter *meter)
{
    return meter->price.marked / J_PER_KWH;
}

double lull_power_meter_carbon(const struct lull_power_meter *meter)
{
    return meter->carbon.marked / J_PER_KWH;
}

int64_t lull_power_meter_marked_ns(const struct lull_power_meter *meter)
{
    return meter->marked_ns;
}

const struct lull_power_point *lull_power_meter_points(const struct lull_power_meter *meter,
                                                       size_t *count_out)
{
    *count_out = meter->marked_count;
    return meter->points;
}
