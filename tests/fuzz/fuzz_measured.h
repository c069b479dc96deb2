/*
 * The least profile that a pipeline can be fitted with. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_MEASURED_H
#define LULL_TESTS_FUZZ_MEASURED_H

#include "core/pipeline/model/profile.h"
#include "fuzz.h"

static inline void measure(struct lull_pipeline_profile *profile)
{
    const struct lull_pipeline_point option = {1000, 1, 1000};

    lull_pipeline_profile_init(profile);
    require(lull_pipeline_profile_add(profile, 0, 0, LULL_PIPELINE_FORWARD, 0, &option, NULL) == 0);
    require(lull_pipeline_profile_add(profile, 0, 0, LULL_PIPELINE_BACKWARD, 0, &option, NULL) ==
            0);
}

#endif
