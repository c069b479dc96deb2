/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/limit.h"

#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/text.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "governor/report/limits_report.h"

enum { KEY_CHOOSE = 256, KEY_ETA, KEY_JSON, KEY_FORGET };

static const struct argp_option options[] = {
    {"choose", KEY_CHOOSE, "AIM", 0, "Choose anew from what was measured: " LULL_CLI_CHOICES, 0},
    {"eta", KEY_ETA, "RATIO", 0, "For cost: eta E + (1 - eta) P T (as stored)", 0},
    {"forget", KEY_FORGET, NULL, 0, "Remove the profiles of COMMAND", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON document", 0},
    {0},
};

static const char doc[] =
    "Shows what `lull run --power-limit auto` has measured, and which limit is best for what.\v"
    "Without COMMAND: all profiles, a line each. With it, the tables of that command line. "
    "`lull run --power-limit auto` chooses again at each run, by its own options.\n\n"
    "Examples:\n"
    "  lull limit\n"
    "  lull limit --choose slowdown=5% -- mpirun -n 4 ./train\n"
    "  lull limit --forget -- mpirun -n 4 ./train";

struct request {
    const char *choice; /* NULL: as stored */
    double eta_ratio;   /* negative: as stored */
    bool is_json;
    bool is_forgetting;
    char *const *command; /* NULL: all */
    char program[LULL_LIMIT_PROGRAM_BYTES];
    json_t *profiles;
    uint32_t shown;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;
    struct lull_job_selector selector;

    switch (key) {
    case KEY_CHOOSE:
        if (lull_cli_parse_choice(arg, &selector) < 0)
            argp_error(state, "--choose %s: give " LULL_CLI_CHOICES, arg);
        request->choice = arg;
        break;
    case KEY_ETA:
        if (lull_text_parse_ratio(arg, &request->eta_ratio) < 0)
            argp_error(state, "--eta %s: give a ratio from 0 to 1", arg);
        break;
    case KEY_FORGET:
        request->is_forgetting = true;
        break;
    case KEY_JSON:
        request->is_json = true;
        break;
    case ARGP_KEY_ARGS:
        request->command = state->argv + state->next;
        break;
    case ARGP_KEY_END:
        if (request->is_forgetting && request->command == NULL)
            argp_error(state, "--forget needs a command, as in: lull limit --forget -- ./train");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int choose(const struct request *request, struct lull_limit_profile *profile)
{
    if (request->choice != NULL)
        lull_cli_parse_choice(request->choice, &profile->selector);
    if (request->eta_ratio >= 0.0)
        profile->selector.price.eta_ratio = request->eta_ratio;
    return lull_limit_choose(&profile->selector, profile->measures, profile->count,
                             &profile->chosen, NULL);
}

static void print_line(const struct lull_limit_profile *profile)
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

static int show(void *context, const struct lull_limit_profile *stored)
{
    struct request *request = context;
    struct lull_limit_profile profile = *stored;
    int result;

    if (request->command != NULL && strcmp(profile.program, request->program) != 0)
        return 0;
    result = choose(request, &profile);
    if (result < 0)
        return result;
    request->shown++;
    if (request->is_json) {
        json_array_append_new(request->profiles, lull_limit_table_json(&profile));
        return 0;
    }
    print_line(&profile);
    if (request->command != NULL)
        lull_limit_table_print(&profile, stdout);
    return 0;
}

static int forget(struct lull_store *store, const struct request *request, struct lull_error *err)
{
    const int count = lull_limit_profiles_remove(store, request->program, err);

    if (count == 0)
        return lull_error_set(err, -ENOENT, "no profile of %s", request->program);
    if (count > 0 && !request->is_json)
        printf("forgot %d profile%s of %s\n", count, count == 1 ? "" : "s", request->program);
    return count < 0 ? count : 0;
}

static int serve(struct request *request, struct lull_error *err)
{
    struct lull_store *store = NULL;
    int result = lull_store_open(NULL, &lull_limit_profiles_schema, false, &store, err);

    if (result == -ENOENT && request->command == NULL)
        return 0; /* nothing was measured yet */
    if (result == 0 && request->is_forgetting)
        result = forget(store, request, err);
    else if (result == 0)
        result = lull_limit_profiles_walk(store, show, request, err);
    if (result == 0 && request->shown == 0 && request->command != NULL && !request->is_forgetting)
        result = lull_error_set(err, -ENOENT,
                                "no profile of %s; run it under lull run --power-limit auto",
                                request->program);
    lull_store_close(store);
    return result;
}

int lull_limit_main(int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, "[-- COMMAND [ARG...]]", doc, NULL,
                                     NULL,    NULL};
    struct request request = {.eta_ratio = -1.0, .profiles = json_array()};
    struct lull_error err = {0};
    json_t *document = json_pack("{s:o}", "profiles", request.profiles);
    int result;

    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &request);
    if (request.command != NULL)
        lull_limit_program(request.command, request.program);
    result = serve(&request, &err);
    if (result == 0 && request.is_json) {
        json_dumpf(document, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (result == 0 && request.shown == 0 && !request.is_forgetting) {
        printf("no profiles yet; lull run --power-limit auto makes them\n");
    }
    json_decref(document);
    return result < 0 ? lull_cli_fail("limit", &err) : LULL_EXIT_OK;
}
