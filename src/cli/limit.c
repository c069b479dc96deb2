/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "cli/commands.h"
#include "cli/shared/command.h"
#include "governor/report/limits_report.h"

struct limit_request {
    struct lull_job_selector choice;
    bool has_choice;  /* false: the aim that is stored counts */
    double eta_ratio; /* below 0: the weight that is stored counts */
    bool is_json;
    bool is_forgetting;
    char *const *command; /* NULL: all profiles are shown */
    char program[LULL_LIMIT_PROGRAM_BYTES];
    json_t *profiles;
    uint32_t shown;
};

static const struct lull_option rows[] = {
    LULL_CLI_CHOOSE_ROW(struct limit_request, choice,
                        "Choose again from stored measurements: " LULL_CLI_CHOICES ".",
                        LULL_GIVEN(struct limit_request, has_choice), .otherwise = "as stored",
                        .more = "That is only shown: `lull run --power-limit auto` chooses again "
                                "at each run, by its own options. edp is the energy-delay "
                                "product, slowdown=5% the least energy that is at most 5 % slower "
                                "than the highest limit."),
    LULL_CLI_ETA_ROW(struct limit_request, eta_ratio, .otherwise = "as stored"),
    LULL_FLAG("forget", struct limit_request, is_forgetting,
              "Remove the stored measurements of COMMAND, so that it is measured again."),
    LULL_JSON_ROW(struct limit_request, is_json),
    {0},
};

static int limit_command_choose(const struct limit_request *request,
                                struct lull_limit_profile *profile)
{
    if (request->has_choice) {
        profile->selector.aim = request->choice.aim;
        if (request->choice.aim == LULL_JOB_SLOWDOWN)
            profile->selector.slowdown_ratio = request->choice.slowdown_ratio;
    }
    if (request->eta_ratio >= 0.0)
        profile->selector.price.eta_ratio = request->eta_ratio;
    return lull_limit_choose(&profile->selector, profile->measures, profile->count,
                             &profile->chosen, NULL);
}

static void limit_command_print_line(const struct lull_limit_profile *profile)
{
    const time_t measured = (time_t)profile->measured_s;
    char choice[160];
    char date[32] = "";
    struct tm when;

    if (localtime_r(&measured, &when) != NULL)
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &when);
    lull_limit_table_choice(profile, choice, sizeof(choice));
    printf("%s\n  %u x %s, %s, measured %s on %s, chosen by %s\n", profile->program,
           profile->gpu_count, profile->gpu_name, choice, date, profile->host, profile->chosen_by);
}

static int limit_command_show(void *context, const struct lull_limit_profile *stored)
{
    struct limit_request *request = context;
    struct lull_limit_profile profile = *stored;
    int result;

    if (request->command != NULL && strcmp(profile.program, request->program) != 0)
        return 0;
    result = limit_command_choose(request, &profile);
    if (result < 0)
        return result;
    request->shown++;
    if (request->is_json) {
        json_array_append_new(request->profiles, lull_limit_table_json(&profile));
        return 0;
    }
    limit_command_print_line(&profile);
    if (request->command != NULL)
        lull_limit_table_print(&profile, stdout);
    return 0;
}

static int limit_command_refuse(const struct limit_request *request, struct lull_error *err)
{
    return lull_error_set(err, -ENOENT,
                          "no profile of %s is stored; lull run --power-limit auto makes one",
                          request->program);
}

static int limit_command_forget(struct lull_store *store, const struct limit_request *request,
                                struct lull_error *err)
{
    const int count = lull_limit_profiles_remove(store, request->program, err);

    if (count == 0)
        return limit_command_refuse(request, err);
    if (count > 0 && !request->is_json)
        printf("forgot %d profile%s of %s\n", count, count == 1 ? "" : "s", request->program);
    return count < 0 ? count : 0;
}

static int limit_command_execute(struct limit_request *request, struct lull_error *err)
{
    struct lull_store *store = NULL;
    int result = lull_store_open(NULL, &lull_limit_profiles_schema, false, &store, err);

    if (result == -ENOENT) /* there is no store yet, because nothing was measured */
        result = request->is_forgetting ? limit_command_refuse(request, err) : 0;
    else if (result == 0 && request->is_forgetting)
        result = limit_command_forget(store, request, err);
    else if (result == 0)
        result = lull_limit_profiles_walk(store, limit_command_show, request, err);
    if (result == 0 && request->shown == 0 && request->command != NULL && !request->is_forgetting)
        result = limit_command_refuse(request, err);
    lull_store_close(store);
    return result;
}

static void limit_command_prepare(void *options)
{
    ((struct limit_request *)options)->eta_ratio = -1.0;
}

static int limit_command_check(void *options, const struct lull_operands *operands,
                               struct lull_error *err)
{
    struct limit_request *const request = options;

    request->command = operands->command;
    if (request->is_forgetting && request->command == NULL)
        return lull_error_set(err, -EINVAL,
                              "--forget needs a command, as in: lull limit --forget -- ./train");
    return 0;
}

static int limit_command_run(void *options, const struct lull_operands *operands)
{
    struct limit_request *const request = options;
    struct lull_error err = {0};
    json_t *document;
    int result;

    (void)operands;
    request->profiles = json_array();
    document = json_pack("{s:o}", "profiles", request->profiles);
    if (request->command != NULL)
        lull_limit_program(request->command, request->program);
    result = limit_command_execute(request, &err);
    if (result == 0 && request->is_json) {
        lull_cli_print_json(document, 0);
        return LULL_EXIT_OK;
    }
    if (result == 0 && request->shown == 0 && !request->is_forgetting)
        printf("no profiles yet; lull run --power-limit auto makes them\n");
    json_decref(document);
    return result < 0 ? lull_cli_fail("limit", &err) : LULL_EXIT_OK;
}

const struct lull_program_command lull_limit_command = {
    .name = "limit",
    .summary = "show measured power limits and the best one for a goal",
    .arguments = "[-- COMMAND [ARG...]]",
    .about = "Shows the measurements of `lull run --power-limit auto`, and the best limit for each "
             "goal: a line for each command line, or the tables of COMMAND.",
    .after = "Examples:\n"
             "  lull limit\n"
             "  lull limit --choose slowdown=5% -- mpirun -n 4 ./train\n"
             "  lull limit --forget -- mpirun -n 4 ./train",
    .tables = {{rows, 0}},
    .operands = {.takes_command = true},
    .size = sizeof(struct limit_request),
    .prepare = limit_command_prepare,
    .check = limit_command_check,
    .run = limit_command_run,
};
