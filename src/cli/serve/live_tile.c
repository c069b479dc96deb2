/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

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

void lull_serve_draw_minute(FILE *out, const float *values, uint32_t next, double most)
{
    enum { WIDTH = 120, HEIGHT = 24 }; /* of the picture, in its own units */
    bool is_down = false;

    fprintf(out,
            "<svg class=\"spark\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
            "aria-hidden=\"true\"><path d=\"",
            WIDTH, HEIGHT);
    for (uint32_t i = 0; i < LULL_SERVE_SECONDS; i++) {
        const double value = (double)values[(next + i) % LULL_SERVE_SECONDS];
        const bool is_known = isfinite(value);

        if (is_known)
            fprintf(out, "%c%u %d", is_down ? 'L' : 'M', i * WIDTH / (LULL_SERVE_SECONDS - 1),
                    (int)(1.0 + (HEIGHT - 2) * (1.0 - fmin(value / most, 1.0))));
        is_down = is_known;
    }
    fputs("\"/></svg>", out);
}
