/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/json_string.h"
#include "base/text.h"
#include "cli/report/page.h"
#include "cli/serve/files.h"
#include "cli/serve/json_text.h"
#include "cli/serve/live_page.h"
#include "cli/serve/metrics.h"
#include "cli/serve/node.h"
#include "cli/serve/request.h"
#include "cli/serve/run_list.h"

/* ---- bodies ------------------------------------------------------------------------------ */

/* Takes over a text as the body of the answer; NULL: there was no memory. */
static void answer_text(struct lull_serve_exchange *exchange, char *text, size_t size,
                        const char *type)
{
    if (text == NULL)
        return;
    exchange->status = MHD_HTTP_OK;
    exchange->response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (exchange->response == NULL)
        free(text);
    else
        MHD_add_response_header(exchange->response, "Content-Type", type);
}

static void answer_json(struct lull_serve_exchange *exchange, const json_t *document)
{
    size_t size;
    char *const text = lull_serve_json_text(document, &size);

    answer_text(exchange, text, size, "application/json");
}

void lull_serve_answer_error(struct lull_serve_exchange *exchange, unsigned int status,
                             const char *text)
{
    json_t *const document = json_pack("{s:o}", "error", lull_json_string(text));

    answer_json(exchange, document);
    json_decref(document);
    exchange->status = status;
}

/* A body that is written to memory. */
struct body {
    FILE *file;
    char *text;
    size_t size;
};

static bool begin_body(struct body *body)
{
    *body = (struct body){0};
    body->file = open_memstream(&body->text, &body->size);
    return body->file != NULL;
}

/* Answers with the written text. */
static void end_body(struct lull_serve_exchange *exchange, struct body *body, const char *type)
{
    if (fclose(body->file) == 0)
        answer_text(exchange, body->text, body->size, type);
    else
        free(body->text);
}

/* ---- pages ------------------------------------------------------------------------------- */

/* Allows a page nothing but its own style, and a script and streams where it has some. */
static void restrict_page(struct lull_serve_exchange *exchange, const char *script)
{
    char policy[256];

    if (exchange->response == NULL)
        return;
    snprintf(policy, sizeof(policy),
             "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'%s",
             script);
    MHD_add_response_header(exchange->response, "Content-Security-Policy", policy);
}

static void answer_live_page(struct lull_serve_exchange *exchange)
{
    struct lull_serve_watch *const watch = exchange->sources->watch;
    unsigned char bytes[16];
    char nonce[2 * sizeof(bytes) + 1];
    char script[96];
    const json_t *document;
    struct body body;

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) || !begin_body(&body))
        return;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    document = lull_serve_watch_lock(watch);
    lull_serve_page_write_head(body.file, json_string_value(json_object_get(document, "hostname")));
    lull_serve_watch_write_page(watch, body.file);
    lull_serve_watch_unlock(watch);
    lull_serve_page_write_foot(body.file, nonce);
    end_body(exchange, &body, "text/html; charset=utf-8");
    snprintf(script, sizeof(script), "; connect-src 'self'; script-src 'nonce-%s'", nonce);
    restrict_page(exchange, script);
}

/* Opens the run that the path names, or answers why not. */
static bool open_run(struct lull_serve_exchange *exchange, struct lull_report_document *document)
{
    struct lull_error err = {.code = -ENOENT, .text = "this is no name of a run"};

    if (lull_serve_is_run_name(exchange->rest) &&
        lull_serve_run_open(exchange->sources->runs, exchange->rest, document, &err) == 0)
        return true;
    if (err.code == -EFBIG)
        lull_serve_answer_error(exchange, MHD_HTTP_CONTENT_TOO_LARGE, err.text);
    else
        lull_serve_answer_error(exchange, MHD_HTTP_NOT_FOUND,
                                "no report of this run; see /api/v1/runs");
    return false;
}

static void answer_run_page(struct lull_serve_exchange *exchange)
{
    struct lull_report_document document;
    const struct lull_report_page page = {&document, 1};
    struct body body;

    if (!open_run(exchange, &document))
        return;
    if (begin_body(&body)) {
        lull_report_page_write(&page, body.file);
        end_body(exchange, &body, "text/html; charset=utf-8");
        restrict_page(exchange, "");
    }
    lull_report_document_close(&document);
}

