/* tide.c: the `tide` command: finds the command that its first argument names, and runs it.
** Exit 0, 1 failed, 2 bad input. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tide/tide.h>
#include <unistd.h>
#include "tools/tide/command.h"

#define FAILED    1
#define BAD_INPUT 2

static const struct command {
    const char *name, *full, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"info", "tide info", "the device, its memory, the environment", tidei_info_command},
    {"replay", "tide replay", "plays recorded allocations against a pool", tidei_replay_command},
    {"study", "tide study", "compares policies of collection in virtual time", tidei_study_command},
};
#define COMMANDS (sizeof commands / sizeof *commands)

/* The command that was named, and its arguments: all behind the name. */
struct chosen {
    const struct command *command;
    char **arguments;
    int count;
};

static error_t choose(int key, char *text, struct argp_state *state) {
    struct chosen *c = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < COMMANDS; i++)
            if (!strcmp(text, commands[i].name)) c->command = &commands[i];
        if (!c->command) argp_error(state, "there is no command '%s'", text);
        c->arguments = state->argv + state->next - 1;
        c->count = state->argc - state->next + 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which command?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *to, struct argp_state *state) {
    (void)state;
    fprintf(to, "tide (Tidepool) %s\n", tide_version());
}

/* The commands, as lines of the help. */
static char *list_commands(int key, const char *text, void *input) {
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) return (char *)(uintptr_t)text;
    char *list = NULL;
    size_t bytes;
    FILE *f = open_memstream(&list, &bytes);
    if (!f) return NULL;
    fprintf(f, "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-24s   %s\n", commands[i].name, commands[i].summary);
    fprintf(f, "\n`tide COMMAND --help' explains the options of a command. Exit status: 0, "
               "1 it failed, 2 bad input.");
    fclose(f);
    return list;
}

/* Says so where standard output has not arrived, as on a full disk, and returns false. */
static bool output_arrives(void) {
    bool lost = ferror(stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !lost) return true;
    fprintf(stderr, "tide: standard output cannot be written%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return false;
}

/* What is written from then on is not ours: shared objects' destructors are called at the end.
** argp leaves by exit once it has shown a help or a version. */
static void end_output(void) {
    if (!output_arrives()) _exit(FAILED);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDOUT_FILENO);
}

int main(int argc, char **argv) {
    const struct argp argp = {.parser = choose,
                              .args_doc = "COMMAND [ARGUMENT...]",
                              .doc = "What a machine offers Tidepool, what a pool makes of a "
                                     "recorded program, and when it is best to collect.\v",
                              .help_filter = list_commands};
    struct chosen c = {0};
    atexit(end_output);
    argp_err_exit_status = BAD_INPUT;
    argp_program_version_hook = print_version;
    /* Without argp's note that what `--limit SIZE` wants, `-l SIZE` wants too; who says how help is
    ** to look says that as well. argp asks no help_filter of ours about it. */
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
    if (argc > 0) argv[0] = (char *)(uintptr_t) "tide"; /* in messages, as "tide info" is */
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &c) != 0) return BAD_INPUT;
    c.arguments[0] = (char *)(uintptr_t)c.command->full;
    int status = c.command->run(c.count, c.arguments);
    end_output(); /* before handlers that shared objects have added */
    return status;
}
