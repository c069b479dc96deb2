/*
 * The user's command with its places filled in: {batch} the batch size, {lr} the learning rate.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_BATCH_ARGUMENTS_H
#define LULL_CLI_BATCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* How the learning rate follows the batch size b, from b0 (Zeus: sqrt for Adam and its kin, linear
 * for SGD). */
enum lull_rate_rule {
    LULL_RATE_SQRT,   /* lr sqrt(b / b0) */
    LULL_RATE_LINEAR, /* lr b / b0 */
};

/* b, b0 > 0. */
double lull_rate_scale(enum lull_rate_rule rule, double rate, uint32_t size, uint32_t default_size);

/* Does any word hold the place, such as "{batch}"? */
bool lull_arguments_have(char *const *command, const char *place);

/* A new NULL-terminated list, to be freed by lull_arguments_free; NULL: no memory. */
char **lull_arguments_fill(char *const *command, uint32_t size, double rate);

/* NULL is allowed. */
void lull_arguments_free(char **arguments);

#endif
