/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "emulator/nvidia_smi/options.h"

/* ---- the table ---- */

/* The commands that take an option. */
enum { IN_MAIN = 1, IN_TOPO = 2, IN_MONITORS = 4 };

enum takes { TAKES_NOTHING, TAKES_VALUE, MAY_TAKE_VALUE };

struct option_row {
    const char *brief;
    const char *name;
    enum takes takes;
    unsigned commands;
    enum smi_action action; /* SMI_SUMMARY: the option requests none, its word is stored */
    size_t offset;
    const char *help; /* NULL: the emulated nvidia-smi lacks it */
};

#define AT(member) offsetof(struct lull_smi_options, member)
#define ACTION(brief, name, takes, action, help)                                                   \
    {                                                                                              \
        brief, name, takes, IN_MAIN, action, AT(value), help                                       \
    }
#define LACKS(brief, name)                                                                         \
    {                                                                                              \
        brief, name, MAY_TAKE_VALUE, IN_MAIN, SMI_MISSING, AT(value), NULL                         \
    }

static const struct option_row rows[] = {
    {"-h", "--help", TAKES_NOTHING, IN_MAIN | IN_TOPO | IN_MONITORS, SMI_HELP, AT(value),
     "Print usage information and exit."},
    ACTION(NULL, "--version", TAKES_NOTHING, SMI_VERSION, "Print versions and exit."),
    ACTION("-L", "--list-gpus", TAKES_NOTHING, SMI_LIST, "List the GPUs."),
    ACTION("-q", "--query", TAKES_NOTHING, SMI_REPORT, "Report all attributes."),
    ACTION(NULL, "--query-gpu", TAKES_VALUE, SMI_QUERY_GPU, "Query attributes of GPUs."),
    ACTION(NULL, "--query-compute-apps", TAKES_VALUE, SMI_QUERY_APPS, "Query compute processes."),
    ACTION(NULL, "--query-supported-clocks", TAKES_VALUE, SMI_QUERY_CLOCKS,
           "Query supported clocks."),
    ACTION(NULL, "--help-query-gpu", TAKES_NOTHING, SMI_HELP_GPU, "List names of --query-gpu."),
    ACTION(NULL, "--help-query-compute-apps", TAKES_NOTHING, SMI_HELP_APPS,
           "List names of --query-compute-apps."),
    ACTION(NULL, "--help-query-supported-clocks", TAKES_NOTHING, SMI_HELP_CLOCKS,
           "List names of --query-supported-clocks."),
    ACTION("-pm", "--persistence-mode", TAKES_VALUE, SMI_SET_PERSISTENCE,
           "Set persistence mode: 0/DISABLED, 1/ENABLED."),
    ACTION("-e", "--ecc-config", TAKES_VALUE, SMI_SET_ECC, "Set ECC: 0/DISABLED, 1/ENABLED."),
    ACTION("-p", "--reset-ecc-errors", TAKES_VALUE, SMI_CLEAR_ECC,
           "Reset ECC error counts: 0/VOLATILE, 1/AGGREGATE."),
    ACTION("-c", "--compute-mode", TAKES_VALUE, SMI_SET_COMPUTE_MODE,
           "Set compute mode: 0/DEFAULT, 2/PROHIBITED, 3/EXCLUSIVE_PROCESS."),
    ACTION("-mig", "--multi-instance-gpu", TAKES_VALUE, SMI_SET_MIG,
           "Set MIG: 0/DISABLED, 1/ENABLED."),
    ACTION("-lgc", "--lock-gpu-clocks", TAKES_VALUE, SMI_LOCK_GPU_CLOCKS,
           "Lock GPU clocks between MIN,MAX in MHz."),
    ACTION("-rgc", "--reset-gpu-clocks", TAKES_NOTHING, SMI_UNLOCK_GPU_CLOCKS,
           "Reset GPU clocks to the default."),
    ACTION("-lmc", "--lock-memory-clocks", TAKES_VALUE, SMI_LOCK_MEMORY_CLOCKS,
           "Lock memory clocks between MIN,MAX in MHz."),
    ACTION("-rmc", "--reset-memory-clocks", TAKES_NOTHING, SMI_UNLOCK_MEMORY_CLOCKS,
           "Reset memory clocks to the default."),
    ACTION("-ac", "--applications-clocks", TAKES_VALUE, SMI_SET_APPLICATION_CLOCKS,
           "Set application clocks MEMORY,GRAPHICS in MHz."),
    ACTION("-rac", "--reset-applications-clocks", TAKES_NOTHING, SMI_RESET_APPLICATION_CLOCKS,
           "Reset application clocks to the default."),
    ACTION("-pl", "--power-limit", TAKES_VALUE, SMI_SET_POWER_LIMIT, "Set the power limit in W."),
    ACTION("-r", "--gpu-reset", TAKES_NOTHING, SMI_RESET_GPU,
           "Reset GPUs (reports that it is not supported)."),
    {"-i", "--id", TAKES_VALUE, IN_MAIN | IN_MONITORS | IN_TOPO, SMI_SUMMARY, AT(ids),
     "GPUs by index, UUID, serial number or bus id, separated by commas."},
    {"-f", "--filename", TAKES_VALUE, IN_MAIN | IN_MONITORS, SMI_SUMMARY, AT(file),
     "Write to a file."},
    {"-x", "--xml-format", TAKES_NOTHING, IN_MAIN, SMI_SUMMARY, AT(xml), "Report as XML."},
    {"-d", "--display", TAKES_VALUE, IN_MAIN, SMI_SUMMARY, AT(display),
     "Report only these sections, such as CLOCK,POWER."},
    {NULL, "--format", TAKES_VALUE, IN_MAIN, SMI_SUMMARY, AT(format),
     "Format of queries: csv[,noheader][,nounits]."},
    {"-l", "--loop", MAY_TAKE_VALUE, IN_MAIN, SMI_SUMMARY, AT(loop_s), "Repeat every SEC seconds."},
    {"-lms", "--loop-ms", TAKES_VALUE, IN_MAIN, SMI_SUMMARY, AT(loop_ms), "Repeat every MS ms."},
    {"-eow", "--error-on-warning", TAKES_NOTHING, IN_MAIN, SMI_SUMMARY, AT(warnings_are_errors),
     "Fail on warnings."},
    {"-s", "--select", TAKES_VALUE, IN_MONITORS, SMI_SUMMARY, AT(select),
     "pmon, dmon: columns, such as puc."},
    {"-o", "--options", TAKES_VALUE, IN_MONITORS, SMI_SUMMARY, AT(order),
     "pmon, dmon: D adds the date, T the time."},
    {"-c", "--count", TAKES_VALUE, IN_MONITORS, SMI_SUMMARY, AT(count),
     "pmon, dmon: end after so many rounds."},
    {"-d", "--delay", TAKES_VALUE, IN_MONITORS, SMI_SUMMARY, AT(delay),
     "pmon, dmon: seconds between rounds."},
    {"-m", "--matrix", TAKES_NOTHING, IN_TOPO, SMI_SUMMARY, AT(matrix), "topo: show the matrix."},
    LACKS("-B", "--list-excluded-gpus"),
    LACKS("-u", "--unit"),
    LACKS(NULL, "--query-accounted-apps"),
    LACKS(NULL, "--query-retired-pages"),
    LACKS(NULL, "--query-remapped-rows"),
    LACKS("-acp", "--applications-clocks-permission"),
    LACKS("-am", "--accounting-mode"),
    LACKS("-caa", "--clear-accounted-apps"),
    LACKS("-dm", "--driver-model"),
    LACKS("-fdm", "--force-driver-model"),
    LACKS(NULL, "--gom"),
    LACKS("-cc", "--cuda-clocks"),
    LACKS("-vm", "--virt-mode"),
    LACKS("-lmcd", "--lock-memory-clocks-deferred"),
    LACKS("-rmcd", "--reset-memory-clocks-deferred"),
    LACKS("-gtt", "--gpu-target-temp"),
    LACKS("-col", "--columns"),
    LACKS(NULL, "--dtd"),
    LACKS("-m", "--mode"),
    LACKS("-sc", "--scope"),
    LACKS("-den", "--dram-encryption"),
    LACKS("-t", "--toggle-led"),
    LACKS(NULL, "--set-hostname"),
    LACKS(NULL, "--get-hostname"),
    LACKS(NULL, "--debug"),
    LACKS(NULL, "--auto-boost-default"),
    LACKS(NULL, "--auto-boost-permission"),
};

