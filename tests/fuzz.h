/* fuzz.h: programs that feed parsers with random bytes.
**
** A fuzz program defines tide_fuzz_one, and may define before how many mutations its test takes.
** Built with -DTIDE_FUZZER and -fsanitize=fuzzer (meson's option fuzz; tools/fuzz.sh) it is a
** libFuzzer target. Otherwise its main takes
**   folders      a corpus: every file as it is, beginnings of it, then mutations of them all
**   *.dict       a dictionary in libFuzzer's form, whose words the mutations use
**   other files  inputs to look at again: they are run as they are, and nothing else is
** and prints TAP. Mutations are the same in every run: TIDE_TEST_FUZZ says how many, TIDE_TEST_SEED
** which. An input at which the program ends is kept in the working folder as crash-PROGRAM.
**
** An input lies in memory of its own size, so that a sanitizer sees whoever reads beyond it. */
#ifndef TIDE_FUZZ_H
#define TIDE_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FUZZ_RUNS
/* mutations: a few seconds of a processor; under sanitizers an eighth of them */
#define FUZZ_RUNS 10000
#endif
#define FUZZ_BYTES 4096 /* of an input */

static void tide_fuzz_one(const uint8_t *bytes, size_t n);

/* Where the bytes are UTF-8, with no code point longer than need be, and no surrogate. */
/* its bytes; 0: there is none */
static inline size_t fuzz_utf8_character(const uint8_t *b, size_t n) {
    size_t more = b[0] < 0x80 ? 0 : b[0] >= 0xC2 && b[0] < 0xE0 ? 1 : (b[0] & 0xF0) == 0xE0 ? 2 : 3;
    uint32_t v = more == 0 ? b[0] : b[0] & (0x3Fu >> more);
    if ((b[0] >= 0x80 && b[0] < 0xC2) || b[0] > 0xF4 || more >= n) return 0;
    for (size_t i = 1; i <= more; i++) {
        if ((b[i] & 0xC0) != 0x80) return 0;
        v = v << 6 | (b[i] & 0x3Fu);
    }
    if ((more == 2 && (v < 0x800 || (v >= 0xD800 && v < 0xE000))) ||
        (more == 3 && (v < 0x10000 || v > 0x10FFFF)))
        return 0;
    return more + 1;
}
static inline int fuzz_is_utf8(const char *text) {
    const uint8_t *b = (const uint8_t *)text;
    for (size_t n = strlen(text), some; n; b += some, n -= some)
        if (!(some = fuzz_utf8_character(b, n))) return 0;
    return 1;
}

/* What an input decides beside its text: byte after byte, and where there are no more, numbers that
** depend on all of it. */
typedef struct fuzz_choices {
    const uint8_t *at, *end;
    uint32_t more;
} fuzz_choices;
static inline fuzz_choices fuzz_choices_of(const uint8_t *bytes, size_t n) {
    fuzz_choices c = {bytes, bytes + n, 2166136261u}; /* FNV-1a */
    for (size_t i = 0; i < n; i++) c.more = (c.more ^ bytes[i]) * 16777619u;
    return c;
}
/* below n, which is at most 256 */
static inline unsigned fuzz_choose(fuzz_choices *c, unsigned n) {
    c->more = c->more * 1664525u + 1013904223u;
    return (c->at < c->end ? *c->at++ : c->more >> 24) % n;
}
/* The bytes up to the first NUL as a text of their own (to be freed); the choices are those behind
** it. */
static inline char *fuzz_text(const uint8_t *bytes, size_t n, fuzz_choices *c) {
    const uint8_t *nul = n ? memchr(bytes, 0, n) : NULL;
    size_t length = nul ? (size_t)(nul - bytes) : n;
    char *text = malloc(length + 1);
    if (!text) abort();
    if (length) memcpy(text, bytes, length);
    text[length] = '\0';
    *c = fuzz_choices_of(bytes, n);
    c->at += length + (nul != NULL);
    return text;
}

#ifdef TIDE_FUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    tide_fuzz_one(bytes, n);
    return 0;
}
#else

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* ---- the input at work, and its end ---- */

static const uint8_t *fuzz_input;
static size_t fuzz_input_bytes;
static char fuzz_kept[300] = "crash-";

