/*
 * Idle phases of a GPU in virtual time: a trainer that works and waits for random times, without
 * any repetition. The GPU, its readings and its clock are played here, without code of the
 * decision. SPDX-License-Identifier: Apache-2.0
 */
#include "../property.h"
#include "core/section/idle_phase.h"

/* An A100: power of the GPU that is idle, and the lowest clock by the highest. */
static const double idle_high_w = 108.5;
static const double idle_low_w = 78.6;
static const double busy_w = 330.0;
static const double lowest_ratio = 210.0 / 1410.0;
static const double raise_s = 0.025;
static const double tick_s = 0.01;

struct trainer {
    struct lull_random random;
    double work_s; /* mean, exponential above its least */
    double wait_s;
    bool has_events; /* its rank reports when it begins to work */
    bool has_power;
    double work_left_s; /* at the highest clock */
    double wait_left_s;
    double done_s; /* work that is done */
    double low_s;  /* the GPU was low without work */
    double idle_s; /* it had none, in total */
    double saved_j;
    bool was_busy;
    double utilization; /* of the last 0.2 s, as the driver shows it */
    double busy_s;
    bool is_low;
    double effect_s; /* when the requested clock follows */
    bool wanted_low;
};

static int64_t ns_of(double s)
{
    return (int64_t)(s * 1e9) + 1;
}

static double draw_s(struct trainer *trainer, double mean_s)
{
    return mean_s * (0.3 - 0.7 * log(1.0 - lull_random_uniform(&trainer->random)));
}

static void next_phase(struct trainer *trainer)
{
    if (trainer->work_left_s > 0.0 || trainer->wait_left_s > 0.0)
        return;
    trainer->work_left_s = draw_s(trainer, trainer->work_s);
    trainer->wait_left_s = draw_s(trainer, trainer->wait_s);
}

/* One tick: work first, then the wait. Returns whether the GPU works. */
static bool step(struct trainer *trainer)
{
    const double speed = trainer->is_low ? lowest_ratio : 1.0;

    next_phase(trainer);
    if (trainer->work_left_s > 0.0) {
        trainer->work_left_s -= speed * tick_s;
        trainer->done_s += speed * tick_s;
        trainer->busy_s += tick_s;
        return true;
    }
    trainer->wait_left_s -= tick_s;
    trainer->idle_s += tick_s;
    if (trainer->is_low) {
        trainer->low_s += tick_s;
        trainer->saved_j += tick_s * (idle_high_w - idle_low_w);
    }
    return false;
}

static void read_gpu(const struct trainer *trainer, struct lull_idle_phase *phase, double now_s,
                     bool is_busy)
{
    double power_w = is_busy ? busy_w : idle_high_w;

    if (!is_busy && trainer->is_low)
        power_w = idle_low_w;
    lull_idle_phase_take_reading(phase, ns_of(now_s), trainer->utilization > 0.0,
                                 trainer->has_power ? power_w : (double)NAN);
}

static void set_clock(struct trainer *trainer, struct lull_idle_phase *phase, double now_s)
{
    const bool wants_low = lull_idle_phase_poll(phase, ns_of(now_s));

    if (wants_low != trainer->wanted_low) {
        trainer->wanted_low = wants_low;
        trainer->effect_s = now_s + raise_s;
    }
    if (trainer->is_low == trainer->wanted_low || now_s < trainer->effect_s)
        return;
    trainer->is_low = trainer->wanted_low;
    if (!trainer->is_low)
        lull_idle_phase_take_raised(phase, ns_of(now_s));
}

/* Readings come every 0.1 s, and twice as often while the GPU is low. */
static void play(struct trainer *trainer, struct lull_idle_phase *phase, double length_s)
{
    const uint64_t ticks = (uint64_t)(length_s / tick_s);

    for (uint64_t tick = 1; tick <= ticks; tick++) {
        const double now_s = (double)tick * tick_s;
        const bool is_busy = step(trainer);

        if (is_busy && !trainer->was_busy && trainer->has_events)
            lull_idle_phase_take_event(phase, ns_of(now_s));
        trainer->was_busy = is_busy;
        if (tick % 20 == 0) {
            trainer->utilization = trainer->busy_s / (20.0 * tick_s);
            trainer->busy_s = 0.0;
        }
        if (tick % 10 == 0 || (trainer->wanted_low && tick % 5 == 0))
            read_gpu(trainer, phase, now_s, is_busy);
        set_clock(trainer, phase, now_s);
    }
    lull_idle_phase_stop(phase, ns_of(length_s));
}

