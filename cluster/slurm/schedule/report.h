/*
 * Reports of decisions: JSON, which the journal also stores, and text made from it.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_REPORT_H
#define LULL_CLUSTER_SLURM_SCHEDULE_REPORT_H

#include <jansson.h>

#include "cluster/slurm/schedule/schedule.h"

/* Describes a start or a rejection, with the alternatives. It is decided now,
 * or expected later if the schedule's time has advanced. NULL: out of memory. */
json_t *lull_report_decision(const struct lull_queue *queue, const struct lull_schedule *schedule,
                             const struct lull_schedule_decision *decision, const char *policy);

/* Why a job of the queue waits, and when it will begin. Advances the schedule's time. NULL: no
 * memory, or another error in *err. */
json_t *lull_report_waiting(const struct lull_queue *queue, struct lull_schedule *schedule,
                            uint32_t job, const char *policy, struct lull_error *err);

/* Until when a job waits for cheaper power, and the price of a kWh then and now. NULL: no
 * memory. */
json_t *lull_report_shift(const struct lull_power_shift *shift);

/* Print these documents for users. is_dry: the decision has not been executed. */
void lull_report_print_decision(const json_t *decision, bool is_dry, FILE *out);
void lull_report_print_shifted(const json_t *shifted, FILE *out);
void lull_report_print_waiting(const json_t *waiting, FILE *out);

#endif
