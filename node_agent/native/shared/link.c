/* Attaching through the agent's socket: a hello, a welcome, two files. */
#define _GNU_SOURCE
#include "shared/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FILES 2
/* Away from the numbers that applications count on or close one by one. */
#define LOWEST_DESCRIPTOR 500

int rowen_link_init(struct rowen_link *link, const char **paths, bool writes_gate) {
    memset(link, 0, sizeof *link);
    link->socket = -1;
    link->writes_gate = writes_gate;
    const char *end = strchrnul(*paths, ':');
    size_t length = (size_t)(end - *paths);
    if (length >= sizeof link->path) return -ENAMETOOLONG;
    memcpy(link->path, *paths, length);
    *paths = *end ? end + 1 : NULL;
    return 0;
}

static int connect_to(const char *path) {
    int low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (low < 0) return -errno;
    int high = fcntl(low, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    int fd = high >= 0 ? high : low;
    if (high >= 0) close(low);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    int error = -errno; /* EAGAIN: the agent has not got round to the others yet */
    close(fd);
    return error;
}

union descriptors {
    char bytes[CMSG_SPACE(sizeof(int) * ROWEN_FILES_MOST)];
    struct cmsghdr align;
};

int rowen_link_send(int fd, const void *message, size_t size, const int *files, uint32_t count) {
    struct iovec part = {(void *)message, size};
    union descriptors control = {{0}};
    struct msghdr all = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        all.msg_control = &control;
        all.msg_controllen = CMSG_SPACE(sizeof *files * count);
        struct cmsghdr *head = CMSG_FIRSTHDR(&all);
        *head = (struct cmsghdr){CMSG_LEN(sizeof *files * count), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(head), files, sizeof *files * count);
    }
    return sendmsg(fd, &all, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int receive(int fd, struct rowen_welcome *welcome, int *files, uint32_t room) {
    struct iovec part = {welcome, sizeof *welcome};
    union descriptors control;
    /* Not more: the kernel drops the descriptors for which there is no room. */
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof *files * room)};
    ssize_t length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (length < 0) return -errno;
    if (length == 0) return -ECONNRESET;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(files, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    welcome->reason[ROWEN_REASON_LENGTH - 1] = 0;
    return welcome->magic == ROWEN_HELLO_MAGIC && welcome->abi == ROWEN_ABI ? 0 : -EPROTO;
}

int rowen_link_hear(int fd, struct rowen_welcome *welcome, int *files, uint32_t room, uint64_t timeout_ns) {
    uint64_t end = rowen_now() + timeout_ns;
    for (;;) {
        uint64_t now = rowen_now();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = now < end ? poll(&wait, 1, (int)((end - now) / ROWEN_MS) + 1) : 0;
        if (ready == 0) return -ETIMEDOUT;
        if (ready > 0) return receive(fd, welcome, files, room);
        if (errno != EINTR) return -errno;
    }
}

static int greet(int fd, bool holds_memory, struct rowen_welcome *welcome, int *files, uint64_t timeout_ns) {
    struct rowen_hello hello = {.magic = ROWEN_HELLO_MAGIC, .abi = ROWEN_ABI, .size = sizeof hello,
                                .features = holds_memory ? ROWEN_HOLDS_MEMORY : 0};
    int error = rowen_link_send(fd, &hello, sizeof hello, NULL, 0);
    if (!error) error = rowen_link_hear(fd, welcome, files, FILES, timeout_ns);
    if (error) return error;
    if (welcome->error) return welcome->error < 0 ? welcome->error : -EPROTO;
    return files[0] < 0 || files[1] < 0 ? -EPROTO : 0;
}

int rowen_link_ask(const struct rowen_link *link, struct rowen_files *files, char *reason, uint64_t timeout_ns) {
    reason[0] = 0;
    int fd = connect_to(link->path);
    if (fd < 0) return fd;
    struct rowen_welcome welcome = {0};
    int fds[FILES] = {-1, -1};
    int error = greet(fd, atomic_load(&link->arena) != NULL, &welcome, fds, timeout_ns);
    *files = (struct rowen_files){fd, fds[0], fds[1]};
    if (!error) return 0;
    memcpy(reason, welcome.reason, sizeof welcome.reason);
    close(fd);
    for (int i = 0; i < FILES; i++)
        if (fds[i] >= 0) close(fds[i]);
    return error;
}

static unsigned long inode_of(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

/* Whether the descriptor still is the connection, and not something that the application has opened since. */
static bool is_ours(const struct rowen_link *link) {
    return link->socket >= 0 && inode_of(link->socket) == link->socket_inode;
}

void rowen_link_forget(struct rowen_link *link) {
    if (is_ours(link)) close(link->socket);
    link->socket = -1;
}

/* For an engine that cannot say it in the mapped file: the agent must not open the gate meanwhile. */
static void say_busy(int member) {
    const uint32_t in_flight = 1;
    ssize_t written = pwrite(member, &in_flight, sizeof in_flight, offsetof(struct rowen_member_page, block.in_flight));
    (void)written; /* no memory for that either: the watcher tries again soon */
}

int rowen_link_adopt(struct rowen_link *link, const struct rowen_files *files) {
    int error = 0;
    void *device = rowen_map(files->device, sizeof *link->device, ROWEN_DEVICE_MAGIC, link->writes_gate, link->device,
                             &error);
    if (device) link->device = device;
    void *member = device ? rowen_map(files->member, sizeof *link->member, ROWEN_MEMBER_MAGIC, true, link->member,
                                      &error)
                          : NULL;
    if (member) link->member = member;
    if (error && link->writes_gate) say_busy(files->member);
    close(files->device);
    close(files->member);
    rowen_link_forget(link);
    /* Lost, so that it is tried again: what is not mapped tells nobody anything. */
    if (error) {
        close(files->socket);
        return error;
    }
    link->socket_inode = inode_of(files->socket);
    link->socket = files->socket;
    atomic_fetch_add(&link->generation, 1);
    return 0;
}

int rowen_link_share(const struct rowen_link *link) {
    int socket = link->socket;
    int fd = socket >= 0 ? fcntl(socket, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0) return -ENOTCONN;
    /* It may have been another's by then: the link is made anew, or the application has closed it. */
    if (inode_of(fd) == link->socket_inode) return fd;
    close(fd);
    return -ENOTCONN;
}

bool rowen_link_lost(const struct rowen_link *link) {
    if (!is_ours(link)) return true;
    struct pollfd state = {.fd = link->socket, .events = POLLRDHUP};
    return poll(&state, 1, 0) > 0 && state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}