/* Words that choose a command. */
static const struct {
    const char *word;
    unsigned command;
    enum smi_action action;
} commands[] = {
    {"topo", IN_TOPO, SMI_TOPOLOGY},
    {"pmon", IN_MONITORS, SMI_PROCESS_MONITOR},
    {"dmon", IN_MONITORS, SMI_DEVICE_MONITOR},
    {"daemon", IN_MAIN, SMI_MISSING},
    {"replay", IN_MAIN, SMI_MISSING},
    {"drain", IN_MAIN, SMI_MISSING},
    {"nvlink", IN_MAIN, SMI_MISSING},
    {"c2c", IN_MAIN, SMI_MISSING},
    {"clocks", IN_MAIN, SMI_MISSING},
    {"encodersessions", IN_MAIN, SMI_MISSING},
    {"fbcsessions", IN_MAIN, SMI_MISSING},
    {"vgpu", IN_MAIN, SMI_MISSING},
    {"mig", IN_MAIN, SMI_MISSING},
    {"compute-policy", IN_MAIN, SMI_MISSING},
    {"boost-slider", IN_MAIN, SMI_MISSING},
    {"power-hint", IN_MAIN, SMI_MISSING},
    {"base-clocks", IN_MAIN, SMI_MISSING},
    {"conf-compute", IN_MAIN, SMI_MISSING},
    {"gpm", IN_MAIN, SMI_MISSING},
    {"pci", IN_MAIN, SMI_MISSING},
    {"power-smoothing", IN_MAIN, SMI_MISSING},
    {"power-profiles", IN_MAIN, SMI_MISSING},
    {"prm", IN_MAIN, SMI_MISSING},
    {"stats", IN_MAIN, SMI_MISSING},
};

