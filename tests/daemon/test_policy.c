/* The reader of policies, and their rules. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/policy.h"
#include "daemon/policy_file.h"

#define UUID "GPU-8f6d1b2a-0000-1111-2222-333344445555"
#define OTHER "GPU-00000000-0000-1111-2222-333344445555"
#define PCI "00000000:3B:00.0"
#define FOUR_ADDRESSES "0000:3b:00.0,0000:3c:00.0,0000:3d:00.0,0000:3e:00.0"
#define EIGHT_ADDRESSES FOUR_ADDRESSES "," FOUR_ADDRESSES

static struct lull_policy policy;
static struct lull_error error;

static int find(const char *name, uint32_t *id_out)
{
    if (strcmp(name, "alice") != 0 && strcmp(name, "ml") != 0)
        return -ENOENT;
    *id_out = name[0] == 'a' ? 1000 : 2000;
    return 0;
}

static int read_text(const char *text)
{
    static const struct lull_policy_names names = {find, find};

    return lull_policy_read("p.conf", text, strlen(text), &names, NULL, &policy, &error);
}

static const struct lull_policy_rule *ask(uid_t uid, gid_t group, const char *uuid)
{
    const gid_t groups[] = {7, group};
    const struct lull_policy_person person = {uid, groups, 2};

    return lull_policy_find(&policy, &person, uuid, PCI);
}

static void a_whole_policy_is_read(void **state)
{
    static const char text[] = "# comment\n"
                               "[lulld]\r\n"
                               " administrators = ml \n"
                               "viewers = 2001\n"
                               "containers=yes\nshared = no\n\n"
                               "[gpu all]\nmax-sm-mhz = 1800\nmax-power-w=350\n"
                               "[gpu 0000:3b:00.0]\nmin-sm-mhz = 600\nmin-power-w = 150\n"
                               "[user alice]\ngpus = " OTHER ", 0000:3B:00.0\nmin-sm-mhz = 900\n"
                               "power-profiles = yes\npower-smoothing = yes\n"
                               "[group 2000]\ngpus = " OTHER "\n"
                               "[ everybody ]\ngpus = 0000:3c:00.0";
    const gid_t ml = 2000;
    const struct lull_policy_person person = {5, &ml, 1}, stranger = {5, NULL, 0}, root = {0};
    struct lull_policy_limits limits = {.min_mhz = 700, .max_mhz = 1900};

    (void)state;
    assert_int_equal(read_text(text), 0);
    assert_true(lull_policy_is_administrator(&policy, &person));
    assert_true(lull_policy_is_administrator(&policy, &root));
    assert_false(lull_policy_is_administrator(&policy, &stranger));
    assert_true(policy.has_viewers);
    assert_int_equal(policy.viewers, 2001);
    assert_true(policy.allows_containers);
    assert_false(policy.allows_shared);
    assert_int_equal(ask(1000, 1, OTHER)->limits.min_mhz, 900);
    assert_true(ask(1000, 1, OTHER)->limits.allows_profiles);
    assert_true(ask(1000, 1, OTHER)->limits.allows_smoothing);
    assert_false(ask(1001, 2000, OTHER)->limits.allows_smoothing);
    assert_false(ask(1001, 2000, OTHER)->limits.allows_profiles);
    assert_non_null(ask(1000, 1, UUID)); /* by its address */
    assert_non_null(ask(1001, 2000, OTHER));
    assert_null(ask(1001, 2000, UUID));
    assert_null(ask(1001, 1000, OTHER)); /* a group is no user */
    lull_policy_limit_gpu(&policy, UUID, PCI, &limits);
    assert_int_equal(limits.min_mhz, 700);
    assert_int_equal(limits.max_mhz, 1800);
    assert_int_equal(limits.min_limit_mw, 150000);
    assert_int_equal(limits.max_limit_mw, 350000);
}

static void an_empty_policy_gives_nothing(void **state)
{
    (void)state;
    assert_int_equal(read_text(""), 0);
    assert_null(ask(0, 0, UUID));
    assert_false(policy.allows_containers);
    assert_false(policy.has_administrators);
    assert_false(policy.has_viewers);
}

