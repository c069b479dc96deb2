/*
 * Sections, verdicts and GPU states in the words of reports.
 * Threads: one; the control is stopped or locked. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_SECTION_TEXT_H
#define LULL_GOVERNOR_REPORT_SECTION_TEXT_H

#include "governor/control/control.h"

struct lull_section_text {
    const char *kind;    /* "communication", "bubble", "idle"; "user" for any other name */
    char name[64];       /* "allreduce", "forward" */
    char signature[96];  /* "allreduce 45.8 MiB x 4 ranks #1f3a..." */
    const char *verdict; /* a word of lull_target_verdict_text */
    char reason[160];
};

/* Describes a known section of a GPU's track. */
void lull_section_describe(const struct lull_control *control, uint32_t gpu, uint32_t section,
                           struct lull_section_text *text_out);

/* Returns "not degraded", "degraded" or "undecided". */
const char *lull_verdict_text(enum lull_verdict verdict);

/* Returns why the clocks of a GPU that a rank uses cannot be switched at all, whatever is accepted
 * on others; NULL: they can. */
const char *lull_gpu_alone_text(const struct lull_control *control, uint32_t gpu);

/* Return what lull_target_verdict_text() and
 * lull_target_reason_text() do, for one GPU, which may be
 * unmanaged. The reason may be requested without a target (NULL)
 * only for an unmanaged GPU. */
const char *lull_gpu_verdict_text(const struct lull_control *control, uint32_t gpu,
                                  const struct lull_target *target);
const char *lull_gpu_reason_text(const struct lull_control *control, uint32_t gpu,
                                 const struct lull_target *target);

/* Returns "lowered", "highest kept" or "unfinished"; "not switched" for NULL. */
const char *lull_target_verdict_text(const struct lull_target *target);

/* Returns why a target has its point. */
const char *lull_target_reason_text(const struct lull_target *target);

/* The power profile that is tested, and whether it was kept: "kept", "removed", "unfinished" or
 * "not tested". */
extern const char lull_profile_name[];
const char *lull_profile_verdict_text(const struct lull_target *profile);

/* Returns why the profile was kept, or not; state: of a GPU of the job that explains it. */
const char *lull_profile_reason_text(const struct lull_target *profile,
                                     enum lull_profile_state state);

/* Returns what the governor does with a GPU, or why it does nothing. */
const char *lull_gpu_state_text(const struct lull_control *control, uint32_t gpu);

/* Returns why a GPU ran lower, or did not, because its rank waits for later ones. */
const char *lull_slack_reason_text(const struct lull_slack_record *record);

/* Returns why sections of a GPU that are exposed for this long have no target of their own. */
void lull_section_describe_untargeted(const struct lull_control *control, uint32_t gpu,
                                      double min_ms, double max_ms, char *text, size_t size);

#endif
