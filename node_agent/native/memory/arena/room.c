#define _GNU_SOURCE
#include "memory/arena/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/page.h"

#define PATH_LENGTH 512
#define TEXT_LENGTH 8192
/* What the process may need meanwhile, and what the kernel charges ahead of need on each CPU. */
#define MARGIN (8ull << 20)

/* The memory controller's files, in version 1 and 2 of control groups. */
struct version {
    const char *mount, *limit, *usage, *file_pages[2];
};
static const struct version versions[2] = {
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     {"\ntotal_inactive_file ", "\ntotal_active_file "}},
    {"/sys/fs/cgroup", "memory.max", "memory.current", {"\ninactive_file ", "\nactive_file "}},
};

struct group {
    const struct version *version;
    char path[PATH_LENGTH]; /* the mount, then the group below it */
};

static bool names_memory(const char *controllers, const char *end) {
    const char *found = strstr(controllers, "memory");
    return found && found < end && (found[6] == ',' || found[6] == ':') && (found[-1] == ',' || found[-1] == ':');
}

/* The group of this process: a line of its list is "number:controllers:/path", without controllers in version 2. Within
 * a container the path may be the node's while the mount shows the container's own group alone. */
static bool find_group(struct group *group) {
    char text[TEXT_LENGTH];
    if (!rowen_read("/proc/self/cgroup", text, sizeof text)) return false;
    const char *found = NULL;
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
        const char *controllers = strchr(line, ':');
        const char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        bool first = names_memory(controllers, path + 1);
        if (!first && (found || path != controllers + 1)) continue;
        found = path + 1;
        group->version = &versions[first ? 0 : 1];
        if (first) break;
    }
    if (!found) return false;
    struct stat info;
    int length = snprintf(group->path, sizeof group->path, "%s%s", group->version->mount, found);
    if (length >= (int)sizeof group->path || stat(group->path, &info) != 0)
        snprintf(group->path, sizeof group->path, "%s", group->version->mount);
    return true;
}

static bool read_file(const struct group *group, const char *name, char *text) {
    char path[PATH_LENGTH + 64];
    snprintf(path, sizeof path, "%s/%s", group->path, name);
    return rowen_read(path, text, TEXT_LENGTH);
}

/* Pages of files, in bytes: the kernel drops them before it kills, those that are read again and again too. */
static uint64_t spare_pages(const struct group *group) {
    char text[TEXT_LENGTH] = "\n";
    char path[PATH_LENGTH + 64];
    snprintf(path, sizeof path, "%s/memory.stat", group->path);
    if (!rowen_read(path, text + 1, sizeof text - 1)) return 0;
    uint64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        const char *name = group->version->file_pages[i], *at = strstr(text, name);
        if (at) bytes += strtoull(at + strlen(name), NULL, 10);
    }
    return bytes;
}

static uint64_t room_of(const struct group *group, uint64_t wanted) {
    char text[TEXT_LENGTH];
    if (!read_file(group, group->version->limit, text) || strncmp(text, "max", 3) == 0) return wanted;
    uint64_t limit = strtoull(text, NULL, 10);
    if (!read_file(group, group->version->usage, text)) return wanted;
    uint64_t usage = strtoull(text, NULL, 10) + MARGIN;
    if (limit > usage && limit - usage >= wanted) return wanted;
    uint64_t spare = spare_pages(group);
    usage = usage > spare ? usage - spare : 0;
    uint64_t room = limit > usage ? limit - usage : 0;
    return room < wanted ? room : wanted;
}

uint64_t rowen_room(uint64_t wanted) {
    struct group group;
    if (!find_group(&group)) return wanted;
    size_t mount = strlen(group.version->mount);
    for (;;) {
        wanted = room_of(&group, wanted);
        char *last = strrchr(group.path + mount, '/');
        if (!last) return wanted;
        *last = 0;
    }
}
