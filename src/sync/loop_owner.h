/*
 * The loop owner: the thread that runs the event loop of a client, the jobs that it runs
 * there, and the waits of all other threads. One mutex guards all data of a client. Only
 * the loop owner calls the asynchronous interface, with or without the mutex. Callbacks of
 * that interface take the mutex. No user callback runs with the mutex held.
 */
#ifndef RL_LOOP_OWNER_H
#define RL_LOOP_OWNER_H

#include <event2/event.h>
#include <stdatomic.h>

#include "base/error.h"
#include "io/system.h"
#include "wait.h"

struct rl_loop_owner;

/* Embedded in the object that it is about. Posting it again before it ran has no effect. */
struct rl_job {
    void (*run)(struct rl_loop_owner *loop, struct rl_job *job); /* with the mutex held */
    TAILQ_ENTRY(rl_job) link;
    struct rl_jobs *queue; /* NULL: it is not posted */
};

TAILQ_HEAD(rl_jobs, rl_job);

/* A job that another thread waits for: run(), or what it starts, finishes the wait. */
struct rl_call {
    struct rl_job job;
    struct rl_wait wait;
};

/* A thread that waits until its commands are written. */
struct rl_write {
    struct rl_call call;
    /* NULL, or asked in the loop owner: the client keeps them until the nodes have room. */
    bool (*is_queued)(const struct rl_write *write);
};

/* Only loop_owner.c changes it. It begins the memory block of its client. */
struct rl_loop_owner {
    struct rl_monitor monitor;
    pthread_cond_t changed; /* a wait has ended, or a callback has returned */
    unsigned generation;
    atomic_uint references; /* to this memory: the client, holds, stops */

    struct event_base *base;
    struct event *mail, *alarm, *written;
    int mail_fd;
    struct rl_jobs jobs;    /* for the loop owner */
    struct rl_jobs reports; /* for the client's thread, outside of the loop */

    struct rl_wait *owner;        /* NULL: the loop is free */
    struct rl_wait client_thread; /* the client's thread sleeps on it, too */
    bool in_loop;                 /* the loop owner is in the event loop */
    bool in_callback;             /* the client's thread is in a user callback */
    bool leave_loop;              /* after this iteration; only the loop owner uses it */
    bool wakes_due; /* another thread's wait is done; only the loop owner uses it */
    bool mail_sent; /* mail_fd was written to, and not read yet */
    bool yields;    /* the loop owner has to give up the loop */
    unsigned runs_by_callers;    /* how often a waiting thread became the loop owner */
    unsigned single_waits;       /* in a row, each begun soon after the one before */
    int64_t last_wait_ended;     /* rl_now_ms() */
    struct rl_wait *latest_wait; /* the last one that began */
    unsigned waits, pending;     /* all waits, and those that are not done */
    struct rl_waits to_write;    /* done when an iteration of the loop has written */

    bool closing; /* nothing new begins */
    bool over;    /* all work is done; the loop ends */
};

/*
 * False: a system call or an allocation failed, and errno says why; the caller has to close
 * what was opened. In a forked child close() only closes the file descriptor.
 */
bool rl_loop_owner_open(struct rl_loop_owner *loop);
void rl_loop_owner_close(struct rl_loop_owner *loop);

/* unref() of the last reference frees the memory. Both also in a forked child. */
void rl_loop_owner_ref(struct rl_loop_owner *loop);
void rl_loop_owner_unref(struct rl_loop_owner *loop);

/* False in a forked child: it must not touch its copy. */
static inline bool rl_loop_owner_is_ours(const struct rl_loop_owner *loop)
{
    return loop->generation == rl_system_fork_generation();
}

/* Unlocking notifies a loop owner of posted jobs, and wakes the waits that are done. */
void rl_loop_owner_lock(struct rl_loop_owner *loop);
void rl_loop_owner_unlock(struct rl_loop_owner *loop);

/* --- all other functions with the mutex held --- */

/* A report is a job that the client's thread runs outside of the loop. */
void rl_job_post(struct rl_loop_owner *loop, struct rl_job *job);
void rl_job_post_report(struct rl_loop_owner *loop, struct rl_job *job);
void rl_job_cancel(struct rl_job *job); /* if it is posted */

/*
 * One wait of the calling thread. wait_once() waits until it is done or woken, or until
 * `deadline` (as rl_now_ms()); false: the deadline has come. The thread runs the loop
 * meanwhile if the loop has no owner. await() waits until it is done, and ends it.
 */
void rl_loop_owner_begin_wait(struct rl_loop_owner *loop, struct rl_wait *wait);
bool rl_loop_owner_wait_once(struct rl_loop_owner *loop, struct rl_wait *wait,
                             int64_t deadline);
void rl_loop_owner_end_wait(struct rl_loop_owner *loop, struct rl_wait *wait);
redlock_code rl_loop_owner_await(struct rl_loop_owner *loop, struct rl_wait *wait);

/* The wait is done. */
void rl_loop_owner_finish_wait(struct rl_loop_owner *loop, struct rl_wait *wait,
                               redlock_code code);

/* Has the loop owner run the job, and waits until the call's wait is finished. */
redlock_code rl_loop_owner_call(struct rl_loop_owner *loop, struct rl_call *call);

/* The same without the mutex; CLOSED: the client is being freed. */
redlock_code rl_loop_owner_request(struct rl_loop_owner *loop, struct rl_call *call);

/*
 * Waits until the commands of the jobs that were posted are written to the sockets that
 * accept them, and are not queued any more. Returns at once inside a callback, and while
 * the client's thread owns the loop and is in a callback: that callback may wait for the
 * calling thread. check_writes(), by the loop owner: a command may have left the queue.
 */
void rl_loop_owner_flush(struct rl_loop_owner *loop, struct rl_write *write);
void rl_loop_owner_check_writes(struct rl_loop_owner *loop);

/* Waits until a callback has returned, or a wait has ended. */
void rl_loop_owner_await_change(struct rl_loop_owner *loop);

/* Nothing new begins from now on; the loop ends. */
void rl_loop_owner_begin_close(struct rl_loop_owner *loop);
void rl_loop_owner_end(struct rl_loop_owner *loop);

/* The client's thread, after the loop ended: runs what was posted meanwhile. */
void rl_loop_owner_run_rest(struct rl_loop_owner *loop);

/* --- without the mutex --- */

/* The main function of the client's thread: until the loop ends; then with the mutex. */
void rl_loop_owner_run_thread(struct rl_loop_owner *loop);

/* CLOSED, FORKED or WOULD_DEADLOCK: there is no client, or the thread must not wait. */
redlock_code rl_loop_owner_may_wait(const struct rl_loop_owner *loop);

/* The calling thread is the thread of a client. */
bool rl_loop_owner_in_any_thread(void);

#endif
