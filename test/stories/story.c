/*
 * story FILE: plays a story and compares; story -w FILE: plays it and writes it again.
 *
 * A story is prose with steps in it. A step is a line "120 ms  EVENT; OUTCOME": the event
 * is executed, and the outcome is what the machines did, so the file is the script and the
 * expectation in one. Timers that are due before a step run, and are shown if they had an
 * effect. "with 5 nodes, ttl 10000 ms" begins a story anew.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 400
#define LINE_MAX_ 512
#define TICKS_MAX 10000 /* before one step */

struct text {
    char *line[LINES_MAX];
    size_t lines;
};

static struct world world;
static struct text shown_story;
static const char *where = "";

static void fail(const char *why, const char *what)
{
    fprintf(stderr, "%s: %s\n", why, what);
    exit(2);
}

static void add_line(const char *line)
{
    if (shown_story.lines == LINES_MAX)
        fail("too long a story", where);
    shown_story.line[shown_story.lines++] = strdup(line);
}

/* --- the beginning --- */

static rl_time number_after(const char *text, const char *word, rl_time otherwise)
{
    const char *at = strstr(text, word);
    return at ? strtoll(at + strlen(word), NULL, 10) : otherwise;
}

static void begin(const char *line)
{
    memset(&world, 0, sizeof(world));
    unsigned n = (unsigned)number_after(line, "with ", 5);
    world.params = (struct rl_lease_params){
        .n = (uint8_t)n,
        .q = (uint8_t)number_after(line, "quorum ", rl_majority(n)),
        .ttl = number_after(line, "ttl ", 10000) * RL_MS,
        .margin = number_after(line, "margin ", 0) * RL_MS,
        .min_validity = number_after(line, "least validity ", 0) * RL_MS,
        .extend_every = number_after(line, "extended every ", 0) * RL_MS,
        .max_hold = RL_NEVER,
        .node_timeout = number_after(line, "timeout ", 0) * RL_MS,
        .drift_ppm = 10000,
    };
    if (strstr(line, "held at most "))
        world.params.max_hold = number_after(line, "held at most ", 0) * RL_MS;
    world.link_params = (struct rl_link_params){
        .connect_timeout = RL_SECOND,
        .node_timeout = world.params.node_timeout,
        .quarantine = number_after(line, "quarantine ", 60000) * RL_MS,
    };
    world_init(&world);
    world_greet_all(&world);
}

/* --- events --- */

/* Reads "node 1 " or "nodes 1 2 3 "; what follows is the verb. */
static rl_node_set read_nodes(const char **text)
{
    rl_node_set nodes = 0;
    if (strncmp(*text, "node", 4) != 0)
        return 0;
    *text += strcspn(*text, " ") + 1;
    while (**text >= '0' && **text <= '9') {
        char *end;
        unsigned long node = strtoul(*text, &end, 10);
        if (node < 1 || node > world.params.n)
            fail("no such node", where);
        nodes |= rl_bit((unsigned)node - 1);
        *text = end + (*end == ' ');
    }
    return nodes;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The word of a reply, and the command to which it replies. */
static const struct {
    const char *verb;
    enum rl_command text;
    enum rl_vote vote;
} answers[] = {
    {"grant", RL_CMD_ACQUIRE, RL_VOTE_GRANTED},
    {"refuse", RL_CMD_ACQUIRE, RL_VOTE_HELD},
    {"extend", RL_CMD_EXTEND, RL_VOTE_GRANTED},
    {"recreate", RL_CMD_EXTEND, RL_VOTE_RECREATED},
    {"lost it", RL_CMD_EXTEND, RL_VOTE_GONE},
    {"has another's key", RL_CMD_EXTEND, RL_VOTE_HELD},
    {"have another's key", RL_CMD_EXTEND, RL_VOTE_HELD},
    {"delete", RL_CMD_RELEASE, RL_VOTE_GRANTED},
    {"had nothing", RL_CMD_RELEASE, RL_VOTE_GONE},
    {"found another's key", RL_CMD_RELEASE, RL_VOTE_HELD},
};

static void answer(unsigned node, const char *verb)
{
    if (starts(verb, "fail")) {
        const char *error = strstr(verb, "with ");
        enum rl_fault fault =
            error ? rl_fault_of_error(error + 5, strcspn(error + 5, " ,;")) : RL_FAULT_ERR;
        if (!world_reply(&world, node, RL_VOTE_ERROR, fault, -1))
            fail("it has no pending command", where);
        return;
    }
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        if (!starts(verb, answers[i].verb))
            continue;
        int32_t pttl = (int32_t)number_after(verb, "for ", -1);
        if (!world_answer(&world, node, answers[i].text, answers[i].vote, RL_FAULT_NONE,
                          pttl))
            fail("its oldest command is another", where);
        return;
    }
    fail("unknown verb of a node", where);
}

static void greet(unsigned node, const char *verb)
{
    struct rl_identity identity = {
        .is_master = !strstr(verb, "replica"),
        .is_cluster = strstr(verb, "cluster"),
        .is_duplicate = strstr(verb, "twice"),
    };
    if (!world_greet(&world, node, identity))
        fail("it has no connection attempt", where);
}

static void node_does(unsigned node, const char *verb)
{
    if (starts(verb, "is cut off") || starts(verb, "are cut off")) {
        world_cut(&world, node);
    } else if (starts(verb, "restart")) {
        world.node[node].letter++;
        world_cut(&world, node);
    } else if (starts(verb, "is greeted") || starts(verb, "are greeted")) {
        greet(node, verb);
    } else {
        answer(node, verb);
    }
}

