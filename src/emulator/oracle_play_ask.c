/*
 * A query to the oracle of a play, from its parameters to the result of each lever.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/oracle_play_state.h"

/* The planned length of a call is the median plus this many
 * standard deviations, so that three calls in four end in time: 0.674 is the upper quartile of the
 * normal distribution. */
static const double typical_sigmas = 0.674;

static int answer_all(struct lull_oracle_play *oracle, struct lull_oracle_play_answer *answer,
                      struct lull_error *err)
{
    const uint32_t ranks = oracle->play.rank_count;
    int result = lull_oracle_play_run(oracle, LULL_ORACLE_MODE_STEADY, oracle->top_step, NULL,
                                      &answer->reference, err);

    answer->gaps = oracle->gap_count;
    for (uint32_t i = 0; i < oracle->gap_count; i++) {
        answer->gap_ratio += (double)oracle->gaps[i].length_ns * 1e-9 / answer->period_s / ranks;
    }
    if (result < 0)
        return result;
    result = lull_oracle_play_find_ideal(oracle, answer, err);
    if (result < 0)
        return result;
    result = lull_oracle_play_find_real(oracle, answer, err);
    if (result < 0)
        return result;
    result = lull_oracle_play_find_in_time(oracle, answer, err);
    if (result < 0)
        return result;
    result = lull_oracle_play_find_steady(oracle, answer, err);
    if (result < 0)
        return result;
    return lull_oracle_play_find_joint(oracle, answer, err);
}

/* ---- setting up ---- */

static int oracle_setup_allocate(struct lull_oracle_play *oracle, struct lull_error *err)
{
    const struct lull_play *play = &oracle->play;
    size_t most = 1;

    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        oracle->gap_after[rank] = calloc(play->ranks[rank].count, sizeof(int32_t));
        if (oracle->gap_after[rank] == NULL)
            return lull_error_set(err, -ENOMEM, "oracle: no memory");
        most += play->ranks[rank].count;
    }
    oracle->gaps = calloc(most, sizeof(oracle->gaps[0]));
    oracle->steps = calloc(most, sizeof(oracle->steps[0]));
    oracle->lengths_ns = calloc(most, sizeof(oracle->lengths_ns[0]));
    oracle->tallies = calloc(most, sizeof(oracle->tallies[0]));
    if (oracle->gaps == NULL || oracle->steps == NULL || oracle->lengths_ns == NULL ||
        oracle->tallies == NULL)
        return lull_error_set(err, -ENOMEM, "oracle: no memory");
    return 0;
}

static void oracle_setup_release(struct lull_oracle_play *oracle)
{
    for (uint32_t rank = 0; rank < LULL_PLAY_RANKS; rank++)
        free(oracle->gap_after[rank]);
    free(oracle->gaps);
    free(oracle->steps);
    free(oracle->lengths_ns);
    free(oracle->tallies);
    free(oracle->courses);
    free(oracle);
}

static int oracle_setup_prepare(struct lull_oracle_play *oracle,
                                struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    int result = oracle_setup_allocate(oracle, err);

    if (result < 0)
        return result;
    result = lull_oracle_play_foresee(oracle, &oracle->period_ns, err);
    if (result < 0)
        return result;
    answer->period_s = (double)oracle->period_ns * 1e-9;
    lull_oracle_play_set_leads(oracle, lull_oracle_play_late(oracle));
    return 0;
}

int lull_oracle_ask_play(const struct lull_oracle_play_question *question,
                         struct lull_oracle_play_answer *answer_out, struct lull_error *err)
{
    struct lull_oracle_play_answer answer = {0};
    struct lull_oracle_play *oracle;
    int result;

    if (question->stride < 1 || !(question->tolerance_ratio >= 0) || !(question->heat_w >= 0) ||
        !(question->call_ms < 1e6) || (question->call_ms >= 0 && !(question->settle_ms >= 0)) ||
        !(question->settle_ms < 1e6))
        return lull_error_set(err, -EINVAL, "oracle: a number is out of its range");
    oracle = calloc(1, sizeof(*oracle));
    if (oracle == NULL)
        return lull_error_set(err, -ENOMEM, "oracle: no memory");
    oracle->question = question;
    oracle->play = *question->play;
    oracle->play.jitter_ratio = 0;
    oracle->model = *question->model;
    if (question->call_ms >= 0)
        lull_gpu_model_fix_latency(&oracle->model, question->call_ms, question->settle_ms);
    oracle->highest_step = lull_gpu_model_step_count(&oracle->model) - 1;
    oracle->top_step = oracle->highest_step;
    oracle->queue = (struct lull_oracle_queue){
        .model = &oracle->model,
        .ranks = oracle->play.rank_count,
        .top_step = oracle->top_step,
        .call_ns =
            lull_ns_from_ms(oracle->model.api_ms * exp(typical_sigmas * oracle->model.api_sigma)),
    };
    result = oracle_setup_prepare(oracle, &answer, err);
    if (result < 0)
        goto release;
    result = answer_all(oracle, &answer, err);
    if (result < 0)
        goto release;
    *answer_out = answer;

release:
    oracle_setup_release(oracle);
    return result;
}
