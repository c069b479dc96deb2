/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/serving/gpus.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/physics/physics.h"
#include "simulator/driver.h"

static const int64_t never_ns = INT64_MAX;
/* Readings of the clock are not used here, and take most of the physics' time. */
static const double clock_refresh_ms = 1e6;

struct lull_serving_gpus {
    uint32_t count;
    struct lull_physics *units[LULL_SERVING_GPUS];
    uint64_t random[LULL_SERVING_GPUS]; /* generators of settling times of units that rest */
    bool are_apart;  /* all units are simulated; else the first one stands for all */
    double offset_j; /* of all units together, from the first one's energy times their number */
    struct lull_virtual_driver *driver;
    int64_t driver_ns; /* its next event */
    bool is_busy;
    int context;
    uint64_t next_work;
    double mhz; /* in force on all; NAN: they differ */
    int64_t since_ns;
    double counted_j;
};

static uint32_t awake_count(const struct lull_serving_gpus *gpus)
{
    return gpus->are_apart ? gpus->count : 1;
}

/* ---- life --------------------------------------------------------------------------------- */

static void gpus_ignore_outcome(void *context, uint32_t gpu,
                                const struct lull_switch_outcome *outcome)
{
    (void)context;
    (void)gpu;
    (void)outcome;
}

struct lull_serving_gpus *lull_serving_gpus_create(const struct lull_gpu_model *model,
                                                   uint32_t count, uint64_t seed)
{
    struct lull_serving_gpus *gpus = calloc(1, sizeof(*gpus));
    struct lull_gpu_model quiet = *model;
    bool is_complete = gpus != NULL;

    assert(count > 0 && count <= LULL_SERVING_GPUS);
    quiet.clock_refresh_ms = clock_refresh_ms;
    for (uint32_t i = 0; i < count && is_complete; i++) {
        gpus->units[i] = malloc(sizeof(*gpus->units[i]));
        is_complete = gpus->units[i] != NULL;
        if (!is_complete)
            break;
        lull_physics_init(gpus->units[i], &quiet, 0, 0);
        gpus->units[i]->no_activity = true;
        gpus->random[i] = lull_noise_mix(seed ^ lull_noise_mix(i + 1));
        gpus->context = lull_physics_open(gpus->units[i], 0, 0);
    }
    if (is_complete)
        gpus->driver = lull_virtual_driver_create(gpus->units, count, 0, lull_noise_mix(seed),
                                                  gpus_ignore_outcome, NULL);
    if (!is_complete || gpus->driver == NULL) {
        lull_serving_gpus_destroy(gpus);
        return NULL;
    }
    gpus->count = count;
    gpus->driver_ns = never_ns;
    gpus->mhz = model->sm_max_mhz;
    return gpus;
}

void lull_serving_gpus_destroy(struct lull_serving_gpus *gpus)
{
    if (gpus == NULL)
        return;
    lull_virtual_driver_destroy(gpus->driver);
    for (uint32_t i = 0; i < LULL_SERVING_GPUS; i++)
        free(gpus->units[i]);
    free(gpus);
}

/* ---- one or all --------------------------------------------------------------------------- */

/* Simulates each unit by itself, from the state of the first one. */
static void gpus_part(struct lull_serving_gpus *gpus)
{
    if (gpus->are_apart)
        return;
    gpus->are_apart = true;
    gpus->units[0]->random = gpus->random[0];
    for (uint32_t i = 1; i < gpus->count; i++) {
        lull_physics_copy(gpus->units[i], gpus->units[0]);
        gpus->units[i]->random = gpus->random[i];
    }
}

static bool are_alike(const struct lull_serving_gpus *gpus)
{
    const struct lull_physics *first = gpus->units[0];

    for (uint32_t i = 0; i < gpus->count; i++) {
        const struct lull_physics *unit = gpus->units[i];

        if (unit->pending_count > 0 ||
            lull_physics_setting_step(&unit->model, &unit->setting) !=
                lull_physics_setting_step(&first->model, &first->setting))
            return false;
    }
    return true;
}

/* Notes whether all units run at one clock. Between two steps the first one may stand for all
 * again; differences of temperature are then dropped. */
static void gpus_compare(struct lull_serving_gpus *gpus, int64_t now_ns)
{
    const struct lull_physics *first = gpus->units[0];

    if (!gpus->are_apart)
        return;
    if (!are_alike(gpus)) {
        gpus->mhz = NAN;
        return;
    }
    if (isnan(gpus->mhz)) {
        gpus->mhz = lull_gpu_model_step_mhz(
            &first->model, lull_physics_setting_step(&first->model, &first->setting));
        gpus->since_ns = now_ns;
    }
    if (gpus->is_busy || gpus->driver_ns != never_ns)
        return;
    for (uint32_t i = 0; i < gpus->count; i++) {
        gpus->offset_j += lull_physics_energy_j(gpus->units[i]) - lull_physics_energy_j(first);
        gpus->random[i] = gpus->units[i]->random;
    }
    gpus->are_apart = false;
}

/* ---- settings ----------------------------------------------------------------------------- */

