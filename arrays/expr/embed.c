/* embed.c: a tool of the build: writes a text file as a C string.
**
**   embed INPUT OUTPUT NAME    gives OUTPUT with `const char NAME[]` */
#include <stdio.h>

static void put(FILE *out, int c) {
    if (c == '\n')
        fputs("\\n\"\n    \"", out);
    else if (c == '"' || c == '\\')
        fprintf(out, "\\%c", c);
    else
        fputc(c, out);
}

int main(int argc, char **argv) {
    FILE *in = NULL, *out = NULL;
    int c, bad = 1;
    if (argc != 4) {
        fputs("usage: embed INPUT OUTPUT NAME\n", stderr);
        return 2;
    }
    in = fopen(argv[1], "r");
    out = in ? fopen(argv[2], "w") : NULL;
    if (out) {
        fprintf(out, "extern const char %s[];\nconst char %s[] =\n    \"", argv[3], argv[3]);
        while ((c = fgetc(in)) != EOF) put(out, c);
        fputs("\";\n", out);
        bad = ferror(in);
        bad |= fclose(out);
    }
    if (bad) perror(out ? argv[2] : argv[1]);
    if (in) fclose(in);
    return bad ? 1 : 0;
}
