/*
 * Shared by the commands of lull: rows of common options, parsers of common values, and error
 * reporting. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SHARED_COMMAND_H
#define LULL_CLI_SHARED_COMMAND_H

#include <jansson.h>

#include "base/program.h"

/* Prints "lull COMMAND: TEXT" and returns the exit status of the code. */
int lull_cli_fail(const char *command, const struct lull_error *err);

/* Does the same for a job whose command could not be started. The status is 127 if there is no such
 * command, 126 if it cannot be executed (as with env and timeout), else 1. */
int lull_cli_fail_to_start(const char *command, const struct lull_error *err);

/* Prints a document, which it takes over, with these flags of json_dumpf beside the indentation.
 * Returns 0; -1: standard output cannot be written, or the document is NULL, for lack of memory,
 * which is reported. */
int lull_cli_print_json(json_t *document, size_t flags);

/* ---- rows: more initializers, may follow in each ------------------------- */

#define LULL_CLI_RUNTIME_DIR_ROW(OBJECT, FIELD, ...)                                               \
    LULL_VALUE("runtime-dir", "DIR", TEXT, OBJECT, FIELD,                                          \
               "Find lulld, or its journals, in this directory.", .hint = LULL_OPTION_FOLDER,      \
               .default_value = "/run/lull", .environment = "LULL_RUNTIME_DIR", __VA_ARGS__)

#define LULL_CLI_NO_DAEMON_ROW(OBJECT, FIELD)                                                      \
    LULL_FLAG("no-daemon", OBJECT, FIELD,                                                          \
              "Set the clocks from this process, as root, instead of through lulld.")

#define LULL_CLI_TOLERANCE_ROW(OBJECT, FIELD, ...)                                                 \
    LULL_VALUE("tolerance", "RATIO", RATIO, OBJECT, FIELD,                                         \
               "How much slower the job may become, on average.", .letter = 't',                   \
               .default_value = "1%", .is_slowdown = true, __VA_ARGS__)

/* The field is a pointer to a const struct lull_gpu_model. */
#define LULL_CLI_MODEL_ROW(OBJECT, FIELD, HELP, ...)                                               \
    LULL_VALUE("model", "MODEL", OWN, OBJECT, FIELD, HELP, .parse = lull_cli_parse_model,          \
               .word_at = lull_cli_model_name, __VA_ARGS__)

/* The field is a pointer to a const struct lull_device_curve. */
#define LULL_CLI_CURVE_ROW(OBJECT, FIELD, HELP, ...)                                               \
    LULL_VALUE("model", "MODEL", OWN, OBJECT, FIELD, HELP, .parse = lull_cli_parse_curve,          \
               .word_at = lull_cli_model_name, __VA_ARGS__)

/* The field is the first of two doubles in a row: how long a call takes, and how long the clock
 * then settles. */
#define LULL_CLI_CALL_SETTLE_ROW(OBJECT, FIELD, ...)                                               \
    LULL_VALUE("call-settle-ms", "CALL,SETTLE", OWN, OBJECT, FIELD,                                \
               "How long a driver call blocks, and how long the clock then takes to change.",      \
               .parse = lull_cli_parse_times, .expected = LULL_CLI_TIMES,                          \
               .otherwise = "measured values of the model",                                        \
               .more = "Calls for the GPUs of a node come one after the other.", __VA_ARGS__)

#define LULL_CLI_ETA_ROW(OBJECT, FIELD, ...)                                                       \
    LULL_VALUE("eta", "RATIO", RATIO, OBJECT, FIELD,                                               \
               "The weight of energy against time in the cost; 1: only energy, 0: only time.",     \
               .more = "The cost is eta E + (1 - eta) P T: E the joules of all GPUs of the job, "  \
                       "T the seconds, P the highest power limit times the number of GPUs.",       \
               __VA_ARGS__)

/* The field is a struct lull_job_selector. */
#define LULL_CLI_CHOOSE_ROW(OBJECT, FIELD, HELP, ...)                                              \
    LULL_VALUE("choose", "AIM", OWN, OBJECT, FIELD, HELP, .parse = lull_cli_parse_choice,          \
               .word_at = lull_cli_choice_name, .expected = LULL_CLI_CHOICES, __VA_ARGS__)

/* Parsers of the values in these rows, and the words that completion offers for them. */
#define LULL_CLI_TIMES "two numbers of milliseconds from 0 to 10000, such as 15,20"
#define LULL_CLI_CHOICES "cost, energy, time, edp or slowdown=RATIO"
int lull_cli_parse_times(const char *text, void *first_ms, struct lull_error *err);
int lull_cli_parse_model(const char *text, void *model, struct lull_error *err);
int lull_cli_parse_choice(const char *text, void *selector, struct lull_error *err);
int lull_cli_parse_curve(const char *text, void *curve, struct lull_error *err);
const char *lull_cli_model_name(uint32_t index);
const char *lull_cli_choice_name(uint32_t index);

/* Draws how far the oracle of a play is: the watch of a struct lull_oracle_play_question, whose
 * watch_context is a struct lull_progress. */
void lull_cli_show_oracle(void *watch, uint32_t run, uint64_t period);

#endif
