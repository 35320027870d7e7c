/* pictures.c: writing the scripts. */
#include "tools/tide/pictures.h"
#include "tools/tide/page.h"
#include "tools/tide/quote.h"
#include "runtime/base/text.h"
#include <inttypes.h>
#include <math.h>

#define WIDTH         960
#define HEIGHT        480
#define LINE_HEIGHT   19  /* of a legend */
#define MARKS_MOST    300 /* of one kind, each drawn by itself */
#define WIDE_LIMIT    3   /* a limit that is so many times what is held would flatten the picture */
#define FAR_APART     4   /* memory that differs by that is on a logarithmic scale */
#define NEAR_ZERO     1.0 /* percent: below it a scale of many powers of ten is nearly linear */
#define MANY_FOR_BARS 200.0
#define MANY_POWERS   20.0 /* percent: beyond it the scale has powers of ten */

/* blue, vermilion, green, orange, purple, sky, black */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#E69F00",
                                      "#CC79A7", "#56B4E9", "#000000"};
static const int marks[] = {7, 5, 9, 13, 11, 6, 4, 8, 12, 10}; /* gnuplot's numbers */

/* ---- units ---- */

struct unit {
    const char *name;
    double by;
};

static struct unit unit_of(const struct unit *table, size_t n, double most, double enough) {
    size_t i = n - 1;
    while (i && most < enough * table[i].by) i--;
    return table[i];
}

