/*
 * The parts of a run's report, each written by the file of its name: run_report.c, gpu_report.c,
 * levers_report.c, pipeline_report.c, limits_report.c, energy_report.c, and so on.
 * docs/reference/report-json.md explains every field.
 *
 * JSON values are new references. The print functions write lines of the table for people.
 * Threads: one; the controls are stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_REPORT_PARTS_H
#define LULL_GOVERNOR_REPORT_REPORT_PARTS_H

#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "core/energy/gain.h"
#include "governor/report/report.h"

/*
 * The result of a run against the job at its highest clocks, per iteration. Ratios are NAN where
 * they are not known; a bound of a known ratio is NAN or infinite if it is unknown.
 */
struct lull_report_gain {
    const char *basis; /* the source of the saving, in words; NULL: unknown */
    double saving_ratio;
    double low_ratio;
    double high_ratio;
    double slowdown_ratio;
    double slowdown_upper_ratio;
    double allowed_ratio;        /* the slowdown that was promised; NAN: none was */
    const char *saving_reason;   /* why it is not known; NULL: it is */
    const char *slowdown_reason; /* likewise */
};

/* An unknown gain, with the reason. */
static inline struct lull_report_gain lull_report_no_gain(const char *reason)
{
    return (struct lull_report_gain){
        NULL,        (double)NAN, (double)NAN, (double)NAN, (double)NAN,
        (double)NAN, (double)NAN, reason,      reason,
    };
}

/* Makes "verdict": the sentence and the three lines about the run, and their figures. The functions
 * print the lines, and the lowered clocks with the source of the saving. */
json_t *lull_verdict_report_json(const struct lull_report *report);
void lull_verdict_report_print(const struct lull_report *report, FILE *out);
void lull_verdict_report_print_basis(const struct lull_report *report, FILE *out);

/* Returns whether the run's result lowers a clock or a power limit. */
bool lull_verdict_has_lowered(const struct lull_report *report);

/* Returns why nothing was lowered, and the next step: the finding at the end, otherwise the last
 * failure. Not NULL. */
const char *lull_verdict_reason(const struct lull_report *report);

/* The gain as measured by a comparison of whole runs, a power limit, a pipeline's plan, or the
 * trials within the run. Call the first only with a comparison, and the others only if that
 * mechanism controlled the run. */
struct lull_report_gain lull_run_report_gain(const struct lull_report *report);
struct lull_report_gain lull_limits_report_gain(const struct lull_report *report);
struct lull_report_gain lull_pipeline_report_gain(const struct lull_report *report);
struct lull_report_gain lull_tried_report_gain(const struct lull_report *report);

/* Returns the gain in the verdict: that of whole runs if they were compared, otherwise that of the
 * run itself. */
struct lull_report_gain lull_verdict_gain(const struct lull_report *report);

/* Returns what the figures of a gain prove. */
enum lull_gain_saving lull_verdict_judge_saving(const struct lull_report_gain *gain);
enum lull_gain_slowdown lull_verdict_judge_slowdown(const struct lull_report_gain *gain);

/* Returns what runs lower, such as "steady 1320 MHz on all GPUs", which the caller frees; NULL:
 * nothing does, or out of memory. */
char *lull_verdict_subject(const struct lull_report *report);

/* Returns why the run's energy figures are unreliable; NULL: they are reliable. */
const char *lull_energy_report_doubt(const struct lull_report *report);

/* Returns the energy of the last unmanaged run minus that of the last managed one, from start to
 * end, J; NAN: not compared, or not known. unmanaged_j_out: the former. */
double lull_energy_report_whole_saved_j(const struct lull_energy_report *report,
                                        double *unmanaged_j_out);

/* Returns whether a pipeline's plan was kept. */
bool lull_pipeline_report_is_kept(const struct lull_report *report);

/* Makes "tried": the result of each point that trials compared with the reference; and "valley":
 * the same for the energy of one GPU. */
json_t *lull_tried_report_json(const struct lull_report *report);
json_t *lull_valley_report_json(const struct lull_report *report, uint32_t gpu);

/* Writes the savings at other tolerances (job_frontier.h), with the verdict's `gain` for the
 * accepted clocks. report->frontier is known. points_out: LULL_JOB_FRONTIER_BUDGETS. */
void lull_tried_report_frontier(const struct lull_report *report,
                                const struct lull_report_gain *gain,
                                struct lull_job_frontier_point *points_out);

/* Returns the saving of one lever alone, as a ratio of the job's energy; NAN: unknown, with the
 * reason in *reason_out. is_steady: the lever is the steady point; is_only: no other lever besides
 * the steady point is lowered. */
