/*
 * The options --eta and --beta of lull batch run. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_BATCH_WEIGHTS_H
#define LULL_CLI_BATCH_WEIGHTS_H

/* Keys of argp, clear of those that each command counts from 256. */
enum { LULL_BATCH_KEY_ETA = 512, LULL_BATCH_KEY_BETA };

/* As the help of both options says. */
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
 * One of the two: eta from 0 to 1, beta from 1, INFINITY for "inf". Errors: -EINVAL, the values are
 * untouched; ARGP_ERR_UNKNOWN another key.
 */
int lull_batch_weights_parse(int key, const char *text, double *eta_ratio, double *beta_ratio);

#endif
