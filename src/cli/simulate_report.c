/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "base/json_string.h"
#include "cli/shared/command.h"
#include "governor/report/frontier_report.h"
#include "governor/report/report_fields.h"

const char *const lull_simulate_policy_names[LULL_SIMULATE_POLICIES] = {
    "highest", "fixed_clock", "power_limit", "reactive", "feed_forward", "steady", "auto"};

/* Why a mode has no settled part; NULL: it has one. */
static const char *unsettled_reason(const struct lull_simulate_mode *mode, bool is_managed)
{
    if (mode->has_settled_part)
        return NULL;
    if (!is_managed)
        return "this mode has no search";
    if (mode->outcome.settled_in == 0)
        return "the search was still running at the end of the run";
    return "the search ended too shortly before the end of the run";
}

static bool is_played(const struct lull_simulate_results *results, int policy)
{
    return (results->played >> policy & 1) != 0;
}

static bool is_managed(int policy)
{
    return policy >= LULL_SIMULATE_REACTIVE;
}

/* ---- table ------------------------------------------------------------------------------- */

/* Prints how widely the power swings, where that is known, what auto has given up for it, and the
 * power profile. */
static void print_swings(const struct lull_simulate_results *results)
{
    const struct lull_simulation_outcome *highest = &results->modes[LULL_SIMULATE_HIGHEST].outcome;
    const struct lull_simulation_outcome *managed = &results->modes[LULL_SIMULATE_AUTO].outcome;

    if (highest->swing.mean_w.count > 0 && managed->swing.mean_w.count > 0)
        printf("power fluctuation in 1 s, last quarter of the run: %.0f W peak to peak at the "
               "highest clock, %.0f W in auto; from 1 Hz on %.1f and %.1f W\n",
               highest->swing.peak_to_peak_w.mean, managed->swing.peak_to_peak_w.mean,
               highest->swing.band_w.mean, managed->swing.band_w.mean);
    if (managed->has_profile)
        printf("power profile max-q, with the borrowed effect of the emulated GPU: %s; it alone "
               "saves %.1f %% (%.1f to %.1f)\n",
               managed->keeps_profile ? "kept" : "not kept", 100.0 * managed->profile_saving.ratio,
               100.0 * managed->profile_saving.low_ratio,
               100.0 * managed->profile_saving.high_ratio);
    if (managed->given_up.gaps)
        printf("auto leaves gaps at the steady clock, because lowering them would increase power "
               "fluctuation beyond --swing\n");
}

/* Prints the assumptions of the figures, because `lull analyze` makes others for the same job. */
static void simulate_report_print_assumed(const struct lull_gpu_model *model)
{
    printf(
        "Assumptions: a driver call takes %.1f ms, and the clock changes %.1f ms later; both vary "
        "as measured%s. Power depends\non the temperature. reactive, feed_forward, steady and "
        "auto include their own search and proof; oracles have full\nforesight. The oracle of "
        "gaps and \"gaps at once\" lower gaps alone, so auto may save more than they do. `lull "
        "analyze`\nassumes constant latencies and full foresight, and prints a range "
        "instead.\n",
        model->api_ms, model->settle_ms, model->api_sigma > 0.0 ? "" : " (here: constant)");
}

static void print_mode(const struct lull_simulate_results *results, int policy)
{
    const struct lull_simulate_mode *mode = &results->modes[policy];
    const struct lull_simulation_outcome *outcome = &mode->outcome;

    printf("%-14s %10.2f %10.2f %7.2f%% %7.2f%% %7.2f%% %7.2f%%",
           lull_simulate_policy_names[policy], outcome->period_ms, outcome->energy_j,
           mode->whole.saving_ratio * 100.0, mode->whole.slowdown_ratio * 100.0,
           mode->worst_ratio * 100.0, outcome->late_ratio * 100.0);
    if (mode->has_settled_part)
        printf(" %8" PRIu64 " %7.2f%% %7.2f%%", outcome->settled_in,
               mode->settled.saving_ratio * 100.0, mode->settled.slowdown_ratio * 100.0);
    else
        printf(" %8s %8s %8s", "-", "-", "-");
    printf(" %6.0f %6.0f%s\n", outcome->steady_mhz, outcome->point_mhz,
           lull_simulate_is_within(results, mode) ? "" : "  beyond the tolerance");
}

