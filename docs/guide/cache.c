/* Makes a page from a source, once for all processes: cache SOURCE PAGE redis://a ... */
#include <fcntl.h>
#include <redlock/sync.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *source, *page;

/* A page has the time of the source that it was made from. */
static bool is_fresh(void)
{
    struct stat a, b;
    return stat(source, &a) == 0 && stat(page, &b) == 0 &&
           a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

/* This takes long. The time is that of the source before it was read. */
static bool copy(int in, int out)
{
    struct stat of;
    bool ok = fstat(in, &of) == 0;
    for (ssize_t size = 1; ok && size > 0; ok = size >= 0)
        size = sendfile(out, in, NULL, 1 << 20);
    return ok && futimens(out, (struct timespec[]){of.st_atim, of.st_mtim}) == 0;
}

/* Called while the lock is held. The rename makes the page appear as a whole. */
static int make(redlock_hold *hold, void *draft)
{
    if (is_fresh()) /* another process was first */
        return 0;
    int in = open(source, O_RDONLY), out = open(draft, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    bool made = copy(in, out) && !redlock_hold_lost(hold) && rename(draft, page) == 0;
    close(in);
    close(out);
    unlink(draft); /* fails if it was renamed */
    return made ? 1 : -1;
}

int main(int argc, char **argv)
{
    char draft[4096];
    redlock_sync *nodes;
    int result = 0;
    if (argc < 4 ||
        redlock_sync_new((const char *const *)argv + 3, (size_t)argc - 3, NULL, &nodes))
        return fputs("usage: cache SOURCE PAGE redis://a ...\n", stderr), 64;
    source = argv[1], page = argv[2];
    snprintf(draft, sizeof(draft), "%s.%d", page, getpid());
    if (!is_fresh() && redlock_single_flight(nodes, page, strlen(page), 60000, NULL, make,
                                             draft, &result, NULL) != REDLOCK_OK)
        result = -1;
    redlock_sync_free(nodes);
    puts(result < 0 ? "there is no fresh page" : result ? "made" : "found");
    return result < 0;
}