static const struct {
    const char *word;
    unsigned section;
} sections[] = {
    {"MEMORY", SMI_SECTION_MEMORY},
    {"UTILIZATION", SMI_SECTION_UTILIZATION},
    {"ECC", SMI_SECTION_ECC},
    {"TEMPERATURE", SMI_SECTION_TEMPERATURE},
    {"POWER", SMI_SECTION_POWER},
    {"CLOCK", SMI_SECTION_CLOCK},
    {"COMPUTE", SMI_SECTION_COMPUTE},
    {"PIDS", SMI_SECTION_PIDS},
    {"PERFORMANCE", SMI_SECTION_PERFORMANCE},
    {"SUPPORTED_CLOCKS", SMI_SECTION_SUPPORTED_CLOCKS},
    {"PAGE_RETIREMENT", SMI_SECTION_PAGE_RETIREMENT},
    {"ACCOUNTING", SMI_SECTION_ACCOUNTING},
    {"ENCODER_STATS", SMI_SECTION_ENCODER_STATS},
    {"VOLTAGE", SMI_SECTION_VOLTAGE},
    {"FBC_STATS", SMI_SECTION_FBC_STATS},
    {"ROW_REMAPPER", SMI_SECTION_ROW_REMAPPER},
    {"RESET_STATUS", SMI_SECTION_RESET_STATUS},
    {"GSP_FIRMWARE_VERSION", SMI_SECTION_GSP},
};

enum {
    ROW_COUNT = sizeof(rows) / sizeof(rows[0]),
    COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]),
    SECTION_COUNT = sizeof(sections) / sizeof(sections[0]),
};

/* ---- lists ---- */

const char *smi_options_next_word(const char **at, size_t *length_out)
{
    const char *word = *at;
    size_t length;

    if (*word == '\0')
        return NULL;
    word += strspn(word, " ");
    length = strcspn(word, ",");
    *at = word + length;
    if (**at == ',')
        (*at)++;
    while (length > 0 && word[length - 1] == ' ')
        length--;
    *length_out = length;
    return word;
}

static bool word_is(const char *word, size_t length, const char *wanted)
{
    return strlen(wanted) == length && strncasecmp(word, wanted, length) == 0;
}

