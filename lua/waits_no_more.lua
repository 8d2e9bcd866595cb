-- part: reads intents, queue, waiter
-- Takes a client that waited as a writer, and has downgraded, off the queue.
redis.pcall('ZREM', queue, waiter)
redis.pcall('ZREM', intents, waiter)
