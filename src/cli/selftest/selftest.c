/* lull selftest: checks Lull on real hardware and packs the results. The steps are Python, because
 * they call a table of functions by their signatures; this is the command's interface.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/shared/command.h"

enum { MAX_WORDS = 16, WORD_SIZE = PATH_MAX + 32 };

struct selftest_arguments {
    bool is_quick;
    bool sets_clocks;
    bool is_json;
    bool is_quiet;
    bool has_no_daemon;
    const char *output;
    const char *runtime_dir;
};

struct selftest_words {
    char texts[MAX_WORDS][WORD_SIZE];
    char *argv[MAX_WORDS + 1];
    uint32_t count;
};

static void words_add(struct selftest_words *words, const char *name, const char *value)
{
    char *const text = words->texts[words->count];

    if (value == NULL)
        return;
    snprintf(text, WORD_SIZE, "%s%s%s", name, value[0] != '\0' ? "=" : "", value);
    words->argv[words->count++] = text;
}

static void words_add_flag(struct selftest_words *words, const char *name, bool is_set)
{
    words_add(words, name, is_set ? "" : NULL);
}

/* Replaces this process by the steps. Returns only if that fails. */
static int selftest_start(const struct selftest_arguments *arguments, struct lull_error *err)
{
    static struct selftest_words words;
    char script[PATH_MAX];
    char self[PATH_MAX] = "";
    char output[64];
    const time_t now = time(NULL);
    struct tm day;
    int result =
        lull_file_find_own("cli/selftest/main.py", "selftest/main.py", script, sizeof(script), err);

    if (result < 0)
        return result;
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return lull_error_set(err, -errno, "/proc/self/exe: %s; mount /proc", strerror(errno));
    localtime_r(&now, &day);
    strftime(output, sizeof(output), "lull-selftest-%Y%m%d-%H%M%S.tar.gz", &day);
    words_add(&words, "python3", "");
    words_add(&words, "-B", ""); /* no __pycache__ in the installation */
    words_add(&words, script, "");
    words_add(&words, "--lull", self);
    words_add(&words, "--version", LULL_VERSION);
    words_add(&words, "--output", arguments->output != NULL ? arguments->output : output);
    words_add(&words, "--runtime-dir", arguments->runtime_dir);
    words_add_flag(&words, "--quick", arguments->is_quick);
    words_add_flag(&words, "--set-clocks", arguments->sets_clocks);
    words_add_flag(&words, "--no-daemon", arguments->has_no_daemon);
    words_add_flag(&words, "--json", arguments->is_json);
    words_add_flag(&words, "--quiet", arguments->is_quiet);
    execvp(words.argv[0], words.argv);
    return lull_error_set(err, -errno, "cannot start python3: %s; install Python 3.8 or newer",
                          strerror(errno));
}

static int selftest_command_run(void *options, const struct lull_operands *operands)
{
    struct lull_error err = {0};

    (void)operands;
    (void)selftest_start(options, &err);
    return lull_cli_fail("selftest", &err);
}

static const struct lull_option rows[] = {
    LULL_VALUE("output", "FILE", TEXT, struct selftest_arguments, output, "Write the archive here.",
               .hint = LULL_OPTION_FILE,
               .otherwise = "lull-selftest-DATE-TIME.tar.gz in this directory"),
    LULL_FLAG("set-clocks", struct selftest_arguments, sets_clocks,
              "Also run the steps that change SM clocks: a sweep, and a job with and without "
              "Lull.",
              .more = "Clocks are restored."),
    LULL_FLAG("quick", struct selftest_arguments, is_quick,
              "Shorten the steps: under a minute, for a first look."),
    LULL_JSON_ROW(struct selftest_arguments, is_json),
    LULL_QUIET_ROW(struct selftest_arguments, is_quiet),
    LULL_CLI_NO_DAEMON_ROW(struct selftest_arguments, has_no_daemon),
    LULL_CLI_RUNTIME_DIR_ROW(struct selftest_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_selftest_command = {
    .name = "selftest",
    .summary = "check Lull on this machine's GPUs and pack the results",
    .about = "Checks on NVIDIA GPUs what emulation cannot show, and packs the results into an "
             "archive without personal data that you can send in. It takes ten minutes at most, "
             "runs as any user, and changes no setting unless --set-clocks is given.",
    .tables = {{rows, 0}},
    .size = sizeof(struct selftest_arguments),
    .run = selftest_command_run,
};
