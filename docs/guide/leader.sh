#!/bin/sh
# What the leader does, once a second, COUNT times or without an end:
#   redlock elect scheduler -- ./leader.sh SOCKET [COUNT]
# SOCKET is that of the Redis which stores the schedule.
set -u
term=${REDLOCK_TERM:?is not set: start this by redlock elect}
store=${1:?usage: $0 SOCKET [COUNT]} count=${2:-0}
here=$(dirname "$0")
script=$here/../../contrib/fence/redis.lua
[ -e "$script" ] || script=$here/../examples/fence/redis.lua # in a Debian package

# The store refuses a term that is smaller than one that it has seen.
write() {
  reply=$(redis-cli -s "$store" --eval "$script" "$1" , "$term" "$2")
  case $reply in
  1) ;;
  0)
    echo "term $term: refused: a later leader has written" >&2
    exit 1
    ;;
  *)
    echo "term $term: $1 may not be written: $reply" >&2
    exit 2
    ;;
  esac
}

step=1
while :; do
  write schedule "step $step"
  echo "term $term: step $step"
  [ "$step" -eq "$count" ] && exit 0
  step=$((step + 1))
  sleep 1
done
