/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/html.h"
#include "cli/serve/live_parts.h"

void lull_serve_write_tile(FILE *out, const char *name, const char *title, const char *figure,
                           const char *small)
{
    lull_html_text(out, "<dl class=\"tile\"><dt>", title, "</dt>");
    fprintf(out, "<dd class=\"big\" data-live=\"%s\">", name);
    lull_html_text(out, "", figure, "</dd>");
    fprintf(out, "<dd class=\"small\" data-live=\"%s-more\">", name);
    lull_html_text(out, "", small, "</dd></dl>\n");
}