static void fuzz_keep(int signal_number) {
    static const char told[] = "\nthe input is kept: ";
    int fd = open(fuzz_kept, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fuzz_input && fd >= 0 &&
        write(fd, fuzz_input, fuzz_input_bytes) == (ssize_t)fuzz_input_bytes &&
        write(2, told, sizeof told - 1) > 0 && write(2, fuzz_kept, strlen(fuzz_kept)) > 0 &&
        write(2, "\n", 1) > 0)
        close(fd);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void fuzz_begin(const char *program) {
    const char *slash = strrchr(program, '/');
    strncat(fuzz_kept, slash ? slash + 1 : program, sizeof fuzz_kept - strlen(fuzz_kept) - 1);
    signal(SIGABRT, fuzz_keep); /* which a sanitizer's report ends in, too */
    signal(SIGTERM, fuzz_keep); /* it took too long */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    static const int others[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) signal(others[i], fuzz_keep);
#endif
}

static void fuzz_run(const uint8_t *bytes, size_t n) {
    uint8_t *own = malloc(n + !n);
    if (!own) abort();
    if (n) memcpy(own, bytes, n);
    fuzz_input = own;
    fuzz_input_bytes = n;
    tide_fuzz_one(own, n);
    fuzz_input = NULL;
    free(own);
}

/* ---- corpus and dictionary ---- */

typedef struct fuzz_piece {
    char *name; /* of the file, NULL: a word */
    uint8_t *bytes;
    size_t n;
} fuzz_piece;
typedef struct fuzz_list {
    fuzz_piece *all;
    size_t n;
} fuzz_list;
static fuzz_list fuzz_corpus, fuzz_words;

static void fuzz_add(fuzz_list *l, const char *name, const uint8_t *bytes, size_t n) {
    fuzz_piece p = {.name = name ? strdup(name) : NULL, .bytes = malloc(n + !n), .n = n};
    l->all = realloc(l->all, (l->n + 1) * sizeof *l->all);
    if (!l->all || !p.bytes || (name && !p.name)) abort();
    if (n) memcpy(p.bytes, bytes, n);
    l->all[l->n++] = p;
}
static void fuzz_clear(fuzz_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->all[i].name);
        free(l->all[i].bytes);
    }
    free(l->all);
    *l = (fuzz_list){NULL, 0};
}

static size_t fuzz_read(const char *path, uint8_t *out) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    size_t n = fread(out, 1, FUZZ_BYTES, f);
    fclose(f);
    return n;
}

static int fuzz_by_name(const void *a, const void *b) {
    return strcmp(((const fuzz_piece *)a)->name, ((const fuzz_piece *)b)->name);
}

/* In the order of their names: a folder has them in any. */
static void fuzz_add_folder(DIR *d, const char *folder) {
    uint8_t bytes[FUZZ_BYTES];
    char path[1024];
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        fuzz_add(&fuzz_corpus, path, bytes, fuzz_read(path, bytes));
    }
    qsort(fuzz_corpus.all, fuzz_corpus.n, sizeof *fuzz_corpus.all, fuzz_by_name);
}

/* The word of a line name="word" or "word", with \\, \" and \xAB in it; its bytes, 0: none. */
static size_t fuzz_word(const char *line, uint8_t *out) {
    const char *s = strchr(line, '"');
    size_t n = 0;
    if (line[0] == '#' || !s) return 0;
    for (s++; *s && *s != '"' && n < FUZZ_BYTES; n++) {
        unsigned hex;
        if (s[0] == '\\' && s[1] == 'x' && sscanf(s + 2, "%2x", &hex) == 1) {
            out[n] = (uint8_t)hex;
            s += 4;
        } else {
            s += *s == '\\';
            out[n] = (uint8_t)*s++;
        }
    }
    return *s == '"' ? n : 0;
}

static void fuzz_add_dictionary(const char *path) {
    char line[FUZZ_BYTES];
    uint8_t word[FUZZ_BYTES];
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        exit(1);
    }
    while (fgets(line, sizeof line, f)) {
        size_t n = fuzz_word(line, word);
        if (n) fuzz_add(&fuzz_words, NULL, word, n);
    }
    fclose(f);
}

/* ---- mutations ---- */

static uint64_t fuzz_seed = 88172645463325252u;
static size_t fuzz_below(size_t n) { /* xorshift64 */
    fuzz_seed ^= fuzz_seed << 13;
    fuzz_seed ^= fuzz_seed >> 7;
    fuzz_seed ^= fuzz_seed << 17;
    return (size_t)((fuzz_seed >> 11) % n);
}

