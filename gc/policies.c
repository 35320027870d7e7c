/* policies.c: the policies that there are, by name: ours, then those that are registered. */
#include "gc/own_policy.h"
#include "runtime/base/text.h"
#include <limits.h>

#define ORACLE "oracle" /* gc/lab/oracle.h */

static const tidei_policy *const policies[] = {
    &tidei_policy_reserve,  &tidei_policy_cudajl, &tidei_policy_never,    &tidei_policy_priced,
    &tidei_policy_headroom, &tidei_policy_sqrt,   &tidei_policy_pressure, &tidei_policy_softmax,
    &tidei_policy_rates,    &tidei_policy_every,
};

const tidei_policy *tidei_policy_at(size_t i) {
    return i < TIDEI_COUNT(policies) ? policies[i] : tidei_own_policy_at(i - TIDEI_COUNT(policies));
}

static const tidei_policy *find(const char *name, size_t n) {
    const tidei_policy *p;
    for (size_t i = 0; (p = tidei_policy_at(i)); i++)
        if (strlen(p->name) == n && !memcmp(p->name, name, n)) return p;
    return NULL;
}

const tidei_policy *tidei_policy_find(const char *name) { return find(name, strlen(name)); }

const char *tidei_policy_names(char *buf, size_t cap) {
    const tidei_policy *p;
    size_t n = 0;
    if (cap) buf[0] = 0;
    for (size_t i = 0; (p = tidei_policy_at(i)) && n < cap; i++)
        n += (size_t)tidei_format(buf + n, cap - n, "%s%s", i ? ", " : "", p->name);
    return buf;
}

/* The policy that the first n bytes of the text name; NULL: there is none, as `why` says. */
static const tidei_policy *named(const char *text, size_t n, char *why, size_t cap) {
    char path[PATH_MAX], names[256], shown[TIDEI_SHOWN_MAX];
    const tidei_policy *p = find(text, n);
    bool file = memchr(text, '/', n) != NULL;
    if (p || (file && n >= sizeof path)) {
        if (!p) tidei_format(why, cap, "a path of %zu bytes is too long", n);
    } else if (file) {
        memcpy(path, text, n);
        path[n] = 0;
        p = tidei_own_policy_load(path, why, cap);
    } else {
        tidei_format(why, cap, "there is no policy \"%s\"; there are: %s",
                     tidei_line_of(shown, sizeof shown, text),
                     tidei_policy_names(names, sizeof names));
    }
    return p;
}

bool tidei_policy_choose(const char *text, tidei_policy_choice *out, char *why, size_t cap) {
    size_t n = strcspn(text, "(");
    const char *at = text + n;
    char shown[TIDEI_SHOWN_MAX];
    if (n == strlen(ORACLE) && !memcmp(text, ORACLE, n)) {
        tidei_format(why, cap,
                     "\"%s\" is no policy: it knows the whole program; `tide study` has it, by "
                     "that name alone",
                     ORACLE);
        return false;
    }
    const tidei_policy *p = named(text, n, why, cap);
    if (!p) return false;
    *out = tidei_policy_usual(p);
    if (!*at) return true;
    size_t head =
        (size_t)tidei_format(why, cap, "policy \"%s\": ", tidei_line_of(shown, sizeof shown, text));
    if (head > cap) head = cap;
    at = tidei_params_read(text, at + 1, ')', p->params, p->nparams, out->at, why + head,
                           cap - head);
    if (at && at[1]) tidei_params_wrong(text, at + 1, "nothing more", why + head, cap - head);
    return at && !at[1];
}
