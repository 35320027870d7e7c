/* plot.h: a folder of pictures: its files, and gnuplot, which draws.
**
** Model. A picture NAME is a script NAME.gp beside its data; gnuplot, a child process in that
** folder, makes NAME.svg and NAME.png of it. Whoever wants another picture changes the script and
** runs `gnuplot NAME.gp` there. The folder is made where there is none; files of the same names are
** written over, others stay.
** What must stay true: no file is taken for written before the system has taken all of it, and no
** picture for drawn whose end is not there. Several threads may use one. */
#ifndef TIDE_PLOT_H
#define TIDE_PLOT_H

#include "runtime/base/base.h"
#include <stdio.h>

typedef struct tidei_plot {
    const char *op, *dir; /* who draws, for messages; the folder as it was named */
    int folder;           /* open */
} tidei_plot;

#define TIDEI_PLOT_NAME 128 /* bytes of a file's name */

/* TIDE_E_IO: the folder cannot be made or opened, or not be written to. */
tide_status tidei_plot_open(tidei_plot *p, const char *op, const char *dir);
void tidei_plot_close(tidei_plot *p);

/* A file to be written, NULL: TIDE_E_IO; and its end, TIDE_E_IO where not all was taken. */
FILE *tidei_plot_create(const tidei_plot *p, const char *name);
tide_status tidei_plot_finish(const tidei_plot *p, FILE *f, const char *name);

/* The script of a picture, to be written; an older picture is gone from then on. */
FILE *tidei_plot_script(const tidei_plot *p, const char *name);
tide_status tidei_plot_finish_script(const tidei_plot *p, FILE *f, const char *name);
/* Draws NAME.svg and NAME.png. TIDE_E_UNSUPPORTED: there is no gnuplot, or it failed, with what it
** said. */
tide_status tidei_plot_draw(const tidei_plot *p, const char *name);

/* A command as one may type it again, for the page. The caller frees it; NULL: host memory is
** exhausted. */
char *tidei_plot_command(int argc, char *const *argv);

#endif
