/* libs.h: libraries of linear algebra behind the arrays: handles, workspaces, calls. */
#ifndef TIDEI_LIBS_H
#define TIDEI_LIBS_H

#include "runtime/runtime.h"

tide_status tidei_libs_open(tide_runtime *rt); /* opens nothing yet: libraries are loaded at their first use */
void tidei_libs_close(tide_runtime *rt);

#endif
