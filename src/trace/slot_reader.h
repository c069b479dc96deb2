/*
 * Private to slot_file*.c: a file of JSON lines while it is read, and members of its objects.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_SLOT_READER_H
#define LULL_TRACE_SLOT_READER_H

#include <stdbool.h>

#include <jansson.h>

#include "trace/slot_file.h"
#include "trace/string_set.h"

struct lull_slot_reader {
    struct lull_lines *lines;
    struct lull_error *err;
    struct lull_slot_file *file;
    size_t job_room;
    size_t point_count;
    size_t point_room;
};

/* LULL_E_FORMAT with file and line. */
int __attribute__((format(printf, 2, 3)))
lull_slot_refuse(const struct lull_slot_reader *reader, const char *format, ...);

/* -ENOMEM. */
int lull_slot_no_memory(const struct lull_slot_reader *reader);

/* Refuses members that are not known: names, NULL at the end. */
int lull_slot_check_keys(const struct lull_slot_reader *reader, const json_t *object,
                         const char *const *known);

/* A number from least to most; left alone where it is not there and may be missing. */
int lull_slot_get_integer(const struct lull_slot_reader *reader, const json_t *object,
                          const char *key, bool is_optional, int64_t least, int64_t most,
                          int64_t *value);
int lull_slot_get_number(const struct lull_slot_reader *reader, const json_t *object,
                         const char *key, bool is_optional, double least, double *value);

/* A name by its number among the names so far. */
int lull_slot_get_name(const struct lull_slot_reader *reader, const json_t *object, const char *key,
                       struct lull_string_set *names, uint32_t *name_out);

#endif
