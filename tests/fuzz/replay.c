/* Runs a fuzz target over all files of the folders given: the corpus as an ordinary test. */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FILE_BYTES_MAX = 16 << 20
};

static void closep_file(FILE **f)
{
    if (*f)
        fclose(*f);
}

static void closep_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* Gives the target a copy of exactly the file's size, so that a sanitizer sees an overrun. */
static int replay_file(const char *path)
{
    TM_AUTO(closep_file) FILE *f = fopen(path, "rb");
    TM_AUTO_FREE uint8_t *bytes = malloc(FILE_BYTES_MAX);
    if (!f || !bytes)
        return -EIO;
    size_t len = fread(bytes, 1, FILE_BYTES_MAX, f);
    if (ferror(f) || len == FILE_BYTES_MAX)
        return -EIO;
    TM_AUTO_FREE uint8_t *exact = malloc(len ? len : 1);
    if (!exact)
        return -ENOMEM;
    memcpy(exact, bytes, len);
    LLVMFuzzerTestOneInput(exact, len);
    return 0;
}

/* Returns the number of files, or a negative error. */
static int replay_folder(const char *folder)
{
    TM_AUTO(closep_dir) DIR *dir = opendir(folder);
    if (!dir)
        return -errno;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        printf("%s\n", path);
        fflush(stdout); /* the last line names the file that stopped us */
        int rc = replay_file(path);
        if (rc < 0) {
            fprintf(stderr, "%s: cannot be read\n", path);
            return rc;
        }
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int count = replay_folder(argv[i]);
        if (count <= 0) {
            fprintf(stderr, "%s: no files to replay\n", argv[i]);
            return 1;
        }
        printf("%s: %d files\n", argv[i], count);
    }
    return argc > 1 ? 0 : 2;
}
