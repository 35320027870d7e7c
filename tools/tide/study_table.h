/* study_table.h: a study's table as texts, for the terminal and for a page. */
#ifndef TIDE_STUDY_TABLE_H
#define TIDE_STUDY_TABLE_H

#include "tools/tide/study.h"

#define TIDEI_STUDY_COLUMNS 12 /* beside the policy's, which comes first */
#define TIDEI_STUDY_CELL    64 /* bytes */
#define TIDEI_STUDY_HEAD    128

typedef struct tidei_study_column {
    const char *title;
    int width; /* characters */
} tidei_study_column;
extern const tidei_study_column tidei_study_columns[TIDEI_STUDY_COLUMNS]; /* the limit is first */

/* A row's texts; of one that lacks its figures the limit's alone, the others are "". */
void tidei_study_cells(const tidei_study_row *r, unsigned seeds,
                       char cells[TIDEI_STUDY_COLUMNS][TIDEI_STUDY_CELL]);
/* "4.00 GiB", "none". Returns buf. */
const char *tidei_study_show_limit(char *buf, size_t cap, uint64_t limit);
/* What is said of a program above its table, behind its name. Returns buf. */
const char *tidei_study_show_program(char *buf, size_t cap, const tidei_lab_program *p);

#endif
