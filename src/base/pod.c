/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pod.h"

#include <stddef.h>
#include <string.h>

enum {
    UID_DIGITS = 32,
    CONTAINER_DIGITS = LULL_POD_CONTAINER_BYTES - 1,
};

/* A part of a path; not terminated. */
struct segment {
    const char *text;
    size_t length;
};

static bool is_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool segment_ends_with(struct segment segment, const char *end)
{
    const size_t length = strlen(end);

    return segment.length >= length &&
           memcmp(segment.text + segment.length - length, end, length) == 0;
}

/* Removes an end from the segment. Returns whether it was there. */
static bool segment_cut(struct segment *segment, const char *end)
{
    const bool is_there = segment_ends_with(*segment, end);

    if (is_there)
        segment->length -= strlen(end);
    return is_there;
}

/* Returns whether this place in a dashed UID has a dash. */
static bool is_dash_place(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

/* Reads a UID of either length. systemd separates the parts of a slice's name by dashes, so kubelet
 * writes those of a UID as "_".
 */
static bool segment_read_uid(struct segment segment, char uid_out[LULL_POD_UID_BYTES])
{
    const bool is_dashed = segment.length == LULL_POD_UID_BYTES - 1;

    for (size_t i = 0; i < segment.length; i++) {
        const char c = segment.text[i];

        if (is_dashed && is_dash_place(i) ? c != '-' && c != '_' : !is_digit(c))
            return false;
    }
    for (size_t i = 0; i < segment.length; i++)
        uid_out[i] = segment.text[i] == '_' ? '-' : segment.text[i];
    uid_out[segment.length] = '\0';
    return true;
}

/* cgroupfs: podUID. systemd: kubepods[-burstable|-besteffort]-podUID.slice, with more before it
 * where kubelet has a parent of its own, as in kind. */
static bool segment_find_pod(struct segment segment, char uid_out[LULL_POD_UID_BYTES])
{
    static const char word[] = "pod";
    const bool is_slice = segment_cut(&segment, ".slice");
    const size_t lengths[] = {LULL_POD_UID_BYTES - 1, UID_DIGITS};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct segment before = segment;
        struct segment uid = {segment.text + segment.length - lengths[i], lengths[i]};

        if (segment.length < lengths[i])
            continue;
        before.length -= lengths[i];
        if (!segment_cut(&before, word) || !segment_read_uid(uid, uid_out))
            continue;
        if (!is_slice && before.length == 0)
            return true;
        if (is_slice && (segment_ends_with(before, "kubepods-") ||
                         segment_ends_with(before, "kubepods-burstable-") ||
                         segment_ends_with(before, "kubepods-besteffort-")))
            return true;
    }
    uid_out[0] = '\0';
    return false;
}

/* ID, RUNTIME-ID or RUNTIME-ID.scope. conmon is podman's and cri-o's monitor, outside the
 * container. */
static bool segment_find_container(struct segment segment,
                                   char container_out[LULL_POD_CONTAINER_BYTES])
{
    struct segment before = segment;
    const char *digits;

    segment_cut(&segment, ".scope");
    if (segment.length < CONTAINER_DIGITS)
        return false;
    before.length = segment.length - CONTAINER_DIGITS;
    digits = segment.text + before.length;
    if (before.length > 0 && (!segment_cut(&before, "-") || segment_ends_with(before, "conmon")))
        return false;
    for (size_t i = 0; i < CONTAINER_DIGITS; i++)
        if (!is_digit(digits[i]))
            return false;
    memcpy(container_out, digits, CONTAINER_DIGITS);
    container_out[CONTAINER_DIGITS] = '\0';
    return true;
}

/* A path is /SEGMENT/SEGMENT...; containerd without a slice of its own writes SLICE:PREFIX:ID. */
static void find_in_path(const char *path, size_t length, struct lull_pod *pod)
{
    size_t next;

    for (size_t at = 0; at < length; at = next + 1) {
        struct segment segment = {path + at, strcspn(path + at, "/:\n")};

        next = at + segment.length;
        /* A container id above the pod is that of the node itself, as in kind. */
        if (pod->uid[0] == '\0' && segment_find_pod(segment, pod->uid))
            pod->container[0] = '\0';
        else if (pod->container[0] == '\0')
            segment_find_container(segment, pod->container);
    }
}

/* A line is NUMBER:CONTROLLERS:PATH. */
bool lull_pod_find(const char *cgroups, struct lull_pod *pod_out)
{
    *pod_out = (struct lull_pod){.uid = ""};
    while (*cgroups != '\0') {
        const size_t length = strcspn(cgroups, "\n");
        const char *path = memchr(cgroups, ':', length);
        struct lull_pod pod = {.uid = ""};

        if (path != NULL)
            path = memchr(path + 1, ':', length - (size_t)(path + 1 - cgroups));
        if (path != NULL)
            find_in_path(path + 1, length - (size_t)(path + 1 - cgroups), &pod);
        if (pod.uid[0] != '\0' || (pod_out->container[0] == '\0' && pod.container[0] != '\0'))
            *pod_out = pod;
        if (pod.uid[0] != '\0')
            return true;
        cgroups += length;
        cgroups += *cgroups == '\n';
    }
    return pod_out->container[0] != '\0';
}