static char seen[2048];

static void collect(void *context, const char *text)
{
    uint32_t *const count = context;
    const size_t used = strlen(seen);

    (*count)++;
    snprintf(seen + used, sizeof(seen) - used, "%.*s\n", (int)(strchr(text + 9, ':') - text), text);
}

/* One pass finds each error, and none that only follows from another one. */
static void all_errors_are_reported(void **state)
{
    static const struct {
        const char *text;
        const char *errors; /* line and field of each */
    } cases[] = {
        {"", ""},
        {"[everybody]\ngpus = all\n", ""},
        {"gpus = all\n[lulld]\nshared = 1\nspeed = 3\n[everybody]\n[user bob]\nmin-sm-mhz = x\n",
         "p.conf:1: gpus\np.conf:3: shared\np.conf:4: speed\np.conf:5: gpus\np.conf:6: [user]\n"
         "p.conf:7: min-sm-mhz\np.conf:6: gpus\n"},
        {"[nobody]\ngpus = 0\nshared = no\nshared = no\n[gpu 1]\ndevice = /dev/x\n",
         "p.conf:1: [nobody]\np.conf:4: shared\np.conf:5: [gpu]\n"},
        {"[everybody]\ngpus = 0,1\nmin-sm-mhz = 9\nmax-sm-mhz = 8\nmin-power-w = 9\n"
         "max-power-w = 8\n",
         "p.conf:2: gpus\np.conf:2: gpus\np.conf:1: min-sm-mhz\np.conf:1: min-power-w\n"},
        {"[everybody]\ngpus =\n[gpu ,]\n", "p.conf:2: gpus\np.conf:3: [gpu]\n"},
        {"[everybody\nshared = no\n[lulld]\nshared = no", "p.conf:1: \"[everybody\"\n"},
    };
    static const struct lull_policy_names names = {find, find};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t count = 0, lines = 0;
        const struct lull_policy_listener listener = {collect, &count};
        const char *const text = cases[i].text;
        int result;

        seen[0] = '\0';
        error.text[0] = '\0';
        result = lull_policy_read("p.conf", text, strlen(text), &names, &listener, &policy, &error);
        assert_string_equal(seen, cases[i].errors);
        for (const char *at = seen; *at != '\0'; at++)
            lines += *at == '\n';
        assert_int_equal(count, lines);
        assert_int_equal(result, count == 0 ? 0 : -EINVAL);
        assert_memory_equal(error.text, seen, count == 0 ? 0 : strcspn(seen, "\n"));
    }
}

