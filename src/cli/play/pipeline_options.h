/*
 * The options of `lull play --pipeline`. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_PIPELINE_OPTIONS_H
#define LULL_CLI_PLAY_PIPELINE_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "cli/play/pipeline.h"

/* The parser's input; the pipeline holds its defaults beforehand. */
struct lull_play_pipeline_options {
    struct lull_play_pipeline pipeline;
    bool is_given;       /* there was --pipeline */
    const char *measure; /* write a profile there instead of playing; NULL: play */
    char kernels[64];    /* that pipeline borrows */
};

extern const struct argp lull_play_pipeline_argp;

#endif
