/*
 * All actions of a torch schedule with where they stand, and what is checked of its transfers.
 * Private to trace. One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TORCH_TABLE_H
#define LULL_TRACE_TORCH_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/torch_action.h"

struct lull_torch_cell {
    struct lull_torch_action action;
    uint32_t row;    /* from 0 */
    uint32_t column; /* from 0 */
};

struct lull_torch_table {
    const char *name; /* for messages */
    struct lull_torch_cell *cells;
    size_t count;
    size_t capacity;
    uint32_t rows;
    uint32_t stages;       /* of what computes */
    uint32_t microbatches; /* the same */
    size_t columns;        /* of the longest row, trailing blanks left out */
};

/*
 * Where the table has sends and receives, every transfer between ranks needs both, a send behind
 * what it sends and a receive ahead of what needs it, each on its stage's rank; REDUCE_GRAD comes
 * behind the stage's last backward. For a table whose computing actions are complete. Errors, with
 * row and column: LULL_E_FORMAT; -ENOMEM.
 */
int lull_torch_table_check(const struct lull_torch_table *table, struct lull_error *err);

#endif
