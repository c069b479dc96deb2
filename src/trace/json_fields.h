/*
 * JSON objects and arrays read by tables of their fields, where all of a value is wanted.
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_JSON_FIELDS_H
#define LULL_TRACE_JSON_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/json.h"

struct lull_json_reader {
    const char *name; /* of the text, for messages */
    struct lull_json *json;
    struct lull_error *err;
    void *context; /* of the field readers */
};

/* Reads one value, or for items of an array what stands behind its opening token. */
typedef int (*lull_json_value_fn)(struct lull_json_reader *reader, void *object);

struct lull_json_field { /* a table ends with a key of NULL */
    const char *key;
    int shift;     /* of the decimal point: 9 makes ns of s */
    int64_t max;   /* the least is 0 */
    size_t offset; /* in the object: of an int64_t, unless there is a reader */
    lull_json_value_fn read;
};

/* LULL_E_FORMAT with the name, the byte and what is wrong there. */
int lull_json_refuse(const struct lull_json_reader *reader, const char *what);

/* The next token is the wanted one; else it is refused with what. */
int lull_json_expect(const struct lull_json_reader *reader, enum lull_json_token wanted,
                     const char *what, struct lull_json_text *text_out);

/* A number times 10^shift from 0 to max. */
int lull_json_read_integer(const struct lull_json_reader *reader, int shift, int64_t max,
                           int64_t *value_out);

/* A finite number that is not negative. */
int lull_json_read_real(const struct lull_json_reader *reader, double *value_out);

/* An object, or what stands behind its opening brace; fields in any order, unknown ones are passed
 * over. */
int lull_json_read_object(struct lull_json_reader *reader, const struct lull_json_field *fields,
                          void *object);
int lull_json_read_fields(struct lull_json_reader *reader, const struct lull_json_field *fields,
                          void *object);

/* An array of values that begin with `opens`. */
int lull_json_read_array(struct lull_json_reader *reader, enum lull_json_token opens,
                         lull_json_value_fn item, void *object);

/* What stands behind the opening of an array that holds just these fields, in this order. */
int lull_json_read_tuple(struct lull_json_reader *reader, const struct lull_json_field *fields,
                         void *object);

#endif
