/* Find the user at the other end of a connection within the host; see lk_net_peer_user. */
#include "runtime/rendezvous/net.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { END_TEXT = 48 };

/* Write an end as /proc/net/tcp has it: each 32-bit word of the address in memory's order, the
 * port. *out_v6: in which of the two tables. */
static bool write_end(const struct sockaddr_storage *a, bool *out_v6, char text[END_TEXT])
{
    const struct sockaddr_in6 *six = (const void *)a;
    const struct sockaddr_in *four = (const void *)a;
    uint32_t w[4];

    *out_v6 = a->ss_family == AF_INET6;
    if (a->ss_family == AF_INET) {
        snprintf(text, END_TEXT, "%08" PRIX32 ":%04X", four->sin_addr.s_addr,
                 (unsigned)ntohs(four->sin_port));
        return true;
    }
    if (!*out_v6)
        return false;
    memcpy(w, &six->sin6_addr, sizeof w);
    snprintf(text, END_TEXT, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X", w[0],
             w[1], w[2], w[3], (unsigned)ntohs(six->sin6_port));
    return true;
}

bool lk_net_peer_user(int fd, uid_t *out)
{
    struct sockaddr_storage here, there;
    socklen_t n_here = sizeof here, n_there = sizeof there;
    char own[END_TEXT], peer[END_TEXT], line[512];
    bool found = false, six;
    FILE *f;

    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    if (getsockname(fd, (struct sockaddr *)&here, &n_here) ||
        getpeername(fd, (struct sockaddr *)&there, &n_there) || !write_end(&here, &six, own) ||
        !write_end(&there, &six, peer))
        return false;
    f = fopen(six ? "/proc/net/tcp6" : "/proc/net/tcp", "re");
    if (!f)
        return false;
    while (!found && fgets(line, sizeof line, f)) {
        char local[END_TEXT], remote[END_TEXT];
        unsigned long uid;

        /* sl local remote st queues timer retransmits uid ... */
        found = sscanf(line, " %*s %47s %47s %*s %*s %*s %*s %lu", local, remote, &uid) == 3 &&
                !strcmp(local, peer) && !strcmp(remote, own);
        if (found)
            *out = (uid_t)uid;
    }
    if (fclose(f))
        return false;
    return found;
}
