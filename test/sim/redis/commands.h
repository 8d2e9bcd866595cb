/* Each executes one command, whose number of words is right. */
#ifndef SIM_REDIS_COMMANDS_H
#define SIM_REDIS_COMMANDS_H

#include "command.h"

/* key_commands.c */
void command_get(struct call *call);
void command_set(struct call *call);
void command_del(struct call *call);
void command_exists(struct call *call);
void command_getrange(struct call *call);
void command_type(struct call *call);
void command_pttl(struct call *call);
void command_pexpire(struct call *call);
void command_pexpiretime(struct call *call);
void command_rpush(struct call *call);
void command_scan(struct call *call);
void command_flushall(struct call *call);

/* zset_commands.c */
void command_zadd(struct call *call);
void command_zrange(struct call *call);
void command_zrem(struct call *call);
void command_zscore(struct call *call);

/* hash_commands.c */
void command_hset(struct call *call);
void command_hincrby(struct call *call);
void command_hexists(struct call *call);
void command_hdel(struct call *call);
void command_hlen(struct call *call);
void command_hkeys(struct call *call);
void command_hgetall(struct call *call);
void command_hstrlen(struct call *call);

/* script_commands.c */
void command_eval(struct call *call);
void command_evalsha(struct call *call);
void command_script_load(struct call *call);
void command_script_exists(struct call *call);
void command_script_flush(struct call *call);

/* link_commands.c */
void command_auth(struct call *call);
void command_select(struct call *call);
void command_ping(struct call *call);
void command_client_setname(struct call *call);
void command_subscribe(struct call *call);
void command_publish(struct call *call);

/* server_commands.c */
void command_time(struct call *call);
void command_info(struct call *call);
void command_config_get(struct call *call);

#endif
