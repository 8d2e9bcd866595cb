/*
 * What the proofs of this folder share. A proof is a function proof_NAME(void) that CBMC
 * executes for all values at once: nondet_...() is any value, assume() excludes some of
 * them, and assert() must hold for all that remain. CBMC also proves that no read or write
 * leaves its object, that nothing overflows, and that no loop runs longer than --unwind
 * allows.
 */
#ifndef PROOF_H
#define PROOF_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* They need no definition: CBMC takes any value for their result. */
bool nondet_bool(void);
unsigned nondet_unsigned(void);
uint32_t nondet_u32(void);
int64_t nondet_i64(void);
size_t nondet_size(void);

void __CPROVER_assume(bool condition);
#define assume(condition) __CPROVER_assume(condition)

#endif