bool smi_options_parse_pair(const char *text, unsigned *first_out, unsigned *second_out)
{
    const char *at = text;
    uint32_t first;
    uint32_t second;

    if (lull_text_take_digits(&at, UINT32_MAX, &first) < 0)
        return false;
    second = first;
    if (*at == ',') {
        at++;
        if (lull_text_take_digits(&at, UINT32_MAX, &second) < 0)
            return false;
    }
    if (*at != '\0')
        return false;
    *first_out = first;
    *second_out = second;
    return true;
}

/* Returns 0 if there is no such section. */
static unsigned section_find(const char *word, size_t length)
{
    for (size_t i = 0; i < SECTION_COUNT; i++)
        if (word_is(word, length, sections[i].word))
            return sections[i].section;
    return 0;
}

static int section_refuse(const char *word, size_t length, FILE *out)
{
    fprintf(out, "Invalid display type \"%.*s\". Please run 'nvidia-smi -h' for help.\n",
            (int)length, word);
    return SMI_EXIT_ARGUMENT;
}

static int sections_parse(const char *list, unsigned *sections_out, FILE *out)
{
    const char *word;
    size_t length;

    *sections_out = 0;
    while ((word = smi_options_next_word(&list, &length)) != NULL) {
        const unsigned section = section_find(word, length);

        if (section == 0)
            return section_refuse(word, length, out);
        *sections_out |= section;
    }
    return *sections_out != 0 ? 0 : section_refuse("", 0, out);
}

static int format_parse(const char *list, struct lull_smi_options *options, FILE *out)
{
    bool is_csv = false;
    const char *word;
    size_t length;

    options->has_header = true;
    options->has_units = true;
    while (list != NULL && (word = smi_options_next_word(&list, &length)) != NULL) {
        if (word_is(word, length, "csv"))
            is_csv = true;
        else if (word_is(word, length, "noheader"))
            options->has_header = false;
        else if (word_is(word, length, "nounits"))
            options->has_units = false;
        else {
            fprintf(out, "\"--format=%.*s\" is not a valid format. Please run 'nvidia-smi -h'.\n",
                    (int)length, word);
            return SMI_EXIT_ARGUMENT;
        }
    }
    if (!is_csv) {
        fprintf(out, "\"--format=\" switch is missing. It is required when using --query-* "
                     "switches. Please run 'nvidia-smi -h' for help.\n");
        return SMI_EXIT_USAGE;
    }
    return 0;
}

/* ---- words ---- */

static int option_refuse(const char *word, FILE *out)
{
    fprintf(out, "ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n", word);
    return SMI_EXIT_USAGE;
}

/* Finds the row of a word, and its value after '=', NULL if there is none. */
static const struct option_row *row_find(const char *word, unsigned command, const char **value_out)
{
    const size_t length = strcspn(word, "=");

    *value_out = word[length] == '=' ? word + length + 1 : NULL;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const char *const names[] = {rows[i].brief, rows[i].name};

        for (size_t k = 0; k < 2 && (rows[i].commands & command) != 0; k++)
            if (names[k] != NULL && strlen(names[k]) == length &&
                strncmp(names[k], word, length) == 0)
                return &rows[i];
    }
    return NULL;
}

