/*
 * report.json as another program may have written or changed it: refused with a message, or a
 * complete page in which no text of the report has injected an element. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "cli/report/page.h"
#include "fuzz.h"

/* Markup that a page never has of its own, and that a text of a report must not add. */
static const char *const foreign[] = {"<script", "<img", "<a href=\"h", "<iframe"};

static void check_page(const char *page, size_t size)
{
    static const char end[] = "</main></body></html>\n";

    require(size > sizeof(end) && strlen(page) == size);
    require(strcmp(page + size - strlen(end), end) == 0);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        require(strstr(page, foreign[i]) == NULL);
    /* Figures that are not known are words, never numbers that are none. */
    require(strstr(page, "d=\"Mnan") == NULL && strstr(page, "\"nan\"") == NULL);
    require(strstr(page, "\"inf\"") == NULL && strstr(page, "\"-nan\"") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_report_document documents[2];
    struct lull_report_page page = {documents, 1};
    struct lull_error err = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *out;

    if (lull_report_document_parse((const char *)data, size, "report", &documents[0], &err) < 0) {
        require(err.text[0] != '\0');
        return 0;
    }
    documents[1] = documents[0];
    for (page.count = 1; page.count <= 2; page.count++) {
        out = open_memstream(&text, &length);
        require(out != NULL && lull_report_page_write(&page, out) == 0 && fclose(out) == 0);
        check_page(text, length);
        free(text);
    }
    lull_report_document_close(&documents[0]);
    return 0;
}