static void we_do(const char *verb)
{
    struct rl_lease_event event = {0};
    if (starts(verb, "acquire"))
        event.type = RL_EVENT_START;
    else if (starts(verb, "join the queue"))
        event.type = RL_EVENT_ENQUEUE;
    else if (starts(verb, "extend"))
        event.type = RL_EVENT_EXTEND;
    else if (starts(verb, "release") || starts(verb, "cancel"))
        event.type = RL_EVENT_RELEASE;
    else if (starts(verb, "adopt"))
        event.type = RL_EVENT_ADOPT;
    else if (starts(verb, "disown"))
        event.type = RL_EVENT_DISOWN;
    else if (starts(verb, "wake"))
        event.type = RL_EVENT_EXPIRE;
    else
        fail("unknown verb", where);
    event.ttl = number_after(verb, "to ", 0) * RL_MS;
    event.deadline = number_after(verb, "until ", 0) * RL_MS;
    world_step(&world, event);
}

static void add_step(const char *event)
{
    char line[4 * LINE_MAX_];
    snprintf(line, sizeof(line), "%9lld ms  %s%s%s", (long long)(world.view.now / RL_MS),
             event, *world.outcome ? "; " : "", world.outcome);
    add_line(line);
}

/* "120 ms  EVENT; OUTCOME"; the outcome is not read. */
static void step(const char *line, rl_time now)
{
    static const char timer[] = "time passes";
    char event[LINE_MAX_];
    snprintf(event, sizeof(event), "%s", strstr(line, " ms  ") + 5);
    event[strcspn(event, ";")] = '\0';
    bool passes = strcmp(event, timer) == 0;
    bool stopped = starts(event, "we wake"); /* the process stood still: no timer ran */
    bool shown = false;
    unsigned ticks = 0;
    while (!stopped && world_tick(&world, passes ? now : now - 1)) {
        if (++ticks > TICKS_MAX)
            fail("the timers never end", where);
        if (*world.outcome) {
            add_step(timer);
            shown = world.view.now == now;
        }
    }
    world_at(&world, now);
    const char *verb = event;
    rl_node_set nodes = read_nodes(&verb);
    for (rl_node_set rest = nodes; rest; rest &= rest - 1)
        node_does(rl_first(rest), verb);
    if (starts(event, "we "))
        we_do(event + 3);
    else if (!nodes && !passes)
        fail("unknown subject", where);
    world_done(&world);
    if (!passes || !shown)
        add_step(event);
}

/* --- files --- */

static struct text read_text(const char *path)
{
    struct text text = {0};
    char line[LINE_MAX_];
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot read", path);
    while (fgets(line, sizeof(line), file) && text.lines < LINES_MAX) {
        line[strcspn(line, "\n")] = '\0';
        text.line[text.lines++] = strdup(line);
    }
    fclose(file);
    return text;
}

static void play(const struct text *text)
{
    for (size_t i = 0; i < text->lines; i++) {
        char *end;
        where = text->line[i];
        rl_time now = strtoll(where, &end, 10);
        if (end != where && starts(end, " ms  ")) {
            step(where, now * RL_MS);
            continue;
        }
        if (starts(where, "    with "))
            begin(where);
        add_line(where);
    }
}

/* The longest common subsequence, walked from the front. */
static void print_diff(const struct text *old, const struct text *new)
{
    static unsigned short common[LINES_MAX + 1][LINES_MAX + 1];
    for (size_t i = old->lines; i-- > 0;)
        for (size_t j = new->lines; j-- > 0;)
            common[i][j] = strcmp(old->line[i], new->line[j]) == 0
                               ? common[i + 1][j + 1] + 1
                           : common[i + 1][j] > common[i][j + 1] ? common[i + 1][j]
                                                                 : common[i][j + 1];
    for (size_t i = 0, j = 0; i < old->lines || j < new->lines;) {
        bool more_old = i < old->lines, more_new = j < new->lines;
        if (more_old && more_new && strcmp(old->line[i], new->line[j]) == 0) {
            printf("  %s\n", old->line[i++]);
            j++;
        } else if (more_old && (!more_new || common[i + 1][j] >= common[i][j + 1])) {
            printf("- %s\n", old->line[i++]);
        } else {
            printf("+ %s\n", new->line[j++]);
        }
    }
}

static bool same(const struct text *a, const struct text *b)
{
    if (a->lines != b->lines)
        return false;
    for (size_t i = 0; i < a->lines; i++)
        if (strcmp(a->line[i], b->line[i]) != 0)
            return false;
    return true;
}

static void write_text(const char *path, const struct text *text)
{
    FILE *file = fopen(path, "w");
    if (!file)
        fail("cannot write", path);
    for (size_t i = 0; i < text->lines; i++)
        fprintf(file, "%s\n", text->line[i]);
    fclose(file);
}

static void forget(struct text *text)
{
    while (text->lines > 0)
        free(text->line[--text->lines]);
}

int main(int argc, char **argv)
{
    bool anew = argc == 3 && strcmp(argv[1], "-w") == 0;
    if (argc != 2 && !anew)
        fail("usage", "story [-w] FILE");
    struct text golden = read_text(argv[argc - 1]);
    play(&golden);
    bool equal = same(&golden, &shown_story);
    if (anew)
        write_text(argv[2], &shown_story);
    else if (!equal)
        print_diff(&golden, &shown_story);
    forget(&golden);
    forget(&shown_story);
    return equal || anew ? 0 : 1;
}
