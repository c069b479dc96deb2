/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/gantt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/file.h"
#include "cluster/cli/simulate/gantt_elements.h"
#include "cli/shared/picture.h"
#include "simulator/summary.h"

/* Measures of the page, in pixels. */
static const double page_width = 1400.0;
static const double left = 130.0;
static const double right = 30.0;
static const double header = 100.0;
static const double panel_gap = 42.0;
static const double foot = 34.0;

/* Attributes of elements are for light grounds; on dark ones these rules come before them. */
static const char style[] =
    "<style>@media (prefers-color-scheme: dark) {"
    ".ground{fill:#15171c}.title{fill:#f0f0f3}.label{fill:#b9bdc7}.line{stroke:#777d8a}"
    ".grid{stroke:#ffffff24}.free{fill:#2b2f38}.idle{fill:#5c6471}.off{fill:#454c59}.box{stroke:#"
    "15171c}}"
    "</style>\n";

/* ---- header ------------------------------------------------------------------------------- */

/* A key of the legend: a coloured mark and its text. */
struct legend_key {
    const char *class;
    double x;
    double y;
    const char *paint; /* attributes */
    uint32_t rgb;
};

/* Draws a key of the legend, and returns where the next one may begin. A letter is taken to be
 * 5.9 pixels wide, since SVG cannot measure the width of a text. */
static double draw_key(FILE *file, const struct legend_key *key, const char *what)
{
    fprintf(file,
            "<rect class=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"18\" height=\"12\" "
            "%s=\"#%06x\"/><text class=\"label\" x=\"%.0f\" y=\"%.0f\">%s</text>\n",
            key->class, key->x, key->y, key->paint, key->rgb, key->x + 24.0, key->y + 10.0, what);
    return key->x + 44.0 + 5.9 * (double)strlen(what);
}

/* Returns the meaning of the colours of boxes and bands. */
static void draw_job_keys(const struct lull_gantt *gantt, bool has_boxes)
{
    struct legend_key key = {"free", left, 58.0, "fill", 0xeceef1};

    key.x = draw_key(gantt->file, &key, "free");
    for (int power = 0; power <= LULL_CLUSTER_DOWN && gantt->stretches->change_count > 0; power++) {
        const struct lull_gantt_node_look *look = &lull_gantt_node_looks[power];

        if (look->name == NULL || (!has_boxes && power != LULL_CLUSTER_OFF))
            continue;
        key.class = look->class;
        key.rgb = look->rgb;
        key.x = draw_key(gantt->file, &key, has_boxes ? look->name : "not on");
    }
    key.class = "key";
    for (uint32_t i = 0; i < gantt->layer_count; i++) {
        const struct lull_gantt_layer *layer = &gantt->layers[i];
        char text[32];

        if (layer->low_mhz == layer->high_mhz)
            snprintf(text, sizeof(text), "%u MHz", layer->low_mhz);
        else
            snprintf(text, sizeof(text), "%u-%u MHz", layer->low_mhz, layer->high_mhz);
        key.rgb = layer->rgb;
        key.x = draw_key(gantt->file, &key, layer->name != NULL ? layer->name : text);
    }
    if (has_boxes && gantt->has_clocks && gantt->has_late) {
        key.paint = "fill=\"none\" stroke-width=\"1.6\" stroke";
        key.rgb = 0xd1203a;
        draw_key(gantt->file, &key, "will end late");
    }
}

/* Returns the meaning of the shades of the strips above the pools. */
static void draw_wait_keys(const struct lull_gantt *gantt)
{
    static const char *const words[] = {"", "waiting jobs want GPUs", "1/4 of their pool or more",
                                        "all of it or more", "4 times that or more"};
    struct legend_key key = {"key", left, 76.0, "fill", 0};

    for (int shade = 1; shade <= LULL_GANTT_WANT_SHADES; shade++) {
        key.rgb = lull_gantt_want_rgb[shade];
        key.x = draw_key(gantt->file, &key, words[shade]);
    }
}

