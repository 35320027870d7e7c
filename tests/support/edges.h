/* edges.h: a text between two pages that nobody may read: at the edge of the first one, or with its
** NUL at the other's. So a program stops where it leaves the text, without a sanitizer too. */
#ifndef EDGES_H
#define EDGES_H

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct edges {
    char *map;
    size_t page, room;
} edges;

/* For texts of up to `most` bytes. */
static inline edges edges_open(size_t most) {
    edges e = {.page = (size_t)sysconf(_SC_PAGESIZE)};
    e.room = (most / e.page + 1) * e.page;
    e.map =
        mmap(NULL, e.room + 2 * e.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (e.map == MAP_FAILED || mprotect(e.map, e.page, PROT_NONE) != 0 ||
        mprotect(e.map + e.page + e.room, e.page, PROT_NONE) != 0)
        fail_msg("no memory between two pages");
    return e;
}
static inline void edges_close(edges *e) { munmap(e->map, e->room + 2 * e->page); }

/* n bytes of `text` without a NUL among them, and a NUL. `last`: at the second edge. */
static inline const char *edges_put(edges *e, const char *text, size_t n, bool last) {
    char *at = e->map + e->page + (last ? e->room - n - 1 : 0);
    memcpy(at, text, n);
    at[n] = '\0';
    return at;
}

/* Whether s is UTF-8, as far as lead and continuation bytes fit together. */
static inline bool is_utf8(const char *s) {
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        int tail = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : -1;
        if (tail < 0) return false;
        for (; tail > 0; tail--)
            if (((unsigned char)*++s & 0xc0) != 0x80) return false;
    }
    return true;
}

#endif
