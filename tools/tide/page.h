/* page.h: the page of a folder of pictures, index.html.
**
** Model. Sections are written one after the other, from top to bottom. A picture is the SVG beside
** the page; below it stand what it shows, and links to the PNG, the script and the data. The page
** loads nothing but these.
** What must stay true: whatever a policy, a file or a command is called, it shows as that text. */
#ifndef TIDE_PAGE_H
#define TIDE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TIDEI_PAGE "index.html"

typedef struct tidei_page_cell {
    const char *text;
    int columns;    /* that it goes across; 0: one */
    bool is_figure; /* else a text */
} tidei_page_cell;

/* `trouble`: why there are no pictures, or not all; NULL: all is well. */
void tidei_page_begin(FILE *to, const char *title, const char *command, const char *trouble);
void tidei_page_end(FILE *to);
void tidei_page_heading(FILE *to, const char *text);
void tidei_page_paragraph(FILE *to, const char *text);
void tidei_page_text(FILE *to, const char *text); /* with its lines and blanks as they are */
void tidei_page_table_begin(FILE *to, const char *const *titles, size_t n);
void tidei_page_row(FILE *to, const tidei_page_cell *cells, size_t n);
void tidei_page_table_end(FILE *to);
/* The picture of a file's name without its suffix. `alt` says what is to be seen to who does not
** see it. Then the tables that it was drawn from, by their files' names. */
void tidei_page_picture(FILE *to, const char *name, const char *alt, const char *caption,
                        const char *const *tables, size_t ntables);

#endif
