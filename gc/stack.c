/* stack.c: what earlier calls have left on the stack, for a collector that scans it. */
#include "gc/collector.h"

#define CLEARED (16 << 10) /* bytes; a collection's own frames take less */
__attribute__((noinline)) void tidei_clear_stack(void) {
    volatile char room[CLEARED];
    memset((void *)room, 0, sizeof room);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}
