/*
 * Stage profiles: refused with a message, or complete and within bounds.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include "trace/pipeline_profile.h"

static void check_class(const struct lull_pipeline_class *operations)
{
    uint32_t chosen[LULL_PIPELINE_MAX_OPTIONS];

    require(operations->point_count >= 1 && operations->point_count <= LULL_PIPELINE_MAX_OPTIONS);
    for (size_t i = 0; i < operations->point_count; i++) {
        const struct lull_pipeline_point *option = &operations->points[i];

        require(option->time_ns > 0 && option->time_ns <= LULL_PIPELINE_MAX_TIME_NS);
        require(option->energy_nj >= 0 && option->energy_nj <= LULL_PIPELINE_MAX_ENERGY_NJ);
        require(option->sm_mhz > 0);
        require(i == 0 || option->sm_mhz < operations->points[i - 1].sm_mhz);
    }
    require(lull_pipeline_pareto(operations, 80.0, true, chosen) >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_pipeline_profile profile;
    struct lull_error err = {0};

    if (lull_pipeline_profile_read(text_file(data, size), &profile, NULL, &err) < 0) {
        require(err.text[0] != '\0');
        return 0;
    }
    require(profile.class_count > 0);
    for (size_t i = 0; i < profile.class_count; i++)
        check_class(&profile.classes[i]);
    lull_pipeline_profile_fini(&profile);
    return 0;
}
