/* The oracle on what users are told. */
#include <stdio.h>
#include <string.h>

#include "oracle_parts.h"
#include "world.h"

/* The client leads, or has led: q servers have stored its term. Terms do not fall. */
void oracle_told_leader(struct client *client, const redlock_leader *leader)
{
    const struct rl_word token = {leader->token, strlen(leader->token)};
    const struct claim *claim = leader->term > 0 ? claim_of(token) : NULL;
    TRACE("client %u is told that %.8s leads, in term %lld: %s", client->index + 1,
          leader->token, (long long)leader->term, redlock_code_name(leader->code));
    if (leader->code != REDLOCK_OK && leader->code != REDLOCK_NO_QUORUM)
        oracle_accuse(INVARIANT_TOLD, "an observer is told %s",
                      redlock_code_name(leader->code));
    if (leader->term == REDLOCK_NO_FENCE)
        return;
    if (!claim || claim->term != leader->term || rl_count(claim->with_term) < world.plan.q)
        oracle_accuse(INVARIANT_TOLD, "client %u: %.8s leads in term %lld, by servers %s",
                      client->index + 1, leader->token, (long long)leader->term,
                      trace_set(claim ? claim->with_term : 0));
    if (leader->term < client->term)
        oracle_accuse(INVARIANT_RISING, "client %u: term %lld after %lld",
                      client->index + 1, (long long)leader->term, (long long)client->term);
    client->term = leader->term;
}

#define TOLD_WITHIN (4 * VIRTUAL_S) /* it asks each second, and waits for replies */

/* The leader that is observed; NULL: nobody. */
static const struct claim *leader(void)
{
    for (unsigned c = 0; c < world.plan.clients; c++)
        for (unsigned u = 0; world.client[c].is_alive && u < world.client[c].users; u++) {
            const struct user *user = &world.client[c].user[u];
            const struct claim *claim = user->claim;
            if (user->is_held && claim && claim->resources & 1 && oracle_is_valid(claim))
                return claim;
        }
    return NULL;
}

/* Nodes with a vote, as it believes, that have the leader's term. */
static unsigned nodes_with_term(const struct client *client, const struct claim *claim)
{
    redlock_node node[NODES_MAX];
    size_t count = redlock_client_members(client->handle, node, NODES_MAX);
    char name[64];
    unsigned found = 0;
    snprintf(name, sizeof(name), "%s!term", world_key(0));
    for (size_t i = 0; i < count; i++) {
        const struct key *key = server_key(&world.server[client->node[i].server], name);
        struct rl_word word = key && key->type == KEY_STRING ? bytes_word(&key->string)
                                                             : (struct rl_word){"", 0};
        found += node[i].verdict == REDLOCK_VERDICT_ACTIVE && word.len > claim->len &&
                 memcmp(word.text + word.len - claim->len, claim->token, claim->len) == 0;
    }
    return found;
}

void oracle_judge_observer(struct client *client)
{
    const struct claim *claim = world.is_hindered ? NULL : leader();
    if (!claim || world.phase != PHASE_CALM || client->term == claim->term ||
        nodes_with_term(client, claim) < world.plan.q) {
        client->knew_leader_at = events_now();
        return;
    }
    int64_t since = client->knew_leader_at;
    since = since < claim->succeeded_at ? claim->succeeded_at : since;
    since = since < client->process.resumed ? client->process.resumed : since;
    if (events_now() > since + TOLD_WITHIN)
        oracle_accuse(INVARIANT_TOLD, "client %u is not told that %.8s leads in term %lld",
                      client->index + 1, claim->token, (long long)claim->term);
}

static bool is_expected(const struct user *user, enum news news)
{
    bool holds = user->phase == USER_HOLDING && user->is_held && !user->is_lost;
    if (user->is_calling)
        return false;
    switch (news) {
    case NEWS_HELD:
    case NEWS_FAILED: return user->phase == USER_ACQUIRING && user->is_acquiring;
    case NEWS_EXTENDED:
    case NEWS_NOT_EXTENDED: return user->is_extending;
    case NEWS_RENEWED: return holds;
    case NEWS_LOST: /* a loss that came before a release is still reported */
        return holds || user->left_in == user->client->process.iterations;
    case NEWS_RELEASED: return user->is_releasing;
    }
    return false;
}

