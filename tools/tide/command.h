/* command.h: the commands of `tide`, each in a file of its own. They take the arguments behind
** their name and return the exit status. */
#ifndef TIDE_COMMAND_H
#define TIDE_COMMAND_H

#include <stdio.h>

int tidei_usage(FILE *to, int status); /* prints it, and returns the status */
extern const char tidei_replay_usage[];
int tidei_replay_command(int argc, char **argv);

#endif
