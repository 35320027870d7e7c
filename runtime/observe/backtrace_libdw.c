/* backtrace_libdw.c: names from debug information, by elfutils' libdw: functions, files, lines,
** what was inlined where.
**
** Model. An address lies in scopes of its compile unit. From the innermost one outwards, each that
** is an inlined instance of a function was called where the instance says (call_file, call_line),
** until the function that is really there. libdw takes memory of its own; where it knows nothing,
** its symbol tables are asked, and then the loader. */
#include "runtime/observe/backtrace.h"
#include "runtime/base/uncancelled.h"
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <unistd.h>

struct tidei_names {
    Dwfl *dwfl;
    Dwfl_Callbacks callbacks; /* used as long as it is open */
};

tidei_names *tidei_names_open(void) {
    TIDEI_UNCANCELLED;
    tidei_names *n = calloc(1, sizeof *n);
    if (!n) return NULL;
    n->callbacks.find_elf = dwfl_linux_proc_find_elf;
    n->callbacks.find_debuginfo = dwfl_standard_find_debuginfo;
    n->dwfl = dwfl_begin(&n->callbacks);
    if (n->dwfl && dwfl_linux_proc_report(n->dwfl, getpid()) == 0 &&
        dwfl_report_end(n->dwfl, NULL, NULL) == 0)
        return n;
    tidei_names_close(n);
    return NULL;
}

void tidei_names_close(tidei_names *n) {
    if (!n) return;
    TIDEI_UNCANCELLED;
    if (n->dwfl) dwfl_end(n->dwfl);
    free(n);
}

/* Where the inlined instance was called. */
static void go_to_call(Dwarf_Die *instance, tidei_code_place *p) {
    Dwarf_Attribute attribute;
    Dwarf_Word v;
    Dwarf_Die unit;
    Dwarf_Files *files;
    p->file = NULL;
    p->line = 0;
    if (!dwarf_diecu(instance, &unit, NULL, NULL) || dwarf_getsrcfiles(&unit, &files, NULL)) return;
    if (!dwarf_formudata(dwarf_attr(instance, DW_AT_call_file, &attribute), &v))
        p->file = dwarf_filesrc(files, v, NULL, NULL);
    if (!dwarf_formudata(dwarf_attr(instance, DW_AT_call_line, &attribute), &v)) p->line = (int)v;
}

/* The scopes around an address as they are nested in the machine's code, innermost first: to be
** freed. */
static int scopes_at(Dwfl_Module *m, Dwarf_Addr address, Dwarf_Die **scopes) {
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(m, address, &bias), innermost;
    Dwarf_Die *lexical = NULL;
    *scopes = NULL;
    if (!unit || dwarf_getscopes(unit, address - bias, &lexical) <= 0) return 0;
    bool found = dwarf_offdie(dwfl_module_getdwarf(m, &bias), dwarf_dieoffset(&lexical[0]),
                              &innermost) != NULL;
    free(lexical);
    return found ? dwarf_getscopes_die(&innermost, scopes) : 0;
}

/* False: there is no debug information. `p` has the module, and the file and line of the
** address. */
static bool name_scopes(Dwfl_Module *m, Dwarf_Addr address, tidei_code_place *p,
                        bool (*fn)(void *user, const tidei_code_place *place), void *user) {
    Dwarf_Die *scopes;
    int n = scopes_at(m, address, &scopes);
    bool named = false;
    for (int i = 0; i < n; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
        named = true;
        p->function = dwarf_diename(&scopes[i]);
        p->inlined = tag == DW_TAG_inlined_subroutine;
        if (!fn(user, p) || !p->inlined) break;
        go_to_call(&scopes[i], p);
    }
    free(scopes);
    return named;
}

void tidei_names_of(tidei_names *n, const void *at,
                    bool (*fn)(void *user, const tidei_code_place *place), void *user) {
    TIDEI_UNCANCELLED;
    tidei_code_place p = tidei_code_place_by_loader(at);
    Dwarf_Addr address = (Dwarf_Addr)(uintptr_t)at - 1;
    Dwfl_Module *m = n ? dwfl_addrmodule(n->dwfl, address) : NULL;
    Dwfl_Line *line = m ? dwfl_module_getsrc(m, address) : NULL;
    if (line) p.file = dwfl_lineinfo(line, NULL, &p.line, NULL, NULL, NULL);
    if (m && name_scopes(m, address, &p, fn, user)) return;
    const char *symbol = m ? dwfl_module_addrname(m, address) : NULL;
    if (symbol) p.function = symbol;
    p.inlined = false;
    fn(user, &p);
}
