#!/bin/sh
# Does the tasks in WORK/todo, each under a lock of its own, until none is left:
#   ./worker.sh WORK
# WORK is a folder that all workers share. A task is a script; it may be run again.
set -u
work=${1:?usage: $0 WORK} task=${2:-}

# Runs while the lock of the task is held, in a process of its own.
if [ -n "$task" ]; then
  [ "${REDLOCK_KEY:-}" = "task:$task" ] || exit 64
  [ -e "$work/todo/$task" ] || exit 0 # another worker has finished it meanwhile
  draft=$(mktemp "$work/.draft.XXXXXX") || exit 1
  if sh "$work/todo/$task" > "$draft"; then
    mv "$draft" "$work/done/$task" && rm -f "$work/todo/$task" && echo "$task: done"
  else
    code=$?
    rm -f "$draft"
    mv "$work/todo/$task" "$work/failed/$task" && echo "$task: failed, exit $code"
  fi
  exit
fi

while :; do
  left=0
  for path in "$work"/todo/*; do
    [ -e "$path" ] || continue
    name=${path##*/}
    redlock run -q -n "task:$name" -- sh "$0" "$work" "$name"
    code=$?
    case $code in
    0) ;;
    69 | 75 | 124) left=1 ;; # no quorum; another worker has it; the lock was lost
    *)
      echo "$name: the worker ends: exit $code" >&2
      exit "$code"
      ;;
    esac
  done
  [ "$left" -eq 0 ] && exit 0
  sleep 1
done
