/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/oracle_limits.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/physics/physics.h"
#include "emulator/spec.h"

/* Power depends a little on the temperature and the temperature on the power, so both are found by
 * iteration; three rounds settle them. */
enum { ROUNDS = 3 };

static const int64_t round_ns = 10 * LULL_NS_PER_S;
static const int64_t measure_ns =
    20 * LULL_NS_PER_S; /* long enough to average the limiter's dithering */

struct oracle_limits_node {
    const struct lull_oracle_limit_job *job;
    const struct lull_gpu_profile *profile;
    int64_t now_ns;
    struct lull_physics gpus[LULL_NODE_MAX_GPUS];
};

static void oracle_limits_start(struct oracle_limits_node *node, double limit_w)
{
    node->now_ns = 0;
    for (uint32_t i = 0; i < node->job->gpus; i++) {
        struct lull_physics *gpu = &node->gpus[i];
        const uint64_t seed = node->job->seed;

        lull_physics_init(gpu, node->job->model, seed == 0 ? 0 : lull_noise_mix(seed + i), 0);
        gpu->plateau_ns = LULL_PHYSICS_NEVER;
        lull_physics_set_limit(gpu, limit_w);
        lull_physics_open(gpu, 1, 0); /* gives context 0, which oracle_limits_run_kernel() uses */
    }
}

static void oracle_limits_run_kernel(struct lull_physics *gpu, double seconds,
                                     const struct lull_gpu_profile *profile)
{
    int64_t end_ns;

    lull_physics_launch(gpu, 0, seconds, profile);
    while ((end_ns = lull_physics_queue_end_ns(gpu, 0)) > gpu->now_ns) {
        const int64_t change_ns = lull_physics_rate_change_ns(gpu);

        lull_physics_advance(gpu, end_ns < change_ns ? end_ns : change_ns);
    }
}

static void oracle_limits_iterate(struct oracle_limits_node *node)
{
    int64_t last_ns = node->now_ns;

    for (uint32_t i = 0; i < node->job->gpus; i++) {
        oracle_limits_run_kernel(&node->gpus[i], node->job->compute_ms * 1e-3, node->profile);
        if (node->gpus[i].now_ns > last_ns)
            last_ns = node->gpus[i].now_ns;
    }
    node->now_ns = last_ns + lull_ns_from_ms(node->job->wait_ms);
    for (uint32_t i = 0; i < node->job->gpus; i++)
        lull_physics_advance(&node->gpus[i], node->now_ns);
}

/* Runs iterations for length_ns. Returns their number; energies_j_out[i] is the energy of GPU i. */
static uint32_t run_for(struct oracle_limits_node *node, int64_t length_ns, double *energies_j_out)
{
    const int64_t end_ns = node->now_ns + length_ns;
    uint32_t iterations = 0;

    for (uint32_t i = 0; i < node->job->gpus; i++)
        energies_j_out[i] = -lull_physics_energy_j(&node->gpus[i]);
    for (; node->now_ns < end_ns; iterations++)
        oracle_limits_iterate(node);
    for (uint32_t i = 0; i < node->job->gpus; i++)
        energies_j_out[i] += lull_physics_energy_j(&node->gpus[i]);
    return iterations;
}

static void oracle_limits_measure(struct oracle_limits_node *node, struct lull_oracle_limit *limit)
{
    double energies_j[LULL_NODE_MAX_GPUS] = {0};
    uint32_t iterations;
    int64_t begin_ns;

    oracle_limits_start(node, limit->limit_w);
    for (int round = 0; round < ROUNDS; round++) {
        begin_ns = node->now_ns;
        run_for(node, round_ns, energies_j);
        for (uint32_t i = 0; i < node->job->gpus; i++)
            lull_physics_warm(&node->gpus[i],
                              energies_j[i] / ((double)(node->now_ns - begin_ns) * 1e-9));
    }
    begin_ns = node->now_ns;
    iterations = run_for(node, measure_ns, energies_j);
    limit->time_s = (double)(node->now_ns - begin_ns) * 1e-9 / iterations;
    limit->energy_j = 0.0;
    for (uint32_t i = 0; i < node->job->gpus; i++)
        limit->energy_j += energies_j[i] * node->gpus[i].gain_ratio / iterations;
}

int lull_oracle_ask_limits(const struct lull_oracle_limit_job *job,
                           struct lull_oracle_limit *limits, uint32_t count, struct lull_error *err)
{
    struct oracle_limits_node *node;

    if (job->gpus < 1 || job->gpus > LULL_NODE_MAX_GPUS || !(job->compute_ms > 0.0) ||
        !(job->wait_ms >= 0.0) || !isfinite(job->compute_ms + job->wait_ms))
        return lull_error_set(
            err, -EINVAL,
            "oracle: the job needs 1 to %d GPUs, compute above 0 ms and a wait from 0 ms",
            LULL_NODE_MAX_GPUS);
    for (uint32_t i = 0; i < count; i++)
        if (!(limits[i].limit_w >= job->model->limit_min_w &&
              limits[i].limit_w <= job->model->limit_max_w))
            return lull_error_set(
                err, -EINVAL, "oracle: the power limit of %s goes from %g to %g W; %g W is outside",
                job->model->name, job->model->limit_min_w, job->model->limit_max_w,
                limits[i].limit_w);
    node = calloc(1, sizeof(*node));
    if (node == NULL)
        return lull_error_set(err, -ENOMEM, "oracle: no memory");
    node->job = job;
    node->profile = lull_gpu_model_profile(job->model, job->profile);
    for (uint32_t i = 0; i < count; i++)
        oracle_limits_measure(node, &limits[i]);
    free(node);
    return 0;
}
