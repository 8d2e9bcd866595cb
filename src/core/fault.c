#include "fault.h"

static const struct {
    const char *name;
    const char *prefix;
    const char *text;
} faults[] = {
#define X(fault, name, prefix, text) {name, prefix, text},
    REDLOCK_FAULTS(X)
#undef X
};

/* The length of `prefix` if `text` begins with it, followed by a space or the end; or 0. */
static size_t length_at_start(const char *text, size_t len, const char *prefix)
{
    size_t i = 0;
    while (prefix[i] != '\0') {
        if (i >= len || text[i] != prefix[i])
            return 0;
        i++;
    }
    return i == len || text[i] == ' ' ? i : 0;
}

/* A right that a script lacks: of Redis 7.0, and of later ones. There is no word for it. */
static bool is_script_denial(const char *text, size_t len)
{
    return length_at_start(text, len, "ERR The user executing the script can't") ||
           length_at_start(text, len, "ERR ACL failure in script:");
}

/* (safety.md, rule 4) */
enum rl_fault rl_fault_of_error(const char *text, size_t len)
{
    if (is_script_denial(text, len))
        return RL_FAULT_NOPERM;
    enum rl_fault found = RL_FAULT_ERR;
    size_t longest = 0;
    for (int i = 0; i < RL_FAULT_COUNT; i++) {
        const char *prefix = faults[i].prefix;
        size_t length = prefix ? length_at_start(text, len, prefix) : 0;
        if (length > longest) {
            found = (enum rl_fault)i;
            longest = length;
        }
    }
    return found;
}

const char *rl_fault_name(enum rl_fault fault)
{
    return fault < RL_FAULT_COUNT ? faults[fault].name : "?";
}

const char *rl_fault_text(enum rl_fault fault)
{
    return fault < RL_FAULT_COUNT ? faults[fault].text : "?";
}

bool rl_fault_is_denial(enum rl_fault fault)
{
    switch (fault) {
    case RL_FAULT_NOAUTH:
    case RL_FAULT_WRONGPASS:
    case RL_FAULT_NOPERM:
    case RL_FAULT_NO_EVAL:
    case RL_FAULT_PROTECTED:
    case RL_FAULT_TLS_CA:
    case RL_FAULT_TLS_NAME:
    case RL_FAULT_TLS_EXPIRED:
    case RL_FAULT_TLS_NOT_YET_VALID:
    case RL_FAULT_TLS_CERTIFICATE:
    case RL_FAULT_TLS_CLIENT: return true;
    default: return false;
    }
}

/* (safety.md, rule 4) */
bool rl_fault_is_of_node(enum rl_fault fault)
{
    switch (fault) {
    case RL_FAULT_LOADING:
    case RL_FAULT_READONLY:
    case RL_FAULT_MASTERDOWN:
    case RL_FAULT_CLUSTERDOWN:
    case RL_FAULT_MOVED:
    case RL_FAULT_CROSSSLOT:
    case RL_FAULT_NOAUTH: return true;
    default: return false;
    }
}