void lull_serving_gpus_set(struct lull_serving_gpus *gpus, double mhz, int64_t now_ns)
{
    const struct lull_gpu_model *model = &gpus->units[0]->model;
    const uint32_t step = lull_gpu_model_nearest_step(model, mhz);

    if (step == lull_physics_setting_step(model, &gpus->units[0]->setting) && !gpus->are_apart)
        return;
    for (uint32_t i = 0; i < awake_count(gpus); i++) {
        lull_physics_advance(gpus->units[i], now_ns);
        lull_physics_lock(gpus->units[i], step, 0.0);
        lull_physics_advance(gpus->units[i], now_ns);
    }
    gpus->mhz = lull_gpu_model_step_mhz(model, step);
    gpus->since_ns = now_ns;
}

void lull_serving_gpus_limit(struct lull_serving_gpus *gpus, double limit_w)
{
    for (uint32_t i = 0; i < awake_count(gpus); i++)
        lull_physics_set_limit(gpus->units[i], limit_w);
}

void lull_serving_gpus_ask(struct lull_serving_gpus *gpus, double mhz, int64_t now_ns)
{
    const struct lull_gpu_model *model = &gpus->units[0]->model;
    const uint32_t point =
        lull_gpu_model_step_count(model) - 1 - lull_gpu_model_nearest_step(model, mhz);

    for (uint32_t i = 0; i < awake_count(gpus); i++)
        lull_physics_advance(gpus->units[i], now_ns);
    gpus_part(gpus);
    for (uint32_t i = 0; i < gpus->count; i++)
        lull_virtual_driver_ask(
            gpus->driver,
            &(struct lull_command){
                .gpu = i, .point = point, .deadline_ns = never_ns, .valid_until_ns = never_ns},
            now_ns);
    gpus->driver_ns = lull_virtual_driver_advance(gpus->driver, now_ns);
}

/* ---- steps -------------------------------------------------------------------------------- */

void lull_serving_gpus_begin(struct lull_serving_gpus *gpus, const struct lull_step_cost *cost,
                             int64_t now_ns)
{
    const struct lull_physics_work work = {
        .after = {LULL_PHYSICS_NO_WORK, LULL_PHYSICS_NO_WORK},
        .earliest_ns = now_ns + (int64_t)(cost->host_s * 1e9),
        .duration_s = cost->gpu_s,
        .profile = cost->profile,
    };

    assert(!gpus->is_busy);
    for (uint32_t i = 0; i < awake_count(gpus); i++) {
        bool has_room;

        lull_physics_advance(gpus->units[i], now_ns);
        has_room = lull_physics_enqueue(gpus->units[i], gpus->context, &work);
        assert(has_room);
    }
    gpus->is_busy = true;
}

static bool has_ended(const struct lull_serving_gpus *gpus)
{
    for (uint32_t i = 0; i < awake_count(gpus); i++)
        if (gpus->units[i]->contexts[gpus->context].count > 0)
            return false;
    return true;
}

bool lull_serving_gpus_advance(struct lull_serving_gpus *gpus, int64_t now_ns)
{
    const bool was_busy = gpus->is_busy;

    for (uint32_t i = 0; i < awake_count(gpus); i++)
        lull_physics_advance(gpus->units[i], now_ns);
    if (gpus->driver_ns <= now_ns)
        gpus->driver_ns = lull_virtual_driver_advance(gpus->driver, now_ns);
    gpus->is_busy = was_busy && !has_ended(gpus);
    gpus_compare(gpus, now_ns);
    return was_busy && !gpus->is_busy;
}

int64_t lull_serving_gpus_next_ns(const struct lull_serving_gpus *gpus)
{
    int64_t next_ns = gpus->driver_ns;

    for (uint32_t i = 0; i < awake_count(gpus) && (gpus->is_busy || gpus->are_apart); i++)
        next_ns = lull_earlier_ns(next_ns, lull_physics_rate_change_ns(gpus->units[i]));
    return next_ns;
}

bool lull_serving_gpus_is_busy(const struct lull_serving_gpus *gpus)
{
    return gpus->is_busy;
}

double lull_serving_gpus_mhz(const struct lull_serving_gpus *gpus, int64_t *since_ns_out)
{
    *since_ns_out = gpus->since_ns;
    return gpus->mhz;
}

/* ---- energy ------------------------------------------------------------------------------- */

double lull_serving_gpus_energy_j(const struct lull_serving_gpus *gpus)
{
    double sum_j = gpus->offset_j;

    for (uint32_t i = 0; i < gpus->count; i++)
        sum_j += lull_physics_energy_j(gpus->units[gpus->are_apart ? i : 0]);
    return sum_j;
}

double lull_serving_gpus_counted_j(struct lull_serving_gpus *gpus)
{
    double sum_j = gpus->offset_j;

    for (uint32_t i = 0; i < gpus->count; i++)
        sum_j += 1e-3 * (double)lull_physics_published_mj(gpus->units[gpus->are_apart ? i : 0]);
    /* The offset is newer than the counters, which must not go back. */
    gpus->counted_j = fmax(gpus->counted_j, sum_j);
    return gpus->counted_j;
}

uint64_t lull_serving_gpus_calls(const struct lull_serving_gpus *gpus)
{
    return lull_virtual_driver_calls(gpus->driver);
}