/* Characters of several bytes, of which some are a space, a digit or a sign somewhere; then what is
** no UTF-8: halves of characters, longer forms than need be, a surrogate, other encodings; then
** numbers as other countries write them. */
static const char *const fuzz_awkward[] = {"\xC3\xA9",
                                           "\xC2\xA0",
                                           "\xE2\x80\xA8",
                                           "\xF0\x9F\x98\x80",
                                           "\xE2\x88\x92",
                                           "\xD9\xA3",
                                           "\xC4\xB1",
                                           "\xEF\xBB\xBF",
                                           "e\xCC\x81",
                                           "\xC2\x85",
                                           "\xF4\x8F\xBF\xBF",
                                           "\x80",
                                           "\xBF\xBF\xBF",
                                           "\xC3",
                                           "\xE2\x88",
                                           "\xF0\x9F\x98",
                                           "\xC0\xAF",
                                           "\xE0\x80\xAF",
                                           "\xF0\x80\x80\xAF",
                                           "\xED\xA0\x80",
                                           "\xF4\x90\x80\x80",
                                           "\xF8\x88\x80",
                                           "\xE9",
                                           "\xA0",
                                           "\xFE\xFF",
                                           "1,5",
                                           "1.234,5",
                                           "1'000",
                                           "0,5e3",
                                           "1\xC2\xA0"
                                           "000"};
static const char *const fuzz_numbers[] = {
    "0",          "1",         "-1",   "2",     "3",     "4",     "7",        "8",
    "9",          "16",        "17",   "32",    "33",    "63",    "64",       "65",
    "127",        "128",       "255",  "256",   "32767", "65536", "16777217", "2147483647",
    "4294967296", "1e9",       "1e38", "1e308", "1e309", "1e-45", "1e-320",   "0.1",
    "0x7f",       "007",       "1e",   ".",     "1.",    "-0",    "-0.0",     "9223372036854775807",
    "1e400",      "1000000000"};
static const char *const fuzz_numbers_long[] = {"9223372036854775808",  "-9223372036854775808",
                                                "-9223372036854775809", "18446744073709551615",
                                                "18446744073709551616", "99999999999999999999999",
                                                "0xffffffffffffffff",   "1e99999999999"};
#define FUZZ_COUNT(a)      (sizeof(a) / sizeof *(a))
#define FUZZ_ONE_OF(texts) ((const uint8_t *)(texts)[fuzz_below(FUZZ_COUNT(texts))])

typedef struct fuzz_buffer {
    uint8_t b[FUZZ_BYTES];
    size_t n;
} fuzz_buffer;

static size_t fuzz_least(size_t a, size_t b) { return a < b ? a : b; }

/* `some` bytes at `at` become `n` others, as far as there is room. */
static void fuzz_put(fuzz_buffer *x, size_t at, size_t some, const uint8_t *from, size_t n) {
    some = fuzz_least(some, x->n - at);
    n = fuzz_least(n, FUZZ_BYTES - (x->n - some));
    memmove(x->b + at + n, x->b + at + some, x->n - at - some);
    if (n) memmove(x->b + at, from, n); /* which may be where it goes */
    x->n = x->n - some + n;
}
static void fuzz_put_text(fuzz_buffer *x, size_t at, size_t some, const uint8_t *text) {
    fuzz_put(x, at, some, text, strlen((const char *)text));
}

/* The digits at or behind `at`; 0: none. */
static size_t fuzz_find_digits(const fuzz_buffer *x, size_t *at) {
    size_t n = 0;
    while (*at < x->n && (x->b[*at] < '0' || x->b[*at] > '9')) ++*at;
    while (*at + n < x->n && x->b[*at + n] >= '0' && x->b[*at + n] <= '9') n++;
    return n;
}

/* Some of what is there once more, often enough to be too much for somebody. */
static void fuzz_repeat(fuzz_buffer *x, size_t at, size_t some) {
    uint8_t piece[16];
    some = fuzz_least(fuzz_least(some, sizeof piece), x->n - at);
    memcpy(piece, x->b + at, some);
    for (size_t times = 1u << fuzz_below(10); times && x->n + some <= FUZZ_BYTES; times--)
        fuzz_put(x, at, 0, piece, some);
}

/* A number as it lies in memory, in a byte to eight. */
static void fuzz_put_binary(fuzz_buffer *x, size_t at) {
    uint64_t v = fuzz_below(3) ? (uint64_t)1 << fuzz_below(64) : 0;
    v += (uint64_t)fuzz_below(5) - 2;
    size_t width = (size_t)1 << fuzz_below(4);
    fuzz_put(x, at, width, (const uint8_t *)&v, width);
}

/* Many continuation bytes. */
static void fuzz_put_continued(fuzz_buffer *x, size_t at) {
    uint8_t run[128];
    size_t n = 1 + fuzz_below(sizeof run);
    for (size_t i = 0; i < n; i++) run[i] = (uint8_t)(0x80 + fuzz_below(64));
    fuzz_put(x, at, 0, run, n);
}

