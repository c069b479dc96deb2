/* Command lines that are read by a table: values, ranges, order, abbreviations, messages.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest_word.h"
#include "base/option.h"

struct values {
    bool is_loud;
    bool is_terse;
    uint32_t narrow;
    int64_t wide;
    double number;
    double ratio;
    int64_t time_ns;
    double sum;
    const char *text;
    const char *kind;
    uint32_t word;
    bool has_word;
    double pair[2];
    const char *bare;
    bool has_bare;
    const char *needy;
    const char *enemy;
    const char *place;
};

static const char *const colours[] = {"red", "green", "blue", NULL};

static int parse_pair(const char *text, void *place, struct lull_error *err)
{
    double *const pair = place;

    if (strcmp(text, "odd") == 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED, "odd is not for pairs");
    return sscanf(text, "%lf,%lf", &pair[0], &pair[1]) == 2 ? 0 : -EINVAL;
}

/* Takes the value to the struct of the table, as it may be given again. */
static int add_up(const char *text, void *values, struct lull_error *err)
{
    double term;

    (void)err;
    if (sscanf(text, "%lf", &term) != 1)
        return -EINVAL;
    ((struct values *)values)->sum += term;
    return 0;
}

static const struct lull_option rows[] = {
    LULL_FLAG("loud", struct values, is_loud, "Be loud.", .letter = 'l'),
    LULL_FLAG("terse", struct values, is_terse, "Be terse.", .letter = 't'),
    LULL_VALUE("narrow", "N", WHOLE, struct values, narrow, "A count.", .letter = 'n', .least = 2,
               .most = 7, .default_value = "3"),
    LULL_VALUE("wide", "N", WHOLE, struct values, wide, "A large count.", .least = -5,
               .environment = "LULL_TEST_WIDE"),
    LULL_GROUP("Numbers"),
    LULL_VALUE("number", "MS", NUMBER, struct values, number, "A number.", .is_open = true,
               .most = 10),
    LULL_VALUE("ratio", "RATIO", RATIO, struct values, ratio, "A ratio.", .default_value = "1%"),
    LULL_VALUE("time", "MIN", TIME, struct values, time_ns, "A time.", .is_open = true,
               .most = 90.0, .default_value = "1.5"),
    LULL_OWN("sum", "TERM", add_up, "A sum.", .expected = "a number"),
    LULL_VALUE("text", "TEXT", TEXT, struct values, text, "A text.", .default_value = "as it was"),
    LULL_VALUE("kind", "NAME", TEXT, struct values, kind, "A kind.", .words = colours),
    LULL_VALUE("word", NULL, WORD, struct values, word, "A colour.", .words = colours,
               .default_value = "green", LULL_GIVEN(struct values, has_word)),
    LULL_VALUE("pair", "A,B", OWN, struct values, pair, "A pair.", .parse = parse_pair,
               .expected = "two numbers"),
    LULL_VALUE("bare", "X", TEXT, struct values, bare, "A bare one.", .is_bare_allowed = true,
               LULL_GIVEN(struct values, has_bare)),
    LULL_VALUE("needy", "X", TEXT, struct values, needy, "Needs another.",
               .needs = "kind=red|pair"),
    LULL_VALUE("enemy", "X", TEXT, struct values, enemy, "Excludes.", .excludes = "kind|pair"),
    LULL_VALUE("place", "DIR", TEXT, struct values, place, "A place.", .default_value = "/here",
               .environment = "LULL_TEST_PLACE"),
    {0},
};

static const struct lull_option_table tables[LULL_OPTION_MAX_TABLES] = {{rows, 0}};

/* Result of parsing a command line of words with blanks between. */
struct outcome {
    struct values values;
    struct lull_operands operands;
    int result;
    char message[1024];
    char words[256]; /* of the command line, which operands point into */
    char *argv[32];
};

static void read_line(const struct lull_operand_rules *rules, const char *line,
                      struct outcome *outcome)
{
    const struct lull_option_reader reader = {"test it", tables, rules, &outcome->values};
    FILE *const before = stderr;
    char *rest = outcome->words;
    int argc = 1;

