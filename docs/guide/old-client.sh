#!/bin/sh
# Locks or unlocks as redsync, node-redlock, redlock-py and redis-plus-plus do, on the nodes
# in REDLOCK_NODES: ./old-client.sh lock|unlock KEY TOKEN
set -u
usage="usage: $0 lock|unlock KEY TOKEN"
what=${1:?$usage} key=${2:?$usage} token=${3:?$usage}
release='if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1]) else return 0 end'

agreed=0 nodes=0
for uri in $(echo "$REDLOCK_NODES" | tr , ' '); do
  nodes=$((nodes + 1))
  case $uri in
  unix://*) how=-s node=${uri#unix://} ;;
  *) how=-u node=$uri ;;
  esac
  case $what in
  lock) reply=$(redis-cli $how "$node" SET "$key" "$token" NX PX 600000) ;;
  *) reply=$(redis-cli $how "$node" EVAL "$release" 1 "$key" "$token") ;;
  esac
  case $reply in OK | 1) agreed=$((agreed + 1)) ;; esac
done
echo "$what $key: $agreed of $nodes nodes agree"
[ $((2 * agreed)) -gt "$nodes" ] && exit 0
[ "$what" != lock ] || sh "$0" unlock "$key" "$token" > /dev/null # what a minority granted
exit 1
