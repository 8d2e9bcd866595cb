/*
 * Lists and queues, as <sys/queue.h> of BSD has them: not every C library has that header.
 * An element points back to the pointer that points to it.
 */
#ifndef RL_QUEUE_H
#define RL_QUEUE_H

/* --- lists --- */

#define LIST_HEAD(name, type)                                                              \
    struct name {                                                                          \
        struct type *first;                                                                \
    }
#define LIST_ENTRY(type)                                                                   \
    struct {                                                                               \
        struct type *next, **back;                                                         \
    }
#define LIST_FIRST(list) ((list)->first)
#define LIST_FOREACH(at, list, link)                                                       \
    for ((at) = (list)->first; (at); (at) = (at)->link.next)
#define LIST_INSERT_HEAD(list, at, link)                                                   \
    do {                                                                                   \
        (at)->link.next = (list)->first;                                                   \
        (at)->link.back = &(list)->first;                                                  \
        if ((list)->first)                                                                 \
            (list)->first->link.back = &(at)->link.next;                                   \
        (list)->first = (at);                                                              \
    } while (0)
#define LIST_REMOVE(at, link)                                                              \
    do {                                                                                   \
        *(at)->link.back = (at)->link.next;                                                \
        if ((at)->link.next)                                                               \
            (at)->link.next->link.back = (at)->link.back;                                  \
    } while (0)

/* --- queues: lists with a tail --- */

#define TAILQ_HEAD(name, type)                                                             \
    struct name {                                                                          \
        struct type *first, **tail;                                                        \
    }
#define TAILQ_ENTRY(type) LIST_ENTRY(type)
#define TAILQ_INIT(queue)                                                                  \
    do {                                                                                   \
        (queue)->first = NULL;                                                             \
        (queue)->tail = &(queue)->first;                                                   \
    } while (0)
#define TAILQ_FIRST(queue)             ((queue)->first)
#define TAILQ_EMPTY(queue)             (!(queue)->first)
#define TAILQ_NEXT(at, link)           ((at)->link.next)
#define TAILQ_FOREACH(at, queue, link) LIST_FOREACH (at, queue, link)
#define TAILQ_INSERT_TAIL(queue, at, link)                                                 \
    do {                                                                                   \
        (at)->link.next = NULL;                                                            \
        (at)->link.back = (queue)->tail;                                                   \
        *(queue)->tail = (at);                                                             \
        (queue)->tail = &(at)->link.next;                                                  \
    } while (0)
#define TAILQ_REMOVE(queue, at, link)                                                      \
    do {                                                                                   \
        if (!(at)->link.next)                                                              \
            (queue)->tail = (at)->link.back;                                               \
        LIST_REMOVE(at, link);                                                             \
    } while (0)

#endif