static void judge_numbers(const struct user *user, enum news news,
                          const redlock_result *result)
{
    const struct claim *claim = user->claim;
    bool good = news == NEWS_HELD || news == NEWS_EXTENDED || news == NEWS_RENEWED;
    bool gone = result->code == REDLOCK_GONE || result->code == REDLOCK_TAKEN;
    bool is_void =
        news == NEWS_FAILED || news == NEWS_RELEASED || (news == NEWS_LOST && gone);
    bool right =
        result->nodes == world.plan.n && result->quorum == world.plan.q &&
        result->valid_ms >= 0 &&
        (result->remaining_ms >= 0 || result->remaining_ms == REDLOCK_UNKNOWN) &&
        result->granted <= world.plan.n && (!good || result->granted >= world.plan.q) &&
        (!good || result->remaining_ms == 0) && (!is_void || result->valid_ms == 0);
    if (good && claim)
        right = right && result->granted <= rl_count(claim->voted);
    if (news == NEWS_HELD || news == NEWS_FAILED)
        right = right && result->attempts >= (user->attempts > 0);
    if (!right)
        oracle_accuse(INVARIANT_TOLD,
                      "client %u, news %u, code %s: granted %u, valid %lld, attempts %u, "
                      "remaining %lld; heard %s",
                      user->client->index + 1, news, redlock_code_name(result->code),
                      result->granted, (long long)result->valid_ms, result->attempts,
                      (long long)result->remaining_ms, trace_set(claim ? claim->voted : 0));
}

/* Counts nodes that are or will be free in so many ms, as far as this attempt was told. */
static unsigned free_by(const struct claim *claim, int64_t in)
{
    unsigned free = 0;
    in = in == INT32_MAX ? INT64_MAX : in; /* more is not told */
    for (unsigned i = 0; i < world.plan.n; i++) {
        bool leaves = claim->held & rl_bit(i) && claim->pttl[i] >= 0;
        free += (claim->gone & rl_bit(i)) || (leaves && claim->pttl[i] <= in);
    }
    return free;
}

/* Nodes that were not asked, or did not answer, may be free at any time. */
static void judge_remaining(const struct user *user, const redlock_result *result)
{
    const struct claim *claim = user->claim;
    rl_node_set heard = claim->held | claim->gone;
    unsigned others = world.plan.n - rl_count(heard);
    bool promises = result->remaining_ms > 0;
    if (promises && free_by(claim, result->remaining_ms) + others < world.plan.q)
        oracle_accuse(INVARIANT_TOLD, "client %u: free in %lld ms", user->client->index + 1,
                      (long long)result->remaining_ms);
}

/* The node's last report: the value, and of a set at which of the user's keys. */
static bool is_held_as_told(const struct user *user, unsigned i, const redlock_node *node)
{
    const struct claim *claim = user->claim;
    unsigned before = user->resources & (rl_bit(claim->taken[i]) - 1);
    if (!node->value[0] || !claim->value[i][0])
        return true;
    return strcmp(node->value, claim->value[i]) == 0 && node->key == rl_count(before);
}

/* The explanation of an acquire, node by node. */
static void judge_explanation(const struct user *user)
{
    const struct claim *claim = user->claim;
    redlock_node node[NODES_MAX];
    size_t count = redlock_explain(user->lease, node, NODES_MAX);
    bool right = count == world.plan.n;
    for (unsigned i = 0; right && i < count; i++) {
        rl_node_set bit = rl_bit(i);
        if (claim->garbled & bit)
            continue;
        switch (node[i].verdict) {
        case REDLOCK_VERDICT_GRANTED: right = claim->voted & bit; break;
        case REDLOCK_VERDICT_HELD:
            right = claim->was_held & bit && is_held_as_told(user, i, &node[i]);
            break;
        case REDLOCK_VERDICT_SILENT: /* perhaps of what the socket has not taken yet */
        case REDLOCK_VERDICT_WAITING:
            right = (claim->asked | claim->told) & bit || world.plan.weight[FAULT_ROOM];
            break;
        case REDLOCK_VERDICT_ABSENT:
        case REDLOCK_VERDICT_UNASKED: right = !(claim->asked & bit); break;
        default: break;
        }
        bool shows = node[i].value[0] || node[i].holder[0];
        right = right && (!shows || node[i].verdict == REDLOCK_VERDICT_HELD);
        if (!right)
            oracle_accuse(INVARIANT_TOLD, "client %u: node %u is %s",
                          user->client->index + 1, i + 1,
                          redlock_verdict_name(node[i].verdict));
    }
}

