/*
 * The parts of lull_doctor_judge(). Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_DOCTOR_JUDGE_PARTS_H
#define LULL_CLI_DOCTOR_JUDGE_PARTS_H

#include "cli/doctor/judge.h"

/* Adds a finding about the node. The format gives its text. */
struct lull_doctor_finding *lull_doctor_add(struct lull_doctor_findings *findings,
                                            const char *check, enum lull_doctor_level level,
                                            const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets the fix of the latest finding: a line for a shell, or advice. */
void lull_doctor_fix(struct lull_doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void lull_doctor_advise(struct lull_doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes the latest finding one of this GPU, and joins it with an equal one of other GPUs. */
void lull_doctor_of_gpu(struct lull_doctor_findings *findings, uint32_t gpu);

void lull_doctor_judge_driver(const struct lull_doctor_facts *facts,
                              struct lull_doctor_findings *findings);
void lull_doctor_judge_gpus(const struct lull_doctor_facts *facts,
                            struct lull_doctor_findings *findings);
void lull_doctor_judge_daemon(const struct lull_doctor_facts *facts,
                              struct lull_doctor_findings *findings);
void lull_doctor_judge_probes(const struct lull_doctor_facts *facts,
                              struct lull_doctor_findings *findings);
void lull_doctor_judge_node(const struct lull_doctor_facts *facts,
                            struct lull_doctor_findings *findings);

#endif
