/*
 * Draws the cost over recurrences, one line per policy, on a logarithmic axis, because a failing
 * policy can cost many times as much as the others. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "base/file.h"
#include "lab/reproduce/zeus/replay.h"

enum { WIDTH = 900, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 50, BOTTOM = 50 };

struct replay_drawing {
    FILE *file;
    const struct lull_replay *replay;
    double low; /* decimal logarithms of cost at the axis' ends */
    double high;
};

static double zeus_picture_x_of(const struct replay_drawing *drawing, uint32_t recurrence)
{
    return LEFT +
           (double)(WIDTH - LEFT - RIGHT) * recurrence / drawing->replay->comparison.recurrences;
}

static double zeus_picture_y_of(const struct replay_drawing *drawing, double cost)
{
    return TOP + (double)(HEIGHT - TOP - BOTTOM) * (drawing->high - log10(cost)) /
                     (drawing->high - drawing->low);
}

static double mean_cost(const struct lull_replay *replay, int policy, uint32_t recurrence)
{
    return replay->policies[policy].cost_by_recurrence[recurrence] / replay->seed_count;
}

static void zeus_picture_find_range(struct replay_drawing *drawing)
{
    const struct lull_comparison *c = &drawing->replay->comparison;
    double least = INFINITY;
    double most = 0.0;

    for (uint32_t i = 0; i < c->phase_count; i++) {
        least = fmin(least, c->min_cost[i]);
        most = fmax(most, c->min_cost[i]);
    }
    for (int p = 0; p < LULL_REPLAY_POLICIES; p++)
        for (uint32_t i = 0; i < c->recurrences; i++) {
            least = fmin(least, mean_cost(drawing->replay, p, i));
            most = fmax(most, mean_cost(drawing->replay, p, i));
        }
    drawing->low = log10(0.9 * least);
    drawing->high = log10(1.1 * most);
}

static void zeus_picture_draw_axes(const struct replay_drawing *drawing)
{
    static const double steps[] = {1.0, 2.0, 5.0};
    const struct lull_comparison *c = &drawing->replay->comparison;
    uint32_t recurrence = 0;

    for (int power = (int)floor(drawing->low); power <= (int)ceil(drawing->high); power++)
        for (int i = 0; i < 3; i++) {
            const double cost = steps[i] * pow(10.0, power);

            if (log10(cost) < drawing->low || log10(cost) > drawing->high)
                continue;
            fprintf(drawing->file,
                    "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>"
                    "<text x='%d' y='%.1f' text-anchor='end'>%.0e</text>\n",
                    LEFT, zeus_picture_y_of(drawing, cost), WIDTH - RIGHT,
                    zeus_picture_y_of(drawing, cost), LEFT - 6,
                    zeus_picture_y_of(drawing, cost) + 4.0, cost);
        }
    for (uint32_t i = 0; i < c->phase_count; i++) {
        fprintf(drawing->file,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#999'/>"
                "<text x='%.1f' y='%d'>%u: target %g</text>\n",
                zeus_picture_x_of(drawing, recurrence), TOP, zeus_picture_x_of(drawing, recurrence),
                HEIGHT - BOTTOM, zeus_picture_x_of(drawing, recurrence) + 4.0, HEIGHT - BOTTOM + 16,
                recurrence, c->phases[i].trace->job.target);
        recurrence += c->phases[i].recurrences;
    }
    fprintf(drawing->file, "<text x='%d' y='%d'>recurrence</text>\n", LEFT, HEIGHT - 12);
}

static void draw_oracle(const struct replay_drawing *drawing)
{
    const struct lull_comparison *c = &drawing->replay->comparison;
    uint32_t recurrence = 0;

    fprintf(drawing->file, "<polyline fill='none' stroke='#000' stroke-dasharray='4 3' points='");
    for (uint32_t i = 0; i < c->phase_count; i++) {
        const double y = zeus_picture_y_of(drawing, c->min_cost[i]);

        fprintf(drawing->file, "%.1f,%.1f ", zeus_picture_x_of(drawing, recurrence), y);
        recurrence += c->phases[i].recurrences;
        fprintf(drawing->file, "%.1f,%.1f ", zeus_picture_x_of(drawing, recurrence), y);
    }
    fprintf(drawing->file, "'/>\n");
}

static void draw_policy(const struct replay_drawing *drawing, int policy, const char *colour)
{
    fprintf(drawing->file, "<polyline fill='none' stroke='%s' stroke-width='1.5' points='", colour);
    for (uint32_t i = 0; i < drawing->replay->comparison.recurrences; i++)
        fprintf(drawing->file, "%.1f,%.1f ", zeus_picture_x_of(drawing, i),
                zeus_picture_y_of(drawing, mean_cost(drawing->replay, policy, i)));
    fprintf(drawing->file, "'/>\n");
}

static void draw_legend(FILE *file, const struct lull_replay *replay, const char *const *colours)
{
    double x = LEFT;

    for (int i = 0; i <= LULL_REPLAY_POLICIES; i++) {
        const bool is_oracle = i == LULL_REPLAY_POLICIES;

        fprintf(file,
                "<line x1='%.1f' y1='36' x2='%.1f' y2='36' stroke='%s' stroke-width='2'%s/>"
                "<text x='%.1f' y='40'>",
                x, x + 24.0, is_oracle ? "#000" : colours[i],
                is_oracle ? " stroke-dasharray='4 3'" : "", x + 30.0);
        if (is_oracle)
            fprintf(file, "oracle</text>\n");
        else
            fprintf(file, "%s, window %u</text>\n", replay->policies[i].name,
                    replay->policies[i].config.batch.window);
        x += 200.0;
    }
}

static int zeus_picture_draw(const void *context, FILE *file)
{
    const struct lull_replay *replay = context;
    static const char *const colours[LULL_REPLAY_POLICIES] = {"#d55e00", "#e69f00", "#0072b2"};
    struct replay_drawing drawing = {.file = file, .replay = replay};

    zeus_picture_find_range(&drawing);
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='12'>\n<rect width='%d' height='%d' fill='#fff'/>\n"
            "<text x='%d' y='20'>Cost (J) of each recurrence of %s, mean of %u seeds</text>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, replay->comparison.phases[0].trace->job.dataset,
            replay->seed_count);
    zeus_picture_draw_axes(&drawing);
    draw_oracle(&drawing);
    for (int i = 0; i < LULL_REPLAY_POLICIES; i++)
        draw_policy(&drawing, i, colours[i]);
    draw_legend(file, replay, colours);
    fprintf(file, "</svg>\n");
    return 0;
}

int lull_replay_picture_write(const char *path, const struct lull_replay *replay,
                              struct lull_error *err)
{
    return lull_file_write_with(path, zeus_picture_draw, replay, err);
}
