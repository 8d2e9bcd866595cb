#!/usr/bin/env python3
"""coverage.py BUILD: the branches of src/core that stories and simulator take.

BUILD was built with coverage, and has run. At least 95 % must be taken, and exactly the lines
with a branch that was not taken must be listed below, with the reason. Assertions are
left out: none of them may fail.
"""
import json
import subprocess
import sys

LEAST = 95

ENUMS = "the enumeration has no further value"
WELL_FORMED = "every marker of the model is one: the unit tests have others"
FEW_TEXTS = "the model has few malformed answers: the unit tests have the others"
ONE_SIZE = "all deployments of the model have five nodes"
REASONS = {
    ("admission.c", "bool is_empty = !member->marked && !member->garbled;"): WELL_FORMED,
    ("admission.c", "if (member->state != RL_MEMBER_QUARANTINED || until == RL_NEVER)"):
        "the length of a quarantine is for people",
    ("admission.c", "if (only && only->deployment != member->marker.roster.deployment)"):
        "the model has one deployment at a time",
    ("fault.c", "fault == RL_FAULT_NOPERM || fault == RL_FAULT_PROTECTED;"):
        "no server of the model is protected",
    ("fault.c", "return i == len || text[i] == ' ';"): "no error of the model is a prefix of another",
    ("fault.c", "return fault < RL_FAULT_COUNT ? faults[fault].name : \"?\";"): "names are for people",
    ("fault.c", "return fault < RL_FAULT_COUNT ? faults[fault].text : \"?\";"): "there is no such fault",
    ("kind.c", "for (; at < end && *at >= '0' && *at <= '9' && at - first < ANSWER_DIGITS; at++)"):
        FEW_TEXTS,
    ("kind.c", "if (at == first || (is_last ? at != end : at == end || *at++ != ' '))"): FEW_TEXTS,
    ("kind.c", "number[1] >= RL_NEVER / RL_SECOND || number[2] >= RL_SECOND)"): FEW_TEXTS,
    ("kind.c", "reply->item[1].integer < 0)"): "no server's time of day is before 1970",
    ("lease.c", "switch (event->command) {"): ENUMS,
    ("lease.c", "switch (event->type) {"): ENUMS,
    ("lease_acquire.c", "switch (rl_round_evaluate(&lease->round, lease->params->q)) {"): ENUMS,
    ("lease_hold.c", "switch (late && result == RL_ROUND_WON ? RL_ROUND_LOST : result) {"):
        ENUMS + "; what is late has no waiting nodes, so it is lost or won",
    ("lease_hold.c", "return lease->decided || !lease->round.waiting;"):
        "a round without waiting nodes is decided",
    ("lease.c", "return lease->held ? lease->fence : 0;"): "it is read from leases that are held",
    ("link.c", "return link->state != RL_LINK_READY || oldest < link->oldest ||"):
        "replies come in the order of the commands: the next pending one was not sent earlier",
    ("link.c", "switch (link->state) {"): ENUMS,
    ("link.c", "switch (event->type) {"): ENUMS,
    ("marker.c", "if (reader->at < reader->end && *reader->at == c)"): WELL_FORMED,
    ("marker.c", "if (c >= '0' && c <= '9')"): WELL_FORMED,
    ("marker.c", "return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;"): WELL_FORMED,
    ("marker.c", "while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {"): WELL_FORMED,
    ("marker.c", "if (value > most) {"): WELL_FORMED,
    ("marker.c", "if (reader->at >= reader->end || hex_value(*reader->at) < 0) {"): WELL_FORMED,
    ("marker.c", "while (reader->at < reader->end && !reader->bad && roster->n < RL_NODES_MAX) {"): WELL_FORMED,
    ("marker.c", "return len == text.len && memcmp(again, text.text, len) == 0;"): WELL_FORMED,
    ("marker.c", "if (reader.bad || reader.at != reader.end || marker.index >= marker.roster.n ||"): WELL_FORMED,
    ("marker.c", "marker.roster.deployment == 0 || rl_marker_self(&marker).generation == 0 ||"): WELL_FORMED,
    ("marker.c", "!is_canonical(&marker, text))"): WELL_FORMED,
    ("pace.c", "if (excess > slack || sent - since >= RL_PACE_STILL) {"):
        "rare: a clock that stands still and is not yet behind by more than keys tolerate",
    ("quorum.c", "(ballot->vote == RL_VOTE_HELD || (absent && ballot->vote == RL_VOTE_ABSENT));"):
        "when nodes that are quarantined vote again is for people",
    ("retry.c", "switch (retry->kind) {"): ENUMS,
    ("membership.c", "return member->marked && roster->n == membership->params.n &&"): ONE_SIZE,
    ("membership.c", "same += member->greeted && member->marked && member->marker.roster.n == roster->n &&"):
        ONE_SIZE,
    ("membership.c", "if (!member->greeted || !member->marked || roster->n != n ||"): ONE_SIZE,
    ("membership.c", "if (member->garbled || (member->marked && marker->roster.n != membership->params.n))"):
        ONE_SIZE,
    ("membership.c", "bool read = text.len > 0 && rl_marker_read(text, &marker);"): WELL_FORMED,
    ("membership.c", "bool is_another = nonce != member->nonce || member->garbled != (text.len > 0 && !read);"):
        WELL_FORMED,
    ("membership.c", "member->garbled = text.len > 0 && !read;"): WELL_FORMED,
    ("membership.c", "answer->vote != RL_VOTE_GRANTED)"):
        "rare: an old marker comes back while a command with its nonce is under way",
    ("membership.c", "if (ppm < RL_CLOCK_PPM)"): "the drift of fenced runs is just that",
    ("membership_commands.c", "while (index < membership->params.n && is_taken(membership, node, index))"):
        "the caller has a node without a member index, so one is free",
    ("membership_commands.c", "switch (member->state) {"): ENUMS,
    ("membership_commands.c", "bool at_once = membership->admission == RL_ADMIT_AT_ONCE && !membership->lost_race &&"):
        "of two clients that admit at once the model has one",
    ("membership_commands.c", "if (!membership->active)"): "clients of fenced runs are active from the beginning on",
    ("membership_commands.c", "for (unsigned i = 0; i < membership->params.n && membership->active; i++) {"):
        "clients of fenced runs are active from the beginning on",
}


