/* study_input.h: what a study plays: a workload of the lab's, or a trace as a program.
**
** Model of a trace. One thread makes and drops the blocks, and waits at the sync points. Between
** two rows it computes; how long it waits at a sync point rows tell, or else it is the time behind
** it. The device is busy all the time up to the end of that wait: its work is queued as the host
** goes along, evenly, so that it is behind by ever more until the host waits for it. A step ends at
** each sync point. A block dies when the recording says that it became unreachable, else by its
** free. Collections and climbs of the recorded run are left out of the program's time, but not of
** the device's, which worked meanwhile if the host still had to wait afterwards. What collections
** took, and what new memory costs on the device, become the program's model (study_costs.h) where
** the recording tells of them.
** A recording of exact deaths has many collections, behind whose pauses the device's work hides. So
** other recordings of the same program may say how long everything took; deaths stay where they
** are among the program's makings and sync points. */
#ifndef TIDE_STUDY_INPUT_H
#define TIDE_STUDY_INPUT_H

#include "gc/lab/program.h"
#include "tools/tide/study_costs.h"

/* A workload's name, or a trace's path, which stays the caller's and becomes the program's name.
** What cannot be read is the trace reader's error; TIDE_E_INVALID: an empty trace. */
tide_status tidei_study_load(const char *name, tidei_lab_program *out);
/* The program of a trace that was read with times. `timed` (may be NULL) are n groups of runs of
** the same program, each with at least one: what collections and climbs took is
** theirs (study_costs.h), and so is the time, that of the median run of group `of`, where all have
** made the same blocks and waited at the same places; *same says whether. */
tide_status tidei_study_convert(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                                size_t of, const char *name, tidei_lab_program *out, bool *same);

#endif
