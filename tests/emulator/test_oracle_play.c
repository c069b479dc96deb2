/*
 * The oracle for plays, against brute force over the model's own formulas.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

#include <errno.h>

#include "emulator/oracle_play.h"
#include "emulator/player/presets.h"

enum { COMPUTE_MS = 40, STRIDE = 4 };

static struct lull_gpu_model model;

/* Heat would couple the gaps. */
static void set_model(void)
{
    model = *lull_gpu_model_find("A100", 4);
    model.leak_ratio_per_c = 0;
}

static const struct lull_play_op compute = {
    .kind = LULL_PLAY_COMPUTE,
    .depends = {LULL_PLAY_NONE, LULL_PLAY_NONE},
    .duration_ms = COMPUTE_MS,
    .profile = "training",
    .kernels = 1,
};

/* On a link that few channels feed: the clock matters. */
static const struct lull_play_op transfer = {
    .kind = LULL_PLAY_COMMUNICATION,
    .stream = 1,
    .depends = {0, LULL_PLAY_NONE},
    .duration_ms = 200,
    .function = LULL_PLAY_ALL_REDUCE,
    .bytes = 1000,
    .link_gbs = 23,
    .channels = 1,
};

/* Per rank: compute, a transfer alone, compute, a pause of the host's. */
static struct lull_play *new_play(uint32_t ranks, double pause_ms)
{
    struct lull_play *play;
    struct lull_play_op behind = compute;
    struct lull_play_op first = compute;

    assert_int_equal(lull_play_create(ranks, &play, NULL), 0);
    assert_int_equal(lull_play_add_communicator(play, "world", (1u << ranks) - 1, NULL), 0);
    behind.depends[0] = 1;
    first.depends[0] = 2;
    first.delay_ms = pause_ms;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        assert_int_equal(lull_play_add(play, rank, &first, NULL), 0);
        assert_int_equal(lull_play_add(play, rank, &transfer, NULL), 1);
        assert_int_equal(lull_play_add(play, rank, &behind, NULL), 2);
    }
    assert_int_equal(lull_play_finish(play, NULL), 0);
    return play;
}

static struct lull_oracle_play_answer ask(const struct lull_play *play, double call_ms,
                                          double settle_ms, double tolerance)
{
    const struct lull_oracle_play_question question = {
        .play = play,
        .model = &model,
        .call_ms = call_ms,
        .settle_ms = settle_ms,
        .tolerance_ratio = tolerance,
        .stride = STRIDE,
    };
    struct lull_oracle_play_answer answer;

    assert_int_equal(lull_oracle_ask_play(&question, &answer, NULL), 0);
    return answer;
}

/* ---- brute force ---- */

struct cost {
    double energy_j;
    double time_s;
};

static struct cost transfer_cost(double mhz)
{
    const double rate_gbs = lull_gpu_model_transfer_gbs(&model, transfer.link_gbs, 1, mhz);
    const double top_gbs =
        lull_gpu_model_transfer_gbs(&model, transfer.link_gbs, 1, model.sm_max_mhz);
    const double time_s = transfer.duration_ms * 1e-3 * top_gbs / rate_gbs;
    const double power_w = lull_gpu_curve_at(&model.active_idle_w, mhz) +
                           lull_gpu_model_transfer_w(&model, rate_gbs, 1, mhz);

    return (struct cost){power_w * time_s, time_s};
}

static struct cost pause_cost(double mhz, double pause_ms)
{
    return (struct cost){lull_gpu_curve_at(&model.active_idle_w, mhz) * pause_ms * 1e-3,
                         pause_ms * 1e-3};
}

static struct cost compute_cost(void)
{
    const double power_w = lull_gpu_model_kernel_w(
        &model, lull_gpu_model_profile(&model, compute.profile), model.sm_max_mhz);

    return (struct cost){power_w * COMPUTE_MS * 1e-3, COMPUTE_MS * 1e-3};
}

static struct cost period_cost(double transfer_mhz, double pause_mhz, double pause_ms)
{
    const struct cost parts[] = {transfer_cost(transfer_mhz), pause_cost(pause_mhz, pause_ms),
                                 compute_cost(), compute_cost()};
    struct cost sum = {0};

