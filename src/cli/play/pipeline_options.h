/*
 * The options of `lull play --schedule`. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_PIPELINE_OPTIONS_H
#define LULL_CLI_PLAY_PIPELINE_OPTIONS_H

#include <stdbool.h>

#include "base/option.h"
#include "cli/play/pipeline.h"

/* What the rows fill. */
struct lull_play_pipeline_options {
    struct lull_play_pipeline pipeline;
    bool is_given;       /* there was --schedule */
    const char *measure; /* write a profile there instead of playing; NULL: play */
    char kernels[64];    /* that pipeline borrows */
};

extern const struct lull_option lull_play_pipeline_rows[];

#endif