/* F37: the error says where it is, and what was there before stays. */
static void test_f37_an_error_is_told_with_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *reported;
    } cases[] = {
        {"gpus = all\n", "p.conf:1: gpus: must be below a [SECTION]"},
        {"\n[lulld]\nspeed = 3\n", "p.conf:3: speed: no such key"},
        {"[lulld]\ncontainers = maybe\n", "p.conf:2: containers: must be yes or no, not \"maybe\""},
        {"[lulld]\nshared = no\nshared = no\n", "p.conf:3: shared: given twice"},
        {"[lulld]\ngpus = all\n", "p.conf:2: gpus: not a key of [lulld]"},
        {"[lulld]\nadministrators = bob\n", "p.conf:2: administrators: no group \"bob\""},
        {"[user bob]\ngpus = all\n", "p.conf:1: [user]: no user \"bob\""},
        {"[user 4294967295]\ngpus = all\n", "p.conf:1: [user]: no user"},
        {"[user]\n", "p.conf:1: [user]: no such section"},
        {"[lulld x]\n", "p.conf:1: ["},
        {"[everybody x]\n", "p.conf:1: ["},
        {"[group]\n", "p.conf:1: ["},
        {"[gpu]\n", "p.conf:1: ["},
        {"[nobody]\n", "p.conf:1: ["},
        {"[nobody x]\n", "p.conf:1: ["},
        {"[everybody\n", "p.conf:1: \"[everybody\": must be written"},
        {"[everybody] x\n", "p.conf:1: \"[everybody] x\": must be written"},
        {"[everybody]\n\n[lulld]\n", "p.conf:1: gpus: missing"},
        {"[everybody]\n", "p.conf:1: gpus: missing"},
        {"[everybody]\ngpus = 0\n", "p.conf:2: gpus: \"0\" is not a UUID"},
        {"[everybody]\ngpus = " UUID ",,3\n", "p.conf:2: gpus: \"3\" is not a UUID"},
        {"[gpu 1]\n", "p.conf:1: [gpu]: \"1\" is not a UUID"},
        {"[gpu all]\ngpus = all\n", "p.conf:2: gpus: not a key"},
        {"[gpu all]\nshared = yes\n", "p.conf:2: shared: not a key"},
        {"[gpu all]\nmin-sm-mhz = 0\n",
         "p.conf:2: min-sm-mhz: must be a whole number of MHz from 1 to 100000, not \"0\""},
        {"[gpu all]\nmin-power-w = 100001\n",
         "p.conf:2: min-power-w: must be a whole number of watts"},
        {"[gpu all]\nmin-sm-mhz = 900\nmax-sm-mhz = 800\n", "p.conf:1: min-sm-mhz: above"},
        {"[gpu all]\nmin-power-w = 90\nmax-power-w = 80\n", "p.conf:1: min-power-w: above"},
        {"[gpu all]\npower-profiles = yes\n", "p.conf:2: power-profiles: not a key"},
        {"[gpu all]\ndevice = /dev/x\n", "p.conf:2: device: not a key"},
        {"[user alice]\ndevice = /dev/x\n", "p.conf:2: device: not a key"},
        {"[gpu " UUID "]\ndevice = /tmp/x\n",
         "p.conf:2: device: must be the path of a device below /dev, not \"/tmp/x\""},
        {"[gpu " UUID "]\ndevice = /device\n",
         "p.conf:2: device: must be the path of a device below /dev, not \"/device\""},
        {"[lulld]\nwhat\n", "p.conf:2: \"what\": must be KEY"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_text("[everybody]\ngpus = all\n"), 0);
        assert_int_equal(read_text(cases[i].text), -EINVAL);
        if (strstr(error.text, cases[i].reported) == NULL)
            fail_msg("case %zu: %s", i, error.text);
        assert_non_null(ask(1, 1, UUID));
    }
    assert_int_equal(lull_policy_read("p", "[lulld]\n\0", 9, NULL, NULL, &policy, &error), -EINVAL);
}

static void too_much_is_refused(void **state)
{
    char text[16 * 1024] = "";
    size_t at = 0;

    (void)state;
    for (int i = 0; i <= LULL_POLICY_MAX_RULES; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "[gpu all]\n");
    assert_int_equal(read_text(text), -EINVAL);
    text[at - 10] = '\0';
    assert_int_equal(read_text(text), 0);
    memset(text, ' ', sizeof(text));
    text[5000] = '\0';
    assert_int_equal(read_text(text), -EINVAL);
    text[4096] = '\0';
    assert_int_equal(read_text(text), -EINVAL);
    text[4095] = '\0';
    assert_int_equal(read_text(text), 0);
}

static void as_many_gpus_are_named_as_there_is_room(void **state)
{
    static char text[LULL_POLICY_MAX_RULES * 160];
    const int sections = LULL_POLICY_MAX_GPUS / 8;
    size_t at = 0;

    (void)state;
    for (int i = 0; i < sections; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "[user %d]\ngpus = " EIGHT_ADDRESSES "\n", i);
    assert_int_equal(read_text(text), 0);
    assert_int_equal(policy.gpu_count, LULL_POLICY_MAX_GPUS);
    assert_int_equal(policy.rules[sections - 1].first_gpu, LULL_POLICY_MAX_GPUS - 8);
    assert_int_equal(policy.rules[sections - 1].gpu_count, 8);
    snprintf(text + at, sizeof(text) - at, "[everybody]\ngpus = 0000:3b:00.0\n");
    assert_int_equal(read_text(text), -EINVAL);
    assert_non_null(strstr(error.text, "GPUs are named in this file"));
}

