/*
 * JSON objects and arrays read by tables of their fields: which keys are wanted, of what kind, and
 * where their values go. Other keys are skipped, unless they are refused; keys come in any
 * order.
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_JSON_FIELDS_H
#define LULL_TRACE_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/json.h"
#include "trace/source.h"

/* Parts of an array of events that could not be read. */
struct lull_json_loss {
    uint64_t events;    /* left out, because their text is not JSON */
    uint32_t strangers; /* keys that do not belong among events, in the text that was left out */
    bool has_no_end;    /* the text ends behind an event */
    struct lull_error first; /* the error in the first skipped event */
};

struct lull_json_reader {
    const char *name; /* of the text, for messages */
    struct lull_json *json;
    struct lull_error *err;
    void *context;              /* of the functions in the tables */
    bool is_lenient;            /* a value of another kind than its field's is treated as missing */
    bool is_strict;             /* a key that is not wanted is refused, not passed over */
    struct lull_json_loss loss; /* of lull_json_read_events() */
};

/* Reads a field's value, or for items of an array what stands behind their opening token. */
typedef int (*lull_json_value_fn)(struct lull_json_reader *reader, void *object);

enum lull_json_kind {
    LULL_JSON_IS_INTEGER, /* an int64_t: the number times 10^shift, from 0 to max (lenient: any) */
    LULL_JSON_IS_REAL,    /* a double, not negative */
    LULL_JSON_IS_TEXT,    /* chars, cut to max - 1 bytes and NUL-terminated */
    LULL_JSON_IS_OBJECT,  /* its fields, by their own table, go to the same object */
    LULL_JSON_IS_OBJECTS, /* an array of objects: read is called for each, with the object */
    LULL_JSON_IS_TUPLES,  /* an array of arrays: the same */
    LULL_JSON_IS_OTHER,   /* read is called for the value, with the object */
};

struct lull_json_field { /* a table ends with a null key */
    const char *key;
    enum lull_json_kind kind;
    size_t offset; /* of the place in the object */
    int shift;     /* of the decimal point: 9 makes ns of s */
    int64_t max;
    const struct lull_json_field *fields; /* of LULL_JSON_IS_OBJECT */
    lull_json_value_fn read;
};

/* Rows of a table, each within braces: {LULL_JSON_REAL("power_w", struct point, power_w)}. */
#define LULL_JSON_INTEGER(key, type, member, max)                                                  \
    key, LULL_JSON_IS_INTEGER, offsetof(type, member), 0, max
#define LULL_JSON_SCALED(key, type, member, shift, max)                                            \
    key, LULL_JSON_IS_INTEGER, offsetof(type, member), shift, max
#define LULL_JSON_REAL(key, type, member) key, LULL_JSON_IS_REAL, offsetof(type, member)
#define LULL_JSON_TEXT(key, type, member)                                                          \
    key, LULL_JSON_IS_TEXT, offsetof(type, member), 0, sizeof(((type *)0)->member)
#define LULL_JSON_OBJECT(key, table) key, LULL_JSON_IS_OBJECT, .fields = (table)
#define LULL_JSON_OBJECTS(key, item) key, LULL_JSON_IS_OBJECTS, .read = (item)
#define LULL_JSON_TUPLES(key, item) key, LULL_JSON_IS_TUPLES, .read = (item)
#define LULL_JSON_OTHER(key, value) key, LULL_JSON_IS_OTHER, .read = (value)

/*
 * Reads a text that is one object. name and context become the reader's. Errors: LULL_E_FORMAT it
 * is not JSON, a value that is not of its field's kind or out of range, text behind the object;
 * -ENOMEM; those of lull_source_read and the functions in the tables.
 */
int lull_json_read_document(struct lull_source *source, const char *name,
                            const struct lull_json_field *fields, void *object, void *context,
                            struct lull_error *err);

/* LULL_E_FORMAT with the name, the byte and what is wrong there. */
int lull_json_refuse(const struct lull_json_reader *reader, const char *what);

/* Reads the next token. Any other than the wanted one is refused with what. */
int lull_json_expect(const struct lull_json_reader *reader, enum lull_json_token wanted,
                     const char *what, struct lull_json_text *text_out);

/* Reads what stands behind the opening brace of an object, up to its end. */
int lull_json_read_fields(struct lull_json_reader *reader, const struct lull_json_field *fields,
                          void *object);

/* Reads what stands behind the opening of an array that holds just these fields, in this order. */
int lull_json_read_tuple(struct lull_json_reader *reader, const struct lull_json_field *fields,
                         void *object);

/* Reads what stands behind the opening of an array whose items begin with `opens`. */
int lull_json_read_items(struct lull_json_reader *reader, enum lull_json_token opens,
                         lull_json_value_fn item, void *object);

/*
 * Reads what stands behind the opening of an array of events of a Chrome trace, item by item.
 * Events whose text is not JSON are left out, and counted in reader->loss. A text that ends between
 * two events is LULL_E_FORMAT, with loss.has_no_end: all before it has been read.
 */
int lull_json_read_events(struct lull_json_reader *reader, lull_json_value_fn item, void *object);

#endif
