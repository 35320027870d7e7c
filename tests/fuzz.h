/* fuzz.h: programs that feed a parser bytes nobody thought of.
**
** A fuzz program defines tide_fuzz_one. Built with -DTIDE_FUZZER -fsanitize=fuzzer it is a libFuzzer target. Otherwise its
** main replays the files of the folder that it is given, each as it is and with some hundred small damages, the same ones in
** every run, and prints TAP; a crash or a sanitizer's report is the failure. */
#ifndef TIDE_FUZZ_H
#define TIDE_FUZZ_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tide_fuzz_one(const uint8_t *bytes, size_t n);

#ifdef TIDE_FUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    tide_fuzz_one(bytes, n);
    return 0;
}
#else

#define FUZZ_BYTES   4096 /* of an input */
#define FUZZ_DAMAGES 400  /* a file */

static uint64_t fuzz_seed = 88172645463325252u;
static size_t fuzz_below(size_t n) { /* xorshift64 */
    fuzz_seed ^= fuzz_seed << 13;
    fuzz_seed ^= fuzz_seed >> 7;
    fuzz_seed ^= fuzz_seed << 17;
    return (size_t)((fuzz_seed >> 11) % n);
}

/* One to four small damages: a byte changed, some lost, some doubled, the end cut off. */
static size_t fuzz_damage(uint8_t *b, size_t n) {
    static const char telling[] = "(){}[]'\",:.-+*/0123456789LTFaxy <>|=\n";
    for (size_t times = 1 + fuzz_below(4); times && n > 1; times--) {
        size_t at = fuzz_below(n), some = 1 + fuzz_below(n - at < 8 ? n - at : 8);
        switch (fuzz_below(5)) {
        case 0: b[at] ^= (uint8_t)(1u << fuzz_below(8)); break;
        case 1: b[at] = (uint8_t)telling[fuzz_below(sizeof telling - 1)]; break;
        case 2:
            memmove(b + at, b + at + some, n - at - some);
            n -= some;
            break;
        case 3:
            if (n + some > FUZZ_BYTES) break;
            memmove(b + at + some, b + at, n - at);
            n += some;
            break;
        default: n = at + 1;
        }
    }
    return n;
}

static void fuzz_file(const char *path) {
    static uint8_t whole[FUZZ_BYTES], damaged[FUZZ_BYTES];
    FILE *f = fopen(path, "rb");
    if (!f) return;
    size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    tide_fuzz_one(whole, n);
    for (int i = 0; i < FUZZ_DAMAGES; i++) {
        memcpy(damaged, whole, n);
        tide_fuzz_one(damaged, fuzz_damage(damaged, n));
    }
}

int main(int argc, char **argv) {
    int files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
            char path[1024];
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            fuzz_file(path);
            files++;
        }
        if (d) closedir(d);
    }
    printf("1..1\n%s 1 - %d files, each with %d damages\n", files ? "ok" : "not ok", files, FUZZ_DAMAGES);
    return files ? 0 : 1;
}
#endif
#endif
