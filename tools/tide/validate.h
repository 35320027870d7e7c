/* validate.h: `tide study --validate -- PROGRAM ARG...`: whether what the lab predicts of a program
** is what the program does.
**
** Model. The program runs once under `every`, which records exact deaths, and some times under
** `never`, at some multiples of the peak, for how long everything takes where nothing is distorted
** (study_input.h, study_costs.h). From these the lab predicts its runs under some policies and
** limits; it runs under each, some times, recorded too, and the two are compared. All runs but the
** first take turns, so that a machine whose pace changes is the same for all. Overhead is here the
** time in collections and climbs, hidden or not, in percent of the program's own time: both are
** in a recording, so that the processor's changing clock is in neither. A prediction holds if
** collections are within one or 5 % of the mean of the runs, and overhead is within a fifth of it;
** one that is further off, but not by more than half of the mean's 95 % interval, is unsure.
** What must stay true: no process and no file is left behind, also by a signal, which reaches the
** program that runs and then ends this one. */
#ifndef TIDE_VALIDATE_H
#define TIDE_VALIDATE_H

/* argv[0] is "--validate"; what follows are its own options, "--" and the program. Exit 0; 1 a
** prediction is off, or the machine failed; 2 bad input, or a program that fails. */
int tidei_validate(int argc, char **argv);

#endif
