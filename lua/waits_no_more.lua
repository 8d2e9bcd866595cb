-- part: reads intents, queue, waiter
-- A client that waited as a writer, and has downgraded.
redis.pcall('ZREM', queue, waiter)
redis.pcall('ZREM', intents, waiter)
