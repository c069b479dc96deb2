/*
 * Put before each file by tools/check-tidy: what clang's analyzer cannot see from one file alone.
 *
 * These functions return a code that is always negative, so a caller that checks the result does not continue after a failure.
 * The file that defines one of them does without the macro (check-tidy defines TIDY_ and the file's path).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "trace/columns.h"
#include "trace/json_fields.h"
#include "trace/lines.h"

#ifndef TIDY_src_base_error_c
#define lull_error_set(err, code, ...)                                                                                 \
    ({                                                                                                                 \
        const int code_set = (code);                                                                                   \
        lull_error_set(err, code_set, __VA_ARGS__);                                                                    \
        if (code_set >= 0)                                                                                             \
            __builtin_unreachable();                                                                                   \
        code_set;                                                                                                      \
    })
#endif

#ifndef TIDY_src_trace_lines_c
#define lull_lines_refuse(...) (lull_lines_refuse(__VA_ARGS__), LULL_E_FORMAT)
#endif

#ifndef TIDY_src_trace_columns_c
#define lull_columns_refuse(...) (lull_columns_refuse(__VA_ARGS__), LULL_E_FORMAT)
#endif

#ifndef TIDY_src_trace_json_fields_c
#define lull_json_refuse(...) (lull_json_refuse(__VA_ARGS__), LULL_E_FORMAT)
#endif