static void gantt_draw_header(const struct lull_gantt *gantt, const char *policy, bool has_boxes)
{
    const struct lull_cluster *cluster = &gantt->model->cluster;
    double run_j;
    double idle_j;
    uint64_t gpus = 0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        gpus += cluster->nodes[i].gpus;
    lull_cluster_run_energy(gantt->run, &run_j, &idle_j);
    fprintf(gantt->file,
            "<text class=\"title\" fill=\"#111\" x=\"%.0f\" y=\"28\" font-size=\"18\" "
            "font-weight=\"600\">%s jobs on %s GPUs under %s</text>\n",
            left, lull_amount_count(gantt->model->jobs.count).text, lull_amount_count(gpus).text,
            policy);
    fprintf(gantt->file,
            "<text class=\"label\" fill=\"#444\" x=\"%.0f\" y=\"48\" font-size=\"12\">%s node%s; "
            "%s in %s%s</text>\n",
            left, lull_amount_count(cluster->node_count).text, cluster->node_count == 1 ? "" : "s",
            lull_amount_energy(run_j + idle_j + lull_cluster_run_turn_on_j(gantt->run)).text,
            lull_amount_time(gantt->span_s).text,
            has_boxes ? "; a row per GPU, a box per job"
                      : "; how many GPUs of each row are busy, as means over short times");
    fprintf(gantt->file, "<g font-size=\"11\" fill=\"#444\">\n");
    draw_job_keys(gantt, has_boxes);
    draw_wait_keys(gantt);
    fprintf(gantt->file, "</g>\n");
}

/* ---- all together ------------------------------------------------------------------------- */

/* Draws all below the header: boxes, or bands where boxes would be too many, then the panels, and
 * the axis of time across them. *bottom_out: where the page ends. Errors: -ENOMEM. */
static int gantt_draw_body(const struct lull_gantt *gantt, bool *has_boxes_out, double *bottom_out)
{
    double bottom = NAN;
    int rc;

    fprintf(gantt->file, "<g font-size=\"11\" text-anchor=\"end\" fill=\"#444\">\n");
    rc = lull_gantt_draw_boxes(gantt, header, &bottom);
    if (rc < 0)
        return rc;
    *has_boxes_out = !isnan(bottom);
    if (!*has_boxes_out) {
        rc = lull_gantt_draw_bands(gantt, header, &bottom);
        if (rc < 0)
            return rc;
    }
    fprintf(gantt->file, "</g>\n");
    bottom += panel_gap;
    rc = lull_gantt_draw_power(gantt, &bottom);
    if (rc < 0)
        return rc;
    bottom += panel_gap;
    lull_gantt_draw_waiting(gantt, &bottom);
    lull_picture_draw_time_axis(
        gantt->file,
        &(struct lull_picture_time_axis){left, gantt->width, header + 8.0, bottom, gantt->span_s});
    *bottom_out = bottom + foot;
    return 0;
}

struct picture {
    const struct lull_scenario_model *model;
    const struct lull_cluster_policy_ops *policy;
    const struct lull_cluster_run *run;
};

/* The height of the page, which comes first, is known only once its body is drawn: so that is drawn
 * into a text of its own. */
static int draw_page(struct lull_gantt *gantt, const char *policy, FILE *file)
{
    char *body = NULL;
    size_t size = 0;
    bool has_boxes = false;
    double bottom = 0.0;
    int rc;

    gantt->file = open_memstream(&body, &size);
    if (gantt->file == NULL)
        return -ENOMEM;
    rc = gantt_draw_body(gantt, &has_boxes, &bottom);
    if (fclose(gantt->file) != 0)
        rc = -ENOMEM;
    if (rc < 0)
        goto end;
    gantt->file = file;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
            "width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n%s"
            "<rect class=\"ground\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            page_width, bottom, page_width, bottom, style);
    gantt_draw_header(gantt, policy, has_boxes);
    fwrite(body, 1, size, file);
    fputs("</svg>\n", file);
end:
    free(body);
    return rc;
}

static int gantt_write_picture(const void *context, FILE *file)
{
    const struct picture *picture = context;
    struct lull_gantt gantt;
    int rc = lull_gantt_init(&gantt, picture->model, picture->run, left, page_width - left - right);

    if (rc == 0)
        rc = draw_page(&gantt, picture->policy->name, file);
    lull_gantt_fini(&gantt);
    return rc;
}

int lull_gantt_write(const char *path, const struct lull_scenario_model *model,
                     const struct lull_cluster_policy_ops *policy,
                     const struct lull_cluster_run *run, struct lull_error *err)
{
    const struct picture picture = {model, policy, run};

    return lull_file_write_with(path, gantt_write_picture, &picture, err);
}
