/* Number of iterations in the blocks of a trial. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

/* The blocks of a check are twice as long as those of the check before, up to this factor: harm may
 * need many iterations in a row. */
enum { CHECK_FACTOR_MAX = 8 };
/* With a deviation of iterations of the first share of the tolerance blocks of a single iteration
 * would do; with less than the second share iterations count as steady. */
static const double decisive_noise_share = 0.35;
static const double steady_noise_share = 0.1;
/* Blocks with a power profile take at least so long: how long a profile takes to act is not
 * published. Default, not yet measured on hardware. */
static const double profile_window_ms = 1000.0;
/* Iterations per block: at most if they are short, at most because of noise, and at least if they
 * are steady. */
enum { WINDOW_MAX = 4000, NOISY_WINDOW_MAX = 12, STEADY_WINDOW = 2 };
/* Blocks of a screen are shorter than those of a proof by this factor where other nodes take part.
 */
enum { SCREEN_SHARE = 4 };
/* Blocks of a proof of a duty have at least so many iterations, because the first one of each is
 * not measured. */
enum { REFINED_BLOCK = 8 };

/* This many of the job's iterations in iterations of the track, which may represent several. */
static uint32_t of_track(const struct lull_controller *controller, uint32_t iterations)
{
    const uint32_t fold = controller->gpus[lull_controller_lead(controller)].fold;

    return (iterations + fold - 1) / fold;
}

/*
 * Iterations per block: as many as take the least time that the user wants, and with noise as many
 * more as let some eight pairs decide. The spread is taken below the median, where hiccups of the
 * host do not reach.
 */
static double wanted_iterations(const struct lull_controller *controller, double *noise_out)
{
    const struct lull_quantile *recent =
        &controller->gpus[lull_controller_lead(controller)].reference_iterations_ms;
    const double median_ms = lull_quantile_get(recent, 0.5);
    const double deviation = (median_ms - lull_quantile_get(recent, 0.1)) / (1.28 * median_ms);
    double window_ms = controller->config.window_ms;
    double wanted;

    if (lull_targets_has_profile(&controller->targets))
        window_ms = fmax(window_ms, profile_window_ms);
    *noise_out = deviation / (decisive_noise_share * controller->config.tolerance_ratio);
    wanted =
        fmax(ceil(window_ms / median_ms), fmin(ceil(*noise_out * *noise_out), NOISY_WINDOW_MAX));
    if (controller->config.tail_tolerance_ratio > 0.0)
        wanted = fmin(fmax(wanted, LULL_UPPER_TAIL_MIN), LULL_UPPER_TAIL_MAX);
    return wanted;
}

static uint32_t at_least(double wanted, uint32_t least)
{
    if (!isfinite(wanted) || wanted < least)
        return least;
    return (uint32_t)fmin(wanted, WINDOW_MAX);
}

/* Of a proof, a check or a watch: at least as many as the user wants. */
uint32_t lull_controller_window(const struct lull_controller *controller)
{
    const struct lull_quantile *recent =
        &controller->gpus[lull_controller_lead(controller)].reference_iterations_ms;
    uint32_t least = of_track(controller, controller->config.window_iterations);
    double noise;
    const double wanted = wanted_iterations(controller, &noise);

    if (recent->count >= LULL_TRACK_LEARN_ITERATIONS && noise < steady_noise_share)
        least = of_track(controller, STEADY_WINDOW);
    return at_least(wanted, least);
}

/* So many iterations or a few more, in which the beats of the steady point's duty come out even. */
static uint32_t whole_rounds(const struct lull_controller *controller, uint32_t iterations)
{
    const struct lull_targets *targets = &controller->targets;
    struct lull_duty duty = {0};
    uint32_t round;

    if (targets->steady != LULL_CONTROLLER_NO_TARGET)
        duty = lull_target_duty(&targets->list[targets->steady]);
    round = lull_duty_round(&duty);
    if (duty.low > 0)
        iterations = lull_max_u32(iterations, REFINED_BLOCK);
    return (lull_min_u32(iterations, WINDOW_MAX) + round - 1) / round * round;
}

/* With other nodes a power of two, so that all of them choose the same. */
uint32_t lull_controller_block(const struct lull_controller *controller, enum lull_trial_kind kind)
{
    const uint32_t own = lull_controller_window(controller);
    uint32_t iterations = 1;
    uint32_t factor = 1;
    double noise;

    if (controller->config.together) {
        while (iterations < own || iterations < controller->aligned_window)
            iterations *= 2;
        if (kind == LULL_TRIAL_SCREEN)
            iterations = lull_max_u32(iterations / SCREEN_SHARE, STEADY_WINDOW);
        return lull_min_u32(iterations, WINDOW_MAX);
    }
    if (kind == LULL_TRIAL_SCREEN)
        return at_least(wanted_iterations(controller, &noise), of_track(controller, STEADY_WINDOW));
    if (kind == LULL_TRIAL_WATCH)
        return own;
    if (kind == LULL_TRIAL_PROOF)
        return whole_rounds(controller, own);
    for (uint32_t i = 0; i < controller->checks_passed && factor < CHECK_FACTOR_MAX; i++)
        factor *= 2;
    return whole_rounds(controller,
                        lull_max_u32(own * factor, lull_trial_min_check_block(&controller->trial)));
}
