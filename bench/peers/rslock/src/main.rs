//! rslock on redis-rs; a lane is a tokio task.
//!
//! A cycle: lock() and unlock() return when all nodes have answered. unlock() does not tell
//! whether anything was released.
//!
//! default: tokio's runtime of as many threads as there are cores, and clones of one
//! manager. best: a runtime of one thread, which spares waking others, and a manager for
//! every 16 lanes: each has one connection to a node, and sends together what its lanes want.

use rslock::{LockError, LockManager};
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TTL: Duration = Duration::from_secs(10);
const LANES_MAX: usize = 64;
const LANES_OF_A_MANAGER: usize = 16;

struct Lane {
    manager: LockManager,
    number: usize,
    count: u64,
    failed: u64,
    times: Vec<u64>, // ns
}

async fn cycle(manager: &LockManager, key: &str) -> std::result::Result<(), LockError> {
    let lock = manager.lock(key, TTL).await?;
    manager.unlock(&lock).await;
    Ok(())
}

impl Lane {
    async fn run(mut self, end: Instant) -> Lane {
        self.failed = 0;
        self.times.clear();
        loop {
            let began = Instant::now();
            if began >= end {
                return self;
            }
            self.count += 1;
            let key = format!("bench:{:04}:{:010}", self.number, self.count);
            match cycle(&self.manager, &key).await {
                Ok(()) => self.times.push(began.elapsed().as_nanos() as u64),
                Err(_) => self.failed += 1,
            }
        }
    }
}

fn cpu_seconds() -> f64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `used` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn lap(runtime: &Runtime, lanes: Vec<Lane>, seconds: f64) -> Result<Vec<Lane>> {
    let (cpu, began) = (cpu_seconds(), Instant::now());
    let end = began + Duration::from_secs_f64(seconds);
    let lanes = runtime.block_on(async {
        let start = |lane: Lane| tokio::spawn(lane.run(end));
        let running: Vec<_> = lanes.into_iter().map(start).collect();
        let mut ended = Vec::new();
        for lane in running {
            ended.push(lane.await?);
        }
        Ok::<_, JoinError>(ended)
    })?;
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);

    let of_all = lanes.iter().flat_map(|lane| lane.times.iter().copied());
    let mut times: Vec<u64> = of_all.collect();
    times.sort_unstable();
    let at = |share: usize| match times.get(times.len() * share / 100) {
        Some(&ns) => ns as f64 / 1e3,
        None => 0.0,
    };
    println!(
        "{{\"cycles\": {}, \"failed\": {}, \"seconds\": {took}, \"p50_us\": {}, \
         \"p99_us\": {}, \"cpu_s\": {cpu}}}",
        times.len(),
        lanes.iter().map(|lane| lane.failed).sum::<u64>(),
        at(50),
        at(99)
    );
    std::io::stdout().flush()?;
    Ok(lanes)
}

fn main() -> Result<()> {
    let best = std::env::args().nth(1).as_deref() == Some("best");
    let nodes = std::env::var("REDLOCK_NODES")?;
    let uris: Vec<&str> = nodes.split(',').collect();
    let (mut builder, share) = if best {
        (Builder::new_current_thread(), LANES_OF_A_MANAGER)
    } else {
        (Builder::new_multi_thread(), LANES_MAX)
    };
    let runtime = builder.enable_all().build()?;
    let managers: Vec<LockManager> = (0..LANES_MAX / share)
        .map(|_| LockManager::new(uris.clone()))
        .collect();
    for manager in &managers {
        runtime.block_on(cycle(manager, "bench:first"))?;
    }
    let mut lanes: Vec<Lane> = (0..LANES_MAX)
        .map(|number| Lane {
            manager: managers[number / share].clone(),
            number,
            count: 0,
            failed: 0,
            times: Vec::new(),
        })
        .collect();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (count, seconds) = line.split_once(' ').ok_or("no order")?;
        let idle = lanes.split_off(count.parse()?);
        lanes = lap(&runtime, lanes, seconds.parse()?)?;
        lanes.extend(idle);
    }
    Ok(())
}
