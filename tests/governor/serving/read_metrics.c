/*
 * Reads a server's metrics for test_metrics_fetch.py and prints what comes, a JSON object per line.
 *
 * usage: read_metrics ADDRESS PERIOD_MS NAMES START_MS ONLY_PARKS, NAMES may be "". It ends with
 * standard input.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/json_string.h"
#include "governor/serving/metrics_fetch.h"

static void print_line(json_t *line)
{
    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

static void print_reading(const struct lull_serving_reading *reading, int64_t now_ns)
{
    json_t *const line = json_object();

    json_object_set_new(line, "running", json_real(reading->running));
    json_object_set_new(line, "tokens", json_real(reading->output_tokens));
    json_object_set_new(line, "restarted", json_boolean(reading->is_restarted));
    json_object_set_new(line, "age_ms", json_real(lull_ms_from_ns(now_ns - reading->time_ns)));
    print_line(line);
}

static void print_state(struct lull_metrics *metrics)
{
    static const char *const phases[] = {"connecting", "reading", "lagging", "failing"};
    json_t *const line = json_object();
    struct lull_metrics_state state;

    lull_metrics_state(metrics, &state);
    json_object_set_new(line, "phase", json_string(phases[state.phase]));
    json_object_set_new(line, "sentence", lull_json_string(state.sentence));
    json_object_set_new(line, "engine", json_string(state.engine != NULL ? state.engine : ""));
    json_object_set_new(line, "pages", json_integer((json_int_t)state.pages));
    json_object_set_new(line, "failures", json_integer((json_int_t)state.failures));
    json_object_set_new(line, "distance_ms", json_real(lull_ms_from_ns(state.distance_ns)));
    print_line(line);
}

int main(int argc, char *argv[])
{
    struct lull_metrics_config config = {0};
    struct lull_metrics *metrics = NULL;
    struct lull_error err = {0};

    if (argc != 6)
        return 2;
    config.address = argv[1];
    config.period_ns = lull_ns_from_ms(atof(argv[2]));
    config.names_path = argv[3][0] != '\0' ? argv[3] : NULL;
    config.start_ns = lull_ns_from_ms(atof(argv[4]));
    config.only_parks = argv[5][0] == '1';
    if (lull_metrics_open(&config, &metrics, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (;;) {
        struct pollfd polled[] = {{lull_metrics_descriptor(metrics), POLLIN, 0},
                                  {STDIN_FILENO, POLLIN, 0}};
        char message[LULL_METRICS_SENTENCE_BYTES];
        struct lull_serving_reading reading;

        poll(polled, 2, -1);
        if (polled[1].revents != 0)
            break;
        while (lull_metrics_take_message(metrics, message)) {
            json_t *const line = json_object();

            json_object_set_new(line, "message", lull_json_string(message));
            print_line(line);
        }
        if (lull_metrics_take(metrics, &reading))
            print_reading(&reading, lull_now_ns());
    }
    print_state(metrics);
    lull_metrics_close(metrics);
    return 0;
}
