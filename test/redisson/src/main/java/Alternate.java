/*
 * Locks a key by a RedissonRedLock of one RLock per node, again and again, until its stdin
 * ends. In the lock it makes a directory, which must not be there, and reads who had the lock
 * before. For each lock it prints who that was, for how long that one has been done, in ms, and
 * whether the directory was there.
 */
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Alternate {
    private static final int GIVE_WAY_MS = 40; // the other side tries again within that

    private static RedissonClient connect(String uri) {
        Config config = new Config();
        config.useSingleServer().setAddress(uri);
        return Redisson.create(config);
    }

    /* "WHO TIME_MS": who had the lock before, and until when. */
    private static void work(Path section, Path last) throws IOException {
        boolean overlaps = false;
        long now = System.currentTimeMillis();
        try {
            Files.createDirectory(section);
        } catch (FileAlreadyExistsException e) {
            overlaps = true;
        }
        String[] before = Files.exists(last) ? Files.readString(last).trim().split(" ")
                                             : new String[] {"nobody", "0"};
        System.out.println(before[0] + " " + (now - Long.parseLong(before[1])) + " "
                           + (overlaps ? 1 : 0));
        Files.writeString(last, "redisson " + System.currentTimeMillis() + "\n");
        if (!overlaps)
            Files.delete(section);
    }

    @SuppressWarnings("deprecation")
    public static void main(String[] arguments) throws Exception {
        Path section = Path.of(arguments[0], "section"), last = Path.of(arguments[0], "last");
        RedissonClient[] clients = Stream.of(System.getenv("REDLOCK_NODES").split(","))
                                       .map(Alternate::connect)
                                       .toArray(RedissonClient[]::new);
        RLock[] locks = Stream.of(clients)
                            .map(client -> client.getLock(arguments[1]))
                            .toArray(RLock[]::new);
        System.out.println("ready");
        while (System.in.available() == 0) {
            RedissonRedLock lock = new RedissonRedLock(locks);
            lock.lock();
            work(section, last);
            lock.unlock();
            Thread.sleep(GIVE_WAY_MS);
        }
        Stream.of(clients).forEach(RedissonClient::shutdown);
    }
}
