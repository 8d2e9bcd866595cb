"""Threads of many processes run one at a time: threads.py redis://a redis://b redis://c"""
import sys
import threading

import redlock_quorum

with redlock_quorum.Client(sys.argv[1:]) as client:
    def work() -> None:
        with client.lock("work", ttl=30) as hold:
            hold.check()
            print("This runs while no other client holds the lock.")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