double lull_tried_report_lever(const struct lull_report *report, bool is_steady, bool is_only,
                               const char **reason_out);

/* Makes "cost": kilowatt hours, and money and carbon dioxide where their prices are known. */
json_t *lull_cost_report_json(const struct lull_report *report);
void lull_cost_report_print(const struct lull_report *report, FILE *out);

/* Makes "timeline": the last iterations of the job, with sections, clocks and power. */
json_t *lull_timeline_report_json(const struct lull_report *report);

/* Sets the fields from "unmanaged_wall_s" to "comparison": time and energy of an iteration. */
void lull_run_report_add(const struct lull_report *report, json_t *root);
void lull_run_report_print(const struct lull_report *report, FILE *out);

/* Makes "hangs": what the run has reported of hangs, oldest first. */
json_t *lull_hang_report_json(const struct lull_run_hangs *hangs);

/* Idle phases at the lowest clock, over all GPUs. */
struct lull_idle_totals {
    uint32_t phases;
    double low_s;   /* sum over GPUs... */
    double saved_j; /* ...as is this; 0: their power is not known */
    double cost_s;  /* time that raisings have cost, of the GPU with most of it */
    int32_t most;   /* the GPU that was low for the longest time; -1: none was */
};
struct lull_idle_totals lull_idle_report_totals(const struct lull_report *report);

/* Makes the entry of idle phases in "levers"; the print function writes a line if there were any.
 * The run has a GPU. */
json_t *lull_idle_report_json(const struct lull_report *report);
void lull_idle_report_print(const struct lull_report *report, FILE *out);

/* Makes the entry of the power profile in "levers"; the print function writes what was tried of it.
 * The run has a GPU. line_out: what the end of the run says of it; "" where no GPU has profiles. */
json_t *lull_profile_report_json(const struct lull_report *report);
void lull_profile_report_print(const struct lull_report *report, FILE *out);
void lull_profile_report_line(const struct lull_report *report, char *line_out, size_t size);

/* Makes "levers": the descent of each lever, over all GPUs. The print function writes every step.
 */
json_t *lull_levers_report_json(const struct lull_report *report);
void lull_levers_report_print(const struct lull_report *report, FILE *out);

/* Makes the steps of a target's descent with the clocks of one GPU; empty for a target that is
 * NULL. */
json_t *lull_report_descent_json(const struct lull_report *report, uint32_t gpu,
                                 const struct lull_target *target);

/* The accepted clock of a GPU, MHz: the highest if the target is NULL; 0: none. */
uint32_t lull_report_kept_mhz(const struct lull_report *report, uint32_t gpu,
                              const struct lull_target *target);

/* Makes an element of "gpus": a GPU that a rank of the managed run used, and its sections. */
json_t *lull_gpu_report_json(const struct lull_report *report, uint32_t gpu);
void lull_gpu_report_print(const struct lull_report *report, uint32_t gpu, FILE *out);

/* Prints the lines of a GPU's steady point and sections, one for each kind. */
void lull_section_table_print(const struct lull_report *report, uint32_t gpu, FILE *out);

/* Makes "pipeline": the prediction of a plan, and its result; null if no plan was given. */
json_t *lull_pipeline_report_json(const struct lull_report *report);
void lull_pipeline_report_print(const struct lull_report *report, FILE *out);

/* Makes "power_limit": the result of the limits; null if they were not changed. */
json_t *lull_limits_report_json(const struct lull_report *report);
void lull_limits_report_print(const struct lull_report *report, FILE *out);

/* Makes "energy": the whole run, and the program's windows; null where nothing was measured. */
json_t *lull_energy_report_json(const struct lull_energy_report *report);
void lull_energy_report_print(const struct lull_energy_report *report, FILE *out);

/* Makes "missing_right": what the right that the run lacked would save; null if none is missing. */
json_t *lull_prospect_report_json(const struct lull_report *report);
void lull_prospect_report_print(const struct lull_report *report, FILE *out);
void lull_prospect_report_print_basis(const struct lull_report *report, FILE *out);

/* Makes "swing": the fluctuation of the power of the job's GPUs; null if none was managed. */
json_t *lull_swing_report_json(const struct lull_report *report);
void lull_swing_report_print(const struct lull_report *report, FILE *out);

/* Makes "smoothing": the floor of power smoothing with its swings, energy and time; null if swings
 * were not to be bounded. */
json_t *lull_smoothing_report_json(const struct lull_report *report);
void lull_smoothing_report_print(const struct lull_report *report, FILE *out);

/* Returns the swings of one side over the mean power without smoothing; NAN: not measured. */
double lull_smoothing_report_ratio(const struct lull_power_smoothing_summary *smoothing,
                                   const struct lull_swing *side);

#endif
