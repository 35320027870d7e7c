/* pictures.h: the scripts of our pictures, for gnuplot.
**
** Model. A script reads tables that lie beside it and draws the same picture twice, as SVG and PNG.
** Names of tables are those that tidei_quote_file makes; titles may be any text. Colours are those
** of Okabe and Ito, which colour-blind people tell apart; where there are more lines than colours,
** marks and dashes differ too. */
#ifndef TIDE_PICTURES_H
#define TIDE_PICTURES_H

#include "tools/tide/plot.h"
#include "tools/tide/timeline.h"

/* Memory over time: NAME.tsv has the columns, NAME-events.tsv the marks. */
typedef struct tidei_picture_memory {
    const char *name, *title;
    const tidei_timeline *timeline;
    uint64_t limit;   /* UINT64_MAX: none */
    bool is_recorded; /* nobody knows what lived, and what was backed */
} tidei_picture_memory;
/* Writes the script and both tables. */
tide_status tidei_picture_memory_save(const tidei_picture_memory *x, const tidei_plot *p);
/* What is to be seen, as a sentence; and the picture on a page, with that below it. */
#define TIDEI_PICTURE_FACTS 1024 /* bytes */
void tidei_picture_memory_facts(const tidei_picture_memory *x, char *buf, size_t cap);
void tidei_picture_memory_page(FILE *to, const char *name, const char *facts);

/* Of a table of rows (study_plot.c writes it), `nlimits` of each policy one after the other. */
typedef struct tidei_picture_rows {
    const char *name, *table, *title;            /* of the picture; the table's file */
    const char *const *policies, *const *limits; /* texts; limits from the lowest on */
    size_t npolicies, nlimits;
    double most; /* overhead of all, percent */
    uint64_t least_held, most_held;
    bool has_interval; /* there are several seeds */
} tidei_picture_rows;
/* A line of each policy; bars where there is one limit. */
void tidei_picture_overhead_write(const tidei_picture_rows *x, FILE *to);
/* A point of each row, and the line of those that none beats in both; `best` is their table. */
void tidei_picture_pareto_write(const tidei_picture_rows *x, const char *best, FILE *to);

#endif
