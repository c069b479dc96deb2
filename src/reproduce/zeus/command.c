/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/watch.h"
#include "reproduce/command.h"
#include "reproduce/zeus/options.h"
#include "reproduce/zeus/replay.h"
#include "simulator/cluster/summary.h"

/* ---- traces ------------------------------------------------------------------------------- */

static int read_trace(const struct lull_replay_options *arguments, uint32_t index,
                      struct lull_batch_trace **trace_out, struct lull_error *err)
{
    struct lull_batch_trace_job job = *lull_batch_trace_find_job(arguments->dataset);

    if (index > 0 || arguments->has_target)
        job.target = arguments->targets[index];
    if (arguments->max_epochs > 0)
        job.max_epochs = (uint32_t)arguments->max_epochs;
    if (arguments->default_size > 0)
        job.default_size = (uint32_t)arguments->default_size;
    return lull_batch_trace_read(&job, arguments->train, arguments->power, trace_out, err);
}

/* ---- golden ------------------------------------------------------------------------------- */

static void print_verdict(const struct lull_golden_verdict *verdict, bool is_json)
{
    if (is_json) {
        printf("{\"steps\": %u, \"mismatches\": %u, \"max_relative_error\": %.3g}\n",
               verdict->steps, verdict->mismatches, verdict->max_relative_error);
        return;
    }
    printf("%u steps, %u mismatches, largest relative error %.3g\n", verdict->steps,
           verdict->mismatches, verdict->max_relative_error);
    if (verdict->mismatches > 0)
        printf("first: step %u, %s\n", verdict->first_mismatch, verdict->first_what);
}

static int check_golden(const struct lull_replay_options *arguments,
                        const struct lull_batch_trace *trace, struct lull_error *err)
{
    const struct lull_golden_setting setting = {
        .eta_ratio = arguments->eta_ratio,
        .beta_ratio = arguments->beta_ratio,
        .window = arguments->window < 0 ? 0 : (uint32_t)arguments->window,
    };
    struct lull_golden_verdict verdict;
    struct lull_lines *lines = NULL;
    int rc = lull_lines_open(arguments->golden, &lines, err);

    if (rc == 0)
        rc = lull_golden_check(trace, &setting, lines, &verdict, err);
    lull_lines_close(lines);
    if (rc < 0)
        return rc;
    print_verdict(&verdict, arguments->is_json);
    return verdict.mismatches > 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
}

/* ---- seeds -------------------------------------------------------------------------------- */

static void fill_policies(const struct lull_replay_options *arguments, struct lull_replay *replay)
{
    static const char *const names[LULL_REPLAY_POLICIES] = {"zeus", "zeus_window", "lull"};
    const uint32_t zeus_window = 10;

    for (int i = 0; i < LULL_REPLAY_POLICIES; i++) {
        struct lull_zeus_config *config = &replay->policies[i].config;

        replay->policies[i].name = names[i];
        lull_zeus_config_default(config, i < 2);
        config->batch.beta_ratio = arguments->beta_ratio;
        if (i == 1)
            config->batch.window = zeus_window;
        if (i == 2 && arguments->window >= 0)
            config->batch.window = (uint32_t)arguments->window;
    }
}

static int play_policy(struct lull_replay *replay, struct lull_replay_policy *policy,
                       struct lull_error *err)
{
    struct lull_watch watch = lull_watch_begin();
    int rc = 0;

    policy->outcomes = calloc(replay->seed_count, sizeof(*policy->outcomes));
    policy->cost_by_recurrence =
        calloc(replay->comparison.recurrences, sizeof(*policy->cost_by_recurrence));
    if (policy->outcomes == NULL || policy->cost_by_recurrence == NULL)
        return lull_error_set(err, -ENOMEM, "there is no memory for %u seeds", replay->seed_count);
    for (uint32_t i = 0; i < replay->seed_count && rc == 0; i++) {
        rc = lull_comparison_play(&replay->comparison, &policy->config, replay->first_seed + i,
                                  policy->cost_by_recurrence, &policy->outcomes[i], err);
        if (lull_watch_is_due(&watch))
            lull_watch_draw("%s: %u of %u seeds", policy->name, i + 1, replay->seed_count);
    }
    lull_watch_end(&watch);
    return rc;
}

/* Prints the comparison for people, or as one JSON document. Errors: -ENOMEM. */
static int print(const struct lull_replay *replay, bool is_json, struct lull_error *err)
{
    if (!is_json) {
        lull_replay_print(replay, stdout);
        return 0;
    }
    if (lull_cluster_print_json(lull_replay_json(replay)) < 0)
        return lull_error_set(err, -ENOMEM, "the JSON document could not be written");
    return 0;
}

static int play_seeds(const struct lull_replay_options *arguments,
                      const struct lull_recurrence_phase *phases, struct lull_error *err)
{
    struct lull_replay replay = {
        .gpu = arguments->gpu,
        .beta_ratio = arguments->beta_ratio,
        .first_seed = (uint64_t)arguments->first_seed,
        .seed_count = (uint32_t)arguments->seeds,
    };
    int rc = lull_comparison_init(&replay.comparison, phases, arguments->target_count,
                                  arguments->eta_ratio, err);

    fill_policies(arguments, &replay);
    for (int i = 0; i < LULL_REPLAY_POLICIES && rc == 0; i++)
        rc = play_policy(&replay, &replay.policies[i], err);
    if (rc == 0 && arguments->svg != NULL)
        rc = lull_replay_picture_write(arguments->svg, &replay, err);
    if (rc == 0)
        rc = print(&replay, arguments->is_json, err);
    for (int i = 0; i < LULL_REPLAY_POLICIES; i++) {
        free(replay.policies[i].outcomes);
        free(replay.policies[i].cost_by_recurrence);
    }
    return rc;
}

static int replay_traces(const struct lull_replay_options *arguments,
                         struct lull_batch_trace **traces, struct lull_error *err)
{
    struct lull_recurrence_phase phases[LULL_COMPARISON_PHASES];

    for (uint32_t i = 0; i < arguments->target_count; i++) {
        const int rc = read_trace(arguments, i, &traces[i], err);

        if (rc < 0)
            return rc;
        phases[i].trace = traces[i];
        phases[i].recurrences = arguments->recurrences > 0 ? (uint32_t)arguments->recurrences
                                                           : lull_recurrence_count(traces[i]);
    }
    if (arguments->golden != NULL)
        return check_golden(arguments, traces[0], err);
    return play_seeds(arguments, phases, err);
}

int lull_replay_main(int argc, char **argv, struct lull_error *err)
{
    struct lull_replay_options arguments;
    struct lull_batch_trace *traces[LULL_COMPARISON_PHASES] = {NULL};
    int rc;

    lull_replay_options_parse(argc, argv, &arguments);
    rc = replay_traces(&arguments, traces, err);
    for (uint32_t i = 0; i < LULL_COMPARISON_PHASES; i++)
        lull_batch_trace_destroy(traces[i]);
    return rc;
}
