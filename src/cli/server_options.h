/*
 * Rows of options about inference servers that are played or simulated, and what belongs to them.
 * More initializers may follow in each row. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVER_OPTIONS_H
#define LULL_CLI_SERVER_OPTIONS_H

#include "base/option.h"
#include "emulator/server/arrivals.h"
#include "emulator/server/llm.h"

/* The field is a pointer to a const struct lull_llm. */
#define LULL_CLI_SERVER_ROW(OBJECT, FIELD, HELP, ...)                                              \
    LULL_VALUE("server", "MODEL", OWN, OBJECT, FIELD, HELP, .parse = lull_cli_parse_llm,           \
               .word_at = lull_cli_llm_name, .hint = LULL_OPTION_FILE,                             \
               .expected = "a known language model, or a model's config.json",                     \
               .more = "A known name, such as Qwen3-32B; or the file config.json of another "      \
                       "model, or a folder with it, as vLLM reads it. Its weights may be 16-bit, " \
                       "fp8 or mxfp4.",                                                            \
               __VA_ARGS__)

#define LULL_CLI_ARRIVALS_ROW(OBJECT, FIELD, ...)                                                  \
    LULL_VALUE("arrivals", "FILE", TEXT, OBJECT, FIELD,                                            \
               "A trace of requests; only its rate is changed.", .hint = LULL_OPTION_FILE,         \
               .needs = "server",                                                                  \
               .more = "A table with the columns TIMESTAMP, ContextTokens and GeneratedTokens "    \
                       "(Azure's traces of 2023), or Timestamp, Request tokens and Response "      \
                       "tokens (BurstGPT); also gzip. It is repeated if it is too short. Rows "    \
                       "that cannot be read are counted and left out.",                            \
               __VA_ARGS__)

#define LULL_CLI_PROMPT_TOKENS_ROW(OBJECT, FIELD, ...)                                             \
    LULL_VALUE("prompt-tokens", "N", NUMBER, OBJECT, FIELD,                                        \
               "Mean length of prompts without --arrivals.", .least = 1, .most = 1e6,              \
               .default_value = "1155", .excludes = "arrivals", __VA_ARGS__)

#define LULL_CLI_OUTPUT_TOKENS_ROW(OBJECT, FIELD, ...)                                             \
    LULL_VALUE("output-tokens", "N", NUMBER, OBJECT, FIELD,                                        \
               "Mean length of outputs without --arrivals.", .least = 1, .most = 1e6,              \
               .default_value = "211", .excludes = "arrivals",                                     \
               .more = "Lengths are distributed exponentially. The defaults are the means of "     \
                       "Azure's conversations of 2023.",                                           \
               __VA_ARGS__)

#define LULL_CLI_LOAD_ROW(OBJECT, FIELD, ...)                                                      \
    LULL_VALUE("load", "RATIO", RATIO, OBJECT, FIELD,                                              \
               "The rate of requests, relative to that at which full clocks just meet the "        \
               "objective.",                                                                       \
               .least = 0.001, .needs = "server", .excludes = "rate", __VA_ARGS__)

#define LULL_CLI_REQUEST_RATE_ROW(OBJECT, FIELD, ...)                                              \
    LULL_VALUE("rate", "HZ", NUMBER, OBJECT, FIELD, "The rate of requests per second.",            \
               .least = 0.001, .most = 1e5, .needs = "server", __VA_ARGS__)

#define LULL_CLI_MAX_SEQUENCES_ROW(OBJECT, FIELD)                                                  \
    LULL_VALUE("max-num-seqs", "N", WHOLE, OBJECT, FIELD, "Most requests in a batch, as in vLLM.", \
               .least = 1, .most = 65536, .default_value = "256", .needs = "server")

#define LULL_CLI_MAX_BATCHED_TOKENS_ROW(OBJECT, FIELD)                                             \
    LULL_VALUE("max-num-batched-tokens", "N", WHOLE, OBJECT, FIELD,                                \
               "Most tokens that a step computes, as in vLLM.", .least = 1, .most = 1048576,       \
               .default_value = "512", .needs = "server",                                          \
               .more = "Prompts are computed in chunks of at most this length, beside which no "   \
                       "request gets a token: a larger value needs a wider bound of tpot.")

int lull_cli_parse_llm(const char *text, void *llm, struct lull_error *err);
const char *lull_cli_llm_name(uint32_t index);

/* Reads a trace into an empty list. A command's message on standard error reports rows that are
 * left out; *skipped_out is their number. Errors: those of lull_server_arrivals_read(). */
int lull_cli_read_arrivals(const char *command, const char *path,
                           struct lull_server_arrivals *trace_out, uint64_t *skipped_out,
                           struct lull_error *err);

#endif