/* Numbers, identities and names at their bounds and just beyond. */
static void bounds_of_values(void **state)
{
    char longest[LULL_POLICY_NAME_BYTES] = "/dev/";
    char text[512];
    static const struct {
        const char *text;
        int result;
    } cases[] = {
        {"[gpu all]\nmin-sm-mhz = 1\n", 0},
        {"[gpu all]\nmin-sm-mhz = 100000\n", 0},
        {"[gpu all]\nmin-sm-mhz = 100001\n", -EINVAL},
        {"[gpu all]\nmin-sm-mhz = 800\nmax-sm-mhz = 800\n", 0},
        {"[gpu all]\nmin-sm-mhz = 800\n", 0}, /* there is no cap to be above */
        {"[gpu all]\nmin-power-w = 80\nmax-power-w = 80\n", 0},
        {"[gpu all]\nmin-power-w = 80\n", 0},
        {"[user 4294967294]\ngpus = all\n", 0},
        {"[user 0]\ngpus = all\n", 0},
        {"[gpu A-345678]\n", 0},
        {"[gpu A-34567]\n", -EINVAL},
        {"[gpu 0:3b:0.0]\n", 0},
        {"[gpu 12345678]\n", -EINVAL},
        {"[gpu 0000:3b:00.0 ]\n", 0},
        {"[gpu 0000:3b:00.0x]\n", -EINVAL},
        {"[gpu 00000000:3b:00.0]\n", 0},
        {"[gpu 000000000:3b:00.0]\n", -EINVAL},
        {"[gpu all]\nmin-sm-mhz = 800\n[gpu all]\nmin-sm-mhz = 800\n", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (read_text(cases[i].text) != cases[i].result)
            fail_msg("case %zu: %s", i, error.text);
    memset(longest + 5, 'x', sizeof(longest) - 6);
    snprintf(text, sizeof(text), "[gpu " UUID "]\ndevice = %s\n", longest);
    assert_int_equal(read_text(text), 0);
    assert_string_equal(lull_policy_find_device(&policy, UUID, PCI), longest);
    snprintf(text, sizeof(text), "[gpu " UUID "]\ndevice = %sx\n", longest);
    assert_int_equal(read_text(text), -EINVAL);
    memcpy(longest, "GPU--", 5);
    snprintf(text, sizeof(text), "[gpu %s]\n", longest);
    assert_int_equal(read_text(text), 0);
    snprintf(text, sizeof(text), "[gpu %sx]\n", longest);
    assert_int_equal(read_text(text), -EINVAL);
}

/* Each section has the GPUs that it names, and no other section's. */
static void sections_keep_their_gpus(void **state)
{
    static const char *const gpus[] = {"GPU-a000", "GPU-b000", "GPU-c000", "GPU-d000"};
    static const bool allowed[3][4] = {
        {true, false, false, false}, {false, true, true, false}, {false, false, false, true}};

    (void)state;
    assert_int_equal(read_text("[user 0]\ngpus = GPU-a000\n[user 1]\ngpus = GPU-b000,GPU-c000\n"
                               "[user 2]\ngpus = GPU-d000\n[gpu GPU-a000]\nmin-sm-mhz = 1\n"
                               "[gpu GPU-b000]\ndevice = /dev/b\n"),
                     0);
    for (uid_t uid = 0; uid < 3; uid++)
        for (int gpu = 0; gpu < 4; gpu++)
            assert_int_equal(ask(uid, 1, gpus[gpu]) != NULL, allowed[uid][gpu]);
    assert_null(lull_policy_find_device(&policy, gpus[0], PCI));
    assert_string_equal(lull_policy_find_device(&policy, gpus[1], PCI), "/dev/b");
}

/* The lower one of two caps holds, where 0 is none, and the higher one of two floors. */
static void limits_are_narrowed(void **state)
{
    static const struct lull_policy_limits pairs[][3] = {
        {{0, 0, 0, 0}, {600, 1200, 150, 300}, {600, 1200, 150, 300}},
        {{600, 1200, 150, 300}, {0, 0, 0, 0}, {600, 1200, 150, 300}},
        {{600, 1200, 150, 300}, {700, 1100, 200, 250}, {700, 1100, 200, 250}},
        {{700, 1100, 200, 250}, {600, 1200, 150, 300}, {700, 1100, 200, 250}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct lull_policy_limits limits = pairs[i][0];

        lull_policy_narrow(&limits, &pairs[i][1]);
        assert_memory_equal(&limits, &pairs[i][2], sizeof(limits));
    }
}

static void bands_are_held_to_limits(void **state)
{
    const struct lull_policy_limits limits = {600, 1200, 150000, 300000};
    const struct lull_policy_limits odd = {.min_mhz = 1500, .max_mhz = 1200};
    struct lull_band band = {200, 1400, 100000, 400000};

    (void)state;
    assert_true(lull_policy_fit_band(&limits, &band));
    assert_int_equal(band.min_mhz, 600);
    assert_int_equal(band.max_mhz, 1200);
    assert_int_equal(band.min_limit_mw, 150000);
    assert_int_equal(band.max_limit_mw, 300000);
    band = (struct lull_band){700, 1100, 0, 0};
    assert_true(lull_policy_fit_band(&limits, &band));
    assert_int_equal(band.min_mhz, 700);
    assert_int_equal(band.max_mhz, 1100);
    assert_int_equal(band.max_limit_mw, 0); /* none is set */
    band = (struct lull_band){200, 500, 0, 0};
    assert_false(lull_policy_fit_band(&limits, &band));
    assert_int_equal(band.min_mhz, 200);
    band = (struct lull_band){1300, 1400, 0, 0};
    assert_false(lull_policy_fit_band(&limits, &band));
    band = (struct lull_band){700, 1100, 310000, 400000};
    assert_false(lull_policy_fit_band(&limits, &band));
    band = (struct lull_band){200, 1400, 0, 0};
    assert_true(lull_policy_fit_band(&odd, &band)); /* caps rank above floors */
    assert_int_equal(band.min_mhz, 1200);
    assert_int_equal(band.max_mhz, 1200);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *const file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

/* Only what no other process can have written is believed. */
static void a_file_of_others_is_refused(void **state)
{
    char path[] = "/tmp/lull-policy-XXXXXX";

    (void)state;
    close(mkstemp(path));
    write_file(path, "[everybody]\ngpus = all\n", 0644);
    assert_int_equal(lull_policy_load(path, NULL, &policy, &error), 0);
    assert_non_null(ask(1, 1, UUID));
    for (mode_t mode = 0620; mode != 0; mode = mode == 0620 ? 0602 : 0) {
        write_file(path, "", mode);
        assert_int_equal(lull_policy_load(path, NULL, &policy, &error), -EPERM);
    }
    if (geteuid() == 0) {
        write_file(path, "", 0644);
        assert_int_equal(chown(path, 1, (gid_t)-1), 0);
        assert_int_equal(lull_policy_load(path, NULL, &policy, &error), -EPERM);
    }
    assert_non_null(ask(1, 1, UUID));
    unlink(path);
    assert_int_equal(lull_policy_load(path, NULL, &policy, &error), -ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0); /* is not waited for */
    assert_int_equal(lull_policy_load(path, NULL, &policy, &error), -EPERM);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_policy_is_read),
        cmocka_unit_test(an_empty_policy_gives_nothing),
        cmocka_unit_test(test_f37_an_error_is_told_with_its_line),
        cmocka_unit_test(all_errors_are_reported),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(as_many_gpus_are_named_as_there_is_room),
        cmocka_unit_test(bounds_of_values),
        cmocka_unit_test(sections_keep_their_gpus),
        cmocka_unit_test(limits_are_narrowed),
        cmocka_unit_test(bands_are_held_to_limits),
        cmocka_unit_test(a_file_of_others_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
