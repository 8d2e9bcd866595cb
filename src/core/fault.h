/* Why a node does not grant: an error reply, or the state of its connection. */
#ifndef RL_FAULT_H
#define RL_FAULT_H

#include "redlock/faults.h"
#include "types.h"

enum rl_fault {
#define X(fault, name, prefix, text) RL_FAULT_##fault,
    REDLOCK_FAULTS(X)
#undef X
        RL_FAULT_COUNT,
};

/* The fault for the prefix of an error reply; RL_FAULT_ERR if the prefix is unknown. */
enum rl_fault rl_fault_of_error(const char *text, size_t len);

const char *rl_fault_name(enum rl_fault fault);
const char *rl_fault_text(enum rl_fault fault);

/* The server refuses the user, the address, the command or the client's certificate, or we
   refuse the server's: a quick retry cannot help. */
bool rl_fault_is_denial(enum rl_fault fault);

/* The node cannot vote at all now: the client must greet it again. */
bool rl_fault_is_of_node(enum rl_fault fault);

#endif
