/*
 * The rights that a client needs: how to try each one, and the ACL rule that grants them.
 */
#ifndef RL_ACL_H
#define RL_ACL_H

#include "health_rules.h"

/* Lists the rights of every client that can be tried, without a fault. Returns their
   number. */
size_t rl_acl_rights(struct rl_acl_right ret_right[RL_ACL_RIGHTS_MAX]);

#define RL_ACL_RIGHT_WORDS 6

/*
 * The command that tries the right. `key` must not exist; then the command changes nothing,
 * even if it is allowed.
 */
size_t rl_acl_right_argv(const struct rl_acl_right *right, struct rl_word key,
                         struct rl_word ret_word[RL_ACL_RIGHT_WORDS]);

/* Parses the reply to that command: NONE, or why the right cannot be used. */
enum rl_fault rl_acl_right_read(const struct rl_acl_right *right,
                                const struct rl_reply *reply);

/*
 * Writes the ACL rule as one line. Like snprintf(), returns its full length. `select`: add
 * the right to SELECT. `uses`: REDLOCK_ACL_REDISSON and so on.
 */
size_t rl_acl_rule(const char *user, const char *prefix, bool select, unsigned uses,
                   char *text, size_t room);

#endif
