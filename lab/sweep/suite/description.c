/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/suite/description.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "lab/sweep/suite/expression.h"

enum {
    MAX_THREADS = 1024,      /* of a block */
    MAX_SHARED = 227 * 1024, /* of a block, on any GPU so far */
    MAX_CAPABILITY = 999,
    MAX_NAME = 64, /* bytes of a kernel's name or arg */
};
static const uint64_t max_grid_x = INT32_MAX;
static const uint64_t max_grid_yz = 65535;
static const uint64_t max_buffer = UINT64_C(1) << 40; /* bytes */

struct lull_suite {
    char *text; /* all strings lie in it, but for the numbers of sizes */
    struct lull_memory numbers;
    struct lull_suite_kernel *kernels;
    size_t count;
};

/* A reading. */
struct suite_reader {
    const char *name;
    uint32_t line;
    const char *field; /* NULL: the line as a whole */
    struct lull_suite *suite;
    struct lull_suite_kernel *kernel; /* the one that is read; NULL: none yet */
    struct lull_suite_size sizes[LULL_SUITE_MAX_SIZES];
    uint32_t size_count;
    bool has_bytes, has_flops, has_check;
    struct lull_error *err;
};

static int __attribute__((format(printf, 2, 3)))
suite_text_refuse(const struct suite_reader *reader, const char *format, ...)
{
    char what[200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return lull_error_set(reader->err, LULL_E_FORMAT, "%s:%u: %s%s%s", reader->name, reader->line,
                          reader->field != NULL ? reader->field : "",
                          reader->field != NULL ? ": " : "", what);
}

/* ---- words ---- */

/* Takes the text before the next separator from *rest, which becomes NULL with the last part. */
static char *suite_text_take_part(char **rest, char separator)
{
    char *const part = *rest;
    char *const end = strchr(part, separator);

    *rest = NULL;
    if (end != NULL) {
        *end = '\0';
        *rest = end + 1;
    }
    return lull_text_trim(part);
}

/* Takes the first word of a text, which *rest then stands behind; "": there is none. */
static char *suite_text_take_word(char **rest)
{
    char *const word = lull_text_trim(*rest);
    char *end = word;

    while (*end != '\0' && *end != ' ' && *end != '\t')
        end++;
    *rest = end;
    if (*end != '\0') {
        *end = '\0';
        *rest = lull_text_trim(end + 1);
    }
    return word;
}

static bool suite_text_is_identifier(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return *text == '\0';
}

/* Characters of names of kernels and files: valid in a table without quotes, and in a folder. */
static bool suite_text_is_plain(const char *text)
{
    const size_t length = strlen(text);

    if (length == 0 || length > MAX_NAME || text[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("_-.", text[i]) == NULL)
            return false;
    return true;
}

/* Evaluates an expression to a number from least to most. */
static int suite_text_take_number(const struct suite_reader *reader, const char *text,
                                  uint64_t least, uint64_t most, uint64_t *value_out)
{
    struct lull_error err;
    uint64_t value;

    if (lull_suite_evaluate(text, reader->sizes, reader->size_count, &value, &err) < 0) {
        suite_text_refuse(reader, "%s", err.text);
        return LULL_E_FORMAT;
    }
    if (value < least || value > most) {
        suite_text_refuse(reader, "%s is %llu; it must be %llu to %llu", text,
                          (unsigned long long)value, (unsigned long long)least,
                          (unsigned long long)most);
        return LULL_E_FORMAT;
    }
    *value_out = value;
    return 0;
}

/* ---- fields ---- */

static int suite_text_read_source(struct suite_reader *reader, char *value)
{
    const size_t length = strlen(value);

    if (!suite_text_is_plain(value) || length < 4 || strcmp(value + length - 3, ".cu") != 0)
        return suite_text_refuse(reader, "\"%.40s\" is not a file name that ends in .cu", value);
    reader->kernel->source = value;
    return 0;
}

static int read_capability(struct suite_reader *reader, char *value)
{
    uint64_t capability;
    const int result = suite_text_take_number(reader, value, LULL_SUITE_MIN_CAPABILITY,
                                              MAX_CAPABILITY, &capability);

    if (result == 0)
        reader->kernel->capability = (uint32_t)capability;
    return result;
}

static bool has_define(const struct lull_suite_kernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->define_count; i++)
        if (strcmp(kernel->defines[i].name, name) == 0)
            return true;
    return false;
}

/* There is room: sizes and other macros are counted before. */
static int add_define(struct suite_reader *reader, const char *name, const char *value)
{
    struct lull_suite_kernel *const kernel = reader->kernel;

    if (!suite_text_is_identifier(name))
        return suite_text_refuse(reader, "\"%.40s\" is not a macro name", name);
    if (has_define(kernel, name))
        return suite_text_refuse(reader, "%s is there twice", name);
    kernel->defines[kernel->define_count++] = (struct lull_suite_define){name, value};
    return 0;
}

static int read_define(struct suite_reader *reader, char *value)
{
    char *rest = value;
    const char *const name = suite_text_take_word(&rest);

    if (reader->kernel->define_count - reader->size_count == LULL_SUITE_MAX_DEFINES)
        return suite_text_refuse(reader, "there are more than %d macros", LULL_SUITE_MAX_DEFINES);
    return add_define(reader, name, rest);
}

static int read_size(struct suite_reader *reader, char *value)
{
    enum { DIGITS = 24 };
    char *rest = value;
    const char *const name = suite_text_take_word(&rest);
    char *const small = strstr(rest, " small ");
    uint64_t number, small_number;
    char *digits;
    int result;

    if (small == NULL)
        return suite_text_refuse(
            reader, "write NAME NUMBER small NUMBER; the small one is for tests without "
                    "a GPU");
    *small = '\0';
    if (reader->size_count == LULL_SUITE_MAX_SIZES)
        return suite_text_refuse(reader, "there are more than %d", LULL_SUITE_MAX_SIZES);
    result = suite_text_take_number(reader, rest, 1, UINT32_MAX, &number);
    if (result == 0)
        result =
            suite_text_take_number(reader, small + strlen(" small "), 1, UINT32_MAX, &small_number);
    if (result < 0)
        return result;
    digits = lull_memory_take(&reader->suite->numbers, 1, DIGITS);
    if (digits == NULL)
        return lull_error_set(reader->err, -ENOMEM, "not enough memory for the suite");
    snprintf(digits, DIGITS, "%llu", (unsigned long long)number);
    result = add_define(reader, name, digits);
    if (result == 0)
        reader->sizes[reader->size_count++] = (struct lull_suite_size){name, number};
    return result;
}

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"e4m3", 1}, {"s8", 1}, {"u32", 4}};

