/* The name of the client's connections in CLIENT LIST. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "wait_queue.h"

/* How often a text occurs in the reply. */
static unsigned count(struct servers *servers, unsigned i, const char *command,
                      const char *text)
{
    redisReply *reply = servers_run(servers, i, command);
    unsigned times = 0;
    cr_assert_eq(reply->type, REDIS_REPLY_STRING);
    for (const char *at = reply->str; (at = strstr(at, text)); at++)
        times++;
    freeReplyObject(reply);
    return times;
}

Test(client_name, of_both_connections_is_the_label)
{
    struct queue queue;
    redlock_options who = quorum_options();
    redlock_lease_options options = queue_patient_options();
    who.label = "web-7:~!";
    queue_open(&queue, 3);
    queue_start(&queue, &who, &options);
    for (unsigned i = 0; i < 3; i++) {
        LOOP_UNTIL(queue.s.base, count(&queue.s.servers, i, "CLIENT LIST TYPE pubsub",
                                       " name=web-7:~! ") == 1);
        cr_assert_eq(count(&queue.s.servers, i, "CLIENT LIST", " name=web-7:~! "), 2);
    }
    queue_close(&queue);
}

/* How often the node has noted a refusal of this user. */
static long long refusals(struct servers *servers, unsigned i)
{
    redisReply *log = servers_run(servers, i, "ACL LOG");
    long long times = 0;
    cr_assert_eq(log->type, REDIS_REPLY_ARRAY);
    for (size_t j = 0; j < log->elements; j++) { /* "count", its value, ... */
        cr_assert_str_eq(log->element[j]->element[0]->str, "count");
        times += log->element[j]->element[1]->integer;
    }
    freeReplyObject(log);
    return times;
}

/* A node that refuses the name is asked once, whatever connects again. */
Test(client_name, that_is_refused_is_not_sent_again)
{
    struct queue queue;
    redlock_options who = quorum_options();
    redlock_lease_options options = queue_patient_options();
    who.username = "nameless";
    who.password = "secret";
    queue_open(&queue, 3);
    servers_do_first(&queue.s.servers, 3,
                     "ACL SETUSER nameless on >secret ~* &* +@all -client|setname");
    struct waiter *waiter = queue_start(&queue, &who, &options);
    for (int times = 0; times < 3; times++) {
        for (unsigned i = 0; i < 3; i++) {
            LOOP_UNTIL(queue.s.base, count(&queue.s.servers, i, "CLIENT LIST TYPE pubsub",
                                           " user=nameless ") == 1);
            LOOP_UNTIL(queue.s.base, quorum_is(waiter->client, i, "ready"));
            servers_do(&queue.s.servers, i, "CLIENT KILL USER nameless");
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        LOOP_UNTIL(queue.s.base, count(&queue.s.servers, i, "CLIENT LIST TYPE pubsub",
                                       " user=nameless ") == 1);
        cr_assert_eq(refusals(&queue.s.servers, i), 1);
    }
    queue_close(&queue);
}
