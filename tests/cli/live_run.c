/*
 * A governor that only publishes: a run with known figures on the named GPUs,
 * until its standard input ends. Each line of input publishes one more second.
 *
 * Usage: live_run UUID:INDEX:RANKS:ENERGY_J...   RANKS 0: no rank uses it; ENERGY_J nan: not known;
 * 0 in all: nothing has been lowered yet. LIVE_RUN_SERVER=MODE (a number): the run is a server in
 * that mode. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/job_file.h"
#include "wire/live.h"

static struct lull_live_run run;

static struct lull_live_figure known(double value)
{
    return lull_live_figure(value, LULL_LIVE_TOO_EARLY);
}

static void fill_sections(struct lull_live_gpu *gpu)
{
    gpu->section = LULL_LIVE_COMMUNICATION;
    snprintf(gpu->section_name, sizeof(gpu->section_name), "allreduce");
    gpu->section_begin_ns = lull_now_ns();
    gpu->sections[LULL_LIVE_COMMUNICATION] = (struct lull_live_sections){400, 12.5, known(2500.0)};
    gpu->sections[LULL_LIVE_GAP] =
        (struct lull_live_sections){30, 0.25, lull_live_figure(NAN, LULL_LIVE_TOO_SHORT)};
}

/* Without metrics nothing of the requests is known. */
static void fill_server(uint32_t mode)
{
    struct lull_live_serving *const server = &run.serving;
    const bool is_blind = mode == LULL_LIVE_MODE_BLIND;
    struct lull_live_figure *const figures[] = {
        &server->running,     &server->waiting,      &server->ttft_p50_ms,
        &server->ttft_p99_ms, &server->tpot_p50_ms,  &server->tpot_p99_ms,
        &server->requests,    &server->missed_ratio, &server->missed_bound_ratio,
    };
    static const double values[] = {7.0, 2.0, 120.0, 430.0, 31.25, 44.0, 12345.0, 0.004, 0.003};

    server->mode = mode;
    snprintf(server->engine, sizeof(server->engine), "vLLM");
    snprintf(server->metrics, sizeof(server->metrics), "http://localhost:8000/metrics");
    snprintf(server->reason, sizeof(server->reason),
             is_blind ? "the server does not answer" : "all requests <meet> the objective");
    server->ttft_bound_ms = known(500.0);
    server->tpot_bound_ms = known(50.0);
    server->share_ratio = known(0.99);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        *figures[i] = lull_live_figure(is_blind ? (double)NAN : values[i], LULL_LIVE_NO_METRICS);
    server->tokens_per_s = is_blind ? *figures[0] : known(1830.0);
    server->j_per_output_token = is_blind ? *figures[0] : known(0.42);
    server->j_per_request = is_blind ? *figures[0] : known(88.1);
    server->clock_mhz = known(1320.0);
    server->saved_ratio = lull_live_figure(is_blind ? (double)NAN : 0.312, LULL_LIVE_TOO_EARLY);
    server->parked_since_ns = mode == LULL_LIVE_MODE_IDLE ? lull_now_ns() : 0;
    server->parked_s = 512.0;
    run.ruler = LULL_LIVE_BY_OBJECTIVE;
    snprintf(run.command, sizeof(run.command), "vllm serve model");
}

static int fill_gpu(struct lull_live_gpu *gpu, const char *text)
{
    const struct lull_live_figure unknown = lull_live_figure(NAN, LULL_LIVE_NOT_READ);
    double energy_j;

    if (sscanf(text, "%95[^:]:%u:%u:%lf", gpu->uuid, &gpu->index, &gpu->ranks, &energy_j) != 4)
        return -1;
    snprintf(gpu->name, sizeof(gpu->name), "NVIDIA A100-SXM4-40GB");
    gpu->state = gpu->ranks > 0 ? LULL_LIVE_MANAGED : LULL_LIVE_UNUSED;
    gpu->is_leased = 1;
    gpu->clock_mhz = gpu->wanted_mhz = known(1320.0);
    gpu->lowest_mhz = known(210.0);
    gpu->highest_mhz = known(1410.0);
    gpu->power_w = known(250.0);
    gpu->power_limit_w = known(400.0);
    gpu->temperature_c = known(60.0);
    gpu->energy_j = lull_live_figure(energy_j, LULL_LIVE_NO_SENSOR);
    gpu->lowered_ratio = known(0.4);
    gpu->throttled = gpu->ranks > 0 ? known(4.0) : unknown;
    gpu->forecasts = 100;
    gpu->forecast_hits = 97;
    gpu->switches = 210;
    gpu->events = 5000;
    gpu->lost_events = 3;
    if (gpu->ranks > 0)
        fill_sections(gpu);
    return 0;
}

