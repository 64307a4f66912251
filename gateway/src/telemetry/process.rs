//! Resource usage of the process, under the reference's names for nginx processes and the usual
//! `process_*` names.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts, Registry};

use super::error::TelemetryError;
use super::options::TelemetryOptions;

/// The library counts whole seconds of CPU time, of which a rate over a minute is 0 or jumps.
const CPU_SECONDS: &str = "process_cpu_seconds_total";

struct Process {
    /// All `process_*` metrics apart from the CPU time.
    usual: ProcessCollector,
    usual_cpu: Counter,
    processes: Gauge,
    cpu: Counter,
    resident: Gauge,
    virtual_memory: Gauge,
    start: Gauge,
    read: Counter,
    written: Counter,
}

pub(super) fn register(options: &TelemetryOptions, registry: &Registry) -> Result<(), TelemetryError> {
    let opts = |name: &str, help: &str| -> Opts { super::reference_opts(options, name, help) };
    registry.register(Box::new(Process {
        usual: ProcessCollector::for_self(),
        usual_cpu: Counter::new(CPU_SECONDS, "Total user and system CPU time spent in seconds.")?,
        processes: Gauge::with_opts(opts("nginx_process_num_procs", "Serving processes; always 1."))?,
        cpu: Counter::with_opts(opts("nginx_process_cpu_seconds_total", "CPU time, seconds."))?,
        resident: Gauge::with_opts(opts("nginx_process_resident_memory_bytes", "Memory in RAM."))?,
        virtual_memory: Gauge::with_opts(opts("nginx_process_virtual_memory_bytes", "Address space."))?,
        start: Gauge::with_opts(opts(
            "nginx_process_oldest_start_time_seconds",
            "When the process started, Unix seconds.",
        ))?,
        read: Counter::with_opts(opts("nginx_process_read_bytes_total", "Bytes read from storage."))?,
        written: Counter::with_opts(opts("nginx_process_write_bytes_total", "Bytes written to storage."))?,
    }))?;
    Ok(())
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        // Those of the library include one for the CPU time.
        let mut all = self.usual.desc();
        all.extend(self.processes.desc());
        all.extend(self.cpu.desc());
        all.extend(self.resident.desc());
        all.extend(self.virtual_memory.desc());
        all.extend(self.start.desc());
        all.extend(self.read.desc());
        all.extend(self.written.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.processes.set(1.0);
        let seconds = cpu_seconds();
        raise(&self.cpu, seconds);
        raise(&self.usual_cpu, seconds);
        let mut all = self.usual_cpu.collect();
        all.extend(self.usual.collect().into_iter().filter(|family| family.name() != CPU_SECONDS));
        for family in &all {
            let Some(metric) = family.get_metric().first() else { continue };
            match family.name() {
                "process_resident_memory_bytes" => self.resident.set(metric.get_gauge().get_value()),
                "process_virtual_memory_bytes" => self.virtual_memory.set(metric.get_gauge().get_value()),
                "process_start_time_seconds" => self.start.set(metric.get_gauge().get_value()),
                _ => (),
            }
        }
        // The file is absent on kernels without I/O accounting; both counters then remain 0.
        for line in std::fs::read_to_string("/proc/self/io").unwrap_or_default().lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let counter = match name {
                "read_bytes" => &self.read,
                "write_bytes" => &self.written,
                _ => continue,
            };
            raise(counter, value.parse().unwrap_or_default());
        }
        all.extend(self.processes.collect());
        all.extend(self.cpu.collect());
        all.extend(self.resident.collect());
        all.extend(self.virtual_memory.collect());
        all.extend(self.start.collect());
        all.extend(self.read.collect());
        all.extend(self.written.collect());
        all
    }
}

/// Returns the CPU time of all threads, in seconds.
fn cpu_seconds() -> f64 {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn raise(counter: &Counter, value: f64) {
    counter.reset();
    counter.inc_by(value);
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use sluice_testing::wait::await_until;

    use super::*;

    #[test]
    fn cpu_time_has_fractions_of_a_second() {
        let registry = Registry::new();
        register(&TelemetryOptions::default(), &registry).unwrap();
        // The test process has used some time before, and uses more until the value is no integer.
        let values = || -> Vec<f64> {
            let families = registry.gather();
            let cpu = families.iter().filter(|family| family.name().ends_with("cpu_seconds_total"));
            cpu.map(|family| family.get_metric()[0].get_counter().get_value()).collect()
        };
        let has_fraction = |value: &f64| value.fract() > 0.0;
        await_until("fractions", || {
            black_box((0..10_000).sum::<u64>());
            values().iter().all(has_fraction)
        });
        assert_eq!(values().len(), 2);
    }
}
