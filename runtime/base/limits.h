/* limits.h: how many there may be of what a runtime numbers. */
#ifndef TIDEI_LIMITS_H
#define TIDEI_LIMITS_H

#define TIDEI_DEVICES_MAX 32  /* of a runtime; more are left alone */
#define TIDEI_STREAMS_MAX 256 /* streams of a runtime alive or draining; a seen row is 2 KiB */

#endif
