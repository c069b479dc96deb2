/*
 * Whole numbers as the description of a suite writes them: sums, differences, products and
 * quotients of numbers and names, with parentheses. Threads: any. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SUITE_EXPRESSION_H
#define LULL_LAB_SWEEP_SUITE_EXPRESSION_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct lull_suite_size {
    const char *name;
    uint64_t value; /* > 0 */
};

/*
 * Evaluates text from 0 to 2^62, with the sizes for its names. A quotient must leave no remainder,
 * because a size that does not divide into blocks is an error. Errors: LULL_E_FORMAT, with the
 * error but not its position.
 */
int lull_suite_evaluate(const char *text, const struct lull_suite_size *sizes, size_t count,
                        uint64_t *value_out, struct lull_error *err);

#endif
