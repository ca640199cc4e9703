//! A process under measurement: started here, measured through /proc, ended with its owner.
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The kernel counts CPU time in these, on every Linux that matters.
const TICKS_PER_SECOND: f64 = 100.0;

pub struct Process {
    child: Child,
}

impl Process {
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: command.spawn().with_context(|| format!("start {program}"))? })
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&self.child.id().to_string())
    }

    /// Memory that is its own, in MiB.
    pub fn memory_mib(&self) -> anyhow::Result<f64> {
        memory_of(&self.child.id().to_string())
    }

    /// Asks it to end, and waits.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time that this process has used so far.
pub fn own_cpu() -> anyhow::Result<Duration> {
    cpu_of("self")
}

/// How long the processors of the machine have rested so far, all of them together.
pub fn rest() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().context("read /proc/stat")?;
    // cpu, user, nice, system, then idle and waiting for a disk.
    let ticks: f64 =
        all.split_whitespace().skip(4).take(2).filter_map(|f| f.parse::<f64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
}

/// Memory of this process, in MiB.
pub fn own_memory_mib() -> anyhow::Result<f64> {
    memory_of("self")
}

fn cpu_of(process: &str) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("read /proc/PID/stat")?;
    let ticks: f64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
}

fn memory_of(process: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}

/// The `orrery` binary that was built beside this benchmark.
pub fn orrery() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let path = here.parent().unwrap_or(Path::new(".")).join("orrery");
    anyhow::ensure!(path.exists(), "{} is missing: build it first", path.display());
    Ok(path)
}

/// A port that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until something listens there.
pub async fn listening(port: u16) -> anyhow::Result<()> {
    for _ in 0..3000 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("nothing listens on port {port}")
}
