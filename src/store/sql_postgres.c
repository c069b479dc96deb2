/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sql.h"

int lull_sql_open_postgres(const char *location, const struct lull_sql_schema *schema,
                           struct lull_sql **sql_out, struct lull_error *err)
{
    (void)schema;
    (void)sql_out;
    return lull_error_set(err, LULL_E_UNSUPPORTED, "%.60s: not yet", location);
}
