/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/metrics_address.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

static const char http[] = "http://";
static const char https[] = "https://";
static const char unix_scheme[] = "unix:";
static const char default_path[] = "/metrics";

static bool text_begins(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* ---- addresses of the user ----------------------------------------------------------------- */

static int refuse_address(const char *text, const char *why, struct lull_error *err)
{
    return lull_error_set(err, -EINVAL,
                          "\"%.120s\" is not an address of metrics: %s; give one such as "
                          "http://localhost:8000/metrics",
                          text, why);
}

static bool text_is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~' || *text == '"' || *text == '\\')
            return false;
    return true;
}

/* Parses unix:SOCKET[:/PATH]. */
static int parse_unix(const char *text, struct lull_metrics_address *address,
                      struct lull_error *err)
{
    const char *const path = text + strlen(unix_scheme);
    const char *const colon = strrchr(path, ':');
    const size_t length = colon != NULL ? (size_t)(colon - path) : strlen(path);
    const char *const page = colon != NULL ? colon + 1 : default_path;

    if (path[0] != '/' || page[0] != '/' || length == 0)
        return refuse_address(text, "unix: needs the absolute path of a socket", err);
    if (length >= sizeof(address->socket))
        return refuse_address(text, "the path of the socket is longer than 107 bytes", err);
    memcpy(address->socket, path, length);
    address->socket[length] = '\0';
    if (snprintf(address->url, sizeof(address->url), "http://localhost%s", page) >=
        (int)sizeof(address->url))
        return refuse_address(text, "it is too long", err);
    return 0;
}

/* Checks HOST[:PORT]; host may be an address of IPv6 in brackets. */
static const char *check_host(const char *host, size_t length)
{
    const char *const bracket = memchr(host, ']', length);
    const char *const from = host[0] == '[' && bracket != NULL ? bracket : host;
    const char *const colon = memchr(from, ':', length - (size_t)(from - host));
    char digits[8];
    int64_t port;

    if (host[0] == '[' && bracket == NULL)
        return "a bracket is not closed";
    if (memchr(host, '@', length) != NULL)
        return "Lull sends no user name or password";
    if (colon != NULL && host[0] != '[' &&
        memchr(colon + 1, ':', length - (size_t)(colon + 1 - host)) != NULL)
        return "an address of IPv6 needs brackets";
    if (length == 0 || colon == host)
        return "it has no host";
    if (colon == NULL)
        return NULL;
    snprintf(digits, sizeof(digits), "%.*s", (int)(length - (size_t)(colon + 1 - host)), colon + 1);
    if (length - (size_t)(colon + 1 - host) >= sizeof(digits) ||
        lull_text_parse_int(digits, 1, UINT16_MAX, &port) < 0)
        return "the port must be between 1 and 65535";
    return NULL;
}

int lull_metrics_address_parse(const char *text, struct lull_metrics_address *address_out,
                               struct lull_error *err)
{
    struct lull_metrics_address address = {0};
    const char *host = text;
    const char *page;
    const char *wrong;
    size_t length;
    int result;

    if (text_begins(text, https))
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%.120s: Lull reads metrics without encryption, on this host; give "
                              "the server's local http port, such as http://localhost:8000/metrics",
                              text);
    if (!text_is_plain(text))
        return refuse_address(text, "it has blanks, quotes or characters beyond ASCII", err);
    if (text_begins(text, unix_scheme)) {
        result = parse_unix(text, &address, err);
        if (result == 0)
            *address_out = address;
        return result;
    }
    if (text_begins(text, http))
        host = text + strlen(http);
    else if (strstr(text, "://") != NULL)
        return refuse_address(text, "only http is supported", err);
    length = strcspn(host, "/?#");
    wrong = check_host(host, length);
    if (wrong == NULL && host == text && memchr(host, ':', length) == NULL)
        wrong = "it has neither http:// nor a port";
    if (wrong != NULL)
        return refuse_address(text, wrong, err);
    page = host + length;
    if (page[0] == '\0' || strcmp(page, "/") == 0)
        page = default_path;
    if (snprintf(address.url, sizeof(address.url), "%s%.*s%s", http, (int)length, host, page) >=
        (int)sizeof(address.url))
        return refuse_address(text, "it is too long", err);
    *address_out = address;
    return 0;
}

