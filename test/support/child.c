#include "child.h"

#include <criterion/criterion.h>
#include <sys/wait.h>

void child_expect(pid_t child)
{
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "the child was killed: %x", (unsigned)status);
    cr_assert_eq(WEXITSTATUS(status), 0, "check %d failed in the child",
                 WEXITSTATUS(status));
}
