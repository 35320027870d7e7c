/* embed.c: a tool of the build: writes text files, one behind the other, as a C string.
**
**   embed INPUT OUTPUT NAME [INPUT...]    gives OUTPUT with `const char NAME[]` */
#include <stdio.h>

static void put(FILE *out, int c) {
    if (c == '\n')
        fputs("\\n\"\n    \"", out);
    else if (c == '"' || c == '\\')
        fprintf(out, "\\%c", c);
    else
        fputc(c, out);
}

/* Appends the text of a file; whether that succeeded. */
static int put_file(FILE *out, const char *path) {
    FILE *in = fopen(path, "r");
    int c, bad = !in;
    while (in && (c = fgetc(in)) != EOF) put(out, c);
    if (in) bad = ferror(in);
    if (bad) perror(path);
    if (in) fclose(in);
    return !bad;
}

int main(int argc, char **argv) {
    FILE *out = NULL;
    int bad;
    if (argc < 4) {
        fputs("usage: embed INPUT OUTPUT NAME [INPUT...]\n", stderr);
        return 2;
    }
    out = fopen(argv[2], "w");
    bad = !out;
    if (out) {
        fprintf(out, "extern const char %s[];\nconst char %s[] =\n    \"", argv[3], argv[3]);
        bad |= !put_file(out, argv[1]);
        for (int i = 4; i < argc; i++) bad |= !put_file(out, argv[i]);
        fputs("\";\n", out);
        bad |= fclose(out);
    }
    if (bad) perror(argv[2]);
    return bad ? 1 : 0;
}
