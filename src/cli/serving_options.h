/*
 * Rows of options about a server under a latency objective. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVING_OPTIONS_H
#define LULL_CLI_SERVING_OPTIONS_H

#include "base/option.h"
#include "governor/serving/serving.h"

/* Takes --slo to a struct lull_serving_options. */
int lull_cli_parse_slo(const char *text, void *serving, struct lull_error *err);

/* The field is a struct lull_serving_options. */
#define LULL_CLI_SLO_ROW(OBJECT, FIELD, ...)                                                       \
    LULL_VALUE("slo", "OBJECTIVE", OWN, OBJECT, FIELD,                                             \
               "Lower the clocks by load, such that requests meet this latency objective as "      \
               "often as at the highest clock.",                                                   \
               .parse = lull_cli_parse_slo,                                                        \
               .expected = "bounds of TTFT and TPOT, such as ttft=500ms,tpot=50ms@p99",            \
               .more = "ttft bounds the time to the first token, tpot the mean time of each "      \
                       "token after it; p99 is the share of requests that have to meet both. "     \
                       "Needs --metrics; lull run can judge tpot alone by the server's steps.",    \
               __VA_ARGS__)

#define LULL_CLI_METRICS_ROW(OBJECT, FIELD, ...)                                                   \
    LULL_VALUE("metrics", "URL", TEXT, OBJECT, FIELD,                                              \
               "Address of the server's metrics, such as http://localhost:8000/metrics.",          \
               .otherwise = "none are read",                                                       \
               .more = "Prometheus metrics of vLLM, SGLang, TensorRT-LLM, TGI or llama.cpp are "   \
                       "read ten times a second. lull run: none means that there are none.",       \
               __VA_ARGS__)

#define LULL_CLI_METRIC_NAMES_ROW(OBJECT, FIELD, ...)                                              \
    LULL_VALUE("metric-names", "FILE", TEXT, OBJECT, FIELD,                                        \
               "Names of the metrics of a server that Lull does not know.",                        \
               .hint = LULL_OPTION_FILE, .otherwise = "known servers only",                        \
               .more = "A file in the form of data/serving_metrics.json of the source.",           \
               __VA_ARGS__)

#endif
