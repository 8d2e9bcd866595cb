/* Which clients some nodes have and others lack, by replies to CLIENT LIST. */
#include "admin/client_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease_fixture.h"

#define NODES 5

static struct rl_client_list *first[NODES], *again[NODES];
static struct rl_probe probe[NODES];

static void read_list(struct rl_client_list **list, const char *text)
{
    free(*list);
    *list = text ? rl_client_list_read((struct rl_word){text, strlen(text)}) : NULL;
}

/* The names of the clients in a list, each with the age of its connection in seconds. */
static void set(struct rl_client_list **list, const char *clients)
{
    static char text[4096];
    char name[64];
    int age, read = 0;
    text[0] = '\0';
    for (; clients && sscanf(clients, " %63[^= ]=%d%n", name, &age, &read) == 2;
         clients += read)
        sprintf(text + strlen(text), "id=7 addr=10.0.0.%d:512 name=%s age=%d cmd=evalsha\n",
                age, name, age);
    read_list(list, clients ? text : NULL);
}

static void expect(unsigned node, size_t clients, const char *name, rl_node_set at)
{
    const struct rl_missing *missing = &probe[node].missing;
    cr_assert_eq(missing->clients, clients, "node %u: %zu", node, missing->clients);
    cr_assert_eq(missing->at, at);
    cr_assert(missing->name.len == strlen(name) &&
                  (!*name || memcmp(missing->name.text, name, strlen(name)) == 0),
              "%.*s", (int)missing->name.len, missing->name.text);
}

/* All lists of all nodes. */
static void begin(const char *clients)
{
    for (unsigned i = 0; i < NODES; i++) {
        set(&first[i], clients);
        set(&again[i], clients);
    }
}

static void set_both(unsigned node, const char *clients)
{
    set(&first[node], clients);
    set(&again[node], clients);
}

static bool differ(void)
{
    return rl_client_lists_compare(first, again, NODES, probe);
}

Test(client_list, the_same_clients_are_nowhere_missing)
{
    begin("");
    cr_assert(!differ());
    begin("a=100 b=7 a=3");
    set_both(2, "b=1 a=2");
    cr_assert(!differ());
    for (unsigned i = 0; i < NODES; i++)
        expect(i, 0, "", 0);
}

Test(client_list, a_client_of_three_nodes_is_missing_at_two)
{
    begin("a=100");
    for (unsigned i = 1; i < 4; i++)
        set_both(i, "a=100 b=50");
    cr_assert(differ());
    expect(0, 1, "b", 0xe);
    expect(1, 0, "", 0);
    expect(4, 1, "b", 0xe);
    cr_assert_eq(probe[4].missing.address.len, strlen("10.0.0.50:512"));
    cr_assert_eq(memcmp(probe[4].missing.address.text, "10.0.0.50:512", 13), 0);
}

Test(client_list, each_client_counts_once_at_each_node)
{
    begin("a=9");
    set_both(1, "a=9 c=9 b=9 c=8");
    set_both(3, "c=9 d=9");
    cr_assert(differ());
    expect(0, 3, "b", 0x2);
    expect(1, 1, "d", 0x8);
    expect(3, 2, "a", 0x17);
}

Test(client_list, a_young_connection_shows_nothing_but_presence)
{
    begin("a=6");
    set_both(2, "a=0");
    set_both(4, "a=6 b=5");
    cr_assert(!differ());
    set_both(1, "a=6 b=0 b=6 b=3"); /* the oldest counts */
    cr_assert(differ());
    expect(0, 1, "b", 0x2);
    expect(4, 0, "", 0);
}

Test(client_list, both_lists_must_lack_it_and_the_second_must_have_it)
{
    begin("a=100");
    set(&first[0], ""); /* it was connecting again */
    cr_assert(!differ());
    begin("");
    set(&first[0], "a=100"); /* it has ended */
    cr_assert(!differ());
    begin("a=100");
    set(&again[0], ""); /* it has ended, or lost its connection just now */
    cr_assert(!differ());
    set(&first[0], "");
    cr_assert(differ());
    expect(0, 1, "a", 0x1e);
}

Test(client_list, a_node_without_a_list_is_not_compared)
{
    begin("a=100");
    set_both(0, "");
    set(&again[0], NULL);
    set(&first[1], NULL);
    set(&again[1], "");
    set_both(2, NULL);
    cr_assert(!differ());
    set(&again[0], "");
    cr_assert(differ());
    expect(0, 1, "a", 0x18);
    expect(2, 0, "", 0);
}

Test(client_list, names_are_compared_whole)
{
    begin("web=9 web-1=9");
    set_both(0, "web-1=9");
    set_both(1, "web=9");
    cr_assert(differ());
    expect(0, 1, "web", 0x1e);
    expect(1, 1, "web-1", 0x1d);
}

/* Lines that are no client of this library, of several servers. */
Test(client_list, other_connections_do_not_count)
{
    begin("");
    read_list(&again[0],
              "id=3 addr=/tmp/s:0 fd=7 name= age=99 idle=1 cmd=get user=default\n"
              "id=4 addr=1.2.3.4:5 name=check age=99 cmd=client|list user=default\r\n"
              "id=4 addr=1.2.3.4:5 name=old-check age=99 cmd=client\n"
              "id=5 addr=1.2.3.4:5 name=cache age=99 cmd=get lib-name=jedis lib-ver=5.0\n"
              "id=5 addr=1.2.3.4:5 name=no-age cmd=get\n"
              "id=5 addr=1.2.3.4:5 name=bad-age age=1x cmd=get\n"
              "\n  \nname age name=\n=\n name=x");
    cr_assert(!differ());
    read_list(&again[1],
              "id=6 addr=1.2.3.4:5 name=h:1 age=99 cmd=evalsha lib-name= lib-ver=");
    cr_assert(differ());
    expect(0, 1, "h:1", 0x2);
}

Test(client_list, thousands_of_clients)
{
    static char text[20000 * 40];
    char *at = text;
    for (int i = 0; i < 20000; i++)
        at += sprintf(at, "name=host:%d age=9 cmd=set\n", i * 7919 % 20000);
    for (unsigned i = 0; i < NODES; i++) {
        read_list(&first[i], text);
        again[i] = first[i];
    }
    cr_assert(!differ());
    *strstr(text, "host:777 ") = 'H';
    read_list(&first[3], text);
    again[3] = first[3];
    cr_assert(differ());
    expect(3, 1, "host:777", 0x17);
    expect(0, 1, "Host:777", 0x8);
}
