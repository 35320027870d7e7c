/* plot.c: the folder of pictures, and gnuplot as a child. */
#include "tools/tide/plot.h"
#include "tools/tide/quote.h"
#include "runtime/base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_MOST  600 /* bytes of gnuplot's message */
#define TAIL_BYTES 16

/* ---- the folder ---- */

static tide_status refused(const tidei_plot *p, const char *name, const char *what, int error) {
    return tidei_fail(TIDE_E_IO, p->op, "%s%s%s: cannot be %s: %s", p->dir, *name ? "/" : "", name,
                      what, tidei_errno_text(error));
}

tide_status tidei_plot_open(tidei_plot *p, const char *op, const char *dir) {
    *p = (tidei_plot){op, dir, -1};
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) return refused(p, "", "made", errno);
    p->folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->folder < 0) return refused(p, "", "opened as a folder", errno);
    if (faccessat(p->folder, ".", W_OK | X_OK, 0) == 0) return TIDE_OK;
    tide_status status = refused(p, "", "written to", errno);
    tidei_plot_close(p);
    return status;
}

void tidei_plot_close(tidei_plot *p) {
    if (p->folder >= 0) close(p->folder);
    p->folder = -1;
}

FILE *tidei_plot_create(const tidei_plot *p, const char *name) {
    int fd = openat(p->folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f) return f;
    (void)refused(p, name, "opened for writing", errno);
    if (fd >= 0) close(fd);
    return NULL;
}

tide_status tidei_plot_finish(const tidei_plot *p, FILE *f, const char *name) {
    errno = 0;
    bool wrong = fflush(f) != 0 || ferror(f);
    int error = errno;
    if (fclose(f) == 0 && !wrong) return TIDE_OK;
    return refused(p, name, "written", wrong && error ? error : errno ? errno : EIO);
}

static const char *file_of(char *buf, const char *name, const char *suffix) {
    tidei_format(buf, TIDEI_PLOT_NAME, "%s.%s", name, suffix);
    return buf;
}

FILE *tidei_plot_script(const tidei_plot *p, const char *name) {
    static const char *const suffixes[] = {"svg", "png"};
    char file[TIDEI_PLOT_NAME];
    for (size_t i = 0; i < TIDEI_COUNT(suffixes); i++)
        if (unlinkat(p->folder, file_of(file, name, suffixes[i]), 0) != 0 && errno != ENOENT)
            return (void)refused(p, file, "removed", errno), NULL;
    return tidei_plot_create(p, file_of(file, name, "gp"));
}

tide_status tidei_plot_finish_script(const tidei_plot *p, FILE *f, const char *name) {
    char file[TIDEI_PLOT_NAME];
    return tidei_plot_finish(p, f, file_of(file, name, "gp"));
}

/* ---- gnuplot ---- */

/* What the child has to say: of gnuplot by `said`; why there is none by `lost`, an errno. */
struct pipes {
    int said[2], lost[2];
};

static bool open_pipes(struct pipes *x) {
    if (pipe2(x->said, O_CLOEXEC) != 0) return false;
    if (pipe2(x->lost, O_CLOEXEC) == 0) return true;
    int error = errno;
    close(x->said[0]);
    close(x->said[1]);
    errno = error;
    return false;
}

/* In the child, which may be a fork of many threads: nothing here takes a lock or memory. A user's
** settings (-d: not read) are no part of a picture, nor is a locale. */
static void become_gnuplot(const tidei_plot *p, const struct pipes *x, char *script,
                           char *const *env) {
    char *argv[] = {(char[]){"gnuplot"}, (char[]){"-d"}, script, NULL};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0 && dup2(nothing, 0) == 0 && dup2(nothing, 1) == 1 &&
        dup2(x->said[1], 2) == 2 && fchdir(p->folder) == 0)
        execvpe("gnuplot", argv, env);
    int error = errno;
    ssize_t n = write(x->lost[1], &error, sizeof error);
    _exit(n == sizeof error ? 1 : 2);
}

