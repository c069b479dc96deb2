/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "governor/run/opening.h"
#include "governor/run/sampler.h"
#include "wire/client.h"

/* Timeouts of the driver and of lulld. A lulld that has not answered is not asked again for a
 * while, so that the screen keeps updating. */
enum { OPEN_MS = 3000, ANSWER_MS = 300 };
static const int64_t daemon_rest_ns = 10 * LULL_NS_PER_S;

/* Time that stopping waits for a last reading. */
enum { STOP_MS = 100 };

struct lull_top {
    const struct lull_top_options *options;
    struct lull_devices *devices; /* NULL: there is no driver */
    struct lull_sampler *sampler;
    struct lull_client *client; /* NULL: no lulld answers */
    uint32_t daemon_gpus;
    int64_t next_daemon_ns; /* time of the next attempt to connect to one */
    struct lull_top_view view;
};

/* ---- opening ----------------------------------------------------------------------------- */

static void top_view_open_driver(struct lull_top *top)
{
    struct lull_top_view *const view = &top->view;
    uint32_t all[LULL_DEVICE_MAX_GPUS];

    if (lull_devices_open_until(lull_now_ns() + OPEN_MS * LULL_NS_PER_MS, &top->devices,
                                &view->no_driver) < 0) {
        top->devices = NULL;
        return;
    }
    view->gpu_count = lull_devices_count(top->devices);
    for (uint32_t i = 0; i < view->gpu_count; i++) {
        all[i] = i;
        view->gpus[i] =
            (struct lull_top_gpu){.index = i, .info = lull_device_info(top->devices, i)};
    }
    view->has_driver = lull_sampler_start(top->devices, all, view->gpu_count, &top->sampler,
                                          &view->no_driver) == 0;
}

static int top_view_make_room(struct lull_top_view *view)
{
    for (uint32_t i = 0; i < LULL_TOP_MAX_RUNS; i++) {
        view->runs[i] = calloc(1, sizeof(*view->runs[i]));
        if (view->runs[i] == NULL)
            return -ENOMEM;
    }
    return 0;
}

int lull_top_open(const struct lull_top_options *options, struct lull_top **top_out,
                  struct lull_error *err)
{
    struct lull_top *top = calloc(1, sizeof(*top));

    if (top == NULL || top_view_make_room(&top->view) < 0) {
        lull_top_close(top);
        return lull_error_set(err, -ENOMEM, "no memory for the runs of this node");
    }
    top->options = options;
    if (gethostname(top->view.host, sizeof(top->view.host) - 1) < 0)
        snprintf(top->view.host, sizeof(top->view.host), "?");
    top_view_open_driver(top);
    *top_out = top;
    return 0;
}

void lull_top_close(struct lull_top *top)
{
    if (top == NULL)
        return;
    lull_client_close(top->client);
    /* A thread that hangs in the driver still uses the devices, and ends with the process. */
    if (top->sampler == NULL ||
        lull_sampler_stop(top->sampler, lull_now_ns() + STOP_MS * LULL_NS_PER_MS) == 0)
        lull_devices_close(top->devices);
    for (uint32_t i = 0; i < LULL_TOP_MAX_RUNS; i++)
        free(top->view.runs[i]);
    free(top);
}

/* ---- runs -------------------------------------------------------------------------------- */

static bool top_view_is_wanted(const struct lull_top_options *options,
                               const struct lull_live_run *run)
{
    for (uint32_t i = 0; i < options->pid_count; i++)
        if (options->pids[i] == run->pid)
            return true;
    return options->pid_count == 0;
}

static void read_runs(struct lull_top *top)
{
    struct lull_top_view *const view = &top->view;
    struct lull_live_entry listed[LULL_TOP_MAX_RUNS];
    const uint32_t count = lull_live_list(top->options->directory, listed, LULL_TOP_MAX_RUNS);

    view->run_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct lull_live_run *const run = view->runs[view->run_count];

        if (lull_live_read(top->options->directory, listed[i].file, run, NULL) < 0 ||
            !top_view_is_wanted(top->options, run))
            continue;
        view->entries[view->run_count++] = listed[i];
    }
}

const struct lull_live_gpu *lull_top_gpu_of(const struct lull_live_run *run, const char *uuid)
{
    for (uint32_t i = 0; i < run->gpu_count; i++)
        if (run->gpus[i].state != LULL_LIVE_UNUSED && strcmp(run->gpus[i].uuid, uuid) == 0)
            return &run->gpus[i];
    return NULL;
}

