/* replay_plot.h: the picture of a recorded run, and the page that shows it beside the figures of
** its replay. */
#ifndef TIDE_REPLAY_PLOT_H
#define TIDE_REPLAY_PLOT_H

#include "tools/tide/plot.h"
#include "tools/tide/timeline.h"

/* Of a recording that `t` was told, called `file`. `command` is how it was asked for, `figures`
** what was printed. What went wrong first is the error; what could be written was. */
tide_status tidei_replay_plot(const tidei_plot *plot, const tidei_timeline *t, const char *file,
                              const char *command, const char *figures);

#endif
