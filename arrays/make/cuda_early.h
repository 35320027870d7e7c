/* cuda_early.h: kernels that most programs' first calls want, whatever they compute: the device
** compiles them while it opens, where none was ever kept (tidei_early). */
#ifndef TIDEI_CUDA_EARLY_H
#define TIDEI_CUDA_EARLY_H

#include "arrays/expr/ir.h"
#include "runtime/device/device.h"

/* array.c: start + index * step, of type t, computed in `work` from its two scalars; `twice`: from
** halves of them. */
void tidei_arange_program(tide_dtype t, tide_dtype work, bool twice, tidei_program *p);

tidei_early tidei_early_kernels(void);

#endif
