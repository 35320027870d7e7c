/* replay_plot.c: one picture and its page. */
#include "tools/tide/replay_plot.h"
#include "tools/tide/page.h"
#include "tools/tide/pictures.h"
#include "runtime/base/text.h"

#define OP    "tide replay"
#define NAME  "recording"
#define TITLE 256
#define WHY   1024 /* bytes of an error */

static tide_status write_page(const tidei_plot *plot, const char *command, const char *figures,
                              const char *facts, const char *trouble) {
    FILE *f = tidei_plot_create(plot, TIDEI_PAGE);
    if (!f) return tide_error_last()->status;
    tidei_page_begin(f, OP, command, trouble);
    tidei_page_text(f, figures);
    tidei_page_paragraph(
        f, "The picture is of the run as it was recorded; the figures above are those of its "
           "replay. The filled area is what was allocated. Below it, each bar is a collection "
           "that was asked for early, one that an allocation forced, or a stall, from the first "
           "step of the climb to its end, and is as wide as that was long.");
    tidei_picture_memory_page(f, NAME, facts);
    tidei_page_end(f);
    return tidei_plot_finish(plot, f, TIDEI_PAGE);
}

tide_status tidei_replay_plot(const tidei_plot *plot, const tidei_timeline *t, const char *file,
                              const char *command, const char *figures) {
    char title[TITLE], facts[TIDEI_PICTURE_FACTS], why[WHY] = "";
    const tidei_picture_memory x = {
        .name = NAME, .title = title, .timeline = t, .limit = UINT64_MAX, .is_recorded = true};
    const char *slash = strrchr(file, '/');
    tidei_format(title, sizeof title, "%s as it was recorded", slash ? slash + 1 : file);
    tidei_picture_memory_facts(&x, facts, sizeof facts);
    tide_status status = tidei_picture_memory_save(&x, plot);
    if (status == TIDE_OK) status = tidei_plot_draw(plot, NAME);
    if (status != TIDE_OK) tidei_format(why, sizeof why, "%s", tide_error_last()->message);
    tide_status page = write_page(plot, command, figures, facts, *why ? why : NULL);
    return status == TIDE_OK ? page : tidei_fail(status, OP, "%s", why);
}