def measure(build):
    run = subprocess.run(
        ["gcovr", "--root", ".", "--filter", "src/core/", "--branches", "--json",
         "--exclude-branches-by-pattern", r".*assert\(.*", build],
        check=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout)["files"]


def missed_lines(file, source):
    for line in file["lines"]:
        branches = line.get("branches", [])
        missed = sum(1 for branch in branches if branch["count"] == 0)
        if missed:
            yield line["line_number"], source[line["line_number"] - 1].strip(), missed


def main(build):
    taken = total = 0
    unexplained = set()
    explained = set()
    for file in measure(build):
        counts = [b["count"] for line in file["lines"] for b in line.get("branches", [])]
        total += len(counts)
        taken += sum(1 for count in counts if count > 0)
        with open(file["file"], encoding="utf-8") as text:
            source = text.read().split("\n")
        name = file["file"].rsplit("/", 1)[-1]
        for number, line, missed in missed_lines(file, source):
            reason = REASONS.get((name, line))
            (explained if reason else unexplained).add((name, line))
            print(f"{name}:{number}: {missed} not taken: {reason or 'NO REASON IS GIVEN'}\n    {line}")
    for name, line in sorted(set(REASONS) - explained):
        print(f"{name}: taken by now: {line}")
    percent = 100 * taken / max(total, 1)
    print(f"{taken} of {total} branches of src/core: {percent:.1f} %")
    return 0 if percent >= LEAST and not unexplained else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
