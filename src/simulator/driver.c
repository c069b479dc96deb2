/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/driver.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/switch_budget.h"
#include "base/switch_look.h"

/* The budget of lowerings of the daemon's writer (device/writer.h). */
static const int64_t lowering_gap_ns = INT64_C(20000000);
static const int64_t lowering_refill_ns = INT64_C(50000000);
static const int64_t never_ns = INT64_MAX;
/* After this long without following the request, a clock counts as never following it
 * (governor/control). */
static const int64_t obedience_ns = INT64_C(60000000);

enum { SETTLING = 8 };

/* Results of reading the clock since the last call. */
struct observation {
    bool is_running;
    struct lull_switch_outcome outcome; /* its effect_ns: when the call returned */
    int64_t read_ns;                    /* the reading before; at first, the end of the call */
    int64_t next_ns;
    uint64_t number; /* of the call among those for this GPU */
};

struct driver_unit {
    struct lull_physics *gpu;
    bool waits;
    struct lull_command command;
    int64_t asked_ns;
    struct lull_switch_budget budget;
    int64_t valid_until_ns; /* until when the lowering in force is valid; never_ns: none is */
    uint32_t point;
    struct lull_switch_outcome
        settling[SETTLING]; /* outcomes whose clock has not settled, in order of time */
    uint32_t settling_count;
    struct observation observation;
};

struct lull_virtual_driver {
    struct driver_unit units[LULL_CONTROLLER_MAX_GPUS];
    uint32_t gpu_count;
    int64_t look_ns; /* 0: clocks are not read, their outcomes wait in settling */
    uint64_t random;
    lull_driven_function driven;
    void *context;
    int32_t busy_with; /* the GPU whose call is under way; -1: none is */
    struct lull_command call;
    int64_t call_asked_ns;
    int64_t call_begun_ns;
    int64_t call_ends_ns;
    uint64_t calls;
};

static void virtual_driver_init_unit(struct driver_unit *unit, struct lull_physics *gpu)
{
    *unit = (struct driver_unit){.gpu = gpu, .valid_until_ns = never_ns};
    lull_switch_budget_init(&unit->budget, lowering_gap_ns, lowering_refill_ns);
}

struct lull_virtual_driver *lull_virtual_driver_create(struct lull_physics *const *gpus,
                                                       uint32_t gpu_count, int64_t look_ns,
                                                       uint64_t seed, lull_driven_function driven,
                                                       void *context)
{
    struct lull_virtual_driver *driver = calloc(1, sizeof(*driver));

    if (driver == NULL)
        return NULL;
    driver->gpu_count = gpu_count;
    driver->look_ns = look_ns;
    driver->random = seed;
    driver->driven = driven;
    driver->context = context;
    driver->busy_with = -1;
    for (uint32_t i = 0; i < gpu_count; i++)
        virtual_driver_init_unit(&driver->units[i], gpus[i]);
    return driver;
}

void lull_virtual_driver_destroy(struct lull_virtual_driver *driver)
{
    free(driver);
}

void lull_virtual_driver_ask(struct lull_virtual_driver *driver, const struct lull_command *command,
                             int64_t now_ns)
{
    struct driver_unit *unit = &driver->units[command->gpu];

    unit->waits = true;
    unit->command = *command;
    unit->asked_ns = now_ns;
}

/* Reports the switches whose clock has settled by now. */
static void virtual_driver_settle(struct lull_virtual_driver *driver, uint32_t gpu, int64_t now_ns)
{
    struct driver_unit *unit = &driver->units[gpu];

    while (unit->settling_count > 0 && unit->settling[0].effect_ns <= now_ns) {
        const struct lull_switch_outcome outcome = unit->settling[0];

        unit->settling_count--;
        for (uint32_t i = 0; i < unit->settling_count; i++)
            unit->settling[i] = unit->settling[i + 1];
        driver->driven(driver->context, gpu, &outcome);
    }
}

/* ---- reading back ---- */

static void virtual_driver_end_observation(struct lull_virtual_driver *driver, uint32_t gpu,
                                           double settle_ms, int64_t effect_ns)
{
    struct observation *observation = &driver->units[gpu].observation;

    observation->is_running = false;
    observation->outcome.settle_ms = settle_ms;
    observation->outcome.effect_ns = effect_ns;
    driver->driven(driver->context, gpu, &observation->outcome);
}