/* ---- command lines of servers -------------------------------------------------------------- */

struct server {
    const char *name;
    const char *program; /* last part of its path, or a module after -m */
    const char *verb;    /* the word after it; NULL: any or none */
    const char *port;    /* options, separated by blanks */
    const char *host;
    uint16_t default_port;
    const char *path;
    const char *needs; /* an option without which it publishes no metrics; NULL: none */
    const char *sign;  /* an option without which the command is no server; NULL: none */
};

/* Sources: the documentation of each server's command line, and that of data/serving_metrics.json.
 */
static const struct server servers[] = {
    {"vLLM", "vllm", "serve", "--port", "--host", 8000, "/metrics", NULL, NULL},
    {"vLLM", "vllm.entrypoints.openai.api_server", NULL, "--port", "--host", 8000, "/metrics", NULL,
     NULL},
    {"SGLang", "sglang.launch_server", NULL, "--port", "--host", 30000, "/metrics",
     "--enable-metrics", NULL},
    {"SGLang", "sglang", "serve", "--port", "--host", 30000, "/metrics", "--enable-metrics", NULL},
    {"TensorRT-LLM", "trtllm-serve", NULL, "--port", "--host", 8000, "/prometheus/metrics", NULL,
     NULL},
    {"TGI", "text-generation-launcher", NULL, "--port -p", "--hostname", 3000, "/metrics", NULL,
     NULL},
    {"llama.cpp", "llama-server", NULL, "--port", "--host", 8080, "/metrics", "--metrics", NULL},
    {"Dynamo", "dynamo.frontend", NULL, "--http-port --port", "--http-host --host", 8000,
     "/metrics", NULL, NULL},
    {"lull play", "lull", "play", "--port -p", "", 8000, "/metrics", NULL, "--server"},
};

static bool word_is_program(const char *word, const char *program)
{
    const char *const slash = strrchr(word, '/');

    return strcmp(slash != NULL ? slash + 1 : word, program) == 0;
}

/* Returns the value of an argument that is this option, "--port 8001" or "--port=8001". */
static const char *value_of(char *const *argument, const char *option, size_t length)
{
    if (strncmp(argument[0], option, length) != 0)
        return NULL;
    if (argument[0][length] == '=')
        return argument[0] + length + 1;
    return argument[0][length] == '\0' ? argument[1] : NULL;
}

/* Returns the value of the last of these options, which are separated by blanks; NULL: none is
 * given. */
static const char *find_option(char *const *arguments, const char *options)
{
    const char *value = NULL;

    for (; *arguments != NULL; arguments++) {
        for (const char *option = options; *option != '\0';) {
            const size_t length = strcspn(option, " ");
            const char *const found = value_of(arguments, option, length);

            if (found != NULL)
                value = found;
            option += length + (option[length] == ' ');
        }
    }
    return value;
}

/* Finds the server that a command line starts, and its arguments. */
static const struct server *find_server(char *const *argv, char *const **arguments_out)
{
    for (; *argv != NULL; argv++) {
        for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
            const struct server *const server = &servers[i];

            if (!word_is_program(*argv, server->program))
                continue;
            if (server->verb != NULL && (argv[1] == NULL || strcmp(argv[1], server->verb) != 0))
                continue;
            if (server->sign != NULL && find_option(argv + 1, server->sign) == NULL)
                continue;
            *arguments_out = argv + 1;
            return server;
        }
    }
    return NULL;
}

