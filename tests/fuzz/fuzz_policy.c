/*
 * An administrator's policy: refused with a message that names file and line, or with every number
 * in its range, and then all limits and bands that it returns are consistent.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "daemon/policy.h"
#include "fuzz.h"

static const char uuid[] = "GPU-a706dd2f-4d19-7e6f-2382-75bc38fcbe91";
static const char pci[] = "00000000:3B:00.0";

static int find_number(const char *name, uint32_t *id_out)
{
    *id_out = (uint32_t)strlen(name);
    return strcmp(name, "nobody-here") == 0 ? -ENOENT : 0;
}

static void check_rule(const struct lull_policy *policy, const struct lull_policy_rule *rule)
{
    require(rule->subject <= LULL_POLICY_GPU);
    require(rule->first_gpu <= policy->gpu_count &&
            rule->gpu_count <= policy->gpu_count - rule->first_gpu);
    require(memchr(rule->device, 0, sizeof(rule->device)) != NULL);
    for (uint32_t i = 0; i < rule->gpu_count; i++)
        require(memchr(policy->gpus[rule->first_gpu + i], 0, LULL_POLICY_NAME_BYTES) != NULL);
}

static void check(const struct lull_policy *policy)
{
    static const gid_t groups[] = {5, 12};
    const struct lull_policy_person person = {.uid = 5, .groups = groups, .group_count = 2};
    const struct lull_band whole = {.min_mhz = 210, .max_mhz = 1410};
    const struct lull_policy_rule *rule = lull_policy_find(policy, &person, uuid, pci);
    struct lull_policy_limits limits = {0};
    struct lull_band band = whole;

    require(policy->rule_count <= LULL_POLICY_MAX_RULES);
    require(policy->gpu_count <= LULL_POLICY_MAX_GPUS);
    for (uint32_t i = 0; i < policy->rule_count; i++)
        check_rule(policy, &policy->rules[i]);
    if (rule != NULL)
        limits = rule->limits;
    lull_policy_limit_gpu(policy, uuid, pci, &limits);
    (void)lull_policy_find_device(policy, uuid, pci);
    if (lull_policy_fit_band(&limits, &band)) {
        require(band.min_mhz <= band.max_mhz);
        require(band.min_mhz >= whole.min_mhz && band.max_mhz <= whole.max_mhz);
        require(limits.max_mhz == 0 || band.max_mhz <= limits.max_mhz);
        require(band.min_mhz >= limits.min_mhz);
    } else {
        require(memcmp(&band, &whole, sizeof(band)) == 0);
    }
}

static void count_error(void *context, const char *text)
{
    require(strncmp(text, "policy:", strlen("policy:")) == 0);
    (*(uint32_t *)context)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lull_policy_names names = {find_number, find_number};
    static struct lull_policy policy, checked;
    uint32_t count = 0;
    const struct lull_policy_listener listener = {count_error, &count};
    struct lull_error err = {0};
    int result;

    memset(&policy, 0, sizeof(policy));
    result = lull_policy_read("policy", (const char *)data, size, &names, NULL, &policy, &err);
    require((lull_policy_read("policy", (const char *)data, size, &names, &listener, &checked,
                              NULL) < 0) == (result < 0));
    require((count > 0) == (result < 0));
    if (result < 0) {
        require(strncmp(err.text, "policy", strlen("policy")) == 0);
        require(policy.rule_count == 0 && policy.gpu_count == 0);
        return 0;
    }
    check(&policy);
    return 0;
}
