/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emulator/nvidia_smi/attribute.h"

/* ---- how values are written ---- */

static const char *const enabled_words[] = {"Disabled", "Enabled", NULL};
static const char *const active_words[] = {"Not Active", "Active", NULL};
static const char *const yes_words[] = {"No", "Yes", NULL};
static const char *const supported_words[] = {"Not Supported", "Supported", NULL};
static const char *const compute_words[] = {"Default", "Exclusive_Thread", "Prohibited",
                                            "Exclusive_Process", NULL};
static const char *const brand_words[] = {
    "Unknown", "Quadro",     "Tesla",  "NVS",     "GRID",  "GeForce",
    "Titan",   "vApps",      "VPC",    "vCS",     "vWS",   "CloudGaming",
    "Unknown", "NVIDIA RTX", "NVIDIA", "GeForce", "Titan", NULL};
static const char *const architecture_words[] = {"Unknown",      "Unknown", "Kepler",    "Maxwell",
                                                 "Pascal",       "Volta",   "Turing",    "Ampere",
                                                 "Ada Lovelace", "Hopper",  "Blackwell", NULL};
static const char *const virtualization_words[] = {"None",      "Pass-Through", "VGPU",
                                                   "Host VGPU", "Host VSGA",    NULL};
static const char *const recovery_words[] = {"None",      "Reset",           "Reboot",
                                             "Drain P2P", "Drain and Reset", NULL};
static const char *const peer_words[] = {"Direct Connected", "Switch Connected", NULL};
static const char *const fabric_words[] = {"N/A", "Not Started", "In Progress", "Completed", NULL};
static const char *const addressing_words[] = {"None", "HMM", "ATS", NULL};

/* How the numbers of a form are written: as one of its words, otherwise as digits. */
static const struct {
    const char *unit;
    const char *const *words;
    const char *prefix; /* NULL: none */
    int hex_digits;     /* 0: decimal */
} forms[] = {
    [SMI_TEXT] = {"", NULL, NULL, 0},
    [SMI_COUNT] = {"", NULL, NULL, 0},
    [SMI_PERCENT] = {"%", NULL, NULL, 0},
    [SMI_CELSIUS] = {"", NULL, NULL, 0},
    [SMI_MHZ] = {"MHz", NULL, NULL, 0},
    [SMI_MILLIWATTS] = {"W", NULL, NULL, 0},
    [SMI_BYTES] = {"MiB", NULL, NULL, 0},
    [SMI_KBS] = {"KB/s", NULL, NULL, 0},
    [SMI_NANOSECONDS] = {"us", NULL, NULL, 0},
    [SMI_RATIO] = {"%", NULL, NULL, 0},
    [SMI_ENABLED] = {"", enabled_words, NULL, 0},
    [SMI_ACTIVE] = {"", active_words, NULL, 0},
    [SMI_YES_NO] = {"", yes_words, NULL, 0},
    [SMI_SUPPORTED] = {"", supported_words, NULL, 0},
    [SMI_PSTATE] = {"", NULL, "P", 0},
    [SMI_COMPUTE_MODE] = {"", compute_words, NULL, 0},
    [SMI_BRAND] = {"", brand_words, NULL, 0},
    [SMI_ARCHITECTURE] = {"", architecture_words, NULL, 0},
    [SMI_VIRTUALIZATION] = {"", virtualization_words, NULL, 0},
    [SMI_ADDRESSING] = {"", addressing_words, NULL, 0},
    [SMI_RECOVERY] = {"", recovery_words, NULL, 0},
    [SMI_FABRIC] = {"", fabric_words, NULL, 0},
    [SMI_PEER] = {"", peer_words, NULL, 0},
    [SMI_HEX_2] = {"", NULL, "0x", 2},
    [SMI_HEX_4] = {"", NULL, "0x", 4},
    [SMI_HEX_8] = {"", NULL, "0x", 8},
    [SMI_HEX_16] = {"", NULL, "0x", 16},
    [SMI_HEX] = {"", NULL, "0x", 1},
};

const char *smi_form_unit(enum smi_form form)
{
    return forms[form].unit;
}

static const char *form_word(enum smi_form form, int64_t number)
{
    const char *const *const words = forms[form].words;

    for (int64_t i = 0; words[i] != NULL; i++)
        if (i == number)
            return words[i];
    return "Unknown";
}

static void form_write(enum smi_form form, const struct lull_smi_raw *raw, char *text, size_t size)
{
    if (form == SMI_TEXT)
        snprintf(text, size, "%s", raw->text);
    else if (forms[form].words != NULL)
        snprintf(text, size, "%s", form_word(form, raw->number));
    else if (form == SMI_MILLIWATTS)
        snprintf(text, size, "%.2f", (double)raw->number / 1000.0);
    else if (form == SMI_RATIO)
        snprintf(text, size, "%.2f", (double)raw->number);
    else if (form == SMI_BYTES)
        snprintf(text, size, "%" PRId64, raw->number >> 20);
    else if (form == SMI_NANOSECONDS)
        snprintf(text, size, "%" PRId64, raw->number / 1000);
    else if (form == SMI_HEX)
        snprintf(text, size, "%s%" PRIx64, forms[form].prefix, (uint64_t)raw->number);
    else if (forms[form].hex_digits > 0)
        snprintf(text, size, "%s%0*" PRIX64, forms[form].prefix, forms[form].hex_digits,
                 (uint64_t)raw->number);
    else
        snprintf(text, size, "%s%" PRId64, forms[form].prefix != NULL ? forms[form].prefix : "",
                 raw->number);
}

/* ---- reading ---- */

int smi_code_is_missing(int code)
{
    return code == NVML_NOT_SUPPORTED || code == SMI_FUNCTION_NOT_FOUND || code == NVML_NOT_FOUND ||
           code == NVML_VERSION_MISMATCH;
}

const char *smi_code_text(int code)
{
    enum { DEPRECATED = 26 };

    if (smi_code_is_missing(code))
        return "N/A";
    return code == DEPRECATED ? "Requested functionality has been deprecated" : smi_nvml_text(code);
}

const struct lull_smi_attribute *smi_attribute_find(const struct lull_smi_attribute *table,
                                                    const char *name, size_t length)
{
    for (; table->name != NULL; table++) {
        const char *const names[] = {table->name, table->alias};

        for (size_t i = 0; i < 2; i++)
            if (names[i] != NULL && strlen(names[i]) == length &&
                memcmp(names[i], name, length) == 0)
                return table;
    }
    return NULL;
}

void smi_attribute_read(const struct lull_smi_attribute *attribute,
                        const struct lull_smi_subject *subject, struct lull_smi_value *value_out)
{
    struct lull_smi_raw raw = {0};

    value_out->text[0] = '\0';
    value_out->code = attribute->read(subject, attribute, &raw);
    if (value_out->code == NVML_SUCCESS)
        form_write(attribute->form, &raw, value_out->text, sizeof(value_out->text));
}

const struct lull_smi_attribute *smi_gpu_read(const struct lull_smi_subject *subject,
                                              const char *name, struct lull_smi_value *value_out)
{
    const struct lull_smi_attribute *found =
        smi_attribute_find(smi_gpu_attributes, name, strlen(name));

    if (found == NULL)
        found = smi_attribute_find(smi_report_attributes, name, strlen(name));
    assert(found != NULL);
    smi_attribute_read(found, subject, value_out);
    return found;
}

struct lull_smi_subject smi_subject_of(const struct lull_smi_node *node,
                                       const struct lull_smi_gpu *gpu)
{
    return (struct lull_smi_subject){.node = node, .gpu = gpu};
}
