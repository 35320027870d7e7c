/* vm_common.h: what the files that hold the interpreter's vector loops share. */
#ifndef TIDEI_VM_COMMON_H
#define TIDEI_VM_COMMON_H

#include "arrays/expr/vm.h"
#include <math.h>
#undef bool /* the name of an element type in these files */
#define TD_COMPLEX
#include "arrays/expr/prelude.h"
#define TD_WIDTH 32
#include "arrays/expr/functions.h"
#undef TD_WIDTH
#define TD_WIDTH 64
#include "arrays/expr/functions.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define LOOP(n)      _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)
/* partial results of a row's fold: two vectors of f32 hide an addition's latency */
#define ROW_LANES ((size_t)32)

#endif
