/* The validity never ends later than keys whose clock runs as much faster as the drift
   allows (safety.md, The validity and the clock). */
#include "core/quorum.h"
#include "redlock/redlock.h"

#include "proof.h"

#define CENTURY  (36525 * INT64_C(86400) * RL_SECOND)
#define TTL_MOST (REDLOCK_RECORD_MAX_MS * RL_MS)
#define PPM_MOST 500000 /* of drift_ppm */

/* The allowance is the least number of us that is not below ttl * ppm / 1e6: for each TTL
   of up to 65,535 ms. A solver gets through no more; unit tests have longer ones. */
/* cbmc: --unwind 2 */
void proof_validity_ends_before_the_key(void)
{
    rl_time ttl = (nondet_u32() & 0xffff) * RL_MS;
    rl_time ppm = REDLOCK_DRIFT_PPM;
    rl_time allowance = ttl - rl_valid_until(0, ttl, REDLOCK_DRIFT_PPM) - RL_DRIFT_FLOOR;
    assert(allowance * RL_SECOND >= ttl * ppm && (allowance - 1) * RL_SECOND < ttl * ppm);
}

/* Whatever the options allow, nothing overflows. */
/* cbmc: --unwind 2 */
void proof_validity_does_not_overflow(void)
{
    rl_time start = nondet_i64(), ttl = nondet_i64();
    uint32_t ppm = nondet_u32();
    assume(start >= 0 && start <= CENTURY && ttl >= 0 && ttl <= TTL_MOST &&
           ppm <= PPM_MOST);
    rl_valid_until(start, ttl, ppm);
}