static void fuzz_edit(fuzz_buffer *x) {
    static const char telling[] = "(){}[]'\",:;.-+*/0123456789LTFaxy <>|=~!%&^\n\t\r\0\x7f";
    const fuzz_piece *other = &fuzz_corpus.all[fuzz_below(fuzz_corpus.n)];
    const fuzz_piece *word = fuzz_words.n ? &fuzz_words.all[fuzz_below(fuzz_words.n)] : other;
    size_t at = fuzz_below(x->n + 1), some = 1 + fuzz_below(8), from = fuzz_below(other->n + 1);
    switch (fuzz_below(16)) {
    case 0:
        if (at < x->n) x->b[at] ^= (uint8_t)(1u << fuzz_below(8));
        break;
    case 1: fuzz_put(x, at, 1, (const uint8_t *)telling + fuzz_below(sizeof telling - 1), 1); break;
    case 2: fuzz_put(x, at, some, NULL, 0); break;
    case 3: fuzz_put(x, at, 0, x->b + at, fuzz_least(some, x->n - at)); break;
    case 4:
    case 5: fuzz_put(x, at, 0, word->bytes, word->n); break;
    case 6: fuzz_put(x, at, word->n, word->bytes, word->n); break;
    case 7:
        fuzz_put(x, at, fuzz_below(2) * some, other->bytes + from,
                 fuzz_least(2 * some, other->n - from));
        break;
    case 8: fuzz_put(x, at, x->n, other->bytes + from, other->n - from); break;
    case 9: fuzz_put_text(x, at, fuzz_below(2), FUZZ_ONE_OF(fuzz_awkward)); break;
    case 10:
        some = fuzz_find_digits(x, &at);
        fuzz_put_text(x, at, some,
                      fuzz_below(4) ? FUZZ_ONE_OF(fuzz_numbers) : FUZZ_ONE_OF(fuzz_numbers_long));
        break;
    case 11: fuzz_put(x, at, x->n, NULL, 0); break;
    case 12: fuzz_repeat(x, at, some); break;
    case 13: fuzz_put_binary(x, at); break;
    case 14: fuzz_put_continued(x, at); break;
    default: fuzz_put(x, at, 0, other->bytes, other->n);
    }
}

/* A byte's kind: those of one kind beside each other are a token. 0: none. */
static int fuzz_kind(uint8_t c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80) return 'a';
    if ((c >= '0' && c <= '9') || c == '.') return '0';
    return c && strchr("+-*/<>=&|^%!~", c) ? '+' : 0;
}

/* The token at `at`, or the next one; its bytes, 0: there is none. A word may go on with digits. */
static size_t fuzz_token(const uint8_t *b, size_t n, size_t *at) {
    while (*at < n && !fuzz_kind(b[*at])) ++*at;
    if (*at == n) return 0;
    while (*at > 0 && fuzz_kind(b[*at - 1]) == fuzz_kind(b[*at])) --*at;
    const int kind = fuzz_kind(b[*at]);
    size_t end = *at;
    while (end < n && (fuzz_kind(b[end]) == kind || (kind == 'a' && fuzz_kind(b[end]) == '0')))
        end++;
    return end - *at;
}

/* What a token can be traded for by what it is and what follows: a word in front of a parenthesis
** is called, other words are not, signs stay as long as they are, an arrow as it is. */
static int fuzz_role(const uint8_t *b, size_t n, size_t at, size_t some) {
    const int kind = fuzz_kind(b[at]);
    if (kind == '+') return some == 2 && b[at] == '-' && b[at + 1] == '>' ? '>' : (int)some;
    return kind == 'a' && at + some < n && b[at + some] == '(' ? '(' : kind;
}

/* A token becomes another of the same role, of this input, of another one or of the dictionary. */
static void fuzz_trade(fuzz_buffer *x) {
    size_t at = fuzz_below(x->n + 1), some = fuzz_token(x->b, x->n, &at);
    for (int attempt = 0; some && attempt < 16; attempt++) {
        const fuzz_piece own = {.bytes = x->b, .n = x->n}, *p = &own;
        const fuzz_list *from = fuzz_words.n && fuzz_below(2) ? &fuzz_words : &fuzz_corpus;
        if (fuzz_below(2)) p = &from->all[fuzz_below(from->n)];
        size_t other = fuzz_below(p->n + 1), n = fuzz_token(p->bytes, p->n, &other);
        if (!n || fuzz_role(p->bytes, p->n, other, n) != fuzz_role(x->b, x->n, at, some)) continue;
        uint8_t token[64];
        memcpy(token, p->bytes + other, n = fuzz_least(n, sizeof token));
        fuzz_put(x, at, some, token, n);
        return;
    }
}

