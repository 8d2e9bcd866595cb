/*
 * What `redlock check` asks a node, and what its answers say. A question without an answer
 * leaves its facts unknown.
 */
#ifndef RL_FACTS_H
#define RL_FACTS_H

#include "rights.h"

/* Every question has a number below this; the tries of the rights are the last of them. */
size_t rl_questions(const struct rl_facts *facts);

/* The words of a question. `key`: one that nobody uses. Zero: it is left out. */
size_t rl_question(const struct rl_facts *facts, size_t question, struct rl_word key,
                   struct rl_word ret_word[RL_TRY_WORDS]);

/* Takes what the answer says that came at `now`. */
void rl_facts_read(struct rl_facts *facts, redlock_fitness *fitness, size_t question,
                   const struct rl_reply *reply, rl_time now);

#endif
