/*
 * Starts the GPUs and the actuator of a run, and for each pass the job's segment, the control loop
 * and the child with the probes in its environment.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/run/run_pass.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/stats/random.h"
#include "governor/run/opening.h"
#include "governor/run/visible_gpus.h"
#include "wire/job_file.h"

/* Timeout for finding the GPUs; after it the job runs unmanaged. */
enum { OPEN_MS = 5000 };

/* Ends the message of a run that manages no GPU. */
#define DOCTOR ". `lull doctor` checks this node and names the command that fixes it"

void lull_run_open_actuator(struct lull_managed_run *run)
{
    const struct lull_run_options *options = run->options;
    struct lull_error err = {0};
    char text[sizeof(err.text) + 128];
    int result;

    if (run->devices == NULL || run->leases.actuator != NULL)
        return;
    result = lull_run_leases_open(&run->leases, run->devices, options->runtime_dir,
                                  options->no_daemon, &err);
    run->denial = err;
    if (result < 0) {
        snprintf(text, sizeof(text), "the command is observed, not managed: %s" DOCTOR, err.text);
        lull_run_note(run, text);
    }
}

/* Chooses the GPUs that the job may be seen on. */
static void run_start_choose_gpus(struct lull_managed_run *run)
{
    struct lull_visible_gpus visible;
    char text[256];

    lull_visible_gpus(run->devices, &visible);
    run->gpu_count = visible.count;
    run->is_certain = visible.is_certain;
    memcpy(run->gpus, visible.gpus, sizeof(run->gpus));
    if (visible.count > 0)
        return;
    if (visible.has_slice)
        snprintf(text, sizeof(text),
                 "the command runs unmanaged: %s gives it a MIG slice, whose clock belongs to all "
                 "slices of its GPU",
                 lull_visible_gpus_variable(run->devices));
    else
        snprintf(text, sizeof(text),
                 "the command runs unmanaged: it may use none of this node's %u GPUs, because %s "
                 "names none of them; unset that, or name them as lull gpus does",
                 lull_devices_count(run->devices), lull_visible_gpus_variable(run->devices));
    lull_run_note(run, text);
}

/* Opens what a run that is attached needs: it has no command that could run without. */
static int open_attached(struct lull_managed_run *run, struct lull_error *err)
{
    const struct lull_run_options *const options = run->options;
    int result =
        lull_devices_open_until(lull_now_ns() + OPEN_MS * LULL_NS_PER_MS, &run->devices, err);

    if (result < 0) {
        run->devices = NULL;
        return result;
    }
    result = lull_visible_gpus_choose(run->devices, options->gpus, run->gpus, &run->gpu_count, err);
    if (result == 0)
        result = lull_sampler_start(run->devices, run->gpus, run->gpu_count, &run->sampler, err);
    if (result == 0)
        result = lull_run_leases_open(&run->leases, run->devices, options->runtime_dir,
                                      options->no_daemon, err);
    return result;
}

int lull_run_open_devices(struct lull_managed_run *run, struct lull_error *err_out)
{
    struct lull_error err = {0};
    char text[sizeof(err.text) + 128];

    if (run->options->is_attached)
        return open_attached(run, err_out);
    if (lull_devices_open_until(lull_now_ns() + OPEN_MS * LULL_NS_PER_MS, &run->devices, &err) <
        0) {
        run->devices = NULL;
        snprintf(text, sizeof(text), "the command runs unmanaged: %s" DOCTOR, err.text);
        lull_run_note(run, text);
        return 0;
    }
    run_start_choose_gpus(run);
    if (run->gpu_count > 0 &&
        lull_sampler_start(run->devices, run->gpus, run->gpu_count, &run->sampler, &err) < 0)
        lull_run_note(run, err.text);
    lull_run_open_actuator(run);
    return 0;
}

static void choose_probes(struct lull_managed_run *run)
{
    const struct lull_probes_request request = {
        .command = run->options->command,
        .markers = run->options->markers,
        .exposure = run->options->exposure,
    };
    struct lull_error err = {0};

    for (uint32_t i = 0; i < lull_probes_count(); i++)
        if (lull_probes_add(&run->probes, i, &request, &err) < 0)
            lull_run_note(run, err.text);
}

void lull_run_choose_probes(struct lull_managed_run *run)
{
    const struct lull_serving_options *const serving = &run->options->serving;

    if (run->gpu_count > 0 && !run->options->has_launcher &&
        (!serving->is_wanted || lull_serving_is_by_steps(serving)))
        choose_probes(run);
}

