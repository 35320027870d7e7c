/* policies.c: the policies that there are, by name. */
#include "gc/policy.h"
#include "runtime/base/text.h"

static const tidei_policy *const policies[] = {&tidei_policy_reserve, &tidei_policy_cudajl,
                                               &tidei_policy_never};

const tidei_policy *tidei_policy_find(const char *name) {
    for (size_t i = 0; i < TIDEI_COUNT(policies); i++)
        if (strcmp(policies[i]->name, name) == 0) return policies[i];
    return NULL;
}

const char *tidei_policy_names(char *buf, size_t cap) {
    size_t n = 0;
    if (cap) buf[0] = 0;
    for (size_t i = 0; i < TIDEI_COUNT(policies) && n < cap; i++)
        n += (size_t)tidei_format(buf + n, cap - n, "%s%s", i ? ", " : "", policies[i]->name);
    return buf;
}