static void print_oracle(const char *name, double saving_ratio, double slowdown_ratio,
                         double steady_mhz)
{
    printf("%-14s %10s %10s %7.2f%%", name, "", "", saving_ratio * 100.0);
    if (isfinite(slowdown_ratio))
        printf(" %7.2f%%", slowdown_ratio * 100.0);
    if (isfinite(steady_mhz))
        printf(" %8s %8s %8s %8s %8s %6.0f", "", "", "", "", "", steady_mhz);
    putchar('\n');
}

static void print_oracles(const struct lull_oracle_play_answer *oracle)
{
    print_oracle("oracle of gaps", oracle->real.saving_ratio, oracle->real.slowdown_ratio, NAN);
    print_oracle("joint oracle", oracle->joint.saving_ratio, oracle->joint.slowdown_ratio,
                 oracle->joint_mhz);
    print_oracle("oracle of slack", oracle->slack.saving_ratio, oracle->slack.slowdown_ratio, NAN);
    print_oracle("gaps at once", oracle->ideal.saving_ratio, NAN, NAN);
}

void lull_simulate_report_print(const struct lull_simulate_results *results)
{
    char text[1024];

    printf("%s\n", lull_simulate_verdict(results, text, sizeof(text)));
    printf("%-14s %10s %10s %8s %8s %8s %8s %8s %17s %6s %6s\n", "over all", "", "", "", "",
           "slower", "begun", "settled", "and since then", "steady", "lowest");
    printf("%-14s %10s %10s %8s %8s %8s %8s %8s %8s %8s %6s %6s\n", "periods:", "ms/period",
           "J/period", "saves", "slower", "at worst", "low", "in", "saves", "slower", "MHz", "MHz");
    for (int policy = 0; policy < LULL_SIMULATE_POLICIES; policy++)
        if (is_played(results, policy))
            print_mode(results, policy);
    if (results->has_oracles)
        print_oracles(&results->oracle);
    print_swings(results);
    printf("%s\n", lull_job_frontier_report_text(results->frontier, text, sizeof(text)));
    simulate_report_print_assumed(results->model);
}

/* ---- JSON -------------------------------------------------------------------------------- */

/* Unknown is null: no second of the run has been read. */
static json_t *swing_json(const struct lull_simulation_outcome *outcome)
{
    if (outcome->swing.mean_w.count == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:b}", "pieces", (json_int_t)outcome->swing.mean_w.count,
                     "average_power_w", outcome->swing.mean_w.mean, "peak_to_peak_w",
                     outcome->swing.peak_to_peak_w.mean, "band_w", outcome->swing.band_w.mean,
                     "gaps_given_up", outcome->given_up.gaps);
}

/* Adds the figures of the settled part: null with the reason where there is none. */
static void simulate_report_add_settled(json_t *object, const struct lull_simulate_mode *mode,
                                        bool is_managed)
{
    const char *reason = unsettled_reason(mode, is_managed);

    if (reason == NULL)
        json_object_update_new(object,
                               json_pack("{s:I, s:f, s:f}", "settled_in_period",
                                         (json_int_t)mode->outcome.settled_in,
                                         "settled_saving_ratio", mode->settled.saving_ratio,
                                         "settled_slowdown_ratio", mode->settled.slowdown_ratio));
    else
        json_object_update_new(object, json_pack("{s:n, s:n, s:n}", "settled_in_period",
                                                 "settled_saving_ratio", "settled_slowdown_ratio"));
    json_object_set_new(object, "settled_reason",
                        reason == NULL ? json_null() : lull_json_string(reason));
}

/* Null: no profile was tested. */
static json_t *profile_json(const struct lull_simulation_outcome *outcome)
{
    json_t *object;

    if (!outcome->has_profile)
        return json_null();
    object = json_pack("{s:s, s:b}", "name", "max-q", "kept", outcome->keeps_profile);
    lull_field_number(object, "saving_ratio", outcome->profile_saving.ratio);
    lull_field_number(object, "saving_low_ratio", outcome->profile_saving.low_ratio);
    lull_field_number(object, "saving_high_ratio", outcome->profile_saving.high_ratio);
    return object;
}

