/*
 * Reads traces of requests: tables with the columns TIMESTAMP, ContextTokens and GeneratedTokens
 * (Azure LLM inference traces, 2023), or Timestamp, Request tokens and Response tokens (BurstGPT);
 * plain or gzip, "-" is standard input.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_SERVING_ARRIVALS_FILE_H
#define LULL_SIMULATOR_SERVING_ARRIVALS_FILE_H

#include "base/error.h"
#include "emulator/server/arrivals.h"

/* Rows that were left out: their times or lengths cannot be read, or a length is 0. */
struct lull_server_arrivals_skipped {
    uint64_t rows;
    char reason[480]; /* file, line and fault of the first one */
};

/*
 * Reads a trace into an empty list, in the order of time. Errors: LULL_E_FORMAT a column is
 * missing, no row can be used, or all have the same time; those of lull_columns_read().
 */
int lull_server_arrivals_read(const char *path, struct lull_server_arrivals *trace_out,
                              struct lull_server_arrivals_skipped *skipped_out,
                              struct lull_error *err);

#endif
