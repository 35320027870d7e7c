/* draft.h: files that appear under their name only once they are whole.
**
** Model. A draft is a file in the folder of what it is to become, under a name of its own,
** ".tidepool-N.part" with the lowest N that is free. Its writer holds it by flock; once it is whole
** it is renamed. So whatever ends the writer before leaves what was there, and a draft that nobody
** holds. Who needs a name looks at the low numbers, removes such drafts, and never takes one over:
** a number that is in use, by whomever, is passed by. Nothing depends on a process's number, which
** another one may have after a restart.
** Who removes a draft holds it first, and looks again whether the name is still that file's: a
** writer that made a file and does not hold it yet may lose it in that moment, sees so, and makes
** another. Where locks are unknown nothing is removed. Where they may be this machine's alone, on a
** file system that others mount too, only what was not written to for an hour is.
** What must stay true: only a regular file of this user's is removed, which nobody holds; no link
** is followed; a draft is held until it has its name. */
#ifndef TIDEI_DRAFT_H
#define TIDEI_DRAFT_H

#include "runtime/base/base.h"
#include <sys/types.h>

#define TIDEI_DRAFT_NAME 32 /* bytes, for a draft's name */

typedef struct tidei_draft {
    int folder, fd; /* the folder is the caller's, open */
    char name[TIDEI_DRAFT_NAME];
} tidei_draft;

/* A new file, to be written through out->fd. False: errno says why. */
bool tidei_draft_open(int folder, mode_t mode, tidei_draft *out);
/* The draft is whole: it becomes the file `name` of its folder, in place of what has that name.
** False: what was written did not arrive, or the name cannot be had (errno); the draft is gone
** then, too. */
bool tidei_draft_keep(tidei_draft *d, const char *name);
void tidei_draft_drop(tidei_draft *d);

bool tidei_is_draft(const char *name);
/* Removes all drafts in the folder that nobody holds. */
void tidei_drafts_sweep(int folder);

#endif
