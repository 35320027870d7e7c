/* figures.h: what the library says of a runtime to itself. */
#ifndef TIDEI_FIGURES_H
#define TIDEI_FIGURES_H

#include "runtime/streams/stream.h"

size_t tidei_device_text(const tidei_dev *d, char *buf, size_t cap); /* as tide_device_text */

#endif
