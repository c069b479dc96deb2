/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/live_parts.h"

#include "cli/report/document.h"
#include "cli/report/html.h"

void lull_serve_write_saving_tile(FILE *out, const json_t *document)
{
    (void)document;
    lull_serve_write_tile(out, "saving", "Saving now", NULL, "no job runs");
}

void lull_serve_write_jobs(FILE *out, const json_t *document)
{
    (void)out;
    (void)document;
}

void lull_serve_write_work(FILE *out, const json_t *document, const json_t *gpu, size_t index)
{
    (void)document;
    fprintf(out, "<td data-live=\"work-%zu\">", index);
    lull_html_text(out, "", json_array_size(lull_report_at(gpu, "reasons")) > 0 ? "idle" : "", "</td>");
}