static int action_set(struct lull_smi_options *options, enum smi_action action, const char *name,
                      FILE *out)
{
    if (options->action != SMI_SUMMARY) {
        fprintf(out,
                "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
        return SMI_EXIT_USAGE;
    }
    options->action = action;
    options->action_name = name;
    return 0;
}

/* Reads the option at argv[*at], and moves *at past its value. */
static int option_read(char **argv, int *at, unsigned command, struct lull_smi_options *options,
                       FILE *out)
{
    const char *value;
    const char *const word = argv[*at];
    const struct option_row *const row = row_find(word, command, &value);
    int status;

    if (row == NULL || (row->takes == TAKES_NOTHING && value != NULL))
        return option_refuse(word, out);
    if (row->action != SMI_SUMMARY) {
        status = action_set(options, row->action, row->name, out);
        if (status != 0)
            return status;
    }
    if (row->takes != TAKES_NOTHING && value == NULL && argv[*at + 1] != NULL &&
        (row->takes == TAKES_VALUE || argv[*at + 1][0] != '-'))
        value = argv[++*at];
    if (row->takes == TAKES_VALUE && value == NULL) {
        fprintf(out, "ERROR: Option %s needs a value. Please run 'nvidia-smi -h'.\n", word);
        return SMI_EXIT_USAGE;
    }
    if (value == NULL)
        value = "";
    memcpy((char *)options + row->offset, &value, sizeof(value));
    return 0;
}

/* ---- numbers ---- */

static int period_parse(const char *text, double unit_ms, long *period_out, FILE *out)
{
    double number;

    if (lull_text_parse_between(text, 0.001, 1e6, &number) < 0 || number * unit_ms < 1.0) {
        fprintf(out, "Invalid interval \"%s\". Please run 'nvidia-smi -h' for help.\n", text);
        return SMI_EXIT_ARGUMENT;
    }
    *period_out = (long)(number * unit_ms);
    return 0;
}

static int numbers_check(struct lull_smi_options *options, FILE *out)
{
    const bool is_monitor =
        options->action == SMI_PROCESS_MONITOR || options->action == SMI_DEVICE_MONITOR;
    int64_t rounds = 0;
    int status = 0;

    if (is_monitor)
        options->period_ms = 1000;
    if (options->loop_s != NULL)
        status = period_parse(*options->loop_s != '\0' ? options->loop_s : "5", 1000.0,
                              &options->period_ms, out);
    if (status == 0 && options->loop_ms != NULL)
        status = period_parse(options->loop_ms, 1.0, &options->period_ms, out);
    if (status == 0 && options->delay != NULL)
        status = period_parse(options->delay, 1000.0, &options->period_ms, out);
    if (status != 0 || options->count == NULL)
        return status;
    if (lull_text_parse_int(options->count, 1, INT32_MAX, &rounds) < 0) {
        fprintf(out, "Invalid count \"%s\". Please run 'nvidia-smi -h' for help.\n",
                options->count);
        return SMI_EXIT_ARGUMENT;
    }
    options->rounds = (long)rounds;
    return 0;
}

static int options_check(struct lull_smi_options *options, FILE *out)
{
    int status = numbers_check(options, out);

    options->sections = ~(unsigned)SMI_SECTION_SUPPORTED_CLOCKS;
    if (options->display != NULL && status == 0)
        status = sections_parse(options->display, &options->sections, out);
    if (status != 0)
        return status;
    if (options->action == SMI_QUERY_GPU || options->action == SMI_QUERY_APPS ||
        options->action == SMI_QUERY_CLOCKS)
        return format_parse(options->format, options, out);
    if ((options->xml != NULL || options->display != NULL) && options->action != SMI_REPORT) {
        fprintf(out,
                "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
        return SMI_EXIT_USAGE;
    }
    return 0;
}

int smi_options_read(int argc, char **argv, struct lull_smi_options *options_out, FILE *out)
{
    unsigned command = IN_MAIN;
    int at = 1;

    *options_out = (struct lull_smi_options){0};
    for (size_t i = 0; argc > 1 && i < COMMAND_COUNT; i++)
        if (strcmp(argv[1], commands[i].word) == 0) {
            options_out->action = commands[i].action;
            options_out->action_name = argv[1];
            command = commands[i].command;
            at = 2;
        }
    if (options_out->action == SMI_MISSING)
        return 0; /* whatever follows */
    for (; at < argc; at++) {
        int status;

        if (strcmp(argv[at], "-h") == 0 || strcmp(argv[at], "--help") == 0)
            options_out->action = SMI_SUMMARY; /* help goes with everything */
        status = option_read(argv, &at, command, options_out, out);
        if (status != 0 || options_out->action == SMI_HELP || options_out->action == SMI_MISSING)
            return status;
    }
    return options_check(options_out, out);
}

void smi_options_print_help(FILE *out)
{
    fprintf(out, "NVIDIA System Management Interface of an emulated node\n\n"
                 "nvidia-smi [topo|pmon|dmon] [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n\n");
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].help != NULL)
            fprintf(out, "    %-5s %-32s %s\n", rows[i].brief != NULL ? rows[i].brief : "",
                    rows[i].name, rows[i].help);
}