    memset(outcome, 0, sizeof(*outcome));
    snprintf(outcome->words, sizeof(outcome->words), "%s", line);
    outcome->argv[0] = outcome->words;
    for (char *word = strtok_r(outcome->words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
        outcome->argv[argc++] = word;
    stderr = fmemopen(outcome->message, sizeof(outcome->message), "w");
    assert_non_null(stderr);
    outcome->result = lull_options_read(&reader, argc, outcome->argv, &outcome->operands);
    fclose(stderr);
    stderr = before;
}

static const struct lull_operand_rules files = {.most = UINT32_MAX};
static const struct lull_operand_rules none = {0};
static const struct lull_operand_rules job = {
    .least = 1, .most = 1, .takes_command = true, .needs_command = true, .missing = "give a job"};
static const struct lull_operand_rules work = {.most = UINT32_MAX, .takes_command = true};

static void accept(const char *line, struct outcome *outcome)
{
    read_line(&files, line, outcome);
    if (outcome->result != LULL_OPTION_READ)
        fail_msg("%s: %s", line, outcome->message);
}

/* The message has all of it. */
static void refuse(const struct lull_operand_rules *rules, const char *line, int code,
                   const char *message)
{
    struct outcome outcome;

    read_line(rules, line, &outcome);
    if (outcome.result != code || strstr(outcome.message, message) == NULL ||
        strstr(outcome.message, "test it: ") != outcome.message ||
        strstr(outcome.message, "Try `test it --help`.") == NULL)
        fail_msg("%s: %d, %s", line, outcome.result, outcome.message);
}

static void test_defaults_are_those_of_the_rows(void **state)
{
    struct outcome outcome;

    (void)state;
    accept("", &outcome);
    assert_int_equal(outcome.values.narrow, 3);
    assert_true(outcome.values.ratio == 0.01);
    assert_int_equal(outcome.values.time_ns, 90000000000);
    assert_string_equal(outcome.values.text, "as it was");
    assert_int_equal(outcome.values.word, 1);
    assert_false(outcome.values.has_word);
    assert_string_equal(outcome.values.place, "/here");
    setenv("LULL_TEST_PLACE", "/there", 1);
    accept("", &outcome);
    assert_string_equal(outcome.values.place, "/there");
    accept("--place=/given", &outcome);
    assert_string_equal(outcome.values.place, "/given");
    setenv("LULL_TEST_PLACE", "", 1);
    accept("", &outcome);
    assert_string_equal(outcome.values.place, "/here");
    setenv("LULL_TEST_WIDE", "-6", 1);
    refuse(&none, "", -EINVAL, "test it: LULL_TEST_WIDE=-6: give ");
    setenv("LULL_TEST_WIDE", "12", 1);
    refuse(&none, "--wide=-6", -EINVAL, "test it: --wide -6: give ");
    unsetenv("LULL_TEST_WIDE");
}

static void test_values_go_where_they_belong(void **state)
{
    struct outcome outcome;

    (void)state;
    accept("-ltn7 --wide -5 --number=10 --ratio 50% --text --loud --kind blue --word=blue "
           "--pair 1,2",
           &outcome);
    assert_true(outcome.values.is_loud && outcome.values.is_terse && outcome.values.has_word);
    assert_int_equal(outcome.values.narrow, 7);
    assert_int_equal(outcome.values.wide, -5);
    assert_true(outcome.values.number == 10.0 && outcome.values.ratio == 0.5);
    assert_string_equal(outcome.values.text, "--loud");
    assert_string_equal(outcome.values.kind, "blue");
    assert_int_equal(outcome.values.word, 2);
    assert_true(outcome.values.pair[0] == 1.0 && outcome.values.pair[1] == 2.0);
    accept("-n 2 --wide 9223372036854775807", &outcome);
    assert_int_equal(outcome.values.narrow, 2);
    assert_true(outcome.values.wide == INT64_MAX);
    accept("--time 0.00000000002 --sum 2 --sum 3.5", &outcome);
    assert_int_equal(outcome.values.time_ns, 1);
    assert_true(outcome.values.sum == 5.5);
    accept("--time 90", &outcome);
    assert_int_equal(outcome.values.time_ns, 5400000000000);
    accept("--bare --bare=x", &outcome);
    assert_true(outcome.values.has_bare);
    assert_string_equal(outcome.values.bare, "x");
}

static void test_abbreviations(void **state)
{
    struct outcome outcome;

    (void)state;
    accept("--rat 4% --lo --terse", &outcome);
    assert_true(outcome.values.ratio == 0.04 && outcome.values.is_loud);
    refuse(&none, "--n 3", -EINVAL, "--n is the beginning of several options: --narrow --number");
    refuse(&none, "--te", -EINVAL, "several options: --terse --text");
}

static void test_words_and_commands(void **state)
{
    struct outcome outcome;

    (void)state;
    accept("a --loud b - -- --terse -- c", &outcome);
    assert_true(outcome.values.is_loud && !outcome.values.is_terse);
    assert_int_equal(outcome.operands.count, 6);
    assert_string_equal(outcome.operands.words[1], "b");
    assert_string_equal(outcome.operands.words[2], "-");
    assert_string_equal(outcome.operands.words[3], "--terse");
    assert_string_equal(outcome.operands.words[4], "--");
    assert_string_equal(outcome.operands.words[5], "c");
    assert_null(outcome.operands.words[6]);

    read_line(&job, "--loud spec --terse -- run --wide x", &outcome);
    assert_int_equal(outcome.result, LULL_OPTION_READ);
    assert_true(outcome.values.is_loud && outcome.values.is_terse);
    assert_string_equal(outcome.operands.words[0], "spec");
    assert_string_equal(outcome.operands.command[0], "run");
    assert_string_equal(outcome.operands.command[1], "--wide");
    assert_string_equal(outcome.operands.command[2], "x");
    read_line(&job, "spec run --loud", &outcome);
    assert_false(outcome.values.is_loud);
    assert_string_equal(outcome.operands.command[1], "--loud");

    read_line(&work, "a b -- run c", &outcome);
    assert_int_equal(outcome.operands.count, 2);
    assert_string_equal(outcome.operands.command[1], "c");
    read_line(&work, "-- run c", &outcome);
    assert_int_equal(outcome.operands.count, 0);
    assert_string_equal(outcome.operands.command[0], "run");
    read_line(&job, "-- spec run", &outcome);
    assert_string_equal(outcome.operands.words[0], "spec");
    assert_string_equal(outcome.operands.command[0], "run");

    refuse(&job, "spec", -EINVAL, "give a job");
    refuse(&job, "", -EINVAL, "give a job");
    refuse(&none, "x", -EINVAL, "x: this command takes no arguments");
}

static void test_wrong_values_say_what_to_give(void **state)
{
    static const struct {
        const char *line;
        const char *message;
    } cases[] = {
        {"--narrow 1", "--narrow 1: give a whole number from 2 to 7\n"},
        {"--narrow 8", "from 2 to 7"},
        {"--narrow=", "from 2 to 7"},
        {"--narrow 3x", "from 2 to 7"},
        {"--wide -6", "--wide -6: give a whole number from -5 on\n"},
        {"--number 0", "--number 0: give a number above 0, at most 10, in milliseconds\n"},
        {"--number 10.5", "at most 10"},
        {"--number nan", "at most 10"},
        {"--ratio 101%", "--ratio 101%: give a ratio such as 1% or 0.01, from 0% to 100%\n"},
        {"--time 0", "--time 0: give a number above 0, at most 90, in minutes\n"},
        {"--time 0.00000000001", "above 0"}, /* that is less than 1 ns */
        {"--time 90.1", "at most 90"},
        {"--sum x", "--sum x: give a number\n"},
        {"--kind gren", "--kind gren: give red, green or blue; did you mean green?\n"},
        {"--word xyzzy", "--word xyzzy: give red, green or blue\n"},
        {"--pair 1", "--pair 1: give two numbers\n"},
        {"--text", "--text needs a value: give TEXT\n"},
        {"-n", "--narrow needs a value: give a whole number from 2 to 7\n"},
        {"--loud=yes", "--loud takes no value\n"},
        {"--luod", "unknown option --luod; did you mean --loud?\n"},
        {"--nothing-like-it=3", "unknown option --nothing-like-it\n"},
        {"-x", "unknown option -x\n"},
        {"-lx", "unknown option -x\n"},
        {"--needy x", "--needy has no effect alone; give --kind red or --pair as well"},
        {"--needy x --kind blue", "--needy has no effect alone"},
        {"--enemy x --pair 1,2", "--enemy and --pair exclude each other"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refuse(&none, cases[i].line, -EINVAL, cases[i].message);
    refuse(&none, "--pair odd", LULL_E_UNSUPPORTED, "--pair odd: odd is not for pairs\n");
}

static void test_what_is_needed_may_be_either(void **state)
{
    struct outcome outcome;

    (void)state;
    accept("--needy x --kind red", &outcome);
    accept("--needy x --pair 1,2", &outcome);
    accept("--enemy x", &outcome);
}

static void test_help_and_version_end_it(void **state)
{
    struct outcome outcome;

    (void)state;
    read_line(&job, "--loud --help --nonsense", &outcome);
    assert_int_equal(outcome.result, LULL_OPTION_WANTS_HELP);
    read_line(&job, "-h", &outcome);
    assert_int_equal(outcome.result, LULL_OPTION_WANTS_HELP);
    read_line(&job, "-lV", &outcome);
    assert_int_equal(outcome.result, LULL_OPTION_WANTS_VERSION);
    read_line(&job, "x y --help", &outcome);
    assert_int_equal(outcome.result, LULL_OPTION_READ);
}

static const char *nearest_to(const char *word)
{
    struct lull_nearest nearest = lull_nearest_begin(word);

    for (const char *const *at = (const char *const[]){"run", "emulate", "status", "restore", NULL};
         *at != NULL; at++)
        lull_nearest_try(&nearest, *at);
    return nearest.best;
}

static void test_the_nearest_word(void **state)
{
    (void)state;
    assert_string_equal(nearest_to("emulat"), "emulate");
    assert_string_equal(nearest_to("emulaet"), "emulate");
    assert_string_equal(nearest_to("sta"), "status");
    assert_string_equal(nearest_to("rnu"), "run");
    assert_string_equal(nearest_to("resotre"), "restore");
    assert_null(nearest_to("x"));
    assert_null(nearest_to("simulate"
                           "simulatesimulatesimulatesimulatesimulatesimulate"));
    assert_null(nearest_to("plan"));
}

/* Captures the text that print writes about the table. */
static void capture(void (*print)(FILE *out), char *text, size_t size)
{
    FILE *const out = fmemopen(text, size, "w");

    assert_non_null(out);
    print(out);
    fclose(out);
}

static const struct lull_option shown[] = {
    LULL_FLAG("loud", struct values, is_loud, "Be loud.", .letter = 'l'),
    LULL_GROUP("Nothing"),
    LULL_GROUP("Values"),
    LULL_VALUE("narrow", "N", WHOLE, struct values, narrow,
               "A count of things that takes so many words that it needs a second line.",
               .default_value = "3", .environment = "NARROW", .more = "There is more."),
    LULL_VALUE("word", NULL, WORD, struct values, word, "A colour.", .words = colours),
    LULL_VALUE("place-that-is-long", "DIR", TEXT, struct values, place, "A place.",
               .hint = LULL_OPTION_FOLDER, .otherwise = "here"),
    LULL_VALUE("bare", "X", TEXT, struct values, bare, "A bare one.", .is_bare_allowed = true,
               .environment = "BARE", .hint = LULL_OPTION_FILE),
    {0},
};

static const struct lull_option_table shown_tables[LULL_OPTION_MAX_TABLES] = {{shown, 0}};

static void print_help(FILE *out)
{
    lull_options_help(shown_tables, out);
}

static void print_list(FILE *out)
{
    lull_options_list(shown_tables, "do it", out);
}

static void test_what_is_told_of_a_table(void **state)
{
    char text[2048];

    (void)state;
    capture(print_help, text, sizeof(text));
    assert_string_equal(
        text, "\nOptions:\n"
              "  -l, --loud                Be loud.\n"
              "\nValues:\n"
              "      --narrow=N            A count of things that takes so many words that it\n"
              "                            needs a second line. Default: $NARROW or 3.\n"
              "      --word=red|green|blue\n"
              "                            A colour.\n"
              "      --place-that-is-long=DIR\n"
              "                            A place. Default: here.\n"
              "      --bare[=X]            A bare one. Default: $BARE.\n"
              "\n"
              "  -h, --help                Print this help.\n"
              "  -V, --version             Print the version.\n");
    capture(print_list, text, sizeof(text));
    assert_string_equal(
        text, "option\tdo it\t\tloud\tl\t\t\t\tBe loud.\t\n"
              "option\tdo it\tValues\tnarrow\t\tN\t\t$NARROW or 3\tA count of things that takes "
              "so many words that it needs a second line.\tThere is more.\n"
              "option\tdo it\tValues\tword\t\tred|green|blue\tred green blue\t\tA colour.\t\n"
              "option\tdo it\tValues\tplace-that-is-long\t\tDIR\t@folder\there\tA place.\t\n"
              "option\tdo it\tValues\tbare\t\tX\t@file\t$BARE\tA bare one.\t\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_the_rows),
        cmocka_unit_test(test_values_go_where_they_belong),
        cmocka_unit_test(test_abbreviations),
        cmocka_unit_test(test_words_and_commands),
        cmocka_unit_test(test_wrong_values_say_what_to_give),
        cmocka_unit_test(test_what_is_needed_may_be_either),
        cmocka_unit_test(test_help_and_version_end_it),
        cmocka_unit_test(test_the_nearest_word),
        cmocka_unit_test(test_what_is_told_of_a_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