static void begin(struct trainer *trainer, struct lull_idle_phase *phase, uint64_t seed)
{
    lull_random_init(&trainer->random, seed);
    lull_idle_phase_init(phase, LULL_IDLE_PHASE_RATE, lowest_ratio, 0);
}

/* By how much longer the trainer took for what it has done than without lowering. */
static double slowdown_of(const struct trainer *trainer, double length_s)
{
    return length_s / (trainer->done_s + trainer->idle_s) - 1.0;
}

/* Of long phases nearly all is low. Each raising after a short one has to be earned first. */
static double least_low(const struct trainer *trainer)
{
    if (trainer->wait_s >= 60.0)
        return 0.9;
    return trainer->wait_s >= 20.0 ? 0.5 : 0.15;
}

static void a_trainer_that_waits_saves_at_no_cost(void **state)
{
    static const double waits_s[] = {8.0, 20.0, 60.0, 200.0};
    const double length_s = 3600.0;

    (void)state;
    for (uint64_t seed = 1; seed <= 32; seed++) {
        struct trainer trainer = {
            .wait_s = waits_s[seed % 4], .has_events = seed % 8 < 4, .has_power = seed % 16 < 8};
        struct lull_idle_phase phase;

        trainer.work_s = trainer.wait_s * 1.5; /* it waits for 40 % of the time */
        begin(&trainer, &phase, seed);
        play(&trainer, &phase, length_s);
        print_message(
            "waits of %3.0f s, events %d, power %d: %4.1f %% of them low, %.3f %% slower\n",
            trainer.wait_s, trainer.has_events, trainer.has_power,
            100.0 * trainer.low_s / trainer.idle_s, 100.0 * slowdown_of(&trainer, length_s));
        holds(slowdown_of(&trainer, length_s) <= LULL_IDLE_PHASE_RATE, seed);
        holds(trainer.low_s >= least_low(&trainer) * trainer.idle_s, seed);
        if (trainer.has_power)
            holds(fabs(phase.saved_j - trainer.saved_j) <= 0.02 * trainer.saved_j + 30.0, seed);
        else
            holds(phase.saved_j == 0.0, seed);
    }
}

/* Phases of some seconds: there are too many to pay for all raisings. */
static void short_phases_stay_within_the_rate(void **state)
{
    const double length_s = 3600.0;

    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct trainer trainer = {.work_s = 3.0, .wait_s = 2.0 + (double)(seed % 3)};
        struct lull_idle_phase phase;

        begin(&trainer, &phase, seed);
        play(&trainer, &phase, length_s);
        holds(slowdown_of(&trainer, length_s) <= LULL_IDLE_PHASE_RATE, seed);
        holds(phase.spent_s <= LULL_IDLE_PHASE_RATE * length_s + phase.cost_s, seed);
    }
}

static void a_gpu_without_readings_is_raised(void **state)
{
    struct lull_idle_phase phase;

    (void)state;
    lull_idle_phase_init(&phase, LULL_IDLE_PHASE_RATE, lowest_ratio, 0);
    for (int i = 1; i <= 2000; i++) {
        lull_idle_phase_take_reading(&phase, ns_of(0.1 * i), false, 100.0);
        lull_idle_phase_poll(&phase, ns_of(0.1 * i));
    }
    assert_true(lull_idle_phase_poll(&phase, ns_of(200.1)));
    assert_false(lull_idle_phase_poll(&phase, ns_of(200.6)));
    assert_false(lull_idle_phase_poll(&phase, ns_of(201.0)));
    assert_int_equal(phase.phases, 1);
    /* It is lowered again as soon as it is read again: nothing was lost. */
    lull_idle_phase_take_reading(&phase, ns_of(202.0), false, 100.0);
    assert_true(lull_idle_phase_poll(&phase, ns_of(202.0)));
}