static json_t *mode_json(const struct lull_simulate_results *results, int policy)
{
    const struct lull_simulate_mode *mode = &results->modes[policy];
    const struct lull_simulation_outcome *outcome = &mode->outcome;
    json_t *object = json_pack(
        "{s:o, s:f, s:f, s:f, s:f, s:f, s:b, s:f, s:I}", "name",
        lull_json_string(lull_simulate_policy_names[policy]), "period_ms", outcome->period_ms,
        "energy_j", outcome->energy_j, "saving_ratio", mode->whole.saving_ratio, "slowdown_ratio",
        mode->whole.slowdown_ratio, "worst_slowdown_ratio", mode->worst_ratio, "within_tolerance",
        lull_simulate_is_within(results, mode), "low_ratio", outcome->late_ratio, "driver_calls",
        (json_int_t)outcome->calls);

    simulate_report_add_settled(object, mode, is_managed(policy));
    json_object_set_new(object, "power_profile", profile_json(outcome));
    json_object_update_new(object,
                           json_pack("{s:f, s:f, s:f, s:I, s:o}", "steady_mhz", outcome->steady_mhz,
                                     "below_ratio", outcome->below_ratio, "sm_mhz",
                                     outcome->point_mhz, "switched_sections",
                                     (json_int_t)outcome->switched, "swing", swing_json(outcome)));
    return object;
}

static json_t *joint_json(const struct lull_oracle_play_answer *oracle, uint32_t ranks)
{
    json_t *rank_mhz = json_array();

    for (uint32_t i = 0; i < ranks; i++)
        json_array_append_new(rank_mhz, json_real(oracle->joint_rank_mhz[i]));
    return json_pack("{s:f, s:f, s:f, s:o}", "saving_ratio", oracle->joint.saving_ratio,
                     "slowdown_ratio", oracle->joint.slowdown_ratio, "steady_mhz",
                     oracle->joint_mhz, "rank_mhz", rank_mhz);
}

static json_t *oracle_json(const struct lull_oracle_play_answer *oracle)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "saving_ratio", oracle->real.saving_ratio,
                     "slowdown_ratio", oracle->real.slowdown_ratio, "ideal_saving_ratio",
                     oracle->ideal.saving_ratio, "steady_saving_ratio", oracle->steady.saving_ratio,
                     "slack_saving_ratio", oracle->slack.saving_ratio, "gap_ratio",
                     oracle->gap_ratio);
}

static json_t *modes_json(const struct lull_simulate_results *results)
{
    json_t *modes = json_array();

    for (int policy = 0; policy < LULL_SIMULATE_POLICIES; policy++) {
        json_t *mode;

        if (!is_played(results, policy))
            continue;
        mode = mode_json(results, policy);
        if (policy == LULL_SIMULATE_POWER_LIMIT)
            json_object_set_new(mode, "limit_w", json_real(results->limit_w));
        json_array_append_new(modes, mode);
    }
    return modes;
}

void lull_simulate_report_json(const struct lull_simulate_results *results)
{
    const struct lull_oracle_play_answer *oracle = &results->oracle;
    char text[256];
    json_t *root = json_object();

    json_object_set_new(root, "verdict",
                        lull_json_string(lull_simulate_verdict(results, text, sizeof(text))));
    json_object_set_new(
        root, "within_tolerance",
        json_boolean(lull_simulate_is_within(results, &results->modes[LULL_SIMULATE_AUTO])));
    json_object_set_new(root, "tolerance_ratio", json_real(results->tolerance_ratio));
    json_object_set_new(root, "periods", json_integer((json_int_t)results->periods));
    json_object_set_new(root, "modes", modes_json(results));
    json_object_set_new(root, "joint_oracle",
                        results->has_oracles ? joint_json(oracle, results->ranks) : json_null());
    json_object_set_new(root, "oracle", results->has_oracles ? oracle_json(oracle) : json_null());
    json_object_set_new(root, "frontier", lull_job_frontier_report_json(results->frontier));
    lull_cli_print_json(root, JSON_REAL_PRECISION(9));
}
