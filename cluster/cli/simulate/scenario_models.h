/*
 * Jobs with a fitted model: their time and power over clocks come from the output of `lull model
 * fit` instead of from their class. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_SCENARIO_MODELS_H
#define LULL_CLUSTER_CLI_SIMULATE_SCENARIO_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "lab/trace/document.h"
#include "cluster/core/model/job_surface.h"
#include "cluster/simulator/job_classes.h"

/* A job on one type of GPU. */
struct lull_scenario_fitted {
    const char *name; /* of the kernel or job that was fitted: the document's */
    uint32_t type;
    uint32_t clock_count;
    struct lull_job_tempo tempo[LULL_JOB_MAX_CLOCKS];
};

struct lull_scenario_models {
    const char *path; /* NULL: there are none */
    struct lull_model_sets sets;
    struct lull_scenario_fitted *all;
    size_t count;
};

/*
 * Reads a document of `lull model fit`. Predicts its entries with power at all clocks of
 * the types (type_count of them) within the measured range, at the highest memory clock. Errors:
 * those of lull_model_sets_read; -EINVAL nothing in it is of these types; -ENOMEM.
 * lull_scenario_models_fini() must follow, also after an error. One thread.
 */
int lull_scenario_models_read(struct lull_scenario_models *models, const char *path,
                              const struct lull_job_type *types, uint32_t type_count,
                              struct lull_error *err);
void lull_scenario_models_fini(struct lull_scenario_models *models);

/*
 * Finds the model of a job on a type: the one of the job's name, else the one whose name continues
 * with a comma there; a slash of the job's name is a comma of the model's. *found_out is NULL where
 * there is none. Errors: -EINVAL the name is ambiguous.
 */
int lull_scenario_models_find(const struct lull_scenario_models *models, uint32_t type,
                              const char *job, const struct lull_scenario_fitted **found_out,
                              struct lull_error *err);

#endif