/* What follows the text, behind a NUL, is made anew. */
static void fuzz_choose_anew(fuzz_buffer *x) {
    uint8_t choices[32] = {0};
    const uint8_t *nul = x->n ? memchr(x->b, 0, x->n) : NULL;
    size_t at = nul ? (size_t)(nul - x->b) : x->n, n = 2 + fuzz_below(sizeof choices - 1);
    for (size_t i = 1; i < n; i++) choices[i] = (uint8_t)fuzz_below(256);
    fuzz_put(x, at, x->n - at, choices, n);
}

/* Edits after which a text is often still one that is understood. */
static void fuzz_edit_gently(fuzz_buffer *x) {
    size_t at = fuzz_below(x->n + 1), some;
    switch (fuzz_below(8)) {
    case 0:
        some = fuzz_find_digits(x, &at);
        if (some) fuzz_put_text(x, at, some, FUZZ_ONE_OF(fuzz_numbers));
        break;
    case 1:
    case 2: fuzz_choose_anew(x); break;
    default: fuzz_trade(x);
    }
}

static void fuzz_mutate(fuzz_buffer *x) {
    const fuzz_piece *p = &fuzz_corpus.all[fuzz_below(fuzz_corpus.n)];
    const size_t gently = fuzz_below(3); /* two thirds of them */
    x->n = p->n;
    memcpy(x->b, p->bytes, p->n);
    for (size_t edits = 1 + fuzz_below(5); edits; edits--)
        gently ? fuzz_edit_gently(x) : fuzz_edit(x);
}

/* ---- the whole ---- */

static int fuzz_switch(const char *name) {
    const char *v = getenv(name);
    return v && *v && strcmp(v, "0") != 0;
}

static size_t fuzz_files(void) {
    for (size_t i = 0; i < fuzz_corpus.n; i++)
        fuzz_run(fuzz_corpus.all[i].bytes, fuzz_corpus.all[i].n);
    return fuzz_corpus.n;
}

/* At most 256 of a file. */
static size_t fuzz_beginnings(void) {
    size_t count = 0;
    for (size_t i = 0; i < fuzz_corpus.n; i++) {
        const fuzz_piece *p = &fuzz_corpus.all[i];
        size_t step = (p->n / 256 + 1) * (fuzz_switch("TIDE_TEST_QUICK") ? 8 : 1);
        for (size_t n = 0; n < p->n; n += step, count++) fuzz_run(p->bytes, n);
    }
    return count;
}

static size_t fuzz_mutations(void) {
    static fuzz_buffer x;
    const char *given = getenv("TIDE_TEST_FUZZ"), *seed = getenv("TIDE_TEST_SEED");
    size_t runs = fuzz_switch("TIDE_TEST_QUICK") ? FUZZ_RUNS / 8 : FUZZ_RUNS;
    if (fuzz_switch("TIDE_TEST_LONG")) runs *= 10;
    if (given) runs = (size_t)atol(given);
    if (seed) fuzz_seed += (uint64_t)atol(seed) * 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < runs; i++) {
        fuzz_mutate(&x);
        fuzz_run(x.b, x.n);
    }
    return runs;
}

int main(int argc, char **argv) {
    uint8_t bytes[FUZZ_BYTES];
    int alone = 0;
    fuzz_begin(argv[0]);
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        size_t length = strlen(argv[i]);
        if (d) {
            fuzz_add_folder(d, argv[i]);
            closedir(d);
        } else if (length > 5 && !strcmp(argv[i] + length - 5, ".dict")) {
            fuzz_add_dictionary(argv[i]);
        } else {
            fuzz_run(bytes, fuzz_read(argv[i], bytes));
            alone++;
        }
    }
    if (fuzz_corpus.n) {
        printf("1..3\nok 1 - %zu files\n", fuzz_files());
        printf("ok 2 - %zu beginnings of them\n", fuzz_beginnings());
        printf("ok 3 - %zu mutations of them\n", fuzz_mutations());
    } else {
        printf("1..1\n%s 1 - %d inputs\n", alone ? "ok" : "not ok", alone);
    }
    int failed = !fuzz_corpus.n && !alone;
    fuzz_clear(&fuzz_corpus);
    fuzz_clear(&fuzz_words);
    return failed;
}
#endif
#endif
