/* tmorph: the command line. Each subcommand is a file of its own. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "compute/vulkan.h"
#include "core/blob_http.h"
#include "fs/mount.h"
#include "fs/version.h"
#include "tools/cmd.h"

static const tm_cmd *const commands[] = {
    &tm_cmd_mount, &tm_cmd_umount, &tm_cmd_ls,    &tm_cmd_cat,
    &tm_cmd_info,  &tm_cmd_index,  &tm_cmd_query,
};

int tm_complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("tmorph: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return TM_EXIT_FAILURE;
}

int tm_usage_error(const tm_cmd *cmd, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "tmorph %s: ", cmd->name);
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\nusage: tmorph %s %s\n", cmd->name, cmd->usage);
    va_end(args);
    return TM_EXIT_FAILURE;
}

int tm_close_stdout(int exit_code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    return tm_complain("cannot write: %s", strerror(errno));
}

int tm_print_help(const tm_cmd *cmd)
{
    printf("usage: tmorph %s %s\n\n%s\n", cmd->name, cmd->usage, cmd->words);
    if (cmd->help)
        printf("\n%s", cmd->help);
    return tm_close_stdout(TM_EXIT_GOOD);
}

static int print_overview(void)
{
    printf("tmorph shows model weights as files: checkpoints of any size as folders of tensors.\n\n"
           "usage: tmorph COMMAND [ARGUMENT ...]\n\n");
    for (size_t i = 0; i < TM_ARRAY_LEN(commands); i++)
        printf("  %-7s %s\n", commands[i]->name, commands[i]->words);
    printf("\n'tmorph COMMAND --help' tells more; so does the manual page tmorph(1).\n"
           "exit status: 0 good, 1 findings, 2 usage or failure\n");
    return tm_close_stdout(TM_EXIT_GOOD);
}

static const char *yes(bool is)
{
    return is ? "yes" : "no";
}

static int print_version(void)
{
    printf("tmorph %s\nmount: %s, http: %s, vulkan: %s\n", TM_VERSION, yes(tm_mount_is_built()),
           yes(tm_blob_http_is_built()), yes(tm_vulkan_is_built()));
    return tm_close_stdout(TM_EXIT_GOOD);
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* mount(8) and /etc/fstab call `tmorph SOURCE MNT -o …`. */
static bool is_fstab_call(int argc, char **argv)
{
    return argc >= 3 && argv[1][0] != '-' && (strchr(argv[1], '/') || access(argv[1], F_OK) == 0);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: tmorph COMMAND [ARGUMENT ...]; 'tmorph --help' lists commands\n");
        return TM_EXIT_FAILURE;
    }
    if (is_help(argv[1]) || strcmp(argv[1], "help") == 0)
        return print_overview();
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return print_version();
    for (size_t i = 0; i < TM_ARRAY_LEN(commands); i++) {
        const tm_cmd *cmd = commands[i];
        if (strcmp(argv[1], cmd->name) != 0)
            continue;
        if (argc == 3 && is_help(argv[2]))
            return tm_print_help(cmd);
        return cmd->run(cmd, argc - 1, argv + 1);
    }
    if (is_fstab_call(argc, argv))
        return tm_cmd_mount.run(&tm_cmd_mount, argc, argv);
    return tm_complain("no command '%s'; 'tmorph --help' lists them", argv[1]);
}
