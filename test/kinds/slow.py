"""What the long runs of this folder share: their options, the built programs, and the figures."""
import argparse
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cli"))
import lab  # noqa: E402


def arguments(name, seconds, about_seconds="", only=()):
    """REDLOCK PROGRAM [--seconds N] [--only ONE] [--json FILE]"""
    words = argparse.ArgumentParser(prog=f"./dev try {name}")
    words.add_argument("redlock")
    words.add_argument("program")
    words.add_argument("--seconds", type=float, default=seconds,
                       help=f"{about_seconds} (%(default)s)".strip())
    if only:
        words.add_argument("--only", choices=only)
    words.add_argument("--json", metavar="FILE")
    options = words.parse_args()
    lab.program = os.path.abspath(options.redlock)
    return options


def tell(found, targets, path):
    """Prints the figures, and those whose target is missed; returns the exit code."""
    for name, value in found.items():
        print(f"{name:<24}{value}")
    for name, is_met in targets.items():
        if not is_met:
            print(f"missed: {name} is {found[name]}")
    if path:
        pathlib.Path(path).write_text(json.dumps(found, indent=1) + "\n")
    return int(not all(targets.values()))
