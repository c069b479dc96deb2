/*
 * Fields of report.json: one call per field, in the order of the document.
 * Numbers that are not finite, and texts that are NULL, become null: unknown is never 0.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_REPORT_FIELDS_H
#define LULL_GOVERNOR_REPORT_REPORT_FIELDS_H

#include <math.h>
#include <stdbool.h>

#include <jansson.h>

#include "base/json_string.h"

/* Sets a field to a value, and takes over its reference. */
static inline void lull_field_json(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static inline void lull_field_integer(json_t *object, const char *key, json_int_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

static inline void lull_field_number(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

/* Sets a field to a number, or to null if it is unknown, whatever the value. */
static inline void lull_field_known(json_t *object, const char *key, double value, bool is_known)
{
    lull_field_number(object, key, is_known ? value : NAN);
}

static inline void lull_field_boolean(json_t *object, const char *key, bool value)
{
    json_object_set_new(object, key, json_boolean(value));
}

static inline void lull_field_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, lull_json_string_or_null(text));
}

#endif
