/*
 * Judges the facts about a node: findings, each with its reason and one line that fixes it. Pure
 * functions: no I/O, no clock, no environment. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_DOCTOR_JUDGE_H
#define LULL_CLI_DOCTOR_JUDGE_H

#include "cli/doctor/facts.h"

enum lull_doctor_level {
    LULL_DOCTOR_OK,
    LULL_DOCTOR_WARNING, /* part of the measurements or savings is missing */
    LULL_DOCTOR_PROBLEM, /* no GPU, or not this one, can be managed */
};

enum {
    /* Up to ten about each GPU, and those about the node. */
    LULL_DOCTOR_MAX_FINDINGS = 10 * LULL_DEVICE_MAX_GPUS + 64,
    LULL_DOCTOR_TEXT_BYTES = 640,
    LULL_DOCTOR_FIX_BYTES = 512,
};

struct lull_doctor_finding {
    const char *check; /* a name for programs, such as "lulld" */
    enum lull_doctor_level level;
    uint64_t gpus; /* bits: the GPUs of which it is true; 0: it is about the node */
    char text[LULL_DOCTOR_TEXT_BYTES];
    char fix[LULL_DOCTOR_FIX_BYTES]; /* one line; "": there is nothing to fix */
    bool is_command;                 /* the fix is a line for a shell, else advice */
};

struct lull_doctor_findings {
    uint32_t count;
    struct lull_doctor_finding items[LULL_DOCTOR_MAX_FINDINGS];
};

/*
 * Judges the facts. Findings about GPUs that have the same text and fix are one finding. The order
 * is that of the checks: driver, GPUs, lulld, probes, node.
 */
void lull_doctor_judge(const struct lull_doctor_facts *facts,
                       struct lull_doctor_findings *findings_out);

/* Returns how many findings have this level. */
uint32_t lull_doctor_count(const struct lull_doctor_findings *findings,
                           enum lull_doctor_level level);

/* Returns the word of a level, for people and programs: "ok", "warning", "problem". */
const char *lull_doctor_level_name(enum lull_doctor_level level);

#endif