    for (int i = 0; i < 4; i++) {
        sum.energy_j += parts[i].energy_j;
        sum.time_s += parts[i].time_s;
    }
    return sum;
}

/* Least energy over all pairs of clocks within the tolerance of the time. */
static double best_energy_j(double pause_ms, double tolerance)
{
    const uint32_t top = lull_gpu_model_step_count(&model) - 1;
    const struct cost reference = period_cost(model.sm_max_mhz, model.sm_max_mhz, pause_ms);
    double best_j = reference.energy_j;

    for (uint32_t a = 0; a <= top; a += STRIDE)
        for (uint32_t b = 0; b <= top; b += STRIDE) {
            const struct cost cost =
                period_cost(lull_gpu_model_step_mhz(&model, top - a),
                            lull_gpu_model_step_mhz(&model, top - b), pause_ms);

            if (cost.time_s <= reference.time_s * (1 + tolerance) && cost.energy_j < best_j)
                best_j = cost.energy_j;
        }
    return best_j;
}

/* ---- tests ---- */

static void test_reference_is_the_sum_of_its_parts(void **state)
{
    struct lull_play *play = new_play(1, 300);
    const struct cost cost = period_cost(model.sm_max_mhz, model.sm_max_mhz, 300);
    const struct lull_oracle_play_answer answer = ask(play, -1, -1, 0.01);

    (void)state;
    check_within("energy, J", answer.reference.energy_j / cost.energy_j, 0.99999, 1.00001);
    check_within("time", answer.reference.time_s / cost.time_s, 0.99999, 1.00001);
    check_within("share of gaps", answer.gap_ratio, 0.862, 0.8621);
    assert_int_equal(answer.gaps, 2);
    lull_play_destroy(play);
}

/* The oracle gives each gap's surroundings the tolerance, brute force the whole: where the best is
 * no slower both find the same, else brute force may find more. */
static void test_ideal_is_what_brute_force_finds(void **state)
{
    const double tolerances[] = {1e-6, 0.01, 0.05};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct lull_play *play = new_play(1, 300);
        const struct lull_oracle_play_answer answer = ask(play, -1, -1, tolerances[i]);
        const double best_j = best_energy_j(300, tolerances[i]);

        check_within("ideal / brute force", answer.ideal.energy_j / best_j, 0.99999,
                     i == 0 ? 1.00001 : 1.02);
        check_within("slowdown", answer.ideal.slowdown_ratio, -1e-9, tolerances[i] + 1e-9);
        assert_int_equal(answer.ideal_lowered, 2);
        lull_play_destroy(play);
    }
}

static void test_no_latency_makes_real_ideal(void **state)
{
    struct lull_play *play = new_play(1, 300);
    const struct lull_oracle_play_answer answer = ask(play, 0, 0, 0.01);

    (void)state;
    check_within("real / ideal", answer.real.saving_ratio / answer.ideal.saving_ratio, 0.999,
                 1.001);
    lull_play_destroy(play);
}

static void test_latency_costs_its_share(void **state)
{
    struct lull_play *play = new_play(2, 300);
    const struct lull_oracle_play_answer answer = ask(play, 5, 20, 0.01);

    (void)state;
    /* Of gaps of 200 and 300 ms each, 5 to 30 ms run at the highest clock. */
    check_within("real / ideal", answer.real.saving_ratio / answer.ideal.saving_ratio, 0.85, 0.99);
    check_within("slowdown", answer.real.slowdown_ratio, -1e-9, 0.01);
    assert_int_equal(answer.real_lowered, 4);
    lull_play_destroy(play);
}

static void test_what_does_not_pay_is_left_alone(void **state)
{
    struct lull_play *play = new_play(1, 300);
    const struct lull_oracle_play_answer answer = ask(play, 50, 200, 0.01);

    (void)state;
    assert_true(answer.real_lowered <= 1); /* the transfer is shorter than raising takes */
    check_within("slowdown", answer.real.slowdown_ratio, -1e-9, 0.01);
    /* All of the pause, which is lowered ahead across the transfer. */
    check_within("saving", answer.real.saving_ratio, 0.05, answer.ideal.saving_ratio);
    lull_play_destroy(play);
    play = new_play(1, 240);
    assert_int_equal(ask(play, 50, 200, 0.01).real_lowered, 0);
    lull_play_destroy(play);
}

