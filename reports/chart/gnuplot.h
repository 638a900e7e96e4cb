/*
 * Plots by gnuplot. A plot is a data file NAME.csv and a script NAME.gp, both kept, so that it can
 * be redrawn; gnuplot then runs as a child process and makes NAME.svg and NAME.png.
 */
#ifndef LK_REPORTS_CHART_GNUPLOT_H
#define LK_REPORTS_CHART_GNUPLOT_H

#include "base/file.h"
#include "base/status.h"

/* A plot being written: two files in one directory. */
struct lk_gnuplot {
    char *dir, *name;
    struct lk_writer *data, *script;
    double width, height; /* of the picture, in pixels */
};

/* Start NAME.csv and NAME.gp in dir (which is made); fills *out, which lk_gnuplot_fini frees. */
enum lk_status lk_gnuplot_init(struct lk_gnuplot *out, const char *dir, const char *name,
                               double width, double height);
/*
 * Commit both files and run gnuplot on the script once for each terminal. The script refers to the
 * data file by its name alone and sets neither terminal nor output. LK_EUNSUPPORTED when there is
 * no gnuplot: the two files are written all the same.
 */
enum lk_status lk_gnuplot_finish(struct lk_gnuplot *g);
void lk_gnuplot_fini(
    struct lk_gnuplot *g); /* safe on a zeroed plot; abandons what is not committed */

/*
 * Write text as a gnuplot string: single quotes around it (in double quotes gnuplot would execute
 * text in backquotes), quotes inside doubled, line breaks by concatenation.
 */
enum lk_status lk_gnuplot_quote(struct lk_writer *w, const char *text);

/* The colours of all plots, dark to light; safe for the colour-blind (Okabe and Ito, 2008). */
#define LK_COLOR_BLACK  "#000000"
#define LK_COLOR_BLUE   "#0072B2"
#define LK_COLOR_SKY    "#56B4E9"
#define LK_COLOR_GREEN  "#009E73"
#define LK_COLOR_ORANGE "#E69F00"
#define LK_COLOR_RED    "#D55E00"
#define LK_COLOR_PINK   "#CC79A7"
#define LK_COLOR_GRAY   "#999999"

#endif