static void find_runs_of_gpus(struct lull_top_view *view)
{
    for (uint32_t i = 0; i < view->gpu_count; i++) {
        struct lull_top_gpu *const gpu = &view->gpus[i];
        const char *uuid = gpu->info != NULL ? gpu->info->uuid : gpu->state.uuid;

        gpu->has_run = false;
        for (uint32_t r = 0; r < view->run_count && !gpu->has_run; r++)
            gpu->has_run = lull_top_gpu_of(view->runs[r], uuid) != NULL;
    }
}

/* ---- the driver -------------------------------------------------------------------------- */

static void take_readings(struct lull_top *top)
{
    struct lull_sample sample;
    uint32_t wanted;
    uint32_t gpu;

    while (lull_sampler_take(top->sampler, &gpu, &wanted, &sample))
        top->view.gpus[gpu].reading = sample.reading;
}

static void read_driver(struct lull_top *top, int wait_ms)
{
    struct lull_top_view *const view = &top->view;
    const int64_t until_ns = lull_now_ns() + wait_ms * LULL_NS_PER_MS;
    struct lull_sampler_round round = {0};
    uint32_t stuck = UINT32_MAX;

    if (!view->has_driver)
        return;
    take_readings(top);
    for (uint32_t i = 0; i < view->gpu_count; i++)
        round.wanted[i] = LULL_READING_ALL;
    if (lull_sampler_ask(top->sampler, &round) && wait_ms > 0)
        lull_sampler_wait(top->sampler, until_ns);
    take_readings(top);
    if (!lull_sampler_is_stuck(top->sampler, lull_now_ns(), &stuck))
        stuck = UINT32_MAX;
    for (uint32_t i = 0; i < view->gpu_count; i++)
        view->gpus[i].is_stuck = i == stuck;
}

/* ---- lulld ------------------------------------------------------------------------------- */

static int top_view_greet_daemon(struct lull_top *top, struct lull_error *err)
{
    struct lull_message_welcome welcome = {0};
    int result;

    if (top->client != NULL)
        return 0;
    result = lull_client_connect(top->options->runtime_dir, &top->client, err);
    if (result == 0)
        result = lull_client_greet(top->client, ANSWER_MS, &welcome, err);
    if (result < 0) {
        lull_client_close(top->client);
        top->client = NULL;
        return result;
    }
    top->daemon_gpus = welcome.gpu_count;
    return 0;
}

/* Enters the state of a GPU in lulld: in the row of that GPU if the driver has it, otherwise after
 * the others. */
static void top_view_add_state(struct lull_top_view *view, const struct lull_message_state *state)
{
    uint32_t i = 0;

    while (i < view->gpu_count &&
           strcmp(view->gpus[i].info != NULL ? view->gpus[i].info->uuid : view->gpus[i].state.uuid,
                  state->uuid) != 0)
        i++;
    if (i == LULL_DEVICE_MAX_GPUS)
        return;
    if (i == view->gpu_count) {
        view->gpus[i] = (struct lull_top_gpu){.index = state->gpu};
        view->gpu_count++;
    }
    view->gpus[i].has_state = true;
    view->gpus[i].state = *state;
}

static int top_view_query_daemon(struct lull_top *top, struct lull_error *err)
{
    int result = top_view_greet_daemon(top, err);

    for (uint32_t gpu = 0; result == 0 && gpu < top->daemon_gpus; gpu++) {
        struct lull_message message = {.type = LULL_MESSAGE_STATUS};
        struct lull_message answer;

        message.body.status.gpu = gpu;
        result = lull_client_call(top->client, &message, LULL_MESSAGE_STATE, ANSWER_MS, &answer,
                                  NULL, err);
        if (result == 0)
            top_view_add_state(&top->view, &answer.body.state);
    }
    return result;
}

static void read_daemon(struct lull_top *top)
{
    struct lull_top_view *const view = &top->view;
    const int64_t now_ns = lull_now_ns();
    int result;

    if (now_ns < top->next_daemon_ns)
        return;
    for (uint32_t i = 0; i < view->gpu_count; i++)
        view->gpus[i].has_state = false;
    result = top_view_query_daemon(top, &view->no_daemon);
    view->has_daemon = result == 0;
    if (result == 0)
        return;
    lull_client_close(top->client);
    top->client = NULL;
    /* If there is no lulld, the next attempt costs nothing, so it is not delayed. */
    if (result != -ENOENT && result != -ECONNREFUSED)
        top->next_daemon_ns = now_ns + daemon_rest_ns;
}

const struct lull_top_view *lull_top_look(struct lull_top *top, int wait_ms)
{
    read_driver(top, wait_ms);
    read_daemon(top);
    read_runs(top);
    top->view.now_ns = lull_now_ns();
    find_runs_of_gpus(&top->view);
    return &top->view;
}