static void test_answers_repeat(void **state)
{
    struct lull_play *play = NULL;
    struct lull_oracle_play_answer first;
    struct lull_oracle_play_answer second;

    (void)state;
    assert_int_equal(lull_play_preset_create(lull_play_find_preset("moe-alltoall"), 2, &play, NULL),
                     0);
    first = ask(play, -1, -1, 0.01);
    second = ask(play, -1, -1, 0.01);
    assert_memory_equal(&first, &second, sizeof(first));
    assert_true(first.ideal.saving_ratio >= first.real.saving_ratio);
    lull_play_destroy(play);
}

/* Calls that fall together are made one after the other, ahead of when they are wanted. */
static void test_a_queue_is_foreseen(void **state)
{
    const double call_ms = 10.0;
    double one_saves = 0.0;

    (void)state;
    for (uint32_t ranks = 1; ranks <= 8; ranks *= 2) {
        struct lull_play *play = new_play(ranks, 300);
        const struct lull_oracle_play_answer answer = ask(play, call_ms, 10, 0.01);
        /* All at once: the last GPU is lowered, and the first raised, so many calls off, in two
         * gaps. */
        const double lost_share = (ranks - 1) * call_ms / (200.0 + 300.0 - 4 * 10.0);

        if (ranks == 1)
            one_saves = answer.real.saving_ratio;
        check_within("saving / that of one GPU", answer.real.saving_ratio / one_saves,
                     1.0 - 2.5 * lost_share, 1.001);
        check_within("slowdown", answer.real.slowdown_ratio, -1e-9, 0.01);
        lull_play_destroy(play);
    }
}

/* Ranks that wait for no other rank: all of the second one's time is computation, a seventh of the
 * first one's is. */
static struct lull_play *new_recorded(uint32_t first, uint32_t ranks)
{
    struct lull_play *play;

    assert_int_equal(lull_play_create(ranks, &play, NULL), 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct lull_play_op op = compute;

        op.depends[0] = 0;
        op.delay_ms = first + rank == 0 ? 6 * COMPUTE_MS : 0;
        op.begins_step = true;
        assert_int_equal(lull_play_add(play, rank, &op, NULL), 0);
    }
    play->is_recorded = true;
    assert_int_equal(lull_play_finish(play, NULL), 0);
    return play;
}

/* Without shared resources, two ranks together behave like each alone, and neither loses more. */
static void test_ranks_that_wait_for_nobody_have_their_own_clocks(void **state)
{
    const double tolerance = 0.05;
    const double slow_call_ms = 500; /* no gap is lowered */
    struct lull_oracle_play_answer alone[2], both;
    double saved_j = 0.0;

    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct lull_play *play = new_recorded(rank % 2, rank < 2 ? 1 : 2);

        *(rank < 2 ? &alone[rank] : &both) = ask(play, slow_call_ms, 0, tolerance);
        lull_play_destroy(play);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        printf("%u: %g %g, %g %g; %g %g\n", rank, both.joint_rank_mhz[rank], alone[rank].joint_mhz,
               alone[rank].joint.slowdown_ratio, alone[rank].joint.saving_ratio,
               both.joint.slowdown_ratio, both.joint.saving_ratio);
        assert_true(both.joint_rank_mhz[rank] == alone[rank].joint_mhz);
        saved_j += alone[rank].joint.saving_ratio * alone[rank].reference.energy_j;
    }
    assert_true(both.joint_rank_mhz[0] < both.joint_rank_mhz[1]);
    assert_true(both.joint.slowdown_ratio <= tolerance);
    assert_true(fabs(both.joint.slowdown_ratio -
                     fmax(alone[0].joint.slowdown_ratio, alone[1].joint.slowdown_ratio)) < 1e-6);
    assert_true(fabs(both.joint.saving_ratio * both.reference.energy_j - saved_j) < 1e-3 * saved_j);
}

