/* command.h: the commands of `tide`, each in a file of its own: a row of the table in tide.c. A
** command takes its arguments, the first of which is its full name ("tide info"), reads its options
** by argp, which answers --help, --usage and --version, and returns the exit status. Options may
** stand behind arguments, whatever POSIXLY_CORRECT says (ARGP_IN_ORDER). */
#ifndef TIDE_COMMAND_H
#define TIDE_COMMAND_H

int tidei_info_command(int argc, char **argv);
int tidei_replay_command(int argc, char **argv);
int tidei_study_command(int argc, char **argv);

#endif
