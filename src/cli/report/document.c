/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/document.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

/* No figure of a run is beyond this; pictures compute with differences of what is below. */
static const double max_number = 1e15;

/* ---- reading ----------------------------------------------------------------------------- */

int lull_report_document_parse(const char *text, size_t size, const char *name,
                               struct lull_report_document *document_out, struct lull_error *err)
{
    json_error_t where;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);

    if (root == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%.120s:%d: %.80s; pass the folder of a run",
                              name, where.line, where.text);
    if (!json_is_integer(json_object_get(root, "version")) ||
        !json_is_object(json_object_get(root, "guard"))) {
        json_decref(root);
        return lull_error_set(err, LULL_E_FORMAT,
                              "%.120s: not a report of `lull run`: version or guard is missing; "
                              "pass the folder of a run",
                              name);
    }
    snprintf(document_out->name, sizeof(document_out->name), "%s", name);
    document_out->root = root;
    return 0;
}

int lull_report_document_open(const char *path, struct lull_report_document *document_out,
                              struct lull_error *err)
{
    char file[PATH_MAX];
    struct stat info;
    char *text = NULL;
    size_t size = 0;
    int result;

    snprintf(file, sizeof(file), "%s", path);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
        (size_t)snprintf(file, sizeof(file), "%s/report.json", path) >= sizeof(file))
        return lull_error_set(err, -ENAMETOOLONG, "%.120s: the path is too long", path);
    result = lull_file_read(file, LULL_REPORT_MAX_BYTES, &text, &size, err);
    if (result == 0)
        result = lull_report_document_parse(text, size, file, document_out, err);
    free(text);
    if (result == 0)
        snprintf(document_out->name, sizeof(document_out->name), "%s", path);
    return result;
}

void lull_report_document_close(struct lull_report_document *document)
{
    json_decref(document->root);
    document->root = NULL;
}

/* ---- values ------------------------------------------------------------------------------ */

json_t *lull_report_at(const json_t *object, const char *key)
{
    json_t *const value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

static double report_document_number_of(const json_t *value)
{
    double number;

    if (!json_is_number(value))
        return (double)NAN;
    number = json_number_value(value);
    return fabs(number) <= max_number ? number : (double)NAN;
}

double lull_report_number(const json_t *object, const char *key)
{
    return report_document_number_of(lull_report_at(object, key));
}

double lull_report_number_at(const json_t *array, size_t index)
{
    return report_document_number_of(json_array_get(array, index));
}

const char *lull_report_text(const json_t *object, const char *key)
{
    return json_string_value(lull_report_at(object, key));
}

bool lull_report_is(const json_t *object, const char *key)
{
    return json_is_true(lull_report_at(object, key));
}

size_t lull_report_count(const json_t *array)
{
    return json_array_size(array);
}