/* q nodes have reported that they deleted the token, or lacked it. */
static void judge_release(const struct user *user, const redlock_result *result)
{
    const struct claim *claim = user->claim;
    rl_node_set unsure = claim->garbled;
    rl_node_set lacking =
        claim->released | claim->gone | claim->held | claim->missing | ~claim->voted;
    unsigned released = rl_count(claim->released);
    unsigned surely = rl_count(claim->released & ~unsure);
    bool decided = rl_count((lacking | unsure) & rl_all(world.plan.n)) >= world.plan.q;
    bool right = result->code == REDLOCK_UNCONFIRMED ? surely < world.plan.q
                 : result->code == REDLOCK_OK        ? decided && released > 0
                 : result->code == REDLOCK_GONE || result->code == REDLOCK_TAKEN ? decided
                                                                                 : true;
    if (!right)
        oracle_accuse(INVARIANT_TOLD, "client %u: %s, though %u nodes released it",
                      user->client->index + 1, redlock_code_name(result->code), released);
}

/* Compares why an acquire failed with the servers and the client's clock. */
static void judge_failure(const struct user *user, const redlock_result *result)
{
    const struct plan *plan = &world.plan;
    int64_t elapsed = client_elapsed_since(user->client, user->boot, user->raw);
    /* An eighth: the client adds up the larger steps of two clocks. */
    int64_t passed = elapsed / 8 * 9 / VIRTUAL_MS + 1;
    const struct claim *claim = user->claim;
    /* Others' keys take up a quorum, with what this attempt was granted. */
    bool sees_another =
        claim && (claim->was_held | claim->garbled) &&
        rl_count(claim->was_held | claim->voted | claim->garbled) >= world.plan.q;
    bool right = result->took_ms >= 0 && result->took_ms <= passed;
    switch (result->code) {
    case REDLOCK_TIMEOUT:
        right = right && user->options.wait_ms > 0 && user->options.wait_ms <= passed &&
                sees_another;
        break;
    case REDLOCK_TAKEN: right = right && sees_another; break;
    case REDLOCK_DENIED:
        right = right && (world.is_audited ||
                          plan->weight[FAULT_REFUSE] + plan->weight[FAULT_RIGHT] > 0);
        break;
    default: break;
    }
    if (!right)
        oracle_accuse(INVARIANT_TOLD,
                      "client %u: %s after %lld ms, at most %lld by its clock, of %lld",
                      user->client->index + 1, redlock_code_name(result->code),
                      (long long)result->took_ms, (long long)passed,
                      (long long)user->options.wait_ms);
}

void oracle_judge_callback(const struct user *user, enum news news)
{
    if (!is_expected(user, news))
        oracle_accuse(INVARIANT_CALLBACK, "client %u, user %u, news %u",
                      user->client->index + 1, user->index + 1, news);
}

void oracle_judge_result(const struct user *user, enum news news,
                         const redlock_result *result)
{
    judge_numbers(user, news, result);
    if (news == NEWS_FAILED)
        judge_failure(user, result);
    bool of_attempt = news == NEWS_HELD || news == NEWS_FAILED;
    if (!user->claim || strcmp(redlock_token(user->lease), user->claim->token) != 0)
        return; /* nothing was sent in this attempt */
    if (of_attempt && result->code != REDLOCK_CANCELLED &&
        result->code != REDLOCK_NO_MEMORY && result->code != REDLOCK_SYSTEM &&
        user->claim->asked)
        judge_explanation(user);
    if (news == NEWS_FAILED && result->code == REDLOCK_TAKEN)
        judge_remaining(user, result);
    if (news == NEWS_RELEASED)
        judge_release(user, result);
}
