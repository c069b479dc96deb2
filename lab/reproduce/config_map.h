/*
 * Small files of names and values, one record each, as people write job descriptions: JSON; YAML in
 * flow style, whose names need no quotes ({a: 1, b: two}); or YAML in block style (a: 1, one per
 * line). Only the YAML that such files need is supported: values are numbers and words, plain or in
 * quotes, and comments begin with #. Escapes in quotes are kept as they stand. Values that are
 * lists or maps are skipped.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_CONFIG_MAP_H
#define LULL_LAB_REPRODUCE_CONFIG_MAP_H

#include <stddef.h>

#include "base/error.h"
#include "trace/columns.h"

enum {
    LULL_CONFIG_MAP_BYTES = 1 << 16, /* of a file; its reader refuses a larger one */
    LULL_CONFIG_MAP_DEPTH = 32,      /* of lists and maps that are skipped */
};

/*
 * Makes a record of a file's text, which it writes into and which the cells point into; borrows
 * name. O(size). Errors, with file and line: LULL_E_FORMAT the text has another form, or a name is
 * there twice.
 */
int lull_config_map_parse(const char *name, char *text, const struct lull_column *known,
                          struct lull_columns *columns_out, struct lull_error *err);

#endif