static int create_job(char path[LULL_RUN_PATH_SIZE], const char *name,
                      struct lull_event_segment **job_out, struct lull_error *err)
{
    lull_job_file_clear(LULL_JOB_DIRECTORY);
    lull_job_file_path(LULL_JOB_DIRECTORY, LULL_JOB_FILE_EVENTS, name, path, LULL_RUN_PATH_SIZE);
    return lull_event_segment_create(path, job_out, err);
}

int lull_run_adopt_job(struct lull_managed_run *run, struct lull_error *err)
{
    const char *const *environment = NULL;
    char path[LULL_RUN_PATH_SIZE];
    struct lull_error reason = {0};

    if (!run->options->has_launcher)
        return 0;
    choose_probes(run);
    if (create_job(path, "adopted", &run->adopted_job, &reason) < 0)
        lull_run_note(run, reason.text);
    else
        environment = lull_probes_environment(&run->probes, path);
    return lull_child_adopt((int)run->options->launcher_fd, environment, &run->adopted, err);
}

/* Joins the job's other nodes, if there are any and they can be reached. */
static void join_nodes(struct lull_run_pass *pass)
{
    struct lull_managed_run *run = pass->run;
    struct lull_error err = {0};
    char text[sizeof(err.text) + 128];

    if (run->options->peers.endpoint == NULL ||
        lull_peers_create(&run->options->peers, &pass->peers, &err) == 0)
        return;
    snprintf(text, sizeof(text), "this node is managed alone: %s", err.text);
    lull_run_note(run, text);
}

/* A pipeline follows plans that were given, or is profiled first; else there is no plan runner. */
static int prepare_plan_runner(struct lull_run_pass *pass,
                               const struct lull_controller_config *config, struct lull_error *err)
{
    struct lull_managed_run *run = pass->run;
    const struct lull_plan_file *plans = run->plans.files;
    const uint64_t given_seed = run->options->control.seed;
    const uint64_t shared_seed = given_seed != 0 ? given_seed : lull_nodes_seed();
    uint32_t plan_count = run->plans.count;

    if (run->options->online.schedule != NULL) {
        const int result =
            lull_online_create(&run->options->online, lull_device_info(run->devices, run->gpus[0]),
                               run->gpu_count, &pass->online, err);

        if (result < 0)
            return result;
        plans = lull_online_plans(pass->online);
        plan_count = 1;
    }
    if (plan_count == 0)
        return 0;
    return lull_plan_runner_create(&(struct lull_plan_runner_setup){.plans = plans,
                                                                    .plan_count = plan_count,
                                                                    .config = config,
                                                                    .shared_seed = shared_seed,
                                                                    .devices = run->devices,
                                                                    .gpus = run->gpus,
                                                                    .gpu_count = run->gpu_count},
                                   &pass->runner, err);
}

/* Without an actuator nothing is ever set, not even a power limit. */
static int create_control(struct lull_run_pass *pass, const struct lull_controller_config *config,
                          struct lull_actuator *actuator, struct lull_error *err)
{
    struct lull_managed_run *const run = pass->run;
    const struct lull_control_setup setup = {
        .job = pass->job,
        .devices = run->devices,
        .actuator = actuator,
        .config = config,
        .exposure = run->options->exposure,
        .learns_gaps = pass->is_denied,
        .gpus = run->gpus,
        .gpu_count = run->gpu_count,
        .hang_after_ns = (int64_t)(run->options->hang_after_s * 1e9),
    };

    return lull_control_create(&setup, &pass->control, err);
}

static int run_start_child(struct lull_run_pass *pass, struct lull_error *err)
{
    pass->accounting =
        lull_accounting_create(pass->run->devices, pass->run->gpus, pass->run->gpu_count);
    lull_control_set_accounting(pass->control, pass->accounting);
    if (pass->run->is_certain)
        lull_control_trust_environment(pass->control);
    if (pass->limits != NULL)
        lull_control_want_limits(pass->control);
    if (pass->runner != NULL)
        lull_plan_runner_rule(pass->runner, pass->control);
    return lull_control_start(pass->control, err);
}

