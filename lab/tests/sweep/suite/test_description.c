/* The description of a suite: valid and refused input. SPDX-License-Identifier:
 * Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/sweep/suite/description.h"
#include "lab/sweep/suite/expression.h"
#include "lab/sweep/suite/files.h"

#define HEAD "[copy fp32]\nsource = memory.cu\ncapability = 70\nsize = N 4096 small 8\n"
#define BUFFERS "buffer = a f32; N; random\nbuffer = b f32; 2 * N\n"
#define LAUNCH "launch = copy; grid N / 256, 2; block 16, 16; shared 64; buffers a, b\n"
#define TAIL "check = check; grid 1; block 32; buffers b\nflops = 0\nbytes = 8 * N\n"

/* Reads a text; NULL: it was refused, with what is in err. */
static struct lull_suite *read_text(const char *text, struct lull_error *err)
{
    struct lull_suite *suite = NULL;
    const int result = lull_suite_read("mine", text, strlen(text), &suite, err);

    assert_int_equal(suite != NULL, result == 0);
    return suite;
}

static void reads_all_fields(void **state)
{
    struct lull_error err = {0};
    struct lull_suite *const suite =
        read_text("# what\n\n" HEAD "define = REAL long double\n" BUFFERS LAUNCH LAUNCH TAIL, &err);
    const struct lull_suite_kernel *kernel;

    (void)state;
    assert_non_null(suite);
    assert_int_equal(lull_suite_count(suite), 1);
    kernel = lull_suite_kernel_at(suite, 0);
    assert_string_equal(kernel->name, "copy");
    assert_string_equal(kernel->arg, "fp32");
    assert_int_equal(kernel->line, 3);
    assert_string_equal(kernel->source, "memory.cu");
    assert_int_equal(kernel->capability, 70);
    assert_int_equal(kernel->define_count, 2);
    assert_string_equal(kernel->defines[0].name, "N");
    assert_string_equal(kernel->defines[0].value, "4096");
    assert_string_equal(kernel->defines[1].value, "long double");
    assert_int_equal(kernel->buffer_count, 2);
    assert_string_equal(kernel->buffers[0].fill, "random");
    assert_null(kernel->buffers[1].fill);
    assert_int_equal(kernel->buffers[1].bytes, 2 * 4096 * 4);
    assert_int_equal(kernel->launch_count, 2);
    assert_int_equal(kernel->launches[0].grid[0], 16);
    assert_int_equal(kernel->launches[0].grid[1], 2);
    assert_int_equal(kernel->launches[0].grid[2], 1);
    assert_int_equal(kernel->launches[0].block[1], 16);
    assert_int_equal(kernel->launches[0].shared, 64);
    assert_int_equal(kernel->launches[0].buffers[1], 1);
    assert_string_equal(kernel->check.entry, "check");
    assert_int_equal(kernel->check.buffers[0], 1);
    assert_int_equal(kernel->bytes, 8 * 4096);
    lull_suite_destroy(suite);
}