/* The call begun at begun_ns ended the reading back of the call before it. */
static void virtual_driver_overtake(struct lull_virtual_driver *driver, uint32_t gpu,
                                    int64_t begun_ns)
{
    struct observation *observation = &driver->units[gpu].observation;
    const int64_t end_ns = observation->outcome.effect_ns;

    if (!observation->is_running)
        return;
    if (observation->read_ns == end_ns) { /* the clock was not read */
        virtual_driver_end_observation(driver, gpu, NAN, end_ns);
    } else if (begun_ns - end_ns > obedience_ns) {
        virtual_driver_end_observation(driver, gpu, -1.0, end_ns + obedience_ns);
    } else {
        observation->outcome.overtaken = true;
        virtual_driver_end_observation(driver, gpu, lull_ms_from_ns(observation->read_ns - end_ns),
                                       observation->read_ns);
    }
}

/* Reads the clock as the writer does. A lock has taken effect if the clock equals it. A reset has
 * taken effect if the clock differs from the previous lock. */
static bool has_followed(const struct driver_unit *unit)
{
    const uint32_t top = lull_gpu_model_step_count(&unit->gpu->model) - 1;
    const struct lull_switch_outcome *outcome = &unit->observation.outcome;
    const uint32_t seen = unit->gpu->setting.is_locked ? top - unit->gpu->setting.max_step : 0;

    return outcome->point == 0 ? seen != outcome->was_point : seen == outcome->point;
}

static void virtual_driver_observe(struct lull_virtual_driver *driver, uint32_t gpu, int64_t now_ns)
{
    struct observation *observation = &driver->units[gpu].observation;

    if (!observation->is_running || observation->next_ns > now_ns)
        return;
    if (has_followed(&driver->units[gpu])) {
        const int64_t effect_ns = (observation->read_ns + now_ns) / 2;

        observation->outcome.unsure_ms = lull_ms_from_ns(now_ns - effect_ns);
        virtual_driver_end_observation(
            driver, gpu, lull_ms_from_ns(effect_ns - observation->outcome.effect_ns), effect_ns);
    }
    observation->read_ns = now_ns;
    observation->next_ns = now_ns + driver->look_ns;
}

/* A clock settles, or is read, from the end of its call on. */
static void virtual_driver_watch_clock(struct lull_virtual_driver *driver, uint32_t gpu,
                                       const struct lull_switch_outcome *outcome, int64_t end_ns)
{
    struct driver_unit *unit = &driver->units[gpu];
    const uint64_t number = unit->observation.number;

    if (driver->look_ns == 0) {
        /* If too many wait, this switch replaces the last one, which it has overtaken. */
        if (unit->settling_count == SETTLING)
            unit->settling_count--;
        unit->settling[unit->settling_count++] = *outcome;
        return;
    }
    virtual_driver_overtake(driver, gpu, driver->call_begun_ns);
    unit->observation = (struct observation){
        .is_running = true,
        .outcome = *outcome,
        .read_ns = end_ns,
        .next_ns = end_ns + lull_switch_first_look_ns(driver->look_ns, number),
        .number = number + 1,
    };
    unit->observation.outcome.effect_ns = end_ns;
}

/* ---- calls ---- */

/* Ends the call that is under way; from now on the GPU's clock settles. */
static void finish_call(struct lull_virtual_driver *driver)
{
    const uint32_t gpu = (uint32_t)driver->busy_with;
    struct driver_unit *unit = &driver->units[gpu];
    const uint32_t point = driver->call.point;
    const uint32_t top = lull_gpu_model_step_count(&unit->gpu->model) - 1;
    const struct lull_clock_setting setting = {.is_locked = true, .max_step = top - point};
    const int64_t now_ns = driver->call_ends_ns;
    int64_t effective_ns;

    lull_physics_ask_clocks(unit->gpu, &setting, 1.0);
    effective_ns = unit->gpu->pending_count == 0
                       ? now_ns
                       : unit->gpu->pending[unit->gpu->pending_count - 1].effective_ns;
    if (point < unit->point)
        lull_switch_budget_raise(&unit->budget, now_ns);
    unit->valid_until_ns = point == 0 ? never_ns : driver->call.valid_until_ns;
    virtual_driver_watch_clock(driver, gpu,
                               &(struct lull_switch_outcome){
                                   .was_point = unit->point,
                                   .point = point,
                                   .call_ms = (double)(now_ns - driver->call_asked_ns) * 1e-6,
                                   .driver_ms = (double)(now_ns - driver->call_begun_ns) * 1e-6,
                                   .settle_ms = (double)(effective_ns - now_ns) * 1e-6,
                                   .effect_ns = effective_ns,
                               },
                               now_ns);
    unit->point = point;
    driver->busy_with = -1;
}

/* The request of this GPU is for a higher clock than it has. */
static bool virtual_driver_is_raise(const struct driver_unit *unit)
{
    return unit->command.point < unit->point;
}