static struct unit byte_unit(uint64_t most) {
    static const struct unit table[] = {
        {"bytes", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    return unit_of(table, TIDEI_COUNT(table), (double)most, 4);
}

static struct unit time_unit(uint64_t most) {
    static const struct unit table[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    return unit_of(table, TIDEI_COUNT(table), (double)most, 4);
}

/* ---- what all scripts have ---- */

static void begin(FILE *to, const char *name, int height) {
    fprintf(to,
            "# Draws %s.svg and %s.png: gnuplot %s.gp\n"
            "set encoding utf8\n"
            "do for [form in 'svg png'] {\n"
            "reset\n"
            "if (form eq 'svg') {\n"
            "set terminal svg noenhanced size %d,%d font 'sans-serif,14' background '#ffffff'\n"
            "} else {\n"
            "set terminal pngcairo noenhanced size %d,%d fontscale 2 linewidth 2 pointscale 2 "
            "font 'sans,10' background '#ffffff'\n"
            "}\n"
            "set output '%s.'.form\n",
            name, name, name, WIDTH, height, 2 * WIDTH, 2 * height, name);
    fputs("set datafile separator tab\n"
          "set border 3 linecolor '#666666'\n"
          "set tics nomirror out textcolor '#333333'\n"
          "set grid ytics linecolor '#dddddd' linetype 1 linewidth 0.5\n"
          "set key Left reverse noenhanced textcolor '#333333'\n",
          to);
}

static void end(FILE *to) { fputs("unset output\n}\n", to); }

static void title(FILE *to, const char *text, double y) {
    fputs("set label 1 ", to);
    tidei_quote_gnuplot(to, text);
    fprintf(to, " at screen 0.02,%g left noenhanced textcolor '#000000'\n", y);
}

/* ---- memory over time ---- */

/* Each as wide as it was long; where there are many, a stroke for each column that has some. */
static void write_lane(FILE *to, const tidei_picture_memory *x, double ns, int kind) {
    static const char *const lane_colours[] = {"#009E73", "#D55E00", "#CC79A7"};
    static const char *const words[] = {"collection", "forced", "stall"};
    const char *colour = lane_colours[kind];
    int lane = TIDEI_MARKS - kind;
    if (x->timeline->counts[kind] > MARKS_MOST)
        fprintf(to,
                ", '%s.tsv' skip 1 using ($%d > 0 ? $1/%.9g : NaN):(%d.0-0.33):(0):(0.66) with "
                "vectors nohead linecolor '%s' linewidth 0.8 notitle",
                x->name, 7 + kind, ns, lane, colour);
    else if (x->timeline->counts[kind])
        fprintf(to,
                ", '%s-events.tsv' skip 1 using (stringcolumn(3) eq '%s' ? $1/%.9g : NaN):(%d.0):"
                "($1/%.9g):($2/%.9g):(%d.0-0.33):(%d.0+0.33) with boxxyerror "
                "linecolor '%s' linewidth 0.8 fillstyle solid border linecolor '%s' notitle",
                x->name, words[kind], ns, lane, ns, ns, lane, lane, colour, colour);
}

static void write_lanes(FILE *to, const tidei_picture_memory *x, struct unit time) {
    const size_t *n = x->timeline->counts;
    fprintf(to,
            "unset label 1\nunset key\nunset ylabel\nunset grid\n"
            "set border 1 linecolor '#666666'\n"
            "set tmargin at screen 0.27\nset bmargin at screen 0.13\n"
            "set yrange [0.5:3.5]\nset format x '%%g'\nset xlabel 'time (%s)' textcolor '#333333'\n"
            "set ytics scale 0 ('%s: %zu' 3, 'forced: %zu' 2, 'stalls: %zu' 1)\n",
            time.name, x->is_recorded ? "early" : "policy", n[TIDEI_MARK_COLLECTED],
            n[TIDEI_MARK_FORCED], n[TIDEI_MARK_STALLED]);
    fputs("plot 1.5 with lines linecolor '#dddddd' linewidth 0.5 notitle, "
          "2.5 with lines linecolor '#dddddd' linewidth 0.5 notitle",
          to);
    for (int kind = 0; kind < TIDEI_MARKS; kind++) write_lane(to, x, time.by, kind);
    fputc('\n', to);
}

/* What lies between the least and the most of each column, and its edges; `low` and the one behind
** it are their numbers in the table. */
static void write_band(FILE *to, const char *name, double ns, double bytes, int low,
                       const char *colour, const char *fill, const char *label) {
    fprintf(to,
            ", '%s.tsv' skip 1 using ($1/%.9g):($%d/%.9g):($%d/%.9g) with filledcurves "
            "linecolor '%s' notitle",
            name, ns, low, bytes, low + 1, bytes, fill);
    for (int edge = 0; edge < 2; edge++)
        fprintf(to,
                ", '%s.tsv' skip 1 using ($1/%.9g):($%d/%.9g) with lines linecolor '%s' "
                "linewidth 0.8 title '%s'",
                name, ns, low + edge, bytes, colour, edge ? label : "");
}

static void write_series(FILE *to, const tidei_picture_memory *x, struct unit time,
                         struct unit bytes, bool shows_limit) {
    double ns = time.by, b = bytes.by;
    fprintf(to,
            "plot '%s.tsv' skip 1 using ($1/%.9g):($4/%.9g) with filledcurves y1=0 "
            "linecolor '#dcebf5' notitle",
            x->name, ns, b);
    write_band(to, x->name, ns, b, 4, "#0072B2", "#8fc1e0", x->is_recorded ? "allocated" : "held");
    if (!x->is_recorded) {
        write_band(to, x->name, ns, b, 2, "#E69F00", "#f4d79b", "live");
        fprintf(to,
                ", '%s.tsv' skip 1 using ($1/%.9g):($6/%.9g) with lines linecolor '#777777' "
                "dashtype 3 title 'taken from the device'",
                x->name, ns, b);
    }
    if (shows_limit)
        fprintf(to, ", %.9g with lines linecolor '#000000' dashtype 2 title 'limit'",
                (double)x->limit / b);
    fputc('\n', to);
}

static void write_memory(const tidei_picture_memory *x, FILE *to) {
    const tidei_timeline *t = x->timeline;
    uint64_t peak = t->peak_held ? t->peak_held : 1;
    bool shows_limit = x->limit / WIDE_LIMIT < peak;
    uint64_t top = shows_limit && x->limit > peak ? x->limit : peak;
    struct unit bytes = byte_unit(top), time = time_unit(t->last_ns);
    begin(to, x->name, HEIGHT);
    title(to, x->title, 0.955);
    fprintf(to,
            "set multiplot\nset lmargin at screen 0.12\nset rmargin at screen 0.97\n"
            "set tmargin at screen 0.85\nset bmargin at screen 0.32\n"
            "set key at screen 0.97,0.915 right horizontal maxrows 1 samplen 2 width -2\n"
            "set xrange [0:%.9g]\nset yrange [0:%.9g]\nset format x ''\n"
            "set ylabel 'memory (%s)' textcolor '#333333'\n"
            "set xtics textcolor '#333333'\n",
            (double)(t->last_ns ? t->last_ns : 1) / time.by, 1.06 * (double)top / bytes.by,
            bytes.name);
    write_series(to, x, time, bytes, shows_limit);
    write_lanes(to, x, time);
    fputs("unset multiplot\n", to);
    end(to);
}

static tide_status save_table(const tidei_plot *p, const tidei_picture_memory *x, const char *end,
                              void (*write)(const tidei_timeline *t, FILE *to)) {
    char file[TIDEI_PLOT_NAME];
    tidei_format(file, sizeof file, "%s%s", x->name, end);
    FILE *f = tidei_plot_create(p, file);
    if (!f) return tide_error_last()->status;
    write(x->timeline, f);
    return tidei_plot_finish(p, f, file);
}

tide_status tidei_picture_memory_save(const tidei_picture_memory *x, const tidei_plot *p) {
    tide_status status = save_table(p, x, ".tsv", tidei_timeline_write_columns);
    if (status == TIDE_OK) status = save_table(p, x, "-events.tsv", tidei_timeline_write_marks);
    FILE *f = status == TIDE_OK ? tidei_plot_script(p, x->name) : NULL;
    if (!f) return tide_error_last()->status;
    write_memory(x, f);
    return tidei_plot_finish_script(p, f, x->name);
}

void tidei_picture_memory_facts(const tidei_picture_memory *x, char *buf, size_t cap) {
    char peak[32];
    const tidei_timeline *t = x->timeline;
    const size_t *n = t->counts;
    size_t all = n[TIDEI_MARK_COLLECTED] + n[TIDEI_MARK_FORCED];
    tidei_format(buf, cap,
                 "%s: %zu collection%s, %zu of them forced; %zu stall%s; at most %s %s; %.3f s.",
                 x->title, all, all == 1 ? "" : "s", n[TIDEI_MARK_FORCED], n[TIDEI_MARK_STALLED],
                 n[TIDEI_MARK_STALLED] == 1 ? "" : "s",
                 tidei_format_bytes(peak, sizeof peak, t->peak_held, 2),
                 x->is_recorded ? "allocated" : "held", (double)t->last_ns / 1e9);
}

void tidei_picture_memory_page(FILE *to, const char *name, const char *facts) {
    char table[TIDEI_PLOT_NAME], events[TIDEI_PLOT_NAME], alt[2 * TIDEI_PICTURE_FACTS];
    const char *tables[] = {table, events};
    tidei_format(table, sizeof table, "%s.tsv", name);
    tidei_format(events, sizeof events, "%s-events.tsv", name);
    tidei_format(alt, sizeof alt, "Memory over time of %s", facts);
    tidei_page_picture(to, name, alt, facts, tables, TIDEI_COUNT(tables));
}

/* ---- rows ---- */

static int height_of(const tidei_picture_rows *x) {
    int wanted = 120 + LINE_HEIGHT * (int)x->npolicies;
    return wanted > HEIGHT ? wanted : HEIGHT;
}

/* Overheads go from nothing to thousands of percent. A bar's length should be in proportion as long
** as that can be. */
static bool has_powers(const tidei_picture_rows *x) {
    return x->most > (x->nlimits == 1 ? MANY_FOR_BARS : MANY_POWERS);
}

static void scale(FILE *to, const tidei_picture_rows *x, const char *axis) {
    fprintf(to, "set %slabel '%s%s' textcolor '#333333'\n", axis,
            x->nlimits == 1 && *axis == 'x' ? "% of the time when freed by hand" : "overhead (%)",
            has_powers(x) ? ", logarithmic scale" : "");
    if (!has_powers(x)) {
        if (x->most < NEAR_ZERO) fprintf(to, "set %srange [*:%g<*]\n", axis, NEAR_ZERO);
        fprintf(to, "set autoscale %sfix\n", axis);
        return;
    }
    fprintf(to,
            "set nonlinear %s via asinh(%s/%g) inverse %g*sinh(%s)\n"
            "set %stics (-1, 0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 100000, 1000000)\n",
            axis, axis, NEAR_ZERO, NEAR_ZERO, axis, axis);
}

static void style(FILE *to, size_t k) {
    fprintf(to, "linecolor '%s' dashtype %zu pointtype %d pointsize 0.8",
            colours[k % TIDEI_COUNT(colours)], 1 + k / TIDEI_COUNT(colours) % 5,
            marks[(k + k / TIDEI_COUNT(colours)) % TIDEI_COUNT(marks)]);
}

static void title_of(FILE *to, const char *text) {
    fputs(" title ", to);
    tidei_quote_gnuplot(to, text);
}

/* Bars: the overhead, and behind it what collections took, hidden by device work or not. */
static void write_bars(const tidei_picture_rows *x, FILE *to) {
    fputs("set key outside top right horizontal\nset grid xtics noytics linecolor '#dddddd' "
          "linetype 1 linewidth 0.5\nset offsets 0, graph 0.04, 0, 0\nset ytics scale 0 (",
          to);
    for (size_t k = 0; k < x->npolicies; k++) {
        if (k) fputs(", ", to);
        tidei_quote_gnuplot(to, x->policies[k]);
        fprintf(to, " %zu", k);
    }
    fprintf(to, ")\nset yrange [%zu.6:-0.6]\n", x->npolicies - 1);
    fprintf(to,
            "plot '%s' skip 1 using 9:3:(0):9:($3-0.36):($3+0.36) with boxxyerror "
            "fillstyle solid noborder linecolor '#cfe3f1' title 'time in collections', "
            "'' skip 1 using 7:3:(0):7:($3-0.2):($3+0.2) with boxxyerror "
            "fillstyle solid noborder linecolor '#0072B2' title 'overhead'",
            x->table);
    if (x->has_interval)
        fprintf(to, ", '' skip 1 using 7:3:8 with xerrorbars pointtype 0 linecolor '#000000' "
                    "notitle");
    fputc('\n', to);
}

static void write_lines(const tidei_picture_rows *x, FILE *to) {
    fprintf(to,
            "set xrange [-0.3:%zu.3]\nset offsets 0, 0, graph 0.04, graph 0.04\n"
            "set key outside right top\n",
            x->nlimits - 1);
    fprintf(to, "set xlabel 'limit' textcolor '#333333'\nset xtics %s(",
            x->nlimits > 8 ? "rotate by -45 " : "");
    for (size_t l = 0; l < x->nlimits; l++) {
        if (l) fputs(", ", to);
        tidei_quote_gnuplot(to, x->limits[l]);
        fprintf(to, " %zu", l);
    }
    fputs(")\nplot ", to);
    for (size_t k = 0; k < x->npolicies; k++) {
        size_t first = k * x->nlimits;
        fprintf(to, "%s'%s' skip 1 every ::%zu::%zu using 1:7%s with %s ", k ? ", " : "", x->table,
                first, first + x->nlimits - 1, x->has_interval ? ":8" : "",
                x->has_interval ? "yerrorlines" : "linespoints");
        style(to, k);
        title_of(to, x->policies[k]);
    }
    fputc('\n', to);
}

void tidei_picture_overhead_write(const tidei_picture_rows *x, FILE *to) {
    int height = height_of(x);
    bool bars = x->nlimits == 1;
    begin(to, x->name, height);
    title(to, x->title, 1 - 22.0 / height);
    fprintf(to, "set tmargin at screen %.4f\n", 1 - 64.0 / height);
    scale(to, x, bars ? "x" : "y");
    if (bars)
        write_bars(x, to);
    else
        write_lines(x, to);
    end(to);
}

void tidei_picture_pareto_write(const tidei_picture_rows *x, const char *best, FILE *to) {
    int height = height_of(x);
    struct unit bytes = byte_unit(x->most_held);
    begin(to, x->name, height);
    title(to, x->title, 1 - 22.0 / height);
    fprintf(to,
            "set tmargin at screen %.4f\nset key outside right top\n"
            "set xlabel 'mean memory held (%s)' textcolor '#333333'\n"
            "set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05\nlast = ''\n%s",
            1 - 64.0 / height, bytes.name,
            x->most_held / FAR_APART >= x->least_held ? "set logscale x 2\n" : "");
    scale(to, x, "y");
    fprintf(to,
            "plot '%s' skip 1 using ($1/%.9g):2 with steps linecolor '#999999' linewidth 2 "
            "title 'nothing is better in both'",
            best, bytes.by);
    for (size_t k = 0; k < x->npolicies; k++) {
        size_t first = k * x->nlimits;
        fprintf(to, ", '%s' skip 1 every ::%zu::%zu using ($19/%.9g):7 with points ", x->table,
                first, first + x->nlimits - 1, bytes.by);
        style(to, k);
        title_of(to, x->policies[k]);
    }
    if (x->nlimits > 1)
        fprintf(to,
                ", '%s' skip 1 using ($1/%.9g):2:(stringcolumn(4) eq last ? '' : (last = "
                "stringcolumn(4))) with labels left offset 0.7,0.6 noenhanced "
                "textcolor '#555555' notitle",
                best, bytes.by);
    fputc('\n', to);
    end(to);
}
