/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/energy_price.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/settings.h"
#include "base/text.h"

static const char system_file[] = "/etc/lull/lull.conf";
/* Above any real price; a higher value is a typing error. */
static const double max_per_kwh = 1e9;

/* ---- values ------------------------------------------------------------------------------ */

int lull_energy_price_parse_money(const char *text, struct lull_energy_price *price)
{
    const size_t digits = strspn(text, "0123456789.");
    const char *currency = text + digits + strspn(text + digits, " \t");
    const size_t length = strlen(currency);
    char number[32];
    double per_kwh;

    if (digits >= sizeof(number) || length >= sizeof(price->currency))
        return -EINVAL;
    for (size_t i = 0; i < length; i++)
        if (iscntrl((unsigned char)currency[i]) || isdigit((unsigned char)currency[i]))
            return -EINVAL;
    memcpy(number, text, digits);
    number[digits] = '\0';
    if (lull_text_parse_between(number, 0.0, max_per_kwh, &per_kwh) < 0)
        return -EINVAL;
    price->has_money = true;
    price->per_kwh = per_kwh;
    memcpy(price->currency, currency, length + 1);
    return 0;
}

int lull_energy_price_parse_co2(const char *text, struct lull_energy_price *price)
{
    if (lull_text_parse_between(text, 0.0, max_per_kwh, &price->co2_g_per_kwh) < 0)
        return -EINVAL;
    price->has_co2 = true;
    return 0;
}

/* ---- the file ---------------------------------------------------------------------------- */

struct price_reader {
    const char *name; /* of the file */
    struct lull_settings text;
    bool is_in_section;
    struct lull_energy_price price;
    struct lull_error *err;
};

static int energy_price_refuse(const struct price_reader *reader, const char *what)
{
    return lull_error_set(reader->err, -EINVAL, "%.100s:%u: %s", reader->name, reader->text.line,
                          what);
}

static int energy_price_read_key(struct price_reader *reader, const char *key, const char *value)
{
    if (!reader->is_in_section)
        return energy_price_refuse(reader, "a key precedes the section [energy]");
    if (strcmp(key, "price-per-kwh") == 0) {
        if (reader->price.has_money)
            return energy_price_refuse(reader, "price-per-kwh is given twice");
        if (lull_energy_price_parse_money(value, &reader->price) < 0)
            return energy_price_refuse(reader, "price-per-kwh wants " LULL_ENERGY_PRICE_EXPECTED);
        return 0;
    }
    if (strcmp(key, "co2-g-per-kwh") == 0) {
        if (reader->price.has_co2)
            return energy_price_refuse(reader, "co2-g-per-kwh is given twice");
        if (lull_energy_price_parse_co2(value, &reader->price) < 0)
            return energy_price_refuse(reader, "co2-g-per-kwh wants grams, such as 380");
        return 0;
    }
    return energy_price_refuse(reader, "the keys of [energy] are price-per-kwh and co2-g-per-kwh");
}

static int energy_price_read_line(struct price_reader *reader, enum lull_settings_kind kind)
{
    const struct lull_settings *const text = &reader->text;

    if (kind == LULL_SETTINGS_KEY)
        return energy_price_read_key(reader, text->name, text->value);
    if (kind == LULL_SETTINGS_NO_KEY)
        return energy_price_refuse(reader, "this is neither KEY = VALUE nor [energy]");
    if (kind == LULL_SETTINGS_NOT_TEXT)
        return energy_price_refuse(reader, "not a line of text");
    reader->is_in_section = kind == LULL_SETTINGS_SECTION && strcmp(text->name, "energy") == 0 &&
                            text->value[0] == '\0';
    return reader->is_in_section ? 0 : energy_price_refuse(reader, "the only section is [energy]");
}

int lull_energy_price_read(const char *name, const char *text, size_t size,
                           struct lull_energy_price *price_out, struct lull_error *err)
{
    struct price_reader reader = {
        .name = name, .text = {.at = text, .end = text + size}, .err = err};
    enum lull_settings_kind kind;

    while ((kind = lull_settings_next(&reader.text)) != LULL_SETTINGS_END) {
        const int result = energy_price_read_line(&reader, kind);

        if (result < 0)
            return result;
    }
    *price_out = reader.price;
    return 0;
}

/* Names the user's own file. False: there is no home to look in. */
static bool name_user_file(char *path_out, size_t size)
{
    const char *const config = getenv("XDG_CONFIG_HOME");
    const char *const home = getenv("HOME");
    int length = -1;

    if (config != NULL && config[0] == '/')
        length = snprintf(path_out, size, "%s/lull/lull.conf", config);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path_out, size, "%s/.config/lull/lull.conf", home);
    return length > 0 && (size_t)length < size;
}

struct price_file {
    const char *path;
    bool exists;
};

static int price_file_look(void *context, struct lull_error *err)
{
    struct price_file *const file = context;

    (void)err;
    file->exists = access(file->path, F_OK) == 0;
    return 0;
}

int lull_energy_price_load(struct lull_energy_price *price_out, struct lull_error *err)
{
    const char *path = getenv("LULL_CONFIG");
    char user_path[PATH_MAX];
    char *text = NULL;
    size_t size = 0;
    int result = 0;

    if (path == NULL && name_user_file(user_path, sizeof(user_path))) {
        struct price_file file = {.path = user_path};

        result =
            lull_path_do(user_path, LULL_PATH_LOOK_MS, price_file_look, &file, sizeof(file), err);
        if (file.exists)
            path = user_path;
    }
    if (result < 0)
        return result;
    if (path == NULL && access(system_file, F_OK) != 0) {
        *price_out = (struct lull_energy_price){0};
        return 0;
    }
    if (path == NULL)
        path = system_file;
    result =
        lull_path_read(path, LULL_ENERGY_PRICE_MAX_BYTES, LULL_PATH_LOOK_MS, &text, &size, err);
    if (result == 0)
        result = lull_energy_price_read(path, text, size, price_out, err);
    free(text);
    return result;
}
