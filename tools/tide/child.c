/* child.c: a child process for code of others; child.h has the model. */
#include "tools/tide/child.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_FACTOR 10 /* a machine that is busy with other things is no endless loop */
#define MEMORY       ((rlim_t)4 << 30) /* that it may take beyond what its parent has */

/* ---- groups that are to end with this process ---- */

#define GROUPS 256 /* children at a time, as crew.c has threads */

static _Atomic pid_t groups[GROUPS]; /* 0: a free place */
static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define SIGNALS (sizeof ending_signals / sizeof *ending_signals)

static void end_groups(int number) {
    for (size_t i = 0; i < GROUPS; i++) {
        pid_t leader = atomic_load(&groups[i]);
        if (leader) kill(-leader, SIGKILL);
    }
    signal(number, SIG_DFL);
    raise(number);
}

/* A terminal's signals reach its foreground group alone. Who ignores one, or has a handler, keeps
** it. */
static void watch_signals(void) {
    struct sigaction a = {.sa_handler = end_groups}, old;
    for (size_t i = 0; i < SIGNALS; i++)
        if (!sigaction(ending_signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(ending_signals[i], &a, NULL);
}

/* Who ignores this signal, as what a supervisor has begun may, is told of no child's end. */
static void hear_of_children(void) {
    struct sigaction now;
    if (!sigaction(SIGCHLD, NULL, &now) && now.sa_handler == SIG_IGN) signal(SIGCHLD, SIG_DFL);
}

/* Its place, or GROUPS: there is none. */
static size_t note_group(pid_t leader) {
    for (size_t i = 0; i < GROUPS; i++) {
        pid_t none = 0;
        if (atomic_compare_exchange_strong(&groups[i], &none, leader)) return i;
    }
    return GROUPS;
}

/* ---- the child ---- */

struct shared {
    volatile int done;
    _Alignas(max_align_t) unsigned char arg[];
};

/* What the kernel counts against RLIMIT_DATA: the sixth number of this file, in pages; 0: nobody
** knows. */
static rlim_t data_bytes(void) {
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    if (fscanf(f, "%*u %*u %*u %*u %*u %llu", &pages) != 1) pages = 0;
    fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* What it writes to standard output is not its parent's, nor is what the parent has written there
** and not yet sent off. */
static void drop_output(void) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDOUT_FILENO);
}

/* It dies of what it does, at once and without a trace, and with its parent. */
static void be_mortal(unsigned seconds) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT, SIGTRAP, SIGALRM,
                                 SIGXCPU, SIGSYS, SIGINT, SIGTERM, SIGHUP,  SIGQUIT};
    const struct rlimit time = {seconds, seconds + 1}, no_core = {0, 0};
    rlim_t data = data_bytes();
    sigset_t none;
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], SIG_DFL);
    signal(SIGTTOU, SIG_IGN); /* it may tell of itself on a terminal that is not its group's */
    signal(SIGTTIN, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &time);
    if (data) setrlimit(RLIMIT_DATA, &(struct rlimit){data + MEMORY, data + MEMORY});
    alarm(CLOCK_FACTOR * seconds);
}

static tidei_child_end ending(int status, int done, unsigned seconds) {
    if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        return signal == SIGXCPU || signal == SIGALRM
                   ? (tidei_child_end){TIDEI_CHILD_SLOW, (int)seconds}
                   : (tidei_child_end){TIDEI_CHILD_SIGNAL, signal};
    }
    return done ? (tidei_child_end){TIDEI_CHILD_DONE, 0}
                : (tidei_child_end){TIDEI_CHILD_EXIT, WEXITSTATUS(status)};
}

/* Waits for its end, which may come by no signal that it can hold off: one that has stopped, or
** ignores the alarm, is late too. Kernels before 5.3 cannot say; there the alarm is all. */
static bool ends_in_time(pid_t child, unsigned seconds) {
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
    struct timespec now, last;
    if (end.fd < 0) return true;
    clock_gettime(CLOCK_MONOTONIC, &last);
    last.tv_sec += CLOCK_FACTOR * (time_t)seconds;
    int n;
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long long left_ms =
            (last.tv_sec - now.tv_sec) * 1000LL + (last.tv_nsec - now.tv_nsec) / 1000000;
        n = poll(&end, 1, left_ms > 0 ? (int)left_ms : 0);
    } while (n < 0 && errno == EINTR);
    close(end.fd);
    return n != 0;
}

/* The child, which runs fn and does not come back; no signal of ours comes before it is noted. */
static pid_t start(void (*fn)(void *arg), struct shared *s, unsigned seconds, size_t *place) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t all, before;
    pid_t parent = getpid();
    pthread_once(&once, watch_signals);
    hear_of_children();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t child = fork();
    if (!child) {
        setpgid(0, 0);
        drop_output();
        be_mortal(seconds);
        if (getppid() != parent) _exit(1);
        fn(s->arg);
        s->done = 1;
        _exit(0);
    }
    *place = GROUPS;
    if (child > 0) {
        setpgid(child, child); /* whoever comes first */
        *place = note_group(child);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return child;
}

/* Ends what it has left in its group; its number is still its own, since nobody has waited for it.
*/
static void end_group(pid_t child, size_t place) {
    siginfo_t end;
    int ended;
    do ended = waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT);
    while (ended < 0 && errno == EINTR);
    if (!ended) kill(-child, SIGKILL);
    if (place < GROUPS) atomic_store(&groups[place], 0);
}

static tidei_child_end run(void (*fn)(void *arg), struct shared *s, unsigned seconds) {
    int status;
    size_t place;
    pid_t child = start(fn, s, seconds, &place);
    if (child < 0) return (tidei_child_end){TIDEI_CHILD_NONE, errno};
    bool late = !ends_in_time(child, seconds);
    if (late) kill(child, SIGKILL);
    end_group(child, place);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return (tidei_child_end){TIDEI_CHILD_NONE, errno};
    return late ? (tidei_child_end){TIDEI_CHILD_SLOW, (int)seconds}
                : ending(status, s->done, seconds);
}

tidei_child_end tidei_child_run(void (*fn)(void *arg), void *arg, size_t bytes, unsigned seconds) {
    size_t all = sizeof(struct shared) + bytes;
    struct shared *s = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) return (tidei_child_end){TIDEI_CHILD_NONE, errno};
    memcpy(s->arg, arg, bytes);
    tidei_child_end e = run(fn, s, seconds);
    if (e.how == TIDEI_CHILD_DONE) memcpy(arg, s->arg, bytes);
    munmap(s, all);
    return e;
}

const char *tidei_child_text(const tidei_child_end *e, char *buf, size_t cap) {
    static const char *const forms[] = {
        [TIDEI_CHILD_DONE] = "%.0d", /* nothing of 0 */
        [TIDEI_CHILD_SIGNAL] = "crashed (signal %d)",
        [TIDEI_CHILD_EXIT] = "ended the process (status %d)",
        [TIDEI_CHILD_SLOW] = "took more than %d s",
        [TIDEI_CHILD_NONE] = "could not be run in a process of its own (errno %d)",
    };
    snprintf(buf, cap, forms[e->how], e->number);
    return buf;
}
