/*
 * Steps of optimisers over COUNT parameters, four to a thread at a time. The gradient stays the
 * same from launch to launch; weights decay, so nothing grows without bound. Macros: COUNT
 * divisible by 4. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define RATE 1e-3f
#define DECAY 0.01f

__device__ inline void adam_one(float &weight, float &mean, float &square, float gradient)
{
    mean = 0.9f * mean + 0.1f * gradient;
    square = 0.999f * square + 0.001f * gradient * gradient;
    /* The corrections of the first step: 1 / (1 - 0.9), 1 / (1 - 0.999). */
    weight -= RATE * (10.0f * mean / (sqrtf(1000.0f * square) + 1e-8f) + DECAY * weight);
}

KERNEL __launch_bounds__(256)
    adam(float4 *weights, float4 *means, float4 *squares, const float4 *gradients)
{
    for (u64 i = thread_index(); i < COUNT / 4; i += thread_count()) {
        float4 w = weights[i], m = means[i], s = squares[i];
        const float4 g = gradients[i];

        adam_one(w.x, m.x, s.x, g.x);
        adam_one(w.y, m.y, s.y, g.y);
        adam_one(w.z, m.z, s.z, g.z);
        adam_one(w.w, m.w, s.w, g.w);
        weights[i] = w;
        means[i] = m;
        squares[i] = s;
    }
}

__device__ inline void sgd_one(float &weight, float &momentum, float gradient)
{
    momentum = 0.9f * momentum + gradient + DECAY * weight;
    weight -= RATE * momentum;
}

KERNEL __launch_bounds__(256) sgd(float4 *weights, float4 *momenta, const float4 *gradients)
{
    for (u64 i = thread_index(); i < COUNT / 4; i += thread_count()) {
        float4 w = weights[i], m = momenta[i];
        const float4 g = gradients[i];

        sgd_one(w.x, m.x, g.x);
        sgd_one(w.y, m.y, g.y);
        sgd_one(w.z, m.z, g.z);
        sgd_one(w.w, m.w, g.w);
        weights[i] = w;
        momenta[i] = m;
    }
}

/* Weights begin with the random numbers of seed 0, the state with zeros. */
KERNEL check_adam(const float *weights, const float *means, const float *squares,
                  const float *gradients, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count()) {
        const double before = random_real(0, i);
        const double gradient = gradients[i];
        const double sign =
            gradient / (fabs(gradient) + 1e-8); /* all that Adam's first step knows */

        expect(wrong, is_near(weights[i], before - RATE * (sign + DECAY * before), 1e-6) &&
                          is_near(means[i], 0.1 * gradient, 1e-6) &&
                          is_near(squares[i], 0.001 * gradient * gradient, 1e-8));
    }
}

KERNEL check_sgd(const float *weights, const float *momenta, const float *gradients, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count()) {
        const double before = random_real(0, i);
        const double momentum = gradients[i] + DECAY * before;

        expect(wrong, is_near(weights[i], before - RATE * momentum, 1e-6) &&
                          is_near(momenta[i], momentum, 1e-6));
    }
}
