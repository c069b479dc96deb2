/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/physics/physics.h"

enum { CHANNELS = 2 };

static const double link_gbs = 1.0;

/* Sets up a nominal GPU with a context, locked to a clock and at the requested temperature. */
static void play_profile_set_up(struct lull_physics *gpu,
                                const struct lull_play_profile_question *question, uint32_t step,
                                double own_w)
{
    const struct lull_clock_setting locked = {
        .is_locked = true, .min_step = step, .max_step = step};

    lull_physics_init(gpu, question->model, 0, 0);
    lull_physics_open(gpu, 1, 0);
    lull_physics_ask_clocks(gpu, &locked, 0);
    lull_physics_warm(gpu, question->heat_w > 0 ? question->heat_w : own_w);
    lull_physics_advance(gpu, LULL_NS_PER_S);
}

struct measured {
    double time_s;
    double energy_j;
};

static struct measured play_profile_measure(const struct lull_play_profile_question *question,
                                            uint32_t step, double duration_ms, const char *kernels)
{
    const struct lull_gpu_profile *profile = lull_gpu_model_profile(question->model, kernels);
    const double mhz = lull_gpu_model_step_mhz(question->model, step);
    struct lull_physics gpu;
    int64_t begin_ns;
    int64_t end_ns;
    double begin_j;

    play_profile_set_up(&gpu, question, step,
                        lull_gpu_model_kernel_w(question->model, profile, mhz));
    begin_ns = gpu.now_ns;
    begin_j = lull_physics_energy_j(&gpu);
    lull_physics_launch(&gpu, 0, duration_ms * 1e-3, profile);
    while (end_ns = lull_physics_queue_end_ns(&gpu, 0), end_ns > gpu.now_ns) {
        const int64_t change_ns = lull_physics_rate_change_ns(&gpu);

        lull_physics_advance(&gpu, change_ns < end_ns ? change_ns : end_ns);
    }
    return (struct measured){(double)(gpu.now_ns - begin_ns) * 1e-9,
                             lull_physics_energy_j(&gpu) - begin_j};
}

static double blocking_w(const struct lull_play_profile_question *question)
{
    const uint32_t step = lull_gpu_model_step_count(question->model) - 1;
    const struct lull_physics_work work = {
        .after = {LULL_PHYSICS_NO_WORK, LULL_PHYSICS_NO_WORK},
        .duration_s = 1,
        .is_transfer = true,
        .link_gbs = link_gbs,
        .channels = CHANNELS,
        .is_held = true,
    };
    struct lull_physics gpu;

    play_profile_set_up(
        &gpu, question, step,
        lull_gpu_curve_at(&question->model->active_idle_w, question->model->sm_max_mhz));
    lull_physics_enqueue(&gpu, 0, &work);
    lull_physics_advance(&gpu, gpu.now_ns + LULL_NS_PER_MS);
    return lull_physics_power_w(&gpu);
}

static void play_profile_write_rows(const struct lull_play_profile_question *question, FILE *file)
{
    const struct lull_play_pipeline *pipeline = question->pipeline;
    const uint32_t highest = lull_gpu_model_step_count(question->model) - 1;

    fprintf(file, "stage,instruction,frequency,time,energy\n");
    for (uint32_t stage = 0; stage < pipeline->stages; stage++)
        for (int backward = 0; backward < 2; backward++)
            for (uint32_t down = 0; down <= highest; down += question->stride) {
                const double mhz = lull_gpu_model_step_mhz(question->model, highest - down);
                const struct measured measured = play_profile_measure(
                    question, highest - down,
                    pipeline->weights[stage] *
                        (backward ? pipeline->backward_ms : pipeline->forward_ms),
                    backward ? pipeline->backward_kernels : pipeline->forward_kernels);

                if (mhz < question->model->sm_max_mhz / 2)
                    break;
                fprintf(file, "%u,%s,%u,%.9f,%.9f\n", stage, backward ? "backward" : "forward",
                        (uint32_t)mhz, measured.time_s, measured.energy_j);
            }
}

int lull_play_profile_write(const struct lull_play_profile_question *question, const char *path,
                            double *blocking_w_out, struct lull_error *err)
{
    const bool is_standard = strcmp(path, "-") == 0;
    FILE *file = is_standard ? stdout : fopen(path, "w");
    bool has_failed;

    if (file == NULL)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    play_profile_write_rows(question, file);
    has_failed = ferror(file) != 0;
    if (!is_standard)
        has_failed |= fclose(file) != 0;
    if (has_failed)
        return lull_error_set(err, -EIO, "%s: cannot be written", path);
    *blocking_w_out = blocking_w(question);
    return 0;
}
