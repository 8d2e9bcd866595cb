/*
 * Plays what a real client has recorded to a simulated client, and compares their records.
 *
 * One client in virtual time, with as many nodes as the dump names. What came from outside
 * happens at the times of the dump: the caller's requests, connections that were made or
 * ended, greetings, replies, notifications. The client stands still between these times, so
 * that it is as late as the real one was. All else must follow: rounds, results, losses.
 */
#ifndef SIM_REPLAY_H
#define SIM_REPLAY_H

#define REPLAY_SAME         0
#define REPLAY_DIFFERS      1
#define REPLAY_BAD_DUMP     65 /* as in sysexits.h */
#define REPLAY_NO_FILE      66
#define REPLAY_NOT_PLAYABLE 69 /* the dump lacks what would be needed */

/* Prints the record of the replay and the first difference. Returns one of these codes. */
int replay(const char *path);

#endif
