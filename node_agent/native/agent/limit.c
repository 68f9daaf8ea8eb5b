/* How much CPU time the processes of a cgroup may use, and before whom: the kernel's bandwidth control and weights, in
 * both versions. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/freezer.h"

#define MOST_SHARES 262144 /* version 1 */
#define MOST_WEIGHT 10000  /* version 2 */

static bool can(const struct rowen_cgroup *cgroup) {
    return cgroup->quota >= 0 && (cgroup->version == 2 || cgroup->period >= 0);
}

static int32_t get(int fd, char *text, size_t size) {
    ssize_t length = pread(fd, text, size - 1, 0);
    if (length < 0) return -errno;
    text[length] = 0;
    return 0;
}

static int32_t get_number(int fd, int64_t *number) {
    char text[32];
    int32_t status = get(fd, text, sizeof text);
    if (status == 0) *number = strtoll(text, NULL, 10);
    return status;
}

static int32_t put(int fd, const char *text) { return pwrite(fd, text, strlen(text), 0) < 0 ? -errno : 0; }

static int32_t put_number(int fd, int64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return put(fd, text);
}

int32_t rowen_cgroup_limit(const struct rowen_cgroup *cgroup, struct rowen_limit *limit) {
    if (!can(cgroup)) return -ENOTSUP;
    if (cgroup->version == 1) {
        int32_t status = get_number(cgroup->quota, &limit->quota_us);
        return status < 0 ? status : get_number(cgroup->period, &limit->period_us);
    }
    char text[64];
    int32_t status = get(cgroup->quota, text, sizeof text);
    if (status < 0) return status;
    char *rest = strchr(text, ' ');
    limit->quota_us = strncmp(text, "max", 3) == 0 ? -1 : strtoll(text, NULL, 10);
    limit->period_us = rest ? strtoll(rest, NULL, 10) : 0;
    return limit->period_us > 0 ? 0 : -EPROTO;
}

int32_t rowen_cgroup_set_limit(const struct rowen_cgroup *cgroup, const struct rowen_limit *limit) {
    if (!can(cgroup)) return -ENOTSUP;
    if (cgroup->version == 2) {
        char text[64];
        if (limit->quota_us < 0) snprintf(text, sizeof text, "max %lld", (long long)limit->period_us);
        else snprintf(text, sizeof text, "%lld %lld", (long long)limit->quota_us, (long long)limit->period_us);
        return put(cgroup->quota, text);
    }
    /* In between the quota must be none that is refused for the other period. */
    int32_t status = put_number(cgroup->quota, -1);
    if (status == 0) status = put_number(cgroup->period, limit->period_us);
    if (status == 0 && limit->quota_us >= 0) status = put_number(cgroup->quota, limit->quota_us);
    return status;
}

int32_t rowen_cgroup_weight(const struct rowen_cgroup *cgroup, int64_t *weight) {
    return cgroup->weight < 0 ? -ENOTSUP : get_number(cgroup->weight, weight);
}

int32_t rowen_cgroup_set_weight(const struct rowen_cgroup *cgroup, int64_t weight) {
    if (cgroup->weight < 0) return -ENOTSUP;
    return put_number(cgroup->weight, weight ? weight : cgroup->version == 1 ? MOST_SHARES : MOST_WEIGHT);
}
