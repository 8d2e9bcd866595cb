"""A program that holds many locks, by one client or several: holder.py LOCKS CLIENTS. Replies to
each line with the metrics of all its clients, as JSON."""
import json
import logging
import sys

import redlock_quorum

TTL_S = 10
LOCKS, CLIENTS = map(int, sys.argv[1:])

logging.getLogger("redlock_quorum").addHandler(logging.NullHandler())
clients = [redlock_quorum.Client() for _ in range(CLIENTS)]
holds = [clients[number % CLIENTS].lock(f"order:{number}", TTL_S).acquire()
         for number in range(LOCKS)]
for _ in sys.stdin:
    texts = [client.prometheus(client=str(number)) for number, client in enumerate(clients)]
    print(json.dumps("".join(texts)), flush=True)
