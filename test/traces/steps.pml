/* Reads the steps of many runs from a file that play.py has written: STEPS in the environment
   names it. Of them only the one that is played is in spin's states. */
c_code {
\#include <stdio.h>
\#include <stdlib.h>
\#define RUNS  2000
\#define STEPS 2000000

struct { char what; int value[7]; } steps[STEPS];
unsigned first[RUNS + 1], furthest[RUNS], runs;

static void tell_runs(void)
{
    for (unsigned run = 0; run < runs; run++)
        printf("run %u: %u of %u\n", run, furthest[run] - first[run], first[run + 1] - first[run]);
}

static unsigned read_steps(void)
{
    FILE *file = fopen(getenv("STEPS"), "r");
    unsigned count = 0;
    char what;
    while (file && count < STEPS && runs < RUNS && fscanf(file, " %c", &what) == 1) {
        for (unsigned i = 0; i < 7; i++)
            if (fscanf(file, "%d", &steps[count].value[i]) != 1)
                return 0;
        steps[count].what = what;
        if (what == ';') /* the end of a run */
            first[++runs] = count;
        else
            count++;
    }
    for (unsigned run = 0; run < runs; run++)
        furthest[run] = first[run];
    atexit(tell_runs);
    return runs;
}
}

int run_of, runs_there;
int at;
/* The fields of a step: play.py. */
byte what, attempt, client, node;
int nodes, more;
bit command, done;

inline choose_run()
{
    c_code { now.runs_there = read_steps(); };
    do
    :: run_of + 1 < runs_there -> run_of++
    :: run_of < runs_there -> break
    od;
    c_code { now.at = first[now.run_of]; }
}

inline next()
{
    c_expr { now.at < first[now.run_of + 1] };
    c_code {
        now.what = steps[now.at].what;
        now.attempt = steps[now.at].value[0];
        now.client = steps[now.at].value[1];
        now.node = steps[now.at].value[2];
        now.nodes = steps[now.at].value[3];
        now.command = steps[now.at].value[4];
        now.done = steps[now.at].value[5];
        now.more = steps[now.at].value[6];
    }
}

inline played()
{
    at++;
    c_code {
        if (now.at > furthest[now.run_of])
            furthest[now.run_of] = now.at;
    }
}
