/*
 * Redisson's RedissonRedLock. It is deprecated, but all of Redisson that is a lock on a
 * majority of independent nodes: it is a RedissonMultiLock that may fail on a minority.
 *
 * A cycle: nodes are asked for the lock one after another, all of them. Where the lock has a
 * TTL of its own, it is set again on all. The release asks all at once, and returns when all
 * have answered.
 *
 * default: lock(10 s) and unlock() in as many threads as there are lanes.
 * best: its asynchronous calls, so that no thread waits. The TTL is that of the watchdog
 * (which at 10 s has nothing to do within a cycle), for this spares setting it again. One
 * thread and native epoll for the connections of all nodes, as many as lanes; no pings, no
 * questions about replicas.
 */
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.EpollIoHandler;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.TransportMode;

public final class Driver {
    private static final long TTL_MS = 10000;
    private static final int LANES_MAX = 64;
    private static final int EXECUTOR_THREADS = 2;

    private final RedissonClient[] clients;

    private Driver(boolean best) {
        String[] uris = System.getenv("REDLOCK_NODES").split(",");
        EventLoopGroup loop =
            best ? new MultiThreadIoEventLoopGroup(1, EpollIoHandler.newFactory()) : null;
        ExecutorService executor =
            best ? Executors.newFixedThreadPool(EXECUTOR_THREADS) : null;
        clients = Stream.of(uris).map(uri -> {
            Config config = new Config();
            config.useSingleServer().setAddress(uri);
            if (best) {
                config.setTransportMode(TransportMode.EPOLL).setEventLoopGroup(loop)
                    .setExecutor(executor).setLockWatchdogTimeout(TTL_MS)
                    .setCheckLockSyncedSlaves(false);
                config.useSingleServer().setConnectionPoolSize(LANES_MAX)
                    .setConnectionMinimumIdleSize(LANES_MAX).setPingConnectionInterval(0);
            }
            return Redisson.create(config);
        }).toArray(RedissonClient[]::new);
    }

    @SuppressWarnings("deprecation")
    private RLock lock(String key) {
        return new RedissonRedLock(
            Stream.of(clients).map(client -> client.getLock(key)).toArray(RLock[]::new));
    }

    /* --- lanes --- */

    private final class Lane {
        private final int number;
        private long count;
        private int failed, cycles;
        private long[] times = new long[1 << 16]; // ns

        private Lane(int number) {
            this.number = number;
        }

        private void clear() {
            failed = cycles = 0;
        }

        private RLock next() {
            return lock(String.format("bench:%04d:%010d", number, ++count));
        }

        private void note(long began, boolean succeeded) {
            if (!succeeded) {
                failed++;
                return;
            }
            if (cycles == times.length)
                times = Arrays.copyOf(times, 2 * cycles);
            times[cycles++] = System.nanoTime() - began;
        }

        /** As long as the time is not over; the thread waits for each answer. */
        private void run(long end) {
            for (long began; (began = System.nanoTime()) - end < 0;) {
                RLock lock = next();
                boolean succeeded = true;
                try {
                    lock.lock(TTL_MS, TimeUnit.MILLISECONDS);
                    lock.unlock();
                } catch (RuntimeException e) {
                    succeeded = false;
                }
                note(began, succeeded);
            }
        }

        /** The same, but no thread waits. */
        private void runAsync(long end, CompletableFuture<Void> over) {
            long began = System.nanoTime();
            if (began - end >= 0) {
                over.complete(null);
                return;
            }
            RLock lock = next();
            lock.tryLockAsync(number)
                .thenCompose(held -> held
                    ? lock.unlockAsync(number).thenApply(done -> true)
                    : CompletableFuture.completedFuture(false))
                .whenComplete((succeeded, failure) -> {
                    note(began, failure == null && succeeded);
                    runAsync(end, over);
                });
        }

        private CompletableFuture<Void> startAsync(long end) {
            CompletableFuture<Void> over = new CompletableFuture<>();
            runAsync(end, over);
            return over;
        }
    }

    /* --- laps --- */

    private static void lap(Lane[] lanes, double seconds, boolean best)
            throws InterruptedException {
        var system = (com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean();
        Stream.of(lanes).forEach(Lane::clear);
        long cpu = system.getProcessCpuTime(), began = System.nanoTime();
        long end = began + (long) (seconds * 1e9);
        if (best) {
            CompletableFuture.allOf(Stream.of(lanes)
                .map(lane -> lane.startAsync(end))
                .toArray(CompletableFuture[]::new)).join();
        } else {
            Thread[] threads = Stream.of(lanes).map(lane -> new Thread(() -> lane.run(end)))
                .toArray(Thread[]::new);
            for (Thread thread : threads)
                thread.start();
            for (Thread thread : threads)
                thread.join();
        }
        long took = System.nanoTime() - began;
        cpu = system.getProcessCpuTime() - cpu;

        long[] times = Stream.of(lanes)
            .flatMapToLong(lane -> LongStream.of(lane.times).limit(lane.cycles))
            .sorted().toArray();
        System.out.printf(Locale.ROOT, "{\"cycles\": %d, \"failed\": %d, \"seconds\": %f, "
            + "\"p50_us\": %f, \"p99_us\": %f, \"cpu_s\": %f}%n", times.length,
            Stream.of(lanes).mapToInt(lane -> lane.failed).sum(), took / 1e9,
            at(times, 50), at(times, 99), cpu / 1e9);
        System.out.flush();
    }

    private static double at(long[] times, int share) {
        return times.length == 0 ? 0 : times[(int) ((long) times.length * share / 100)] / 1e3;
    }

    private static void run(boolean best) throws IOException, InterruptedException {
        Driver driver = new Driver(best);
        RLock first = driver.lock("bench:first");
        first.lock(TTL_MS, TimeUnit.MILLISECONDS);
        first.unlock();
        Lane[] lanes = new Lane[LANES_MAX];
        Arrays.setAll(lanes, number -> driver.new Lane(number));
        System.out.println("ready");
        System.out.flush();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = orders.readLine()) != null;) {
            String[] words = line.split(" ");
            lap(Arrays.copyOf(lanes, Integer.parseInt(words[0])),
                Double.parseDouble(words[1]), best);
        }
    }

    /** Ends by exit(), as threads of Redisson would go on. */
    public static void main(String[] args) {
        try {
            run(args[0].equals("best"));
        } catch (Exception e) {
            System.err.println("redisson: " + e);
            System.exit(1);
        }
        System.exit(0);
    }
}
