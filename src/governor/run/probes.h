/*
 * The environment variables by which `lull run` makes a job load the probes. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_PROBES_H
#define LULL_GOVERNOR_RUN_PROBES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_PROBES_VARIABLES = 10, LULL_PROBES_TEXT_BYTES = 2 * PATH_MAX };

/* In the caller's storage; all zero is empty. */
struct lull_probes {
    uint32_t count;
    char variables[LULL_PROBES_VARIABLES][LULL_PROBES_TEXT_BYTES]; /* the first one is the job's */
    const char *environment[LULL_PROBES_VARIABLES + 1];
};

/* The properties of a command and its options that determine the required probes. */
struct lull_probes_request {
    char *const *command; /* NULL-terminated */
    bool markers;         /* mark NCCL's collectives on their streams, in place of its plugin */
    bool exposure;        /* record compute kernels in short windows */
};

/* Returns how many probes there are. */
uint32_t lull_probes_count(void);

/*
 * Adds probe 0..lull_probes_count()-1 if the command needs it. The probe then loads the library
 * that the user has chosen in its place, or the default one. Errors: LULL_E_UNSUPPORTED the user's
 * library cannot be loaded, or the user has chosen none, which is respected; those of
 * lull_file_find_own(): the probe is not installed. The text says what is then not observed.
 */
int lull_probes_add(struct lull_probes *probes, uint32_t probe,
                    const struct lull_probes_request *request, struct lull_error *err);

/*
 * Returns all variables, with the path of a job's segment among them, NULL-terminated as
 * lull_child_start takes them. They are valid until the next call.
 */
const char *const *lull_probes_environment(struct lull_probes *probes, const char *job_path);

#endif
