"""docs/schema/redlock.schema.json: does a JSON text of the command agree with it?"""
import functools
import json
import pathlib
import sys

# Debian's module, also if another python comes first in PATH.
sys.path.append("/usr/lib/python3/dist-packages")
import jsonschema  # noqa: E402

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] /
                     "docs/schema/redlock.schema.json").read_text())


def closed(part):
    """Without members that the schema does not name: users ignore them, a test does not."""
    if isinstance(part, list):
        return [closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    more = {"additionalProperties": False} if "properties" in part else {}
    return {**more, **{name: closed(each) for name, each in part.items()}}


CLOSED = closed(SCHEMA)


@functools.lru_cache(maxsize=None)
def validators(name):
    """One for each form of an object of this name."""
    return [jsonschema.Draft202012Validator({"$defs": CLOSED["$defs"], **form})
            for form in CLOSED["$defs"][name].get("oneOf", [CLOSED["$defs"][name]])]


def faults_of(answer, name=None):
    """What is wrong with an object of this name, or of its schema; empty: nothing."""
    name = name or answer["schema"].removeprefix("redlock.").removesuffix("/1")
    if name not in CLOSED["$defs"]:
        return f"there is no $defs/{name}"
    if [each.is_valid(answer) for each in validators(name)].count(True) == 1:
        return ""
    wrong = [jsonschema.exceptions.best_match(each.iter_errors(answer))
             for each in validators(name)]
    nearest = max(filter(None, wrong), key=lambda error: len(error.absolute_path))
    return f"{nearest.json_path}: {nearest.message}"
