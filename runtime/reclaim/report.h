/* report.h: the out-of-memory report of a climb, or of a request that could not begin one. */
#ifndef TIDEI_REPORT_H
#define TIDEI_REPORT_H

#include "runtime/reclaim/rung.h"

/* Sets and returns TIDE_E_NOMEM, or where the host's memory is lacking TIDE_E_HOST_NOMEM. The
** thread's error is still that of the last attempt, whose words the report repeats. */
tide_status tidei_climb_report(const tidei_climb *c);

#endif