/* Drops a request that needs no call or comes too late, and replaces a lowering that was not
 * renewed by a raising. */
static void virtual_driver_sift(struct driver_unit *unit, uint32_t gpu, int64_t now_ns)
{
    if (unit->waits && unit->command.point == unit->point) {
        unit->waits = false;
        unit->valid_until_ns = unit->point == 0 ? never_ns : unit->command.valid_until_ns;
    } else if (unit->waits && !virtual_driver_is_raise(unit) &&
               unit->command.deadline_ns < now_ns) {
        unit->waits = false;
    }
    if (!unit->waits && unit->valid_until_ns <= now_ns) {
        unit->waits = true;
        unit->command = (struct lull_command){.gpu = gpu};
        unit->asked_ns = now_ns;
    }
}

/* Time at which the request of this GPU may be served; never_ns: it has none. */
static int64_t ready_ns(const struct driver_unit *unit)
{
    if (!unit->waits)
        return never_ns;
    if (virtual_driver_is_raise(unit) || lull_switch_budget_from_ns(&unit->budget) < unit->asked_ns)
        return unit->asked_ns;
    return lull_switch_budget_from_ns(&unit->budget);
}

/* Returns whether a goes before b: raisings come first, in the
 * order of the requests, then lowerings by deadline.
 */
static bool goes_before(const struct driver_unit *a, const struct driver_unit *b)
{
    const bool raises_a = virtual_driver_is_raise(a);
    const bool raises_b = virtual_driver_is_raise(b);

    if (raises_a != raises_b)
        return raises_a;
    if (raises_a)
        return a->asked_ns < b->asked_ns;
    return a->command.deadline_ns < b->command.deadline_ns;
}

/* Begins the first call in that order that may be served now, if there is one. */
static void virtual_driver_begin_call(struct lull_virtual_driver *driver, int64_t now_ns)
{
    int32_t best = -1;

    for (uint32_t i = 0; i < driver->gpu_count; i++) {
        struct driver_unit *unit = &driver->units[i];

        virtual_driver_sift(unit, i, now_ns);
        if (ready_ns(unit) <= now_ns && (best < 0 || goes_before(unit, &driver->units[best])))
            best = (int32_t)i;
    }
    if (best < 0)
        return;
    driver->busy_with = best;
    driver->call = driver->units[best].command;
    driver->call_asked_ns = driver->units[best].asked_ns;
    driver->call_begun_ns = now_ns;
    driver->units[best].waits = false;
    if (!virtual_driver_is_raise(&driver->units[best]))
        lull_switch_budget_lower(&driver->units[best].budget, now_ns);
    driver->call_ends_ns =
        now_ns +
        (int64_t)(1e6 * lull_physics_draw_api_ms(&driver->units[best].gpu->model, &driver->random));
    driver->calls++;
}

/* Time at which an idle driver has to begin a call for this GPU, because one is requested or
 * because a lowering has to be undone. */
static int64_t virtual_driver_due_ns(const struct driver_unit *unit)
{
    if (unit->waits)
        return ready_ns(unit);
    return unit->valid_until_ns;
}

/* The next time at which something happens. A busy driver begins no other call until its call
 * returns, however long that is overdue. */
static int64_t virtual_driver_next_ns(const struct lull_virtual_driver *driver)
{
    int64_t next = driver->busy_with >= 0 ? driver->call_ends_ns : never_ns;

    for (uint32_t i = 0; i < driver->gpu_count; i++) {
        const struct driver_unit *unit = &driver->units[i];
        const int64_t due = driver->busy_with >= 0 ? never_ns : virtual_driver_due_ns(unit);

        next = due < next ? due : next;
        if (driver->busy_with < 0 && unit->observation.is_running &&
            unit->observation.next_ns < next)
            next = unit->observation.next_ns;
        if (unit->settling_count > 0 && unit->settling[0].effect_ns < next)
            next = unit->settling[0].effect_ns;
    }
    return next;
}

int64_t lull_virtual_driver_advance(struct lull_virtual_driver *driver, int64_t now_ns)
{
    if (driver->busy_with >= 0 && driver->call_ends_ns <= now_ns)
        finish_call(driver);
    for (uint32_t i = 0; i < driver->gpu_count; i++)
        virtual_driver_settle(driver, i, now_ns);
    if (driver->busy_with < 0)
        virtual_driver_begin_call(driver, now_ns);
    for (uint32_t i = 0; i < driver->gpu_count && driver->busy_with < 0; i++)
        virtual_driver_observe(driver, i, now_ns);
    return virtual_driver_next_ns(driver);
}

uint64_t lull_virtual_driver_calls(const struct lull_virtual_driver *driver)
{
    return driver->calls;
}
