/*
 * Gets a page over HTTP, again and again, on one connection that stays open. It uses libcurl, which
 * is opened when needed: the build needs nothing of it, and lull starts without it.
 *
 * Redirections are errors, as are pages above LULL_PROMETHEUS_MAX_BYTES. Proxies, user names and
 * compression are not used. One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_METRICS_HTTP_H
#define LULL_GOVERNOR_SERVING_METRICS_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "governor/serving/metrics_address.h"

struct lull_metrics_http;

struct lull_metrics_answer {
    const char *page; /* until the next call */
    size_t size;
    int64_t time_ns; /* when the page began to arrive: no later than that the server made it */
};

/* Errors: LULL_E_UNSUPPORTED libcurl is not installed; -ENOMEM. */
int lull_metrics_http_open(const struct lull_metrics_address *address,
                           struct lull_metrics_http **http_out, struct lull_error *err);
void lull_metrics_http_close(struct lull_metrics_http *http); /* NULL is allowed */

/*
 * Gets the page within limit_ns. Errors, each with a sentence: -ECONNREFUSED no server;
 * -EHOSTUNREACH no such host; -EAGAIN the server answers "unavailable"; -ETIMEDOUT; -EPIPE the
 * answer ended early; -EFBIG; -EPROTO the server refuses or redirects; -EIO anything else.
 */
int lull_metrics_http_get(struct lull_metrics_http *http, int64_t limit_ns,
                          struct lull_metrics_answer *answer_out, struct lull_error *err);

#endif
