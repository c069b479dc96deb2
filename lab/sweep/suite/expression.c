/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/suite/expression.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/minmax.h"

enum { MAX_DEEP = 32, SHOWN = 40 }; /* SHOWN: bytes of a name that messages show */
static const uint64_t most = UINT64_C(1) << 62;

struct expression {
    const char *at;
    const struct lull_suite_size *sizes;
    size_t count;
    uint32_t depth; /* of open parentheses */
    struct lull_error *err;
};

static int take_sum(struct expression *expression, uint64_t *value_out);

/* Returns the next character that is no space, and stands on it. */
static char expression_peek(struct expression *expression)
{
    while (*expression->at == ' ' || *expression->at == '\t')
        expression->at++;
    return *expression->at;
}

static int fail_large(const struct expression *expression)
{
    return lull_error_set(expression->err, LULL_E_FORMAT, "the number is too large");
}

static int expression_take_number(struct expression *expression, uint64_t *value_out)
{
    uint64_t value = 0;

    for (; isdigit((unsigned char)*expression->at); expression->at++) {
        value = 10 * value + (uint64_t)(*expression->at - '0');
        if (value > most)
            return fail_large(expression);
    }
    *value_out = value;
    return 0;
}

static int expression_take_name(struct expression *expression, uint64_t *value_out)
{
    const char *const begin = expression->at;
    size_t length;
    int shown;

    while (isalnum((unsigned char)*expression->at) || *expression->at == '_')
        expression->at++;
    length = (size_t)(expression->at - begin);
    for (size_t i = 0; i < expression->count; i++)
        if (strlen(expression->sizes[i].name) == length &&
            strncmp(expression->sizes[i].name, begin, length) == 0) {
            *value_out = expression->sizes[i].value;
            return 0;
        }
    shown = (int)lull_min_size(length, SHOWN);
    return lull_error_set(expression->err, LULL_E_FORMAT,
                          "there is no size %.*s above; add size = %.*s NUMBER small NUMBER", shown,
                          begin, shown, begin);
}

static int take_factor(struct expression *expression, uint64_t *value_out)
{
    const char next = expression_peek(expression);
    int result;

    if (isdigit((unsigned char)next))
        return expression_take_number(expression, value_out);
    if (isalpha((unsigned char)next) || next == '_')
        return expression_take_name(expression, value_out);
    if (next != '(')
        return lull_error_set(expression->err, LULL_E_FORMAT,
                              "a number, a size or ( is missing at \"%.40s\"", expression->at);
    if (expression->depth == MAX_DEEP)
        return lull_error_set(expression->err, LULL_E_FORMAT, "there are too many parentheses");
    expression->depth++;
    expression->at++;
    result = take_sum(expression, value_out);
    if (result < 0)
        return result;
    if (expression_peek(expression) != ')')
        return lull_error_set(expression->err, LULL_E_FORMAT, "a ) is missing at \"%.40s\"",
                              expression->at);
    expression->at++;
    expression->depth--;
    return 0;
}

static int expression_multiply(const struct expression *expression, uint64_t by, uint64_t *value)
{
    uint64_t product;

    if (__builtin_mul_overflow(*value, by, &product) || product > most)
        return fail_large(expression);
    *value = product;
    return 0;
}

static int expression_divide(const struct expression *expression, uint64_t by, uint64_t *value)
{
    if (by == 0 || *value % by != 0)
        return lull_error_set(expression->err, LULL_E_FORMAT,
                              "%llu / %llu leaves a remainder; choose sizes that fit",
                              (unsigned long long)*value, (unsigned long long)by);
    *value /= by;
    return 0;
}

static int take_product(struct expression *expression, uint64_t *value_out)
{
    uint64_t value;
    int result = take_factor(expression, &value);

    if (result < 0)
        return result;
    while (expression_peek(expression) == '*' || *expression->at == '/') {
        const bool is_quotient = *expression->at++ == '/';
        uint64_t factor;

        result = take_factor(expression, &factor);
        if (result < 0)
            return result;
        if (is_quotient)
            result = expression_divide(expression, factor, &value);
        else
            result = expression_multiply(expression, factor, &value);
        if (result < 0)
            return result;
    }
    *value_out = value;
    return 0;
}

static int take_sum(struct expression *expression, uint64_t *value_out)
{
    uint64_t value;
    int result = take_product(expression, &value);

    if (result < 0)
        return result;
    while (expression_peek(expression) == '+' || *expression->at == '-') {
        const bool is_difference = *expression->at++ == '-';
        uint64_t term;

        result = take_product(expression, &term);
        if (result < 0)
            return result;
        if (is_difference && term > value)
            return lull_error_set(expression->err, LULL_E_FORMAT, "the number is below 0");
        value = is_difference ? value - term : value + term;
        if (value > most)
            return fail_large(expression);
    }
    *value_out = value;
    return 0;
}

int lull_suite_evaluate(const char *text, const struct lull_suite_size *sizes, size_t count,
                        uint64_t *value_out, struct lull_error *err)
{
    struct expression expression = {text, sizes, count, 0, err};
    uint64_t value;
    const int result = take_sum(&expression, &value);

    if (result < 0)
        return result;
    if (expression_peek(&expression) != '\0')
        return lull_error_set(err, LULL_E_FORMAT, "\"%.40s\" is left over", expression.at);
    *value_out = value;
    return 0;
}
