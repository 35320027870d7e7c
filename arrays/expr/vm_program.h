/* vm_program.h: a compiled program: what vm_compile.c makes and vm_run.c executes. */
#ifndef TIDEI_VM_PROGRAM_H
#define TIDEI_VM_PROGRAM_H

#include "arrays/expr/vm.h"
#include "arrays/scan/scan.h"

/* Slots: what an instruction names as operand and destination; each is an address for the time of
** one block. */
enum {
    VM_SLOT_INPUT = 0,                                 /* raw elements, as in memory */
    VM_SLOT_SCALAR = VM_SLOT_INPUT + TIDEI_INPUTS_MAX, /* values, the same in each lane */
    VM_SLOT_OUT = VM_SLOT_SCALAR + TIDEI_SCALARS_MAX,  /* raw elements */
    VM_SLOT_LINEAR = VM_SLOT_OUT + TIDEI_OUTS_MAX,     /* the row-major indices */
    VM_SLOT_REGISTER = VM_SLOT_LINEAR + 1,
    VM_SLOTS = VM_SLOT_REGISTER + TIDEI_NODES_MAX
};

typedef struct tidei_vm_instr {
    tidei_vm_fn *fn;
    uint16_t d, a, b, c;
} tidei_vm_instr;

struct tidei_vm_program {
    const tidei_vm_kernels *k;
    unsigned ninstrs, nregs, ninputs, nscalars, nouts;
    bool linear;                           /* VM_SLOT_LINEAR is read */
    uint8_t reg_width[TIDEI_NODES_MAX];    /* bytes of a lane */
    uint8_t input_width[TIDEI_INPUTS_MAX]; /* 0: the input is not read */
    uint8_t out_width[TIDEI_OUTS_MAX];
    uint8_t scalar_dtype[TIDEI_SCALARS_MAX];
    uint16_t input_last[TIDEI_INPUTS_MAX]; /* the last instruction that reads it */
    uint16_t out_written[TIDEI_OUTS_MAX];  /* the instruction that writes it */
    uint8_t fold, acc_dtype, out_dtype;    /* of a fold */
    const tidei_scan_kind *scan;           /* of a scan; else NULL */
    uint16_t value;                        /* the slot of what is folded */
    unsigned cost;                         /* of a lane, in TIDEI_VM_COSTS_AN_NS */
    tidei_vm_instr instrs[];
};

/* What a lane takes, roughly: for the decision into how many parts a walk is cut. */
#define TIDEI_VM_COSTS_AN_NS 8
enum { TIDEI_VM_COST_BYTE = 1, TIDEI_VM_COST_INSTR = 2, TIDEI_VM_COST_FUNCTION = 80 };

/* Bytes of a value: what a lane of a register holds. */
static inline unsigned tidei_vm_value_width(unsigned dtype) {
    return dtype == TIDE_F16 || dtype == TIDE_BF16 ? 4
                                                   : (unsigned)tide_dtype_size((tide_dtype)dtype);
}
static inline bool tidei_vm_is_half(unsigned dtype) {
    return dtype == TIDE_F16 || dtype == TIDE_BF16;
}
static inline unsigned tidei_vm_log2(unsigned width) { return (unsigned)__builtin_ctz(width); }

#endif