/* ---- metrics and JSON -------------------------------------------------------------------- */

static void answer_metrics(struct lull_serve_exchange *exchange)
{
    const enum lull_serve_format format = lull_serve_choose_format(
        MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Accept"));
    struct body body;

    if (!begin_body(&body))
        return;
    lull_serve_metrics_write(exchange->sources->metrics,
                             lull_serve_watch_lock(exchange->sources->watch), format, body.file);
    lull_serve_watch_unlock(exchange->sources->watch);
    end_body(exchange, &body,
             format == LULL_SERVE_OPENMETRICS
                 ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                 : "text/plain; version=0.0.4; charset=utf-8");
}

static void answer_node(struct lull_serve_exchange *exchange)
{
    answer_json(exchange, lull_serve_watch_lock(exchange->sources->watch));
    lull_serve_watch_unlock(exchange->sources->watch);
}

static void answer_runs(struct lull_serve_exchange *exchange)
{
    json_t *document;

    lull_serve_watch_lock(exchange->sources->watch);
    document = json_pack("{s:O}", "runs", lull_serve_watch_runs(exchange->sources->watch));
    answer_json(exchange, document);
    json_decref(document);
    lull_serve_watch_unlock(exchange->sources->watch);
}

static void answer_run(struct lull_serve_exchange *exchange)
{
    struct lull_report_document document;

    if (!open_run(exchange, &document))
        return;
    answer_json(exchange, document.root);
    lull_report_document_close(&document);
}

static void answer_openapi(struct lull_serve_exchange *exchange)
{
    char *const text = strdup(lull_serve_openapi_json);

    answer_text(exchange, text, strlen(lull_serve_openapi_json), "application/json");
}

/* ---- streams ----------------------------------------------------------------------------- */

static const char *http_answer_argument(const struct lull_serve_exchange *exchange,
                                        const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

static void answer_stream(struct lull_serve_exchange *exchange)
{
    const double max_hz = exchange->sources->rate_hz;
    const char *const as = http_answer_argument(exchange, "as");
    const char *const rate = http_answer_argument(exchange, "rate_hz");
    const bool is_html = as != NULL && strcmp(as, "html") == 0;
    double rate_hz = max_hz;

    if (as != NULL && !is_html && strcmp(as, "json") != 0) {
        lull_serve_answer_error(exchange, MHD_HTTP_BAD_REQUEST, "as: json or html is expected");
        return;
    }
    if (rate != NULL && lull_text_parse_between(rate, 0.1, 5.0, &rate_hz) < 0) {
        lull_serve_answer_error(exchange, MHD_HTTP_BAD_REQUEST,
                                "rate_hz: a number from 0.1 to 5 is expected");
        return;
    }
    exchange->response = lull_serve_streams_open(exchange->sources->streams, exchange->connection,
                                                 is_html ? LULL_SERVE_HTML : LULL_SERVE_JSON,
                                                 rate_hz < max_hz ? rate_hz : max_hz);
    if (exchange->response == NULL) {
        lull_serve_answer_error(exchange, MHD_HTTP_SERVICE_UNAVAILABLE,
                                "as many streams as there may be are open; try again later");
        return;
    }
    exchange->status = MHD_HTTP_OK;
    exchange->is_stream = true;
    MHD_add_response_header(exchange->response, "Content-Type", "text/event-stream");
}

/* ---- routes ------------------------------------------------------------------------------ */

const struct lull_serve_route lull_serve_routes[] = {
    {"/", answer_live_page},
    {"/metrics", answer_metrics},
    {"/runs/", answer_run_page},
    {"/api/v1/node", answer_node},
    {"/api/v1/runs", answer_runs},
    {"/api/v1/runs/", answer_run},
    {"/api/v1/stream", answer_stream},
    {"/api/v1/openapi.json", answer_openapi},
    {NULL, NULL},
};

_Static_assert(sizeof(lull_serve_routes) / sizeof(lull_serve_routes[0]) == LULL_SERVE_ROUTES + 1,
               "each route has a bucket");