static bool has_flag(char *const *arguments, const char *flag)
{
    for (; *arguments != NULL; arguments++)
        if (strcmp(*arguments, flag) == 0)
            return true;
    return false;
}

/* The host to connect to, for the one that the server listens on. */
static const char *connect_host(const char *host)
{
    static const char *const all[] = {"0.0.0.0", "::", "[::]", "", "*"};

    if (host == NULL)
        return "localhost";
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(host, all[i]) == 0)
            return "localhost";
    return host;
}

static int write_url(const struct server *server, const char *host, int64_t port, char *url_out)
{
    const bool is_six = strchr(host, ':') != NULL && host[0] != '[';
    const int length =
        snprintf(url_out, LULL_METRICS_URL_BYTES, "http://%s%s%s:%lld%s", is_six ? "[" : "", host,
                 is_six ? "]" : "", (long long)port, server->path);

    return length < LULL_METRICS_URL_BYTES ? 0 : -EINVAL;
}

/* Guesses a server on a Unix socket. */
static int guess_socket(const struct server *server, const char *path, char *url_out,
                        char *assumed_out, struct lull_error *err)
{
    struct lull_metrics_address unused;

    if (snprintf(url_out, LULL_METRICS_URL_BYTES, "unix:%s:%s", path, server->path) >=
        LULL_METRICS_URL_BYTES)
        return lull_error_set(err, -EINVAL, "%.80s: too long for the path of a socket", path);
    snprintf(assumed_out, LULL_METRICS_ASSUMED_BYTES,
             "assuming that %s publishes its metrics at %.200s; --metrics gives another address",
             server->name, url_out);
    return lull_metrics_address_parse(url_out, &unused, err);
}

int lull_metrics_address_guess(char *const *argv, char url_out[LULL_METRICS_URL_BYTES],
                               char assumed_out[LULL_METRICS_ASSUMED_BYTES], struct lull_error *err)
{
    char *const *arguments = NULL;
    const struct server *const server = find_server(argv, &arguments);
    const char *host;
    const char *digits;
    const char *socket;
    int64_t port;

    if (server == NULL)
        return lull_error_set(err, -ENOENT,
                              "the command is not one of vLLM, SGLang, TensorRT-LLM, TGI, "
                              "llama.cpp, Dynamo or lull play --server: give the address of its "
                              "metrics with --metrics URL");
    if (find_option(arguments, "--ssl-keyfile --ssl-certfile --ssl-key-file --tls-key-path") !=
        NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%s serves https, which Lull does not read: start it on a local http "
                              "port as well, and give that with --metrics URL",
                              server->name);
    host = find_option(arguments, server->host);
    socket = find_option(arguments, "--uds");
    if (socket == NULL && host != NULL && host[0] == '/')
        socket = host;
    if (socket != NULL)
        return guess_socket(server, socket, url_out, assumed_out, err);
    digits = find_option(arguments, server->port);
    port = server->default_port;
    if (digits != NULL && lull_text_parse_int(digits, 1, UINT16_MAX, &port) < 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "the port \"%.40s\" of %s cannot be known before it runs: give the "
                              "address of its metrics with --metrics URL",
                              digits, server->name);
    if (write_url(server, connect_host(host), port, url_out) < 0)
        return lull_error_set(err, -EINVAL, "the host of %s is too long", server->name);
    if (server->needs != NULL && !has_flag(arguments, server->needs))
        snprintf(assumed_out, LULL_METRICS_ASSUMED_BYTES,
                 "assuming that %s publishes its metrics at %.160s, for which it needs the option "
                 "%s; --metrics gives another address",
                 server->name, url_out, server->needs);
    else
        snprintf(assumed_out, LULL_METRICS_ASSUMED_BYTES,
                 "assuming that %s publishes its metrics at %.160s%s; --metrics gives another "
                 "address",
                 server->name, url_out, digits == NULL ? ", its default port" : "");
    return 0;
}