static void refuses_with_line_and_field(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "mine:1: there is no kernel"},
        {"source = a.cu\n", "mine:1: write [NAME ARG] of a kernel first"},
        {"[a b\n", "mine:1: write [NAME ARG]"},
        {"[a b] c\n", "mine:1: write [NAME ARG]"},
        {"[a/b c]\n", "mine:1: names have letters"},
        {HEAD BUFFERS LAUNCH TAIL HEAD, "mine:11: [copy fp32] is also in line 1"},
        {HEAD BUFFERS TAIL, "mine:1: copy fp32 needs a launch or a collective, and not both"},
        {HEAD BUFFERS LAUNCH, "mine:1: copy fp32 has no check"},
        {HEAD BUFFERS LAUNCH "check = c; grid 1; block 1; buffers a\nbytes = 0\n",
         "has no bytes or no flops"},
        {"[a b]\ncapability = 70\n", "mine:1: a b has no source"},
        {"[a b]\nsource = a.cu\n", "mine:1: a b has no capability"},
        {HEAD "warps = 1\n", "mine:5: \"warps\" is none of source, capability"},
        {HEAD "bytes\n", "mine:5: write FIELD = VALUE"},
        {HEAD "source = memory.cu\n", "mine:5: source: it is there twice"},
        {"[a b]\nsource = ../a.cu\n", "mine:2: source: \"../a.cu\" is not a file name"},
        {"[a b]\nsource = a.c\n", "mine:2: source: \"a.c\" is not a file name that ends in .cu"},
        {"[a b]\ncapability = 69\n", "mine:2: capability: 69 is 69; it must be 70 to 999"},
        {HEAD "size = M 4096\n", "mine:5: size: write NAME NUMBER small NUMBER"},
        {HEAD "size = N 1 small 1\n", "mine:5: size: N is there twice"},
        {HEAD "size = M 0 small 1\n", "mine:5: size: 0 is 0; it must be 1"},
        {HEAD "define = 1N 1\n", "mine:5: define: \"1N\" is not a macro name"},
        {HEAD "buffer = a f32\n", "mine:5: buffer: write NAME TYPE; COUNT"},
        {HEAD "buffer = a f31; N\n", "mine:5: buffer: \"f31\" is not a type; known types: f32"},
        {HEAD "buffer = a f32; M\n", "mine:5: buffer: there is no size M above"},
        {HEAD "buffer = a f32; 0\n", "mine:5: buffer: 0 is 0"},
        {HEAD "buffer = a f32; N * N * N * N\n",
         "mine:5: buffer: N * N * N * N is 281474976710656; it must"},
        {HEAD BUFFERS "buffer = a f32; N\n", "mine:7: buffer: a is there twice"},
        {HEAD BUFFERS "launch = x; grid N / 3; block 1; buffers a\n",
         "mine:7: launch: 4096 / 3 leaves a remainder"},
        {HEAD BUFFERS "launch = x; grid 1; block 1; buffers a, c\n",
         "mine:7: launch: no buffer \"c\" is defined above"},
        {HEAD BUFFERS "launch = x; grid 1; block 1\n", "mine:7: launch: x has no buffers"},
        {HEAD BUFFERS "launch = x; grid 1; buffers a\n",
         "mine:7: launch: x has no grid or no block"},
        {HEAD BUFFERS "launch = x; grid 1; block 33, 32; buffers a\n",
         "more than 1024 threads in a block"},
        {HEAD BUFFERS "launch = x; grid 1, 1, 1, 1; block 1; buffers a\n",
         "has three dimensions at most"},
        {HEAD BUFFERS "launch = x; grid 1, 65536; block 1; buffers a\n", "it must be 1 to 65535"},
        {HEAD BUFFERS "launch = x; threads 1; block 1; buffers a\n",
         "\"threads\" is none of grid, block"},
        {HEAD BUFFERS "launch = x; grid 1; block 1; shared 240000; buffers a\n",
         "it must be 0 to 232448"},
        {HEAD BUFFERS LAUNCH "collective = all_reduce\n" TAIL,
         "needs a launch or a collective, and not both"},
        {HEAD "collective = gather\n", "mine:5: collective: \"gather\" is none of all_reduce"},
        {HEAD "flops = 1 +\n", "mine:5: flops: a number, a size or ( is missing at \"\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_error err = {0};

        assert_null(read_text(cases[i].text, &err));
        assert_int_equal(err.code, LULL_E_FORMAT);
        if (strstr(err.text, cases[i].message) == NULL)
            fail_msg("\"%s\" and not \"%s\"", err.text, cases[i].message);
    }
}

static void refuses_a_nul_byte(void **state)
{
    static const char text[] = HEAD "\0" BUFFERS;
    struct lull_suite *suite;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_suite_read("mine", text, sizeof(text), &suite, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "NUL byte"));
}

static void evaluates(void **state)
{
    static const struct lull_suite_size sizes[] = {{"N", 12}, {"NM", 5}};
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        {"7", 7},           {"N", 12},
        {" NM ", 5},        {"1 + 2 * 3", 7},
        {"(1 + 2) * 3", 9}, {"N / 4 / 3", 1},
        {"N / (4 - 1)", 4}, {"10 - 3 - 2", 5},
        {"2*N-NM", 19},     {"((N))", 12},
        {"NM - 5", 0},      {"1048576 * 1048576 * 1048576 * 4", UINT64_C(1) << 62},
    };
    static const char *const wrong[] = {"",
                                        "1 2",
                                        "N M",
                                        "1 - 2",
                                        "(1",
                                        "1)",
                                        "N / 5",
                                        "N / 0",
                                        "M",
                                        "1 + + 1",
                                        "-1",
                                        "0x10",
                                        "1.5",
                                        "N(1)",
                                        "1048576 * 1048576 * 1048576 * 4 + 1",
                                        "4611686018427387905"};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t value = 0;

        assert_int_equal(lull_suite_evaluate(cases[i].text, sizes, 2, &value, NULL), 0);
        assert_int_equal(value, cases[i].value);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t value = 77;

        if (lull_suite_evaluate(wrong[i], sizes, 2, &value, NULL) != LULL_E_FORMAT || value != 77)
            fail_msg("\"%s\" is not refused", wrong[i]);
    }
}