static uint32_t suite_text_bytes_of(const char *type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    return 0;
}

static int32_t find_buffer(const struct lull_suite_kernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->buffer_count; i++)
        if (strcmp(kernel->buffers[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

static int read_buffer(struct suite_reader *reader, char *value)
{
    struct lull_suite_kernel *const kernel = reader->kernel;
    struct lull_suite_buffer buffer = {0};
    char *rest = value;
    char *const head = suite_text_take_part(&rest, ';');
    char *words = head;
    uint32_t bytes;
    int result;

    buffer.name = suite_text_take_word(&words);
    buffer.type = words;
    bytes = suite_text_bytes_of(buffer.type);
    if (kernel->buffer_count == LULL_SUITE_MAX_BUFFERS)
        return suite_text_refuse(reader, "there are more than %d", LULL_SUITE_MAX_BUFFERS);
    if (!suite_text_is_identifier(buffer.name) || rest == NULL)
        return suite_text_refuse(reader, "write NAME TYPE; COUNT or NAME TYPE; COUNT; FILL");
    if (find_buffer(kernel, buffer.name) >= 0)
        return suite_text_refuse(reader, "%s is there twice", buffer.name);
    if (bytes == 0)
        return suite_text_refuse(
            reader, "\"%.40s\" is not a type; known types: f32, f64, f16, bf16, e4m3, s8, u32",
            buffer.type);
    result = suite_text_take_number(reader, suite_text_take_part(&rest, ';'), 1, max_buffer / bytes,
                                    &buffer.count);
    if (result < 0)
        return result;
    buffer.bytes = buffer.count * bytes;
    if (rest != NULL) {
        buffer.fill = lull_text_trim(rest);
        if (!suite_text_is_identifier(buffer.fill))
            return suite_text_refuse(reader, "\"%.40s\" is not a fill, such as random",
                                     buffer.fill);
    }
    kernel->buffers[kernel->buffer_count++] = buffer;
    return 0;
}

/* Up to three numbers, of blocks or threads. */
static int read_extent(const struct suite_reader *reader, char *text, uint64_t max_x,
                       uint64_t max_yz, uint32_t extent[3])
{
    char *rest = text;

    for (uint32_t i = 0; rest != NULL; i++) {
        uint64_t number;
        int result;

        if (i == 3)
            return suite_text_refuse(reader, "a grid or block has three dimensions at most");
        result = suite_text_take_number(reader, suite_text_take_part(&rest, ','), 1,
                                        i == 0 ? max_x : max_yz, &number);
        if (result < 0)
            return result;
        extent[i] = (uint32_t)number;
    }
    return 0;
}

static int read_arguments(const struct suite_reader *reader, char *text,
                          struct lull_suite_launch *launch)
{
    char *rest = text;

    launch->buffer_count = 0;
    while (rest != NULL) {
        const char *const name = suite_text_take_part(&rest, ',');
        const int32_t buffer = find_buffer(reader->kernel, name);

        if (buffer < 0)
            return suite_text_refuse(reader, "no buffer \"%.40s\" is defined above", name);
        if (launch->buffer_count == LULL_SUITE_MAX_BUFFERS)
            return suite_text_refuse(reader, "there are more than %d buffers",
                                     LULL_SUITE_MAX_BUFFERS);
        launch->buffers[launch->buffer_count++] = (uint32_t)buffer;
    }
    return 0;
}

static int read_launch_part(const struct suite_reader *reader, char *part,
                            struct lull_suite_launch *launch)
{
    char *rest = part;
    const char *const what = suite_text_take_word(&rest);
    uint64_t number;
    int result;

    if (strcmp(what, "grid") == 0)
        return read_extent(reader, rest, max_grid_x, max_grid_yz, launch->grid);
    if (strcmp(what, "block") == 0)
        return read_extent(reader, rest, MAX_THREADS, MAX_THREADS, launch->block);
    if (strcmp(what, "buffers") == 0)
        return read_arguments(reader, rest, launch);
    if (strcmp(what, "shared") != 0)
        return suite_text_refuse(reader, "\"%.40s\" is none of grid, block, shared, buffers", what);
    result = suite_text_take_number(reader, rest, 0, MAX_SHARED, &number);
    if (result == 0)
        launch->shared = (uint32_t)number;
    return result;
}

static int read_launch(const struct suite_reader *reader, char *value,
                       struct lull_suite_launch *launch_out)
{
    struct lull_suite_launch launch = {.grid = {0, 1, 1}, .block = {0, 1, 1}};
    char *rest = value;

    launch.entry = suite_text_take_part(&rest, ';');
    if (!suite_text_is_identifier(launch.entry))
        return suite_text_refuse(reader, "write ENTRY; grid X, Y; block X; buffers NAME, NAME");
    while (rest != NULL) {
        const int result = read_launch_part(reader, suite_text_take_part(&rest, ';'), &launch);

        if (result < 0)
            return result;
    }
    if (launch.grid[0] == 0 || launch.block[0] == 0 || launch.buffer_count == 0)
        return suite_text_refuse(reader, "%s has no %s", launch.entry,
                                 launch.buffer_count == 0 ? "buffers" : "grid or no block");
    if ((uint64_t)launch.block[0] * launch.block[1] * launch.block[2] > MAX_THREADS)
        return suite_text_refuse(reader, "%s has more than %d threads in a block", launch.entry,
                                 MAX_THREADS);
    *launch_out = launch;
    return 0;
}

static int suite_text_add_launch(struct suite_reader *reader, char *value)
{
    struct lull_suite_kernel *const kernel = reader->kernel;
    int result;

    if (kernel->launch_count == LULL_SUITE_MAX_LAUNCHES)
        return suite_text_refuse(reader, "there are more than %d", LULL_SUITE_MAX_LAUNCHES);
    result = read_launch(reader, value, &kernel->launches[kernel->launch_count]);
    if (result == 0)
        kernel->launch_count++;
    return result;
}

static int read_check(struct suite_reader *reader, char *value)
{
    reader->has_check = true;
    return read_launch(reader, value, &reader->kernel->check);
}

static int suite_text_read_collective(struct suite_reader *reader, char *value)
{
    static const char *const names[] = {"", "all_reduce", "all_gather", "reduce_scatter",
                                        "broadcast"};

    for (uint32_t i = LULL_SUITE_ALL_REDUCE; i <= LULL_SUITE_BROADCAST; i++)
        if (strcmp(names[i], value) == 0) {
            reader->kernel->collective = (enum lull_suite_collective)i;
            return 0;
        }
    return suite_text_refuse(
        reader, "\"%.40s\" is none of all_reduce, all_gather, reduce_scatter, broadcast", value);
}

static int read_bytes(struct suite_reader *reader, char *value)
{
    reader->has_bytes = true;
    return suite_text_take_number(reader, value, 0, UINT64_MAX, &reader->kernel->bytes);
}

static int read_flops(struct suite_reader *reader, char *value)
{
    reader->has_flops = true;
    return suite_text_take_number(reader, value, 0, UINT64_MAX, &reader->kernel->flops);
}

static const struct suite_field {
    const char *name;
    int (*read)(struct suite_reader *reader, char *value);
    bool is_repeatable;
} fields[] = {
    {"source", suite_text_read_source, false},
    {"capability", read_capability, false},
    {"size", read_size, true},
    {"define", read_define, true},
    {"buffer", read_buffer, true},
    {"launch", suite_text_add_launch, true},
    {"check", read_check, false},
    {"collective", suite_text_read_collective, false},
    {"bytes", read_bytes, false},
    {"flops", read_flops, false},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

/* ---- kernels ---- */

/* Returns whether all is there once a kernel ends; the line is that of its start. */
static int finish_kernel(struct suite_reader *reader)
{
    struct lull_suite_kernel *const kernel = reader->kernel;

    if (kernel == NULL)
        return 0;
    reader->field = NULL;
    reader->line = kernel->line;
    if (kernel->source == NULL)
        return suite_text_refuse(reader, "%s %s has no source", kernel->name, kernel->arg);
    if (kernel->capability == 0)
        return suite_text_refuse(reader, "%s %s has no capability", kernel->name, kernel->arg);
    if ((kernel->launch_count > 0) == (kernel->collective != LULL_SUITE_NO_COLLECTIVE))
        return suite_text_refuse(reader, "%s %s needs a launch or a collective, and not both",
                                 kernel->name, kernel->arg);
    if (kernel->collective != LULL_SUITE_NO_COLLECTIVE && kernel->buffer_count != 2)
        return suite_text_refuse(reader,
                                 "%s %s needs two buffers: what is sent and what is received",
                                 kernel->name, kernel->arg);
    if (!reader->has_check)
        return suite_text_refuse(reader, "%s %s has no check", kernel->name, kernel->arg);
    if (!reader->has_bytes || !reader->has_flops)
        return suite_text_refuse(reader, "%s %s has no bytes or no flops; 0 is allowed",
                                 kernel->name, kernel->arg);
    return 0;
}

static int suite_text_begin_kernel(struct suite_reader *reader, char *line, uint32_t number,
                                   uint32_t *seen)
{
    struct lull_suite *const suite = reader->suite;
    char *const end = strchr(line, ']');
    char *rest = line + 1;
    struct lull_suite_kernel kernel = {.line = number};
    const int result = finish_kernel(reader);

    if (result < 0)
        return result;
    reader->line = number;
    if (end == NULL || end[1] != '\0')
        return suite_text_refuse(reader, "write [NAME ARG]");
    *end = '\0';
    kernel.name = suite_text_take_word(&rest);
    kernel.arg = rest;
    if (!suite_text_is_plain(kernel.name) ||
        (kernel.arg[0] != '\0' && !suite_text_is_plain(kernel.arg)))
        return suite_text_refuse(
            reader, "names have letters, digits, _, - and . and up to %d of them", MAX_NAME);
    for (size_t i = 0; i < suite->count; i++)
        if (strcmp(suite->kernels[i].name, kernel.name) == 0 &&
            strcmp(suite->kernels[i].arg, kernel.arg) == 0)
            return suite_text_refuse(reader, "[%s %s] is also in line %u", kernel.name, kernel.arg,
                                     suite->kernels[i].line);
    if (suite->count == LULL_SUITE_MAX_KERNELS)
        return suite_text_refuse(reader, "there are more than %d kernels", LULL_SUITE_MAX_KERNELS);
    if (lull_array_grow(&suite->kernels, suite->count, sizeof(*suite->kernels)) < 0)
        return lull_error_set(reader->err, -ENOMEM, "not enough memory for the suite");
    reader->kernel = &suite->kernels[suite->count];
    suite->kernels[suite->count++] = kernel;
    reader->size_count = 0;
    reader->has_bytes = reader->has_flops = reader->has_check = false;
    *seen = 0;
    return 0;
}

static int suite_text_read_field(struct suite_reader *reader, char *line, uint32_t *seen)
{
    char *rest = line;
    const char *const name = suite_text_take_part(&rest, '=');

    if (reader->kernel == NULL)
        return suite_text_refuse(reader, "write [NAME ARG] of a kernel first");
    if (rest == NULL)
        return suite_text_refuse(reader, "write FIELD = VALUE");
    for (uint32_t i = 0; i < FIELDS; i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        reader->field = fields[i].name;
        if (!fields[i].is_repeatable && (*seen & 1u << i) != 0)
            return suite_text_refuse(reader, "it is there twice");
        *seen |= 1u << i;
        return fields[i].read(reader, lull_text_trim(rest));
    }
    return suite_text_refuse(
        reader,
        "\"%.40s\" is none of source, capability, size, define, buffer, launch, "
        "check, collective, bytes, flops",
        name);
}

static int suite_text_read_lines(struct suite_reader *reader)
{
    char *rest = reader->suite->text;
    uint32_t seen = 0; /* fields of the kernel, by bits */
    uint32_t number = 0;
    int result = 0;

    while (rest != NULL && result == 0) {
        char *const line = suite_text_take_part(&rest, '\n');

        number++;
        reader->line = number;
        reader->field = NULL;
        if (line[0] == '[')
            result = suite_text_begin_kernel(reader, line, number, &seen);
        else if (line[0] != '\0' && line[0] != '#')
            result = suite_text_read_field(reader, line, &seen);
    }
    if (result == 0)
        result = finish_kernel(reader);
    if (result == 0 && reader->suite->count == 0)
        result = suite_text_refuse(reader, "there is no kernel");
    return result;
}

int lull_suite_read(const char *name, const char *text, size_t size, struct lull_suite **suite_out,
                    struct lull_error *err)
{
    struct lull_suite *const suite = calloc(1, sizeof(*suite));
    struct suite_reader reader = {.name = name, .suite = suite, .err = err};
    int result;

    if (suite != NULL)
        suite->text = malloc(size + 1);
    if (suite == NULL || suite->text == NULL) {
        free(suite);
        return lull_error_set(err, -ENOMEM, "not enough memory for the suite");
    }
    if (size > 0)
        memcpy(suite->text, text, size);
    suite->text[size] = '\0';
    if (size > 0 && memchr(text, 0, size) != NULL)
        result =
            lull_error_set(err, LULL_E_FORMAT, "%s: contains a NUL byte; not a text file", name);
    else
        result = suite_text_read_lines(&reader);
    if (result < 0) {
        lull_suite_destroy(suite);
        return result;
    }
    *suite_out = suite;
    return 0;
}

void lull_suite_destroy(struct lull_suite *suite)
{
    if (suite == NULL)
        return;
    lull_memory_free(&suite->numbers);
    free(suite->kernels);
    free(suite->text);
    free(suite);
}

uint32_t lull_suite_count(const struct lull_suite *suite)
{
    return (uint32_t)suite->count;
}

const struct lull_suite_kernel *lull_suite_kernel_at(const struct lull_suite *suite, uint32_t index)
{
    return &suite->kernels[index];
}
