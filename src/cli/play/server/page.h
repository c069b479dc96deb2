/*
 * The page of metrics, with the names, labels and buckets of vLLM V1 (vllm/v1/metrics/loggers.py),
 * in Prometheus' text format. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_SERVER_PAGE_H
#define LULL_CLI_PLAY_SERVER_PAGE_H

#include <stdio.h>

#include "emulator/server/model_server.h"

struct lull_model_server_page {
    const char *model;
    double start_s; /* when the process began, in seconds of Unix time */
    struct lull_model_server_reading reading;
    uint64_t stopped; /* finished requests that ended by themselves */
};

void lull_model_server_page_write(FILE *out, const struct lull_model_server_page *page);

#endif
