"""Charges each order once, on many hosts: celery -A celery_charge worker"""
import os

import celery
import redlock_quorum
from celery.signals import worker_process_init

app = celery.Celery("celery_charge", broker=os.environ["BROKER"])
app.conf.task_acks_late = True  # a task whose worker dies runs again
nodes = None


@worker_process_init.connect
def connect(**_):
    global nodes  # made after the fork: a client of the parent process is refused
    nodes = redlock_quorum.Client()


@app.task(bind=True, max_retries=None)
def charge(self, order):
    hold = nodes.lock(f"charge:{order}").acquire(blocking=False)
    if not hold:  # this worker does something else meanwhile
        raise self.retry(countdown=1)
    with hold, open("charged", "a+") as charged:
        charged.seek(0)
        if order not in charged.read().split():
            hold.check()  # raises Lost: right before what must not be done twice
            charged.write(f"{order}\n")
