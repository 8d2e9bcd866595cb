#!/usr/bin/env bash
# Shows one lock on five real Redis masters: redlock local -n 5 -- test/demo.sh REDLOCK
# Each step is checked; the script exits with 0 only if all of it ended as described.
set -euo pipefail

redlock=$(realpath "${1:?usage: redlock local -n 5 -- $0 REDLOCK}")
folder=${REDLOCK_LOCAL_DIR:?is not set: this runs under redlock local}
server=$(command -v redis-server || command -v valkey-server)
client=$(command -v redis-cli || command -v valkey-cli)
key=nightly-report
ttl=3s
export pulse=$folder/pulse

# By default a node on the same machine has 50 ms to reply: too little on a busy one.
export REDLOCK_CONFIG=$folder/patience
echo 'timeout = 1s' >"$REDLOCK_CONFIG"

bold='' dim='' good='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' dim=$'\e[2m' good=$'\e[32m' plain=$'\e[0m'
fi

tell() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
shown() { printf '   %s$ %s%s\n' "$dim" "$*" "$plain"; }
seen() { printf '   %s\n' "$*"; }
proven() { printf '   %s✓ %s%s\n' "$good" "$*" "$plain"; }
fail() {
  printf 'demo: %s\n' "$*" >&2
  exit 1
}

# within SECONDS WHAT COMMAND...: runs the command until it succeeds
within() {
  local seconds=$1 what=$2 end=$((SECONDS + $1))
  shift 2
  until "$@"; do
    [ $SECONDS -le "$end" ] || fail "waited $seconds s in vain for $what"
    sleep 0.02
  done
}

in_ms() { local us=${1/[.,]/}; echo "${us%???}"; }
now_ms() { in_ms "$EPOCHREALTIME"; }
last_pulse_ms() { in_ms "$(cat "$pulse")"; }
ask() { "$client" -s "$folder/$1.sock" "${@:2}" 2>/dev/null; }
answers() { [ "$(ask "$1" PING)" = PONG ]; }
expires_ms() { ask "$1" PEXPIRETIME "$key"; }

pid_of() { ask "$1" INFO server | tr -d '\r' | sed -n 's/^process_id://p'; }

# kill_master NUMBER PID
kill_master() {
  shown "kill -KILL $2  # master $1"
  kill -KILL "$2"
  rm -f "$folder/$1.sock"
}

# --- a job, and one too many ---

tell '1. A job runs while it holds a lock on a majority of five Redis masters.'
# It writes the time to a file repeatedly: that shows that it is alive.
job='while :; do echo $EPOCHREALTIME >"$pulse.new"; mv "$pulse.new" "$pulse"; sleep 0.02; done'
shown "redlock run -t $ttl $key -- ./job &"
"$redlock" run -t "$ttl" "$key" -- bash -c "$job" 2>"$folder/said" &
run=$!
within 10 'a sign of life' test -s "$pulse"
shown "redlock status $key"
# The last of the five masters may reply after the job has begun.
is_on_all() { "$redlock" status "$key" >"$folder/status" && grep -q 'on 5 of 5 nodes' "$folder/status"; }
within 10 'the lock on all five nodes' is_on_all
seen "$(tail -n 1 "$folder/status")"

tell '2. A second contender is refused, and told by whom and for how long.'
shown "redlock run -n $key -- ./job"
code=0
refusal=$("$redlock" run -n "$key" -- echo 'the job ran twice' 2>&1) || code=$?
seen "$refusal"
[ $code = 75 ] || fail "exit $code instead of 75"
[[ $refusal == *"held by"*":$run, for another"* ]] || fail 'the holder was not named'
proven 'exit 75: held elsewhere'

# --- less than a majority is lost ---

tell '3. Two of the five masters are killed. The job goes on, and its lock is extended.'
first=$(expires_ms 5)
kill_master 1 "$(pid_of 1)"
kill_master 2 "$(pid_of 2)"
first_ttl_is_over() { [ "$(now_ms)" -gt "$first" ]; }
within 10 'the end of the first TTL' first_ttl_is_over
lives() { [ "$(last_pulse_ms)" -gt "$first" ]; }
within 10 'a sign of life after it' lives
for node in 3 4 5; do
  [ "$(expires_ms $node)" -gt "$first" ] || fail "the lock was not extended on master $node"
done
proven 'the first TTL is over; the job lives, and three masters keep the lock for longer'
code=0
"$redlock" run -n "$key" -- true 2>/dev/null || code=$?
[ $code = 75 ] || fail "another could take the lock: exit $code"
proven 'nobody else can have it: exit 75'

# --- a majority is lost ---

tell '4. A third master is killed. Nobody can extend now: the job has to end in time.'
# The end is read and the master paused in one step: no extension comes between that and the
# kill.
pid=$(pid_of 3)
end=$(printf '%s\n' MULTI "PEXPIRETIME $key" 'CLIENT PAUSE 60000 ALL' EXEC | ask 3 | sed -n 4p)
[ "${end:-0}" -gt 0 ] || fail 'master 3 does not keep the lock'
kill_master 3 "$pid"
code=0
wait $run || code=$?
seen "$(cat "$folder/said")"
[ $code = 124 ] || fail "exit $code instead of 124"
spare=$((end - $(last_pulse_ms)))
[ $spare -gt 0 ] || fail "the job was alive $((-spare)) ms after the end of its lock"
proven "exit 124: the lock was lost; the job's last sign of life came $spare ms before its end"

# --- and back ---

tell '5. The masters return, and the lock can be taken again.'
for node in 1 2 3; do
  shown "redis-server $node.conf &"
  "$server" "$folder/$node.conf" &
done
for node in 1 2 3; do within 10 "master $node" answers $node; done
shown "redlock run -n $key -- ./job"
again=$("$redlock" run -n "$key" -- bash -c 'echo "the job runs, for at least $REDLOCK_VALID_MS ms"') ||
  fail 'the lock could not be taken again'
seen "$again"
proven 'exit 0'

printf '\n%sAs told: one job at a time, and none that outlived its lock.%s\n' "$bold" "$plain"