/* A launcher's job has its segment already, or runs without one. */
static int begin_job(struct lull_run_pass *pass, struct lull_error *err)
{
    struct lull_managed_run *const run = pass->run;

    if (!run->options->has_launcher)
        return create_job(pass->job_path, pass->name, &pass->job, err);
    pass->job = run->adopted_job;
    run->adopted_job = NULL;
    return pass->job != NULL
               ? 0
               : lull_error_set(err, -ENOENT, "the job runs without probes, unmanaged");
}

/* Says that the GPUs are managed now. A server that Lull starts has a progress display instead. */
static void announce(const struct lull_run_pass *pass)
{
    char text[96];

    if (pass->run->options->quiet)
        return;
    snprintf(text, sizeof(text), "lull attach: %u %s managed; end with Ctrl-C\n",
             pass->run->gpu_count, pass->run->gpu_count == 1 ? "GPU is" : "GPUs are");
    lull_log_text(text, strlen(text), 0);
}

/* Creates what manages a server, and leases the GPUs of one that runs already. */
static int begin_serving(struct lull_run_pass *pass, struct lull_error *err)
{
    const struct lull_run_options *const options = pass->run->options;
    int result;

    if (!options->serving.is_wanted || pass->observe_only)
        return 0;
    result = lull_serving_create(&options->serving, pass->control, &pass->serving, err);
    if (result < 0 || !options->is_attached)
        return result;
    result = lull_serving_lease_all(pass->serving, err);
    if (result == 0)
        announce(pass);
    return result;
}

int lull_run_pass_prepare(struct lull_run_pass *pass, bool observe_only, struct lull_error *err_out)
{
    struct lull_managed_run *run = pass->run;
    struct lull_controller_config config = run->options->control;
    struct lull_error err = {0};

    config.observe_only = observe_only || run->leases.actuator == NULL;
    pass->observe_only = config.observe_only;
    pass->is_denied = !observe_only && run->leases.actuator == NULL;
    if (run->gpu_count == 0)
        return 0;
    if (run->options->limits.is_wanted && !config.observe_only) {
        pass->limits =
            lull_limits_create(&run->options->limits, run->options->command, run->devices);
        config.observe_only = pass->limits != NULL;
    }
    config.observe_only = config.observe_only || run->options->serving.is_wanted;
    if (!observe_only)
        join_nodes(pass);
    config.together = pass->peers != NULL;
    /* Each run has its own coins. */
    if (config.seed == 0 && !config.together)
        config.seed = lull_seed_from((uint64_t)lull_now_ns());
    if (prepare_plan_runner(pass, &config, &err) < 0)
        lull_run_note(run, err.text);
    if (run->options->swing_bound_ratio > 0.0 && !config.observe_only)
        pass->smoothing = lull_power_smoothing_create(&(struct lull_power_smoothing_options){
            run->options->swing_bound_ratio, config.tolerance_ratio, config.confidence});
    if (pass->runner != NULL && !config.observe_only)
        pass->response = lull_straggler_response_create();
    if (begin_job(pass, &err) < 0 ||
        create_control(pass, &config, observe_only ? NULL : run->leases.actuator, &err) < 0 ||
        run_start_child(pass, &err) < 0 || begin_serving(pass, &err) < 0) {
        if (run->options->is_attached)
            return lull_error_set(err_out, err.code, "%s", err.text);
        lull_run_note(run, err.text);
        lull_serving_destroy(pass->serving);
        lull_control_destroy(pass->control);
        lull_accounting_destroy(pass->accounting);
        lull_event_segment_destroy(pass->job);
        pass->accounting = NULL;
        pass->serving = NULL;
        pass->control = NULL;
        pass->job = NULL;
        return 0;
    }
    lull_run_live_open(pass);
    return 0;
}

int lull_run_pass_start_job(struct lull_run_pass *pass, struct lull_error *err)
{
    struct lull_managed_run *run = pass->run;
    const char *const *environment = NULL;
    const struct lull_child_setup setup = {
        .stdout_fd = -1,
        .stderr_fd = -1,
        .signals = run->signals.fd >= 0 ? &run->signals.inherited : NULL,
    };

    if (run->options->is_attached)
        return 0;
    if (run->options->has_launcher) {
        pass->child = run->adopted;
        return 0;
    }
    if (pass->job != NULL)
        environment = lull_probes_environment(&run->probes, pass->job_path);
    lull_job_signals_await_job(&run->signals);
    return lull_child_start_as(run->options->command, environment, &setup, &pass->child, err);
}
