"""Writes a report per period, on one of many hosts: python apscheduler_report.py SECONDS"""
import datetime
import sys

import redlock_quorum
from apscheduler.schedulers.blocking import BlockingScheduler

every = int(sys.argv[1])
nodes = redlock_quorum.Client()  # of REDLOCK_NODES, or /etc/redlock.conf


def report():
    period = int(datetime.datetime.now().timestamp()) // every
    hold = nodes.lock(f"report@{period}", ttl=2 * every).acquire(blocking=False)
    if not hold:
        return  # another host writes it, or has written it
    with open("reports", "a") as reports:
        hold.check()
        reports.write(f"{period}\n")
    hold.disown()  # not released: it stays until its TTL ends, for hosts that come later


scheduler = BlockingScheduler()
scheduler.add_job(report, "cron", second=f"*/{every}", misfire_grace_time=None)
scheduler.start()
