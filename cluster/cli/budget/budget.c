/*
 * lull budget: keeps the power of a cluster's GPUs within a budget and within the requests of a
 * grid. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "cluster/cli/budget/grid_file.h"
#include "cluster/cli/budget/round.h"
#include "cluster/cli/budget/openadr.h"
#include "cluster/cli/budget/webhook.h"
#include "cluster/cli/commands.h"
#include "cli/shared/command.h"
#include "cli/shared/stop_signals.h"

/* lulld looks at its GPUs once a second, and 0.1 s after their caps have changed: so in every other
 * round something new is known. */
#define ROUND_NS (600 * LULL_NS_PER_MS)
#define LOOK_NS (20 * LULL_NS_PER_MS)

/* Timeout of a round for writing the file of --state. Caps are held for two seconds or more. */
enum { STATE_MS = 1000 };

struct budget {
    const char *path;
    const char *state_path; /* NULL: none */
    const char *runtime_dir;
    struct lull_budget_settings *settings;
    struct lull_file_stamp settings_stamp;
    struct lull_budget_nodes nodes;
    struct lull_budget_round *round;
    struct lull_openadr *openadr; /* NULL: none */
    struct lull_webhook *webhook; /* NULL: none */
    struct lull_grid_file grid_file;
    struct lull_grid_events file_grid;
    struct lull_grid_events server_grid;
    struct lull_grid_events server_read; /* the last ones it sent */
};

struct budget_arguments {
    bool is_check;
    bool is_quiet;
    const char *state_path;
    const char *runtime_dir;
};

static int budget_find_user(const char *name, uint32_t *uid_out)
{
    const struct passwd *const user = getpwnam(name);

    if (user == NULL)
        return -ENOENT;
    *uid_out = user->pw_uid;
    return 0;
}

static int budget_load_settings(const char *path, struct lull_budget_settings *settings_out,
                                struct lull_error *err)
{
    char *text;
    size_t size;
    int result = lull_file_read(path, LULL_BUDGET_MAX_BYTES, &text, &size, err);

    if (result < 0)
        return result;
    result = lull_budget_settings_read(path, text, size, budget_find_user, settings_out, err);
    free(text);
    return result;
}

/* --- targets of the grid --- */

static double target_w(struct budget *budget)
{
    const int64_t now_s = (int64_t)time(NULL);
    const int64_t now_ns = lull_now_ns();

    lull_grid_update(&budget->file_grid, lull_grid_file_read(&budget->grid_file));
    lull_openadr_read(budget->openadr, &budget->server_read);
    lull_grid_update(&budget->server_grid, &budget->server_read);
    return fmin(lull_grid_target_w(&budget->file_grid, now_s, now_ns),
                lull_grid_target_w(&budget->server_grid, now_s, now_ns));
}

/* --- begin and end --- */

static void stop_sources(struct budget *budget)
{
    lull_openadr_stop(budget->openadr);
    lull_webhook_stop(budget->webhook);
    budget->openadr = NULL;
    budget->webhook = NULL;
}

static void budget_fini(struct budget *budget)
{
    stop_sources(budget);
    lull_budget_round_destroy(budget->round);
    lull_budget_nodes_close(&budget->nodes);
    free(budget->settings);
    free(budget);
}

/* Begins with settings, which it takes over, in place of those from before. On an error the
 * previous ones are gone as well. */
static int budget_open(struct budget *budget, struct lull_budget_settings *settings,
                       struct lull_error *err)
{
    int result;

    stop_sources(budget);
    lull_budget_round_destroy(budget->round);
    budget->round = NULL;
    lull_budget_nodes_close(&budget->nodes);
    free(budget->settings);
    budget->settings = settings;
    result = lull_budget_nodes_open(settings, budget->runtime_dir, &budget->nodes);
    if (result == 0)
        result = lull_budget_round_create(settings, &budget->nodes, &budget->round);
    if (result < 0)
        return lull_error_set(err, result, "out of memory");
    budget->grid_file = (struct lull_grid_file){0};
    snprintf(budget->grid_file.path, sizeof(budget->grid_file.path), "%s", settings->grid_file);
    if (settings->openadr[0] != '\0')
        result = lull_openadr_start(settings, &budget->openadr, err);
    if (result == 0 && settings->webhook[0] != '\0')
        result = lull_webhook_start(settings, &budget->webhook, err);
    return result;
}

/* Returns whether two files name the same nodes, racks and sources. */
static bool has_same_parts(const struct lull_budget_settings *a,
                           const struct lull_budget_settings *b)
{
    if (a->node_count != b->node_count || a->rack_count != b->rack_count ||
        a->openadr_poll_s != b->openadr_poll_s || strcmp(a->grid_file, b->grid_file) != 0 ||
        strcmp(a->webhook, b->webhook) != 0 || strcmp(a->openadr, b->openadr) != 0 ||
        strcmp(a->webhook_token_file, b->webhook_token_file) != 0 ||
        strcmp(a->openadr_token_file, b->openadr_token_file) != 0 ||
        strcmp(a->openadr_program, b->openadr_program) != 0)
        return false;
    for (uint32_t n = 0; n < a->node_count; n++)
        if (strcmp(a->nodes[n].name, b->nodes[n].name) != 0 ||
            strcmp(a->nodes[n].runtime_dir, b->nodes[n].runtime_dir) != 0)
            return false;
    return true;
}

