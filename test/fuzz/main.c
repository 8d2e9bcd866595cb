/* Plays each file of a corpus, without libFuzzer: main FOLDER */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>

#define INPUT_MAX 65536

/* As main() of libFuzzer: the copy ends where the input ends, so that valgrind sees more.
 */
static void play(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *whole = malloc(INPUT_MAX), *data;
    FUZZ_CHECK(file && whole);
    size_t size = fread(whole, 1, INPUT_MAX, file);
    FUZZ_CHECK(!ferror(file) && size < INPUT_MAX);
    data = realloc(whole, size ? size : 1);
    FUZZ_CHECK(data);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    fclose(file);
}

int main(int argc, char **argv)
{
    struct dirent **entry;
    char path[PATH_MAX] = "";
    int count = argc == 2 ? scandir(argv[1], &entry, NULL, alphasort) : -1, played = 0;
    for (int i = 0; i < count; i++) {
        if (entry[i]->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", argv[1], entry[i]->d_name);
            fprintf(stderr, "%s\n", path); /* the last one is the one that fails */
            play(path);
            played++;
        }
        free(entry[i]);
    }
    if (count >= 0)
        free(entry);
    return played > 0 ? 0 : 1;
}
