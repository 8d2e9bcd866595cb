/*
 * Does what docs/kinds.md says not to do with a key of this library, on each node by itself.
 * Reads lines "WHAT KEY" and prints for each on how many nodes the call returned true, or what
 * it threw.
 */
import java.time.Duration;
import java.util.List;
import java.util.Scanner;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RExpirable;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Combine {
    private static final int CUT_MS = 700;

    private static RedissonClient connect(String uri) {
        Config config = new Config();
        config.useSingleServer().setAddress(uri);
        return Redisson.create(config);
    }

    private static boolean does(RedissonClient client, String what, String key) {
        RLock lock = client.getLock(key);
        switch (what) {
        case "lock":
            return lock.tryLock();
        case "unlock":
            lock.unlock();
            return true;
        case "write":
            return client.getReadWriteLock(key).writeLock().tryLock();
        case "faster":
            return client.getMultiLock(key, List.of("field")).tryLock();
        case "fair":
            return client.getFairLock(key).tryLock();
        case "expire": // as after an acquire with a lease time
            return ((RExpirable) lock).expire(Duration.ofMillis(CUT_MS));
        case "force":
            return lock.forceUnlock();
        default:
            throw new IllegalArgumentException(what);
        }
    }

    private static String said(RedissonClient[] clients, String what, String key) {
        int times = 0;
        try {
            for (RedissonClient client : clients)
                times += does(client, what, key) ? 1 : 0;
        } catch (RuntimeException e) {
            return String.valueOf(e.getMessage()).lines().findFirst().orElse("");
        }
        return String.valueOf(times);
    }

    public static void main(String[] arguments) {
        RedissonClient[] clients = Stream.of(System.getenv("REDLOCK_NODES").split(","))
                                       .map(Combine::connect)
                                       .toArray(RedissonClient[]::new);
        System.out.println("ready");
        try (Scanner lines = new Scanner(System.in)) {
            while (lines.hasNext())
                System.out.println(said(clients, lines.next(), lines.next()));
        }
        Stream.of(clients).forEach(RedissonClient::shutdown);
    }
}