/* All that is said, of which `cap` is kept, as one line. */
static void hear(int fd, char *text, size_t cap) {
    char piece[256];
    size_t n = 0;
    for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0 || (got < 0 && errno == EINTR);)
        for (ssize_t i = 0; i < got && n + 1 < cap; i++) {
            char c = piece[i] == '\n' ? ' ' : piece[i];
            if (c != ' ' || (n && text[n - 1] != ' ')) text[n++] = c;
        }
    while (n && text[n - 1] == ' ') n--;
    text[n] = 0;
}

static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return status;
}

static tide_status missing(const tidei_plot *p, int error) {
    if (error != ENOENT)
        return tidei_fail(TIDE_E_UNSUPPORTED, p->op, "gnuplot cannot be run: %s",
                          tidei_errno_text(error));
    return tidei_fail(TIDE_E_UNSUPPORTED, p->op,
                      "there is no gnuplot, which draws the pictures: install the package "
                      "gnuplot-nox, and run `gnuplot *.gp` in %s, which has the data and the "
                      "scripts",
                      p->dir);
}

/* gnuplot may end well though a disk was full: a picture that is whole has its end. */
static bool is_whole(const tidei_plot *p, const char *name, const char *suffix, const char *tail) {
    char file[TIDEI_PLOT_NAME], end[TAIL_BYTES + 1] = "";
    int fd = openat(p->folder, file_of(file, name, suffix), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = lseek(fd, -TAIL_BYTES, SEEK_END) < 0 ? 0 : read(fd, end, TAIL_BYTES);
    close(fd);
    return n > 0 && memmem(end, (size_t)n, tail, strlen(tail)) != NULL;
}

static tide_status judge(const tidei_plot *p, const char *name, int ending, const char *said) {
    if (ending == 0 && is_whole(p, name, "svg", "</svg>") && is_whole(p, name, "png", "IEND"))
        return TIDE_OK;
    return tidei_fail(TIDE_E_UNSUPPORTED, p->op, "gnuplot could not draw %s/%s.gp: %s", p->dir,
                      name,
                      *said         ? said
                      : ending == 0 ? "a picture is cut short"
                                    : "it ended without a message");
}

/* The parent's side. */
static tide_status watch(const tidei_plot *p, const char *name, pid_t child,
                         const struct pipes *x) {
    char said[SAID_MOST] = "";
    int error = 0;
    hear(x->said[0], said, sizeof said);
    bool lost = read(x->lost[0], &error, sizeof error) == sizeof error;
    int ending = wait_for(child);
    return lost ? missing(p, error) : judge(p, name, ending, said);
}

/* The environment with the C locale. NULL: host memory is exhausted. */
static char **plain_environment(void) {
    static char locale[] = "LC_ALL=C.UTF-8";
    size_t n = 0, k = 0;
    while (environ[n]) n++;
    char **env = tidei_host_take(NULL, (n + 2) * sizeof *env);
    if (!env) return NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LC_ALL=", strlen("LC_ALL=")) != 0) env[k++] = environ[i];
    env[k++] = locale;
    env[k] = NULL;
    return env;
}

static tide_status run(const tidei_plot *p, const char *name, char **env) {
    char script[TIDEI_PLOT_NAME];
    struct pipes x;
    (void)file_of(script, name, "gp");
    if (!open_pipes(&x)) return missing(p, errno);
    pid_t child = fork();
    int error = errno;
    if (child == 0) become_gnuplot(p, &x, script, env);
    close(x.said[1]);
    close(x.lost[1]);
    tide_status status = child < 0 ? missing(p, error) : watch(p, name, child, &x);
    close(x.said[0]);
    close(x.lost[0]);
    return status;
}

tide_status tidei_plot_draw(const tidei_plot *p, const char *name) {
    char **env = plain_environment();
    if (!env) return tidei_fail_host_memory(p->op, sizeof env);
    tide_status status = run(p, name, env);
    tidei_host_free(NULL, env);
    return status;
}

/* ---- the command ---- */

/* The first word is two, "tide study", and needs no quotes. */
char *tidei_plot_command(int argc, char *const *argv) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    fputs(argv[0], f);
    for (int i = 1; i < argc; i++) {
        fputc(' ', f);
        tidei_quote_shell(f, argv[i]);
    }
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}