static void deep_parentheses_end(void **state)
{
    char text[4000];
    uint64_t value;

    (void)state;
    memset(text, '(', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(lull_suite_evaluate(text, NULL, 0, &value, NULL), LULL_E_FORMAT);
}

/* The built-in suite has the kernels that issue 24 requests. */
static void the_built_in_suite_has_them_all(void **state)
{
    static const char *const wanted[] = {"gemm fp32_4096",
                                         "gemm tf32_8192",
                                         "gemm bf16_8192",
                                         "gemm fp8_8192",
                                         "conv bf16_3x3",
                                         "attention bf16_4096",
                                         "layer_norm fp32_4096",
                                         "softmax fp32_4096",
                                         "reduce sum_fp32",
                                         "scan u32",
                                         "copy fp32",
                                         "random_read u32",
                                         "atomic many",
                                         "stencil fp32_2d",
                                         "sort radix_pass",
                                         "adam fp32"};
    struct lull_suite_files *files;
    struct lull_suite *suite;
    struct lull_suite_file description;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_suite_files_open(NULL, &files, &err), 0);
    description = lull_suite_files_description(files);
    assert_string_equal(description.name, "suite.conf");
    if (lull_suite_read(description.name, description.text, description.size, &suite, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(lull_suite_count(suite) >= 30);
    for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
        bool is_there = false;

        for (uint32_t i = 0; i < lull_suite_count(suite); i++) {
            const struct lull_suite_kernel *const kernel = lull_suite_kernel_at(suite, i);
            char name[160];

            snprintf(name, sizeof(name), "%s %s", kernel->name, kernel->arg);
            is_there |= strcmp(name, wanted[w]) == 0;
        }
        if (!is_there)
            fail_msg("there is no %s", wanted[w]);
    }
    for (uint32_t i = 0; i < lull_suite_count(suite); i++) {
        struct lull_suite_file source;

        assert_int_equal(
            lull_suite_files_source(files, lull_suite_kernel_at(suite, i)->source, &source, &err),
            0);
    }
    lull_suite_destroy(suite);
    lull_suite_files_close(files);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_folder_goes_before_what_is_built_in(void **state)
{
    char folder[] = "/tmp/lull-suite-XXXXXX";
    struct lull_suite_files *files;
    const struct lull_suite_file *headers;
    struct lull_suite_file source;
    struct lull_error err = {0};
    char path[128], command[128];
    uint32_t count, own = 0;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/mine.conf", folder);
    write_file(folder, "mine.conf", "text");
    write_file(folder, "memory.cu", "mine");
    write_file(folder, "lull.cuh", "own");
    assert_int_equal(lull_suite_files_open(path, &files, &err), 0);
    assert_string_equal(lull_suite_files_description(files).text, "text");
    assert_int_equal(lull_suite_files_source(files, "memory.cu", &source, &err), 0);
    assert_string_equal(source.text, "mine");
    assert_int_equal(lull_suite_files_source(files, "memory.cu", &source, &err), 0); /* read once */
    assert_int_equal(lull_suite_files_source(files, "fill.cu", &source, &err), 0);
    assert_true(source.size > 100);
    assert_int_equal(lull_suite_files_source(files, "none.cu", &source, &err), -ENOENT);
    headers = lull_suite_files_headers(files, &count);
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++)
        own += strcmp(headers[i].name, "lull.cuh") == 0 && strcmp(headers[i].text, "own") == 0;
    assert_int_equal(own, 1);
    lull_suite_files_close(files);
    assert_int_equal(lull_suite_files_open("/nowhere/mine.conf", &files, &err), -ENOENT);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_fields),
        cmocka_unit_test(refuses_with_line_and_field),
        cmocka_unit_test(refuses_a_nul_byte),
        cmocka_unit_test(evaluates),
        cmocka_unit_test(deep_parentheses_end),
        cmocka_unit_test(the_built_in_suite_has_them_all),
        cmocka_unit_test(a_folder_goes_before_what_is_built_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
