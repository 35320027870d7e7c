/* page.c: HTML, without anything from elsewhere. */
#include "tools/tide/page.h"
#include "tools/tide/quote.h"
#include "runtime/base/text.h"
#include <tide/tide.h>

static const char style[] =
    "body { font: 16px/1.5 sans-serif; color: #222; background: #fff; max-width: 64rem;"
    " margin: 2rem auto; padding: 0 1rem; }\n"
    "h1, h2 { font-weight: 600; line-height: 1.2; }\n"
    "h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; padding-bottom: .3rem; }\n"
    "pre { background: #f4f4f4; padding: .7rem 1rem; white-space: pre-wrap;"
    " overflow-wrap: anywhere; }\n"
    ".table { overflow-x: auto; }\n"
    "table { border-collapse: collapse; font-size: .85rem; white-space: nowrap; }\n"
    "th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #e4e4e4; }\n"
    "th.figure, td.figure { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "figure { margin: 2rem 0; }\n"
    "img { max-width: 100%; height: auto; border: 1px solid #eee; }\n"
    "figcaption { color: #444; }\n"
    ".links { font-size: .85rem; }\n"
    ".trouble { border-left: .3rem solid #d55e00; padding-left: 1rem; }\n";

static void element(FILE *to, const char *open, const char *text, const char *close) {
    fputs(open, to);
    tidei_quote_html(to, text);
    fputs(close, to);
}

void tidei_page_begin(FILE *to, const char *title, const char *command, const char *trouble) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
          to);
    element(to, "<title>", title, "</title>\n");
    fprintf(to, "<style>\n%s</style>\n</head>\n<body>\n", style);
    element(to, "<h1>", title, "</h1>\n");
    element(to, "<pre>", command, "</pre>\n");
    if (trouble) element(to, "<p class=\"trouble\">", trouble, "</p>\n");
}

void tidei_page_end(FILE *to) {
    fprintf(to, "<p class=\"links\">Tidepool %s.</p>\n</body>\n</html>\n", tide_version());
}

void tidei_page_heading(FILE *to, const char *text) { element(to, "<h2>", text, "</h2>\n"); }

void tidei_page_paragraph(FILE *to, const char *text) { element(to, "<p>", text, "</p>\n"); }

void tidei_page_text(FILE *to, const char *text) {
    char line[1024];
    fputs("<pre>", to);
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        tidei_format(line, sizeof line, "%.*s", (int)n, text);
        element(to, "", line, "\n");
    }
    fputs("</pre>\n", to);
}

void tidei_page_table_begin(FILE *to, const char *const *titles, size_t n) {
    fputs("<div class=\"table\">\n<table>\n<tr>", to);
    for (size_t i = 0; i < n; i++)
        element(to, i ? "<th class=\"figure\">" : "<th>", titles[i], "</th>");
    fputs("</tr>\n", to);
}

void tidei_page_row(FILE *to, const tidei_page_cell *cells, size_t n) {
    fputs("<tr>", to);
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "<td%s", cells[i].is_figure ? " class=\"figure\"" : "");
        if (cells[i].columns > 1) fprintf(to, " colspan=\"%d\"", cells[i].columns);
        element(to, ">", cells[i].text, "</td>");
    }
    fputs("</tr>\n", to);
}

void tidei_page_table_end(FILE *to) { fputs("</table>\n</div>\n", to); }

static void link_to(FILE *to, const char *name, const char *suffix, const char *text) {
    fputs("<a href=\"", to);
    tidei_quote_html(to, name);
    tidei_quote_html(to, suffix);
    element(to, "\">", text, "</a>");
}

void tidei_page_picture(FILE *to, const char *name, const char *alt, const char *caption,
                        const char *const *tables, size_t ntables) {
    fputs("<figure>\n<img loading=\"lazy\" src=\"", to);
    tidei_quote_html(to, name);
    element(to, ".svg\" alt=\"", alt, "\">\n");
    element(to, "<figcaption>", caption, "\n<div class=\"links\">");
    link_to(to, name, ".svg", "SVG");
    fputs(", ", to);
    link_to(to, name, ".png", "PNG");
    fputs(", ", to);
    link_to(to, name, ".gp", "script");
    fputs("; data: ", to);
    for (size_t i = 0; i < ntables; i++) {
        if (i) fputs(", ", to);
        link_to(to, tables[i], "", tables[i]);
    }
    fputs("</div></figcaption>\n</figure>\n", to);
}
