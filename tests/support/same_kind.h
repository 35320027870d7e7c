/* same_kind.h: NumPy's numpy.can_cast(from, to, "same_kind") (2.4.6), rows and columns in the order
** of the element types; bf16, which NumPy lacks, as f16. */
#ifndef SAME_KIND_H
#define SAME_KIND_H

static const char *const same_kind[TIDE_DTYPE_COUNT] = {
    "111111111111111", /* bool */
    "011110000111111", /* i8 */
    "011110000111111", /* i16 */
    "011110000111111", /* i32 */
    "011110000111111", /* i64 */
    "011111111111111", /* u8 */
    "011111111111111", /* u16 */
    "011111111111111", /* u32 */
    "011111111111111", /* u64 */
    "000000000111111", /* f16 */
    "000000000111111", /* bf16 */
    "000000000111111", /* f32 */
    "000000000111111", /* f64 */
    "000000000000011", /* c64 */
    "000000000000011", /* c128 */
};

#endif
