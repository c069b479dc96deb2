/*
 * The options --eta and --beta of lull batch run. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_BATCH_WEIGHTS_H
#define LULL_CLI_BATCH_WEIGHTS_H

/* Keys of argp, clear of those that each command counts from 256. */
enum { LULL_BATCH_KEY_ETA = 512, LULL_BATCH_KEY_BETA };

/* The defaults, which the help of both options names. */
#define LULL_BATCH_ETA 0.5
#define LULL_BATCH_BETA 2.0

/* Two rows of a table of struct argp_option. */
#define LULL_BATCH_WEIGHT_OPTIONS                                                                  \
    {"eta", LULL_BATCH_KEY_ETA, "RATIO", 0, "Weight of energy against time (0.5)", 0},             \
    {                                                                                              \
        "beta", LULL_BATCH_KEY_BETA, "X", 0,                                                       \
            "Runs stop at X times the least cost; inf: never (2)", 0                               \
    }

/*
 * Parses one of the two: eta from 0 to 1, beta from 1 on, INFINITY for "inf". Errors, which leave
 * the values: -EINVAL; ARGP_ERR_UNKNOWN the key is another.
 */
int lull_batch_weights_parse(int key, const char *text, double *eta_ratio, double *beta_ratio);

#endif