static void fill_run(void)
{
    run.begin_ns = lull_now_ns() - 90 * LULL_NS_PER_S;
    run.pid = getpid();
    snprintf(run.pass, sizeof(run.pass), "managed");
    /* A quote, a tag and a byte that is not UTF-8: whatever a user may type. */
    snprintf(run.command, sizeof(run.command), "torchrun train.py --tag \"<b>\xff\"");
    snprintf(run.slurm_job, sizeof(run.slurm_job), "4711");
    snprintf(run.slurm_step, sizeof(run.slurm_step), "0");
    snprintf(run.slurm_name, sizeof(run.slurm_name), "night\"ly\\");
    snprintf(run.pod, sizeof(run.pod), "trainer-0");
    snprintf(run.pod_namespace, sizeof(run.pod_namespace), "research");
    snprintf(run.learning, sizeof(run.learning), "trying 1230 MHz steady");
    run.tolerance_ratio = 0.01;
    run.confidence = 0.95;
    run.ruler = LULL_LIVE_BY_SECTION;
    run.verdict = LULL_LIVE_PROVEN;
    run.iterations = 900;
    run.iteration_ms = known(100.0);
    run.iterations_left = lull_live_figure(NAN, LULL_LIVE_NOT_SOUGHT);
    run.slowdown_ratio = known(0.002);
    run.slowdown_upper_ratio = known(0.007);
    run.whole_slowdown_ratio = known(0.003);
    run.whole_slowdown_upper_ratio = lull_live_figure(NAN, LULL_LIVE_TOO_EARLY);
    run.budget_earned_ms = known(900.0);
    run.budget_left_ms = known(-20.0);
    run.power_w = known(250.0);
}

int main(int argc, char **argv)
{
    const char *const viewers = getenv("LIVE_RUN_VIEWERS"); /* a group that may see it */
    const char *const mode = getenv("LIVE_RUN_SERVER");
    struct lull_live_writer *writer;
    double energy_j = 0.0;

    fill_run();
    if (mode != NULL)
        fill_server((uint32_t)atoi(mode));
    for (int i = 1; i < argc && run.gpu_count < LULL_LIVE_MAX_GPUS; i++) {
        struct lull_live_gpu *const gpu = &run.gpus[run.gpu_count++];

        if (fill_gpu(gpu, argv[i]) < 0)
            return 2;
        energy_j += gpu->ranks > 0 ? gpu->energy_j.value : 0.0;
    }
    run.energy_j = lull_live_figure(energy_j, LULL_LIVE_NO_SENSOR);
    run.saving_ratio =
        lull_live_figure(energy_j > 0.0 ? 0.114 : (double)NAN,
                         isnan(energy_j) ? LULL_LIVE_NO_SENSOR : LULL_LIVE_NOTHING_LOW);
    if (lull_live_writer_create(LULL_JOB_DIRECTORY, "managed", &writer, NULL) < 0)
        return 1;
    if (viewers != NULL && lull_live_writer_share(writer, (gid_t)atoi(viewers), NULL) < 0)
        return 3;
    do {
        run.written_ns = lull_now_ns();
        lull_live_write(writer, &run);
        run.iterations += 10;
        printf("%d\n", getpid());
        fflush(stdout);
    } while (getchar() != EOF);
    lull_live_writer_destroy(writer);
    return 0;
}