static void iterations_are_no_idle_phases(void **state)
{
    struct lull_idle_phase phase;

    (void)state;
    lull_idle_phase_init(&phase, LULL_IDLE_PHASE_RATE, lowest_ratio, 0);
    for (int i = 1; i <= 100000; i++) {
        if (i % 90 == 0)
            lull_idle_phase_take_event(&phase, ns_of(0.01 * i));
        if (i % 10 == 0)
            lull_idle_phase_take_reading(&phase, ns_of(0.01 * i), false, 100.0);
        assert_false(lull_idle_phase_poll(&phase, ns_of(0.01 * i)));
    }
}

/* A rise of power is seen before utilisation, which is a mean over the time before. */
static void power_shows_work_first(void **state)
{
    struct lull_idle_phase phase;

    (void)state;
    lull_idle_phase_init(&phase, LULL_IDLE_PHASE_RATE, lowest_ratio, 0);
    for (int i = 1; i <= 2000; i++) {
        lull_idle_phase_take_reading(&phase, ns_of(0.1 * i), false, 78.0);
        lull_idle_phase_poll(&phase, ns_of(0.1 * i));
    }
    lull_idle_phase_take_reading(&phase, ns_of(200.1), false, 85.0);
    assert_true(lull_idle_phase_poll(&phase, ns_of(200.1)));
    lull_idle_phase_take_reading(&phase, ns_of(200.2), false, 95.0);
    assert_false(lull_idle_phase_poll(&phase, ns_of(200.2)));
}

/* Lowers a GPU that has been idle for 200 s. */
static void lower(struct lull_idle_phase *phase)
{
    lull_idle_phase_init(phase, LULL_IDLE_PHASE_RATE, lowest_ratio, 0);
    for (int i = 1; i <= 2000; i++) {
        lull_idle_phase_take_reading(phase, ns_of(0.1 * i), false, 100.0 - 30.0 * phase->is_low);
        lull_idle_phase_poll(phase, ns_of(0.1 * i));
    }
    assert_true(lull_idle_phase_poll(phase, ns_of(200.05)));
}

static void a_phase_counts_once(void **state)
{
    struct lull_idle_phase phase;
    double low_s;

    (void)state;
    lower(&phase);
    lull_idle_phase_take_event(&phase, ns_of(200.1));
    low_s = phase.low_s;
    assert_near(phase.saved_j, 30.0 * low_s, 1.0);
    assert_false(lull_idle_phase_poll(&phase, ns_of(200.1)));
    lull_idle_phase_stop(&phase, ns_of(200.2));
    assert_int_equal(phase.phases, 1);
    assert_near(phase.low_s, low_s, 0.0);
    /* Power was read, so the work began 0.1 s before the last reading at the earliest. */
    lull_idle_phase_take_raised(&phase, ns_of(200.125));
    assert_near(phase.spent_s, (0.025 + 0.1) * (1.0 - lowest_ratio), 1e-6);
    lull_idle_phase_take_raised(&phase, ns_of(300.0));
    assert_near(phase.spent_s, (0.025 + 0.1) * (1.0 - lowest_ratio), 1e-6);
}

static void a_raising_without_an_answer_costs_a_second(void **state)
{
    struct lull_idle_phase phase;

    (void)state;
    lower(&phase);
    lull_idle_phase_take_event(&phase, ns_of(200.1));
    lull_idle_phase_poll(&phase, ns_of(200.9));
    assert_near(phase.spent_s, 0.0, 0.0);
    lull_idle_phase_poll(&phase, ns_of(201.1));
    assert_near(phase.spent_s, 1.1 * (1.0 - lowest_ratio), 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_that_waits_saves_at_no_cost),
        cmocka_unit_test(short_phases_stay_within_the_rate),
        cmocka_unit_test(a_gpu_without_readings_is_raised),
        cmocka_unit_test(iterations_are_no_idle_phases),
        cmocka_unit_test(power_shows_work_first),
        cmocka_unit_test(a_phase_counts_once),
        cmocka_unit_test(a_raising_without_an_answer_costs_a_second),
    };

    return cmocka_run_group_tests_name("idle phases", tests, NULL, NULL);
}
