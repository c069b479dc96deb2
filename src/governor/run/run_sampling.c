/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_sampling.h"

#include <math.h>

#include "governor/energy/energy_meter.h"

void lull_run_sampling_add(struct lull_run_sampling *sampling, const struct lull_control *control,
                           const struct lull_boundaries *boundaries, size_t first, size_t last)
{
    for (size_t i = first; i < last; i++)
        lull_energy_strobe_add(&sampling->strobe, boundaries->items[i].time_ns);
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        if (lull_control_gpu(control, i)->process >= 0)
            lull_run_log_powers(lull_control_log(control, i), boundaries->items[first].time_ns,
                                boundaries->items[last].time_ns, &sampling->powers_w);
}

/* Finds when the job waits in every iteration: those sections that outlast a window of the sensor,
 * and at least one. */
static struct lull_energy_waveform find_waveform(const struct lull_run_sampling *sampling,
                                                 const struct lull_control *control, uint32_t gpu,
                                                 double iteration_ms, double window_ms)
{
    const struct lull_track *track =
        lull_controller_look_gpu(lull_control_controller(control), gpu).track;
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(track, &count);
    uint32_t long_ones = 0;
    double waiting_ms = 0.0;

    for (uint32_t i = 0; i < count; i++) {
        waiting_ms += sections[i].exposed_ms.mean;
        long_ones += sections[i].exposed_ms.mean > window_ms;
    }
    return (struct lull_energy_waveform){
        .iteration_s = iteration_ms * 1e-3,
        .sections = fmax(1.0, long_ones),
        .swing_ratio =
            lull_energy_strobe_swing_ratio(&sampling->powers_w, waiting_ms / iteration_ms),
    };
}

double lull_run_sampling_ratio(const struct lull_run_sampling *sampling,
                               const struct lull_control *control, uint32_t leading_gpu,
                               double iteration_ms)
{
    struct lull_energy_source known = {0};
    double edge_s = 0.0;
    double squares = 0.0;
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        struct lull_energy_source source;
        struct lull_energy_waveform waveform;

        if (lull_control_gpu(control, i)->process < 0)
            continue;
        source = lull_energy_source_of_gpu(lull_control_info(control, i));
        /* GPUs of one kind share the result, because it is slow to compute. */
        if (source.power_refresh_s != known.power_refresh_s ||
            source.power_window_s != known.power_window_s)
            edge_s = lull_energy_strobe_edge_s(&sampling->strobe, &source);
        known = source;
        waveform = find_waveform(sampling, control, leading_gpu, iteration_ms,
                                 source.power_window_s * 1e3);
        squares += pow(lull_energy_strobe_ratio(edge_s, &waveform), 2.0);
        gpus++;
    }
    return gpus == 0 ? 0.0 : sqrt(squares) / gpus;
}
