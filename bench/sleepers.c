/*
 * N processes that sleep until this one ends: sleepers N. Prints "ready" when they sleep.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int wanted = argc > 1 ? atoi(argv[1]) : 0;
    pid_t self = getpid();
    setpgid(0, 0);
    for (int i = 0; i < wanted; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return EXIT_FAILURE;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == self)
                pause();
            _exit(EXIT_SUCCESS);
        }
    }
    puts("ready");
    fflush(stdout);
    (void)getchar(); /* the end of file */
    signal(SIGTERM, SIG_IGN);
    signal(SIGCHLD, SIG_IGN); /* the kernel reaps them, and wait() returns after the last */
    kill(0, SIGTERM);
    wait(NULL);
    return EXIT_SUCCESS;
}
