/* copy_many.h: the text of the kernels that copy many pieces, for tests that compile it without a
** GPU. */
#ifndef TIDEI_CUDA_COPY_MANY_H
#define TIDEI_CUDA_COPY_MANY_H

extern const char tidei_cuda_copy_few[], tidei_cuda_copy_both[];

#endif
