/*
 * `lull serve`: the node for browsers, Prometheus and programs. SPDX-License-Identifier: Apache-2.0
 */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/serve/request.h"
#include "cli/serve/server.h"
#include "cli/shared/stop_signals.h"
#include "governor/run/run.h"

struct serve_arguments {
    const char *address;
    uint32_t port;
    const char *token_file;
    const char *runs;
    const char *runtime_dir;
    bool is_for_all;
    double rate_hz;
};

static const struct lull_option rows[] = {
    LULL_VALUE(
        "address", "ADDRESS", TEXT, struct serve_arguments, address,
        "Listen on this numeric address.", .default_value = "127.0.0.1",
        .more =
            "An address that other machines can reach needs --token-file. The connection is not "
            "encrypted: put a proxy with TLS in front of it if the network is not trusted."),
    LULL_VALUE("port", "PORT", WHOLE, struct serve_arguments, port,
               "Listen on this port; 0: any that is free.", .letter = 'p', .most = 65535,
               .default_value = "9477"),
    LULL_VALUE("token-file", "FILE", TEXT, struct serve_arguments, token_file,
               "Answer only requests with the token in the first line of this file.",
               .hint = LULL_OPTION_FILE,
               .more = "As Authorization: Bearer TOKEN, or as the password of any user. 16 to 256 "
                       "characters; others must not be able to read the file."),
    LULL_VALUE("runs", "DIR", TEXT, struct serve_arguments, runs,
               "Show the runs whose folders are in this one.", .hint = LULL_OPTION_FOLDER,
               .default_value = LULL_RUN_REPORTS),
    LULL_FLAG("all-users", struct serve_arguments, is_for_all,
              "Show the runs of all users that this user may read, instead of the own ones.",
              .needs = "token-file",
              .more = "It needs a token, because every user of the machine reaches a loopback "
                      "address. The key viewers of lulld-policy(5) names the group that may read "
                      "them; root always may."),
    LULL_VALUE("rate", "HZ", NUMBER, struct serve_arguments, rate_hz,
               "Updates per second sent to viewers.", .least = 0.1, .most = 5.0,
               .default_value = "5"),
    LULL_CLI_RUNTIME_DIR_ROW(struct serve_arguments, runtime_dir),
    {0},
};

/* Reads the token. Errors: -EPERM others can read the file; -EINVAL it holds no token; -errno. */
static int serve_command_read_token(const char *path, char *token_out, struct lull_error *err)
{
    char text[4096];
    int result = lull_file_read_secret(path, text, sizeof(text), err);

    if (result < 0)
        return result;
    result = lull_serve_take_token(text, token_out);
    if (result < 0)
        return lull_error_set(err, result,
                              "%.120s: the first line must be a token of %d to %d characters "
                              "without spaces; create one with: openssl rand -hex 32",
                              path, LULL_SERVE_MIN_TOKEN, LULL_SERVE_MAX_TOKEN);
    return 0;
}

/* Keeps the memory of one document for the next one, instead of giving it back to the kernel and
 * having it zeroed five times a second. */
static void serve_keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

static void serve_command_print_address(const struct serve_arguments *arguments, uint16_t port)
{
    const bool is_six = strchr(arguments->address, ':') != NULL;

    printf("http://%s%s%s:%u/\n", is_six ? "[" : "", arguments->address, is_six ? "]" : "", port);
    fflush(stdout);
}

static int serve_command_run(void *options, const struct lull_operands *operands)
{
    const struct serve_arguments *const arguments = options;
    struct lull_serve_server *server;
    struct lull_stop_signals stop;
    struct lull_error err = {0};
    char token[LULL_SERVE_MAX_TOKEN + 1];

    (void)operands;
    if (arguments->token_file != NULL &&
        serve_command_read_token(arguments->token_file, token, &err) < 0)
        return lull_cli_fail("serve", &err);
    if (geteuid() == 0)
        lull_log(LULL_LOG_WARNING, "serve", "runs as root, which it does not need");
    serve_keep_memory();
    lull_stop_signals_begin(&stop);
    const struct lull_serve_options serve = {
        .address = arguments->address,
        .port = (uint16_t)arguments->port,
        .token = arguments->token_file != NULL ? token : NULL,
        .runs = arguments->runs,
        .runtime_dir = arguments->runtime_dir,
        .is_for_all = arguments->is_for_all,
        .rate_hz = arguments->rate_hz,
    };
    if (lull_serve_start(&serve, &server, &err) < 0)
        return lull_cli_fail("serve", &err);
    serve_command_print_address(arguments, lull_serve_port(server));
    sigwait(&stop.signals, &stop.stopped_by);
    lull_serve_stop(server);
    return LULL_EXIT_OK;
}

const struct lull_program_command lull_serve_command = {
    .name = "serve",
    .summary = "show this node in a browser, to Prometheus and to programs",
    .about = "Serves the node as it is now and its last runs over HTTP: a live page, metrics for "
             "Prometheus, and JSON with server-sent events. Requires no privileges and changes "
             "nothing. Prints its address once it listens, and exits on a signal.",
    .after = "Examples:\n"
             "  lull serve\n"
             "  lull serve --address 0.0.0.0 --token-file ~/.config/lull/token\n"
             "  lull serve --all-users --token-file /etc/lull/serve-token\n"
             "  curl -s http://127.0.0.1:9477/metrics",
    .tables = {{rows, 0}},
    .size = sizeof(struct serve_arguments),
    .run = serve_command_run,
};
