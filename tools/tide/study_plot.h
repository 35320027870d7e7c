/* study_plot.h: a study's pictures, and the page that shows them.
**
** Model. Of each program there are its rows as a table and two pictures of them, overhead against
** limit, and time against memory with the line of those that nothing beats in both. Of its first
** policies under its first limits there is memory over time: the run with the first seed is played
** once more, with a sink; so a study without pictures pays nothing for them. Of a recording there
** is that of the recorded run too. All data and scripts are written first, then gnuplot draws, and
** last the page is written: so nothing is lost where gnuplot is missing.
** What must stay true: the same study writes the same tables and scripts, byte for byte, on any
** machine and any number of cores. */
#ifndef TIDE_STUDY_PLOT_H
#define TIDE_STUDY_PLOT_H

#include "tools/tide/plot.h"
#include "tools/tide/study.h"

#define TIDEI_STUDY_PLOT_POLICIES 6 /* of which memory over time is drawn */
#define TIDEI_STUDY_PLOT_LIMITS   4

/* Of a study that was run. `command` is how it was asked for. What went wrong first is the error;
** what could be written was. */
tide_status tidei_study_plot(const tidei_study *s, const tidei_plot *plot, const char *command);

#endif
