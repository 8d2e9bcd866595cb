#include "network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "connection.h"

#define NET_FIRST          0x0a000000 /* 10.0.0.0 */
#define LATENCY            (100 * VIRTUAL_US)
#define RETRANSMISSION     (200 * VIRTUAL_MS) /* the least time before a kernel sends again */
#define RETRANSMISSION_MAX (64 * RETRANSMISSION)
#define RETRANSMISSIONS    3
#define SPIKE_MAX          50 /* times the latency */
#define SEND_ROOM          (64 * 1024)

struct network network;

static int64_t draw_delay(int64_t least)
{
    int64_t more = draw_between(0, least / 2);
    if (draw_once_in(network.faults.spike)) {
        more += draw_span(least, SPIKE_MAX * least);
        network.counts.spikes++;
    }
    return least + more;
}

void network_begin(void)
{
    network = (struct network){.draw_delay = draw_delay, .faults.send_room = SEND_ROOM};
    for (unsigned i = 0; i < NETWORK_HOSTS; i++) {
        network.address[i] = (struct address){.server = i, .lookup_delay = VIRTUAL_MS};
        for (unsigned p = 0; p < NETWORK_PROCESSES; p++)
            network.path[p][i].latency = LATENCY;
    }
    for (unsigned p = 0; p < NETWORK_PROCESSES; p++)
        network.path[p][NETWORK_SILENT].up_blocked = NETWORK_NEVER;
}

/* Each process and server has gone. */
void network_end(void)
{
    while (network.connection)
        connection_forget(network.connection);
}

struct rl_address network_address(unsigned host, int port)
{
    struct rl_address address = {.len = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (struct sockaddr_in *)&address.addr;
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)port);
    in->sin_addr.s_addr = htonl(NET_FIRST + host);
    return address;
}

int64_t network_arrival(const struct path *path, enum direction direction, int64_t at,
                        bool *ret_lost)
{
    int64_t blocked = direction == UP ? path->up_blocked : path->down_blocked;
    int64_t way = network.draw_delay(path->latency);
    *ret_lost = blocked > at || draw_once_in(network.faults.loss);
    if (blocked == NETWORK_NEVER || at == NETWORK_NEVER)
        return NETWORK_NEVER;
    if (blocked > at) {
        /* The segment was sent again at ever longer intervals: the last one is about as
           long as all before. */
        int64_t next = blocked - at;
        next = next < RETRANSMISSION ? RETRANSMISSION : next;
        next = next > RETRANSMISSION_MAX ? RETRANSMISSION_MAX : next;
        return blocked + way + draw_between(0, next);
    }
    network.counts.losses += *ret_lost;
    if (*ret_lost)
        way += RETRANSMISSION << events_random(RETRANSMISSIONS);
    return at + way;
}

void network_block(unsigned server, int64_t until)
{
    for (unsigned i = 0; i < NETWORK_PROCESSES; i++) {
        network.path[i][server].up_blocked = until;
        network.path[i][server].down_blocked = until;
    }
}

static uint64_t mixed(uint64_t hash)
{
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

/* As FNV-1a, but by words. */
void network_note(const char *bytes, size_t len)
{
    uint64_t hash = network.trace ^ (uint64_t)events_now(), word;
    for (; len >= sizeof(word); bytes += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        hash = mixed(hash ^ word);
    }
    word = len;
    memcpy(&word, bytes, len);
    network.trace = mixed(hash ^ word);
}
