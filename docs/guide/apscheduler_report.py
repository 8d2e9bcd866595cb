"""Writes a report per period, on one of many hosts: python apscheduler_report.py SECONDS"""
import datetime
import sys

import redlock_quorum
from apscheduler.schedulers.blocking import BlockingScheduler

period = int(sys.argv[1])
nodes = redlock_quorum.Client()  # of REDLOCK_NODES, or /etc/redlock.conf


def report():
    if not nodes.once_per("report", period):
        return  # another host writes it, or has written it
    with open("reports", "a") as reports:
        reports.write(f"{datetime.datetime.now()}\n")


scheduler = BlockingScheduler()
scheduler.add_job(report, "interval", seconds=period / 2)  # so none is left out
scheduler.start()