static void assert_same(const struct lull_oracle_outcome *a, const struct lull_oracle_outcome *b)
{
    assert_true(a->time_s == b->time_s && a->energy_j == b->energy_j);
    assert_true(a->saving_ratio == b->saving_ratio && a->slowdown_ratio == b->slowdown_ratio);
}

/* The first of two ranks computes little and waits for the other. */
static struct lull_play *new_uneven(bool is_recorded)
{
    struct lull_play *play;

    assert_int_equal(lull_play_create(2, &play, NULL), 0);
    assert_int_equal(lull_play_add_communicator(play, "world", 3, NULL), 0);
    play->is_recorded = is_recorded;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct lull_play_op first = compute;

        first.depends[0] = 1;
        first.duration_ms = rank == 0 ? 5.0 : COMPUTE_MS;
        assert_int_equal(lull_play_add(play, rank, &first, NULL), 0);
        assert_int_equal(lull_play_add(play, rank, &transfer, NULL), 1);
    }
    assert_int_equal(lull_play_finish(play, NULL), 0);
    return play;
}

/* A pipeline is a recorded play whose ranks meet. Nothing overlaps here, so that it takes what the
 * same play takes that is not recorded, also where only one rank has a new clock. */
static void test_recorded_ranks_that_meet_wait_for_each_other(void **state)
{
    const double tolerance = 0.01;
    struct lull_oracle_play_answer wanted, recorded;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct lull_play *play = new_uneven(i == 1);

        *(i == 0 ? &wanted : &recorded) = ask(play, 10, 10, tolerance);
        lull_play_destroy(play);
    }
    assert_same(&recorded.reference, &wanted.reference);
    assert_same(&recorded.ideal, &wanted.ideal);
    assert_same(&recorded.steady, &wanted.steady);
    assert_true(recorded.steady.saving_ratio > 0.0);
}

struct watched {
    uint32_t calls;
    uint32_t run;
    uint64_t period;
};

static void watch(void *context, uint32_t run, uint64_t period)
{
    struct watched *watched = context;

    assert_true(period >= 1 && (run == watched->run || (run > watched->run && period == 1)));
    assert_true(run > watched->run || period >= watched->period);
    *watched = (struct watched){watched->calls + 1, run, period};
}

static void test_runs_are_watched(void **state)
{
    struct lull_play *play = new_play(1, 120);
    struct watched watched = {0};
    const struct lull_oracle_play_question question = {
        .play = play, .model = &model, .stride = STRIDE, .watch = watch, .watch_context = &watched};
    struct lull_oracle_play_answer answer;

    (void)state;
    assert_int_equal(lull_oracle_ask_play(&question, &answer, NULL), 0);
    lull_play_destroy(play);
    print_message("%u calls, %u runs\n", watched.calls, watched.run);
    assert_true(watched.run > 3 && watched.calls > watched.run);
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    struct lull_play *play = new_play(1, 1);
    struct lull_oracle_play_question question = {.play = play, .model = &model, .stride = 0};
    struct lull_oracle_play_answer answer;

    (void)state;
    assert_int_equal(lull_oracle_ask_play(&question, &answer, NULL), -EINVAL);
    question.stride = 1;
    question.tolerance_ratio = NAN;
    assert_int_equal(lull_oracle_ask_play(&question, &answer, NULL), -EINVAL);
    lull_play_destroy(play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_is_the_sum_of_its_parts),
        cmocka_unit_test(test_ideal_is_what_brute_force_finds),
        cmocka_unit_test(test_no_latency_makes_real_ideal),
        cmocka_unit_test(test_latency_costs_its_share),
        cmocka_unit_test(test_what_does_not_pay_is_left_alone),
        cmocka_unit_test(test_answers_repeat),
        cmocka_unit_test(test_a_queue_is_foreseen),
        cmocka_unit_test(test_ranks_that_wait_for_nobody_have_their_own_clocks),
        cmocka_unit_test(test_recorded_ranks_that_meet_wait_for_each_other),
        cmocka_unit_test(test_runs_are_watched),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
    };

    set_model();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
