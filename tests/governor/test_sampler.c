/*
 * F47: a reading that hangs loses its samples, and no thread waits for it. The test controls how
 * long a reading takes. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/run/sampler.h"

/* The driver: the GPU that hangs does so until it is let go. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int hanging_gpu; /* -1: none */
static uint32_t in_driver;
static uint32_t readings;

static void read_fake(struct lull_devices *devices, uint32_t gpu, uint32_t wanted,
                      struct lull_device_reading *reading_out)
{
    assert_null(devices);
    pthread_mutex_lock(&lock);
    readings++;
    in_driver++;
    pthread_cond_broadcast(&changed);
    while (hanging_gpu == (int)gpu)
        pthread_cond_wait(&changed, &lock);
    in_driver--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    *reading_out = (struct lull_device_reading){.valid = wanted, .power_mw = 1000 * gpu};
}

#define lull_device_read read_fake
#include "governor/run/sampler.c"
#undef lull_device_read

enum { GPUS = 3 };

static const uint32_t gpus[GPUS] = {7, 5, 6};
static struct lull_sampler *sampler;

static void hang(int gpu)
{
    pthread_mutex_lock(&lock);
    hanging_gpu = gpu;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_until_in_driver(uint32_t count)
{
    pthread_mutex_lock(&lock);
    while (in_driver != count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int set_up(void **state)
{
    (void)state;
    hanging_gpu = -1;
    readings = 0;
    return lull_sampler_start(NULL, gpus, GPUS, &sampler, NULL);
}

static int64_t soon_ns(void)
{
    return lull_now_ns() + 20 * LULL_NS_PER_MS;
}

static int64_t at_leisure_ns(void)
{
    return lull_now_ns() + 60 * LULL_NS_PER_S;
}

static bool ask(uint32_t first, uint32_t second, uint32_t third)
{
    const struct lull_sampler_round round = {.wanted = {first, second, third}};

    return lull_sampler_ask(sampler, &round);
}

static void test_what_is_wanted_is_read(void **state)
{
    const int64_t begin_ns = lull_now_ns();
    struct lull_sample sample = {0};
    uint32_t gpu = 0;
    uint32_t wanted = 0;

    (void)state;
    assert_false(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_true(ask(LULL_READING_POWER, 0, LULL_READING_POWER | LULL_READING_ENERGY));
    assert_true(lull_sampler_wait(sampler, at_leisure_ns()));
    assert_true(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_int_equal(gpu, 0);
    assert_int_equal(wanted, LULL_READING_POWER);
    assert_int_equal(sample.reading.power_mw, 7000);
    assert_true(sample.time_ns >= begin_ns && sample.time_ns <= lull_now_ns());
    assert_true(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_int_equal(gpu, 2);
    assert_int_equal(wanted, LULL_READING_POWER | LULL_READING_ENERGY);
    assert_int_equal(sample.reading.power_mw, 6000);
    assert_false(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_int_equal(readings, 2);
    assert_int_equal(lull_sampler_stop(sampler, at_leisure_ns()), 0);
}

static void test_a_new_round_drops_what_was_not_taken(void **state)
{
    struct lull_sample sample = {0};
    uint32_t gpu = 0;
    uint32_t wanted = 0;

    (void)state;
    assert_true(ask(1, 1, 1));
    assert_true(lull_sampler_wait(sampler, at_leisure_ns()));
    assert_true(ask(0, 2, 0));
    assert_true(lull_sampler_wait(sampler, at_leisure_ns()));
    assert_true(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_int_equal(gpu, 1);
    assert_int_equal(wanted, 2);
    assert_false(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_int_equal(lull_sampler_stop(sampler, at_leisure_ns()), 0);
}

static void test_f47_a_hang_costs_the_samples(void **state)
{
    const int64_t begin_ns = lull_now_ns();
    struct lull_sample sample = {0};
    uint32_t gpu = 0;
    uint32_t wanted = 0;

    (void)state;
    hang(5);
    assert_true(ask(1, 1, 1));
    wait_until_in_driver(1);
    assert_false(lull_sampler_wait(sampler, soon_ns()));
    assert_false(ask(1, 1, 1));
    /* The sample that was read before the hang is available. */
    while (!lull_sampler_take(sampler, &gpu, &wanted, &sample))
        continue;
    assert_int_equal(gpu, 0);
    assert_false(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_false(lull_sampler_is_stuck(sampler, begin_ns, &gpu));
    assert_true(lull_sampler_is_stuck(sampler, lull_now_ns() + 2 * LULL_NS_PER_S, &gpu));
    assert_int_equal(gpu, 1);
    hang(-1);
    assert_true(lull_sampler_wait(sampler, at_leisure_ns()));
    assert_false(lull_sampler_is_stuck(sampler, lull_now_ns() + 2 * LULL_NS_PER_S, &gpu));
    assert_true(lull_sampler_take(sampler, &gpu, &wanted, &sample));
    assert_true(ask(1, 1, 1));
    assert_int_equal(lull_sampler_stop(sampler, at_leisure_ns()), 0);
}

static void test_f47_the_end_does_not_wait_for_a_hang(void **state)
{
    (void)state;
    hang(7);
    assert_true(ask(1, 1, 1));
    wait_until_in_driver(1);
    assert_int_equal(lull_sampler_stop(sampler, soon_ns()), -EINPROGRESS);
    /* The thread comes back, touches nothing that is gone, and reads no other GPU. */
    hang(-1);
    wait_until_in_driver(0);
    assert_true(lull_sampler_wait(sampler, at_leisure_ns()));
    assert_int_equal(readings, 1);
}

static void test_nothing_to_stop(void **state)
{
    (void)state;
    assert_int_equal(lull_sampler_stop(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_is_wanted_is_read, set_up),
        cmocka_unit_test_setup(test_a_new_round_drops_what_was_not_taken, set_up),
        cmocka_unit_test_setup(test_f47_a_hang_costs_the_samples, set_up),
        cmocka_unit_test_setup(test_f47_the_end_does_not_wait_for_a_hang, set_up),
        cmocka_unit_test(test_nothing_to_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
