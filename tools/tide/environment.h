/* environment.h: what Tidepool makes of the environment. */
#ifndef TIDE_ENVIRONMENT_H
#define TIDE_ENVIRONMENT_H

/* `tide info --env`: a row for each variable that is read, and for each one called TIDE_... that
** nobody reads: its value, its origin and the verdict. 1 where a verdict is bad. Changes the
** environment. */
int tidei_environment_command(void);

#endif
