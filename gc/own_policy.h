/* own_policy.h: policies of others: tables of a program's, or of a shared object's
** (include/tide/policy.h), as policies of ours.
**
** Model. What is registered, or loaded, is copied once and stays for the process: a list of
** records, each with the policy that the rest of gc/ sees and the table behind it. Registered ones
** are found by name, loaded ones by the address of their table: a shared object that is named twice
** is one policy. tidei_policy_ask and tidei_policy_told come here for a policy that has a table
** (`own`): the snapshot is put into the public form, the answer is looked at, and one that makes no
** sense is counted and taken for none.
** What must stay true: nothing of ours is locked while a table's slots run, nor while a shared
** object is opened, which runs code of its own. */
#ifndef TIDEI_OWN_POLICY_H
#define TIDEI_OWN_POLICY_H

#include "gc/policy.h"

/* The i-th that is registered, in their order; NULL: there are no more. */
const tidei_policy *tidei_own_policy_at(size_t i);
/* The one of that path's shared object. NULL: what is wrong is in `why`. */
const tidei_policy *tidei_own_policy_load(const char *path, char *why, size_t cap);

/* Gives a run that has begun its state, if its policy has a table. TIDE_E_HOST_NOMEM. */
tide_status tidei_own_policy_open(tidei_policy_run *r, tidei_runtime *rt, const char *op);
void tidei_own_policy_close(tidei_policy_run *r, tidei_runtime *rt); /* also of one that has none */

/* For policy.c. */
tidei_decision tidei_own_policy_ask(tidei_policy_run *r, const tidei_policy_in *in);
void tidei_own_policy_told(tidei_policy_run *r, const tidei_policy_in *before,
                           const tidei_policy_in *after, const tidei_collection *c);

#endif
