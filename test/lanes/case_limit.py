#!/usr/bin/env python3
"""A case that hangs fails by its name, with all that it forked, and the others go on.

usage: hang.py PLANTED, the program of planted.c
"""
import os
import subprocess
import sys

LIMIT = 60  # seconds; subprocess.run waits for all that have the pipe, also for what was forked

done = subprocess.run([sys.argv[1], "--filter", "planted/*hang", "--output=tap:/dev/stdout"],
                      env={**os.environ, "REDLOCK_CASE_SECONDS": "1"}, timeout=LIMIT, check=False,
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
right = (done.returncode != 0 and "not ok - planted::hang " in done.stdout and
         "\nok - planted::no_hang " in done.stdout)
sys.exit(None if right else f"exit code {done.returncode}:\n{done.stdout}")