/* Applies what may change while the nodes and sources stay the same, so that the measurements of
 * the GPUs are kept. */
static void budget_take_numbers(struct lull_budget_settings *settings,
                                const struct lull_budget_settings *from)
{
    settings->cap = from->cap;
    settings->hold_s = from->hold_s;
    memcpy(settings->racks, from->racks, sizeof(settings->racks));
    for (uint32_t n = 0; n < settings->node_count; n++) {
        settings->nodes[n].cap = from->nodes[n].cap;
        settings->nodes[n].rack = from->nodes[n].rack;
    }
    memcpy(settings->jobs, from->jobs, sizeof(settings->jobs));
    settings->job_count = from->job_count;
    settings->others = from->others;
}

/* Applies a changed file. An invalid file changes nothing and is logged. */
static int budget_reload(struct budget *budget, struct lull_error *err)
{
    struct lull_budget_settings *settings;
    struct lull_error error = {0};

    if (!lull_file_has_changed(budget->path, &budget->settings_stamp))
        return 0;
    settings = malloc(sizeof(*settings));
    if (settings == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    if (budget_load_settings(budget->path, settings, &error) < 0) {
        lull_log(LULL_LOG_WARNING, "budget", "the budget stays as it was: %s", error.text);
        free(settings);
        return 0;
    }
    lull_log(LULL_LOG_INFO, "budget", "%s: read again", budget->path);
    if (!has_same_parts(budget->settings, settings))
        return budget_open(budget, settings, err);
    budget_take_numbers(budget->settings, settings);
    free(settings);
    return 0;
}

static void budget_write_state(const struct budget *budget)
{
    struct lull_error error = {0};
    char *text;

    if (budget->state_path == NULL)
        return;
    text = lull_budget_round_print(budget->round);
    if (text == NULL ||
        lull_path_write(budget->state_path, text, strlen(text), 0644, STATE_MS, &error) < 0)
        lull_log(LULL_LOG_WARNING, "budget", "%s",
                 text == NULL ? "not enough memory for the state" : error.text);
    free(text);
}

/* Runs with these settings, which it owns from now on, until a signal arrives; then the caps are
 * lifted. */
static int budget_serve(struct budget *budget, struct lull_budget_settings *settings,
                        struct lull_error *err)
{
    struct lull_stop_signals stop;
    int result;

    lull_stop_signals_begin(&stop);
    result = budget_open(budget, settings, err);
    while (result == 0 && !lull_is_stopped(&stop)) {
        const int64_t next_ns = lull_now_ns() + ROUND_NS;

        result = budget_reload(budget, err);
        if (result == 0)
            result = lull_budget_round_run(budget->round, target_w(budget), err);
        if (result == 0)
            budget_write_state(budget);
        while (result == 0 && !lull_is_stopped(&stop) && lull_now_ns() < next_ns)
            lull_sleep_until_ns(lull_earlier_ns(next_ns, lull_now_ns() + LOOK_NS));
    }
    if (budget->round != NULL)
        lull_budget_round_lift(budget->round);
    return result;
}

static int budget_command(void *options, const struct lull_operands *operands)
{
    const struct budget_arguments *const arguments = options;
    struct budget *budget = calloc(1, sizeof(*budget));
    struct lull_budget_settings *settings = calloc(1, sizeof(*settings));
    struct lull_error err = {0};
    int result;

    if (budget == NULL || settings == NULL) {
        free(budget);
        free(settings);
        lull_error_set(&err, -ENOMEM, "out of memory");
        return lull_cli_fail("budget", &err);
    }
    lull_log_init(arguments->is_quiet ? LULL_LOG_WARNING : LULL_LOG_INFO);
    budget->path = operands->words[0];
    budget->state_path = arguments->state_path;
    budget->runtime_dir = arguments->runtime_dir;
    lull_file_has_changed(budget->path, &budget->settings_stamp);
    result = budget_load_settings(budget->path, settings, &err);
    if (result < 0 || arguments->is_check)
        free(settings);
    else
        result = budget_serve(budget, settings, &err);
    budget_fini(budget);
    return result < 0 ? lull_cli_fail("budget", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_FLAG("check", struct budget_arguments, is_check,
              "Check the file, report its errors, and exit."),
    LULL_VALUE("state", "FILE", TEXT, struct budget_arguments, state_path,
               "Write measured power and decisions to this file each second, as JSON.",
               .hint = LULL_OPTION_FILE),
    LULL_CLI_RUNTIME_DIR_ROW(struct budget_arguments, runtime_dir),
    LULL_QUIET_ROW(struct budget_arguments, is_quiet),
    {0},
};

const struct lull_program_command lull_budget_command = {
    .name = "budget",
    .summary = "hold GPUs within a power budget and a grid operator's limits",
    .arguments = "FILE",
    .about =
        "Holds the power of the GPUs of one or more nodes within the budgets of FILE (cluster, "
        "racks, nodes) and within the grid operator's limits. It caps the highest clocks first, "
        "and sets power limits where that is not enough. Power moves to the jobs that use it; no "
        "job drops below its declared minimum clock. Runs until it is stopped, then lifts its "
        "caps. Requires no root, but must be an administrator of lulld on each node.",
    .tables = {{rows, 0}},
    .operands = {.least = 1, .most = 1, .missing = "name the file of the budget"},
    .size = sizeof(struct budget_arguments),
    .run = budget_command,
};
