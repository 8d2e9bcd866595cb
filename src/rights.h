/* What a client may have to be allowed to do: how each right is tried, and the ACL rule. */
#ifndef RL_RIGHTS_H
#define RL_RIGHTS_H

#include "judge.h"

/* Names all that can be tried, as not refused. Returns how many. */
size_t rl_rights(struct rl_right ret_right[RL_RIGHTS_MAX]);

#define RL_TRY_WORDS 6

/*
 * The words that try the right on a key that does not exist, and do nothing even where they
 * are allowed. Zero: nobody knows how to try it without harm.
 */
size_t rl_right_try(const struct rl_right *right, struct rl_word key,
                    struct rl_word ret_word[RL_TRY_WORDS]);

/* What an answer to that says: NONE, or why the right cannot be used. */
enum rl_fault rl_right_read(const struct rl_right *right, const struct rl_reply *reply);

/* The rule as one line; like snprintf(), tells its length. `select`: add that right. */
size_t rl_rights_acl(const char *user, const char *prefix, bool select, char *text,
                     size_t room);

#endif
